"""Moving the clock of a crawl's server, so that tests need not wait. The time of the crawl itself never goes back."""

from __future__ import annotations

from gossamer.frontier.call import function_call
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier


def advance(frontier: ValkeyFrontier, seconds: float, *, tasks: tuple[str, ...] = ()) -> None:
    """Let `seconds` pass on every partition, and in the books of these task keys; below 0 the server's clock goes back."""
    milliseconds = round(seconds * 1000)
    asks = [
        function_call("clock", keys.base(frontier.crawl, p), {"by_ms": milliseconds, "book": False})
        for p in range(frontier.partitions)
    ]
    asks += [
        function_call("clock", keys.task_keys(source)[1], {"by_ms": milliseconds, "book": True}) for source in tasks
    ]
    frontier.ask(asks)
