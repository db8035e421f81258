"""How a courier calls the frontier without ever waiting: a call now, its answer later, on the engine's own thread.

Two ways with one meaning: `AsyncTransport` for engines on an asyncio loop, `ThreadTransport` for any other event loop, with a thread
that does the waiting.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.model import HostPolicy
from gossamer.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
Verb = Callable[Concatenate[Frontier, P], T]
"""A verb of the frontier, such as `Frontier.counts`."""
Done = Callable[[T | None, BaseException | None], None]
"""Called with the result, or with the error."""


class Ask(Protocol):
    """Calls a verb of the frontier: `ask(Frontier.counts, group)`."""

    def __call__(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class Timer(Protocol):
    def cancel(self) -> object: ...


class Transport(Protocol):
    """One connection to a crawl. Everything given here is called on the engine's thread, never inside `call` itself."""

    def open(self, done: Done[Any]) -> None:
        """Connect. Call nothing else before the answer."""

    def call(self, verb: Verb[P, T], done: Done[T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a verb of the frontier: `call(Frontier.counts, done, group)`."""

    def later(self, seconds: float, do: Callable[[], None]) -> Timer: ...

    def now(self) -> float:
        """Seconds of a clock that never goes back."""

    def close(self) -> None:
        """Close the connection. Answers still to come are dropped, and so are later calls."""


class SharedTransport(Transport, Protocol):
    """A link that other threads use too."""

    @property
    def over(self) -> bool:
        """Whether it was closed. Safe from any thread."""

    def post(self, do: Callable[[], None]) -> None:
        """Call this on the engine's thread. Safe from any thread; does nothing after `close`."""

    def beside(self) -> ValkeyFrontier:
        """A connection of its own to the same crawl, for a thread that waits."""


class AsyncTransport:
    """On the running asyncio loop."""

    def __init__(self, settings: Settings, host: HostPolicy | None = None) -> None:
        self._settings, self._host = settings, host
        self._loop = asyncio.get_running_loop()
        self._frontier: AsyncValkeyFrontier | None = None
        self._left: AsyncValkeyFrontier | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def open(self, done: Done[Any]) -> None:
        self._spawn(self._open, done)

    async def _open(self) -> AsyncValkeyFrontier:
        frontier = await AsyncValkeyFrontier.open(self._settings, host=self._host)
        if self._closed:
            await frontier.close()
        else:
            self._frontier = frontier
        return frontier

    def call(self, verb: Verb[P, T], done: Done[T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self._closed:
            assert self._frontier is not None, "not open yet"
            self._spawn(self._frontier.call, done, verb, *args, **kwargs)

    def _spawn(self, verb: Callable[..., Any], done: Done[Any], /, *args: Any, **kwargs: Any) -> None:
        task = self._loop.create_task(self._run(verb, done, args, kwargs))
        # The loop itself holds tasks only weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, verb: Callable[..., Any], done: Done[Any], args: Any, kwargs: Any) -> None:
        try:
            answer = await verb(*args, **kwargs)
        except Exception as error:
            if not self._closed:
                done(None, error)
        else:
            if not self._closed:
                done(answer, None)

    def later(self, seconds: float, do: Callable[[], None]) -> Timer:
        return self._loop.call_later(seconds, do)

    def now(self) -> float:
        return time.monotonic()

    @property
    def over(self) -> bool:
        return self._closed or self._loop.is_closed()

    def post(self, do: Callable[[], None]) -> None:
        # A closed loop raises.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: None if self._closed else do())

    def beside(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(self._settings)

    def close(self) -> None:
        self._closed = True
        if self._frontier is not None:
            self._left, self._frontier = self._frontier, None
            task = self._loop.create_task(self._left.close())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def closed(self) -> None:
        """Return when nothing of this link runs any more."""
        while others := [task for task in self._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(others)
        if self._left is not None:
            # A call that was under way has brought its connection back since.
            await self._left.close()


class ThreadTransport:
    """With a thread of its own. `post` hands a function to the engine's thread, `later` calls one there after a while."""

    def __init__(
        self,
        settings: Settings,
        post: Callable[[Callable[[], None]], object],
        later: Callable[[float, Callable[[], None]], Timer],
        host: HostPolicy | None = None,
    ) -> None:
        self._settings, self._host, self._post, self.later = settings, host, post, later
        self._jobs: queue.SimpleQueue[tuple[str, Done[Any], tuple[Any, ...], dict[str, Any]] | None] = (
            queue.SimpleQueue()
        )
        self._closed = False
        self._thread: threading.Thread | None = None

    def open(self, done: Done[Any]) -> None:
        # A daemon: a server that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, args=(done,), name="gossamer-courier", daemon=True)
        self._thread.start()

    def call(self, verb: Verb[P, T], done: Done[T], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._jobs.put((verb.__name__, done, args, kwargs))

    def _work(self, opened: Done[Any]) -> None:
        try:
            frontier = ValkeyFrontier.open(self._settings, host=self._host)
        except Exception as error:
            self._tell(opened, None, error)
            return
        with frontier:
            self._tell(opened, frontier, None)
            while (job := self._jobs.get()) is not None:
                verb, done, args, kwargs = job
                if self._closed:
                    continue
                try:
                    answer = getattr(frontier, verb)(*args, **kwargs)
                except Exception as error:
                    self._tell(done, None, error)
                else:
                    self._tell(done, answer, None)

    def _tell(self, done: Done[Any], answer: Any, error: BaseException | None) -> None:
        if not self._closed:
            self._post(lambda: None if self._closed else done(answer, error))

    def now(self) -> float:
        return time.monotonic()

    @property
    def over(self) -> bool:
        return self._closed

    def post(self, do: Callable[[], None]) -> None:
        self._post(lambda: None if self._closed else do())

    def beside(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(self._settings)

    def close(self) -> None:
        self._closed = True
        self._jobs.put(None)
