"""Verbs of the frontier and other waits, awaited on Scrapy's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gossamer.courier import RequestAdder, SharedTransport
from gossamer.courier.transport import Verb
from gossamer.errors import FrontierUnavailable
from gossamer.scrapy.process.reactor import Promise

P = ParamSpec("P")
T = TypeVar("T")


class FrontierCalls:
    """Calls over one link. Once a worker ends, `patience` is for how many seconds to wait for any of them."""

    def __init__(self, link: SharedTransport) -> None:
        self._link = link
        self.patience: Callable[[], float] | None = None

    async def ask(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a verb; FrontierUnavailable where it is not answered in the time that is left."""
        promise = Promise()
        self._link.call(verb, promise.keep, *args, **kwargs)
        late = FrontierUnavailable(
            f"The frontier did not answer {verb.__name__} in the time that is left for the worker's end."
        )
        result: T = await self._in_time(promise, late)
        return result

    async def until(self, begin: Callable[[Callable[[], None]], object]) -> None:
        """Wait until what `begin` was given is called."""
        promise = Promise()
        begin(promise.keep)
        await self._in_time(promise, None)

    async def _in_time(self, promise: Promise, late: BaseException | None) -> Any:
        if self.patience is None:
            return await promise
        timer = self._link.later(self.patience(), lambda: promise.keep(None, late))
        try:
            return await promise
        finally:
            timer.cancel()

    async def sleep(self, seconds: float) -> None:
        promise = Promise()
        self._link.later(seconds, promise.keep)
        await promise

    async def below(self, request_adder: RequestAdder, count: int) -> None:
        """Wait until no more than `count` requests wait to be added."""
        if len(request_adder) > count:
            promise = Promise()
            request_adder.below(count, promise.keep)
            await promise
