"""One worker in this process: an ordinary Scrapy run, with the add-on on whatever the project's settings say."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from scrapy import Spider, signals
from scrapy import crawler as crawling
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.settings import SETTINGS_PRIORITIES, Settings
from scrapy.utils.misc import load_object
from scrapy.utils.spider import iter_spider_classes
from twisted.internet.defer import Deferred

from gossamer import errors, shutdown
from gossamer.errors import GossamerError, SettingError, UnknownSpider, WorkerFailed
from gossamer.model.policy import group_name
from gossamer.scrapy import spider_file
from gossamer.scrapy.addon import Addon
from gossamer.scrapy.feeds import settings as feed_settings
from gossamer.scrapy.process.exit_code import failure_of, is_drained
from gossamer.scrapy.setting_notes import named_scheduler, part_of
from gossamer.scrapy.settings import loaded, project_settings
from gossamer.settings import DEFAULT
from gossamer.settings import Settings as Ours

logger = logging.getLogger(__name__)

ADDON, PLACE = "gossamer.Addon", 100
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
SOURCES = (".py", ".pyw")
GOOD = frozenset({"idle", "draining", "finished", "shutdown", spider_file.AGAIN})
"""Why a worker may end with nothing having gone wrong."""


@dataclass(frozen=True, slots=True)
class FoundSpider:
    """A spider and what is in force for it: its project's settings, its own and those given."""

    kind: type[Spider]
    group: str
    scrapy: Settings
    ours: Ours

    @property
    def forever(self) -> bool:
        """Whether its workers go on when nothing is left."""
        if self.ours.source("GOSSAMER_MODE") != DEFAULT:
            return bool(self.ours["GOSSAMER_MODE"] == "forever")
        return getattr(self.kind, "mode", "drained") == "forever"

    def chosen(self, name: str) -> bool:
        """Whether the user chose a value for this setting of Scrapy's."""
        return (self.scrapy.getpriority(name) or 0) > SETTINGS_PRIORITIES["addon"]

    def check_feeds(self) -> None:
        """SettingError for feeds that its workers would refuse, before any is started."""
        scheduler = named_scheduler(self.scrapy)
        on_frontier = scheduler is None or bool(part_of(load_object(scheduler), self.scrapy))
        feed_settings.check_early(self.ours, self.scrapy, on_frontier)


@dataclass(frozen=True, slots=True)
class SpiderEnd:
    """Why a spider was closed, and the signal that asked for it, 0 if none did."""

    reason: str
    signal: int


def look_up(spider: str, arguments: Mapping[str, str], given: Mapping[str, Any]) -> FoundSpider:
    """The spider of that name in this directory's Scrapy project, or the one in the file of that name; `given` are settings
    as after `-s`. Nothing is run. `UnknownSpider` where there is none, `SettingError` for what cannot be used."""
    settings = _settings(spider, given)
    kind = _from_file(Path(spider)) if _is_file(spider) else _from_project(spider, settings)
    kind.update_settings(settings)
    _join_in(settings)
    ours = _in_force(settings, kind)
    group = ours["GOSSAMER_GROUP"] or arguments.get("name") or kind.name
    return FoundSpider(kind, group_name(group), settings, ours)


def _in_force(settings: Settings, kind: type[Spider]) -> Ours:
    """Our settings as the workers have them: schedulers of other names (gossamer.scrapy_redis) read more than ours."""
    scheduler = named_scheduler(settings)
    named = load_object(scheduler) if scheduler is not None else None
    if named is not None and part_of(named, settings) and hasattr(named, "worker_settings"):
        found: Ours = named.worker_settings(settings, kind)
        return found
    return loaded(settings)


def run(spider: str, arguments: Mapping[str, str], given: Mapping[str, Any]) -> SpiderEnd:
    """Crawl with it until its group is drained, or until it is stopped; or until its spider file has other arguments (`spider_file.AGAIN`).
    `WorkerFailed` if it ended for any other reason, an error of the frontier if it cannot be reached."""
    found = look_up(spider, arguments, given)
    # That the server cannot be reached is one line here; once Scrapy has begun, it is many.
    all_arguments = spider_file.with_planned(found.ours, found.group, arguments)
    settings = _settings(spider, given)
    _join_in(settings)
    process = _process_for(settings)
    crawler = process.create_crawler(found.kind)
    _join_in(crawler.settings)
    notes = _CrawlerNotes(crawler)
    notes.listen(process)
    spider_file.can_begin_again(crawler, arguments)
    notes.follow(process.crawl(crawler, **all_arguments))
    process.start()
    return notes.ended()


