"""Settings of a project that have another effect in a fleet, or none: each is reported when the spider is opened.

Not sooner: what add-ons log, Scrapy drops where LOG_FILE_APPEND is off, since it opens the file once more after them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from gossamer.model import Order
from gossamer.scrapy.policies import main_order
from gossamer.scrapy.settings import component_path, loaded
from gossamer.scrapy.stats import FleetStatsMixin

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "gossamer.scrapy.scheduler.FleetScheduler"
_SCRAPYS = "scrapy.core.scheduler.Scheduler"
ADDON = SETTINGS_PRIORITIES["addon"]
JITTER = ("RANDOMIZE_DOWNLOAD_DELAY", "DOWNLOAD_DELAY_JITTER")
_OF_SCRAPY_REDIS = (
    "SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START", "SCHEDULER_IDLE_BEFORE_CLOSE", "SCHEDULER_QUEUE_CLASS", "SCHEDULER_QUEUE_KEY",
    "SCHEDULER_DUPEFILTER_KEY", "SCHEDULER_SERIALIZER",
)  # fmt: skip
_ORDERS = {Order.FIFO: "first in, first out", Order.LIFO: "last in, first out"}


class SettingNotes:
    """An extension, put in place by the add-on."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = crawler.settings
        crawler.signals.connect(self._opened, signals.spider_opened)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        for note in notes(self._settings):
            logger.warning("%s", note)


def named_scheduler(settings: BaseSettings) -> Any:
    """The scheduler that the project, its spider, a command of its own or another add-on names, be it Scrapy's own; None: none, or the
    fleet's."""
    scheduler = settings["SCHEDULER"]
    path = component_path(scheduler)
    named = (settings.getpriority("SCHEDULER") or 0) >= ADDON or path != _SCRAPYS
    return scheduler if named and path != SCHEDULER else None


def is_fleets(kind: Any) -> bool:
    """Whether it is the fleet's scheduler or made of it, and not one that reads the settings of scrapy-redis."""
    from gossamer.scrapy.scheduler import FleetScheduler

    # Not issubclass: Scrapy's schedulers take any class with their methods for one of theirs.
    return FleetScheduler in getattr(kind, "__mro__", ()) and not hasattr(kind, "on_frontier")


def part_of(kind: Any, settings: BaseSettings) -> bool | None:
    """Whether a scheduler of this class is on the frontier under these settings; None for one that is not Gossamer's."""
    if hasattr(kind, "on_frontier"):
        return bool(kind.on_frontier(settings))
    return True if is_fleets(kind) else None


def notes(settings: BaseSettings) -> Iterator[str]:
    """What to know of a project's settings, once the add-on has changed them."""
    scheduler = named_scheduler(settings)
    if scheduler is None or is_fleets(load_object(scheduler)):
        yield from _of_queues(settings)
        yield from delay_notes(settings)
        yield from _of_later_addons(settings)
    elif part_of(load_object(scheduler), settings) is None:
        yield (
            f"SCHEDULER is {component_path(scheduler)}, so this project does not take part in the crawl "
            f"{loaded(settings)['GOSSAMER_CRAWL']}. Leave SCHEDULER unset to join it."
        )


def _of_later_addons(settings: BaseSettings) -> Iterator[str]:
    """What another add-on has put in the place of what Gossamer's had put there."""
    if not issubclass(load_object(settings["STATS_CLASS"]), FleetStatsMixin):
        yield (
            f"STATS_CLASS is {component_path(settings['STATS_CLASS'])}, which an add-on has set after Gossamer's: what this worker counts is not in "
            "the crawl's totals. Give that add-on a smaller number in ADDONS than gossamer.Addon has."
        )


