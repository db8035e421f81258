"""What is known of a feed's file: `FILE.position` beside it, the consumer that keeps its items, where the items of a round begin.

`FILE.position` is one JSON object. It says of whom the file is (crawl, group, round), how large it was and up to which `positions`
of the stream its items reach when both had come to disk, how many items of the round were read for it (`rows`; None: unknown),
and the `first` item in it, of which an exporter learns what it was like, with its `columns`, and the `form` that its options give it. A file that nobody writes was `closed` at some size: what is
behind that is not ours. `failed` items could not be written, of which nobody has told yet. `elsewhere` is the consumer of another machine that had the
same feed before, `told` whether somebody has failed since the file lacks items. A file that is added to may be of several groups, one
after another: what was noted for the `others` is in there too.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gossamer.frontier import inspection, item_stream
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo

FEED = "feed-"
TRIES = 5
"""How often to ask a server for its time; the quickest reply counts."""
_ROUND = re.compile(r"feed-r(\d+)-")

State = dict[str, Any]
Owner = tuple[str, str]
"""Crawl and group."""


def consumer_of(path: Path, uri: str, overwritten_in: int | None) -> str:
    """The name of the consumer that keeps the items of this file; it shows people where the file is. `uri` is the feed as configured: its
    digest is the same on all machines that have the feed. `overwritten_in`: the round that it is of, if each round begins it again."""
    of_round = "" if overwritten_in is None else f"r{overwritten_in}-"
    return f"{FEED}{of_round}{_file(path, uri)}{secrets.token_hex(2)}"


def round_of(consumer: str) -> int | None:
    """The round with which the consumer is forgotten, None for one that stays."""
    found = _ROUND.match(consumer)
    return int(found[1]) if found else None


def forget_others(
    frontier: ValkeyFrontier, group: str, path: Path, uri: str, consumer: str = "", before: str = ""
) -> None:
    """Forget all consumers of the file but this one: the one that it had `before`, and those of processes that were killed before they
    noted the name. Each would hold items as long as it is there. For the process that holds the file's lock."""
    same = re.compile(rf"{FEED}(r\d+-)?{re.escape(_file(path, uri))}[0-9a-f]{{4}}")
    for name in item_stream.consumers(frontier, group):
        if name != consumer and (name == before or same.fullmatch(name)):
            frontier.keep_items(group, name, dict.fromkeys(range(frontier.partitions), "gone"))


def elsewhere(frontier: ValkeyFrontier, group: str, path: Path, uri: str) -> str:
    """The consumer that already keeps the items of the same feed in this round for another file; "" if there is none."""
    same = re.compile(rf"-{_digest(uri)}(?!{_place(path)})[0-9a-f]{{8}}$")
    return next((name for name in waiting(frontier, group) if same.search(name)), "")


def _file(path: Path, uri: str) -> str:
    where = re.sub(r"[^A-Za-z0-9_.]+", "_", f"{socket.gethostname()}_{path.name}")[:60]
    return f"{where}-{_digest(uri)}{_place(path)}"


def _digest(uri: str, size: int = 4) -> str:
    return blake2b(uri.encode(), digest_size=size).hexdigest()


def _place(path: Path) -> str:
    return _digest(f"{socket.gethostname()} {path}", 2)


def forget_past(frontier: ValkeyFrontier, group: str, before: int) -> None:
    """Forget the consumers of files that each round begins again, for rounds before this one: no process continues them. Another machine
    may still be writing the end of the round that has just ended."""
    for name in item_stream.consumers(frontier, group):
        if (found := _ROUND.match(name)) and int(found[1]) < before:
            frontier.keep_items(group, name, dict.fromkeys(range(frontier.partitions), "gone"))


def waiting(frontier: ValkeyFrontier, group: str) -> list[str]:
    """The consumers for which items are kept until they are in a file that needs all items of this round."""
    info = next(iter(frontier.rounds(group, 1)), None)
    now = info.round if info is not None else 0
    every = sorted(name for name in item_stream.consumers(frontier, group) if name.startswith(FEED))
    return [name for name in every if not (found := _ROUND.match(name)) or int(found[1]) >= now]


