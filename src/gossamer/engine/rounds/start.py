"""How a round begins: tables are archived, failed pages may come again, and the seeds are added."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

from gossamer.courier import RequestAdder
from gossamer.courier.rounds import bury_start, start_key
from gossamer.engine.page.payload import pack
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.failed_pages import FailedPages, outlives
from gossamer.engine.rounds.refresh import Refresh
from gossamer.engine.sites import ServedSite
from gossamer.errors import StoreUnavailable
from gossamer.frontier.contract import Frontier
from gossamer.model import LanePolicy
from gossamer.model.page import PageRequest
from gossamer.sites.format import RefreshRule
from gossamer.sites.plan import AGAIN as AGAIN_LANE

logger = logging.getLogger(__name__)

BACKLOG = 2000
"""Maximum number of seeds that wait to be added."""
AGAIN = 1.0
ONE_LAYER = "a worker crawled one layer only"
"""Why a round says nothing of rows that it did not bring."""
PROBED = 1000
"""How many seeds are looked up in a memory at once."""


class RoundStart:
    """Begins rounds, each under the lease of its start. `request_adder` makes one, for the seeds of one round. `only` is the one layer
    that is crawled, "" for all."""

    def __init__(
        self,
        calls: RoundCalls,
        record_sink: RecordSink,
        request_adder: Callable[[], RequestAdder],
        payload_max: int,
        only: str = "",
    ) -> None:
        self._calls, self._record_sink, self._request_adder = calls, record_sink, request_adder
        self._failed_pages = FailedPages(calls)
        self._payload_max, self._only = payload_max, only

    async def run(self, site: ServedSite, number: int) -> None:
        calls = self._calls
        async with calls.lease(site.name, Frontier.renew_start, Frontier.release_start):
            try:
                await self._archive(site, number)
                await self._begin_rows(site, number)
                logger.info("Round %d of %s begins: %s seeds.", number, site.name, f"{site.compiled.seed_count():,}")
                await self._seed(site, number)
                if not await calls.patiently(Frontier.started, site.name, calls.token):
                    logger.warning("The start of %s was given to another worker.", site.name)
            except Exception as error:
                # What was added counts; that the rest is missing must not be missed.
                logger.error("The start of %s failed: %s", site.name, error)
                await bury_start(calls.ask, asyncio.sleep, site.name, number, error)
                await calls.patiently(Frontier.started, site.name, calls.token)

    async def _archive(self, site: ServedSite, number: int) -> None:
        """Archive tables, as long as it takes: otherwise the round would write into the tables of the last one."""
        tables = site.compiled.archived_tables(self._only)
        if not tables:
            return
        birth = await birth_of(self._calls, site.name)
        while True:
            try:
                await self._record_sink.archive(site, tables, number, birth)
                break
            except StoreUnavailable as error:
                logger.warning("Round %d of %s waits for its database: %s", number, site.name, error)
                await asyncio.sleep(AGAIN)
        if site.conditional:
            # The empty tables want all pages, changed or not.
            await self._calls.patiently(Frontier.forget_page_versions, site.name)

    async def _begin_rows(self, site: ServedSite, number: int) -> None:
        """Note that a round begins whose end says which rows are gone."""
        if not site.keeps_gone:
            return
        birth = await birth_of(self._calls, site.name)
        while True:
            try:
                await self._record_sink.begin_round(site, number, birth)
                if not self._only or await self._record_sink.note_gap(site, number, "", ONE_LAYER):
                    return
            except StoreUnavailable as error:
                logger.warning("Round %d of %s waits for its database: %s", number, site.name, error)
            await asyncio.sleep(AGAIN)

    async def _seed(self, site: ServedSite, number: int) -> None:
        lanes, request_adder = site.lanes(), self._request_adder()
        if number:
            await self._failed_pages.want_again(site, number)
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
            # With the fingerprint: who goes on with this start may have another version of the file.
            key = start_key(site.name, number, f"{place}:{link.fingerprint:x}")
            lane, link = f"{site.name}.{link.layer}", link._replace(round=number)
            always = link._replace(dont_filter=True, always=True)
            if outlives(lanes[link.layer]) and new is not None and (link.layer, link.fingerprint) not in new:
                # A memory that outlives the round would refuse the seeds of the next one; each is added once by its key. One
                # that is in no memory goes there like any link: in the same round, a link to it is not fetched again.
                request_adder.put(pack(always, lane, self._payload_max), key, None)
            elif _plain(link):
                request_adder.put(pack(link, lane, self._payload_max), key, None)
            else:
                seen = partial(request_adder.put, pack(always, lane, self._payload_max), key, None)
                request_adder.put(pack(link, lane, self._payload_max), key, seen)
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
            known = await self._calls.patiently(Frontier.seen, f"{site.name}.{layer}", some)
            new.update((layer, number) for number, was in zip(some, known, strict=True) if not was)

        for link in site.compiled.seeds():
            if outlives(lanes[link.layer]) and self._only in ("", link.layer):
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
        lanes = site.lanes()
        lane = again if (again := f"{AGAIN_LANE}{rule.layer}") in lanes else rule.layer
        dont_filter = outlives(lanes[lane])
        while True:
            added, without = 0, list[str]()
            try:
                async with Refresh(site, rule) as pages:
                    async for link in pages:
                        if isinstance(link, str):
                            without.append(link)
                            continue
                        link = link._replace(round=number, dont_filter=dont_filter, always=dont_filter)
                        request = pack(link, f"{site.name}.{lane}", self._payload_max)
                        key = start_key(site.name, number, f"refresh{place}:{link.fingerprint:x}")
                        request_adder.put(request, key, None)
                        added += 1
                        if added % 100 == 0:
                            await _below(request_adder, BACKLOG)
                break
            except StoreUnavailable as error:
                logger.warning("The refresh of %s.%s waits for its database: %s", site.name, rule.layer, error)
                await asyncio.sleep(AGAIN)
        logger.info("Refresh of %s.%s: %s pages by the table %s.", site.name, rule.layer, f"{added:,}", rule.table)
        if without:
            said = "; ".join(dict.fromkeys(without[:5]))
            logger.warning("%d rows of %s name no page to refresh: %s.", len(without), rule.table, said)


async def birth_of(calls: RoundCalls, group: str) -> str:
    """What tells a group from one of the same name that was dropped. Any partition tells it that is asked about a page."""
    birth, _ = await calls.patiently(Frontier.page_versions, group, [("", "")])
    return birth


def _plain(seed: PageRequest) -> bool:
    """Whether a link to the page would bring the same request: a seed with values or headers of its own must not lose them to a
    link that was found before it."""
    return not (seed.inherited or seed.headers or seed.cookies)


async def _below(request_adder: RequestAdder, count: int) -> None:
    reached = asyncio.Event()
    request_adder.below(count, reached.set)
    await reached.wait()
