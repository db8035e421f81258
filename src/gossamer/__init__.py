"""Gossamer: a crawl fleet for Scrapy on one shared frontier."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# By name only, and loaded when asked for: who uses the frontier alone never loads Scrapy.
_PUBLIC = {
    "Addon": "gossamer.scrapy.addon",
    "CrawlSummary": "gossamer.cli.run.python_site",
    "FleetCrawlSpider": "gossamer.scrapy.spiders",
    "FleetSitemapSpider": "gossamer.scrapy.spiders",
    "FleetSpider": "gossamer.scrapy.spiders",
    "Lane": "gossamer.scrapy.lanes",
    "LayerFunction": "gossamer.python",
    "Output": "gossamer.python",
    "Page": "gossamer.python",
    "PageRequest": "gossamer.python",
    "Producer": "gossamer.frontier.producer",
    "Record": "gossamer.python",
    "Site": "gossamer.python",
    "lane": "gossamer.scrapy.lanes",
    "metrics": "gossamer.scrapy.metric",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
