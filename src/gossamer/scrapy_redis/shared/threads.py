"""Blocking calls beside Scrapy's event loop, whichever it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from twisted.internet.threads import deferToThread

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function returns, called in a thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await deferToThread(function, *args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
