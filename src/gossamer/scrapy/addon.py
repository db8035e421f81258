"""`ADDONS = {"gossamer.Addon": 100}`: everything that makes a Scrapy project a member of the fleet."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from gossamer.errors import SettingError
from gossamer.model import Order
from gossamer.scrapy.download.network import PLACES
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.policies import main_order
from gossamer.scrapy.process import commands
from gossamer.scrapy.settings import is_on, loaded, put_component
from gossamer.scrapy.speedups import defaults
from gossamer.scrapy.stats import fleet_collector

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SCHEDULER = "gossamer.scrapy.scheduler.FleetScheduler"
DEFAULT_SCHEDULER = "scrapy.core.scheduler.Scheduler"
THROTTLE = "scrapy.extensions.throttle.AutoThrottle"
ADDON = SETTINGS_PRIORITIES["addon"]
JITTER = ("RANDOMIZE_DOWNLOAD_DELAY", "DOWNLOAD_DELAY_JITTER")
_OF_SCRAPY_REDIS = (
    "SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START", "SCHEDULER_IDLE_BEFORE_CLOSE", "SCHEDULER_QUEUE_CLASS", "SCHEDULER_QUEUE_KEY",
    "SCHEDULER_DUPEFILTER_KEY", "SCHEDULER_SERIALIZER",
)  # fmt: skip
_ORDERS = {Order.FIFO: "first in, first out", Order.LIFO: "last in, first out"}


class Addon:
    """Puts the fleet's scheduler and stats in place, hands Scrapy's politeness over to the frontier, turns remote control
    off, and makes Scrapy's own work cheaper where that changes nothing (GOSSAMER_TUNING). Does nothing for commands of Scrapy
    that do not crawl (see `aside`)."""

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Settings that are none end a command of Scrapy with one line, before anything is made; `update_settings`, for scripts, raises."""
        found = commands.command()
        if found is None or commands.crawls_nothing(found):
            return
        try:
            loaded(settings)
        except SettingError as error:
            sys.exit(f"error: {error}")

    def update_settings(self, settings: BaseSettings) -> None:
        found = commands.command()
        if found is not None and commands.crawls_nothing(found):
            logger.info(
                "`scrapy %s` does not take part in the crawl: it runs as without Gossamer.", commands.name_of(found)
            )
            # Scrapy goes on without this add-on, and logs nothing.
            raise NotConfigured
        ours = loaded(settings)
        scheduler = settings["SCHEDULER"]
        if scheduler not in (DEFAULT_SCHEDULER, SCHEDULER) and (settings.getpriority("SCHEDULER") or 0) > ADDON:
            part = part_of(load_object(scheduler), settings)
            if part is not None:
                _guard(settings)
            if part:
                # One of the fleet's own under another name (gossamer.scrapy_redis): it has its own stats and dupefilter.
                _put(settings, "EXTENSIONS", THROTTLE, None)
                _serve_feeds(settings)
                defaults.apply(settings, ours["GOSSAMER_TUNING"])
            if part is not None:
                return
            logger.warning(
                "SCHEDULER is %s, so this project does not take part in the crawl %s. Leave SCHEDULER unset to join it.",
                scheduler,
                ours["GOSSAMER_CRAWL"],
            )
            return
        settings.set("SCHEDULER", SCHEDULER, "addon")
        _warn_of_unused(settings)
        stats = load_object(settings["STATS_CLASS"])
        _set(settings, "STATS_CLASS", fleet_collector(stats))
        _set(settings, "REMOTE_CONTROL_ENABLED", False, unless_project=True)
        # The frontier follows the hosts' latency for the whole fleet.
        _put(settings, "EXTENSIONS", THROTTLE, None)
        _guard(settings)
        _serve_feeds(settings)
        defaults.apply(settings, ours["GOSSAMER_TUNING"])


