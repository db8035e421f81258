"""A command as tests run it, and what it said."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol


class Said(NamedTuple):
    """What a command wrote."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table without its head."""
        return [line.split("\t") for line in self.out.splitlines()[1:]]


class Command(Protocol):
    """Runs a command in this process; `code` is the exit code it must have, `given` its standard input."""

    def __call__(self, *words: object, code: int = 0, given: str | bytes = "") -> Said: ...
