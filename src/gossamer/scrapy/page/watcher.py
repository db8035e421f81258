"""What the hooks in Scrapy's engine report."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from scrapy import Request
from scrapy.http import Response
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class EngineWatcher(Protocol):
    """Hears of each step of a request through Scrapy."""

    def downloaded(self, request: Request, result: Request | Response | Failure) -> None:
        """The downloader and its middlewares are done with a request."""

    def scraping(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback is about to be called."""

    def handling(self, request: Request, result: Response | Failure) -> None:
        """Its callback or errback has given output, which is about to be handled."""

    def yields(self, request: Request, child: Request) -> None:
        """The callback of a request yielded another one, which goes to the scheduler next."""

    def yielded(self, child: Request) -> None:
        """It has gone there, unless a middleware refused it on the way."""

    def raised(self, request: Request, failure: Failure) -> None:
        """Its callback or errback raised."""

    def calling(self, request: Request, task: asyncio.Task[Any] | Deferred[Any] | None) -> None:
        """Its callback or errback is called in this task, or stands behind this Deferred, which can be cancelled."""

    def given_up(self, request: Request) -> bool:
        """Whether it was in progress for too long and was given up."""

    def through(self, request: Request) -> None:
        """Nothing of it is left in Scrapy."""
