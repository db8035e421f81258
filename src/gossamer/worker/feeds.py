"""FEEDS of a fleet: local files are written from the item stream, each item once, whatever the number of workers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from itemadapter import ItemAdapter
from scrapy import Spider
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.threads import deferToThread
from w3lib.url import file_uri_to_path

from gossamer.errors import FrontierError, SettingError
from gossamer.frontier import codec
from gossamer.frontier.codec import CLASS
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo
from gossamer.settings import Settings
from gossamer.worker.failure import fail
from gossamer.worker.feed_file import FeedFile
from gossamer.worker.reactor import on_asyncio

logger = logging.getLogger(__name__)

SCRAPYS, OURS = "scrapy.extensions.feedexport.FeedExporter", "gossamer.worker.feeds.Feeds"
STDOUT = "stdout"
LOOK = 1.0
"""Seconds between two looks at the stream."""
AGAIN = 0.1


def uris(settings: BaseSettings) -> dict[str, Mapping[str, Any]]:
    """The feeds that a project asks for, but for standard output, which is each process's own."""
    found = {str(uri): dict(feed) for uri, feed in settings.getdict("FEEDS").items()}
    if settings["FEED_URI"]:
        found.setdefault(str(settings["FEED_URI"]), {})
    return {uri: feed for uri, feed in found.items() if urlparse(uri).scheme != STDOUT}


def shared(ours: Settings, settings: BaseSettings) -> bool:
    """Whether the fleet writes the feeds together."""
    takes = settings.getwithbase("EXTENSIONS").get(OURS) is not None
    return ours["GOSSAMER_FEEDS"] == "fleet" and takes and bool(uris(settings))


def check(ours: Settings, settings: BaseSettings) -> None:
    """SettingError for a feed that the fleet cannot write as a whole."""
    if not shared(ours, settings):
        if uris(settings):
            logger.warning(
                "Each worker writes FEEDS by itself: give each a name of its own with %(worker)s in the URI. What a "
                "killed worker had not written yet is lost, and pages that are done again are there twice."
            )
        return
    remedy = (
        "Write a local file instead, or read the items from the stream; or set GOSSAMER_FEEDS=worker, by which each worker writes "
        "by itself, and put %(worker)s into the URI"
    )
    if ours["GOSSAMER_ITEMS"] == "off":
        raise SettingError("FEEDS are written from the item stream, and GOSSAMER_ITEMS is off. Leave it unset.")
    storages = settings.getwithbase("FEED_STORAGES")
    for uri, feed in uris(settings).items():
        why = ""
        scheme = urlparse(uri).scheme
        if scheme not in ("", "file") or load_object(storages[scheme or "file"]) is not FileFeedStorage:
            why = "it is not a local file"
        elif feed.get("postprocessing"):
            why = "it has postprocessing"
        elif feed.get("batch_item_count", settings.getint("FEED_EXPORT_BATCH_ITEM_COUNT")):
            why = "it is written in batches"
        if why:
            raise SettingError(f"The feed {uri} cannot be written by the fleet as a whole: {why}. {remedy}.")


