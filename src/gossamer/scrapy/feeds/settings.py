"""Which feeds a project asks for, who writes them, and what the fleet cannot write as a whole."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from scrapy import signals
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from gossamer.errors import SettingError
from gossamer.scrapy.feeds.feeds import STDOUT, FleetFeedExporter
from gossamer.scrapy.settings import component_path, is_on
from gossamer.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

SCRAPYS, OURS = "scrapy.extensions.feedexport.FeedExporter", "gossamer.scrapy.feeds.feeds.FleetFeedExporter"


def uris(settings: BaseSettings) -> dict[str, Mapping[str, Any]]:
    """The feeds that a project asks for, but for standard output, which is each process's own."""
    return {uri: feed for uri, feed in _every(settings).items() if urlparse(uri).scheme != STDOUT}


def _every(settings: BaseSettings) -> dict[str, dict[str, Any]]:
    found = {str(uri): dict(feed) for uri, feed in settings.getdict("FEEDS").items()}
    if settings["FEED_URI"]:
        found.setdefault(str(settings["FEED_URI"]), {"format": settings["FEED_FORMAT"]})
    return found


def shared(ours: Settings, crawler: Crawler) -> bool:
    """Whether the fleet writes the feeds together."""
    settings = crawler.settings
    takes = is_on(settings, "EXTENSIONS", OURS) or _place(crawler, FleetFeedExporter) is not None
    return ours["GOSSAMER_FEEDS"] == "fleet" and takes and bool(uris(settings))


def take_over(crawler: Crawler) -> None:
    """Put `FleetFeedExporter` in the place of Scrapy's exporter, in a project that has a scheduler of ours but not the add-on."""
    place = _place(crawler, FeedExporter)
    if place is None or crawler.extensions is None:
        return
    every = list(crawler.extensions.middlewares)
    _disconnect(crawler, every[place])
    every[place] = FleetFeedExporter.from_crawler(crawler)
    crawler.extensions.middlewares = tuple(every)


def _leave_one(crawler: Crawler) -> None:
    """An add-on after Gossamer's may have turned Scrapy's exporter on again: two would write each item twice."""
    if _place(crawler, FleetFeedExporter) is not None and (place := _place(crawler, FeedExporter)) is not None:
        _disconnect(crawler, (_extensions(crawler) or ())[place])


def _disconnect(crawler: Crawler, exporter: Any) -> None:
    disconnect = crawler.signals.disconnect
    disconnect(exporter.open_spider, signals.spider_opened)
    disconnect(exporter.close_spider, signals.spider_closed)
    disconnect(exporter.item_scraped, signals.item_scraped)


def _place(crawler: Crawler, kind: type) -> int | None:
    """Of the extension of exactly this kind."""
    every = _extensions(crawler) or ()
    return next((place for place, each in enumerate(every) if type(each) is kind), None)


def _extensions(crawler: Crawler) -> Sequence[Any] | None:
    try:
        return getattr(crawler.extensions, "middlewares", None)
    except RuntimeError:
        return None  # they are not made yet


def log_separate_files(settings: BaseSettings) -> None:
    """Warn of feeds that each worker writes alone."""
    if uris(settings):
        logger.warning(
            "Each worker writes FEEDS by itself: give each a name of its own with %(worker)s in the URI. What a "
            "killed worker had not written yet is lost, and pages that are done again are there twice."
        )


def check(ours: Settings, crawler: Crawler) -> None:
    """SettingError for a feed that the fleet cannot write as a whole, and for one that nobody would write."""
    settings = crawler.settings
    _leave_one(crawler)
    if _exporter_is_on(settings):
        check_formats(settings)
    if not shared(ours, crawler):
        if uris(settings) and not _has_exporter(crawler):
            logger.warning(
                "FEEDS are set, but Scrapy's FeedExporter is off in EXTENSIONS: neither Scrapy nor the fleet writes them."
            )
        else:
            log_separate_files(settings)
        return
    if _extensions(crawler) is not None and _place(crawler, FleetFeedExporter) is None:
        raise SettingError(
            "Scrapy's exporter does not take these FEEDS, so they would not be written; its log says why."
        )
    refuse_if_not_whole(ours, settings)


def check_early(ours: Settings, settings: BaseSettings, on_frontier: bool) -> None:
    """What `check` finds by the settings alone, for those who start workers with the add-on."""
    if not _exporter_is_on(settings):
        return
    check_formats(settings)
    if on_frontier and ours["GOSSAMER_FEEDS"] == "fleet" and uris(settings):
        refuse_if_not_whole(ours, settings)


def _exporter_is_on(settings: BaseSettings) -> bool:
    return any(is_on(settings, "EXTENSIONS", name) for name in (SCRAPYS, OURS))


def _has_exporter(crawler: Crawler) -> bool:
    """Whether there is an extension that may write feeds: Scrapy's, or one of the project's own."""
    every = _extensions(crawler)
    if every is None:
        return _exporter_is_on(crawler.settings)
    return any(isinstance(each, FeedExporter) for each in every)


def check_formats(settings: BaseSettings) -> None:
    """Scrapy's exporter would log one line of a format that it does not have, and crawl without any feed."""
    known = {name for name, kind in settings.getwithbase("FEED_EXPORTERS").items() if kind is not None}
    for uri, feed in _every(settings).items():
        if feed.get("format") not in known:
            raise SettingError(
                f"The feed {uri} has the format {feed.get('format')!r}, which no exporter has. Known are {', '.join(sorted(known))}: "
                f"name one behind a colon ({uri}:jsonlines), as `format` in FEEDS, or add an exporter to FEED_EXPORTERS."
            )


def refuse_if_not_whole(ours: Settings, settings: BaseSettings) -> None:
    """SettingError for a feed that the fleet cannot write as a whole."""
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
        if scheme not in ("", "file"):
            why = "it is not a local file"
        elif (storage := storages.get(scheme)) is None:
            why = f"FEED_STORAGES has no storage for the scheme {scheme!r}"
        elif (kind := load_object(storage)) is not FileFeedStorage:
            why = f"its storage is {component_path(kind)} of FEED_STORAGES, not Scrapy's own for files"
        elif feed.get("postprocessing"):
            why = "it has postprocessing"
        elif feed.get("batch_item_count", settings.getint("FEED_EXPORT_BATCH_ITEM_COUNT")):
            why = "it is written in batches"
        elif "%(worker)" in uri:
            why = "%(worker)s names a file for each worker"
        if why:
            raise SettingError(f"The feed {uri} cannot be written by the fleet as a whole: {why}. {remedy}.")
