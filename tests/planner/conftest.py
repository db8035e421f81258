"""A crawl whose clock the tests move, for planners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.planned_crawl import PlannedCrawl

from gossamer.testing.servers import Server


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str) -> Iterator[PlannedCrawl]:
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        yield crawl