def starts(frontier: ValkeyFrontier, info: RoundInfo) -> dict[int, str]:
    """After which position the items of a round begin, by partition. Each server has a clock of its own."""
    partitions = range(frontier.partitions)
    if not info.round or info.began is None:
        return dict.fromkeys(partitions, item_stream.START)
    ahead = {p: _ahead(frontier, p) for p in partitions}
    home, unsure = ahead[keys.home_of(info.group, frontier.partitions)]
    # Rather too early: what an earlier round has left there was read by then, or is wanted.
    return {
        p: f"{int((info.began + seconds - home - doubt - unsure) * 1000) - 1}-0"
        for p, (seconds, doubt) in ahead.items()
    }


def has_items(frontier: ValkeyFrontier, info: RoundInfo) -> bool:
    """Whether items of a round, or what follows them, are still in the stream."""
    return any(frontier.read_items(info.group, one, at, 1) for one, at in starts(frontier, info).items())


def are_unwritten(frontier: ValkeyFrontier, group: str, positions: Mapping[int, str]) -> bool:
    """Whether items are there up to these positions that nobody has written."""
    written = item_stream.consumers(frontier, group, notes=True)
    written.pop(item_stream.GONE, None)
    for partition, at in positions.items():
        known = [found.get(partition, item_stream.START) for found in written.values()]
        first = frontier.read_items(group, partition, max(known, default=item_stream.START, key=item_stream.place), 1)
        if first and item_stream.place(first[0][0]) <= item_stream.place(at):
            return True
    return False


def _ahead(frontier: ValkeyFrontier, partition: int) -> tuple[float, float]:
    """The clock of a partition's server, against one of this process, and by how much that may be wrong."""
    if frontier.partitions == 1:
        return 0.0, 0.0
    tries = []
    for _ in range(TRIES):
        before = time.monotonic()
        now = inspection.clock(frontier, partition)
        after = time.monotonic()
        tries.append(((after - before) / 2, now - (before + after) / 2))
    doubt, found = min(tries)
    return found, doubt


def owner_of(state: State) -> Owner:
    """Whose file it is by what is noted; of one that has just been locked, who holds it."""
    crawl, group = state.get("holder") or (state["crawl"], state["group"])
    return crawl, group


class FeedPosition:
    """`FILE.position` of one file, as one group sees it."""

    def __init__(self, path: Path, owner: Owner) -> None:
        self._beside, self._owner = Path(f"{path}.position"), owner

    def read(self) -> State:
        """The last note, of any group; {} if there is none."""
        try:
            found: State = json.loads(self._beside.read_text())
            return {**found, "positions": _numbered(found["positions"])}
        except (FileNotFoundError, ValueError, KeyError):
            return {}

    def mine(self) -> State:
        """The last note of this group; {} if there is none."""
        found = self.read()
        if not found or (found["crawl"], found["group"]) == self._owner:
            return found
        others = dict(found.get("others", {}))
        kept = others.pop("|".join(self._owner), None)
        if kept is None:
            return {}
        others[f"{found['crawl']}|{found['group']}"] = _alone(found)
        closed = {"closed": found["closed"]} if "closed" in found else {}
        return {**kept, "positions": _numbered(kept["positions"]), "size": found["size"], "others": others, **closed}

    def others(self) -> dict[str, State]:
        """What is noted for other groups, by their names."""
        found = self.read()
        if not found:
            return {}
        every = {**found.get("others", {}), f"{found['crawl']}|{found['group']}": _alone(found)}
        every.pop("|".join(self._owner), None)
        return every

    def hold(self) -> None:
        """Note which group has the file now, before anything else is noted."""
        found = self.read()
        if found and owner_of(found) != self._owner:
            self.write({**found, "holder": self._owner})

    def write(self, state: State) -> None:
        new = Path(f"{self._beside}.new")
        with new.open("w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._beside)


def _numbered(positions: dict[str, str]) -> dict[int, str]:
    return {int(partition): at for partition, at in positions.items()}


def _alone(state: State) -> State:
    return {name: value for name, value in state.items() if name not in ("others", "holder", "size", "closed")}
