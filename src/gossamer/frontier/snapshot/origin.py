"""Whose state a crawl holds: its own, and that of crawls whose exports were restored into it. So that none is restored into it twice."""

from __future__ import annotations

from secrets import token_hex

from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier

_OWN, _FROM = "its id", "from "


def origins(frontier: ValkeyFrontier) -> dict[str, str]:
    """By id of a crawl, the snapshot that brought its state; "" for the crawl's own id."""
    key = keys.restored(frontier.crawl)
    flat = frontier.connection.execute("HGETALL", key, key=key)
    pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
    told = {field.decode(): value.decode() for field, value in pairs}
    found = {field.removeprefix(_FROM): value for field, value in told.items() if field.startswith(_FROM)}
    return {**found, told[_OWN]: ""} if _OWN in told else found


def origin_ids(frontier: ValkeyFrontier) -> list[str]:
    """The ids of all whose state the crawl holds. With the first export it gets one of its own."""
    key = keys.restored(frontier.crawl)
    frontier.connection.execute("HSETNX", key, _OWN, token_hex(8), key=key)
    return sorted(origins(frontier))


def add_origins(frontier: ValkeyFrontier, crawls: list[str], snapshot: str) -> None:
    """Record that the state of these crawls comes with this snapshot."""
    key = keys.restored(frontier.crawl)
    for crawl in crawls:
        frontier.connection.execute("HSETNX", key, _FROM + crawl, snapshot, key=key)
