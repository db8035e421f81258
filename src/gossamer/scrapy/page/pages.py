"""The pages of a worker, from the lease until the courier has their settlement; it watches the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from gossamer.courier import Courier
from gossamer.model import Feedback, Fetched, HostVerdict, Lease
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.download.network import inherit
from gossamer.scrapy.metric import HistogramMetric
from gossamer.scrapy.page.page import LeasedPage, feedback_of
from gossamer.scrapy.page.visit import VisitContent


class LeasedPages:
    """Requests, responses and failures are compared by identity: Scrapy copies what it changes, and equal ones are not
    the same page."""

    def __init__(self, courier: Courier, worker_config: WorkerConfig, latency: HistogramMetric) -> None:
        self._courier, self._worker_config, self._latency = courier, worker_config, latency
        self.settled_after: Callable[[Callable[[], None]], None] = lambda settle: settle()
        """Calls what it is given when everything that must reach the frontier before a settlement has."""
        self._pages: dict[int, LeasedPage] = {}
        self._parents: dict[int, LeasedPage] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, request: Request) -> bool:
        return id(request) in self._pages

    def begin(self, lease: Lease, request: Request) -> None:
        """Hand a leased request to the engine."""
        content = VisitContent() if lease.lane in self._worker_config.recorded else None
        self._pages[id(request)] = LeasedPage(lease, request, content)

    def claim(self, request: Request) -> LeasedPage | None:
        """The page that has just yielded a request; None: none has. Asked once."""
        return self._parents.pop(id(request), None)

    def of(self, response: Response | Failure | None) -> LeasedPage | None:
        """The page that a response or failure belongs to while its output is handled."""
        return None if response is None else self._parents.get(id(response))

    def give_up(self, lease: Lease) -> None:
        """It was worked on for too long: stop waiting for its callback."""
        for page in [page for page in self._pages.values() if page.lease == lease and page.task is not None]:
            page.given_up = True
            page.task.cancel()

    def give_back(self) -> int:
        """Give all of them back to the frontier, for other workers. Returns how many there were."""
        pages = list(self._pages.values())
        self._pages.clear()
        for page in pages:
            self._courier.give_back(page.lease)
            if page.task is not None:
                page.task.cancel()
        return len(pages)

    # What the hooks in Scrapy's engine report.

    def answered(self, response: Response, request: Request) -> None:
        page = self._pages.get(id(request))
        if page is not None and not page.told:
            page.told = True
            again = page.lease.attempt > 1 or bool(request.meta.get("retry_times"))
            feedback = feedback_of(response, request.meta.get("download_latency"), again)
            if feedback.latency is not None:
                self._latency.observe(feedback.latency)
            if request.meta.get("autothrottle_dont_adjust_delay") is True:
                feedback = feedback._replace(latency=None)
            self._courier.fetched(Fetched(page.lease, feedback))

    def downloaded(self, request: Request, result: Request | Response | Failure) -> None:
        """The downloader and its middlewares are done with a request."""
        page = self._pages.get(id(request))
        if page is None:
            return
        if isinstance(result, Request):
            page.replaced = True
            self._parents[id(result)] = page
        if not page.told:
            page.told = True
            broken = isinstance(result, Request) or (
                isinstance(result, Failure) and not isinstance(result.value, IgnoreRequest)
            )
            self._courier.fetched(Fetched(page.lease, Feedback(HostVerdict.ERROR) if broken else None))

    def scraping(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback is about to be called."""
        page = self._pages.get(id(request))
        if page is not None:
            page.outcome = result
            self._parents[id(result)] = page

    def handling(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback has given output, which is about to be handled."""
        page = self._pages.get(id(request))
        if page is not None:
            page.handled = isinstance(result, Response) or self._worker_config.give_up.applies(request)

    def yields(self, request: Request, child: Request) -> None:
        """The callback of a request yielded another one, which goes to the scheduler next."""
        inherit(request, child)
        page = self._pages.get(id(request))
        if page is not None:
            self._parents[id(child)] = page

    def yielded(self, child: Request) -> None:
        """It has gone there, unless a middleware refused it on the way."""
        self._parents.pop(id(child), None)

    def calling(self, request: Request, task: asyncio.Task[Any] | Deferred[Any] | None) -> None:
        """Its callback or errback is called in this task, or stands behind this Deferred, which can be cancelled."""
        page = self._pages.get(id(request))
        if page is not None:
            page.task = task

    def given_up(self, request: Request) -> bool:
        """Whether it was in progress for too long and was given up."""
        page = self._pages.get(id(request))
        return page is not None and page.given_up

    def raised(self, request: Request, failure: Failure) -> None:
        """Its callback or errback raised."""
        page = self._pages.get(id(request))
        if page is not None:
            page.failed("callback", failure)

    def through(self, request: Request) -> None:
        """Nothing of it is left in Scrapy."""
        page = self._pages.pop(id(request), None)
        if page is None:
            return
        if page.outcome is not None:
            self._parents.pop(id(page.outcome), None)
        settings, gave_up = self._worker_config.settings, self._worker_config.gave_up(page)
        settlement = page.settlement(settings["GOSSAMER_FAILURES"], settings["GOSSAMER_FAILURE_TRIES"], gave_up)
        self.settled_after(lambda: self._courier.settle(settlement, page))