def _of_queues(settings: BaseSettings) -> Iterator[str]:
    """Settings for what the frontier does in the place of Scrapy's scheduler."""
    queue, disk = (settings[name] for name in ("SCHEDULER_MEMORY_QUEUE", "SCHEDULER_DISK_QUEUE"))
    if settings["JOBDIR"]:
        yield (
            f"JOBDIR {settings['JOBDIR']} keeps no requests: the frontier has the queue and what was seen, and a crawl that was stopped "
            "goes on without it. For a memory that outlasts a finished crawl set GOSSAMER_SEEN_SCOPE=forever."
        )
    kind = settings["SCHEDULER_PRIORITY_QUEUE"]
    if _is_projects(settings, "SCHEDULER_PRIORITY_QUEUE") and not _is_of(kind, "scrapy.pqueues"):
        yield (
            f"SCHEDULER_PRIORITY_QUEUE {kind} is not used: the frontier has the queue. Order requests by their priority, and by "
            "lanes."
        )
    order = main_order(settings)
    if _is_projects(settings, "SCHEDULER_MEMORY_QUEUE") and not _is_of(queue, "scrapy.squeues"):
        yield (
            f"SCHEDULER_MEMORY_QUEUE {queue} is not used: the frontier has the queue; by the name, requests of equal priority are "
            f"{_ORDERS[order]}. One of Scrapy's own queues says which order you want."
        )
    same = main_order({"SCHEDULER_MEMORY_QUEUE": disk}) is order and _is_of(disk, "scrapy.squeues")
    if _is_projects(settings, "SCHEDULER_DISK_QUEUE") and not same:
        yield (
            f"SCHEDULER_DISK_QUEUE {disk} is not used: the frontier has the queue, and SCHEDULER_MEMORY_QUEUE says its order "
            f"({_ORDERS[order]} now)."
        )
    for name in ("SCHEDULER_START_MEMORY_QUEUE", "SCHEDULER_START_DISK_QUEUE"):
        if _is_projects(settings, name):
            yield (
                f"{name} is not used: start requests are ordered as all others ({_ORDERS[order]} now). Give them priorities to have "
                "an order of their own."
            )
    if found := [name for name in _OF_SCRAPY_REDIS if settings.get(name)]:
        yield (
            f"{', '.join(found)} {'has' if len(found) == 1 else 'have'} no effect without scrapy-redis's scheduler: take it out "
            "(GOSSAMER_SEEN_SCOPE=forever remembers pages over finished crawls), or set "
            'SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler".'
        )


def delay_notes(settings: BaseSettings) -> Iterator[str]:
    """Settings for what the frontier does in the place of Scrapy's download slots."""
    if settings.getbool("AUTOTHROTTLE_DEBUG"):
        yield "AUTOTHROTTLE_DEBUG is not used: the frontier has the delays. `gossamer host show` shows them."
    if settings.getint("CONCURRENT_REQUESTS_PER_IP"):
        yield (
            "CONCURRENT_REQUESTS_PER_IP counts for each host, and so does DOWNLOAD_DELAY: the frontier does not know which hosts have one "
            'address. Give requests for such hosts one name in meta["download_slot"], and set CONCURRENT_REQUESTS_PER_DOMAIN instead.'
        )
    if _wants_jitter(settings):
        yield (
            f"Delays are not varied at random ({' and '.join(JITTER)}, and these of DOWNLOAD_SLOTS): the fleet keeps each delay as it "
            "is. Leave the setting out."
        )


def _wants_jitter(settings: BaseSettings) -> bool:
    said = [settings[name] for name in JITTER if _is_projects(settings, name)]
    for slot in settings.getdict("DOWNLOAD_SLOTS").values():
        said += [slot.get("jitter"), slot.get("randomize_delay")]
    return any(str(one).lower() not in ("none", "false", "0", "0.0", "") for one in said)


def _is_projects(settings: BaseSettings, name: str) -> bool:
    return (settings.getpriority(name) or 0) > ADDON


def _is_of(kind: Any, module: str) -> bool:
    return (kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}").startswith(f"{module}.")
