"""Scrapy tuned exactly as Gossamer's add-on tunes it, and nothing else of Gossamer: memory queue, Scrapy's own dupefilter."""

from __future__ import annotations

from typing import Any, cast

from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.settings import BaseSettings
from twisted.internet.defer import Deferred

from gossamer import heap
from gossamer.scrapy.page.callback_output import CallbackOutput
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.speedups import defaults, known_links
from gossamer.scrapy.speedups.signals import skip_without_receivers
from gossamer.settings import load


class Tuned:
    """An add-on, so that the changes are made where and when ours makes them."""

    def update_settings(self, settings: BaseSettings) -> None:
        said = load()["GOSSAMER_TUNING"]
        defaults.apply(settings, said)
        settings.set("SCHEDULER", TunedScheduler, "addon")
        if "fingerprints" in defaults.names(said):
            settings.set("REQUEST_FINGERPRINTER_CLASS", "gossamer.scrapy.speedups.fingerprint.Fingerprinter", "addon")


class TunedScheduler(Scheduler):
    """Scrapy's scheduler; what is tuned about the engine is tuned when it opens, as in ours."""

    def open(self, spider: Spider) -> Deferred[None] | None:
        crawler = self.crawler
        assert crawler is not None
        engine: Any = crawler.engine
        tunes = defaults.names(load()["GOSSAMER_TUNING"])
        scraper = engine.scraper
        if "output" in tunes:
            scraper.handle_spider_output_async = CallbackOutput(
                engine, scraper, cast(LeasedPages, _Nobody()), True
            ).handle
        if "signals" in tunes:
            skip_without_receivers(crawler.signals)
        if "garbage" in tunes:
            heap.begin_crawl()
        if "early" in tunes and known_links.possible(crawler):
            known_links.attach(crawler, self._known)
        return super().open(spider)

    def _known(self, request: Request, _: Response) -> bool:
        memory = self.df
        assert isinstance(memory, RFPDupeFilter)
        assert self.stats is not None
        known = memory.fingerprinter.fingerprint(request) in memory._fingerprints
        if known:
            self.stats.inc_value("dupefilter/filtered")
        return known


class _Nobody:
    """In the place of a worker's pages: it hears of a callback's output and does nothing about it."""

    def handling(self, *_: Any) -> None: ...

    yields = yielded = handling

    def given_up(self, request: Request) -> bool:
        return False
