"""Drops of lanes and groups, in bounded steps that somebody else may complete. Generators without I/O."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.errors import LaneKept, UnknownGroup, UnknownLane
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.verbs.control.control import PURGE_BUDGET, ControlVerbs
from gossamer.frontier.verbs.work.outbox import Outbox

DROP_BUDGET = 500
DROP_DEAD = 1000
DROP_LANES = 16

ANOTHER = 2
"""What `drop` knows of a lane that somebody has defined again."""
DropStep = Verb[tuple[dict[int, str], int]]
"""One bounded step of a drop: on which partitions more is left, with the birth of the group there, and how many requests went."""


class DropVerbs:
    """Builds and reads the calls that drop a lane or a group of one crawl."""

    def __init__(self, control: ControlVerbs, outbox: Outbox) -> None:
        self._control, self._outbox = control, outbox

    def drop_lane(self, lane: str, left: Mapping[int, str] | None, *, force: bool = False) -> DropStep:
        """One bounded step on the partitions that are left, with the births of the lane there (None: the first step, on all of them): which are
        left then, and how many requests went. It is emptied everywhere before it goes anywhere. A partition that lacks it has dropped it
        before. LaneKept if somebody defines it meanwhile: it stays, with what is left in it. With `force`, what is leased does not end as
        usual first."""
        asked = dict.fromkeys(range(self._control.partitions), "") if left is None else dict(left)
        births = _births(asked)
        header = {
            "salt": secrets.token_hex(8), "lane": lane, "budget": DROP_BUDGET, "strikes": self._control.strikes, "force": force,
        }  # fmt: skip
        results = yield from self._drop_lane(asked, {**header, "births": births, "hold": True})
        dropped = sum(count for _, count, _, _ in results.values())
        if left is None:
            if not any(known for _, _, known, _ in results.values()):
                raise UnknownLane(
                    f"There is no lane {lane!r} in this crawl. `gossamer lane list` shows those there are."
                )
            # From now on only this one is meant: somebody may make another one of its name.
            asked = {p: " ".join(births) for p, (*_, births) in results.items()}
            births = _births(asked)
        elif not force and any(known == ANOTHER for _, _, known, _ in results.values()):
            yield from self._drop_lane(asked, {**header, "births": births, "hold": True, "reopen": True})
            raise _kept(lane)
        if any(done == 0 for done, *_ in results.values()):
            return asked, dropped
        results = yield from self._drop_lane(asked, {**header, "births": births, "hold": False})
        if not force and any(known == ANOTHER for _, _, known, _ in results.values()):
            raise _kept(lane)
        still = {p: asked[p] or births[0] for p, (done, *_) in results.items() if done != 1}
        purge = [p for p, (done, *_) in results.items() if done == 2]
        if purge:
            yield [function_call("purge", self._control.bases[p], {"budget": PURGE_BUDGET}) for p in purge]
        return still, dropped + sum(count for _, count, _, _ in results.values())

    def _drop_lane(
        self, asked: Iterable[int], header: Mapping[str, Any]
    ) -> Verb[dict[int, tuple[int, int, int, list[str]]]]:
        replies = yield [function_call("drop", self._control.bases[p], dict(header)) for p in asked]
        return dict(zip(asked, map(read, replies), strict=True))

    def drop_group(self, group: str, left: Mapping[int, str] | None, *, force: bool = False) -> DropStep:
        """One bounded step on the partitions that are left, with the births of the group there (None: the first step, on all of them): which
        are left then, and how many requests and dead letters went. Nothing but lanes goes before all lanes are gone everywhere: until
        then a page may still send children to another partition. With `force`, what is leased does not end as usual first."""
        asked = dict.fromkeys(range(self._control.partitions), "") if left is None else left
        salt = secrets.token_hex(8)
        header = {"salt": salt, "group": group, "lanes": DROP_LANES, "budget": DROP_DEAD, "births": []}
        found = {}
        pause = self._of_births("drop_group", {**header, "action": "pause"}, asked)
        for p, reply in zip(asked, (yield pause), strict=True):
            found[p] = read(reply)
        if left is None:
            if not any(known for known, *_ in found.values()):
                raise UnknownGroup(
                    f"There is no group {group!r} in this crawl. `gossamer status` lists those there are."
                )
            # From now on only this one is meant: somebody else may end the drop, and make another one of its name.
            asked = {p: born for p, (*_, born) in found.items()}
        lanes = [(p, lane) for p, (_, _, _, names, _) in found.items() for lane in names]
        if lanes:
            step = {"salt": salt, "budget": DROP_BUDGET, "strikes": self._control.strikes, "force": force}
            replies = yield [
                function_call("drop", self._control.bases[p], {**step, "lane": lane, **_only(asked[p])})
                for p, lane in lanes
            ]
            return dict(asked), sum(read(reply)[1] for reply in replies)
        if (yield from self._outbox.complete_all(group, asked, dropped=True)):
            return dict(asked), 0
        births = sorted({*asked.values()} - {""})
        clear = self._of_births("drop_group", {**header, "action": "clear", "births": births}, asked)
        results = dict(zip(asked, map(read, (yield clear)), strict=True))
        still = {p: born for p, born in asked.items() if results[p][1] != 1}
        if still:
            yield [function_call("purge", self._control.bases[p], {"budget": PURGE_BUDGET}) for p in still]
        return still, sum(removed for _, _, removed, *_ in results.values())

    def _of_births(self, verb: str, header: Mapping[str, Any], births: Mapping[int, str]) -> list[RoutedCommand]:
        return [function_call(verb, self._control.bases[p], {**header, **_only(born)}) for p, born in births.items()]


def _only(born: str) -> dict[str, str]:
    """Of groups that an older version has made, no birth is known."""
    return {"only": born} if born else {}


def _births(asked: Mapping[int, str]) -> list[str]:
    return sorted({born for births in asked.values() for born in births.split()})


def _kept(lane: str) -> LaneKept:
    return LaneKept(
        f"The lane {lane!r} was defined again while it was dropped, by a worker that starts perhaps: it stays, with what is left in it. "
        f"Drop it again, or stop the workers that define it first."
    )
