"""The servers of these tests: one hard server for each process of pytest, one fetcher, one site and one crawl for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.hard_server.server import ROBOTS, HardServer
from tests.support.native_crawl import Crawl
from tests.support.site import Site

from gossamer.engine.http.aiohttp_fetcher import AiohttpFetcher
from gossamer.engine.http.connection.dns import CachingResolver
from gossamer.model.fetch import FetchOptions
from gossamer.testing.servers import Server

NAMES = dict.fromkeys((*ROBOTS, "a.test", "b.a.test", "other.test", "xn--bcher-kva.test"), "127.0.0.1")
"""Hosts that all are the hard server."""
EASY = FetchOptions(timeout=30, connect_timeout=10, stall_timeout=20, max_size=1_000_000)


@pytest.fixture(scope="session")
def hard() -> Iterator[HardServer]:
    with HardServer() as server:
        yield server


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site) -> Crawl:
    return Crawl(valkey_server, crawl_name, tmp_path, site)


@pytest.fixture
async def fetcher(hard: HardServer) -> AsyncIterator[AiohttpFetcher]:
    made = AiohttpFetcher(resolver=CachingResolver(hosts=NAMES))
    yield made
    await made.close()
