"""The list of a producer's key and a table to which workers report how the table's tasks ended, and the mark that says which table feeds the
key. Two databases may have a table of one name, so each has a list of its own, and they have one mark.

Both are for whoever feeds the tasks: `Producer` pushes them, this reads what became of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b

from gossamer.errors import MemoryLimitReached
from gossamer.frontier.call import function_call, text
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.producer import short
from gossamer.frontier.server import keys


class TaskReports:
    """Reads and shortens the list of a table of a database."""

    def __init__(self, function_client: FunctionClient, key: str, table: str, database: str) -> None:
        self._function_client, self._connection, self._key = function_client, function_client.connection, key
        self._lists, self._database = keys.task_reports(key, table), database
        self._mark = keys.task_database(self._lists)
        self._tag, self._known = blake2b(database.encode(), digest_size=6).hexdigest(), False

    @property
    def name(self) -> str:
        """The key of the list. That of a table that has moved is named after its first database: tasks under way report to it."""
        return f"{self._lists}:{self._tag}"

    def first(self, most: int) -> list[bytes]:
        """The oldest reports; they stay in the list until `end` removes them."""
        found: list[bytes] = self._connection.execute("LRANGE", self.name, 0, most - 1, key=self.name)
        return found

    def task_key(self, row: str) -> str:
        """What the task of a row is known by among all tasks of the key."""
        return f"{self.name} {row}"

    def end(self, ended: Sequence[str] = (), lost: Sequence[str] = (), reports: Sequence[bytes] = ()) -> str:
        """Forget the tasks of rows that ended, with the reports of their end, and of rows that are lost. Returns a letter for each lost
        row: `f` its task is forgotten, `w` it waits again."""
        header = {
            "ended": [short(self.task_key(row)) for row in ended],
            "lost": [short(self.task_key(row)) for row in lost],
            "reports": len(reports),
        }
        names = [*keys.task_keys(self._key), self.name]
        [reply] = self._function_client.ask([function_call("end_tasks", names, header, *reports)])
        return text(reply)

    def owner(self) -> str:
        """The database whose table feeds the key; empty if none does."""
        return self._held()[1]

    def claim(self) -> str:
        """Let this database feed the key if none does; returns which does now."""
        tag, owner = self._held()
        if not owner:
            # A full server is no reason to leave its reports there.
            with suppress(MemoryLimitReached):
                self._connection.execute("SET", self._mark, self._said(), "NX", key=self._mark)
            tag, owner = self._held()
        if owner == self._database:
            self._know(tag)
        return owner

    def take(self) -> None:
        """Let this database feed the key, whichever did: it is the same table."""
        self._know(self._held()[0])
        self._connection.execute("SET", self._mark, self._said(), key=self._mark)

    def give_up(self) -> None:
        """Leave the key to any other, if this database feeds it."""
        if self.owner() == self._database:
            self._connection.execute("DEL", self._mark, key=self._mark)

    def _know(self, tag: str) -> None:
        """Once: what reads the list relies on its name."""
        if tag and not self._known:
            self._tag, self._known = tag, True

    def _said(self) -> str:
        return f"{self._tag} {self._database}"

    def _held(self) -> tuple[str, str]:
        held = self._connection.execute("GET", self._mark, key=self._mark)
        tag, _, owner = (held.decode("utf-8", "replace") if isinstance(held, bytes) else "").partition(" ")
        return tag, owner
