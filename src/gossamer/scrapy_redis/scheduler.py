"""The scheduler of scrapy-redis projects: on the frontier, or on the queues of scrapy-redis where the project asks for what only
those can give.

A project may make a class of its own of it, with the constructor, attributes and methods of scrapy-redis's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.settings import BaseSettings

from gossamer.errors import GossamerError, SettingError
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.process import commands
from gossamer.scrapy.process.refusal import RefusedScheduler
from gossamer.scrapy.settings import loaded
from gossamer.scrapy_redis.connection import RedisError
from gossamer.scrapy_redis.fleet.backend import reasons, said
from gossamer.scrapy_redis.fleet.config import worker_settings
from gossamer.scrapy_redis.fleet.scheduler import LeasingScheduler
from gossamer.scrapy_redis.shared.scheduler import QueueScheduler
from gossamer.settings import DEFAULT, Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Scheduler(QueueScheduler):
    """Made by Scrapy it is a `LeasingScheduler`, unless there are reasons against it, which are logged."""

    _told = False

    @classmethod
    def on_frontier(cls, settings: BaseSettings) -> bool:
        """Whether a project with these settings is on the frontier."""
        return not reasons(cls, Scheduler, settings)

    @staticmethod
    def worker_settings(settings: BaseSettings, spider: type[Spider]) -> Settings:
        """What is in force for the workers of a spider, for those who start them: server, rounds and arguments."""
        return worker_settings(settings, spider)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if commands.is_read_only():
            return commands.scheduler(crawler)
        feed_settings.take_over(crawler)
        try:
            if cls.on_frontier(crawler.settings):
                return LeasingScheduler.from_crawler(crawler)
            _check_feeds(crawler.settings)
            made = super().from_crawler(crawler)
        except RedisError as error:
            if not crawler.crawling:
                raise  # it is made by the user's own code
            return LeasingScheduler.unreached(crawler, error)
        except GossamerError as error:
            if not crawler.crawling:
                raise
            return RefusedScheduler(crawler, error)
        made._tell(crawler.settings)
        return made

    def open(self, spider: Spider) -> None:
        # A class of the project's own may be made without `from_crawler` above.
        if type(self) is not Scheduler and not self._told and getattr(spider, "crawler", None) is not None:
            self._tell(spider.crawler.settings)
        super().open(spider)

    def _tell(self, settings: BaseSettings) -> None:
        self._told = True
        logger.warning("%s", said(reasons(type(self), Scheduler, settings)))
        feed_settings.log_separate_files(settings)


def _check_feeds(settings: BaseSettings) -> None:
    ours = loaded(settings)
    if feed_settings.uris(settings) and ours["GOSSAMER_FEEDS"] == "fleet" and ours.source("GOSSAMER_FEEDS") != DEFAULT:
        raise SettingError(
            "GOSSAMER_FEEDS is fleet, but this project is on the queue of scrapy-redis, where each worker writes FEEDS by itself. "
            "Leave it out and put %(worker)s into the name of the file, or come to the frontier."
        )
