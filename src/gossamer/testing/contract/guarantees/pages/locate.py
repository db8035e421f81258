"""Where a request is: queued, delayed, leased, a dead letter, or nowhere."""

from __future__ import annotations

import pytest

from gossamer.errors import UnknownLane
from gossamer.model import Ending, LanePolicy, Order, RequestPlace, fingerprint
from gossamer.testing.contract.crawl import Crawl, Worker


class TestLocate:
    """Where a request is."""

    def test_a_request_is_found_wherever_it_is(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(), "last": LanePolicy(Order.LIFO, tier=1)})
        crawl.add("one", "two", "three")
        crawl.add("first", priority=5)
        crawl.add("four", "five", "six", lane="g.last")
        crawl.add("late", delay=60)

        def where(name: str, lane: str = "g.a", **how: float) -> RequestPlace:
            return crawl.frontier.locate(lane, crawl.host, fingerprint(name), **how)  # type: ignore[arg-type]

        found = [where(name) for name in ("first", "one", "three")]
        assert [(one.state, one.priority, one.ahead) for one in found] == [
            ("queued", 5, 0),
            ("queued", 0, 1),
            ("queued", 0, 3),
        ]
        assert [where(name, "g.last").ahead for name in ("four", "six")] == [2, 0]
        assert (where("late").state, where("late").queued) == ("delayed", 4)
        assert (where("none").state, where("none").whole) == ("", True)
        assert (where("three", look=2).state, where("three", look=2).whole) == ("", False)
        lease = worker.one()
        assert (where("first").state, where("first").worker) == ("leased", worker.token.incarnation)
        worker.settle(lease, ending=Ending.FAILED)
        [letter] = crawl.frontier.dead_letters("g")
        assert [where("first", dead_since=since).letter for since in (-1, int(letter.at))] == [letter.id] * 2
        assert [where("first", dead_since=letter.at + 60).letter, where("one", dead_since=-1).letter] == [0, 0]
        assert where("first").letter == 0, "nobody asked for it"
        with pytest.raises(UnknownLane):
            where("one", "g.none")

    def test_a_request_that_comes_back_is_found(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy()})
        crawl.add("one", "two")
        worker.send()
        crawl.expire()
        worker.exchange()
        place = crawl.frontier.locate("g.a", crawl.host, fingerprint("one"))
        assert (place.state, place.ahead) == ("queued", 0)
