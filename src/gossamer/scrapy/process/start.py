"""`start()` of a spider, once per round, whatever the number of workers and restarts.

One worker holds the start lease and runs it; the others wait until it is done, and take it over should that worker die. Its
requests and items are added under their place in the round, so that one who begins again adds nothing twice.

Where workers may have different arguments, those with others than the start ran with run their own after it, without a lease: no
other worker could. Requests and items are then added under what they are: what several starts yield alike is there once.
"""

from __future__ import annotations

import inspect
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError

from gossamer.courier import RequestAdder
from gossamer.courier.outage import patiently, pause
from gossamer.courier.rounds import bury_start, give_back, start_key
from gossamer.courier.transport import Verb
from gossamer.errors import FrontierUnavailable, GossamerError
from gossamer.frontier.contract import Frontier
from gossamer.model import Request as FrontierRequest
from gossamer.model import StartState
from gossamer.model.reply import UNSERIALIZABLE
from gossamer.model.request import AddKey

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from gossamer.scrapy.scheduler import FleetScheduler

logger = logging.getLogger(__name__)

BACKLOG = 1000
"""The most requests of a start that wait; with more, `start()` itself waits."""
POLL = 1.0
ITEMS_POLL = 0.1

_place: ContextVar[tuple[Any, int] | None] = ContextVar("gossamer_start_place", default=None)
"""The start and the place in it of the item that is in the pipelines. They may make another item of it; this goes with it."""


