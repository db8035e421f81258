"""A call to a database in a thread that nothing has to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """The call's result. Not `asyncio.to_thread`: the end of the loop and of the process waits for an executor's threads, however
    long the database takes. A cancelled caller leaves the call to itself."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[T] = loop.create_future()

    def end(answer: T | None, error: BaseException | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result(answer)  # type: ignore[arg-type]
        else:
            answered.set_exception(error)

    def run() -> None:
        answer: T | None = None
        error: BaseException | None = None
        try:
            answer = call(*arguments)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # The loop has gone, and with it whoever waited.
            loop.call_soon_threadsafe(end, answer, error)

    threading.Thread(target=run, name="gossamer-store", daemon=True).start()
    return await answered