class _CrawlerNotes:
    """What became of a crawler."""

    def __init__(self, crawler: Crawler) -> None:
        self.reason: str | None = None
        self.signal = 0
        self.error: BaseException | None = None
        self._crawler = crawler
        crawler.signals.connect(self._closed, signals.spider_closed)

    def follow(self, crawl: Any) -> None:
        """Note the error that a crawl ends with; `crawl` is a Deferred or a Task, as the process has it."""
        if isinstance(crawl, Deferred):
            crawl.addErrback(lambda failure: self._broke(failure.value))
        else:
            crawl.add_done_callback(lambda task: None if task.cancelled() else self._broke(task.exception()))

    def ended(self) -> SpiderEnd:
        # It was closed in good order; what failed came to light after that.
        good = self.reason in GOOD or is_drained(self._crawler)
        if good and not self.signal and (failed := failure_of(self._crawler)) is not None:
            raise failed
        if good or self.signal:
            return SpiderEnd(self.reason or "killed", self.signal)
        if self.error is not None:
            raise WorkerFailed(f"The spider could not be run: {type(self.error).__name__}: {self.error}.")
        if self.reason is None:
            raise WorkerFailed("The spider was not opened; its log says why.")
        kind = getattr(errors, self.reason, None)
        if isinstance(kind, type) and issubclass(kind, GossamerError):
            if (found := failure_of(self._crawler)) is not None and type(found) is kind:
                raise found
            failed = WorkerFailed(f"The worker ended with {self.reason}; its log says more.")
            failed.exit_code = kind.exit_code
            raise failed
        raise WorkerFailed(
            f"The spider was closed before its group was drained: {self.reason}. What is left stays in the frontier."
        )

    def _broke(self, error: BaseException | None) -> None:
        if error is not None:
            self.error = error
            logger.error("The spider could not be run.", exc_info=error)

    def _closed(self, reason: str) -> None:
        self.reason = reason

    def listen(self, process: Any) -> None:
        """Note the signals that the process obeys. The second one always ends it: Scrapy asks its
        event loop to stop, which may be busy for ever, and waits for threads, which may be, too."""
        for name in ("_signal_shutdown", "_signal_kill", "_signal_shutdown_reactorless", "_signal_kill_reactorless"):
            handler = getattr(process, name, None)
            if handler is not None:
                setattr(process, name, self._noting(handler, "kill" in name))

    def _noting(self, handler: Callable[[int, Any], object], kills: bool) -> Callable[[int, Any], None]:
        def note(number: int, frame: Any) -> None:
            self.signal = self.signal or number
            if kills:
                shutdown.exit_within(shutdown.LAST_SECONDS, 128 + number)
            handler(number, frame)

        return note


def _settings(spider: str, given: Mapping[str, Any]) -> Settings:
    settings = project_settings()
    if _is_file(spider):
        # The project's other spiders are not asked for; what is wrong with them does not matter.
        settings.set("SPIDER_LOADER_WARN_ONLY", True, "command")
    feeds = given.get("FEEDS")
    if isinstance(feeds, dict):
        # As for `scrapy crawl -O`: besides those that the project has.
        given = {**given, "FEEDS": {**feeds, **settings.getdict("FEEDS")}}
    settings.setdict(dict(given), "cmdline")
    return settings


def _join_in(settings: Settings) -> None:
    """Turn the add-on on, unless it is; refuse a scheduler that would keep the spider out of the crawl."""
    table = dict(settings["ADDONS"] or {})
    if not any(place is not None and _is_ours(addon) for addon, place in table.items()):
        priority = max(settings.getpriority("ADDONS") or 0, SETTINGS_PRIORITIES["addon"])
        settings.set("ADDONS", {**table, ADDON: PLACE}, priority)
    scheduler = named_scheduler(settings)
    if scheduler is not None and part_of(load_object(scheduler), settings) is None:
        raise SettingError(f"SCHEDULER is {scheduler}, which is not on the frontier. Leave SCHEDULER unset.")


def _is_ours(addon: Any) -> bool:
    kind = load_object(addon)
    return isinstance(kind, type) and issubclass(kind, Addon)


def _process_for(settings: Settings) -> Any:
    """The kind of process that `scrapy crawl` would choose."""
    reactor = settings.getbool("TWISTED_REACTOR_ENABLED", True)
    plain = settings["TWISTED_REACTOR"] == ASYNCIO and not settings.getbool("FORCE_CRAWLER_PROCESS")
    # Scrapy 2.13 has only the one.
    kind = getattr(crawling, "AsyncCrawlerProcess", CrawlerProcess)
    return kind(settings) if plain or not reactor else CrawlerProcess(settings)


def _is_file(spider: str) -> bool:
    return spider.endswith(SOURCES)


def _from_file(path: Path) -> type[Spider]:
    if not path.is_file():
        raise UnknownSpider(f"there is no file {path}.")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        module = import_module(path.stem)
    except Exception as error:
        raise UnknownSpider(f"{path} cannot be imported: {_said(error)}. GOSSAMER_TRACEBACK=1 shows where.") from error
    finally:
        sys.path.pop(0)
    kinds = list(iter_spider_classes(module))
    if not kinds:
        raise UnknownSpider(
            f"there is neither a spider nor a site in {path}: no subclass of scrapy.Spider with a name, and no gossamer.Site."
        )
    return kinds[-1]


def _from_project(name: str, settings: Settings) -> type[Spider]:
    try:
        loader = load_object(settings["SPIDER_LOADER_CLASS"]).from_settings(settings.frozencopy())
    except Exception as error:
        raise UnknownSpider(
            f"the project's spiders cannot be imported: {_said(error)}. GOSSAMER_TRACEBACK=1 shows where."
        ) from error
    try:
        kind: type[Spider] = loader.load(name)
    except KeyError:
        known = ", ".join(sorted(loader.list()))
        if known:
            raise UnknownSpider(f"there is no spider {name!r} in this project; it has {known}.") from None
        raise UnknownSpider(
            f"there is no spider {name!r}: this directory is in no Scrapy project with spiders. Go to one, name it with "
            "--project, or give the file of a spider: spider.py."
        ) from None
    return kind


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
