"""Which table feeds a key: two databases may have a table of one name."""

from __future__ import annotations

from gossamer.errors import TableMismatch
from gossamer.frontier.task_reports import TaskReports
from gossamer.frontier.valkey import ValkeyFrontier


class ReportList:
    """The list of a key and of a table of one database, `reports`. The table feeds the key until that is given up, also when its feeder dies:
    whoever comes under another address may be the same table."""

    def __init__(self, frontier: ValkeyFrontier, key: str, table: str, place: str) -> None:
        self._key, self._table, self._place = key, table, place
        self.reports = TaskReports(frontier, key, table, place)

    def keep(self) -> None:
        """TableMismatch if the table of another database feeds the key. To be called again and again: a server may go back."""
        owner = self.reports.claim()
        if owner not in ("", self._place):
            raise TableMismatch(
                f"A table {self._table} of another database feeds the key {self._key}, and its tasks are not done: {owner}. This one is in "
                f"{self._place}. Two tables of one name need different keys. If it is the same table, under another address, add --moved."
            )

    def take(self) -> None:
        """From now on the table is in this database, wherever it was."""
        self.reports.take()

    def give_up(self) -> None:
        """Nothing of the table is open any more."""
        self.reports.give_up()
