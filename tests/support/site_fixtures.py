"""What the workers of these tests crawl, and a server of their own where they may not share one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.site import Site

from gossamer.testing.servers import Server


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def there(server: Server) -> Iterator[Any]:
    """A client of that server."""
    from tests.support.scrapy_redis.sides import client

    with client(server) as made:
        yield made
