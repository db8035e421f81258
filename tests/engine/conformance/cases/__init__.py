"""The cases: what a site file means, whichever engine crawls it."""

from tests.engine.conformance.cases import content, downloads, failures, following, order, python, records, sources
from tests.engine.conformance.cases.case import CASES

__all__ = ["CASES", "content", "downloads", "failures", "following", "order", "python", "records", "sources"]
