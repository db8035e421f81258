"""Signals without a receiver cost nothing.

Scrapy sends some ten signals for every page and two for every link, and looks for receivers each time in a general way.
"""

from __future__ import annotations

from typing import Any

from pydispatch.dispatcher import Any as AnySignal
from pydispatch.dispatcher import connections


def has_receivers(sender: Any, signal: Any) -> bool:
    """Whether a signal of this sender has receivers: its own, or those for any sender or any signal."""
    for key in (id(sender), id(AnySignal)):
        table = connections.get(key)
        if table and (table.get(signal) or table.get(AnySignal)):
            return True
    return False


def skip_without_receivers(signals: Any) -> None:
    """Make a signal manager look first whether anybody listens."""
    send, send_async = signals.send_catch_log, getattr(signals, "send_catch_log_async", None)
    default = signals.sender

    def send_catch_log(signal: Any, **named: Any) -> Any:
        if not has_receivers(named.get("sender", default), signal):
            return []
        return send(signal, **named)

    signals.send_catch_log = send_catch_log
    if send_async is not None:

        async def send_catch_log_async(signal: Any, **named: Any) -> Any:
            if not has_receivers(named.get("sender", default), signal):
                return []
            return await send_async(signal, **named)

        signals.send_catch_log_async = send_catch_log_async
