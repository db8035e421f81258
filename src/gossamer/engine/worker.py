"""One worker of the native engine: it crawls the sites of a crawl until they are drained or it has to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from gossamer.courier import AsyncTransport, CourierConfig, RequestAdder, SeenCache, worker_info
from gossamer.courier.rounds import DEFINED_LATELY, states_now
from gossamer.courier.transport import Verb
from gossamer.engine.archive.archive import Archive
from gossamer.engine.counters import DownloadCounters, SiteCounters
from gossamer.engine.engine import Engine
from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.deadline import LEFT, STUCK, cancel_tasks, run_to_end, run_until_event, wait_for_event
from gossamer.engine.http.fetcher import Fetcher
from gossamer.engine.http.robots import Robots
from gossamer.engine.http.scrapy_fetcher import ScrapyFetcher
from gossamer.engine.login import SiteLogins
from gossamer.engine.page.children import ChildRequests
from gossamer.engine.page.processor import PageProcessor
from gossamer.engine.page.reader import PageReader
from gossamer.engine.page.versions import PageVersions
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.rounds import SiteRounds
from gossamer.engine.rounds.start import RoundStart
from gossamer.engine.site_files import SiteChanges, SiteFiles, granted
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.engine.sql_records import SqlRecordSink, store_url
from gossamer.engine.task_intake import SiteTasks
from gossamer.errors import FrontierUnavailable, GossamerError, GroupDropping, MemoryLimitReached, SiteError, StoreAway
from gossamer.frontier.connection.url import server_of
from gossamer.frontier.contract import Frontier
from gossamer.model import Selection
from gossamer.model.plural import counted_were
from gossamer.model.reply import CLOSED, groups_text
from gossamer.settings import Settings
from gossamer.shutdown import handle_signals
from gossamer.sites.compile import CompiledSite
from gossamer.sites.downloader import Downloader
from gossamer.sites.file.problems import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOK = 0.5
TELL, REMIND = 5.0, 60.0
"""Seconds between two looks at this worker's public info, and after which it is sent again although nothing changed: a server may
have lost it."""
PAGES_SHARE, DATABASE_SHARE = 0.8, 0.4
"""Of the time that a worker has to end, what pages in progress have, and those among them that wait for a database which is away;
the rest is for the last calls to the frontier."""
AWAY = (StoreAway, FrontierUnavailable, MemoryLimitReached, GroupDropping)
"""Failures that pass by themselves: the site is served afterwards."""
AGAIN = 3.0
"""Seconds between two attempts to serve sites whose database is away."""
AGAIN_FROM_THE_START = "again"
"""The end of a worker that starts over at once."""


@dataclass(frozen=True, slots=True)
class NativeJob:
    """What a worker is to do. `sites` are the names it serves, none: all of the crawl. `stage` narrows them to the layers of one
    pool: "" those that name none, None all. `layer` is the only one that is crawled, "" for all. `forever`: go on when nothing is
    left. `repeat`: begin rounds when they are due. `local` has the digests of site files that the user of this process named: what
    they may do is not what a file may that anybody pushed."""

    sites: tuple[str, ...] = ()
    stage: str | None = ""
    layer: str = ""
    forever: bool = False
    repeat: bool = False
    local: frozenset[str] = frozenset()
    code: tuple[Path, ...] = ()
    """The folders from which the files of `local` may import functions, besides the project's own."""


