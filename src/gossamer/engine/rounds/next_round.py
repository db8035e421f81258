"""When the next rounds of a worker's sites begin. The planner's policy decides; where a planner leads, it also begins them."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from gossamer.courier.transport import Ask
from gossamer.engine.sites import ServedSite
from gossamer.frontier.contract import Frontier
from gossamer.model import Counts, GroupCounts
from gossamer.model.reply import PAGES_FULL
from gossamer.planner.policy.rounds import Action, LastRound, Overlap, decide_round, round_policy
from gossamer.sites.format import Schedule

STEPS = 20
"""The most steps of a drop that are made in one look."""


class NextLook(NamedTuple):
    """When to decide about the next round of a site again, as long as nothing of the rest changes."""

    schedule: Schedule
    at: float
    round: int
    paused: bool


class NextRounds:
    """Decides by the server's time: a clock of this machine that is wrong begins no round. Of several servers, the one that notes the
    site's rounds."""

    def __init__(self, ask: Ask, schedule: Callable[[str], Schedule | None]) -> None:
        self._ask, self._schedule = ask, schedule
        self._ahead = 0.0
        """The server's time less the monotonic time of this process: of several servers, that of the latest clock."""
        self._led = self._paused = False
        self._clocks: dict[str, float] = {}
        """When the server was last asked about a site, by the clock that notes its rounds."""
        self.looks: dict[str, NextLook] = {}

    def heard(self, counts: Counts) -> None:
        self._ahead, self._led, self._paused = counts.now - time.monotonic(), counts.led, bool(counts.paused)
        self._clocks.update(counts.clocks)

    @property
    def now(self) -> float:
        return time.monotonic() + self._ahead

    def forget(self, name: str = "") -> None:
        """Decide again about a site, or about all of them."""
        if name:
            self.looks.pop(name, None)
        else:
            self.looks.clear()

    def concerns(self, site: ServedSite, number: int) -> bool:
        """Whether it is time to decide about a site whose round of this number is over."""
        schedule, known = self._schedule(site.name), self.looks.get(site.name)
        if schedule is None:
            return False
        return known is None or known.schedule != schedule or known.round != number or self.now >= known.at

    async def begun(self, site: ServedSite, row: GroupCounts, *, over: bool, rests: bool = False) -> bool:
        """Begin the next round if it is due; whether it was. `over`: the last one has ended; `rests`: nothing more can be done for it."""
        schedule = self._schedule(site.name)
        if schedule is None or not (over or rests or Overlap(schedule.overlap) in (Overlap.RESEED, Overlap.REPLACE)):
            return False
        if self._paused:
            # The whole crawl. Nobody says when it is resumed: the next look asks again.
            self.forget(site.name)
            return False
        paused = row.paused not in ("", PAGES_FULL)
        known, now = self.looks.get(site.name), self._clocks.get(site.name, self.now)
        if known is not None and known == (schedule, known.at, row.round, paused) and now < known.at:
            return False
        info = next(iter(await self._ask(Frontier.rounds, site.name, 1)), None)
        if info is not None and info.round != row.round:
            # Another one has begun since, or the server went back to before this one.
            self.forget(site.name)
            return False
        began = info.began if info is not None and info.began is not None else now
        ended = began if rests else info.closed if info is not None and over else None
        last = LastRound(row.round, began, ended, seeding=row.start in ("owed", "leased"))
        action, at, _ = decide_round(site.name, round_policy(schedule), last, now, paused=paused)
        # That only one layer is crawled is known to its workers alone.
        led = self._led and not (rests and not row.paused)
        if action is Action.WAIT or led:
            again = at if action is Action.WAIT else now
            self.looks[site.name] = NextLook(schedule, inf if again is None else again, row.round, paused)
            return False
        if action is Action.REPLACE and not await self._dropped(site.name, row.round):
            return False
        reseed, since = action is Action.RESEED, info.began if info is not None else None
        begun = await self._ask(
            Frontier.new_round, site.name, row.round + 1, trigger="schedule", again=reseed, after=since
        )
        self.forget(site.name)
        return bool(begun > row.round)

    async def _dropped(self, group: str, number: int) -> bool:
        """Drop what is left of a round; False: not all of it yet. Then the next look goes on."""
        self.forget(group)
        for _ in range(STEPS):
            over, _ = await self._ask(Frontier.drop_round, group, number)
            if over:
                return True
        return False
