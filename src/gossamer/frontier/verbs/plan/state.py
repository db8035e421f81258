"""What planners decide by: the rounds of all groups and what waits for them. Generators without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.model import GroupState, LaneState, Leader, PlanState
from gossamer.model.reply import PAGES_FULL


class PlanVerbs:
    """Builds and reads the calls of planners about one crawl. What a partition has told is kept until it has changed."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.partitions = partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]
        self._known: list[tuple[str, list[Any]]] = [("", [])] * partitions

    def plan_state(self) -> Verb[PlanState]:
        replies = yield [
            function_call("plan_state", base, {"known": state})
            for base, (state, _) in zip(self.bases, self._known, strict=True)
        ]
        parts = [read(reply) for reply in replies]
        for place, (_, state, _, _, *groups) in enumerate(parts):
            if groups:
                self._known[place] = state, groups[0]
        now, _, documents, (term, name, until), *_ = parts[0]
        leader = Leader(False, term, name, until / 1000, now / 1000)
        return PlanState(now / 1000, documents, leader, self._groups())

    def _groups(self) -> dict[str, GroupState]:
        rows: dict[str, dict[int, list[Any]]] = {}
        for place, (_, groups) in enumerate(self._known):
            for row in groups:
                rows.setdefault(row[0], {})[place] = row
        return {name: self._group(name, found) for name, found in rows.items()}

    def _group(self, name: str, rows: dict[int, list[Any]]) -> GroupState:
        """As its home partition tells it; what waits, over all. A home partition that has lost the group is told of it by workers."""
        home = rows.get(keys.home_of(name, self.partitions)) or next(iter(rows.values()))
        _, has_start, number, start, paused, _, _, noted, _ = home
        row = noted if isinstance(noted, dict) else {}
        lanes: dict[str, Sequence[int]] = {}
        for *_, told in rows.values():
            for lane, *waiting in told:
                lanes[lane] = [a + b for a, b in zip(lanes.get(lane, (0, 0, 0)), waiting, strict=True)]
        began, ended, closed = (row[key] / 1000 if key in row else None for key in ("began", "ended", "closed"))
        return GroupState(
            name,
            has_start == 1,
            number,
            start,
            paused or _held(list(rows.values())),
            sum(each[6] for each in rows.values()),
            began,
            ended,
            closed,
            bool(row.get("late")),
            row.get("trigger", ""),
            tuple(LaneState(lane, *waiting) for lane, waiting in sorted(lanes.items())),
        )


def _held(rows: list[list[Any]]) -> str:
    """Why nothing is leased for now. Pages are limited on each partition: full is a group only where all that have something left are."""
    held = [row[5] for row in rows if row[5]]
    if held and any(not row[5] and any(queued or delayed for _, queued, delayed, _ in row[8]) for row in rows):
        held = [reason for reason in held if reason != PAGES_FULL]
    return held[0] if held else ""
