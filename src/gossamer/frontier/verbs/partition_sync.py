"""Partitions that went back to earlier states are brought into step with the others. Generators without I/O.

Groups, lanes and rounds are those of the whole crawl, but each partition has its own copy of their definitions. One whose server lost its last moments may
lack a group or a lane, be in an earlier round than the others, or still have a group or a lane that was dropped: what is added there is refused
then, or taken for known by the memory of the last round or of the dropped group. So this comes before anything is added to it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, NamedTuple

from gossamer.errors import GroupDropping, UnknownGroup, UnknownLane
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.recent_adds import Known
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.control.drop import DropStep, DropVerbs
from gossamer.frontier.verbs.rounds import RoundVerbs

FEW = 16
"""The most groups that are asked for one by one."""
DROPPED = "dropped"
DROP_STEPS = 2000
"""The most steps of a drop that are made at once; whoever waits for it asks again."""


class PartitionGroup(NamedTuple):
    """What one partition has of a group."""

    policy: dict[str, Any]
    round: int
    lanes: dict[str, dict[str, Any]]
    closed: dict[str, dict[str, Any]]
    """The lanes that are being dropped."""


Held = dict[int, PartitionGroup]
"""What the partitions have of one group; those that lack it are left out."""


class PartitionSync:
    """For the partitions of one crawl."""

    def __init__(self, control: ControlVerbs, drops: DropVerbs, rounds: RoundVerbs) -> None:
        self._drops, self._rounds = drops, rounds
        self._bases, self._partitions = control.bases, control.partitions

    def bring(self, partition: int, groups: Collection[str]) -> Verb[Known]:
        """Bring these groups into step on all partitions. Return their lanes that `partition` has then, and when each was made."""
        lanes: set[str] = set()
        made: dict[str, int] = {}
        dropped = inf
        for asked in groups if len(groups) <= FEW else [""]:
            found, age = yield from self._held(asked)
            dropped = min(dropped, age)
            for group, held in found.items():
                for one in held.values():
                    for name, lane in one.lanes.items():
                        made[name] = min(made.get(name, since := lane.get("made", 0)), since)
                try:
                    lanes |= yield from self._align(partition, group, held)
                except (GroupDropping, UnknownGroup, UnknownLane):
                    continue  # It is being dropped at this moment.
        return Known(lanes, made, dropped)

    def group(self, group: str) -> Verb[None]:
        """Bring one group into step on all partitions."""
        found, _ = yield from self._held(group)
        for name, held in found.items():
            yield from self._align(keys.home_of(name, self._partitions), name, held)

    def _held(self, asked: str) -> Verb[tuple[dict[str, Held], float]]:
        """What the partitions have of a group, or of all (""), by name; and the seconds since anything was dropped. Where a
        partition still has a dropped group or lane, the drop is repeated there; GroupDropping if that takes longer than a moment."""
        replies = yield [function_call("counts", base, {"group": asked}) for base in self._bases]
        parts = [_groups(read(reply)) for reply in replies]
        births = {
            born
            for part in parts
            for one in part.values()
            for policy in (one.policy, *one.lanes.values(), *one.closed.values())
            if (born := policy.get("born"))
        }
        replies = yield [function_call("dropped", base, {"births": sorted(births)}) for base in self._bases]
        answers = [read(reply) for reply in replies]
        dropped = {born for births, _ in answers for born in births}
        last = min((age / 1000 for _, age in answers if age >= 0), default=inf)
        found: dict[str, Held] = {}
        for partition, part in enumerate(parts):
            for name, one in part.items():
                if one.policy.get("born") in dropped:
                    yield from self._drop(partition, name, one.policy["born"])
                    continue
                for lane, policy in {**one.lanes, **one.closed}.items():
                    if policy.get("born") in dropped:
                        yield from self._drop_lane(partition, lane, policy["born"])
                        one.lanes.pop(lane, None)
                found.setdefault(name, {})[partition] = one
        return found, last

    def _drop(self, partition: int, group: str, born: str) -> Verb[None]:
        return self._drop_all(partition, "group", group, born, self._drops.drop_group)

    def _drop_lane(self, partition: int, lane: str, born: str) -> Verb[None]:
        return self._drop_all(partition, "lane", lane, born, self._drops.drop_lane)

    def _drop_all(self, partition: int, what: str, name: str, born: str, step: Callable[..., DropStep]) -> Verb[None]:
        left = {partition: born}
        for _ in range(DROP_STEPS):
            left, _ = yield from step(name, left, force=True)
            if not left:
                return
        raise _dropping(what, name, partition)

    def _align(self, partition: int, group: str, held: Mapping[int, PartitionGroup]) -> Verb[set[str]]:
        """Return the lanes that `partition` has then."""
        home, here = keys.home_of(group, self._partitions), held.get(partition)
        if any(one.policy.get("paused") == DROPPED for one in held.values()):
            return set(here.lanes if here else ())
        source = held.get(home) or max(held.values(), key=lambda one: one.round)
        # None of them was dropped: whoever has one that others lack has lost nothing.
        lanes = {name: lane for one in held.values() for name, lane in one.lanes.items() if lane.get("born")}
        source = source._replace(lanes={**lanes, **source.lanes})
        for p in range(self._partitions):
            yield from self._define(p, group, held.get(p), source, p == home)
        number = max(one.round for one in held.values())
        if any(p not in held or held[p].round < number for p in range(self._partitions)):
            yield from self._rounds.new_round(group, None)
        return {*(here.lanes if here else ()), *source.lanes}

    def _define(
        self, p: int, group: str, here: PartitionGroup | None, source: PartitionGroup, home: bool
    ) -> Verb[None]:
        """What a partition lacks is made there as the source has it."""
        missing = {name: lane for name, lane in source.lanes.items() if here is None or name not in here.lanes}
        if here is not None and not missing:
            return
        header = {
            "salt": secrets.token_hex(8), "group": group, "policy": source.policy if here is None else False, "fresh": source.policy,
            "lanes": {name.rpartition(".")[2]: {**lane, "made": 0} for name, lane in missing.items()}, "home": home,
        }  # fmt: skip
        yield [function_call("define", self._bases[p], header)]
        paused = [("lane", name, lane) for name, lane in missing.items()]
        for scope, name, policy in [("group", group, source.policy), *paused] if here is None else paused:
            if reason := policy.get("paused"):
                said = {"salt": secrets.token_hex(8), "scope": scope, "name": name, "reason": reason}
                yield [function_call("pause", self._bases[p], said)]


def _dropping(what: str, name: str, partition: int) -> GroupDropping:
    return GroupDropping(
        f"The {what} {name!r} was dropped, and partition {partition} has forgotten it: it is being dropped there again."
    )


def _groups(told: Any) -> dict[str, PartitionGroup]:
    _, _, _, _, lanes, groups, *_ = told
    held = {name: PartitionGroup(policy, number, {}, {}) for name, policy, _, number, *_ in groups}
    for name, _, policy, _ in lanes:
        policy.pop("pages", None)
        if (one := held.get(policy["group"])) is not None:
            (one.closed if policy.get("closed") else one.lanes)[name] = policy
    return held
