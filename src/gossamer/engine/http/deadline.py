"""Waiting with a limit, in a way that never loses a cancellation.

Not `asyncio.wait_for`: before Python 3.12 it swallows a cancellation that comes together with what it waits for, and the task goes
on for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

LEFT = 2.0
"""Seconds for abandoned work to end."""
STUCK = 30.0
"""Seconds that cancelled work may take to end."""


async def wait_for_event(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event happens within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def run_until_event(event: asyncio.Event, work: Coroutine[Any, Any, None], seconds: float | None = None) -> bool:
    """Whether the work is done before the event happens, within `seconds`; otherwise the work is cancelled. Raises what it raises."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        waiting.cancel()
        await cancel_tasks([working], LEFT)


async def cancel_tasks(tasks: Collection[asyncio.Future[Any]], seconds: float = STUCK) -> None:
    """Cancel tasks and return when they have ended, after `seconds` at the latest; log those that do not end."""
    ending = [task for task in tasks if not task.done()]
    for task in ending:
        task.cancel()
    if ending:
        done, left = await asyncio.wait(ending, timeout=seconds)
        for task in done:
            if not task.cancelled():
                task.exception()  # Otherwise asyncio logs that it was never retrieved.
        for task in left:
            logger.warning("A task does not end and is left behind: %s", task)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a new event loop, of uvloop if that is installed. As `asyncio.run`, but does not wait for tasks and threads that
    were left behind."""
    loop = _loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(work)
    finally:
        try:
            loop.run_until_complete(cancel_tasks(asyncio.all_tasks(loop), LEFT))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
