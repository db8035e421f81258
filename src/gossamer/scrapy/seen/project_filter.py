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
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HONOURED = frozenset({"request_fingerprint", "log", "logger"})
"""How requests are compared, and how a duplicate is logged."""
MAKING = frozenset({"__init__", "from_crawler", "from_settings"})
"""How it is made: for the sake of the others, or to give it a fingerprinter of its own."""
REMEDY = (
    "Say which requests are the same in REQUEST_FINGERPRINTER_CLASS (or override only request_fingerprint and log in the filter). "
    "To crawl without the class, set DUPEFILTER_CLASS to scrapy.dupefilters.RFPDupeFilter; GOSSAMER_SEEN_KIND and GOSSAMER_SEEN_SCOPE "
    "say what is remembered."
)


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
    if own := _unusable(kind):
        raise SettingError(
            f"DUPEFILTER_CLASS {_path(kind)} has {', '.join(own)} of its own, which a fleet cannot use: the frontier remembers "
            f"what was seen, for all workers. {REMEDY}"
        )


def _unusable(kind: Any) -> list[str]:
    base = _base_of(kind)
    if base is None:
        return ["request_seen"]
    return [name for name in overridden(kind, base) if name not in HONOURED | MAKING]


def _path(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def own_filter(crawler: Crawler) -> Any:
    """The project's filter, where its class tells requests apart, logs duplicates or is made in a way of its own; else None."""
    kind = kind_of(crawler.settings)
    if _unusable(kind) or (HONOURED | MAKING).isdisjoint(overridden(kind, _base_of(kind))):
        return None
    return build_from_crawler(kind, crawler)


def check_memory(own: Any) -> None:
    """SettingError for a filter that knows pages from its beginning, or keeps them in a place of its own."""
    if not isinstance(own, dupefilters.RFPDupeFilter) or own.file is not None:
        return  # It knows none, or those of a JOBDIR, as Scrapy's own would.
    # Scrapy 2.19 has a set with this name, and a copy under the one before.
    known = own._fingerprints if hasattr(own, "_fingerprints") else own.fingerprints
    if known or type(known) is not set:
        raise SettingError(
            f"DUPEFILTER_CLASS {_path(type(own))} has fingerprints of its own when it is made, which a fleet cannot use: the frontier "
            "remembers what was seen, for all workers. Leave out requests for pages that you have already where they are made (in the "
            f"spider, or in a spider middleware). {REMEDY}"
        )


def numbering(own: Any, crawler: Crawler) -> Callable[[Request], int] | None:
    """How such a filter says itself which requests are the same; None where it leaves that to the project's fingerprinter."""
    if own is None:
        return None
    if "request_fingerprint" in overridden(type(own), _base_of(type(own))):
        return number_by_filter(own)
    fingerprinter = getattr(own, "fingerprinter", None)
    if fingerprinter is None or fingerprinter is crawler.request_fingerprinter:
        return None
    return number_by(fingerprinter, loaded(crawler.settings)["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"])


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
