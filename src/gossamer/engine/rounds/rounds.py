"""The rounds of the sites that a worker serves: which one begins, is over, or is due.

Any number of workers do this side by side; leases of the frontier say who does what, and another takes over who dies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from gossamer.engine import hooks
from gossamer.engine.http.deadline import cancel_tasks, wait_for_event
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.failed_pages import FailedPages
from gossamer.engine.rounds.gone_rows import GoneRows
from gossamer.engine.rounds.next_round import NextRounds
from gossamer.engine.rounds.start import RoundStart
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.errors import FrontierUnavailable, GossamerError, GroupDropping, MemoryLimitReached, UnknownGroup
from gossamer.frontier.contract import Frontier
from gossamer.model import Counts, EndState, GroupCounts, LaneCounts, StartState
from gossamer.model.reply import AFTER_ROUND_FAILED, HELD, LOGIN_FAILED, PAGES_FULL
from gossamer.sites.format import Schedule
from gossamer.sites.schedule import is_late

logger = logging.getLogger(__name__)

LOOK = 2.0
"""Seconds between two checks, unless something happens."""
SHARE = 50.0
"""The wait before the next check of all sites, in multiples of what the last one took: it costs the server more the more sites there are."""
LONGEST = 30.0
FEW = 5
"""Up to this number, sites are checked one by one."""
GONE = -1
"""Stands for the round of a group that was dropped."""


class SiteRounds:
    """Checks the rounds of the sites, and begins and ends those whose lease it gets. `only` is the one layer that is crawled, "" for all.
    `open_hint` says how much the frontier had open of these sites a moment ago, None if that is unknown. While that is nothing, sites
    need no look whose round is over: what happens to them opens something. `current` says whether the sites are those of the crawl's
    files as they are now: no round begins with an older file than the one that was there when it was asked for. `schedule` says when rounds
    of a site begin. `define` defines the lanes of a site whose group was dropped, and that somebody wants again. `awaits` gets, by site, what another worker does and this one
    would do otherwise."""

    def __init__(
        self,
        calls: RoundCalls,
        site_set: SiteSet,
        record_sink: RecordSink,
        start: RoundStart,
        *,
        current: Callable[[], Awaitable[bool]],
        schedule: Callable[[str], Schedule | None],
        define: Callable[[ServedSite], Awaitable[None]],
        repeat: bool = False,
        only: str = "",
        open_hint: Callable[[], int | None] = lambda: None,
        awaits: dict[str, str] | None = None,
    ) -> None:
        self._calls, self._site_set, self._record_sink, self._start = calls, site_set, record_sink, start
        self._current, self._repeat, self._only, self._open = current, repeat, only, open_hint
        self._define, self._schedule = define, schedule
        self._awaits = {} if awaits is None else awaits
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._over: dict[str, int] = {}
        self._resting: set[str] = set()
        """Sites with waiting pages, none of which can be fetched in this round."""
        self._failed_pages = FailedPages(calls)
        self._gone_rows = GoneRows(calls, record_sink, only)
        self.next_rounds = NextRounds(calls.ask, schedule)
        self._forced = True
        self._not_before = 0.0
        self._back: set[str] = set()
        """Sites of which some partitions may be in an earlier round than others."""
        self.missing = False
        """Whether `confirm` has found a site without its group."""
        self.called = asyncio.Event()
        """Set when something may have happened."""

    @property
    def over(self) -> bool:
        """Whether the round of every site is over, with what comes after it, or nothing can be done for it."""
        return bool(self._site_set.sites) and all(
            name in self._over or name in self._resting for name in self._site_set.sites
        )

    def rolled_back(self) -> None:
        """The frontier may have an older state: ask again whether rounds are over."""
        self._over.clear()
        self.next_rounds.forget()
        self._resting.clear()
        self._back = set(self._site_set.sites)
        self.look()

    async def confirm(self) -> None:
        """Ask once more whether the rounds are over; call it when `run` has ended. Waits as long as it takes: a server that cannot be
        reached may be the one that reported it."""
        self.missing = GONE in self._over.values()
        sites = [site for site in self._site_set if self._over.get(site.name) != GONE]
        drained: dict[str, bool] = {}
        for site in sites[:FEW]:
            with suppress(UnknownGroup):
                # Behind sentinels this finds the present primary, and what follows is asked there.
                drained[site.name] = (await self._calls.patiently(Frontier.drained, site.name)).drained
        if len(drained) == len(sites) and all(drained.values()):
            return
        rows, lanes = _by_group(await self._calls.patiently(Frontier.counts))
        for site in sites:
            row = rows.get(site.name)
            # Without a row it was dropped meanwhile, or its server is another one.
            self.missing = self.missing or row is None
            if row is None or drained.get(site.name, row.open == 0) or self._rests(site, row, lanes.get(site.name, [])):
                continue
            self._over.pop(site.name, None)
            self._resting.discard(site.name)

    def look(self) -> None:
        """Check all sites at once."""
        self._forced = True
        self.called.set()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                self.called.clear()
                names = self._wanted()
                if names is None:
                    left = 0.0 if self._forced else self._not_before - time.monotonic()
                    if left <= 0:
                        self._forced = False
                        began = time.monotonic()
                        await self._look("")
                        now = time.monotonic()
                        self._not_before = now + min(SHARE * (now - began), LONGEST)
                        left = LOOK
                    await wait_for_event(self.called, min(left, LOOK))
                else:
                    for name in names:
                        await self._look(name)
                    await wait_for_event(self.called, LOOK)
        finally:
            await cancel_tasks(self._under_way.values())

    def _wanted(self) -> list[str] | None:
        """The sites to check; None: all of them."""
        if self._forced or self._back or self._open() != 0:
            return None
        names = [site.name for site in self._site_set if self._concerns(site)]
        return names if len(names) <= FEW else None

    def _concerns(self, site: ServedSite) -> bool:
        """Whether there is something to do for a site that has nothing open."""
        number = self._over.get(site.name)
        if number is None:
            return site.name not in self._under_way
        return number != GONE and self._repeat and self.next_rounds.concerns(site, number)

    async def _look(self, name: str) -> None:
        """At one site, or at all: ""."""
        try:
            counts = await self._calls.ask(Frontier.counts, name)
            self.next_rounds.heard(counts)
            rows, lanes = _by_group(counts)
            for other in [other for other in self._awaits if name in ("", other)]:
                del self._awaits[other]
            for site in list(self._site_set):
                if name and site.name != name:
                    continue
                row = rows.get(site.name)
                # Somebody may drop its group at any moment.
                with suppress(UnknownGroup, GroupDropping):
                    if row is None:
                        self._over[site.name] = GONE
                    elif not lanes.get(site.name):
                        await self._define(site)
                        self.look()
                    elif self._rests(site, row, lanes.get(site.name, [])):
                        await self._rest(site, row)
                    else:
                        self._resting.discard(site.name)
                        if site.name not in self._under_way:
                            await self._look_at(site, row, rows, lanes)
        except (FrontierUnavailable, MemoryLimitReached):
            return  # the courier says so, and waits

    async def _look_at(
        self,
        site: ServedSite,
        row: GroupCounts,
        rows: Mapping[str, GroupCounts],
        lanes: Mapping[str, list[LaneCounts]],
    ) -> None:
        self._heard(site, row)
        if site.name in self._back:
            if row.round:
                await self._calls.ask(Frontier.new_round, site.name, None)
            self._back.discard(site.name)
        if row.start in ("owed", "leased"):
            state, number = await self._calls.ask(Frontier.start, site.name, self._calls.token)
            if state is StartState.GRANTED:
                # Its file may have changed since, also in this moment. The sites are looked at again when they are served again.
                if await self._current() and self._site_set.sites.get(site.name) is site:
                    self._begin(site, self._start.run(site, number))
                else:
                    await self._calls.ask(Frontier.release_start, site.name, self._calls.token)
            elif state is StartState.BUSY:
                self._awaits[site.name] = f"the seeds of {site.name}"
        elif row.open == 0 and site.name not in self._over and not self._fed(site, rows, lanes):
            end, number = await self._calls.ask(Frontier.end_round, site.name, self._calls.token)
            if end is EndState.GRANTED:
                self._begin(site, self._end(site, number))
            elif end is EndState.DONE:
                self._is_over(site, number)
                if number < row.round:
                    # Whoever began the next round came to its end before all partitions knew of it.
                    await self._calls.ask(Frontier.new_round, site.name, None)
                    self.look()
            elif end is EndState.BUSY:
                self._awaits[site.name] = f"the end of round {number} of {site.name}"
        elif self._repeat:
            await self._next(site, row)

    def _is_over(self, site: ServedSite, number: int) -> None:
        self._over[site.name] = number
        self.next_rounds.forget(site.name)

    def _fed(self, site: ServedSite, rows: Mapping[str, GroupCounts], lanes: Mapping[str, list[LaneCounts]]) -> bool:
        """Whether another site that this worker serves may still lead to pages of this one."""
        for name in self._site_set.feeders(site.name):
            row, other = rows.get(name), self._site_set.sites.get(name)
            if row is not None and other is not None and row.open and not self._rests(other, row, lanes.get(name, [])):
                return True
        return False

    def _heard(self, site: ServedSite, row: GroupCounts) -> None:
        self._record_sink.rounds[site.name] = row.round
        led_to = row.open > 0 and site.name in self._over and bool(self._site_set.feeders(site.name))
        if led_to or self._over.get(site.name) != row.round or row.start in ("owed", "leased"):
            self._over.pop(site.name, None)

    def _rests(self, site: ServedSite, row: GroupCounts, lanes: list[LaneCounts]) -> bool:
        """The site has its maximum of pages, and the rest, also seeds without room, waits until the limit is raised or the next round
        begins; or all that waits is of other layers than the one to crawl."""
        if row.open == 0:
            return False
        if row.paused == PAGES_FULL or row.paused.startswith((LOGIN_FAILED, HELD)):
            return not any(lane.leased for lane in lanes)
        if not self._only or row.start in ("owed", "leased"):
            return False
        only = site.lanes_of(self._only)
        return not any(lane.waiting + lane.leased for lane in lanes if lane.lane in only)

    async def _rest(self, site: ServedSite, row: GroupCounts) -> None:
        self._heard(site, row)
        if site.name not in self._resting:
            self._resting.add(site.name)
            why = (
                "it has as many pages as it may"
                if row.paused == PAGES_FULL
                else row.paused or f"of {self._only} there is nothing left"
            )
            logger.info("Round %d of %s rests: %s.", row.round, site.name, why)
        if self._repeat:
            await self._next(site, row, rests=True)

    def _begin(self, site: ServedSite, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._under_way[site.name] = task

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.pop(site.name, None)
            self.called.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("The round of %s could not be looked after: %s", site.name, error)

        task.add_done_callback(over)

    async def _end(self, site: ServedSite, number: int) -> None:
        note: dict[str, Any] = {}
        async with self._calls.lease(site.name, Frontier.renew_end, Frontier.release_end):
            info = next(iter(await self._calls.patiently(Frontier.rounds, site.name, 1)), None)
            if info is not None and info.began is not None and info.ended is not None:
                note["late"] = is_late(self._schedule(site.name), info.began, info.ended)
            if info is not None and info.round == number:
                await self._drop_outdated(site, info.began or 0.0)
            note |= await self._gone_rows.settle(site, number, info)
            if site.after_round is not None:
                try:
                    await hooks.call(site.after_round, site.name, number)
                except Exception as error:
                    failed = f"{AFTER_ROUND_FAILED}{type(error).__name__}: {error}"[:500]
                    note["note"] = f"{failed}; {note['note']}" if "note" in note else failed
                    logger.exception("The hook after_round of %s failed.", site.name)
            if await self._calls.patiently(Frontier.ended, site.name, self._calls.token, note):
                self._is_over(site, number)
                logger.info("Round %d of %s is over.", number, site.name)

    async def _drop_outdated(self, site: ServedSite, began: float) -> None:
        try:
            await self._failed_pages.round_over(site, began)
        except GossamerError as error:
            # The round is over all the same; the next one drops them.
            logger.warning("Dead letters of %s that are outdated stay: %s", site.name, error)

    async def _next(self, site: ServedSite, row: GroupCounts, *, rests: bool = False) -> None:
        if await self.next_rounds.begun(site, row, over=site.name in self._over, rests=rests):
            if site.name in self._under_way:
                # A start that had no room: its seeds come again, with those of the next round.
                self._under_way[site.name].cancel()
            self.look()


def _by_group(counts: Counts) -> tuple[dict[str, GroupCounts], dict[str, list[LaneCounts]]]:
    lanes: dict[str, list[LaneCounts]] = {}
    for lane in counts.lanes:
        lanes.setdefault(lane.lane.rpartition(".")[0], []).append(lane)
    return {row.group: row for row in counts.groups}, lanes
