"""Fixtures for pytest: `pytest_plugins = ["gossamer.testing.plugin"]` in a conftest.

Servers start when first asked for, once per session (and per xdist worker). Tests that share one keep apart by
`crawl_name`; a test that kills, pauses or reconfigures a server starts its own: `with Server() as server`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.forum import Forum
from gossamer.testing.servers import Cluster, SentinelPair, Server

pytest.register_assert_rewrite("gossamer.testing.contract")


@pytest.fixture
def crawl_name() -> str:
    """A crawl name that no other test uses, in this session or another on the same server."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A Valkey server, shared by the session."""
    with Server("valkey") as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A Redis server, shared by the session."""
    with Server("redis") as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Valkey cluster of three masters, shared by the session."""
    with Cluster(3) as running:
        yield running


@pytest.fixture
def sentinel_pair() -> Iterator[SentinelPair]:
    """A primary, a replica and a sentinel of the test's own, to be failed over."""
    with SentinelPair() as pair:
        yield pair


@pytest.fixture
def fault_proxy(valkey_server: Server) -> Iterator[FaultProxy]:
    """A fault proxy of the test's own before the shared Valkey server."""
    with FaultProxy(valkey_server.port) as proxy:
        yield proxy


@pytest.fixture
def forum() -> Iterator[Forum]:
    """A demo forum of the test's own, without trouble: 373 pages on one host."""
    with Forum() as running:
        yield running
