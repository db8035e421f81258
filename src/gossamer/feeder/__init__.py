"""Tasks fed from a SQL table, and their state taken back to it."""

from gossamer.feeder.feeder import FeedCounts, TableFeeder
from gossamer.feeder.report_list import ReportList
from gossamer.feeder.row_task import RowTask

__all__ = ["FeedCounts", "ReportList", "RowTask", "TableFeeder"]
