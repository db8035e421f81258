"""A partition that went back to an earlier state is brought into step with the others. Generators without I/O.

Groups, lanes and rounds are those of the whole crawl, but each partition is told of them for itself. One whose server lost its last moments may
lack a group or a lane, or be in an earlier round than the others: what is added there is refused then, or taken for known by the
memory of the last round. So this comes before anything is added to it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Any, NamedTuple

from gossamer.errors import GroupDropping, UnknownGroup, UnknownLane
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.recent_adds import Known
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control import ControlVerbs
from gossamer.frontier.verbs.rounds import RoundVerbs

FEW = 16
"""So many groups are asked for one by one."""
DROPPED = "dropped"


class PartitionGroup(NamedTuple):
    """What one partition has of a group."""

    policy: dict[str, Any]
    round: int
    lanes: dict[str, dict[str, Any]]


class PartitionSync:
    """For the partitions of one crawl."""

    def __init__(self, control: ControlVerbs, rounds: RoundVerbs) -> None:
        self._bases, self._partitions, self._rounds = control.bases, control.partitions, rounds

    def bring(self, partition: int, groups: Collection[str]) -> Verb[Known]:
        """Tell a partition of what the others know of these groups. Answers the lanes of them that it has then, and when they were made."""
        lanes: set[str] = set()
        made: dict[str, int] = {}
        for asked in groups if len(groups) <= FEW else [""]:
            replies = yield [function_call("counts", base, {"group": asked}) for base in self._bases]
            parts = [_held(read(reply)) for reply in replies]
            for name, lane in [row for part in parts for one in part.values() for row in one.lanes.items()]:
                made[name] = min(made.get(name, since := lane.get("made", 0)), since)
            for group in {name: None for part in parts for name in part}:
                try:
                    lanes |= yield from self._group(partition, group, [part.get(group) for part in parts])
                except (GroupDropping, UnknownGroup, UnknownLane):
                    continue  # It is being dropped at this moment.
        return Known(lanes, made)

    def _group(self, partition: int, group: str, held: list[PartitionGroup | None]) -> Verb[set[str]]:
        home, here = keys.home_of(group, self._partitions), held[partition]
        others = [home] if home != partition else [p for p in range(self._partitions) if p != partition]
        source = next((one for p in others if (one := held[p]) is not None), None)
        known = [one for one in (here, source) if one is not None]
        if source is None or any(one.policy.get("paused") == DROPPED for one in known):
            return set(here.lanes if here else ())  # Dropped, or just being made: whoever does so says it here too.
        missing = {name: lane for name, lane in source.lanes.items() if here is None or name not in here.lanes}
        if here is None or missing:
            header = {
                "salt": secrets.token_hex(8), "group": group, "policy": source.policy if here is None else False, "fresh": source.policy,
                "lanes": {name.rpartition(".")[2]: {**lane, "made": 0} for name, lane in missing.items()}, "home": partition == home,
            }  # fmt: skip
            yield [function_call("define", self._bases[partition], header)]
        paused = [("lane", name, lane) for name, lane in missing.items()]
        for scope, name, policy in [("group", group, source.policy), *paused] if here is None else paused:
            if reason := policy.get("paused"):
                said = {"salt": secrets.token_hex(8), "scope": scope, "name": name, "reason": reason}
                yield [function_call("pause", self._bases[partition], said)]
        number = max(one.round for one in held if one is not None)
        if (here.round if here else 0) < number:
            yield from self._rounds.new_round(group, number)
        return {*(here.lanes if here else ()), *missing}


def _held(told: Any) -> dict[str, PartitionGroup]:
    _, _, _, _, lanes, groups, _ = told
    held = {name: PartitionGroup(policy, number, {}) for name, policy, _, number, *_ in groups}
    for name, _, policy, _ in lanes:
        if policy["group"] in held and not policy.get("closed"):
            held[policy["group"]].lanes[name] = policy
    return held
