"""What is checked before it is sent: whether the frontier takes a request, and what a page pushes to lists."""

from gossamer.frontier.verbs.control.tables import seen_table
from gossamer.frontier.verbs.lists import by_key, encodable
from gossamer.frontier.verbs.work.batch import PRIORITY_MAX, RequestChecker

__all__ = ["PRIORITY_MAX", "RequestChecker", "by_key", "encodable", "seen_table"]
