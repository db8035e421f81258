"""What each lane brought on each day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gossamer.errors import UnknownGroup
from gossamer.model import CounterChange, CounterOp, Ending, FieldCoverage, LanePolicy, Settlement, Token
from gossamer.testing.contract.crawl import Crawl

DAY = 86_400


class TestDailyCounts:
    """A day has what ended on it, whenever somebody asks; nobody needs to be there at midnight."""

    def noon(self, crawl: Crawl) -> None:
        """Goes on to the next noon, so that a test that takes its time stays within a day."""
        now = crawl.frontier.counts().now
        crawl.advance((DAY * 3 / 2 - now % DAY) % DAY)

    def test_each_day_has_what_ended_on_it(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        self.noon(crawl)
        today = datetime.fromtimestamp(crawl.frontier.counts().now, UTC).date()
        hosts = crawl.spread(3)
        crawl.frontier.add([crawl.request(f"a{n}", host=hosts[n % 3]) for n in range(9)])
        crawl.frontier.add([crawl.request(f"b{n}", lane="g.b", host=hosts[n % 3]) for n in range(3)])
        worker = crawl.worker()
        worker.settle(*worker.lease(9))
        crawl.advance(3 * DAY)
        [first, second, third] = worker.lease(9)
        worker.settle(first, ending=Ending.FAILED, reason="broken")
        worker.settle(second, ending=Ending.RETRY)
        worker.settle(third)
        rows = crawl.frontier.daily_counts("g")
        days = {row.day for row in rows}
        assert days == {today, today + timedelta(days=3)}
        then = [row for row in rows if row.day == today]
        assert sum(row.finished for row in then) == 9
        now = [row for row in rows if row.day != today]
        assert (sum(row.finished for row in now), sum(row.retried for row in now)) == (1, 1)
        assert (sum(row.failed for row in now), sum(row.fetched for row in now)) == (1, 3)
        assert crawl.frontier.daily_counts("g", days=3) == now
        assert crawl.frontier.daily_counts("g", days=4) == rows

    def test_counts_in_brief_have_all_numbers_and_no_counters(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.add([crawl.request("x"), crawl.request("y")])
        crawl.frontier.exchange(Token.fresh(), counters=[CounterChange("g", "downloads", 3.0)])
        whole, brief = crawl.frontier.counts(), crawl.frontier.counts(brief=True)
        assert whole.groups[0].counters == {"downloads": 3.0}
        assert brief.lanes == whole.lanes
        assert brief.groups == [group._replace(counters={}) for group in whole.groups]
        assert brief.group_policies == whole.group_policies

    def test_counters_of_layers_and_lost_leases_count(self, crawl: Crawl) -> None:
        crawl.define()
        self.noon(crawl)
        crawl.add("one", "two")
        worker = crawl.worker()
        one, _two = worker.lease(2)
        read = [
            CounterChange("g", f"site/{what}/a", number, CounterOp.ADD)
            for what, number in (("read", 1), ("rows", 4), ("lacking", 1), ("other", 7))
        ]
        worker.exchange(settle=[Settlement(one, items=[b"x"])], counters=read)
        crawl.advance(600)
        crawl.worker().lease(1)
        rows = {row.lane: row for row in crawl.frontier.daily_counts("g")}
        assert rows["a"][3:11] == (1, 0, 0, 0, 1, 1, 1, 4)
        assert rows[""].items == 1

    def test_counters_count_on_the_day_on_which_they_come(self, crawl: Crawl) -> None:
        """They come to one partition, whether or not a lease of their group ever ends there."""
        crawl.define()
        self.noon(crawl)
        worker = crawl.worker()
        worker.exchange(counters=[CounterChange("g", "site/read/a", 3.0)])
        assert [(row.lane, row.read) for row in crawl.frontier.daily_counts("g")] == [("a", 3)]
        crawl.advance(DAY)
        worker.exchange(counters=[CounterChange("g", "site/read/a", 2.0)])
        crawl.add("one")
        worker.settle(*worker.lease(1))
        assert [row.read for row in crawl.frontier.daily_counts("g") if row.read] == [3, 2]

    def test_a_lane_that_is_dropped_leaves_what_it_brought(self, crawl: Crawl) -> None:
        worker = crawl.worker()

        def brought(*pages: str) -> list[tuple[int, int]]:
            crawl.define()
            crawl.add(*pages)
            read = [CounterChange("g", "site/read/a", float(len(pages)), CounterOp.ADD)]
            worker.exchange(settle=[Settlement(lease) for lease in worker.lease(9)], counters=read)
            return [(row.finished, row.read) for row in crawl.frontier.daily_counts("g") if row.lane == "a"]

        crawl.define()
        self.noon(crawl)
        assert brought("1", "2", "3") == [(3, 3)]
        list(crawl.frontier.drop_lane("g.a"))
        assert brought("4", "5") == [(5, 5)]
        crawl.advance(DAY)
        assert brought("6", "7") == [(5, 5), (2, 2)]
        list(crawl.frontier.drop_lane("g.a"))
        crawl.advance(DAY)
        crawl.define({"b": LanePolicy()})
        crawl.frontier.add([crawl.request("b", lane="g.b")])
        worker.settle(worker.one())
        crawl.advance(DAY)
        assert brought("8") == [(5, 5), (2, 2), (1, 1)]

    def test_what_is_too_old_goes(self, crawl: Crawl) -> None:
        crawl.define()
        self.noon(crawl)
        worker = crawl.worker()
        for n in range(6):
            crawl.add(f"r{n}")
            worker.settle(worker.one())
            crawl.advance(DAY * 100)
            # The day is closed by the next page.
        days = [row.day for row in crawl.frontier.daily_counts("g", days=10_000)]
        assert (len(days), (days[-1] - days[0]).days) == (4, 300)

    def test_they_go_with_their_group(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.add("one")
        crawl.finish()
        assert crawl.frontier.daily_counts("g")
        list(crawl.frontier.drop_group("g"))
        with pytest.raises(UnknownGroup):
            crawl.frontier.daily_counts("g")
        crawl.define()
        assert crawl.frontier.daily_counts("g") == []


class TestCoverage:
    """What the fields of a layer had in each of the last rounds, summed over all workers."""

    def test_workers_count_together_by_round(self, crawl: Crawl) -> None:
        crawl.define()
        for _ in range(2):
            changes = {
                "0|a|n": 3.0,
                "0|a|v": 2.0,
                "0|a|b": 1.0,
                "0|a|u": 3.0,
                "0|a.b.c|n": 5.0,
                "0|a.b.c|v": 4.0,
                "1|a.b.c|n": 1.0,
            }
            told = [CounterChange("g", f"coverage/{name}", value) for name, value in changes.items()]
            crawl.frontier.exchange(Token.fresh(), counters=told)
        assert crawl.frontier.coverage(["g", "nobody"]) == [
            FieldCoverage("g", 0, "a", "", 6, 4, 2, 6),
            FieldCoverage("g", 0, "a", "b.c", 10, 8),
            FieldCoverage("g", 1, "a", "b.c", 2, 0),
        ]
        assert crawl.frontier.counts("g").groups[0].counters == {}

    def test_ten_rounds_are_kept(self, crawl: Crawl) -> None:
        crawl.define()
        for number in range(12):
            told = [CounterChange("g", f"coverage/{number}|a|n", 1.0)]
            crawl.frontier.exchange(Token.fresh(), counters=told)
            crawl.frontier.new_round("g", number + 1)
        assert [row.round for row in crawl.frontier.coverage(["g"])] == [*range(3, 12)]
        # A page of a round that is let go may come late.
        told = [CounterChange("g", f"coverage/{number}|a|n", 1.0) for number in (2, 3)]
        crawl.frontier.exchange(Token.fresh(), counters=told)
        assert [(row.round, row.asked) for row in crawl.frontier.coverage(["g"])][:1] == [(3, 2)]

    def test_a_group_that_is_dropped_leaves_none(self, crawl: Crawl) -> None:
        crawl.define()
        told = [CounterChange("g", "coverage/0|a|n", 1.0)]
        crawl.frontier.exchange(Token.fresh(), counters=told)
        for _ in crawl.frontier.drop_group("g"):
            pass
        crawl.define()
        assert crawl.frontier.coverage(["g"]) == []
