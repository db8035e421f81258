"""How far a file of items has come: a small file beside it, so that an export may be killed at any moment.

`FILE.position` has one JSON object per line: the first says whose items these are, each other one how large the file was, and up
to which positions the items in it reach, when both had come to disk. The last whole line counts. What the file has beyond
that size was written and not finished; it is cut off and written again. Behind an export that came to its end, it is another program's
and stays: the last line says `closed` then.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from gossamer.errors import ExportStopped

_UNNAMED_BEFORE = "export"
"""What earlier versions called the consumer of an export without a name."""


class ExportPosition(NamedTuple):
    """The end of what is finished: size of the file, position by partition, columns if the format has any."""

    size: int = 0
    positions: Mapping[int, str] = {}
    fields: tuple[str, ...] | None = None


class PositionFile:
    """The file beside FILE, held by one export at a time."""

    def __init__(self, stream: IO[bytes], mark: ExportPosition, fresh: bool, closed: bool) -> None:
        self._stream, self.mark, self.fresh, self.closed = stream, mark, fresh, closed

    def set(self, mark: ExportPosition, closed: bool = False) -> None:
        """From now on this counts; when this returns it is on disk. `closed`: the export has come to its end."""
        row: dict[str, Any] = {
            "size": mark.size, "positions": {str(p): at for p, at in mark.positions.items()}, "fields": mark.fields
        }  # fmt: skip
        if closed:
            row["closed"] = True
        self._stream.write(json.dumps(row).encode() + b"\n")
        sync(self._stream)
        self.mark, self.closed = mark, closed


@contextlib.contextmanager
def held(path: Path, owner: Mapping[str, str]) -> Iterator[PositionFile]:
    """The marks of the file at `path` for this owner; `ExportStopped` if they belong to another consumer or are in use."""
    beside = Path(f"{path}.position")
    fd = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(fd, "r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportStopped(
                f"{path} is being written by another export. Wait for it, or name another file."
            ) from None
        rows, size = _rows(stream)
        if not rows:
            _refuse_feed(path, stream)
        elif not path.exists():
            # The file is gone: another one begins.
            rows, size = [], 0
        stream.truncate(size)
        stream.seek(size)
        if rows and rows[0].get("consumer") == _UNNAMED_BEFORE and not owner["consumer"]:
            rows[0]["consumer"] = ""
        if rows and rows[0] != dict(owner):
            raise ExportStopped(f"{path} has other items: {_named(rows[0])}. Name another file; nothing was changed.")
        if not rows:
            if path.exists() and path.stat().st_size > 0:
                beside.unlink()
                raise ExportStopped(f"{path} exists and was not written by an export. Name another file.")
            stream.write(json.dumps(dict(owner)).encode() + b"\n")
            sync(stream)
            _sync_directory(path)
        mark = _mark(rows[-1]) if len(rows) > 1 else ExportPosition()
        yield PositionFile(stream, mark, len(rows) < 2, bool(rows and rows[-1].get("closed")))


def _refuse_feed(path: Path, stream: IO[bytes]) -> None:
    """A feed of a fleet notes how far it has come under the same name: without that, its next run would write the file from the beginning."""
    stream.seek(0)
    try:
        noted = json.loads(stream.read())
        whose = f"group {noted['group']} of crawl {noted['crawl']}"
    except (ValueError, TypeError, KeyError):
        return
    raise ExportStopped(
        f"{path} is a feed of {whose}, which workers go on with. Name another file; nothing was changed."
    )


def sync(stream: IO[bytes]) -> None:
    """Bring what was written to disk."""
    stream.flush()
    os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    """Bring a new name to disk, too."""
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _rows(stream: IO[bytes]) -> tuple[list[dict[str, Any]], int]:
    """The whole lines, and where they end: a line that was cut off by a crash does not count."""
    rows, size = [], 0
    for line in stream:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
        if not line.endswith(b"\n"):
            rows.pop()
            break
        size += len(line)
    return rows, size


def _mark(row: Mapping[str, Any]) -> ExportPosition:
    fields = row["fields"]
    positions = {int(partition): str(at) for partition, at in row["positions"].items()}
    return ExportPosition(int(row["size"]), positions, None if fields is None else tuple(fields))


def _named(owner: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in owner.items() if value)
