"""What the server holds of a crawl, key by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gossamer.frontier.server import keys
from gossamer.testing.contract.crawl import Crawl


def memories(crawl: Crawl) -> list[str]:
    """The keys that memories lie in."""
    return [key for key, _ in stored(crawl) if re.search("}" + keys.SUFFIXES["seen"] + "[0-9]", key)]


READS: dict[str, Callable[[str], tuple[str | int | bytes, ...]]] = {
    "string": lambda key: ("GET", key),
    "hash": lambda key: ("HGETALL", key),
    "list": lambda key: ("LRANGE", key, 0, -1),
    "set": lambda key: ("SMEMBERS", key),
    "zset": lambda key: ("ZRANGE", key, 0, -1),
    "stream": lambda key: ("XRANGE", key, "-", "+"),
}


def stored(crawl: Crawl) -> Iterator[tuple[str, bytes]]:
    """Every key of the crawl, and all that is in it as one text."""
    for partition in range(crawl.frontier.partitions):
        base, cursor = keys.base(crawl.frontier.crawl, partition), b"0"
        while True:
            cursor, page = crawl.command(("SCAN", cursor, "MATCH", base + "*", "COUNT", 10_000), base)
            for key in (raw.decode() for raw in page):
                kind = crawl.command(("TYPE", key), key)
                content = crawl.command(READS[kind.decode() if isinstance(kind, bytes) else kind](key), key)
                yield key, repr(content).encode()
            if cursor == b"0":
                break