@dataclass(frozen=True, slots=True)
class NativeEnd:
    """Why a worker ended, and the signal that asked for it, 0 if none did."""

    reason: str
    signal: int = 0


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
        self._anew()

    def _anew(self) -> None:
        self._site_set = SiteSet()
        self._site_counters = SiteCounters()
        self._record_sink: RecordSink = SqlRecordSink(self._settings)
        self._site_tasks = SiteTasks(self._link, self._settings, self._site_set, self._site_counters)
        self._behind = False
        """The frontier may lack what is served here."""
        self._outdated = False
        """A site file has changed since the files were read."""
        self._without: dict[str, tuple[CompiledSite, GossamerError]] = {}
        self._defined: dict[str, float] = {}
        """When each site was defined last."""
        """Sites to serve as soon as their database, or the frontier, can be reached."""
        self._trying: asyncio.Task[None] | None = None
        self._changing: asyncio.Task[bool] | None = None
        self._serving = asyncio.Lock()
        """One at a time: an older version of a file must not come after a newer one."""

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
                    self._anew()
                return ended
            finally:
                self._link.close()
                await run_until_event(self._hurry, self._link.closed(), STUCK if opened else LEFT)

    def _at_once(self) -> None:
        self._stop.set()
        self._hurry.set()

    def stop(self) -> None:
        """Stop cleanly: finish the pages in progress and leave the rest to others. Called twice: at once."""
        if self._stop.is_set():
            self._hurry.set()
        else:
            logger.info("Stopping: pages in progress are finished first.")
        self._stop.set()

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

    async def _run(self) -> NativeEnd:
        settings, job = self._settings, self._job
        engines = ("native", "scrapy") if self._open_downloader is not None else ("native",)
        self._source = SiteFiles(self.ask, job.sites, engines, partial(granted, settings, job.local, job.code))
        concurrency = settings["GOSSAMER_ENGINE_CONCURRENCY"]
        payload_max = settings["GOSSAMER_PAYLOAD_MAX_BYTES"]
        native = AiohttpFetcher(concurrency=concurrency + 8)
        scrapy_fetcher = ScrapyFetcher(self._open_downloader, native) if self._open_downloader is not None else None
        self._fetcher: Fetcher = scrapy_fetcher or native
        archive = Archive(Path(settings["GOSSAMER_DATA_DIR"]).expanduser() / "pages")
        download_counters = DownloadCounters(self._fetcher.fetch, self._site_counters)
        self._robots = robots = Robots(download_counters.fetch, self._tell_delay)
        self._versions = PageVersions(self.ask, settings["GOSSAMER_CONDITIONAL_PAGES"])
        known = SeenCache()
        children = ChildRequests(known, self._site_counters, payload_max, self._introduce, job.layer)
        reader = PageReader(children, self._record_sink, archive, self._site_counters, payload_max, scrapy_fetcher)
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
        )
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
            current=self._current,
            repeat=job.repeat,
            only=job.layer,
            open_hint=self._open_now,
            awaits=courier.awaits,
        )
        self._engine.went = self._rolled_back
        try:
            if not await run_until_event(self._stop, self._serve(first=True)):
                return NativeEnd("shutdown", self._signal)
            if not self._site_set and not self._without and not job.forever:
                raise SiteError(_nothing(job.sites))
            if (wrong := self._misnamed()) and not job.forever:
                raise SiteError(wrong)
            if wrong:
                logger.warning("%s This worker waits for one.", wrong)
            self._engine.courier.tell(self._info())
            self._engine.begin()
            rounds = asyncio.ensure_future(self._rounds.run())
            rounds.add_done_callback(self._rounds_ended)
            try:
                reason = await self._watch()
            finally:
                beside = [rounds, *(task for task in (self._trying, self._changing) if task is not None)]
                await run_until_event(self._hurry, cancel_tasks(beside))
            await self._leave()
        finally:
            await run_until_event(self._hurry, self._close(robots))
            archive.close()
        if self._engine.failure is not None:
            raise self._engine.failure
        if reason == "drained" and self._without:
            # The other sites are done. Report that these are not.
            raise next(iter(self._without.values()))[1]
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
        return self._behind or not courier.follows(states)

    async def _close(self, robots: Robots) -> None:
        await robots.close()
        await self._record_sink.close()
        await self._fetcher.close()

    def _misnamed(self) -> str:
        """The error if no site has the layer or stage of this worker."""
        if not self._site_set or self._without:
            return ""
        layers = {name for site in self._site_set for name in site.compiled.site.layers}
        stages = {layer.stage for site in self._site_set for layer in site.compiled.site.layers.values() if layer.stage}
        if self._job.layer and self._job.layer not in layers:
            return _unknown("layer", self._job.layer, layers)
        if self._job.stage and self._job.stage not in stages:
            return _unknown("stage", self._job.stage, stages)
        return ""

    def _open_now(self) -> int | None:
        hints = self._engine.courier.hints
        return None if hints is None or self._engine.courier.away else hints.open

    async def _current(self) -> bool:
        """Whether the sites are served as the crawl's files say now. If not, they soon are, and the rounds are checked again."""
        if self._serving.locked():
            return False
        self._outdated = await self.ask(Frontier.documents_version) != self._source.version
        return not self._outdated

    def _rounds_ended(self, rounds: asyncio.Future[None]) -> None:
        # It ends only when cancelled. Otherwise it broke, and without it no site would begin or end a round.
        if not rounds.cancelled() and (error := rounds.exception()) is not None:
            self._engine.failed(error)

    # What is served.

    async def _serve(self, first: bool = False) -> None:
        """Read the crawl's site files, and serve those that are new or changed. A site whose database cannot be reached is served later;
        a worker that has nothing else to do, and would end by itself, fails at once."""
        async with self._serving:
            found = await self._source.changed()
            if found is not None:
                await self._serve_found(found, first)

    async def _serve_found(self, found: SiteChanges, first: bool) -> None:
        for name in [name for name in self._site_set.sites if name not in found.names]:
            logger.info("The site %s is not served any more.", name)
            self._site_set.drop(name)
            self._fetcher.forget(name)
            self._page_processor.forget(name)
            self._site_tasks.keep(name, ())
        self._without = {name: one for name, one in self._without.items() if name in found.names}
        problems: list[GossamerError] = list(found.problems)
        sites, away = await self._prepare(found.changed)
        for compiled in found.changed:
            self._without.pop(compiled.name, None)
            try:
                await self._serve_one(compiled, sites, away)
            except AWAY as error:
                logger.warning("The site %s is served later: %s", compiled.name, error)
                self._without[compiled.name] = compiled, error
            except GossamerError as error:
                if self._job.sites and first:
                    raise
                # One site of many: the others go on, and this one in its former version.
                logger.error("The site %s is not served: %s", compiled.name, error)
                problems.append(error)
        if not self._site_set and not self._job.forever:
            problems += [error for _, error in self._without.values()]
        if problems and not self._site_set and (first or not self._without):
            raise problems[0]
        self._select()

    async def _prepare(self, every: Iterable[CompiledSite]) -> tuple[dict[str, ServedSite], dict[str, StoreAway]]:
        """Prepare their tables all at once: one by one takes much longer, and each would wait for a database that does not answer."""
        sites: dict[str, ServedSite] = {}
        for compiled in every:
            with suppress(GossamerError):
                sites[compiled.name] = self._served(compiled)
        return sites, await self._record_sink.prepare_together(sites.values())

    async def _serve_one(
        self, compiled: CompiledSite, sites: Mapping[str, ServedSite], away: Mapping[str, StoreAway]
    ) -> None:
        # A site that failed there fails here with its reason.
        site = sites.get(compiled.name) or self._served(compiled)
        if (error := away.get(site.name)) is not None:
            raise error
        await self._record_sink.prepare(site)
        if isinstance(self._fetcher, ScrapyFetcher) and compiled.site.engine == "scrapy":
            await self._fetcher.begin(site.name, (layer.options for layer in site.layers.values()))
        await self._define(site)
        if site.conditional and self._record_sink.begun_anew(site):
            await self.ask(Frontier.forget_page_versions, site.name)
        elif site.conditional:
            await self.ask(Frontier.check_page_versions, site.name)
        await self._introduce(site)
        self._site_set.put(site)
        self._page_processor.forget(site.name)
        self._site_tasks.begin(site, self._engine.failed)

    def _served(self, compiled: CompiledSite) -> ServedSite:
        rows_at = store_url(compiled, self._settings) if compiled.site.store or compiled.site.refresh else ""
        return ServedSite(compiled, rows_at)

    async def _try_again(self) -> None:
        """Try until the databases of all sites can be reached."""
        while self._without:
            await asyncio.sleep(AGAIN)
            async with self._serving:
                sites, away = await self._prepare([compiled for compiled, _ in self._without.values()])
                for name, (compiled, _) in list(self._without.items()):
                    await self._try_one(name, compiled, sites, away)
            self._rounds.look()

    async def _try_one(
        self, name: str, compiled: CompiledSite, sites: Mapping[str, ServedSite], away: Mapping[str, StoreAway]
    ) -> None:
        try:
            await self._serve_one(compiled, sites, away)
        except AWAY as error:
            self._without[name] = compiled, error
            return
        except GossamerError as error:
            logger.error("The site %s is not served: %s", name, error)
        else:
            logger.info("The site %s is served now.", name)
        del self._without[name]

    async def _introduce(self, site: ServedSite) -> None:
        """Define the groups of other sites that its links lead to, if nobody has served them yet: what leads there waits there."""
        others = [other for name in sorted(site.leads) if (other := self._source.elsewhere(name)) is not None]
        if others:
            there = {lane.lane for lane in (await self.ask(Frontier.counts)).lanes}
        for other in others:
            if not there.issuperset(f"{other.name}.{layer}" for layer in other.lanes()):
                await self._define_group(other)

    async def _define(self, site: ServedSite) -> None:
        compiled = site.compiled
        await self._define_group(compiled)
        for name, policy in compiled.hosts().items():
            await self.ask(Frontier.set_host, name, policy)
        self._fetcher.sessions.proxies.keep(site.name, compiled.site.proxies)
        for name, group in compiled.site.proxies.items():
            self._fetcher.sessions.proxies.define(site.name, name, group.urls, group.file, group.fails, group.rest)

    async def _define_group(self, compiled: CompiledSite) -> None:
        bounded = replace(
            compiled.group(),
            max_items=self._settings["GOSSAMER_ITEMS_MAX"],
            max_item_bytes=self._settings["GOSSAMER_ITEMS_MAX_BYTES"],
            max_dead=self._settings["GOSSAMER_DEAD_MAX"],
        )
        self._defined[compiled.name] = asyncio.get_running_loop().time()
        await self.ask(Frontier.define, compiled.name, compiled.lanes(), bounded)

    def _select(self) -> None:
        away = self._record_sink.away()
        groups = tuple(name for name in self._site_set.sites if name not in away)
        lanes: tuple[str, ...] = ()
        if self._job.layer:
            lanes, groups = tuple(f"{name}.{self._job.layer}" for name in groups), ()
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
        info, version = self._info(), ""
        while True:
            for event in (self._stop, self._engine.ended):
                if event.is_set():
                    return (
                        "shutdown" if event is self._stop else "draining" if self._engine.failure is None else "failed"
                    )
            done = self._rounds.over or not (self._site_set or self._without)
            if self._changing is not None and self._changing.done():
                # Try once more if it failed.
                version = version if self._changing.result() else ""
                self._changing = None
            hints = self._engine.courier.hints
            changed = self._behind or self._outdated or (hints is not None and hints.config_version != version)
            if hints is not None and self._changing is None and changed:
                # Not awaited: a database that does not answer must not keep this worker from stopping.
                version, behind, self._behind, self._outdated = hints.config_version, self._behind, False, False
                self._changing = asyncio.ensure_future(self._served_again(define=behind))
            idle = not (self._engine.busy or self._behind) and self._changing is None
            if done and idle and not (self._job.forever or self._job.repeat):
                return "drained"
            if self._engine.looked.is_set():
                self._engine.looked.clear()
                self._rounds.called.set()
            self._select()
            if self._without and (self._trying is None or self._trying.done()):
                self._trying = asyncio.ensure_future(self._try_again())
            now = asyncio.get_running_loop().time()
            if now - looked >= TELL:
                looked = now
                self._source.look_at_code()
                if now - told >= REMIND or self._info() != info:
                    info, told = self._info(), now
                    self._engine.courier.tell(info)
            await self._pause()

    async def _pause(self) -> None:
        """Wait a moment, or until a changed file is served."""
        if self._changing is not None:
            stopped = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait([self._changing, stopped], return_when=asyncio.FIRST_COMPLETED, timeout=LOOK)
            stopped.cancel()
        else:
            await wait_for_event(self._stop, LOOK)

    def _rolled_back(self) -> None:
        """The frontier may have an older state: check its files, groups and rounds again."""
        self._source.doubt()
        self._rounds.rolled_back()
        self._robots.rolled_back()
        self._behind = True

    async def _tell_delay(self, host: str, seconds: float) -> None:
        """Tell the fleet what the robots.txt of a host asks for; return when the frontier knows it."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._engine.courier.crawl_delay(host, seconds, lambda: None if told.done() else told.set_result(None))
        await told

    async def _served_again(self, define: bool) -> bool:
        """Serve changed files; False if that has to be tried again. `define`: also define the groups of unchanged sites."""
        try:
            if define:
                await self._repair()
            await self._serve()
        except GossamerError as error:
            logger.error("The site files of the crawl could not be read again: %s", error)
            if isinstance(error, FrontierUnavailable):
                self._behind = self._behind or define
                return False
        self._rounds.look()
        return True

    async def _repair(self) -> None:
        """Define the groups and lanes that the frontier has lost, and those whose last definition it may have lost."""
        there = {lane.lane for lane in (await self.ask(Frontier.counts)).lanes}
        lately = asyncio.get_running_loop().time() - DEFINED_LATELY
        for site in list(self._site_set):
            if self._defined.get(site.name, lately) > lately or not there.issuperset(
                f"{site.name}.{layer}" for layer in site.lanes()
            ):
                await self._define(site)
            await self._introduce(site)
        self._rounds.rolled_back()

    async def _leave(self) -> None:
        """Leave cleanly within GOSSAMER_STOP_SECONDS, if possible: pages get most of the time, the frontier the rest."""
        loop, close = asyncio.get_running_loop(), self._settings["GOSSAMER_CLOSE_SECONDS"]
        limit = self._settings["GOSSAMER_STOP_SECONDS"] or self._settings["GOSSAMER_RENEW_MAX_SECONDS"] + close
        began, courier = loop.time(), self._engine.courier
        # Pages may wait for their database much longer than whoever stops a worker.
        patience = min(close, limit * DATABASE_SHARE)
        await run_until_event(self._hurry, self._site_tasks.stop(), patience)
        courier.tell({**self._info(), CLOSED: "1"})
        courier.plan = replace(courier.plan, close_seconds=min(close, limit))
        timers = [
            loop.call_at(began + patience, self._record_sink.give_up),
            loop.call_at(began + limit * PAGES_SHARE, self._give_back),
        ]
        ended = await run_until_event(self._hurry, self._engine.stop(), max(1.0, began + limit - loop.time()))
        for timer in timers:
            timer.cancel()
        if not ended:
            self._record_sink.give_up()
            await self._engine.abandon()
        elif not courier.away:
            await run_until_event(self._hurry, self._versions.close(), max(1.0, began + limit - loop.time()))
            with suppress(GossamerError):
                await run_until_event(
                    self._hurry,
                    self.ask(Frontier.leave, courier.token.incarnation),
                    max(1.0, began + limit - loop.time()),
                )

    def _give_back(self) -> None:
        if count := self._engine.give_back():
            logger.warning(
                "%s not finished in time (GOSSAMER_STOP_SECONDS); other workers do them.",
                counted_were(count, "page"),
            )

    def _info(self) -> dict[str, str]:
        return worker_info(
            group=next(iter(self._site_set.sites)) if len(self._site_set) == 1 else "",
            groups=groups_text(self._site_set.sites),
            engine=self._site_set.engines,
            sites=str(len(self._site_set)),
        )


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    hint = did_you_mean(name, sorted(known)) or f"see {what} in the site files"
    return f"No site of this crawl has the {what} {name}; {hint}."


def _nothing(sites: Sequence[str]) -> str:
    if sites:
        return f"This crawl has no site {', '.join(sites)}. Push its file with `gossamer site push`; `gossamer site list` shows what there is."
    return "This crawl has no sites. Push their files with `gossamer site push FILE`, or crawl one with `gossamer crawl FILE`."
