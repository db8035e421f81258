"""The Scrapy project of this directory, as its workers see it, for commands that must know requests as these do."""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings

from gossamer.scrapy.seen import project_filter
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by


def crawler_of(spider: str) -> Crawler:
    """A crawler with the settings that a spider of the project has, its own and those of add-ons; nothing is started. A name
    that is no spider's has the project's."""
    settings = get_project_settings()
    loader = load_object(settings["SPIDER_LOADER_CLASS"]).from_settings(settings.frozencopy())
    crawler = Crawler(loader.load(spider) if spider in loader.list() else Spider, settings)
    crawler.addons.load_settings(crawler.settings)
    crawler.spider = Spider.from_crawler(crawler, name=spider)
    return crawler


def number_in(crawler: Crawler) -> Callable[[Request], int]:
    """How this crawler's requests are numbered for the frontier: by the project's dupefilter, or by REQUEST_FINGERPRINTER_CLASS."""
    made = build_from_crawler(load_object(crawler.settings["REQUEST_FINGERPRINTER_CLASS"]), crawler)
    crawler.request_fingerprinter = made  # A filter may ask for it when it is made.
    if (by_filter := project_filter.numbering(project_filter.own_filter(crawler), crawler)) is not None:
        return by_filter
    return number_by(made, loaded(crawler.settings)["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"])


def number_page(number: Callable[[Request], int], url: str, method: str = "GET", body: str = "") -> int:
    """What the frontier knows this request by."""
    return number(Request(url, method=method, body=body))
