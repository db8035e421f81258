"""What a project written for scrapy-redis uses, what of it needs a decision, and the same project on gossamer.scrapy_redis."""

from gossamer.migrate.scrapy_redis.finding import Edit, Finding, FindingVerdict
from gossamer.migrate.scrapy_redis.project import Project
from gossamer.migrate.scrapy_redis.rules import RULES
from gossamer.migrate.scrapy_redis.scan import ScanReport, scan

__all__ = ["RULES", "Edit", "Finding", "FindingVerdict", "Project", "ScanReport", "scan"]
