"""Whose list of reports it is: a key and the name of a table name one list, and two databases may have a table of that name."""

from __future__ import annotations

from contextlib import suppress

from gossamer.errors import MemoryLimitReached, TableMismatch
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier


class ReportList:
    """The list of a key and a table, for the table of one database. It stays its own until it is given up, also when its feeder dies:
    the reports of a table must not become those of another."""

    def __init__(self, frontier: ValkeyFrontier, key: str, table: str, place: str) -> None:
        self._connection, self._key, self._table, self._place = frontier.connection, key, table, place
        self._mark = keys.task_database(keys.task_reports(key, table))

    def keep(self) -> None:
        """TableMismatch if the list is that of another database. To be called again and again: a server may go back."""
        held = self._held()
        if not held:
            # A full server is no reason to leave its reports there.
            with suppress(MemoryLimitReached):
                self._connection.execute("SET", self._mark, self._place, "NX", key=self._mark)
            held = self._held()
        if held not in ("", self._place):
            raise TableMismatch(
                f"A table {self._table} of another database feeds the key {self._key}, and its tasks are not done: {held}. This one is in "
                f"{self._place}. Two tables of one name need different keys. If it is the same table, under another address, add --moved."
            )

    def take(self) -> None:
        """From now on it is the list of this database, whoever had it."""
        self._connection.execute("SET", self._mark, self._place, key=self._mark)

    def give_up(self) -> None:
        """Nothing of the table is open any more."""
        if self._held() == self._place:
            self._connection.execute("DEL", self._mark, key=self._mark)

    def _held(self) -> str:
        held = self._connection.execute("GET", self._mark, key=self._mark)
        return held.decode("utf-8", "replace") if isinstance(held, bytes) else ""
