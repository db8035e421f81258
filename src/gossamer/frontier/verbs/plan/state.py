"""What planners decide by: the rounds of all groups and what waits for them. Generators without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.frontier.server.layout import RIGHT
from gossamer.model import DueLane, GroupState, LaneShare, LaneState, Leader, PlanCycle, PlanState
from gossamer.model.reply import PAGES_FULL

STATE = RIGHT.at("state")


class PartitionRow(NamedTuple):
    """What one partition tells of a group; `start` and `noted` as they are stored."""

    name: str
    has_start: int
    round: int
    paused: str
    held: str
    open: int
    leased: int
    lanes: Sequence[Sequence[Any]]
    start: bytes
    noted: bytes


class PlanVerbs:
    """Builds and reads the calls of planners about one crawl. The partitions' replies are kept until they change."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.partitions = partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]
        self._known: dict[bool, list[tuple[str, list[PartitionRow]]]] = {
            lanes: [("", [])] * partitions for lanes in (False, True)
        }
        self._groups: dict[bool, dict[str, GroupState]] = {False: {}, True: {}}

    def plan_state(self, *, lanes: bool = False) -> Verb[PlanState]:
        known = self._known[lanes]
        replies = yield [
            function_call("plan_state", base, {"known": state, "lanes": lanes})
            for base, (state, _) in zip(self.bases, known, strict=True)
        ]
        heads = [read(reply[0]) for reply in replies]
        changed = False
        for place, ((_, state, _, _, *groups), (_, *raw)) in enumerate(zip(heads, replies, strict=True)):
            if groups:
                known[place] = state, [_row(*told) for told in zip(groups[0], raw[::2], raw[1::2], strict=True)]
                changed = True
        if changed:
            self._groups[lanes] = self._joined(known)
        now, told, documents, (term, name, until), *_ = heads[0]
        leader = Leader(False, term, name, until / 1000, now / 1000)
        clocks = tuple(head[0] / 1000 for head in heads)
        return PlanState(now / 1000, documents, leader, self._groups[lanes], clocks, told.partition(" ")[0])

    def plan_cycles(self, limit: int = 20) -> Verb[list[PlanCycle]]:
        replies = yield [function_call("plan_cycles", base, {"limit": max(1, limit)}) for base in self.bases]
        found = [
            PlanCycle(at / 1000, partition, term, most, scheduled, tuple(LaneShare(*lane) for lane in lanes))
            for partition, reply in enumerate(replies)
            for at, term, most, scheduled, lanes in read(reply)
        ]
        return sorted(found, key=lambda cycle: (-cycle.at, cycle.partition))[:limit]

    def due_lanes(self, partition: int) -> Verb[list[DueLane]]:
        [reply] = yield [function_call("due_lanes", self.bases[partition], {})]
        return [DueLane(*row) for row in read(reply)]

    def _joined(self, known: list[tuple[str, list[PartitionRow]]]) -> dict[str, GroupState]:
        rows: dict[str, dict[int, PartitionRow]] = {}
        for place, (_, groups) in enumerate(known):
            for row in groups:
                rows.setdefault(row.name, {})[place] = row
        return {name: self._group(name, found) for name, found in rows.items()}

    def _group(self, name: str, rows: Mapping[int, PartitionRow]) -> GroupState:
        """As its home partition reports it; what waits, over all partitions. Workers define a group again on a home
        partition that has lost it."""
        place = keys.home_of(name, self.partitions)
        place = place if place in rows else next(iter(rows))
        home = rows[place]
        row = read(home.noted) if home.noted else {}
        lanes: dict[str, Sequence[int]] = {}
        for each in rows.values():
            for lane, *waiting in each.lanes:
                lanes[lane] = [a + b for a, b in zip(lanes.get(lane, (0, 0, 0)), waiting, strict=True)]
        began, ended, closed = (row[key] / 1000 if key in row else None for key in ("began", "ended", "closed"))
        return GroupState(
            name,
            home.has_start == 1,
            home.round,
            read(home.start)[STATE] if home.start else "none",
            home.paused or _held(list(rows.values())),
            sum(each.open for each in rows.values()),
            sum(each.leased for each in rows.values()),
            began,
            ended,
            closed,
            bool(row.get("late")),
            row.get("trigger", ""),
            tuple(LaneState(lane, *waiting) for lane, waiting in sorted(lanes.items())),
            place,
            bool(row.get("tasks")),
            row.get("obstacle", ""),
            row.get("pages", 0),
            row.get("failed", 0),
        )


def _row(told: Sequence[Any], start: bytes, noted: bytes) -> PartitionRow:
    lanes = told[7] if len(told) > 7 else ()
    return PartitionRow._make([*told[:7], lanes, start, noted])


def _held(rows: list[PartitionRow]) -> str:
    """Why nothing is leased now. The limit of pages applies on each partition: a group is full only if all partitions with
    something left are."""
    held = [row.held for row in rows if row.held]
    if held and any(not row.held and row.open > row.leased for row in rows):
        held = [reason for reason in held if reason != PAGES_FULL]
    return held[0] if held else ""
