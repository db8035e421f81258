"""Guarantee 8: limits bind producers, and what grows is bounded."""

from __future__ import annotations

from gossamer.frontier.call import read
from gossamer.frontier.verbs.crawl import CrawlVerbs
from gossamer.model import Ending, GroupPolicy, HostPolicy, LanePolicy, Settlement
from gossamer.settings import load
from gossamer.testing.contract.crawl import ADDED, FULL, SETTLED, Crawl, Worker


def with_items(crawl: Crawl, worker: Worker, *items: bytes) -> None:
    assert worker.exchange(settle=[Settlement(worker.one(), items=items)]).settled == [SETTLED]


class TestBounded:
    """Bounded. Limits hold on each partition."""

    def test_a_lane_tells_its_room_and_refuses_beyond_it(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=5), "b": LanePolicy()})
        outcomes, _, room = crawl.frontier.add(crawl.requests(["1", "2", "3"]))
        assert (outcomes, room) == ([ADDED] * 3, 2)
        outcomes, _, room = crawl.frontier.add(crawl.requests(["4", "5", "6", "7"]))
        assert (outcomes, room) == ([ADDED, ADDED, FULL, FULL], 0)
        outcomes, _, room = crawl.frontier.add(crawl.requests(["8"], lane="g.b"))
        assert (outcomes, room) == ([ADDED], None)
        crawl.worker(lanes=["g.a"]).lease(2)
        assert crawl.frontier.add(crawl.requests(["6"]))[2] == 1

    def test_what_is_delayed_counts_as_queued(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=2)})
        assert crawl.add("1", "2", "3", delay=60) == [ADDED, ADDED, FULL]

    def test_a_group_binds_all_its_lanes(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(max_queued=1)}, GroupPolicy(max_queued=3))
        assert crawl.add("1", "2", lane="g.b") == [ADDED, FULL]
        outcomes, _, room = crawl.frontier.add(crawl.requests(["3", "4", "5"]))
        assert (outcomes, room) == ([ADDED, ADDED, FULL], 0)

    def test_a_worker_that_adds_is_told_the_room(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=2)})
        answer = crawl.worker().exchange(add=crawl.requests(["1", "2", "3"]))
        assert (answer.added, answer.hints.room) == ([ADDED, ADDED, FULL], 0)
        assert crawl.worker().exchange().hints.room is None

    def test_without_bound_the_limits_do_not_apply(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=1)})
        assert crawl.frontier.add(crawl.requests(["1", "2"]), bound=False)[0] == [ADDED, ADDED]

    def test_children_are_always_accepted_and_counted_as_overflow(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(max_queued=2)}, GroupPolicy(max_queued=2))
        crawl.add("page", "other")
        children = crawl.requests([f"c{n}" for n in range(5)])
        answer = worker.exchange(settle=[Settlement(worker.one(), add=children)])
        assert answer.children == [[ADDED] * 5]
        assert crawl.lane().overflow == 4
        assert crawl.add("more") == [FULL]

    def test_a_limit_may_be_raised(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=1)})
        assert crawl.add("1", "2") == [ADDED, FULL]
        crawl.define({"a": LanePolicy(max_queued=2)})
        assert crawl.add("2", "3") == [ADDED, FULL]

    def test_max_leased_bounds_what_is_in_progress(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(max_leased=3), "b": LanePolicy()})
        crawl.add(*(f"a{n}" for n in range(10)))
        leases = worker.lease(10)
        assert len(leases) == 3
        assert worker.lease(10) == []
        worker.settle(leases[0])
        worker.release(leases[1])
        assert len(worker.lease(10)) == 2
        crawl.expire()
        assert len(crawl.worker().lease(10)) == 3
        crawl.add(*(f"b{n}" for n in range(2)), lane="g.b")
        assert len(crawl.worker().lease(10)) == 2

    def test_max_leased_holds_for_a_lane_that_is_asked_twice_in_one_call(self, crawl: Crawl) -> None:
        """Because another group had less than its share."""
        crawl.define({"a": LanePolicy(max_leased=5)})
        crawl.frontier.define("h", {"b": LanePolicy()})
        crawl.add(*(f"a{n}" for n in range(20)))
        crawl.add("b", lane="h.b")
        leases = crawl.worker().lease(8)
        assert [lease.lane for lease in leases].count("g.a") == 5
        assert len(leases) == 6

    def test_max_leased_may_be_raised(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define({"a": LanePolicy(max_leased=1)})
        crawl.add("1", "2", "3")
        assert len(worker.lease(3)) == 1
        crawl.define({"a": LanePolicy(max_leased=2)})
        assert len(worker.lease(3)) == 1

    def test_max_pages_ends_leasing(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_pages=2))
        crawl.add("1", "2", "3")
        worker = crawl.worker("g")
        worker.settle(worker.one())
        worker.settle(worker.one(), ending=Ending.FAILED)
        assert worker.paused() == "pages_full"
        assert crawl.group().paused == "pages_full"
        crawl.define({}, GroupPolicy(max_pages=3))
        assert len(worker.lease(1)) == 1

    def test_no_more_than_max_pages_are_in_hand_and_done(self, crawl: Crawl) -> None:
        """Of all lanes together, whoever holds them and whatever the weights and stages."""
        lanes = {
            "a": LanePolicy(weight=3), "b": LanePolicy(), "c": LanePolicy(tier=-1), "d": LanePolicy(stage="other"),
        }  # fmt: skip
        crawl.define(lanes, GroupPolicy(max_pages=4))
        for lane in lanes:
            crawl.add(*(f"{lane}{n}" for n in range(3 if lane != "c" else 1)), lane=f"g.{lane}")
        one, two = crawl.worker("g"), crawl.worker("g")
        first = one.lease(2)
        assert (len(first), len(two.lease(10)), one.lease(10)) == (2, 2, [])
        for lease in first:
            one.settle(lease)
        assert (one.lease(10), crawl.group().paused, crawl.group().pages) == ([], "pages_full", 2)

    def test_what_ends_without_a_page_leaves_its_place_to_another(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, GroupPolicy(max_pages=1))
        crawl.add("1", "2")
        crawl.add("3", lane="g.b")
        worker = crawl.worker("g")
        for ending in (Ending.RETRY, Ending.REPLACED):
            worker.settle(worker.one(), ending=ending)
        worker.release(worker.one())
        worker.one()
        assert (worker.lease(3), crawl.group().paused) == ([], "pages_full")
        crawl.expire()
        worker.settle(worker.one())
        assert (worker.lease(3), crawl.group().paused, crawl.group().pages) == ([], "pages_full", 1)

    def test_max_pages_is_of_one_round(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_pages=2))
        crawl.add("1", "2", "3", "4", "5", "6")
        worker = crawl.worker("g")
        for lease in worker.lease(2):
            worker.settle(lease)
        assert worker.lease(9) == []
        crawl.frontier.new_round("g", 1)
        assert crawl.group().paused == ""
        assert (len(worker.lease(9)), crawl.group().pages) == (2, 2)

    def test_the_reason_is_told_to_every_worker_again_and_again(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(max_pages=1))
        crawl.add("1", "2")
        worker.settle(worker.one())
        assert [chosen.paused() for chosen in (worker, worker, crawl.worker(), worker)] == ["pages_full"] * 4

    def test_retries_are_no_pages(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(max_pages=1))
        crawl.add("1")
        for _ in range(3):
            worker.settle(worker.one(), ending=Ending.RETRY)
        assert crawl.group().pages == 0

    def test_a_full_item_stream_pauses_the_group(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=3))
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.add("1", "2", "3")
        crawl.add("elsewhere", lane="other.a")
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        held = worker.one()
        with_items_of = worker.exchange(settle=[Settlement(held, items=[b"c", b"d"])])
        assert with_items_of.settled == [SETTLED]
        assert worker.paused() == "items_full"
        assert len(crawl.worker("other").lease(1)) == 1

    def test_it_goes_on_when_its_consumer_has_kept_the_items(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=2))
        crawl.add("1", "2")
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        assert worker.paused() == "items_full"
        rows = crawl.frontier.read_items("g", 0)
        assert [data for _, data in rows] == [b"a", b"b"]
        assert crawl.frontier.read_items("g", 0, after=rows[0][0]) == rows[1:]
        assert crawl.frontier.keep_items("g", "sql", {0: rows[0][0]}) == 1
        assert crawl.frontier.read_items("g", 0) == rows[1:]
        assert len(worker.lease(1)) == 1

    def test_bytes_of_items_pause_the_group_too(self, crawl: Crawl) -> None:
        """Counted exactly, whatever goes and in which parts."""
        crawl.define(policy=GroupPolicy(max_item_bytes=1000))
        crawl.add(*map(str, range(12)))
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a" * 300, b"b" * 300)
        with_items(crawl, worker, b"c" * 399)
        with_items(crawl, worker, b"d")
        assert worker.paused() == "items_full"
        places = [place for place, _ in crawl.frontier.read_items("g", 0)]
        assert crawl.frontier.keep_items("g", "sql", {0: places[0]}) == 3
        with_items(crawl, worker, b"e" * 299)
        with_items(crawl, worker, b"f")
        assert worker.paused() == "items_full"
        places = [place for place, _ in crawl.frontier.read_items("g", 0)]
        assert crawl.frontier.drop_items("g", {0: places[-1]}) == 5
        with_items(crawl, worker, b"g" * 999)
        with_items(crawl, worker, b"h")
        assert worker.paused() == "items_full"
        crawl.define(policy=GroupPolicy(max_item_bytes=0))
        assert len(worker.lease(1)) == 1

    def test_items_are_dropped_in_bounded_steps(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=2600))
        crawl.add("1", "2")
        worker = crawl.worker("g")
        with_items(crawl, worker, *(b"%d" % n for n in range(2650)))
        assert worker.paused() == "items_full"
        place, data = crawl.frontier.read_items("g", 0, limit=2610)[-1]
        assert data == b"2609"
        verb = CrawlVerbs(crawl.frontier.crawl, crawl.frontier.partitions, load({}, {})).control.drop_items(
            "g", {0: place}
        )
        [first] = next(verb)
        removed, there, more = read(crawl.frontier.ask([first])[0])  # type: ignore[attr-defined]
        assert 0 < removed <= 1000
        assert (there, more) == (2650 - removed, 1)
        assert crawl.frontier.drop_items("g", {0: place}) == 2610 - removed
        assert [item for _, item in crawl.frontier.read_items("g", 0)] == [b"%d" % n for n in range(2610, 2650)]
        assert len(worker.lease(1)) == 1

    def test_written_items_stay_until_there_is_no_room(self, crawl: Crawl) -> None:
        """At the limit the oldest go, in bounded steps; what nobody has written never does."""
        crawl.define(policy=GroupPolicy(max_items=100))
        crawl.add(*map(str, range(80)))
        worker = crawl.worker("g")
        for n in range(50):
            with_items(crawl, worker, b"%d" % n)
        rows = crawl.frontier.read_items("g", 0)
        assert crawl.frontier.keep_items("g", "", {0: rows[29][0]}) == 50
        with_items(crawl, worker, *(b"%d" % n for n in range(50, 99)))
        assert len(crawl.frontier.read_items("g", 0)) == 99
        with_items(crawl, worker, b"99")
        left = [int(data) for _, data in crawl.frontier.read_items("g", 0)]
        assert left == list(range(left[0], 100))
        assert 1 <= left[0] <= 30
        with_items(crawl, worker, *(b"%d" % n for n in range(100, 130)))
        assert [int(data) for _, data in crawl.frontier.read_items("g", 0)] == list(range(30, 130))
        assert worker.paused() == "items_full"
        assert len(crawl.frontier.read_items("g", 0)) == 100

    def test_items_are_held_for_every_named_consumer_unless_somebody_else_has_written_them(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=2))
        crawl.add("1", "2", "3")
        for consumer in ("sql", "files"):
            crawl.frontier.keep_items("g", consumer, dict.fromkeys(range(crawl.frontier.partitions), ""))
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        last = crawl.frontier.read_items("g", 0)[-1][0]
        assert crawl.frontier.keep_items("g", "sql", {0: last}) == 2
        assert worker.paused() == "items_full"
        # An older position takes nothing back.
        assert crawl.frontier.keep_items("g", "sql", {0: "0-1"}) == 2
        assert crawl.frontier.keep_items("g", "files", {0: last}) == 1
        with_items(crawl, worker, b"c", b"d")
        assert worker.paused() == "items_full"
        crawl.frontier.keep_items("g", "", {0: crawl.frontier.read_items("g", 0)[-1][0]})
        assert len(worker.lease(1)) == 1

    def test_what_feeds_have_written_does_not_count_whatever_consumer_is_listed(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=2))
        crawl.add(*map(str, range(6)))
        everywhere = range(crawl.frontier.partitions)
        for consumer in ("sql", "feed-one", "feed-two"):
            crawl.frontier.keep_items("g", consumer, dict.fromkeys(everywhere, ""))
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        last = crawl.frontier.read_items("g", 0)[-1][0]
        # Neither an export nor another feed makes a feed lack items.
        crawl.frontier.keep_items("g", "feed-one", {0: last})
        crawl.frontier.keep_items("g", "", {0: last})
        assert [data for _, data in crawl.frontier.read_items("g", 0)] == [b"a", b"b"]
        assert worker.paused() == "items_full"
        crawl.frontier.keep_items("g", "feed-two", {0: last})
        with_items(crawl, worker, b"c")
        for consumer in ("feed-one", "feed-two"):
            crawl.frontier.keep_items("g", consumer, dict.fromkeys(everywhere, "gone"))
        with_items(crawl, worker, b"d")
        assert [data for _, data in crawl.frontier.read_items("g", 0)] == [b"c", b"d"]
        assert worker.paused() == "items_full"
        crawl.frontier.keep_items("g", "", {0: crawl.frontier.read_items("g", 0)[-1][0]})
        assert len(worker.lease(1)) == 1

    def test_a_consumer_that_is_gone_holds_nothing_back(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=2))
        crawl.add("1", "2")
        crawl.frontier.keep_items("g", "files", {0: ""})
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        last = crawl.frontier.read_items("g", 0)[-1][0]
        crawl.frontier.keep_items("g", "sql", {0: last})
        assert crawl.frontier.keep_items("g", "files", {0: "gone"}) == 1
        assert len(worker.lease(1)) == 1

    def test_written_items_that_are_old_go(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_item_age=60.0))
        crawl.add("1", "2", "3")
        worker = crawl.worker("g")
        with_items(crawl, worker, b"a", b"b")
        first = crawl.frontier.read_items("g", 0)[0][0]
        crawl.frontier.keep_items("g", "", {0: first})
        with_items(crawl, worker, b"c")
        assert [data for _, data in crawl.frontier.read_items("g", 0)] == [b"a", b"b", b"c"]
        crawl.advance(120)
        assert crawl.frontier.keep_items("g", "", {0: ""}) == 2
        assert [data for _, data in crawl.frontier.read_items("g", 0)] == [b"b", b"c"], "nobody has written b"

    def test_too_many_dead_letters_pause_the_group(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_dead=1))
        crawl.add("1", "2")
        worker = crawl.worker("g")
        worker.settle(worker.one(), ending=Ending.FAILED, reason="broken")
        assert worker.paused() == "dead_full"
        [letter] = crawl.frontier.dead_letters("g")
        crawl.frontier.drop_dead(letter.partition, [letter.id])
        assert len(worker.lease(1)) == 1

    def test_one_cause_gone_leaves_the_other(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_dead=1, max_items=1))
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        crawl.add("1", "2", "3")
        worker = crawl.worker("g")
        one, two = worker.lease(2)
        worker.exchange(settle=[Settlement(one, items=[b"a"])])
        worker.settle(two, ending=Ending.FAILED)
        [letter] = crawl.frontier.dead_letters("g")
        crawl.frontier.drop_dead(letter.partition, [letter.id])
        assert worker.paused() == "items_full"
        position = crawl.frontier.read_items("g", 0)[-1][0]
        crawl.frontier.keep_items("g", "sql", {0: position})
        assert len(worker.lease(1)) == 1

    def test_settling_and_adding_go_on_while_paused(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_items=1))
        crawl.add("1", "2", "3")
        worker = crawl.worker("g")
        one, two, three = worker.lease(3)
        worker.exchange(settle=[Settlement(one, items=[b"a"])])
        assert worker.exchange(settle=[Settlement(two, items=[b"b"])]).settled == [SETTLED]
        assert worker.release(three) == [True]
        assert crawl.add("4") == [ADDED]
        assert len(crawl.items()) == 2
