"""Paging through what a crawl holds while it runs; nothing is missed, some may be read twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gossamer.model import HostPolicy, LanePolicy, Order
from gossamer.testing.contract.crawl import Crawl, Worker


def rows(crawl: Crawl, what: str, limit: int = 500) -> Iterator[Any]:
    """All rows of one kind, over all partitions, by pages."""
    for partition in range(crawl.frontier.partitions):
        cursor = "0"
        while cursor:
            page = crawl.frontier.scan(partition, what, cursor, limit)
            yield from page.rows
            cursor = page.cursor


class TestScan:
    """What a snapshot reads, kind by kind."""

    @pytest.mark.parametrize("limit", [1, 7, 500])
    def test_every_leased_request_is_found(self, crawl: Crawl, worker: Worker, limit: int) -> None:
        crawl.frontier.add([crawl.request(f"r{n}", host, priority=3) for n, host in enumerate(crawl.spread(40))])
        worker.lease(40)
        found = list(rows(crawl, "leased", limit))
        assert {row.payload for row in found} == {b"r%d" % n for n in range(40)}
        assert {(row.lane, row.priority, row.due) for row in found} == {("g.a", 3, 0)}
        assert {row.fingerprint for row in found} == {crawl.request(f"r{n}").fingerprint for n in range(40)}

    @pytest.mark.parametrize("limit", [1, 7, 500])
    def test_every_delayed_request_is_found(self, crawl: Crawl, limit: int) -> None:
        crawl.frontier.add([crawl.request(f"r{n}", host, delay=100) for n, host in enumerate(crawl.spread(40))])
        found = list(rows(crawl, "delayed", limit))
        assert {row.payload for row in found} == {b"r%d" % n for n in range(40)}
        now = crawl.frontier.counts().now
        assert all(90 < row.due - now <= 100 for row in found)

    def test_suspects_are_found(self, crawl: Crawl) -> None:
        crawl.add("poison")
        for _ in range(crawl.strikes):
            worker = crawl.worker()
            worker.sent(worker.one())
            crawl.expire()
        crawl.worker().exchange()
        assert [row.payload for row in rows(crawl, "suspect")] == [b"poison"]

    def test_hosts_with_something_to_remember_are_found(self, crawl: Crawl) -> None:
        crawl.define()
        one, two, three, four = crawl.spread(4)
        crawl.frontier.set_host(one, HostPolicy(delay=3))
        crawl.frontier.block(two, 100, "busy")
        crawl.frontier.pause(host=three)
        crawl.frontier.set_crawl_delay(four, 2)
        assert {row[0] for row in rows(crawl, "hosts")} == {one, two, three, four}

    @pytest.mark.parametrize("order", list(Order), ids=lambda order: order.value)
    def test_scanning_changes_nothing(self, crawl: Crawl, order: Order) -> None:
        crawl.define({"a": LanePolicy(order=order)})
        crawl.add("1", "2", "3")
        crawl.add("later", delay=60)
        crawl.worker().one()
        before = crawl.frontier.counts()
        for what in ("leased", "delayed", "suspect", "hosts"):
            list(rows(crawl, what))
        after = crawl.frontier.counts()
        assert (after.lanes, after.groups) == (before.lanes, before.groups)
