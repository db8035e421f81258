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
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.settings import Settings, load
from gossamer.testing import clock
from gossamer.testing.contract import Crawl
from gossamer.testing.servers import Cluster, SentinelPair, Server

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


class OnLoop:
    """An async frontier for blocking tests: each verb is run to its end on a loop of its own."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._frontier = self._loop.run_until_complete(AsyncValkeyFrontier.open(settings))
        except BaseException:
            self._loop.close()
            raise
        self.crawl, self.partitions = self._frontier.crawl, self._frontier.partitions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self._frontier, name)

        def run(*args: Any, **named: Any) -> Any:
            answer = verb(*args, **named)
            return self._all(answer) if isinstance(answer, AsyncIterator) else self._loop.run_until_complete(answer)

        return run

    def _all(self, answers: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._loop.run_until_complete(anext(answers))
            except StopAsyncIteration:
                return

    def command(self, *words: str | int | bytes, key: str) -> Any:
        return self._loop.run_until_complete(self._frontier.connection.execute(*words, key=key))

    def close(self) -> None:
        self._loop.run_until_complete(self._frontier.close())
        self._loop.close()


def settings(url: str, crawl: str, **more: Any) -> Settings:
    return load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl, **more}, environ={})


def made(frontier: ValkeyFrontier | OnLoop) -> Crawl:
    """The crawl of an open frontier."""
    spoken = cast(ValkeyFrontier, frontier)

    def command(words: tuple[str | int | bytes, ...], key: str) -> Any:
        if isinstance(frontier, OnLoop):
            return frontier.command(*words, key=key)
        return frontier.connection.execute(*words, key=key)

    def move(seconds: float, tasks: tuple[str, ...]) -> None:
        clock.advance(spoken, seconds, tasks=tasks)

    return Crawl(cast(Frontier, frontier), move, command)


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
    frontiers: list[ValkeyFrontier | OnLoop] = []

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
