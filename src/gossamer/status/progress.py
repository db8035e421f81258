"""How far a group is, in the few numbers that people watch. Read from the frontier at a cost that does not grow with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gossamer.frontier import inspection
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import Counts


class LaneTotals(NamedTuple):
    """What was counted of a lane since it was made."""

    lane: str
    pages: int
    failed: int
    replaced: int
    expired: int


class GroupTotals(NamedTuple):
    """What was counted of a group since it was made."""

    group: str
    pages: int
    items: int


class Progress(NamedTuple):
    """A group now: `queued`, `waiting` (until a time, or for a planner) and `leased` requests, `dead` letters, `hosts` of the crawl that are asked
    or made to wait, `dead_before` those of the dead letters that are of earlier rounds, where they were asked for; and since the group began: `pages` that came to an end, of them `failed`, requests `replaced` (a
    redirect, another try), leases that ran out (`expired`) and `items`."""

    round: int = 0
    queued: int = 0
    waiting: int = 0
    leased: int = 0
    hosts: int = 0
    pages: int = 0
    failed: int = 0
    replaced: int = 0
    expired: int = 0
    dead: int = 0
    items: int = 0
    paused: str = ""
    exists: bool = False
    dead_before: int = 0
    by_lane: tuple[LaneTotals, ...] = ()
    by_group: tuple[GroupTotals, ...] = ()

    @property
    def dead_now(self) -> int:
        """The dead letters of the present round."""
        return self.dead - self.dead_before

    @property
    def open(self) -> int:
        """Requests that are known and not yet done."""
        return self.queued + self.waiting + self.leased

    def since(self, then: Progress) -> Progress:
        """The same with only what happened after `then`. A lane or group that was dropped meanwhile takes its counts along: what is there
        of its name began at nothing. The pages of a lane that is gone are still its group's."""
        _, pages, failed, replaced, expired = _grown(self.by_lane, then.by_lane, 5)
        _, counted, items = _grown(self.by_group, then.by_group, 3)
        return self._replace(pages=max(pages, counted), failed=failed, replaced=replaced, expired=expired, items=items)


def read_progress(frontier: ValkeyFrontier, group: str) -> Progress:
    """The progress of a group; empty if there is no such group."""
    return read_progress_of(frontier, [group])


def read_progress_of(frontier: ValkeyFrontier, groups: Sequence[str]) -> Progress:
    """The progress of several groups together; `round` is the highest, `paused` says how many of them are, and why."""
    return progress_of(frontier.counts(groups[0] if len(groups) == 1 else ""), groups, inspection.hosts_count(frontier))


def with_earlier(frontier: ValkeyFrontier, group: str, now: Progress) -> Progress:
    """The same with `dead_before`, by when the letters died."""
    rounds = frontier.rounds(group, 1) if now.dead else []
    if not rounds or rounds[0].began is None:
        return now
    return now._replace(dead_before=min(inspection.dead_before(frontier, group, rounds[0].began), now.dead))


def progress_of(counts: Counts, groups: Sequence[str], hosts: int = 0) -> Progress:
    wanted = frozenset(groups)
    rows = [row for row in counts.groups if row.group in wanted]
    if not rows:
        return Progress()
    lanes = [lane for lane in counts.lanes if lane.lane.rpartition(".")[0] in wanted]

    def total(*names: str) -> int:
        return sum(getattr(lane, name) for lane in lanes for name in names)

    return Progress(
        round=max(row.round for row in rows),
        queued=total("queued"),
        waiting=total("delayed") + total("found"),
        leased=total("leased"),
        hosts=hosts,
        pages=total("done", "failed"),
        failed=total("failed"),
        replaced=total("replaced"),
        expired=total("expired"),
        dead=sum(row.dead for row in rows),
        items=sum(row.items for row in rows),
        paused=counts.paused or _paused([row.paused for row in rows]),
        exists=True,
        by_lane=tuple(LaneTotals(x.lane, x.done + x.failed, x.failed, x.replaced, x.expired) for x in lanes),
        by_group=tuple(GroupTotals(row.group, row.pages, row.items) for row in rows),
    )


def _grown(now: Sequence[tuple[Any, ...]], then: Sequence[tuple[Any, ...]], columns: int) -> list[int]:
    """By how much each column has grown, all rows together; the first names the row."""
    before = {row[0]: row for row in then}
    sums = [0] * columns
    for row in now:
        old = before.get(row[0], ())
        anew = not old or any(new < was for new, was in zip(row[1:], old[1:], strict=True))
        for column in range(1, columns):
            sums[column] += row[column] - (0 if anew else old[column])
    return sums


def _paused(reasons: Sequence[str]) -> str:
    given = list(dict.fromkeys(filter(None, reasons)))
    if not given:
        return ""
    few = sum(map(bool, reasons))
    return f"{f'{few} of {len(reasons)}: ' if few < len(reasons) else ''}{', '.join(given[:3])}"
