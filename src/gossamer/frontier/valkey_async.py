"""The frontier on Valkey or Redis, for the tasks of one event loop."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Self, TypeVar

from gossamer.frontier.call import Verb
from gossamer.frontier.client import FunctionCalls
from gossamer.frontier.connection import AsyncConnection, connect_async
from gossamer.frontier.contract import Frontier
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import DERIVED
from gossamer.frontier.verbs.crawl import CrawlVerbs, checked_schema
from gossamer.model import HostPolicy
from gossamer.settings import Settings, load

P = ParamSpec("P")
T = TypeVar("T")


class AsyncValkeyFrontier:
    """One crawl on one server or cluster: `await frontier.call(Frontier.counts, group)`. Made by `open`; closed by `close` or as a
    context manager."""

    def __init__(
        self, connection: AsyncConnection, verbs: CrawlVerbs, outage: float, library: str | None = None
    ) -> None:
        self.connection, self.verbs = connection, verbs
        self.calls = FunctionCalls(connection.commands, outage, library)
        self.crawl, self.partitions = verbs.crawl, verbs.partitions

    @classmethod
    async def open(
        cls, settings: Settings | None = None, *, host: HostPolicy | None = None, library: str | None = None
    ) -> Self:
        """As `ValkeyFrontier.open`."""
        settings = settings or load()
        crawl, outage = keys.crawl_name(settings["GOSSAMER_CRAWL"]), settings["GOSSAMER_OUTAGE_SECONDS"]
        connection = await connect_async(settings)
        frontier = cls(connection, CrawlVerbs(crawl, settings["GOSSAMER_PARTITIONS"], settings), outage, library)
        try:
            await connection.drive(frontier.calls.load_library())
            number, partitions = await frontier.run(frontier.verbs.opening(host or HostPolicy(), secrets.token_hex(8)))
            checked_schema(crawl, number)
        except BaseException:
            await frontier.close()
            raise
        return cls(connection, CrawlVerbs(crawl, partitions, settings), outage, library)

    async def call(self, verb: Callable[Concatenate[Frontier, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a verb of the contract. Not for those that take several steps, `drop_lane` and `drop_group`, nor for `read_items`."""
        part, derived = DERIVED[verb.__name__]
        result: T = await self.connection.drive(self.calls.run(derived(self.verbs.part(part), *args, **kwargs)))
        return result

    async def run(self, verb: Verb[T]) -> T:
        return await self.connection.drive(self.calls.run(verb))

    async def close(self) -> None:
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
