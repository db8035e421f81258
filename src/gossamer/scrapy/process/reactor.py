"""The event loop that Scrapy runs on, seen the same way whatever its version and reactor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from gossamer.courier import AsyncTransport, SharedTransport, ThreadTransport
from gossamer.model import HostPolicy
from gossamer.settings import Settings

try:
    from scrapy.utils.asyncio import is_asyncio_available as on_asyncio
except ImportError:  # Scrapy 2.13
    from scrapy.utils.reactor import is_asyncio_reactor_installed as on_asyncio

__all__ = ["Promise", "close_spider", "in_thread", "later", "link_for", "on_asyncio"]

T = TypeVar("T")


async def in_thread(do: Callable[[], T]) -> T:
    """What this returns, done beside the event loop."""
    if on_asyncio():
        return await asyncio.to_thread(do)
    done: T = await deferToThread(do)
    return done


def later(seconds: float, do: Callable[[], object]) -> None:
    """Call it then, on Scrapy's thread."""
    if on_asyncio():
        asyncio.get_running_loop().call_later(seconds, do)
    else:
        from twisted.internet import reactor

        clock: Any = reactor
        clock.callLater(seconds, do)


def close_spider(engine: Any, reason: str) -> None:
    """Let the engine close its spider, unless it has none any more."""
    if engine.spider is None:
        return
    if hasattr(engine, "close_spider_async"):
        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(engine.spider, reason)


def link_for(settings: Settings, host: HostPolicy) -> SharedTransport:
    """A link that calls back on Scrapy's thread: on the asyncio loop where there is one, else through the reactor."""
    if on_asyncio():
        return AsyncTransport(settings, host)
    from twisted.internet import reactor

    clock: Any = reactor

    def later(seconds: float, do: Callable[[], None]) -> Any:
        return _DelayedCall(clock.callLater(seconds, do))

    return ThreadTransport(settings, clock.callFromThread, later, host)


class _DelayedCall:
    """A delayed call that may be cancelled twice, or too late."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def cancel(self) -> None:
        if self._call.active():
            self._call.cancel()


class Promise:
    """Something that is awaited once and kept by a call, on any reactor."""

    def __init__(self) -> None:
        self._deferred: Deferred[Any] = Deferred()

    def keep(self, answer: Any = None, error: BaseException | None = None) -> None:
        # The one who waited may have been cancelled.
        if self._deferred.called:
            return
        if error is None:
            self._deferred.callback(answer)
        else:
            self._deferred.errback(error)

    def __await__(self) -> Any:
        return maybe_deferred_to_future(self._deferred).__await__()