class Feeds(FeedExporter):
    """Scrapy's feed exporter; in a fleet, local files are served from the stream by one of the workers on this machine."""

    def open_spider(self, spider: Spider) -> Any:
        scheduler: Any = getattr(self.crawler.engine, "_slot", None)
        scheduler = getattr(scheduler, "scheduler", None)
        self._thread: threading.Thread | None = None
        self._incomplete = False
        join = getattr(scheduler, "join", None)
        if join is not None and join.streams and shared(join.settings, self.settings):
            mine = {uri: self.feeds.pop(uri) for uri in list(self.feeds) if urlparse(uri).scheme != STDOUT}
            self._ended = threading.Event()
            self._over: Callable[[], bool] = lambda: bool(scheduler._drained)
            self._closing: Callable[[], bool] = lambda: bool(scheduler._closing)
            # One that may not join leaves the files as they are.
            if scheduler._opened:
                self._thread = threading.Thread(
                    target=self._serve, args=(spider, join, mine), name="feeds", daemon=True
                )
                self._thread.start()
        return super().open_spider(spider)

    async def close_spider(self, spider: Spider) -> None:
        if self._thread is not None:
            self._ended.set()
            wait: Callable[[], None] = self._thread.join
            await (asyncio.to_thread(wait) if on_asyncio() else deferToThread(wait))
            if self._incomplete:
                fail(self.crawler, self.crawler.engine)
        closed: Any = super().close_spider(spider)
        if closed is not None:
            await closed

    def _get_uri_params(self, spider: Spider, *more: Any, **named: Any) -> dict[str, Any]:
        spider.__dict__.setdefault("worker", f"{socket.gethostname()}-{os.getpid()}")
        return super()._get_uri_params(spider, *more, **named)

    # In a thread of its own.

    def _serve(self, spider: Spider, join: Any, feeds: Mapping[str, dict[str, Any]]) -> None:
        try:
            with ValkeyFrontier.find(join.settings) as frontier:
                self._serve_on(frontier, spider, join, feeds)
        except Exception:
            self._incomplete = True
            logger.exception(
                "The feeds could not be written to their end, and this worker fails. Their items are on the server: "
                "`gossamer items export` reads them."
            )

    def _serve_on(
        self, frontier: ValkeyFrontier, spider: Spider, join: Any, feeds: Mapping[str, dict[str, Any]]
    ) -> None:
        files: dict[str, FeedFile] = {}
        said, served = False, None
        while True:
            # The order counts: a worker that closes may begin the next round, of which this file knows nothing yet.
            last, closing = self._ended.is_set(), self._closing()
            try:
                info = next(iter(frontier.rounds(join.group, 1)), None)
                closing = closing or self._closing()
                if closing and served is not None and info is not None and info.round != served.round:
                    info = served
                served = info
                if info is not None and info.began is not None:
                    files = files or self._files(spider, join.group, feeds, info)
                    self._step(frontier, info, files, join)
                    if last:
                        self._finish(frontier, info, files, join)
                said = False
            except FrontierError as error:
                if last or not said:
                    logger.warning("The feeds wait for the server: %s", error)
                self._incomplete = last
                said = True
            if last:
                return
            self._ended.wait(LOOK)

    @staticmethod
    def _step(frontier: ValkeyFrontier, info: RoundInfo, files: Mapping[str, FeedFile], join: Any) -> None:
        """What one file has need not be kept for the others any more, so each waits in the stream before the first is written."""
        for file in files.values():
            file.prepare(frontier, info, join.settings["GOSSAMER_ITEMS"] == "stream")
        if all(file.ready(frontier, info) for file in files.values()):
            for file in files.values():
                file.write(frontier)

    def _finish(self, frontier: ValkeyFrontier, info: RoundInfo, files: Mapping[str, FeedFile], join: Any) -> None:
        until = time.monotonic() + join.settings["GOSSAMER_CLOSE_SECONDS"]
        # As long as the crawl goes on, what others write is theirs.
        mine = {uri: file for uri, file in files.items() if self._over() or file.writes}
        while lacking := [uri for uri, file in mine.items() if not file.complete(frontier, info)]:
            if time.monotonic() > until:
                self._incomplete = True
                logger.error(
                    "The feed %s lacks items that wait on the server, since another process writes the file; this worker fails. "
                    "`gossamer items export` reads them.",
                    ", ".join(lacking),
                )
                break
            time.sleep(AGAIN)
            self._step(frontier, info, files, join)
        # Whoever is through leaves its files alone: what comes after an exporter's end would be cut off again.
        for file in files.values():
            if file.writes:
                file.close(frontier, self._over())
                logger.info("Stored feed (%d items written by this worker) in: %s", file.count, file.path)

    def _files(
        self, spider: Spider, group: str, feeds: Mapping[str, dict[str, Any]], info: RoundInfo
    ) -> dict[str, FeedFile]:
        """All workers of a round write the same files: `%(time)s` is when the round began."""
        assert info.began is not None
        began = datetime.fromtimestamp(info.began, UTC)
        found = {}
        for uri, options in feeds.items():
            params = dict(self._get_uri_params(spider, None))
            params["time"] = began.replace(microsecond=0).isoformat().replace(":", "-")
            params["batch_time"] = began.isoformat().replace(":", "-")
            if options["uri_params"]:
                params = self._own_params(options["uri_params"], params, spider)
            name = uri % params
            local: Any = file_uri_to_path(name) if name.startswith("file:") else name
            path = Path(local).absolute()
            make = partial(self._exporter, options=options)
            found[uri] = FeedFile(path, group, bool(options.get("overwrite")), make, partial(self._item, spider, uri))
        return found

    @staticmethod
    def _own_params(function: Any, params: dict[str, Any], spider: Spider) -> dict[str, Any]:
        made: Callable[..., dict[str, Any] | None] = load_object(function)
        return made(params, spider) or params

    def _exporter(self, file: Any, options: Mapping[str, Any]) -> Any:
        return build_from_crawler(
            self.exporters[options["format"]], self.crawler, file, fields_to_export=options["fields"], encoding=options["encoding"],
            indent=options["indent"], **options["item_export_kwargs"],
        )  # fmt: skip

    def _item(self, spider: Spider, uri: str, data: bytes) -> Any:
        """The item as the spider made it, None if the feed does not want it."""
        value = codec.decode(data)
        kind = _kind(value.pop(CLASS), type(spider).__module__) if isinstance(value, dict) and CLASS in value else None
        if kind is not None:
            try:
                value = kind(**value)
            except Exception as error:
                logger.warning("An item of %s is exported as a plain mapping: %s", kind.__name__, error)
        return value if self.filters[uri].accepts(value) else None


def _kind(name: str, module: str) -> type | None:
    """The class of an item, if it is one of the project's own or one that is loaded already."""
    package, _, rest = name.partition(":")
    if package not in sys.modules and package.partition(".")[0] != module.partition(".")[0]:
        return None
    try:
        found: Any = import_module(package)
        for part in rest.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) and ItemAdapter.is_item_class(found) else None
