"""The project's own dupefilter class on the frontier: what of it is honoured there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Spider, dupefilters
from scrapy.utils.misc import build_from_crawler

from gossamer.scrapy.seen.project_filter import HONOURED, kind_of, overridden
from gossamer.scrapy_redis.dupefilter import RFPDupeFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_BASES = (RFPDupeFilter, dupefilters.RFPDupeFilter, dupefilters.BaseDupeFilter)


def base_of(kind: Any) -> Any:
    """The known filter that a class is made of; None for a class that is made of none."""
    return next((base for base in _BASES if isinstance(kind, type) and issubclass(kind, base)), None)


def own_filter(crawler: Crawler, spider: Spider) -> Any:
    """The project's filter, where its class tells requests apart or logs duplicates in a way of its own; else None."""
    kind = kind_of(crawler.settings)
    base = base_of(kind)
    if base is None or HONOURED.isdisjoint(overridden(kind, base)):
        return None
    return kind.from_spider(spider) if hasattr(kind, "from_spider") else build_from_crawler(kind, crawler)
