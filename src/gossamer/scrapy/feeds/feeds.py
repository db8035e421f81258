"""FEEDS of a fleet: local files are written from the item stream, each item once, whatever the number of workers."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlparse

from scrapy import Spider, signals
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.utils.misc import build_from_crawler

from gossamer.errors import FeedIncomplete, FrontierError, FrontierUnavailable, SettingError
from gossamer.frontier import codec, item_stream
from gossamer.frontier.codec import CLASS
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo
from gossamer.model.plural import counted
from gossamer.scrapy.feeds.file import FeedFile
from gossamer.scrapy.feeds.item_class import item_from, kind_of
from gossamer.scrapy.feeds.path import is_of_one_round, path_of
from gossamer.scrapy.feeds.position import starts
from gossamer.scrapy.process.exit_code import fail
from gossamer.scrapy.process.reactor import in_thread
from gossamer.scrapy.process.refusal import RefusedScheduler
from gossamer.scrapy.settings import PROJECT
from gossamer.settings import Settings

logger = logging.getLogger(__name__)

STDOUT = "stdout"
LOOK = 1.0
"""Seconds between two looks at the stream."""
AGAIN = 0.1
FULL = "items_full"
LAST = 5.0
"""Seconds that the feeds of a worker have at its end, however long the rest of it took, if its server answers."""


class FleetFeedExporter(FeedExporter):
    """Scrapy's feed exporter; in a fleet, local files are served from the stream by one of the workers on this machine."""

    _thread: threading.Thread | None = None

    def open_spider(self, spider: Spider) -> Any:
        scheduler: Any = getattr(self.crawler.engine, "_slot", None)
        scheduler = getattr(scheduler, "scheduler", None)
        self._passed = 0
        """Grows as long as the server answers and the files are written."""
        self._incomplete = False
        self._stored: list[tuple[str, FeedFile]] = []
        self._as_mappings: set[str] = set()
        self._closed: FeedFile | None = None
        """The file that was closed last, or is."""
        # Not isinstance: Scrapy's schedulers take any class with their methods for one of theirs.
        if type(scheduler) is RefusedScheduler:
            self.feeds.clear()  # the files stay as they are
        worker_config = getattr(scheduler, "join", None)
        if worker_config is not None and worker_config.feeds:
            self._shared = {uri: self.feeds.pop(uri) for uri in list(self.feeds) if urlparse(uri).scheme != STDOUT}
            self._ended = threading.Event()
            self._drained: Callable[[], bool] = lambda: bool(scheduler.ending.drained)
            self._over: Callable[[], bool] = lambda: bool(scheduler.ending.drained or scheduler.ending.idled)
            self._settled: Callable[[], int] = lambda: int(scheduler.membership.settled)
            self._closing: Callable[[], bool] = lambda: bool(scheduler.ending.begun)
            self._patience = partial(self._seconds, scheduler)
            # One that may not join leaves the files as they are.
            if scheduler.opened and self._are_possible(spider, scheduler):
                self._thread = threading.Thread(target=self._serve, args=(spider, scheduler), name="feeds", daemon=True)
                self._thread.start()
        return super().open_spider(spider)

    def _are_possible(self, spider: Spider, scheduler: Any) -> bool:
        try:
            for file in self._files(spider, "", scheduler.join.group, time.time()).values():
                file.check()
        except SettingError as error:
            scheduler.refuse(error)
            return False
        except Exception:
            pass  # of a function of the project's own: it fails again in the thread, which tells of it
        return True

    async def close_spider(self, spider: Spider) -> None:
        if self._thread is not None:
            self._ended.set()
            if not await self._through(self._thread):
                self._incomplete = True
                logger.error(
                    "The feeds are not written to their end: the server did not answer, or GOSSAMER_STOP_SECONDS were over. The next run "
                    "with the same feeds goes on with them; their items wait on the server."
                )
            for uri, file in self._stored:
                self._tell(spider, uri, file)
            if self._incomplete:
                fail(
                    self.crawler,
                    self.crawler.engine,
                    FeedIncomplete("A feed lacks items; the worker's log says which one, and why."),
                )
        closed: Any = super().close_spider(spider)
        if closed is not None:
            await closed

    def _seconds(self, scheduler: Any) -> float:
        """How many seconds the end waits for the feeds to make progress."""
        if self._over():
            return float(scheduler.join.settings["GOSSAMER_CLOSE_SECONDS"])
        left: float = scheduler.stopping.patience()
        return left if scheduler.courier.in_outage else max(LAST, left)

    async def _through(self, thread: threading.Thread) -> bool:
        """Wait until the feeds are written. If the round is over, wait for as long as the server answers; otherwise only for the time that
        the worker has to end."""
        while True:
            before, left = self._passed, self._patience()
            await in_thread(partial(thread.join, left))
            if not thread.is_alive():
                return True
            ending = self._closed is not None and self._closed.ending
            if (before == self._passed and not ending) or (left <= LAST and not self._over()):
                return False

    def _tell(self, spider: Spider, uri: str, file: FeedFile) -> None:
        """Count and signal a stored feed as Scrapy's exporter does."""
        assert self.crawler.stats is not None
        how = "failed" if self._incomplete else "success"
        self.crawler.stats.inc_value(f"feedexport/{how}_count/{FileFeedStorage.__name__}")
        slot = self._start_new_batch(1, str(file.path), self._shared[uri], spider, uri)
        slot.itemcount = file.count
        self.crawler.signals.send_catch_log(signals.feed_slot_closed, slot=slot)

    def _get_uri_params(self, spider: Spider, *more: Any, **named: Any) -> dict[str, Any]:
        if not hasattr(spider, "worker"):
            spider.__dict__["worker"] = f"{socket.gethostname()}-{os.getpid()}"
        return super()._get_uri_params(spider, *more, **named)

    # In a thread of its own.

    def _serve(self, spider: Spider, scheduler: Any) -> None:
        while True:
            # The order counts: a short crawl begins and ends between two looks.
            ended = self._ended.is_set()
            if scheduler.membership.takes_part:
                break
            if ended:
                return
            self._ended.wait(AGAIN)
        try:
            with self._connected(scheduler.join.settings) as frontier:
                self._serve_on(frontier, spider, scheduler.join)
        except SettingError as error:
            self._incomplete = True
            logger.error("%s", error)
            scheduler.link.post(partial(scheduler.end, type(error).__name__))
        except Exception as error:
            self._incomplete = True
            # A file or folder that cannot be used is no error of a program: its name and the reason say all.
            found = isinstance(error, OSError) and error.filename is not None
            logger.error(
                "The feeds could not be written to their end%s. The crawl goes on, and this worker exits with an error. The items "
                "are on the server: `gossamer items export %s FILE` reads them.",
                f": {error}" if found else "", scheduler.join.group, exc_info=not found,
            )  # fmt: skip

    def _connected(self, settings: Settings) -> ValkeyFrontier:
        """Wait for a server that does not answer, as the worker itself does: it has joined already."""
        said = False
        while True:
            last = self._ended.is_set()
            try:
                return ValkeyFrontier.find(settings)
            except FrontierUnavailable as error:
                if last:
                    raise
                if not said:
                    logger.warning("The feeds wait for the server: %s", error)
                said = True
            self._ended.wait(LOOK)

    def _serve_on(self, frontier: ValkeyFrontier, spider: Spider, worker_config: Any) -> None:
        files: dict[str, FeedFile] = {}
        said, served = False, None
        while True:
            # The order counts: a worker that closes may begin the next round, of which this file knows nothing yet.
            last, closing = self._ended.is_set(), self._closing()
            self._passed += 1
            try:
                info = next(iter(frontier.rounds(worker_config.group, 1)), None)
                closing = closing or self._closing()
                mine = served.round if served is not None else self._settled()
                if closing and info is not None and info.round != mine >= 0:
                    rows = frontier.rounds(worker_config.group, 2)
                    info = served or next((row for row in rows if row.round == mine), None)
                if info is not None and info.began is not None:
                    if served is None or (info.round, info.began) != (served.round, served.began):
                        files = self._turned(frontier, spider, files, info)
                    self._step(frontier, info, files, worker_config, self._end(frontier, info) if closing else None)
                    if not closing:
                        self._check_room(frontier, files, worker_config)
                    if last:
                        self._finish(frontier, info, files, worker_config)
                served = info
                said = False
            except FrontierError as error:
                if last or not said:
                    logger.warning("The feeds wait for the server: %s", error)
                self._incomplete = self._incomplete or last
                said = True
                if last:
                    self._leave(frontier, files)
            if last:
                return
            self._ended.wait(LOOK)

    def _leave(self, frontier: ValkeyFrontier, files: Mapping[str, FeedFile]) -> None:
        """Close the files so that what they contain can be read: the server is gone, or its group was dropped."""
        for uri, file in files.items():
            if file.writes:
                with contextlib.suppress(FrontierError):
                    self._close(frontier, uri, file, over=False)

    def _turned(
        self, frontier: ValkeyFrontier, spider: Spider, files: Mapping[str, FeedFile], info: RoundInfo
    ) -> dict[str, FeedFile]:
        """The files of a round. Files of the last round that have other names get the rest of its items first."""
        assert info.began is not None
        found = self._files(spider, frontier.crawl, info.group, info.began)
        for uri, old in files.items():
            if old.path == found[uri].path:
                found[uri] = old
            elif old.writes:
                old.write(frontier, starts(frontier, info))
                self._close(frontier, uri, old, over=True)
        return found

    @staticmethod
    def _end(frontier: ValkeyFrontier, info: RoundInfo) -> dict[int, str]:
        """Up to where the items of a round reach now. The order counts: what is there before the next round has begun is not of it."""
        ends = {}
        for partition in range(frontier.partitions):
            last = item_stream.last_items(frontier, info.group, partition, 1)
            ends[partition] = last[0][0] if last else item_stream.START
        now = next(iter(frontier.rounds(info.group, 1)), info)
        if now.round <= info.round or now.began is None:
            return ends
        return {p: min(ends[p], at, key=item_stream.place) for p, at in starts(frontier, now).items()}

    @staticmethod
    def _step(
        frontier: ValkeyFrontier,
        info: RoundInfo,
        files: Mapping[str, FeedFile],
        worker_config: Any,
        until: Mapping[int, str] | None,
    ) -> None:
        """Write what waits. An item that one file has is not kept for the others, so all of them are prepared before the first is written."""
        for file in files.values():
            file.prepare(frontier, info)
        if all(file.ready(frontier, info) for file in files.values()):
            for file in files.values():
                file.write(frontier, until)

    @staticmethod
    def _check_room(frontier: ValkeyFrontier, files: Mapping[str, FeedFile], worker_config: Any) -> None:
        """SettingError where a feed waits for the end of a round that waits for the feed."""
        if not (kept := [str(file.path) for file in files.values() if file.keeps]):
            return
        counts = frontier.counts(worker_config.group)
        full = any(row.group == worker_config.group and row.paused == FULL for row in counts.groups)
        if full and any(lane.queued or lane.delayed for lane in counts.lanes):
            raise SettingError(
                f"The feed {', '.join(kept)} cannot be written: its exporter keeps items to itself until its end, so all of the round wait on the server, and "
                "that takes no more of them. Raise GOSSAMER_ITEMS_MAX and GOSSAMER_ITEMS_MAX_BYTES (0: no limit) and run the spider again "
                "with the same feed, or choose a format that is written item by item."
            )

    def _finish(
        self, frontier: ValkeyFrontier, info: RoundInfo, files: Mapping[str, FeedFile], worker_config: Any
    ) -> None:
        until = time.monotonic() + worker_config.settings["GOSSAMER_CLOSE_SECONDS"]
        # As long as the crawl goes on, what others write is theirs.
        mine = {uri: file for uri, file in files.items() if self._over() or file.writes}
        end = self._end(frontier, info)
        while lacking := [uri for uri, file in mine.items() if not file.complete(frontier, info, end)]:
            if time.monotonic() > until and not any(mine[uri].ends_elsewhere() for uri in lacking):
                self._incomplete = True
                logger.error(
                    "The feed %s lacks items that wait on the server, since another process writes the file; this worker fails. "
                    "`gossamer items export` reads them.",
                    ", ".join(lacking),
                )
                break
            time.sleep(AGAIN)
            self._passed += 1
            self._step(frontier, info, files, worker_config, end)
        over = self._over() or (not self._incomplete and self._was_ended(frontier, info))
        # Whoever is through leaves its files alone: what comes after an exporter's end would be cut off again.
        for uri, file in files.items():
            if file.past and self._drained():
                self._check(frontier, info, file, self._came_for_nothing(worker_config))
            if file.writes:
                # A crawl that waits for more has no end at which it could be whole.
                if self._drained():
                    self._check(frontier, info, file)
                self._close(frontier, uri, file, over)

    @staticmethod
    def _was_ended(frontier: ValkeyFrontier, info: RoundInfo) -> bool:
        """Whether a round brings no more although this worker was stopped: it threw the rest away as it closed, or others have ended it."""
        rows = frontier.rounds(info.group, 2)
        present = next((row for row in rows if (row.round, row.began) == (info.round, info.began)), None)
        return present is None or present.ended is not None or rows[0].round > present.round

    def _came_for_nothing(self, worker_config: Any) -> bool:
        """Whether this worker is one of those that something starts again and again (see GOSSAMER_ROUND), and had nothing to do: should it
        fail, it would only be started once more."""
        assert self.crawler.stats is not None
        # Not by -s, as `gossamer crawl` says it to its workers.
        usual = (self.crawler.settings.getpriority("GOSSAMER_ROUND") or 0) <= PROJECT
        restarted = usual and worker_config.settings["GOSSAMER_ROUND"] == "join"
        return restarted and not self.crawler.stats.get_value("downloader/request_count")

    def _check(self, frontier: ValkeyFrontier, info: RoundInfo, file: FeedFile, idle: bool = False) -> None:
        """Say what a file lacks of a round that is over; the worker fails for it unless it was `idle`."""
        rounds = frontier.rounds(info.group, 2)
        info = next((row for row in rounds if (row.round, row.began) == (info.round, info.began)), info)
        if lacking := file.lacking(info):
            forgiven = "The round was over before this worker came." if idle else file.forgiven()
            self._incomplete = self._incomplete or not forgiven
            logger.log(
                logging.WARNING if forgiven else logging.ERROR,
                "The feed %s is not whole: it lacks %d of the %d items of round %d, which had been read and trimmed before the feed was "
                "asked for, or went to ITEM_PIPELINES alone. %s To have all, crawl again with the feed from the beginning.",
                file.path, lacking, info.items, info.round, forgiven or "This worker fails.",
            )  # fmt: skip
        elif file.past and info.items:
            logger.warning(
                "The feed %s stays as it is: the items of round %d had been read and trimmed before the feed was asked for. If the file is not "
                "of that round, crawl again with the feed from the beginning.", file.path, info.round,
            )  # fmt: skip

    def _close(self, frontier: ValkeyFrontier, uri: str, file: FeedFile, over: bool) -> None:
        consumer, self._closed = file.consumer, file
        file.close(frontier, over)
        if not file.untouched:
            self._stored.append((uri, file))
            logger.info("Stored feed (%s written by this worker) in: %s", counted(file.count, "item"), file.path)
        if not over and consumer:
            logger.info(
                "The round is not over: the rest of its items wait on the server for this file. Run the spider again with the same -O, -o or FEEDS. "
                "If you will not, `gossamer items forget %s %s` lets them go.", file.group, consumer,
            )  # fmt: skip
        if file.failed:
            self._incomplete = True
            logger.error(
                "The feed %s is not whole: its exporter failed on %d of the items, see above. This worker fails.",
                file.path, file.failed,
            )  # fmt: skip

    def _files(self, spider: Spider, crawl: str, group: str, began: float) -> dict[str, FeedFile]:
        """All workers of a round write the same files: `%(time)s` is when the round began."""
        found: dict[str, FeedFile] = {}
        for uri, options in self._shared.items():
            params = self._get_uri_params(spider, None)
            path = path_of(uri, options, params, spider, datetime.fromtimestamp(began, UTC))
            same = [known for known, file in found.items() if file.path.resolve() == path.resolve()]
            if same:
                raise SettingError(f"The feeds {same[0]} and {uri} are one file, {path}. Give each a file of its own.")
            found[uri] = FeedFile(
                path, uri, crawl, group, bool(options.get("overwrite")), bool(options["store_empty"]),
                partial(self._exporter, options=options), partial(self._item, spider, uri), self._form(options),
                is_of_one_round(uri, path, spider),
            )  # fmt: skip
        return found

    def _exporter(self, file: Any, options: Mapping[str, Any]) -> Any:
        return build_from_crawler(
            self.exporters[options["format"]], self.crawler, file, fields_to_export=options["fields"], encoding=options["encoding"],
            indent=options["indent"], **options["item_export_kwargs"],
        )  # fmt: skip

    def _form(self, options: Mapping[str, Any]) -> str:
        """What decides how items look in a file, in words that are the same in all processes."""
        names = ("fields", "encoding", "indent", "item_export_kwargs")
        kind = self.exporters[options["format"]]
        chosen = {name: options[name] for name in names if options[name] not in (None, {}, [])}
        return f"{kind.__qualname__} {json.dumps(chosen, default=_kind_name)}"

    def _item(self, spider: Spider, uri: str, data: bytes) -> Any:
        """The item as the spider made it, None if the feed filters it out."""
        self._passed += 1
        value = codec.decode(data)
        name = value.pop(CLASS, "") if isinstance(value, dict) else ""
        wanted = self.filters[uri]
        if name:
            try:
                if (kind := kind_of(name, type(spider).__module__)) is None:
                    raise LookupError(f"this process does not find its class {name}; define it at the top of a module")
                value = item_from(kind, value)
            except Exception as error:
                if getattr(wanted, "item_classes", True):
                    raise  # as a mapping it would be left out
                if name not in self._as_mappings:
                    self._as_mappings.add(name)
                    logger.warning("Items of %s are exported as plain mappings: %s", name, error)
        return value if wanted.accepts(value) else None


def _kind_name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))
