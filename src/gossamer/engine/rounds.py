"""The rounds of the sites that a worker serves: seeds when one begins, what comes after it, and when the next one is due.

Any number of workers do this side by side; leases of the frontier say who does what, and another takes over who dies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from gossamer.courier import RequestAdder
from gossamer.courier.outage import patiently
from gossamer.courier.rounds import bury_start, give_back, start_key
from gossamer.courier.transport import Ask, Verb
from gossamer.engine import hooks
from gossamer.engine.http.deadline import cancel_tasks, wait_for_event
from gossamer.engine.page.payload import pack
from gossamer.engine.page.refresh import Refresh
from gossamer.engine.records import RecordSink
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.errors import FrontierUnavailable, MemoryLimitReached, StoreAway, UnknownGroup
from gossamer.frontier.contract import Frontier
from gossamer.model import Counts, EndState, GroupCounts, LaneCounts, LanePolicy, SeenScope, StartState, Token
from gossamer.model.page import PageRequest
from gossamer.model.reply import LOGIN_FAILED, PAGES_FULL
from gossamer.sites.format import RefreshRule, Schedule
from gossamer.sites.schedule import is_late, next_due

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOK = 2.0
"""Seconds between two checks, unless something happens."""
SHARE = 50.0
"""The wait before the next check of all sites, in multiples of what the last one took: it costs the server more the more sites there are."""
LONGEST = 30.0
FEW = 5
"""Up to this number, sites are checked one by one."""
BACKLOG = 2000
"""Maximum number of seeds that wait to be added."""
AGAIN = 1.0
PROBED = 1000
"""How many seeds are looked up in a memory at once."""
GONE = -1
"""Stands for the round of a group that was dropped."""


class SiteRounds:
    """`request_adder` makes one, for the seeds of one round. `only` is the one layer that is crawled, "" for all. `open_hint` says how much
    the frontier had open of these sites a moment ago, None if that is unknown. While that is nothing, sites need no look
    whose round is over: what happens to them opens something. `current` says whether the sites are those of the crawl's files as
    they are now: no round begins with an older file than the one that was there when it was asked for. `token` is by whose incarnation
    leases of starts and ends are had; in `awaits` is noted, by site, what another worker does and this one would do otherwise."""

    def __init__(
        self,
        fetch_request: Ask,
        site_set: SiteSet,
        record_sink: RecordSink,
        request_adder: Callable[[], RequestAdder],
        *,
        lease_seconds: float,
        repeat: bool,
        payload_max: int,
        only: str = "",
        open_hint: Callable[[], int | None] = lambda: None,
        token: Token | None = None,
        awaits: dict[str, str] | None = None,
        current: Callable[[], Awaitable[bool]],
    ) -> None:
        self._ask, self._site_set, self._record_sink, self._request_adder = (
            fetch_request,
            site_set,
            record_sink,
            request_adder,
        )
        self._renewal, self._repeat, self._payload_max, self._only = lease_seconds / 3, repeat, payload_max, only
        # Leases of starts and ends go by incarnation: by that of the worker's pages, for when it is gone.
        self._token = token or Token.fresh()
        self._awaits = {} if awaits is None else awaits
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._over: dict[str, int] = {}
        self._resting: set[str] = set()
        """Sites with waiting pages, none of which can be fetched in this round."""
        self._due: dict[str, tuple[Schedule, float]] = {}
        """When the next round begins, and by which schedule."""
        self._forced = True
        self._not_before = 0.0
        self._open, self._current = open_hint, current
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
        self._due.clear()
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
                drained[site.name] = (await self._patiently(Frontier.drained, site.name)).drained
        if len(drained) == len(sites) and all(drained.values()):
            return
        rows, lanes = _by_group(await self._patiently(Frontier.counts))
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
        schedule = site.compiled.site.schedule
        if number == GONE or schedule is None or not self._repeat:
            return False
        known = self._due.get(site.name)
        return known is None or known[0] != schedule or time.time() >= known[1]

    async def _look(self, name: str) -> None:
        """At one site, or at all: ""."""
        try:
            rows, lanes = _by_group(await self._ask(Frontier.counts, name))
            for other in [other for other in self._awaits if name in ("", other)]:
                del self._awaits[other]
            for site in list(self._site_set):
                if name and site.name != name:
                    continue
                row = rows.get(site.name)
                # Somebody may drop its group at any moment.
                with suppress(UnknownGroup):
                    if row is None:
                        self._over[site.name] = GONE
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
                await self._ask(Frontier.new_round, site.name, row.round)
            self._back.discard(site.name)
        if row.start in ("owed", "leased"):
            state, number = await self._ask(Frontier.start, site.name, self._token)
            if state is StartState.GRANTED:
                # Its file may have changed since, also in this moment. The sites are looked at again when they are served anew.
                if await self._current() and self._site_set.sites.get(site.name) is site:
                    self._begin(site, self._start(site, number))
                else:
                    await self._ask(Frontier.release_start, site.name, self._token)
            elif state is StartState.BUSY:
                self._awaits[site.name] = f"the seeds of {site.name}"
        elif row.open == 0 and site.name not in self._over and not self._fed(site, rows, lanes):
            end, number = await self._ask(Frontier.end_round, site.name, self._token)
            if end is EndState.GRANTED:
                self._begin(site, self._end(site, number))
            elif end is EndState.DONE:
                self._over[site.name] = number
            elif end is EndState.BUSY:
                self._awaits[site.name] = f"the end of round {number} of {site.name}"
        elif site.name in self._over and self._repeat:
            await self._next(site, row.round)

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
            self._due.pop(site.name, None)

    def _rests(self, site: ServedSite, row: GroupCounts, lanes: list[LaneCounts]) -> bool:
        """The site has its maximum of pages, and the rest, also seeds without room, waits until the limit is raised or the next round
        begins; or all that waits is of other layers than the one to crawl."""
        if row.open == 0:
            return False
        if row.paused == PAGES_FULL or row.paused.startswith(LOGIN_FAILED):
            return not any(lane.leased for lane in lanes)
        if not self._only or row.start in ("owed", "leased"):
            return False
        only = f"{site.name}.{self._only}"
        return not any(lane.queued + lane.delayed + lane.leased for lane in lanes if lane.lane == only)

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
            await self._next(site, row.round)

    def _begin(self, site: ServedSite, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._under_way[site.name] = task

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.pop(site.name, None)
            self.called.set()
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("The round of %s could not be looked after: %s", site.name, error)

        task.add_done_callback(over)

    # The beginning.

    async def _start(self, site: ServedSite, number: int) -> None:
        renewing = asyncio.ensure_future(self._keep(Frontier.renew_start, site.name, asyncio.current_task()))
        try:
            await self._archive(site, number)
            logger.info("Round %d of %s begins: %s seeds.", number, site.name, f"{site.compiled.seed_count():,}")
            await self._seed(site, number)
            if not await self._patiently(Frontier.started, site.name, self._token):
                logger.warning("The start of %s was given away to another worker.", site.name)
        except asyncio.CancelledError:
            await give_back(self._ask, Frontier.release_start, site.name, self._token)
            raise
        except Exception as error:
            # What was added counts; that the rest is missing must not be missed.
            logger.error("The start of %s failed: %s", site.name, error)
            await bury_start(self._ask, asyncio.sleep, site.name, number, error)
            await self._patiently(Frontier.started, site.name, self._token)
        finally:
            renewing.cancel()

    async def _archive(self, site: ServedSite, number: int) -> None:
        """Archive tables, as long as it takes: otherwise the round would write into the tables of the last one."""
        while True:
            try:
                await self._record_sink.archive(site, f"r{number}")
                break
            except StoreAway as error:
                logger.warning("Round %d of %s waits for its database: %s", number, site.name, error)
                await asyncio.sleep(AGAIN)
        if site.conditional and any(table.archive for table in site.compiled.tables()):
            # The empty tables want all pages, changed or not.
            await self._patiently(Frontier.forget_page_versions, site.name)

    async def _seed(self, site: ServedSite, number: int) -> None:
        lanes, request_adder = site.lanes(), self._request_adder()
        if number:
            await self._forget_failed(site, number, lanes)
        try:
            await self._put_seeds(site, number, lanes, request_adder)
        finally:
            request_adder.stop()

    async def _put_seeds(
        self, site: ServedSite, number: int, lanes: Mapping[str, LanePolicy], request_adder: RequestAdder
    ) -> None:
        new = await self._new_seeds(site, lanes) if number else None
        for place, link in enumerate(site.compiled.seeds()):
            if self._only and link.layer != self._only:
                continue
            if _outlives(lanes[link.layer]) and not (
                _plain(link) and (new is None or (link.layer, link.fingerprint) in new)
            ):
                # A memory that outlives the round would refuse the seeds of the next one; each is added once by its key. One
                # that is in no memory goes there like any link: in the same round, a link to it is not fetched again.
                link = link._replace(dont_filter=True)
            link = link._replace(round=number, always=link.dont_filter)
            request = pack(link, f"{site.name}.{link.layer}", self._payload_max)
            # With the fingerprint: who goes on with this start may have another version of the file.
            request_adder.put(request, start_key(site.name, number, f"{place}:{link.fingerprint:x}"), None)
            if place % 100 == 99:
                await _below(request_adder, BACKLOG)
        for place, rule in enumerate(site.compiled.site.refresh):
            if not self._only or rule.layer == self._only:
                await self._refresh(site, number, place, rule, request_adder)
        await _below(request_adder, 0)

    async def _new_seeds(self, site: ServedSite, lanes: Mapping[str, LanePolicy]) -> set[tuple[str, int]]:
        """Layer and fingerprint of the seeds that no earlier round has seen. In the first round, all are new: what is seen there
        was seen in that round."""
        by_layer: dict[str, list[int]] = {}
        new: set[tuple[str, int]] = set()

        async def probe(layer: str) -> None:
            some = by_layer.pop(layer)
            known = await self._patiently(Frontier.seen, f"{site.name}.{layer}", some)
            new.update((layer, number) for number, was in zip(some, known, strict=True) if not was)

        for link in site.compiled.seeds():
            if _outlives(lanes[link.layer]) and _plain(link) and self._only in ("", link.layer):
                by_layer.setdefault(link.layer, []).append(link.fingerprint)
                if len(by_layer[link.layer]) == PROBED:
                    await probe(link.layer)
        for layer in list(by_layer):
            await probe(layer)
        return new

    async def _refresh(
        self, site: ServedSite, number: int, place: int, rule: RefreshRule, request_adder: RequestAdder
    ) -> None:
        """Add the pages that stored rows ask for. One that was added before is not added again, by whomever."""
        dont_filter = site.lanes()[rule.layer].seen.scope is not SeenScope.ROUND
        while True:
            added, without = 0, list[str]()
            try:
                async with Refresh(site, rule) as pages:
                    async for link in pages:
                        if isinstance(link, str):
                            without.append(link)
                            continue
                        link = link._replace(round=number, dont_filter=dont_filter, always=dont_filter)
                        request = pack(link, f"{site.name}.{link.layer}", self._payload_max)
                        key = start_key(site.name, number, f"refresh{place}:{link.fingerprint:x}")
                        request_adder.put(request, key, None)
                        added += 1
                        if added % 100 == 0:
                            await _below(request_adder, BACKLOG)
                break
            except StoreAway as error:
                logger.warning("The refresh of %s.%s waits for its database: %s", site.name, rule.layer, error)
                await asyncio.sleep(AGAIN)
        logger.info("Refresh of %s.%s: %s pages by the table %s.", site.name, rule.layer, f"{added:,}", rule.table)
        if without:
            said = "; ".join(dict.fromkeys(without[:5]))
            logger.warning("%d rows of %s name no page to refresh: %s.", len(without), rule.table, said)

    async def _forget_failed(self, site: ServedSite, number: int, lanes: Mapping[str, LanePolicy]) -> None:
        """Let pages be fetched again that failed in the round before, should this one find them; those that failed earlier were
        allowed to then. Of a page that failed in several rounds, only the last dead letter is kept."""
        past = [info for info in await self._patiently(Frontier.rounds, site.name, 2) if info.round < number]
        since = past[0].began or 0.0 if past else 0.0
        last: dict[tuple[str, int], tuple[int, int]] = {}
        lately: set[tuple[str, int]] = set()
        outdated: dict[int, list[int]] = {}
        after = 0
        while letters := await self._patiently(Frontier.dead_letters, site.name, after, PROBED):
            after += PROBED
            for letter in letters:
                layer = letter.lane.rpartition(".")[2]
                if letter.fingerprint and layer in lanes and _outlives(lanes[layer]):
                    page = letter.lane, letter.fingerprint
                    if page in last:
                        outdated.setdefault(last[page][0], []).append(last[page][1])
                    last[page] = letter.partition, letter.id
                    if letter.at >= since:
                        lately.add(page)
        by_lane: dict[str, list[int]] = {}
        for lane, fingerprint in lately:
            by_lane.setdefault(lane, []).append(fingerprint)
        for lane, failed in by_lane.items():
            await self._patiently(Frontier.forget, lane, failed)
        for partition, numbers in outdated.items():
            await self._patiently(Frontier.drop_dead, partition, numbers)

    # The end.

    async def _end(self, site: ServedSite, number: int) -> None:
        renewing = asyncio.ensure_future(self._keep(Frontier.renew_end, site.name, asyncio.current_task()))
        note: dict[str, Any] = {}
        try:
            info = next(iter(await self._patiently(Frontier.rounds, site.name, 1)), None)
            if info is not None and info.began is not None and info.ended is not None:
                note["late"] = is_late(site.compiled.site.schedule, info.began, info.ended)
            if site.after_round is not None:
                try:
                    await hooks.call(site.after_round, site.name, number)
                except Exception as error:
                    note["note"] = f"after_round failed: {type(error).__name__}: {error}"[:500]
                    logger.exception("The hook after_round of %s failed.", site.name)
            if await self._patiently(Frontier.ended, site.name, self._token, note):
                self._over[site.name] = number
                logger.info("Round %d of %s is over.", number, site.name)
        except asyncio.CancelledError:
            await give_back(self._ask, Frontier.release_end, site.name, self._token)
            raise
        finally:
            renewing.cancel()

    async def _next(self, site: ServedSite, number: int) -> None:
        schedule = site.compiled.site.schedule
        if schedule is None:
            return
        known = self._due.get(site.name)
        if known is None or known[0] != schedule:
            info = next(iter(await self._ask(Frontier.rounds, site.name, 1)), None)
            began = info.began if info is not None and info.began is not None else time.time()
            known = self._due[site.name] = schedule, next_due(schedule, began, site.name, number)
        if time.time() >= known[1]:
            await self._ask(Frontier.new_round, site.name, number + 1, trigger="schedule")
            if site.name in self._under_way:
                # A start that had no room: its seeds come again, with those of the next round.
                self._under_way[site.name].cancel()
            self._due.pop(site.name, None)
            self.look()

    # Leases.

    async def _keep(self, verb: Verb[[str, Token], bool], group: str, task: asyncio.Task[Any] | None) -> None:
        while True:
            await asyncio.sleep(self._renewal)
            try:
                if not await self._ask(verb, group, self._token) and task is not None:
                    task.cancel()
            except FrontierUnavailable:
                continue

    async def _patiently(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        waits = "the rounds of this worker's sites wait for it"
        return await patiently(self._ask, asyncio.sleep, waits, verb, *args, **kwargs)


def _by_group(counts: Counts) -> tuple[dict[str, GroupCounts], dict[str, list[LaneCounts]]]:
    lanes: dict[str, list[LaneCounts]] = {}
    for lane in counts.lanes:
        lanes.setdefault(lane.lane.rpartition(".")[0], []).append(lane)
    return {row.group: row for row in counts.groups}, lanes


def _outlives(lane: LanePolicy) -> bool:
    """Whether what a lane has seen in one round is seen in the next."""
    return lane.seen.scope is not SeenScope.ROUND


def _plain(seed: PageRequest) -> bool:
    """Whether a link to the page would bring the same request: a seed with values or headers of its own must not lose them to a
    link that was found before it."""
    return not (seed.inherited or seed.headers or seed.cookies)


async def _below(request_adder: RequestAdder, count: int) -> None:
    reached = asyncio.Event()
    request_adder.below(count, reached.set)
    await reached.wait()
