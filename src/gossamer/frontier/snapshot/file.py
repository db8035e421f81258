"""The lines of a file that `gossamer export` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from gossamer.errors import SnapshotError
from gossamer.frontier.snapshot import line
from gossamer.frontier.snapshot.export import Line


class TextInput(Protocol):
    def __iter__(self) -> Iterator[bytes]: ...


class SnapshotFile:
    """The lines of a file, numbered from 1, the header read. `cut` says that the last line is incomplete and was left out."""

    def __init__(self, name: str, lines: TextInput) -> None:
        self.name, self.number, self.size, self.cut = name, 0, 0, False
        self._lines = iter(lines)
        self.header = next(self.rows(), None) or self._fail("it is empty")
        if self.header.get("gossamer") != "snapshot":
            self._fail("it does not begin with the header of a snapshot; name a file that `gossamer export` wrote")
        if self.header.get("format") != line.FORMAT:
            self._fail(
                f"its format is {self.header.get('format')!r}, this Gossamer reads {line.FORMAT}; use a newer one"
            )

    def rows(self) -> Iterator[Line]:
        for raw in self._lines:
            self.number += 1
            self.size += len(raw)
            if not raw.strip():
                continue
            try:
                row = json.loads(raw)
                if not isinstance(row, dict):
                    raise ValueError("it is not an object")
            except ValueError as error:
                if not raw.endswith(b"\n") and self.number > 1:
                    # Not counted: a whole line may stand there the next time.
                    self.number, self.cut = self.number - 1, True
                    return
                self._fail(f"this line is not JSON ({error}); correct or remove it")
            yield row

    def _fail(self, what: str) -> Any:
        raise SnapshotError(f"{self.name}, line {max(1, self.number)}: {what}.")
