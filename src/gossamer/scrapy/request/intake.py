"""Requests of a spider on their way to the frontier: with the page that yielded them, with the start, or alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from gossamer.courier import Courier, OmittedRequests
from gossamer.errors import EncodingError, InvalidRequest, PayloadTooLarge
from gossamer.model import Request as FrontierRequest
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.lanes import META
from gossamer.scrapy.page.page import LeasedPage
from gossamer.scrapy.page.pages import LeasedPages
from gossamer.scrapy.process.start import SpiderStart
from gossamer.scrapy.request.codec import RequestCodec
from gossamer.scrapy.request.next_try import NextTry
from gossamer.scrapy.request.shared_objects import SharedObjects
from gossamer.scrapy.seen.duplicates import DuplicateLog

logger = logging.getLogger(__name__)


class RequestIntake:
    """Takes the requests that Scrapy's engine hands over. `count` counts in the spider's stats."""

    def __init__(
        self,
        spider: Spider,
        worker_config: WorkerConfig,
        courier: Courier,
        pages: LeasedPages,
        start: SpiderStart,
        request_codec: RequestCodec,
        duplicates: DuplicateLog,
        count: Callable[[str], None],
        shared: SharedObjects | None = None,
    ) -> None:
        self._spider, self._config, self._courier, self._pages = spider, worker_config, courier, pages
        self._start, self._codec, self._duplicates, self._count = start, request_codec, duplicates, count
        self._shared, self._next_try = shared, NextTry(request_codec.can_store)

    def put(self, request: Request) -> bool:
        """False for a request that is known, or cannot be stored."""
        page = self._pages.claim(request)
        try:
            if page is not None and page.replaced and META not in request.meta:
                lane = page.lease.lane
            else:
                lane = self._codec.lane_of(request)
            number = self._codec.number(request)
            if not request.dont_filter and page is not None and self._known(page, request, lane, number):
                self._duplicates.filtered(request, self._spider)
                return False
            encoded = self._encode(request, lane, number, page)
        except InvalidRequest as error:
            self._refuse(request, error, page)
            return False
        if self._shared is not None:
            self._shared.look(request, page)
        if page is not None:
            page.children.append(request)
            page.asked.append(encoded)
            if not request.dont_filter:
                page.fingerprints.add((lane, number))
        elif (place := self._start.place_of(request)) is not None:
            self._start.put(encoded, place, request)
        else:
            self._courier.add(encoded, request)
        return True

    def is_known(self, request: Request, response: Response) -> bool:
        """Whether a link of a page is surely known; it need not be queued then."""
        page = self._pages.of(response)
        if page is None:
            return False
        try:
            known = self._withheld(page, request, self._codec.lane_of(request), self._codec.number(request))
        except InvalidRequest:
            return False  # it is refused, and logged, where it is queued
        if known:
            self._duplicates.filtered(request, self._spider)
        return known

    def encode(self, request: Request) -> FrontierRequest:
        """A request without a page."""
        return self._encode(request, self._codec.lane_of(request), self._codec.number(request))

    def _encode(self, request: Request, lane: str, number: int, page: LeasedPage | None = None) -> FrontierRequest:
        slot = page.slot if page is not None else None
        try:
            return self._codec.encode(request, lane, number, slot)
        except PayloadTooLarge:
            raise
        except EncodingError:
            if page is None or not page.replaced:
                raise
        self._next_try.leave_out(request, page.request, self._codec.decode(page.lease).meta)
        return self._codec.encode(request, lane, number, slot)

    def _refuse(self, request: Request, error: InvalidRequest, page: LeasedPage | None = None) -> None:
        """It cannot be stored: its page is not done then, and without a page it is a dead letter itself."""
        self._count("scheduler/unserializable")
        logger.error("Request %s was not queued: %s", request, error)
        if page is not None:
            page.misses(f"{request}: {error}")
            return
        self._start.refused(request, self._codec.address(request), str(error))

    def _known(self, page: LeasedPage, request: Request, lane: str, number: int) -> bool:
        if (lane, number) in page.fingerprints:
            return lane not in self._config.forgetful
        return self._config.remembers and self._withheld(page, request, lane, number)

    def _withheld(self, page: LeasedPage, request: Request, lane: str, number: int) -> bool:
        """Whether a request need not be sent, since the frontier knows it; the page keeps it, should that turn out to be wrong."""
        known = self._courier.known
        if not known.has(lane, number):
            return False
        if page.withheld is None:
            page.withheld = OmittedRequests(known.edition, partial(self._encode_all, page, page.left_out))
        page.left_out += request, lane, number
        return True

    def _encode_all(self, page: LeasedPage, left_out: Sequence[Any]) -> list[FrontierRequest]:
        requests = []
        for request, lane, number in zip(left_out[::3], left_out[1::3], left_out[2::3], strict=True):
            try:
                requests.append(self._encode(request, lane, number, page))
            except InvalidRequest as error:
                self._refuse(request, error)
        return requests
