"""What the tests of scrapy-redis's classes share: both sides, the original and ours, and a client of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.scrapy_redis.sides import SIDES, client

from gossamer.testing.servers import Server


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def redis(valkey_server: Server) -> Iterator[Any]:
    """A client as scrapy-redis makes it, of the server that tests share."""
    with client(valkey_server) as made:
        yield made