def _warn_of_unused(settings: BaseSettings) -> None:
    """Settings of the project for what the frontier does in the place of Scrapy's scheduler."""
    queue, disk = (settings[name] for name in ("SCHEDULER_MEMORY_QUEUE", "SCHEDULER_DISK_QUEUE"))
    if settings["JOBDIR"]:
        logger.warning(
            "JOBDIR %s keeps no requests: the frontier has the queue and what was seen, and a crawl that was stopped goes on "
            "without it. For a memory that outlasts a finished crawl set GOSSAMER_SEEN_SCOPE=forever.",
            settings["JOBDIR"],
        )
    kind = settings["SCHEDULER_PRIORITY_QUEUE"]
    if _is_projects(settings, "SCHEDULER_PRIORITY_QUEUE") and not _is_of(kind, "scrapy.pqueues"):
        logger.warning(
            "SCHEDULER_PRIORITY_QUEUE %s is not used: the frontier has the queue. Order requests by their priority, and by lanes.",
            kind,
        )
    order = main_order(settings)
    if _is_projects(settings, "SCHEDULER_MEMORY_QUEUE") and not _is_of(queue, "scrapy.squeues"):
        logger.warning(
            "SCHEDULER_MEMORY_QUEUE %s is not used: the frontier has the queue; by the name, requests of equal priority are %s. "
            "One of Scrapy's own queues says which order you want.",
            queue,
            _ORDERS[order],
        )
    same = main_order({"SCHEDULER_MEMORY_QUEUE": disk}) is order and _is_of(disk, "scrapy.squeues")
    if _is_projects(settings, "SCHEDULER_DISK_QUEUE") and not same:
        logger.warning(
            "SCHEDULER_DISK_QUEUE %s is not used: the frontier has the queue, and SCHEDULER_MEMORY_QUEUE says its order "
            "(%s now).",
            disk,
            _ORDERS[order],
        )

    for name in ("SCHEDULER_START_MEMORY_QUEUE", "SCHEDULER_START_DISK_QUEUE"):
        if _is_projects(settings, name):
            logger.warning(
                "%s is not used: start requests are ordered as all others (%s now). Give them priorities to have an order of their own.",
                name,
                _ORDERS[order],
            )
    if found := [name for name in _OF_SCRAPY_REDIS if settings.get(name)]:
        logger.warning(
            "%s %s no effect without scrapy-redis's scheduler: take it out (GOSSAMER_SEEN_SCOPE=forever remembers pages over finished "
            'crawls), or set SCHEDULER = "gossamer.scrapy_redis.scheduler.Scheduler".',
            ", ".join(found),
            "has" if len(found) == 1 else "have",
        )
    if settings.getbool("AUTOTHROTTLE_DEBUG"):
        logger.warning("AUTOTHROTTLE_DEBUG is not used: the frontier has the delays. `gossamer host show` shows them.")
    if _wants_jitter(settings):
        logger.warning(
            "Delays are not varied at random (%s, and these of DOWNLOAD_SLOTS): the fleet keeps each delay as it is. Leave the setting out.",
            " and ".join(JITTER),
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


def _serve_feeds(settings: BaseSettings) -> None:
    """Scrapy's own exporter gives way, unless the project has put another in its place."""
    if is_on(settings, "EXTENSIONS", feed_settings.SCRAPYS):
        _put(settings, "EXTENSIONS", feed_settings.SCRAPYS, None)
        _put(settings, "EXTENSIONS", feed_settings.OURS, 0)


def _guard(settings: BaseSettings) -> None:
    """Pages of public hosts do not lead into the worker's own network."""
    for middleware, place in PLACES.items():
        _put(settings, "DOWNLOADER_MIDDLEWARES", middleware, place)


def part_of(kind: Any, settings: BaseSettings) -> bool | None:
    """Whether a scheduler of this class is on the frontier under these settings; None for one that is not Gossamer's."""
    from gossamer.scrapy.scheduler import FleetScheduler

    if hasattr(kind, "on_frontier"):
        return bool(kind.on_frontier(settings))
    # Not issubclass: Scrapy's schedulers take any class with their methods for one of theirs.
    return True if FleetScheduler in getattr(kind, "__mro__", ()) else None


def _set(settings: BaseSettings, name: str, value: Any, *, unless_project: bool = False) -> None:
    """Set it also where the project did; with `unless_project`, only where it did not."""
    priority = settings.getpriority(name) or 0
    settings.set(name, value, ADDON if unless_project else max(priority, ADDON))


def _put(settings: BaseSettings, name: str, key: str, value: int | None) -> None:
    """Change one entry of a table of components."""
    put_component(settings, name, key, value, max(settings.getpriority(name) or 0, ADDON))
