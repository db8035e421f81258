"""`start()` of a spider, once per round, whatever the number of workers and restarts.

One worker holds the start lease and runs it; the others wait until it is done, and take it over should that worker die. Its
requests and items are added under their place in the round, so that one who begins again adds nothing twice.
"""

from __future__ import annotations

import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol

from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError

from gossamer.courier import RequestAdder
from gossamer.courier.outage import patiently, pause
from gossamer.courier.rounds import bury_start, give_back, start_key
from gossamer.errors import FrontierUnavailable
from gossamer.model import Request as Asked
from gossamer.model import StartState, Token
from gossamer.model.reasons import UNSERIALIZABLE

logger = logging.getLogger(__name__)

BACKLOG = 1000
"""So many requests of a start wait at most; then `start()` itself waits."""
POLL = 1.0
ITEMS_POLL = 0.1

_place: ContextVar[tuple[Any, int] | None] = ContextVar("gossamer_start_place", default=None)
"""The start and the place in it of the item that is in the pipelines. They may make another item of it; this goes with it."""


class StartScheduler(Protocol):
    """What a start needs of its scheduler."""

    group: str

    @property
    def token(self) -> Token: ...

    @property
    def closing(self) -> bool:
        """Whether this worker is about to end, or has begun to: it takes nothing more."""

    async def ask(self, verb: str, /, *args: Any, **kwargs: Any) -> Any: ...

    async def sleep(self, seconds: float) -> None: ...

    async def claims(self, number: int, state: StartState) -> bool:
        """Whether this worker may take part in the round of that number; if not, it ends."""

    def end(self, reason: str) -> None:
        """Close the spider."""

    def start_again(self) -> None:
        """The start was not run to its end under its lease: look whether it has to be run once more."""

    def carry(self, item: bytes, key: str) -> Asked:
        """A request that brings an item into the stream."""

    def awaits(self, what: str) -> None:
        """What another worker does that this one waits for; "": nothing."""

    async def below(self, request_adder: RequestAdder, count: int) -> None:
        """Wait until no more than `count` requests wait to be added."""


