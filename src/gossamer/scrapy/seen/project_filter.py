"""The project's own dupefilter (DUPEFILTER_CLASS) in a fleet: which of its methods are asked, and which class is refused.

The frontier remembers what was seen, for all workers, together with the pages. A class may say which requests are the same,
and how a duplicate is logged; or that nothing is one. What remembers by itself cannot be part of that: when a worker dies, its
pages are done again, and their links would be known already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy import Request, dupefilters
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler, load_object

from gossamer.errors import SettingError
from gossamer.scrapy.dupefilter import SeenFilter
from gossamer.scrapy.seen.memory import number_of_custom

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HONOURED = frozenset({"request_fingerprint", "log", "logger"})
"""How requests are compared, and how a duplicate is logged."""
MAKING = frozenset({"__init__", "from_crawler", "from_settings"})
"""How it is made: for the sake of the others."""


def kind_of(settings: BaseSettings) -> Any:
    return load_object(settings["DUPEFILTER_CLASS"])


def overridden(kind: type[Any], base: type[Any]) -> list[str]:
    """What of `base` a class has of its own, with the constructor only where it matters."""
    own = {name for each in kind.__mro__ if each not in base.__mro__ for name in vars(each)}
    known = {*dir(base), "from_settings", "from_crawler"}
    return sorted(name for name in own & known if name == "__init__" or not _internal(name))


def _internal(name: str) -> bool:
    return name.startswith("__") and name != "__len__"


def filters_nothing(settings: BaseSettings) -> bool:
    """Whether the project chose a class that takes no request for a duplicate."""
    return getattr(kind_of(settings), "request_seen", None) is dupefilters.BaseDupeFilter.request_seen


def check(settings: BaseSettings) -> None:
    """SettingError for a class that a fleet cannot ask."""
    kind = kind_of(settings)
    if isinstance(kind, type) and issubclass(kind, SeenFilter):
        logger.warning(
            "DUPEFILTER_CLASS %s is not used: it is for projects without the add-on. The frontier remembers what was seen; "
            "GOSSAMER_SEEN_KIND and GOSSAMER_SEEN_SCOPE say how.",
            kind.__qualname__,
        )
        return
    base = _base_of(kind)
    own = (
        ["request_seen"] if base is None else [name for name in overridden(kind, base) if name not in HONOURED | MAKING]
    )
    if own:
        raise SettingError(
            f"DUPEFILTER_CLASS {kind.__module__}.{kind.__qualname__} has {', '.join(own)} of its own, which a fleet cannot use: the frontier "
            "remembers what was seen, for all workers. Say which requests are the same in REQUEST_FINGERPRINTER_CLASS (or override only "
            "request_fingerprint and log in the filter). To crawl without the class, set DUPEFILTER_CLASS to "
            "scrapy.dupefilters.RFPDupeFilter; GOSSAMER_SEEN_KIND and GOSSAMER_SEEN_SCOPE say what is remembered."
        )


def own_filter(crawler: Crawler) -> Any:
    """The project's filter, where its class tells requests apart or logs duplicates in a way of its own; else None."""
    kind = kind_of(crawler.settings)
    base = _base_of(kind)
    return None if base is None or HONOURED.isdisjoint(overridden(kind, base)) else build_from_crawler(kind, crawler)


def numbers(own: Any) -> bool:
    """Whether such a filter says itself which requests are the same."""
    return own is not None and "request_fingerprint" in overridden(type(own), _base_of(type(own)))


def number_by_filter(own: Any) -> Callable[[Request], int]:
    def number(request: Request) -> int:
        digest = own.request_fingerprint(request)
        if isinstance(digest, bytes):
            return number_of_custom(digest)
        try:
            return number_of_custom(bytes.fromhex(digest))
        except ValueError:
            return number_of_custom(digest.encode())

    return number


def _base_of(kind: Any) -> Any:
    """Scrapy's filter that a class is made of; None for one that is made of none, or of one that Gossamer has for others."""
    if not isinstance(kind, type) or issubclass(kind, SeenFilter):
        return None
    bases = dupefilters.RFPDupeFilter, dupefilters.BaseDupeFilter
    return next((base for base in bases if issubclass(kind, base)), None)
