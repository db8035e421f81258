"""One worker of the native engine: it crawls the sites of a crawl until they are drained or it has to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from gossamer import heap
from gossamer.courier import AsyncTransport, CourierConfig, RequestAdder, SeenCache, worker_info
from gossamer.courier.rounds import states_now
from gossamer.courier.transport import Verb
from gossamer.engine.archive.archive import Archive
from gossamer.engine.counters import DownloadCounters, SiteCounters
from gossamer.engine.engine import Engine
from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.deadline import LEFT, STUCK, cancel_tasks, run_to_end, run_until_event, wait_for_event
from gossamer.engine.http.fetcher import Fetcher
from gossamer.engine.http.robots import Robots
from gossamer.engine.http.scrapy_fetcher import ScrapyFetcher
from gossamer.engine.job import NativeEnd, NativeJob
from gossamer.engine.login import SiteLogins
from gossamer.engine.page.children import ChildRequests
from gossamer.engine.page.processor import PageProcessor
from gossamer.engine.page.reader import PageReader
from gossamer.engine.page.versions import PageVersions
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.hold import RoundHolds
from gossamer.engine.rounds.rounds import SiteRounds
from gossamer.engine.rounds.start import RoundStart
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.engine.sites.files import SiteFiles, granted
from gossamer.engine.sites.groups import SiteGroups
from gossamer.engine.sites.updates import SiteUpdates
from gossamer.engine.sql_records import SqlRecordSink
from gossamer.engine.task_intake import SiteTasks
from gossamer.errors import GossamerError, SiteError
from gossamer.frontier.connection.url import server_of
from gossamer.frontier.contract import Frontier
from gossamer.model import Selection
from gossamer.model.plural import counted_were
from gossamer.model.reply import CLOSED, OUTAGES, groups_text, selection_info
from gossamer.settings import Settings
from gossamer.shutdown import CALLS_SHARE, PAGES_SHARE, handle_signals
from gossamer.sites.downloader import Downloader

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOK = 0.5
TELL, REMIND = 5.0, 60.0
"""Seconds between two looks at this worker's public info, and after which it is sent again although nothing changed: a server may
have lost it."""
DATABASE_SHARE = 0.4
"""Of the time that a worker has to end, what pages have that wait for a database that is unavailable."""
LEAST = 0.1
"""Seconds that the last things a worker does have, however late it is."""
AGAIN_FROM_THE_START = "again"
"""The end of a worker that starts over at once."""

OpenDownloader = Callable[[], Downloader]


def run(settings: Settings, job: NativeJob, open_downloader: OpenDownloader | None = None) -> NativeEnd:
    """Work until there is nothing left to do, or until a signal. A GossamerError says why it could not."""
    return run_to_end(_main(settings, job, open_downloader))


async def _main(settings: Settings, job: NativeJob, open_downloader: OpenDownloader | None) -> NativeEnd:
    return await NativeWorker(settings, job, open_downloader).run()


class NativeWorker:
    """Connects the parts; everything runs on one event loop. `open_downloader` returns the downloader of sites with `engine: scrapy`;
    without it they are not served."""

    def __init__(self, settings: Settings, job: NativeJob, open_downloader: OpenDownloader | None = None) -> None:
        self._settings, self._job, self._open_downloader = settings, job, open_downloader
        self._link = AsyncTransport(settings)
        self._signal = 0
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._limit: float = settings["GOSSAMER_STOP_SECONDS"] or (
            settings["GOSSAMER_RENEW_MAX_SECONDS"] + settings["GOSSAMER_CLOSE_SECONDS"]
        )
        self._ending_since: float | None = None
        """By the loop's clock, if it does."""

    async def run(self) -> NativeEnd:
        """Ctrl-C and SIGTERM end it cleanly, a second one at once."""
        loop, settings = asyncio.get_running_loop(), self._settings
        where = server_of(settings["GOSSAMER_URL"], settings["GOSSAMER_DATA_DIR"])
        logger.info("Worker of crawl %s on %s.", settings["GOSSAMER_CRAWL"], where)

        def first(number: int) -> None:
            self._signal = number
            loop.call_soon_threadsafe(self.stop)

        # It stops, also if the second signal comes before the first one was handled.
        with handle_signals(first, lambda: loop.call_soon_threadsafe(self._at_once)):
            opened = False
            try:
                opened = await run_until_event(self._stop, self._open())
                if not opened:
                    return NativeEnd("shutdown", self._signal)
                while (ended := await self._run()).reason == AGAIN_FROM_THE_START:
                    self._ending_since = None
                return ended
            finally:
                self._link.close()
                await run_until_event(
                    self._hurry, self._link.closed(), min(STUCK if opened else LEFT, self._left(CALLS_SHARE))
                )

    def _at_once(self) -> None:
        self._stop.set()
        self._hurry.set()

    def stop(self) -> None:
        """Stop cleanly: finish the pages in progress and leave the rest to others. Called twice: at once."""
        if self._stop.is_set():
            self._hurry.set()
        else:
            logger.info("Stopping: pages in progress are finished first.")
            self._begin_ending()
        self._stop.set()

    def _begin_ending(self) -> float:
        if self._ending_since is None:
            self._ending_since = asyncio.get_running_loop().time()
        return self._ending_since

    def _left(self, share: float = 1.0) -> float:
        """The seconds that are left of a share of the time to end."""
        now = asyncio.get_running_loop().time()
        return max(LEAST, (self._ending_since or now) + self._limit * share - now)

    async def _open(self) -> None:
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._link.open(lambda answer, error: opened.set_exception(error) if error else opened.set_result(answer))
        await opened

    async def ask(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """A verb of the frontier."""
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(answer: Any, error: BaseException | None) -> None:
            if not answered.done():
                answered.set_exception(error) if error is not None else answered.set_result(answer)

        self._link.call(verb, done, *args, **kwargs)
        return await answered

    def _connect(self) -> None:
        """Make the parts, and connect them."""
        settings, job = self._settings, self._job
        self._site_set = SiteSet()
        self._site_counters = SiteCounters()
        self._record_sink: RecordSink = SqlRecordSink(settings)
        self._site_tasks = SiteTasks(self._link, settings, self._site_set, self._site_counters)
        engines = ("native", "scrapy") if self._open_downloader is not None else ("native",)
        self._files = files = SiteFiles(self.ask, job.sites, engines, partial(granted, settings, job.local, job.code))
        self._groups = SiteGroups(self.ask, files, settings)
        concurrency = settings["GOSSAMER_ENGINE_CONCURRENCY"]
        payload_max = settings["GOSSAMER_PAYLOAD_MAX_BYTES"]
        native = AiohttpFetcher(concurrency=concurrency + 8)
        scrapy_fetcher = ScrapyFetcher(self._open_downloader, native) if self._open_downloader is not None else None
        self._fetcher: Fetcher = scrapy_fetcher or native
        self._archive = Archive(Path(settings["GOSSAMER_DATA_DIR"]).expanduser() / "pages")
        download_counters = DownloadCounters(self._fetcher.fetch, self._site_counters)
        self._robots = robots = Robots(download_counters.fetch, self._tell_delay)
        self._versions = PageVersions(self.ask, settings["GOSSAMER_CONDITIONAL_PAGES"])
        known = SeenCache()
        children = ChildRequests(known, self._site_counters, payload_max, self._groups.define_targets, job.layer)
        self._holds = RoundHolds(self.ask, self._record_sink)
        reader = PageReader(
            children, self._record_sink, self._archive, self._site_counters, payload_max, self._holds, scrapy_fetcher,
            streams=settings["GOSSAMER_ITEMS"] == "stream",
        )  # fmt: skip
        logins = SiteLogins(self.ask, download_counters.fetch, self._fetcher.sessions)
        logins.count = lambda site: self._site_counters.of(site).add("site/logins")
        self._page_processor = page_processor = PageProcessor(
            self._site_set,
            download_counters,
            robots,
            logins,
            self._versions,
            reader,
            self._site_counters,
            payload_max,
            is_behind=lambda site: self._updates.is_behind(site),
        )
        self._fetcher.sessions.is_blocked = page_processor.is_blocked
        ahead = max(4, concurrency // 2)
        plan = CourierConfig.of(settings, "", Selection(), most=2 * concurrency, ahead=ahead, info=self._info())
        self._engine = Engine(self._link, page_processor, plan, self._site_counters, concurrency, known)
        courier = self._engine.courier
        calls = RoundCalls(self.ask, courier.token, settings["GOSSAMER_LEASE_SECONDS"])
        request_adder = partial(RequestAdder, self._link, self._engine.added, self._engine.failed)
        self._rounds = SiteRounds(
            calls,
            self._site_set,
            self._record_sink,
            RoundStart(calls, self._record_sink, request_adder, payload_max, job.layer),
            current=lambda: self._updates.current(),
            schedule=files.schedule,
            define=self._groups.define,
            repeat=job.repeat,
            only=job.layer,
            open_hint=self._open_now,
            awaits=courier.awaits,
        )
        self._engine.went = self._rolled_back
        self._updates = SiteUpdates(
            files,
            self._groups,
            self._site_set,
            self._record_sink,
            self._rounds,
            settings,
            job,
            self._serve,
            self._drop,
        )

    async def _run(self) -> NativeEnd:
        job = self._job
        self._connect()
        try:
            if not await run_until_event(self._stop, self._updates.begin()):
                return NativeEnd("shutdown", self._signal)
            wrong = job.misnamed(self._site_set) if self._site_set else job.nothing_to_serve
            wrong = "" if self._updates.waiting else wrong
            if wrong and not job.forever:
                raise SiteError(wrong)
            if wrong:
                logger.warning("%s This worker waits for one.", wrong)
            self._select()
            self._engine.courier.tell(self._info())
            self._engine.begin()
            rounds = asyncio.ensure_future(self._rounds.run())
            rounds.add_done_callback(self._rounds_ended)
            try:
                with heap.during_crawl():
                    reason = await self._watch()
            finally:
                beside = [rounds, *self._updates.tasks]
                await run_until_event(self._hurry, cancel_tasks(beside, min(STUCK, self._left(DATABASE_SHARE))))
            await self._leave()
        finally:
            await run_until_event(self._hurry, self._close(), self._left())
            self._archive.close()
        if self._engine.failure is not None:
            raise self._engine.failure
        if reason == "drained" and self._updates.waiting:
            # The other sites are done. Report that these are not.
            raise next(iter(self._updates.waiting.values()))[1]
        if reason == "drained":
            reason = await self._last_word()
        return NativeEnd(reason, self._signal)

    async def _last_word(self) -> str:
        """Ask the frontier once more when everything is done: the server that reported drained may have been replaced since, or have
        lost its last second. What it lacks is done again as long as one worker lives."""
        if not await run_until_event(self._stop, self._rounds.confirm()):
            return "shutdown"
        if (self._rounds.over and not await self._robbed()) or not self._site_set:
            return "drained"
        logger.warning(
            "There is work left after all: the server was replaced or set back, or a round began. This worker goes on."
        )
        return AGAIN_FROM_THE_START

    async def _robbed(self) -> bool:
        """Whether a site lacks its group because the server was replaced or set back; otherwise an operator has dropped it."""
        if not self._rounds.missing:
            return False
        courier = self._engine.courier
        states = await states_now(self.ask, courier.token)
        await self.ask(Frontier.leave, courier.token.incarnation)
        # Its last call may have shown that server already.
        return self._updates.behind or not courier.follows(states)

    async def _close(self) -> None:
        await self._robots.close()
        await self._record_sink.close()
        await self._fetcher.close()

    def _open_now(self) -> int | None:
        hints = self._engine.courier.hints
        return None if hints is None or self._engine.courier.in_outage else hints.open

    def _rounds_ended(self, rounds: asyncio.Future[None]) -> None:
        # It ends only when cancelled. Otherwise it broke, and without it no site would begin or end a round.
        if not rounds.cancelled() and (error := rounds.exception()) is not None:
            self._engine.failed(error)

    # What is served.

    async def _serve(self, site: ServedSite) -> None:
        """Serve a site, or another version of it, from now on."""
        await self._record_sink.prepare(site)
        if isinstance(self._fetcher, ScrapyFetcher) and site.compiled.site.engine == "scrapy":
            await self._fetcher.begin(site.name, (layer.options for layer in site.layers.values()))
        await self._groups.define(site)
        self._fetcher.sessions.proxies.define_all(site.name, site.compiled.site.proxies)
        await self._versions.begin(site, self._record_sink.begun_anew(site))
        await self._groups.define_targets(site)
        self._site_set.put(site)
        self._page_processor.forget(site.name)
        self._holds.forget(site.name)
        self._site_tasks.begin(site, self._engine.failed)

    def _drop(self, name: str) -> None:
        """Serve a site no longer."""
        self._site_set.drop(name)
        self._fetcher.forget(name)
        self._page_processor.forget(name)
        self._site_tasks.keep(name, ())

    def _select(self) -> None:
        outages = self._record_sink.outages()
        groups = tuple(name for name in self._site_set.sites if name not in outages)
        lanes: tuple[str, ...] = ()
        if self._job.layer:
            lanes = tuple(lane for name in groups for lane in self._site_set.sites[name].lanes_of(self._job.layer))
            groups = ()
        selection = Selection(groups=groups, lanes=lanes, stage=self._job.stage)
        if not groups and not lanes:
            # Nothing at all: a stage whose name is not allowed.
            selection = Selection(stage="-nothing-")
        parked = self._engine.parked = self._record_sink.parked()
        most = 2 * self._settings["GOSSAMER_ENGINE_CONCURRENCY"] + parked
        self._engine.courier.plan = replace(self._engine.courier.plan, selection=selection, most=most)

    # While it runs.

    async def _watch(self) -> str:
        """Run until there is a reason to end."""
        told = looked = asyncio.get_running_loop().time()
        info = self._info()
        while True:
            for event in (self._stop, self._engine.ended):
                if event.is_set():
                    return (
                        "shutdown" if event is self._stop else "draining" if self._engine.failure is None else "failed"
                    )
            hints = self._engine.courier.hints
            self._updates.look(hints.config_version if hints is not None else None)
            done = self._rounds.over or not (self._site_set or self._updates.waiting)
            idle = not (self._engine.busy or self._updates.busy)
            if done and idle and not (self._job.forever or self._job.repeat):
                return "drained"
            if self._engine.looked.is_set():
                self._engine.looked.clear()
                self._rounds.called.set()
            self._select()
            now = asyncio.get_running_loop().time()
            if now - looked >= TELL:
                looked = now
                self._files.look_at_code()
                if now - told >= REMIND or self._info() != info:
                    info, told = self._info(), now
                    self._engine.courier.tell(info)
            await self._pause()

    async def _pause(self) -> None:
        """Wait a moment, or until a changed file is served."""
        if (changing := self._updates.changing) is not None:
            stopped = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait([changing, stopped], return_when=asyncio.FIRST_COMPLETED, timeout=LOOK)
            stopped.cancel()
        else:
            await wait_for_event(self._stop, LOOK)

    def _rolled_back(self) -> None:
        """The frontier may have an older state: check its files, groups and rounds again."""
        self._updates.rolled_back()
        self._rounds.rolled_back()
        self._robots.rolled_back()

    async def _tell_delay(self, host: str, seconds: float) -> None:
        """Tell the fleet what the robots.txt of a host asks for; return when the frontier knows it."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine.courier.crawl_delay(host, seconds, lambda: None if told.done() else told.set_result(None))
        await told

    async def _leave(self) -> None:
        """Leave cleanly within GOSSAMER_STOP_SECONDS, if possible: pages get most of the time, the frontier the rest."""
        loop, close, courier = (
            asyncio.get_running_loop(),
            self._settings["GOSSAMER_CLOSE_SECONDS"],
            self._engine.courier,
        )
        began = self._begin_ending()
        # Pages may wait for their database much longer than whoever stops a worker.
        patience = min(close, self._limit * DATABASE_SHARE)
        await run_until_event(self._hurry, self._site_tasks.stop(), min(close, self._left(DATABASE_SHARE)))
        courier.tell({**self._info(), CLOSED: "1"})
        courier.plan = replace(courier.plan, close_seconds=min(close, self._limit))
        timers = [
            loop.call_at(began + patience, self._record_sink.give_up),
            loop.call_at(began + self._limit * PAGES_SHARE, self._give_back),
            loop.call_at(began + self._limit * CALLS_SHARE, courier.stop_waiting),
        ]
        ended = await run_until_event(self._hurry, self._engine.stop(), self._left(CALLS_SHARE) + LEAST)
        for timer in timers:
            timer.cancel()
        if not ended:
            self._record_sink.give_up()
            await self._engine.abandon(self._left())
        elif not courier.in_outage:
            await run_until_event(self._hurry, self._versions.close(), self._left(CALLS_SHARE))
            with suppress(GossamerError):
                await run_until_event(
                    self._hurry, self.ask(Frontier.leave, courier.token.incarnation), self._left(CALLS_SHARE)
                )

    def _give_back(self) -> None:
        if count := self._engine.give_back():
            logger.warning(
                "%s not finished in time (GOSSAMER_STOP_SECONDS); other workers do them.",
                counted_were(count, "page"),
            )

    def _info(self) -> dict[str, str]:
        layer, outages = self._job.layer, self._record_sink.outages()
        lanes = tuple(lane for site in self._site_set for lane in site.lanes_of(layer)) if layer else ()
        waits = {OUTAGES: groups_text(f"{name} {' '.join(why.split())}" for name, why in outages.items())}
        return worker_info(
            group=next(iter(self._site_set.sites)) if len(self._site_set) == 1 else "",
            groups=groups_text(self._site_set.sites),
            engine=self._site_set.engines,
            sites=str(len(self._site_set)),
            **selection_info(Selection(lanes=lanes, stage=self._job.stage)),
            **(waits if outages else {}),
        )
