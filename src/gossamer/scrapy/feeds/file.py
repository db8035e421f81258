"""One file with the items of a group's round, each once, written from the item stream by one process at a time.

The process that holds the file's lock writes it. It writes the bytes of some items to disk, notes in `FILE.position` how far they reach,
and then confirms to the server that they are stored. If it is killed in between, the next process cuts off what is not noted, and
writes it again. What an exporter writes at its end (`]` of JSON) comes after what is noted; a process that continues the file cuts it off.

An exporter may buffer items until its end (a workbook). From the first such item on, nothing is noted before the round is over: a
process that takes over before that starts again with all items, which wait on the server. A finished file is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from gossamer.errors import SettingError
from gossamer.frontier import item_stream
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo
from gossamer.scrapy.feeds.export import FeedExport
from gossamer.scrapy.feeds.position import (
    FeedPosition,
    State,
    are_unwritten,
    consumer_of,
    elsewhere,
    forget_others,
    forget_past,
    has_items,
    owner_of,
    round_of,
    starts,
)

logger = logging.getLogger(__name__)

LOOKS = 2
"""How many checks in a row must find the file with another group before that is an error."""
COUNTS = 5
"""How often to count missing items again while new ones arrive."""
STREAMS = ("/dev/std", "/dev/fd/", "/proc/")
"""Names that may lead to a regular file that is not ours."""


class FeedFile:
    """`exporter` makes one of Scrapy's exporters for a file, `read` an item from its bytes (None: not for this feed). `form` describes
    the options that decide how the file looks: it is the same for all writers. `of_one_round`: no later round has a file of this name."""

    def __init__(
        self,
        path: Path,
        uri: str,
        crawl: str,
        group: str,
        overwrite: bool,
        store_empty: bool,
        exporter: Callable[[IO[bytes]], Any],
        read: Callable[[bytes], Any],
        form: str = "",
        of_one_round: bool = False,
    ) -> None:
        self.path, self._uri, self._overwrite, self._make, self._read = path, uri, overwrite, exporter, read
        self._owner, self.group, self._store_empty = (crawl, group), group, store_empty
        self._form, self._mark = form, FeedPosition(path, self._owner)
        self._of_one_round = overwrite or of_one_round
        self._file: IO[bytes] | None = None
        self._state: State = {}
        self._taken_by_others = 0
        self._read_last: dict[int, str] = {}
        """The item of each partition that this process has read last."""
        self._export: FeedExport | None = None
        """None until the file is begun."""
        self.untouched = False
        """Nothing was written to the file: it waits for its first item."""
        self.count = 0
        self.failed = 0
        """Items that the exporter could not write and that were not reported yet; known when the file is closed."""
        self.ending = False
        """The exporter is writing its end, which may take long."""
        self.past = False
        """The round is over and all its items were read: there is nothing to write, and the file stays as it is."""

    @property
    def writes(self) -> bool:
        """Whether this process writes it."""
        return self._file is not None

    @property
    def keeps(self) -> bool:
        """Whether all items of the round wait on the server until its end, since the exporter writes them then."""
        return self._export is not None and self._export.keeps

    @property
    def consumer(self) -> str:
        """The consumer for which items wait on the server while this process writes the file."""
        return str(self._state.get("consumer", ""))

    def prepare(self, frontier: ValkeyFrontier, info: RoundInfo) -> None:
        """Continue the file or begin it, unless another process writes it; from then on, items are kept on the server for it. SettingError
        if the file is another group's."""
        if self._file is not None and not self._is_still_there():
            self._let_go()
        if self._file is None and not self._lock():
            self.past = False  # the process that holds the lock decides
            self._check_owner()
            if self._is_of(info, noted := self._mark.mine()):
                self._check_form(noted)
            return
        if self._export is None and self._is_finished(info):
            self._let_go()
            return
        if not self._fits(frontier, info, self._state) or self._export is None:
            if self._is_past(frontier, info):
                self.past = True
                self._let_go()
                return
            self.past = False
            self._begin(frontier, info)
        elif not self._is_of(info, self._state):
            self._turn(frontier, info, self._state)
            noted = self._state
            if self.keeps and (noted := self._mark.mine()):
                # Note only the round for others.
                self._turn(frontier, info, noted)
            if noted:
                left = self._renewed(info, noted)
                self._state["consumer"] = noted["consumer"]
                if left:
                    frontier.keep_items(self.group, noted["consumer"], noted["positions"])
                self._mark.write(noted)
                if left:
                    forget_others(frontier, self.group, self.path, self._uri, noted["consumer"], left)

    def _is_finished(self, info: RoundInfo) -> bool:
        """Whether the file was written as one whole, to which nothing can be added."""
        noted = self._mark.mine()
        return bool(noted.get("finished")) and self._is_of(info, noted)

    def _note(self) -> None:
        if not self.keeps:
            self._mark.write(self._state)

    def ready(self, frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        """Whether some process has prepared the file for this round. Before, other files must not let its items go."""
        state = self._state or self._mark.mine()
        return self.past or (self._fits(frontier, info, state) and self._is_of(info, state))

    @staticmethod
    def _is_of(info: RoundInfo, state: State) -> bool:
        return (state.get("round"), state.get("began")) == (info.round, info.began)

    def write(self, frontier: ValkeyFrontier, until: Mapping[int, str] | None = None) -> None:
        """Write waiting items, up to these positions, to the file, if this process writes it."""
        file, state = self._file, self._state
        if file is None or self._export is None or self._export.ended:
            return
        for partition in range(frontier.partitions):
            start = item_stream.place(state["starts"][str(partition)]) if state["rows"] is not None else (0, 0)
            end = None if until is None else until[partition]
            after = state["positions"][partition]
            self._warn_of_lost(frontier, partition)
            if end is not None and item_stream.place(end) <= item_stream.place(after):
                continue
            for rows in item_stream.pages(frontier, self.group, partition, after, end):
                for position, data in rows:
                    self.count += self._export.put(data)
                    state["positions"][partition] = self._read_last[partition] = position
                    if state["rows"] is not None and item_stream.place(position) > start:
                        state["rows"] += 1
                self._append(file)
                if self._export.keeps:
                    continue
                if state["first"] is not None:
                    # Without any item, who goes on writes the exporter's beginning once more.
                    state["size"] = file.tell()
                file.flush()
                os.fsync(file.fileno())
                self._mark.write(state)
                frontier.keep_items(self.group, state["consumer"], {partition: state["positions"][partition]})

    def _warn_of_lost(self, frontier: ValkeyFrontier, partition: int) -> None:
        at = self._read_last.get(partition)
        if at is not None and item_stream.is_lost(frontier, self.group, partition, at):
            del self._read_last[partition]
            logger.warning(
                "The server has lost what it knew last, also items that are in the feed %s: their pages are read once more, and these items are in it "
                "twice. To have each once, crawl again with the feed from the beginning.", self.path,
            )  # fmt: skip

    def check(self) -> None:
        """SettingError for what is no file."""
        if str(self.path).startswith(STREAMS) or (os.path.exists(self.path) and not os.path.isfile(self.path)):
            raise SettingError(
                f"The feed {self.path} is not a file that can be cut and added to. Name one; `-o -:jsonlines` writes what one worker scrapes to "
                "standard output, and GOSSAMER_FEEDS=worker leaves the feed to each worker."
            )

    def _lock(self) -> bool:
        self.check()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file, self._export = file, None
        if not self._is_still_there():
            self._let_go()
            return False
        self._mark.hold()
        return True

    def _check_owner(self) -> None:
        state = self._mark.read()
        if not state or owner_of(state) == self._owner:
            self._taken_by_others = 0
            return
        self._taken_by_others += 1
        if self._taken_by_others >= LOOKS:
            crawl, group = owner_of(state)
            raise SettingError(
                f"The feed {self.path} is being written for group {group} of crawl {crawl}. Give this spider a file of its own, for "
                "example by %(name)s in its name. Its items so far are on the server, and will be in that file."
            )

    def _check_form(self, state: State) -> None:
        """SettingError where items are in the file that this one would go on with in another form."""
        begun = state.get("form", self._form)
        if begun != self._form and state.get("first") is not None:
            raise SettingError(
                f"The feed {self.path} was begun with other options: {begun}. With these it would be broken: {self._form}. "
                "Go on with the options it was begun with, or name another file."
            )

    def _is_still_there(self) -> bool:
        """Whether the name still means the file that is locked."""
        assert self._file is not None
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        return False

    def _fits(self, frontier: ValkeyFrontier, info: RoundInfo, state: State) -> bool:
        """Whether what is noted is of this crawl, and of this round if each round begins the file again."""
        if (state.get("crawl"), state.get("group")) != self._owner or len(state["positions"]) != frontier.partitions:
            return False
        # A group that was dropped begins at round 0 again.
        return not self._overwrite or self._is_of(info, state)

    def complete(self, frontier: ValkeyFrontier, info: RoundInfo, until: Mapping[int, str]) -> bool:
        """Whether all items of the stream up to these positions are in the file, whichever process wrote them."""
        state = self._state if self.keeps else self._mark.mine()
        if self.past:
            return True
        if not self._fits(frontier, info, state):
            return False
        return not any(
            item_stream.place(position) <= item_stream.place(until[partition])
            for partition, at in state["positions"].items()
            for position, _ in frontier.read_items(self.group, partition, at, 1)
        )

    def lacking(self, info: RoundInfo) -> int:
        """How many items of the round this file never got from the stream: they were trimmed before, or stored elsewhere."""
        state = self._state
        if self.past:
            return 0 if self.path.exists() and self.path.stat().st_size else info.items
        if not self._is_of(info, state) or state["rows"] is None:
            return 0
        return max(0, info.items - int(state["rows"]))

    def forgiven(self) -> str:
        """Why no worker has to fail although this file lacks items; "" if this one has to. That is noted, so that the next one does not."""
        if found := self._state.get("elsewhere"):
            return f"The feed was asked for on another machine before, whose file has what came until then (consumer {found})."
        if self._state.get("told"):
            return "A worker has failed for it already."
        self._state["told"] = True
        return ""

    def _is_past(self, frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        if info.ended is None or self._fits(frontier, info, self._mark.mine()):
            return False
        if not self._overwrite and self.path.stat().st_size:
            return True  # what is added to may have them already
        return not has_items(frontier, info)

    def _begin(self, frontier: ValkeyFrontier, info: RoundInfo) -> None:
        file, before, left = self._file, self._mark.mine(), ""
        self._read_last = {}
        assert file is not None
        size = file.seek(0, io.SEEK_END)
        if self._fits(frontier, info, before):
            if size >= before["size"] and (self._is_of(info, before) or size < before.get("closed", size + 1)):
                try:
                    self._check_form(before)
                except SettingError:
                    self._let_go()
                    raise
            before.pop("holder", None)
            before.setdefault("rows", None)
            closed = before.pop("closed", None)
            if size < before["size"]:
                logger.warning(
                    "%s was truncated by another program: what it had is not written again, and new items are appended.",
                    self.path,
                )
                before["size"], before["first"] = size, None
            else:
                logger.info("The feed %s goes on: it has items of round %d already.", self.path, before["round"])
                if not self._overwrite and closed is not None and before["size"] <= closed < size:
                    logger.warning(
                        "%s was appended to by another program: that stays, and new items come after it.", self.path
                    )
                    # Behind an exporter's end it begins once more.
                    before["first"] = before["first"] if closed == before["size"] else None
                    before["size"] = size
            if before["first"] is not None and before.get("form", self._form) != self._form:
                # In a later round a file that is added to may look otherwise behind what it has: the exporter begins once more.
                before["size"], before["first"] = max(before["size"], closed or 0), None
            before["form"] = self._form
            if not self._is_of(info, before):
                self._turn(frontier, info, before)
            self._state = before
            left = self._renewed(info, before)
        else:
            self._state = self._fresh(frontier, info, size)
            if size and self._overwrite:
                logger.info("The feed %s starts again, with round %d.", self.path, info.round)
            self._say_late(frontier, info)
            self._warn_of_older(frontier)
        state = self._state
        self.untouched = not self._store_empty and state["first"] is None
        if not self.untouched:
            file.truncate(state["size"])
        file.seek(state["size"])
        frontier.keep_items(self.group, state["consumer"], state["positions"])
        forget_past(frontier, self.group, info.round - 1)
        for name in ("finished", "ending"):
            state.pop(name, None)
        self._export = FeedExport(self.path, self._make, self._read, state)
        self._append(file)
        self._mark.write(state)
        forget_others(frontier, self.group, self.path, self._uri, state["consumer"], left)

    def _renewed(self, info: RoundInfo, state: State) -> str:
        """Name a consumer that stays as long as the file wants items, where the one it had is forgotten with an earlier round: it was
        begun with -O, or its name has come again. The old one; "" if nothing changes."""
        old, wanted = state["consumer"], info.round if self._of_one_round else None
        if round_of(old) in (None, wanted):
            return ""
        state["consumer"] = consumer_of(self.path, self._uri, wanted)
        return str(old)

    def _fresh(self, frontier: ValkeyFrontier, info: RoundInfo, size: int) -> State:
        """What is noted of a file that begins. One that is added to goes on after what its last writer has finished."""
        others, found = self._mark.others(), self._mark.read()
        if self._overwrite:
            for other in [*others.values(), *([found] if found else [])]:
                gone = dict.fromkeys(map(int, other["positions"]), "gone")
                frontier.keep_items(other["group"], other["consumer"], gone)
        elif others and size > found["size"] and size < found.get("closed", size + 1):
            size = found["size"]
        begin = starts(frontier, info)
        if self._overwrite and (mine := self._mark.mine()):
            # What it had in the round before is not of this one, however close that was.
            begin = {p: max(at, mine["positions"].get(p, at), key=item_stream.place) for p, at in begin.items()}
        return {
            "crawl": frontier.crawl, "group": self.group, "round": info.round, "began": info.began,
            "consumer": consumer_of(self.path, self._uri, info.round if self._of_one_round else None),
            "size": 0 if self._overwrite else size, "first": None, "rows": 0, "elsewhere": elsewhere(frontier, self.group, self.path, self._uri),
            "starts": {str(p): at for p, at in begin.items()}, "positions": begin,
            "others": {} if self._overwrite else others, "form": self._form,
        }  # fmt: skip

    @staticmethod
    def _turn(frontier: ValkeyFrontier, info: RoundInfo, state: State) -> None:
        """Continue a file that is appended to with the next round. Items of it that the file has already were not counted."""
        begin = starts(frontier, info)
        early = all(item_stream.place(state["positions"][p]) <= item_stream.place(at) for p, at in begin.items())
        state["round"], state["began"], state["rows"] = info.round, info.began, 0 if early else None
        state["elsewhere"], state["told"] = "", False
        state["starts"] = {str(p): at for p, at in begin.items()}

    def _say_late(self, frontier: ValkeyFrontier, info: RoundInfo) -> None:
        for _ in range(COUNTS):
            [row] = [row for row in frontier.counts(self.group).groups if row.group == self.group]
            # An item that has come between two calls is not missing.
            before, info = info, next(iter(frontier.rounds(self.group, 1)), info)
            if info.items == before.items:
                break
        if info.items > row.items_waiting and not self._has_older(frontier):
            found = self._state["elsewhere"]
            logger.warning(
                "The feed %s begins in the middle of round %d: %d items of the round are not in the stream any more, or never were.%s",
                self.path, info.round, info.items - row.items_waiting,
                f" Another machine has had the feed before (consumer {found})." if found else "",
            )  # fmt: skip

    def _warn_of_older(self, frontier: ValkeyFrontier) -> None:
        """Warn of items of earlier rounds that nobody has written: once the file has come beyond them, they do not stop the crawl."""
        if are_unwritten(frontier, self.group, self._state["positions"]):
            logger.warning(
                "Nobody has written the items of earlier rounds of %s, and %s does not get them: they go first when the stream is at "
                "GOSSAMER_ITEMS_MAX. `gossamer items export %s FILE` writes them.",
                self.group, self.path, self.group,
            )  # fmt: skip

    def _has_older(self, frontier: ValkeyFrontier) -> bool:
        """Whether items are there that came before the round: nobody knows then how many of it are."""
        for partition, at in self._state["positions"].items():
            first = frontier.read_items(self.group, partition, item_stream.START, 1)
            if first and item_stream.place(first[0][0]) <= item_stream.place(at):
                return True
        return False

    def _append(self, file: IO[bytes]) -> None:
        """Write the exporter's output to the file. A file that must not be stored empty is left as it was until the first item."""
        assert self._export is not None
        if self.untouched:
            if self._state["first"] is None:
                return
            self.untouched = False
            file.truncate(self._state["size"])
        self._export.write_to(file)

    def close(self, frontier: ValkeyFrontier, over: bool) -> None:
        """Write the exporter's end; with `over`, the server need not keep items for this file any more."""
        file = self._file
        if file is None:
            return
        if self._export is not None:
            if not self._export.ended:
                self._end(file, self._export, over)
            if over and self.untouched and not os.fstat(file.fileno()).st_size:
                self.path.unlink(missing_ok=True)
            if over:
                forget_others(frontier, self.group, self.path, self._uri, before=self._state["consumer"])
                forget_past(frontier, self.group, self._state["round"])
        self._let_go()

    def _end(self, file: IO[bytes], export: FeedExport, over: bool) -> None:
        """Only once: `close` may be repeated when the server does not answer."""
        self.ending = True
        if export.keeps:
            # Processes that wait for this file see that it is coming.
            self._mark.write({**self._mark.mine(), "ending": True})
        try:
            export.finish()
        finally:
            self.ending = False
        self._append(file)
        file.flush()
        os.fsync(file.fileno())
        self._state["closed"], self.failed = file.tell(), self._state.pop("failed", 0)
        if export.keeps and over:
            self._state["finished"], self._state["size"], export.keeps = True, file.tell(), False
        self._note()

    def ends_elsewhere(self) -> bool:
        """Whether another live process has all items and is writing the exporter's end."""
        return self._file is None and bool(self._mark.mine().get("ending"))

    def _let_go(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file, self._export, self._state = None, None, {}
