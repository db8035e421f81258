"""The project's own dupefilter class on the frontier: what of it is honoured there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Spider, dupefilters
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object

from gossamer.scrapy_redis.dupefilter import RFPDupeFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

HONOURED = frozenset({"request_fingerprint", "log", "logger"})
"""How requests are compared, and how a duplicate is logged."""
_BASES = (RFPDupeFilter, dupefilters.RFPDupeFilter, dupefilters.BaseDupeFilter)


def kind_of(settings: BaseSettings) -> Any:
    return load_object(settings["DUPEFILTER_CLASS"])


def base_of(kind: Any) -> Any:
    """The known filter that a class is made of; None for a class that is made of none."""
    return next((base for base in _BASES if isinstance(kind, type) and issubclass(kind, base)), None)


def overridden(kind: type[Any], base: type[Any]) -> list[str]:
    """What of `base` a class has of its own, with the constructor only where it matters."""
    own = {name for each in kind.__mro__ if each not in base.__mro__ for name in vars(each)}
    known = {*dir(base), "from_settings", "from_crawler"}
    return sorted(name for name in own & known if name == "__init__" or not _internal(name))


def _internal(name: str) -> bool:
    return name.startswith("__") and name != "__len__"


def filters_nothing(settings: BaseSettings) -> bool:
    """Whether the project chose a class that takes no request for a duplicate."""
    kind = kind_of(settings)
    return getattr(kind, "request_seen", None) is dupefilters.BaseDupeFilter.request_seen


def own_filter(crawler: Crawler, spider: Spider) -> Any:
    """The project's filter, where its class tells requests apart or logs duplicates in a way of its own; else None."""
    kind = kind_of(crawler.settings)
    base = base_of(kind)
    if base is None or HONOURED.isdisjoint(overridden(kind, base)):
        return None
    return kind.from_spider(spider) if hasattr(kind, "from_spider") else build_from_crawler(kind, crawler)