class SpiderStart:
    """Wraps the engine's iterator over `start()`."""

    def __init__(self, scheduler: FleetScheduler, request_adder: RequestAdder) -> None:
        self._scheduler, self._group, self._calls = scheduler, scheduler.group, scheduler.calls
        self._request_adder = request_adder
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
        self._restarting = False
        self._own = False
        """It runs for this worker's arguments alone, without the lease."""
        self._own_round = -1
        """The last round in which it did."""
        self._own_version: str | None = None
        """The version of the configuration for which the number of the round was last asked."""
        self._alike: Counter[str] = Counter()
        """How many requests and items this start has yielded, by their digests."""
        self.carrying = self.burying = 0
        """Items and dead letters without a page that are on their way."""
        self._when_buried: Callable[[], None] | None = None

    def place_of(self, request: Request) -> int | None:
        """The place of a request in the start that has just yielded it; None for any other request."""
        known = self._places.pop(id(request), None)
        return None if known is None else known[1]

    def put(self, asked: FrontierRequest, place: int, request: Request) -> None:
        self._request_adder.put(asked, self._key(place, repr(asked).encode()), request)

    def _key(self, place: int, content: bytes = b"") -> AddKey:
        config = self._scheduler.join
        if not config.each_starts:
            return start_key(self._group, self._round, place)
        if not content:
            return start_key(self._group, self._round, f"{_digest(config.arguments.encode())}:{place}")
        digest = _digest(content)
        self._alike[digest] += 1
        return start_key(self._group, self._round, f"{digest}:{self._alike[digest]}")

    def item(self, data: bytes | None) -> None:
        """An item without a page has passed the pipelines; None: it was dropped, or is not for the stream."""
        place = self._claim()
        if data is not None:
            key = AddKey(f"x{secrets.token_hex(8)}") if place is None else self._key(place, data)
            self.carrying += 1
            self._request_adder.put(self._scheduler.request_codec.carry(data, key), key, None)
        self._items.discard(-1 if place is None else place)

    async def item_failed(self, reason: str, detail: str) -> None:
        """The pipelines failed on an item without a page, or it cannot be stored."""
        place = self._claim()
        await self._bury(place, b"", reason, detail)

    def refused(self, request: Request, payload: bytes, detail: str) -> None:
        """A request without a page cannot be stored: it becomes a dead letter, without a lane, since it is not all there."""
        place = self.place_of(request)
        if place is not None:
            self._items.add(place)  # the start is not over before
        self.burying += 1
        deferred_from_coro(self._bury_request(place, payload, detail))

    async def _bury_request(self, place: int | None, payload: bytes, detail: str) -> None:
        try:
            await self._bury(place, payload, UNSERIALIZABLE, detail)
        except GossamerError as error:
            self._scheduler.failed(error)
        finally:
            self.burying -= 1
            if self._when_buried is not None and not self.burying:
                self._when_buried()
            else:
                self._scheduler.wake()

    def when_buried(self, do: Callable[[], None]) -> None:
        """Call `do` when no dead letter is on its way any more."""
        self._when_buried = do

    async def _bury(self, place: int | None, payload: bytes, reason: str, detail: str) -> None:
        key = AddKey(f"start {f'x{secrets.token_hex(8)}' if place is None else self._key(place)}")
        await self._patiently(Frontier.bury, self._group, payload, reason=reason, key=key, detail=detail)
        self._items.discard(-1 if place is None else place)

    def _claim(self) -> int | None:
        start, place = _place.get() or (None, -1)
        return place if start is self and place in self._items else None

    async def run(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What the engine iterates over instead."""
        async for output in self._outputs(start):
            yield output
        self._scheduler.wake()

    async def _outputs(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        self.over = self.through = False
        if not await self._allowed():
            self.over = self.through = True
            return
        place = 0
        self._alike.clear()
        try:
            async for output in start:
                if self._own and await self._is_past():
                    self._given_away()
                    return
                if isinstance(output, Request):
                    self._places.clear()
                    self._places[id(output)] = (output, place)
                else:
                    self._items.add(place)
                    _place.set((self, place))
                place += 1
                yield output
                _place.set(None)
                await self._calls.below(self._request_adder, BACKLOG)
                if not (self.granted or self._own):
                    self._given_away()
                    return
        except CloseSpider as close:
            # Not every Scrapy listens to it here.
            self._scheduler.end(close.reason or "cancelled")
            return
        except CancelledError:
            raise  # the worker ends; without asyncio that is an ordinary exception
        except Exception as error:
            # As in Scrapy, what it had yielded counts and the rest does not come; the dead letter reports that.
            whose = self._scheduler.join.arguments if self._own else ""
            await bury_start(self._calls.ask, self._calls.sleep, self._group, self._round, error, whose)
            await self._end()
            raise
        await self._end()

    async def _end(self) -> None:
        while self._items:
            await self._calls.sleep(ITEMS_POLL)
        await self._calls.below(self._request_adder, 0)
        if self._own:
            self._own, self._own_round = False, self._round
            self.over = self.through = True
            return
        told = self.granted and await self._patiently(Frontier.started, self._group, self._scheduler.courier.token)
        self.granted = False
        if told:
            self.over = self.through = True
        else:
            self._given_away()

    def _given_away(self) -> None:
        """Another worker may run it now; or none does, since the server has forgotten who did; or it has to begin again in a new round."""
        self.over, self._own = True, False
        self.again()

    def again(self) -> None:
        """Look whether `start()` has to run once more, and run it."""
        if not self._scheduler.ending.begun and not self._restarting:
            self._restarting = True
            deferred_from_coro(self._run_again())

    async def _run_again(self) -> None:
        scheduler = self._scheduler
        try:
            while self.over and not scheduler.ending.begun:
                async for output in self.run(await starts(scheduler.engine, scheduler.spider)):
                    await feed(scheduler.engine, output)
                    if scheduler.ending.begun:
                        return
                if self.through:
                    return
        except GossamerError as error:
            scheduler.failed(error)
        except Exception:
            logger.exception("Error while reading start items and requests.")
        finally:
            self._restarting = False
            scheduler.membership.compared()

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
                    self._own, self._own_version = await self._is_owed(), None
                    return self._own
                if not said:
                    logger.info("Another worker runs start() of %s; waiting for it.", self._group)
                    said = True
                    self._scheduler.awaits(f"start() of {self._group}")
                await self._calls.sleep(POLL)
            return False
        finally:
            self._scheduler.awaits("")

    async def _take(self) -> StartState | None:
        """Ask for the lease of the start; None: the worker ends, and has not got it."""
        while not self._scheduler.closing:
            self._taking = True
            try:
                state, self._round = await self._calls.ask(Frontier.start, self._group, self._scheduler.courier.token)
            except FrontierUnavailable:
                await self._calls.sleep(pause())
                continue
            if state is StartState.GRANTED and self._scheduler.closing:
                await self.give_back()
                return None
            self._taking = state is StartState.GRANTED
            granted: StartState = state
            return granted
        return None

    async def _claims(self, state: StartState) -> bool:
        while True:
            try:
                return await self._scheduler.membership.claims(self._round, state)
            except FrontierUnavailable:
                await self._calls.sleep(pause())

    async def _is_owed(self) -> bool:
        """Whether it has to run for this worker's arguments, after one that ran with others."""
        if not self._scheduler.join.each_starts or self._own_round == self._round:
            return False
        while not self._scheduler.closing:
            try:
                return await self._scheduler.membership.owes_start(self._round)
            except FrontierUnavailable:
                await self._calls.sleep(pause())
        return False

    async def _is_past(self) -> bool:
        """Whether the round of a start without a lease is over and another has begun: what comes now is of that one, and so is all before it."""
        hints = self._scheduler.courier.hints
        version = hints.config_version if hints is not None else ""
        if version == self._own_version:
            return False
        self._own_version = version
        try:
            last = await self._patiently(Frontier.rounds, self._group, 1)
        except GossamerError:
            return False  # who adds what comes now hears of it
        return bool(last) and last[0].round != self._round

    def forget(self) -> None:
        """The frontier went back to an older state, which may lack what was added."""
        self._own_round = -1

    async def _patiently(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await patiently(self._calls.ask, self._calls.sleep, "", verb, *args, **kwargs)

    async def renew(self) -> None:
        """Keep the right; to be called now and then."""
        if self.granted:
            try:
                self.granted = await self._calls.ask(Frontier.renew_start, self._group, self._scheduler.courier.token)
            except FrontierUnavailable:
                return
            if not self.granted:
                logger.warning(
                    "The start lease of %s is gone; start() is run again unless another worker does.",
                    self._group,
                )

    async def give_back(self) -> None:
        """The worker ends before its start did: the next one runs it at once."""
        if self.granted or self._taking:
            self.granted = self._taking = False
            await give_back(self._calls.ask, Frontier.release_start, self._group, self._scheduler.courier.token)


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=12).hexdigest()


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
