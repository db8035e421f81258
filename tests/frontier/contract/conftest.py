"""The contract suite's `crawl`, on every place where a frontier may live, through both clients.

The two clients only carry the questions of one set of verbs to the server, so a promise depends on the server's kind, on the number of
partitions and, little, on the client. There are three kinds of place: Valkey (embedded, blocking), Redis (under a sentinel, async) and a
cluster (through one client or the other). A test runs on two of them, by its name, so that each kind has two thirds of every class of
tests. With CONTRACT_PLACES=all, as in `make chaos` and `make mutants`, each runs at all of the places.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gossamer.frontier.connection import AsyncConnection, Connection
from gossamer.frontier.connection.pool import Pool
from gossamer.frontier.connection.router import Conversation
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import DERIVED, ValkeyFrontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.settings import Settings, load
from gossamer.testing import clock
from gossamer.testing.contract import Crawl
from gossamer.testing.servers import Cluster, SentinelPair, Server

T = TypeVar("T")
PLACES = ("valkey", "embedded", "redis-async", "cluster", "cluster-async", "sentinel-async")


def places_of(test: str) -> tuple[str, ...]:
    """Where a test runs."""
    if os.environ.get("CONTRACT_PLACES") == "all":
        return PLACES
    number = zlib.crc32(test.encode())
    kinds = "embedded", "sentinel-async", ("cluster", "cluster-async")[number % 2]
    return tuple(kind for place, kind in enumerate(kinds) if place != number // 2 % 3)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place_of_crawl" in metafunc.fixturenames:
        metafunc.parametrize("place_of_crawl", places_of(metafunc.definition.originalname))


class OnLoop(ValkeyFrontier):
    """A blocking frontier over an async one, which runs every verb that it has (see below) to its end on a loop of its own. The others run
    over its connection."""

    def __init__(self, settings: Settings) -> None:
        loop = asyncio.new_event_loop()
        try:
            opened = loop.run_until_complete(AsyncValkeyFrontier.open(settings))
        except BaseException:
            loop.close()
            raise
        connection = Connection(opened.connection.commands, LoopPool(loop, opened.connection), loop.close)
        super().__init__(connection, opened.verbs, settings["GOSSAMER_OUTAGE_SECONDS"])
        self.loop, self.opened = loop, opened


def called(name: str) -> Callable[..., Any]:
    """A verb of the contract as the async client runs it."""

    def method(self: OnLoop, /, *args: Any, **named: Any) -> Any:
        return self.loop.run_until_complete(self.opened.call(getattr(Frontier, name), *args, **named))

    return method


for name in DERIVED:
    setattr(OnLoop, name, called(name))


class LoopPool(Pool):
    """Drives conversations by an async connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: AsyncConnection) -> None:
        self._loop, self._connection = loop, connection

    def drive(self, conversation: Conversation[T]) -> T:
        return self._loop.run_until_complete(self._connection.drive(conversation))

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())


def settings(url: str, crawl: str, **more: Any) -> Settings:
    return load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, **more}, environ={})


def made(frontier: ValkeyFrontier) -> Crawl:
    """The crawl of an open frontier."""

    def command(words: tuple[str | int | bytes, ...], key: str) -> Any:
        return frontier.connection.execute(*words, key=key)

    def move(seconds: float, tasks: tuple[str, ...]) -> None:
        clock.advance(frontier, seconds, tasks=tasks)

    return Crawl(frontier, move, command)


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[SentinelPair]:
    """A pair of Redis servers under a sentinel, which nobody fails over."""
    with SentinelPair(kind="redis", down_after=30_000) as pair:
        yield pair


@pytest.fixture(scope="session")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the embedded server of this session keeps its data; it runs as long as the session uses it."""
    directory = tmp_path_factory.mktemp("embedded")
    with ValkeyFrontier.open(
        settings("embedded:", "keeper", GOSSAMER_DATA_DIR=str(directory), GOSSAMER_FSYNC="everysec")
    ):
        yield directory


@pytest.fixture
def opened(crawl_name: str) -> Iterator[Callable[..., Crawl]]:
    """Opens crawls at a URL, and closes them after the test."""
    frontiers: list[ValkeyFrontier] = []

    def open_crawl(url: str, name: str = crawl_name, *, asynchronous: bool = False, **more: Any) -> Crawl:
        chosen = settings(url, name, **more)
        frontiers.append(OnLoop(chosen) if asynchronous else ValkeyFrontier.open(chosen))
        return made(frontiers[-1])

    yield open_crawl
    for frontier in frontiers:
        frontier.close()


@pytest.fixture
def crawl(place_of_crawl: str, request: pytest.FixtureRequest, opened: Callable[..., Crawl]) -> Crawl:
    """A new crawl at each of the places."""
    place, _, client = place_of_crawl.partition("-")
    more: dict[str, Any] = {"asynchronous": client == "async"}
    if place == "embedded":
        return opened("embedded:", GOSSAMER_DATA_DIR=str(request.getfixturevalue("data_directory")), **more)
    if place == "cluster":
        nodes: Cluster = request.getfixturevalue("cluster")
        return opened(nodes.url, GOSSAMER_PARTITIONS=3, **more)
    if place == "sentinel":
        pair: SentinelPair = request.getfixturevalue("shared_pair")
        return opened(pair.url, **more)
    server: Server = request.getfixturevalue(f"{place}_server")
    return opened(server.url, **more)
