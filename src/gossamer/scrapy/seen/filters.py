"""The memories of seen filters for plain Scrapy as they lie on a server: listed, cleared, copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gossamer.errors import PolicyError
from gossamer.frontier.connection import Connection, connect
from gossamer.frontier.seen import catalog
from gossamer.frontier.seen.memory import ValkeyMemory
from gossamer.frontier.valkey import check_data
from gossamer.model import SeenKind, SeenPolicy
from gossamer.scrapy.seen.memory import memory_name
from gossamer.settings import Settings

UNNAMED = "spider::"
_NAME = re.compile(r"(.+):([^:]+):(exact|rolling|hits|bloom-\d+-[\d.e-]+)")
LONG = 10 * 365 * 86400.0
"""The window of a memory that is only counted or cleared, where no setting says it."""


class FilterMemory(NamedTuple):
    """`crawl` is "" where spider and crawl are known by a digest alone, which then is the `spider`."""

    name: str
    crawl: str
    spider: str
    kind: str

    @property
    def policy(self) -> SeenPolicy:
        word, _, size = self.kind.partition("-")
        kind = SeenKind(word)
        if kind is SeenKind.BLOOM:
            capacity, _, error = size.partition("-")
            return SeenPolicy(kind, capacity=int(capacity), error=float(error))
        return SeenPolicy(kind, window=LONG if kind in (SeenKind.ROLLING, SeenKind.HITS) else 0.0)


class FilterInfo(NamedTuple):
    """How much one memory knows, and its bytes from a sample."""

    crawl: str
    spider: str
    kind: str
    known: int
    bytes: int


def look(settings: Settings) -> Connection:
    """A connection to where memories may be; UnknownCrawl if an embedded server would have to be made for it."""
    check_data(settings, settings["GOSSAMER_CRAWL"])
    return connect(settings)


def found(connection: Connection) -> Iterator[FilterMemory]:
    """All memories of seen filters on a server."""
    for name in catalog.names(connection):
        if match := _NAME.fullmatch(name):
            crawl, spider, kind = match.groups()
            yield FilterMemory(name, "" if name.startswith(UNNAMED) else crawl, spider, kind)


def of_spider(connection: Connection, settings: Settings, spider: str) -> list[FilterMemory]:
    """The memories of one spider in the crawl of the settings; PolicyError if it has none."""
    crawl = settings["GOSSAMER_CRAWL"]
    there = list(found(connection))
    mine = [each for each in there if each.name == memory_name(crawl, spider, each.policy)]
    if not mine:
        others = ", ".join(sorted({each.spider for each in there if each.crawl == crawl})) or "nobody"
        raise PolicyError(
            f"No seen filter of spider {spider!r} has a memory in crawl {crawl!r}; there are memories of {others}. "
            "`gossamer seen filters` lists all."
        )
    return mine


def listed(settings: Settings) -> list[FilterInfo]:
    """Every memory with what it holds."""
    with look(settings) as connection:
        every = list(found(connection))
    rows = []
    for each in every:
        with ValkeyMemory.open(each.name, each.policy, settings) as memory:
            rows.append(FilterInfo(each.crawl, each.spider, each.kind, memory.count(), memory.bytes_used()))
    return rows


def clear(settings: Settings, each: FilterMemory) -> int:
    """Forget all that one memory knows; how much that was."""
    with ValkeyMemory.open(each.name, each.policy, settings) as memory:
        count = memory.count()
        memory.clear()
        return count


def copy(settings: Settings, spider: str, target: Settings, name: str) -> list[FilterMemory]:
    """Copy the memories of a spider into another crawl, another server or another name; those that were copied."""
    with look(settings) as source, connect(target) as other:
        mine = of_spider(source, settings, spider)
        for each in mine:
            catalog.copy(source, each.name, other, memory_name(target["GOSSAMER_CRAWL"], name, each.policy))
        return mine
