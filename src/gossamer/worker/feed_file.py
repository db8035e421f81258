"""One file with the items of a group's round, each once, written from the item stream by one process at a time.

Who holds the file's lock writes it. The bytes of some items are brought to disk, then how far they reach is noted in
`FILE.position`, then the server is told that they are kept. Killed anywhere in between, the next one cuts off what was not noted, and
writes it again. What an exporter writes at its end (`]` of JSON) comes after what is noted, and is cut off by one who goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import logging
import os
import re
import secrets
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from gossamer.frontier import stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo

logger = logging.getLogger(__name__)

EXPORT = "export"
"""The consumer of `gossamer items export`."""
FEED = "feed-"
_ROUND = re.compile(r"feed-r(\d+)-")


def consumer_of(path: Path, overwritten_in: int | None) -> str:
    """A name for who keeps the items of this file, which tells people where it is. `overwritten_in`: the round that it is of, if it
    begins anew with each."""
    of_round = "" if overwritten_in is None else f"r{overwritten_in}-"
    where = re.sub(r"[^A-Za-z0-9_.]+", "_", f"{socket.gethostname()}_{path.name}")[:60]
    return f"{FEED}{of_round}{where}-{secrets.token_hex(4)}"


def waits(consumer: str, present: int) -> bool:
    """Whether this consumer is a file that still takes items in the present round."""
    found = _ROUND.match(consumer)
    return consumer.startswith(FEED) and (found is None or int(found[1]) >= present)


class FeedFile:
    """`exporter` makes one of Scrapy's exporters for a file, `read` an item of its bytes (None: not for this feed)."""

    def __init__(
        self,
        path: Path,
        group: str,
        overwrite: bool,
        exporter: Callable[[IO[bytes]], Any],
        read: Callable[[bytes], Any],
    ) -> None:
        self.path, self._group, self._overwrite, self._make, self._read = path, group, overwrite, exporter, read
        self._beside = Path(f"{path}.position")
        self._file: IO[bytes] | None = None
        self._state: dict[str, Any] = {}
        self.count = 0
        self.past = False
        """The round is over and all its items were read: there is nothing to write, and the file stays as it is."""

    @property
    def writes(self) -> bool:
        """Whether this process is the one who writes it."""
        return self._file is not None

    def prepare(self, frontier: ValkeyFrontier, info: RoundInfo, keep_all: bool) -> None:
        """Go on with the file or begin it, if no other process writes it: from then on its items wait for it. `keep_all`: they
        shall stay in the stream for `gossamer items export`, too."""
        if self._file is not None and not self._is_still_there():
            self._let_go()
        if self._file is None and not self._lock():
            return
        if not self._fits(frontier, info) or self._tap is None:
            if self._is_past(frontier, info):
                self.past = True
                self._let_go()
                return
            self._begin(frontier, info, keep_all)
        elif not self._is_of(info, self._state):
            self._state["round"], self._state["began"] = info.round, info.began
            self._note()

    def ready(self, frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        """Whether some process has prepared the file for this round. Before, other files must not let its items go."""
        state = self._state or self.noted()
        return self.past or (self._fits(frontier, info, state) and self._is_of(info, state))

    @staticmethod
    def _is_of(info: RoundInfo, state: dict[str, Any]) -> bool:
        return (state.get("round"), state.get("began")) == (info.round, info.began)

    def write(self, frontier: ValkeyFrontier) -> None:
        """Bring what waits into the file, if this process writes it."""
        file, state = self._file, self._state
        if file is None or self._tap is None:
            return
        for partition in range(frontier.partitions):
            for rows in stream.pages(frontier, self._group, partition, state["positions"][partition]):
                for position, data in rows:
                    self._export(data)
                    state["positions"][partition] = position
                file.write(self._taken())
                state["size"] = file.tell()
                file.flush()
                os.fsync(file.fileno())
                self._note()
                frontier.keep_items(self._group, state["consumer"], {partition: state["positions"][partition]})

    def _lock(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file, self._tap = file, None
        if not self._is_still_there():
            self._let_go()
            return False
        return True

    def _is_still_there(self) -> bool:
        """Whether the name still means the file that is locked."""
        assert self._file is not None
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        return False

    def noted(self) -> dict[str, Any]:
        """What was noted last, by whichever process."""
        try:
            found: dict[str, Any] = json.loads(self._beside.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        found["positions"] = {int(partition): at for partition, at in found["positions"].items()}
        return found

    def _fits(self, frontier: ValkeyFrontier, info: RoundInfo, state: dict[str, Any] | None = None) -> bool:
        """Whether what is noted is of this crawl, and of this round if the file is written anew in each."""
        state = self._state if state is None else state
        if (state.get("crawl"), state.get("group")) != (frontier.crawl, self._group):
            return False
        if len(state["positions"]) != frontier.partitions:
            return False
        # A group that was dropped begins at round 0 again.
        return not self._overwrite or self._is_of(info, state)

    def complete(self, frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        """Whether all that is in the stream is in the file, whoever wrote it."""
        state = self.noted()
        if self.past:
            return True
        if not self._fits(frontier, info, state):
            return False
        return not any(
            frontier.read_items(self._group, partition, at, 1) for partition, at in state["positions"].items()
        )

    @staticmethod
    def _start(info: RoundInfo) -> str:
        return f"{int(info.began * 1000) - 1}-0" if info.round and info.began is not None else stream.START

    def _is_past(self, frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        if not self._overwrite or info.ended is None or self._fits(frontier, info, self.noted()):
            return False
        start = self._start(info)
        return not any(frontier.read_items(self._group, one, start, 1) for one in range(frontier.partitions))

    def _begin(self, frontier: ValkeyFrontier, info: RoundInfo, keep_all: bool) -> None:
        file, before = self._file, self.noted()
        assert file is not None
        size = file.seek(0, io.SEEK_END)
        if self._fits(frontier, info, before):
            self._state = before
            if size < before["size"]:
                logger.warning(
                    "%s was made shorter by somebody; it goes on with the items that are missing.", self.path
                )
                before["size"], before["first"] = size, None
            else:
                logger.info("The feed %s goes on: it has items of round %d already.", self.path, before["round"])
            before["round"], before["began"] = info.round, info.began
        else:
            if before:
                frontier.keep_items(before["group"], before["consumer"], dict.fromkeys(before["positions"], "gone"))
            start = self._start(info)
            self._state = {
                "crawl": frontier.crawl, "group": self._group, "round": info.round, "began": info.began,
                "consumer": consumer_of(self.path, info.round if self._overwrite else None),
                "size": 0 if self._overwrite else size, "first": None,
                "positions": dict.fromkeys(range(frontier.partitions), start),
            }  # fmt: skip
            if size and self._overwrite:
                logger.info("The feed %s begins anew, with round %d.", self.path, info.round)
            self._save_unread(frontier, keep_all)
        state = self._state
        file.truncate(state["size"])
        file.seek(state["size"])
        frontier.keep_items(self._group, state["consumer"], state["positions"])
        self._tap = io.BytesIO()
        self._exporter = self._make(self._tap)
        self._exporter.start_exporting()
        if state["first"] is None:
            file.write(self._taken())
        else:
            # The exporter learns what it was like after the file's first item (its columns, a comma to write).
            first, state["first"] = state["first"], None
            self._export(b64decode(first))
            self.count = 0
            self._taken()
        self._note()

    def _save_unread(self, frontier: ValkeyFrontier, keep_all: bool) -> None:
        """Items that wait for a consumer that has not come yet are not trimmed because of this one."""
        if stream.consumers(frontier, self._group):
            return
        [row] = [row for row in frontier.counts(self._group).groups if row.group == self._group]
        if keep_all or (self._state["round"] and row.items_waiting):
            frontier.keep_items(self._group, EXPORT, dict.fromkeys(range(frontier.partitions), ""))
            logger.info("Items of %s stay on the server for `gossamer items export`.", self._group)

    def _export(self, data: bytes) -> None:
        try:
            item = self._read(data)
            if item is not None:
                self._exporter.export_item(item)
                self.count += 1
                if self._state["first"] is None:
                    self._state["first"] = b64encode(data).decode()
        except Exception:
            logger.exception("An item could not be written to the feed %s.", self.path)

    def _taken(self) -> bytes:
        assert self._tap is not None
        data = self._tap.getvalue()
        self._tap.seek(0)
        self._tap.truncate()
        return data

    def _note(self) -> None:
        new = Path(f"{self._beside}.new")
        with new.open("w") as file:
            json.dump(self._state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._beside)

    def close(self, frontier: ValkeyFrontier, over: bool) -> None:
        """The exporter's end; with `over`, nobody has to keep anything for this file any more."""
        file = self._file
        if file is None:
            return
        if self._tap is not None:
            self._exporter.finish_exporting()
            file.write(self._taken())
            file.flush()
            os.fsync(file.fileno())
            if over:
                frontier.keep_items(
                    self._group, self._state["consumer"], dict.fromkeys(range(frontier.partitions), "gone")
                )
        self._let_go()

    def _let_go(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file, self._tap, self._state = None, None, {}

    _tap: io.BytesIO | None = None
    _exporter: Any = None