class SpiderStart:
    """Wraps the engine's iterator over `start()`."""

    def __init__(self, asking: StartScheduler, request_adder: RequestAdder) -> None:
        self._asking, self._request_adder = asking, request_adder
        self._places: dict[int, tuple[Request, int]] = {}
        self._items: set[int] = set()
        self._round = 0
        self.granted = False
        self._taking = False
        """The start lease was asked for, and may be this worker's, whatever has become of the answer."""
        self.over = False
        """Nothing of it runs here any more."""
        self.through = False
        """It has run in this round, here or elsewhere."""

    def place_of(self, request: Request) -> int | None:
        """The place of a request in the start that has just yielded it; None for any other request."""
        known = self._places.pop(id(request), None)
        return None if known is None else known[1]

    def put(self, asked: Asked, place: int, request: Request) -> None:
        self._request_adder.put(asked, self._key(place), request)

    def _key(self, place: int) -> str:
        return start_key(self._asking.group, self._round, place)

    def item(self, data: bytes | None) -> None:
        """An item without a page is through the pipelines; None: it was dropped, or is not for the stream."""
        place = self._claim()
        if data is not None:
            key = f"x{secrets.token_hex(8)}" if place is None else self._key(place)
            self._request_adder.put(self._asking.carry(data, key), key, None)
        self._items.discard(-1 if place is None else place)

    async def item_failed(self, reason: str, detail: str) -> None:
        """The pipelines failed on an item without a page, or it cannot be stored."""
        place = self._claim()
        key = f"x{secrets.token_hex(8)}" if place is None else self._key(place)
        await self._patiently("bury", self._asking.group, b"", reason=reason, key=f"start {key}", detail=detail)
        self._items.discard(-1 if place is None else place)

    def refused(self, request: Request, payload: bytes, detail: str) -> Coroutine[Any, Any, None]:
        """A request without a page cannot be stored: what is returned makes a dead letter of it, without a lane, since it is not
        all there."""
        place = self.place_of(request)
        if place is not None:
            self._items.add(place)  # the start is not over before
        return self._bury_request(place, payload, detail)

    async def _bury_request(self, place: int | None, payload: bytes, detail: str) -> None:
        key = f"x{secrets.token_hex(8)}" if place is None else self._key(place)
        await self._patiently(
            "bury", self._asking.group, payload, reason=UNSERIALIZABLE, key=f"start {key}", detail=detail
        )
        self._items.discard(-1 if place is None else place)

    def _claim(self) -> int | None:
        start, place = _place.get() or (None, -1)
        return place if start is self and place in self._items else None

    async def run(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What the engine iterates over instead."""
        self.over = self.through = False
        if not await self._allowed():
            self.over = self.through = True
            return
        place = 0
        try:
            async for output in start:
                if isinstance(output, Request):
                    self._places.clear()
                    self._places[id(output)] = (output, place)
                else:
                    self._items.add(place)
                    _place.set((self, place))
                place += 1
                yield output
                _place.set(None)
                await self._asking.below(self._request_adder, BACKLOG)
                if not self.granted:
                    self._given_away()
                    return
        except CloseSpider as close:
            # Not every Scrapy listens to it here.
            self._asking.end(close.reason or "cancelled")
            return
        except CancelledError:
            raise  # the worker ends; without asyncio that is an ordinary exception
        except Exception as error:
            # As in Scrapy, what it had yielded counts and the rest does not come; but nobody shall miss it.
            await self._bury(error)
            raise
        await self._end()

    async def _end(self) -> None:
        while self._items:
            await self._asking.sleep(ITEMS_POLL)
        await self._asking.below(self._request_adder, 0)
        told = self.granted and await self._patiently("started", self._asking.group, self._asking.token)
        self.granted = False
        if told:
            self.over = self.through = True
        else:
            self._given_away()

    def _given_away(self) -> None:
        """Another worker may run it now; or none does, since the server has forgotten who did."""
        self.over = True
        self._asking.start_again()

    async def _allowed(self) -> bool:
        """True: run it. False: it has run in this round, or is none of this worker's business."""
        said = False
        try:
            while (state := await self._take()) is not None:
                if not await self._claims(state):
                    return False
                if state is StartState.GRANTED:
                    self.granted, self._taking = True, False
                    return True
                if state is StartState.DONE:
                    return False
                if not said:
                    logger.info("Another worker runs start() of %s; waiting for it.", self._asking.group)
                    said = True
                    self._asking.awaits(f"start() of {self._asking.group}")
                await self._asking.sleep(POLL)
            return False
        finally:
            self._asking.awaits("")

    async def _take(self) -> StartState | None:
        """What the frontier says to this worker's wish to run it; None: the worker ends, and has not got it."""
        while not self._asking.closing:
            self._taking = True
            try:
                state, self._round = await self._asking.ask("start", self._asking.group, self._asking.token)
            except FrontierUnavailable:
                await self._asking.sleep(pause())
                continue
            if state is StartState.GRANTED and self._asking.closing:
                await self.give_back()
                return None
            self._taking = state is StartState.GRANTED
            granted: StartState = state
            return granted
        return None

    async def _claims(self, state: StartState) -> bool:
        while True:
            try:
                return await self._asking.claims(self._round, state)
            except FrontierUnavailable:
                await self._asking.sleep(pause())

    async def _patiently(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return await patiently(self._asking.ask, self._asking.sleep, verb, *args, **kwargs)

    async def renew(self) -> None:
        """Keep the right; to be called now and then."""
        if self.granted:
            try:
                self.granted = await self._asking.ask("renew_start", self._asking.group, self._asking.token)
            except FrontierUnavailable:
                return
            if not self.granted:
                logger.warning(
                    "The start lease of %s is gone; start() is run again unless another worker does.",
                    self._asking.group,
                )

    async def _bury(self, error: Exception) -> None:
        await bury_start(self._asking.ask, self._asking.sleep, self._asking.group, self._round, error)
        await self._end()

    async def give_back(self) -> None:
        """The worker ends before its start did: the next one runs it at once."""
        if self.granted or self._taking:
            self.granted = self._taking = False
            await give_back(self._asking.ask, "release_start", self._asking.group, self._asking.token)


async def starts(engine: Any, spider: Any) -> AsyncIterator[Any]:
    """What `start()` yields, from its beginning."""
    process = engine.scraper.spidermw.process_start
    # Scrapy 2.13 wants the spider; newer ones take it for the sake of old callers, and warn.
    wanted = any(each.default is each.empty for each in inspect.signature(process).parameters.values())
    fresh: AsyncIterator[Any] = await (process(spider) if wanted else process())
    return fresh


async def feed(engine: Any, output: Any) -> None:
    """What the engine does with one output of a start."""
    if isinstance(output, Request):
        engine.crawl(output)
    elif hasattr(engine.scraper, "start_itemproc_async"):
        await engine.scraper.start_itemproc_async(output, response=None)
    else:
        await maybe_deferred_to_future(engine.scraper.start_itemproc(output, response=None))
