"""`ADDONS = {"gossamer.Addon": 100}`: everything that makes a Scrapy project a member of the fleet."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from gossamer.errors import SettingError
from gossamer.scrapy.download.network import PLACES
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.process import commands
from gossamer.scrapy.setting_notes import ADDON, SCHEDULER, is_fleets, named_scheduler, part_of
from gossamer.scrapy.settings import is_on, loaded, put_component
from gossamer.scrapy.speedups import defaults
from gossamer.scrapy.stats import fleet_collector

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

THROTTLE = "scrapy.extensions.throttle.AutoThrottle"
NOTES = "gossamer.scrapy.setting_notes.SettingNotes"


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
        _put(settings, "EXTENSIONS", NOTES, 0)
        scheduler = named_scheduler(settings)
        if scheduler is not None and not is_fleets(kind := load_object(scheduler)):
            part = part_of(kind, settings)
            if part is not None:
                _guard(settings)
            if part:
                # One of the fleet's own under another name (gossamer.scrapy_redis): it has its own stats and dupefilter.
                _put(settings, "EXTENSIONS", THROTTLE, None)
                _serve_feeds(settings)
                defaults.apply(settings, ours["GOSSAMER_TUNING"])
            return
        if scheduler is None:
            settings.set("SCHEDULER", SCHEDULER, "addon")
        stats = load_object(settings["STATS_CLASS"])
        _set(settings, "STATS_CLASS", fleet_collector(stats))
        _set(settings, "REMOTE_CONTROL_ENABLED", False, unless_project=True)
        # The frontier follows the hosts' latency for the whole fleet.
        _put(settings, "EXTENSIONS", THROTTLE, None)
        _guard(settings)
        _serve_feeds(settings)
        defaults.apply(settings, ours["GOSSAMER_TUNING"])


def _serve_feeds(settings: BaseSettings) -> None:
    """Scrapy's own exporter gives way, unless the project has put another in its place."""
    if is_on(settings, "EXTENSIONS", feed_settings.SCRAPYS):
        _put(settings, "EXTENSIONS", feed_settings.SCRAPYS, None)
        _put(settings, "EXTENSIONS", feed_settings.OURS, 0)


def _guard(settings: BaseSettings) -> None:
    """Pages of public hosts do not lead into the worker's own network."""
    for middleware, place in PLACES.items():
        _put(settings, "DOWNLOADER_MIDDLEWARES", middleware, place)


def _set(settings: BaseSettings, name: str, value: Any, *, unless_project: bool = False) -> None:
    """Set it also where the project did; with `unless_project`, only where it did not."""
    priority = settings.getpriority(name) or 0
    settings.set(name, value, ADDON if unless_project else max(priority, ADDON))


def _put(settings: BaseSettings, name: str, key: str, value: int | None) -> None:
    """Change one entry of a table of components."""
    put_component(settings, name, key, value, max(settings.getpriority(name) or 0, ADDON))
