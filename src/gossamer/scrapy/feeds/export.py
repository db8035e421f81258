"""Scrapy's exporter of a feed that goes on where it, or another process, has stopped."""

from __future__ import annotations

import contextlib
import io
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any

from gossamer.errors import GossamerError
from gossamer.frontier import codec
from gossamer.frontier.codec import CLASS
from gossamer.scrapy.feeds.position import State

logger = logging.getLogger(__name__)


class FeedExport:
    """`make` makes one of Scrapy's exporters for a file, `read` an item from its bytes (None: not for this feed). `state` is the note
    about the file: its size, its first item and the columns of that item, and how many items could not be written."""

    def __init__(
        self, path: Path, make: Callable[[IO[bytes]], Any], read: Callable[[bytes], Any], state: State
    ) -> None:
        self._path, self._make, self._read, self._state = path, make, read, state
        self._tap = Tap(state["size"])
        self.keeps = False
        """The exporter has items that it has not written."""
        self.ended = False
        self._start()
        if state["first"] is not None:
            # The exporter learns what it was like after the file's first item (its columns, a comma to write).
            self._learn(b64decode(state["first"]), state.get("columns"))
            if not self._tap.take():
                # It would write that item once more at its end.
                self._start()

    def put(self, data: bytes) -> bool:
        """Export an item; False if it is not for this feed, or could not be written."""
        before, item = self._tap.tell(), None
        try:
            item = self._read(data)
            if item is None:
                return False
            self._exporter.export_item(item)
            if self._tap.tell() == before and not self.keeps:
                self.keeps = True
                logger.info(
                    "The exporter of the feed %s keeps items to itself until its end: they wait on the server until the round is over, and a "
                    "run that goes on writes the file from its beginning.", self._path,
                )  # fmt: skip
            if self._state["first"] is None:
                self._state["first"] = b64encode(data).decode()
                self._state["columns"] = None if self._chosen else _columns(self._exporter)
        except Exception:
            self._state["failed"] = self._state.get("failed", 0) + 1
            self._tap.seek(before)
            self._tap.truncate()
            shown = _plain(data) if item is None else item
            logger.exception("An item could not be written to the feed %s: %.500r", self._path, shown)
            return False
        return True

    def write_to(self, file: IO[bytes]) -> None:
        """Write the exporter's output to the file."""
        file.write(self._tap.take())
        self._tap.base = file.tell()

    def finish(self) -> None:
        """The exporter writes its end."""
        self.ended = True
        self._exporter.finish_exporting()

    def _start(self) -> None:
        self._exporter = self._make(self._tap)
        self._chosen = bool(getattr(self._exporter, "fields_to_export", None))
        """The project has said which fields the feed has."""
        self._exporter.start_exporting()

    def _learn(self, data: bytes, columns: Any) -> None:
        """Show the exporter the file's first item, even if this process does not know its class or the feed filters it out."""
        item = None
        with contextlib.suppress(Exception):
            item = self._read(data)
        if item is None:
            value = codec.decode(data)
            item = {name: part for name, part in value.items() if name != CLASS} if isinstance(value, dict) else value
        self._tap.take()
        self._exporter.export_item(item)
        if columns is not None and not self._chosen:
            self._exporter.fields_to_export = columns


def _plain(data: bytes) -> Any:
    """An item of which no more is known than what the stream has."""
    try:
        return codec.decode(data)
    except GossamerError:
        return data


def _columns(exporter: Any) -> list[str] | None:
    """Those that an exporter of tables has found by its first item; None for others."""
    found = getattr(exporter, "fields_to_export", None)
    if not isinstance(found, Collection) or isinstance(found, Mapping):
        return None
    return list(found) if all(isinstance(name, str) for name in found) else None


class Tap(io.BytesIO):
    """A file for an exporter, behind the bytes that its feed has already. Exporters ask where they are: one leaves out its header
    where the file is not empty, one of UTF-16 its byte order mark."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.base = base

    def tell(self) -> int:
        return self.base + super().tell()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            if place < self.base:
                raise io.UnsupportedOperation(
                    f"An exporter of a feed cannot go back to byte {place}: what is before byte {self.base} is in the file."
                )
            place -= self.base
        return self.base + super().seek(place, whence)

    def take(self) -> bytes:
        """What was written since the last call."""
        data = self.getvalue()
        super().seek(0)
        self.truncate()
        return data
