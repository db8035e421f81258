"""Versions of pages, and a partition that goes back to an older state while no worker looks."""

from __future__ import annotations

from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request
from gossamer.settings import load
from gossamer.testing.servers import Server


def test_a_partition_that_went_back_takes_the_versions_of_all_along(valkey_server: Server, crawl_name: str) -> None:
    """What the pages of one partition led to, another one has: a page that is not read again would not lead there again."""
    settings = load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 3}, {})
    with ValkeyFrontier.open(settings) as frontier:
        frontier.define("g", {"a": LanePolicy()})
        pages = [(f"host{number}", "p") for number in range(9)]
        assert {keys.partition_of(host, 3) for host, _ in pages} == {0, 1, 2}
        for partition in range(3):
            meta = keys.partition_meta(crawl_name, partition)
            born, _ = frontier.page_versions("g", pages)
            frontier.put_page_versions("g", born, dict.fromkeys(pages, b"1"), most=100)
            before = int(str(valkey_server.call("HGET", meta, "chg")))
            host = next(host for host, _ in pages if keys.partition_of(host, 3) == partition)
            frontier.add([Request(partition + 1, host, "g.a", b"")])
            frontier.put_page_versions("g", born, {pages[0]: b"2"}, most=100)
            assert frontier.check_page_versions("g")
            assert int(str(valkey_server.call("HGET", meta, "chg"))) > before, "the state has changed since"
            valkey_server.call("HSET", meta, "chg", before)
            assert not frontier.check_page_versions("g")
            assert frontier.page_versions("g", pages) == (born, {})
            assert frontier.check_page_versions("g")
