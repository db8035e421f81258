"""Dupefilters for plain Scrapy, without the scheduler of Gossamer: DUPEFILTER_CLASS and nothing else.

Each spider has a memory of its own on the frontier's server (embedded unless GOSSAMER_URL says otherwise), kept over restarts,
without a JOBDIR and without a file that two spiders could share by mistake. Each request that is not known here already
costs one blocking call.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request, Spider, signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro

from gossamer.errors import GossamerError
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.model import SeenKind, SeenPolicy
from gossamer.scrapy.process import commands
from gossamer.scrapy.seen.duplicates import DuplicateLog
from gossamer.scrapy.seen.memory import memory_name, policy_of
from gossamer.scrapy.settings import loaded
from gossamer.scrapy.speedups.fingerprint import number_by
from gossamer.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

SHARE = 0.01
"""For which part of its window a fingerprint of unknown age is taken for seen without asking."""
UNAVAILABLE = "seen_unavailable"


class FingerprintCache:
    """Fingerprints that are certainly seen, the most useful `size` of them.

    Under `exact` and `bloom` what was seen stays so. Under `rolling` what this process marked itself stays for the window, and
    what it found marked for a hundredth of it: since when is unknown. Under `hits` every sighting has to be reported, so all
    stays for a hundredth. A window that counts fingerprints is measured by those that this process marks.
    """

    def __init__(self, policy: SeenPolicy, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._marked = size, 0
        self._until: dict[int, float] = {}
        self._clock: Callable[[], float] = (lambda: self._marked) if policy.window_count else clock
        window = policy.window or policy.window_count or math.inf
        self._found = window * SHARE
        self._made = window if policy.kind is SeenKind.ROLLING and policy.window else self._found

    def has(self, number: int) -> bool:
        until = self._until.pop(number, None)
        if until is None or until <= self._clock():
            return False
        self._until[number] = until
        return True

    def put(self, number: int, new: bool) -> None:
        self._marked += new
        if not self._size:
            return
        if len(self._until) >= self._size:
            del self._until[next(iter(self._until))]
        self._until[number] = self._clock() + (self._made if new else self._found)


class SeenFilter(BaseDupeFilter):
    """Remembers as GOSSAMER_SEEN_KIND says. The subclasses are of one kind each, whatever that setting says.

    What was marked but not fetched, or only with one of RETRY_HTTP_CODES, is forgotten when the spider closes, so that the
    next run finds it new; unless a JOBDIR keeps the queue. A server that stays away for GOSSAMER_OUTAGE_SECONDS closes the
    spider.
    """

    kind: ClassVar[SeenKind | None] = None

    def __init__(
        self,
        name: str,
        policy: SeenPolicy,
        number: Callable[[Request], int],
        settings: Settings,
        *,
        debug: bool = False,
        keeps_queue: bool = False,
        passing: Collection[int] = (),
    ) -> None:
        self.name, self.policy = name, policy
        self._number, self._settings = number, settings
        self._keeps_queue, self._passing = keeps_queue, frozenset(passing)
        self._known = FingerprintCache(policy, settings["GOSSAMER_SEEN_CACHE"])
        self._unfetched: set[int] = set()
        self._memory: ValkeyMemory | None = None
        self._crawler: Crawler | None = None
        self._failed = False
        self._duplicates = DuplicateLog(None, debug)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if commands.is_read_only():
            return commands.dupefilter(crawler)
        settings = loaded(crawler.settings)
        spider = crawler.spider.name if crawler.spider is not None else crawler.spidercls.name
        policy = policy_of(settings, cls.kind)
        assert crawler.request_fingerprinter is not None
        debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
        made = cls(
            memory_name(settings["GOSSAMER_CRAWL"], spider, policy),
            policy,
            number_by(crawler.request_fingerprinter, settings["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"]),
            settings,
            debug=debug,
            keeps_queue=bool(crawler.settings["JOBDIR"]),
            passing=[int(code) for code in crawler.settings.getlist("RETRY_HTTP_CODES")],
        )
        made._crawler, made._duplicates = crawler, DuplicateLog(crawler.stats, debug)
        crawler.signals.connect(made.fetched, signals.response_received)
        return made

    def open(self) -> None:
        self._memory = ValkeyMemory.open(self.name, self.policy, self._settings)

    def request_seen(self, request: Request) -> bool:
        number = self._number(request)
        new = False
        if not self._known.has(number):
            if self._failed:
                return True
            try:
                new = self._opened.mark([number])[0]
            except GossamerError as error:
                self._give_up(error)
                return True
            self._known.put(number, new)
        if new and not self._keeps_queue:
            self._unfetched.add(number)
        elif not new:
            # What leads to a page that is known has been fetched for good.
            self._arrived(request)
        return not new

    def fetched(self, response: Response, request: Request) -> None:
        """A response has come, for the request or for the last one that it was redirected to."""
        if self._unfetched and response.status not in self._passing:
            self._unfetched.discard(self._number(request))
            self._arrived(request)

    def _arrived(self, request: Request) -> None:
        if self._unfetched:
            for url in request.meta.get("redirect_urls", ()):
                self._unfetched.discard(self._number(request.replace(url=url)))

    def close(self, reason: str) -> None:
        memory, self._memory = self._memory, None
        if memory is None:
            return
        number = len(self._unfetched)
        try:
            if number:
                memory.forget(sorted(self._unfetched))
                logger.info(
                    "Requests that were not fetched and are forgotten, so that the next run finds them new: %d", number
                )
                self._count("dupefilter/forgotten", number)
        except GossamerError as error:
            logger.error(
                "Requests that were not fetched and stay seen, since the memory cannot be reached: %d (%s)",
                number,
                error,
            )
        finally:
            memory.close()

    def log(self, request: Request, spider: Spider) -> None:
        if self._failed:
            self._count("dupefilter/unavailable")
            return
        self._duplicates.filtered(request, spider)

    @property
    def _opened(self) -> ValkeyMemory:
        if self._memory is None:
            raise GossamerError("The seen filter is not open. Call open() first, as Scrapy's scheduler does.")
        return self._memory

    def _count(self, name: str, by: int = 1) -> None:
        if self._crawler is not None and self._crawler.stats is not None:
            self._crawler.stats.inc_value(name, by)

    def _give_up(self, error: GossamerError) -> None:
        """What is new is unknown from now on: no request is queued any more, and the spider closes."""
        self._failed = True
        logger.error("The seen filter cannot be read, the spider closes: %s", error)
        engine: Any = self._crawler.engine if self._crawler is not None else None
        if engine is None:
            raise error
        if hasattr(engine, "close_spider_async"):
            deferred_from_coro(engine.close_spider_async(reason=UNAVAILABLE))
        else:
            engine.close_spider(engine.spider, UNAVAILABLE)


class ExactFilter(SeenFilter):
    """Every page, for good: eight to nine bytes each on the server."""

    kind = SeenKind.EXACT


class BloomFilter(SeenFilter):
    """Every page, in less than three bytes; GOSSAMER_SEEN_ERROR_RATE of the new ones are taken for seen."""

    kind = SeenKind.BLOOM


class RollingFilter(SeenFilter):
    """Pages of the last GOSSAMER_SEEN_WINDOW_SECONDS, or the last GOSSAMER_SEEN_WINDOW_COUNT of them; then they are new again."""

    kind = SeenKind.ROLLING


class HitsFilter(SeenFilter):
    """As rolling, but each sighting of a link renews it: what is still linked stays seen."""

    kind = SeenKind.HITS
