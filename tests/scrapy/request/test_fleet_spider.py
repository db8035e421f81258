"""A spider fed by tasks takes them up, settles them and ends when nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.site import Site
from tests.support.workers.variants import LAST, PLAIN, Variant, loops
from tests.support.workers.workers import Workers, left

from gossamer.scrapy.spiders import FleetSpider
from gossamer.testing.servers import Server

EACH_LINK = [PLAIN, *(variant for variant in loops(LAST) if variant.loop == "select")]


class Fed(FleetSpider):
    name = "fed"

    def parse(self, response: Any, **more: Any) -> Iterator[Any]:
        yield {"id": response.url.rpartition("/")[2]}


@pytest.mark.parametrize("variant", EACH_LINK, ids=str)
def test_tasks_are_taken_settled_and_waited_for(variant: Variant, valkey_server: Server, crawl_name: str) -> None:
    with Site() as site, Workers(valkey_server.url, crawl_name, variant) as workers:
        for number in range(3):
            valkey_server.call("RPUSH", "fed:start_urls", f"{site.url}/{number}")
        worker = workers.start(Fed)
        assert worker.reason() == "finished"
        assert worker.stats()["gossamer/tasks"] == 3
        with workers.frontier() as frontier:
            assert left(frontier, "fed").ids() == {"0": 1, "1": 1, "2": 1}
