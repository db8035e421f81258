"""Groups that operators drop, with all that belongs to them."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import count, islice

import pytest

from gossamer.errors import GroupDropping, UnknownGroup
from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    CounterChange,
    Ending,
    GroupPolicy,
    LanePolicy,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Settlement,
)
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, LOST, SETTLED, Crawl, Worker
from gossamer.testing.contract.operations.stored_keys import memories, stored


class TestDropGroup:
    """A dropped group leaves nothing behind; what is beside it stays."""

    KINDS = (SeenPolicy(), SeenPolicy(SeenKind.BLOOM, capacity=1000), SeenPolicy(SeenKind.ROLLING, window=1000))
    LANES = {f"l{n}": LanePolicy(seen=seen) for n, seen in enumerate(KINDS)} | {
        "round": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)),
        "never": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER)),
    }
    POLICY = GroupPolicy(start=True, max_items=1)

    def fill(self, crawl: Crawl, group: str) -> int:
        """A group with something of everything on each partition; how many requests and dead letters it holds."""
        frontier, hosts = crawl.frontier, crawl.spread(6)
        frontier.define(group, self.LANES, self.POLICY)
        lanes = [f"{group}.{lane}" for lane in self.LANES]
        requests = [crawl.request(f"{lane} {host}", host, lane) for lane in lanes for host in hosts]
        requests += [crawl.request(f"{lane} later", host, lane, delay=900) for lane in lanes for host in hosts[:3]]
        added = frontier.add(requests)[0].count(ADDED)
        frontier.forget(lanes[1], [requests[0].fingerprint])
        worker = crawl.worker(group)
        leases = worker.lease(12)
        for lease in leases[:6]:
            worker.settle(lease, ending=Ending.FAILED, reason="broken")
        counter = CounterChange(group, "kept", 1.0)
        worker.exchange(settle=[Settlement(leases[6], items=[b"item"])], counters=[counter])
        worker.release(*leases[7:])
        for partition in range(frontier.partitions):
            frontier.keep_items(group, "consumer", {partition: ""})
        frontier.bury(group, b"bad task", reason="bad", key=f"bad {len(group)}")
        frontier.start(group, worker.token)
        frontier.new_round(group, 1)
        return added  # one was done, and one buried from outside

    def left(self, crawl: Crawl, group: str) -> list[str]:
        """Where the crawl still names the group."""
        found = []
        for key, content in stored(crawl):
            if group in key.removeprefix("gossamer:{" + crawl.frontier.crawl) or group.encode() in content:
                found.append(key)
        return found

    def test_nothing_of_it_is_left(self, crawl: Crawl) -> None:
        held = self.fill(crawl, "zebra")
        assert len(self.left(crawl, "zebra")) > 8
        assert memories(crawl)
        assert sum(crawl.frontier.drop_group("zebra")) == held
        assert self.left(crawl, "zebra") == []
        assert memories(crawl) == []
        counts = crawl.frontier.counts()
        assert (counts.groups, counts.lanes) == ([], [])
        with pytest.raises(UnknownGroup):
            crawl.frontier.drained("zebra")

    def test_a_memory_that_none_of_its_lanes_uses_goes_too(self, crawl: Crawl) -> None:
        """As an import brings them, and as former versions left them."""
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        base = keys.base(crawl.frontier.crawl, 0)
        crawl.command(("HSET", base + keys.SUFFIXES["seen_names"], "zebra|rolling:9s@forever", "999"), base)
        list(crawl.frontier.drop_group("zebra"))
        assert self.left(crawl, "zebra") == []

    def test_what_is_beside_it_stays(self, crawl: Crawl) -> None:
        """Also where one name begins with the other."""
        self.fill(crawl, "zebra")
        self.fill(crawl, "zebra.two")
        memories = [info for info in crawl.frontier.seen_counts() if info.name.startswith("zebra.two|")]
        row, lanes = crawl.group("zebra.two"), crawl.frontier.counts("zebra.two").lanes
        letters, items = crawl.frontier.dead_letters("zebra.two"), crawl.items("zebra.two")
        list(crawl.frontier.drop_group("zebra"))
        assert crawl.frontier.counts().groups == [row]
        assert crawl.frontier.counts().lanes == lanes
        assert crawl.frontier.seen_counts() == memories
        assert crawl.frontier.dead_letters("zebra.two") == letters
        assert crawl.items("zebra.two") == items == [b"item"]
        crawl.balanced("zebra.two")

    def test_a_group_of_that_name_begins_anew(self, crawl: Crawl) -> None:
        self.fill(crawl, "zebra")
        list(crawl.frontier.drop_group("zebra"))
        crawl.frontier.define("zebra", self.LANES, self.POLICY)
        row = crawl.group("zebra")
        assert (row.open, row.round, row.pages, row.items, row.dead, row.start) == (1, 0, 0, 0, 0, "owed")
        assert (row.paused, dict(row.counters)) == ("", {})
        lanes = [f"zebra.{lane}" for lane in self.LANES]
        again = [crawl.request(f"{lane} {host}", host, lane) for lane in lanes for host in crawl.spread(6)]
        assert set(crawl.frontier.add(again)[0]) == {ADDED}
        assert sorted(crawl.finish()) == sorted(request.payload.decode() for request in again)

    def test_leased_requests_end_first(self, crawl: Crawl, worker: Worker) -> None:
        """And what their pages still send elsewhere goes with the group."""
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.add("page", "queued")
        page = worker.one()
        steps, dropped = crawl.frontier.drop_group("g"), 0
        for _ in range(12):
            dropped += next(steps)
        assert (dropped, crawl.group().open, crawl.group().paused) == (1, 1, "dropped")
        assert crawl.worker().lease(1) == []
        children = [crawl.request(f"child {host}", host, "g.b") for host in crawl.spread(3)]
        assert worker.exchange(settle=[Settlement(page, add=children)]).settled == [SETTLED]
        list(steps)
        assert self.left(crawl, "g.b") == []
        assert crawl.frontier.counts().groups == []

    def test_each_step_is_bounded(self, crawl: Crawl) -> None:
        crawl.define()
        for n in range(1100):
            crawl.frontier.bury("g", b"", reason="bad", key=str(n))
        steps = list(crawl.frontier.drop_group("g"))
        assert (sum(steps), max(steps)) == (1100, 1000)
        assert crawl.frontier.dead_letters("g") == []

    @pytest.mark.parametrize("taken", range(1, 9))
    def test_what_broke_off_is_finished_by_another_call(self, crawl: Crawl, taken: int) -> None:
        self.fill(crawl, "zebra")
        steps = crawl.frontier.drop_group("zebra")
        list(islice(steps, taken))
        with suppress(UnknownGroup):
            list(crawl.frontier.drop_group("zebra"))
        assert self.left(crawl, "zebra") == memories(crawl) == []
        list(steps)

    def test_nobody_makes_it_meanwhile(self, crawl: Crawl) -> None:
        """Not on the partitions either where it is gone already: it is made everywhere, or nowhere. Who makes it when all but the last
        remains are gone takes these away, and what is left of the drop leaves the new one alone."""
        last = crawl.frontier.partitions - 1
        elsewhere = next(name for n in count() if keys.home_of(name := f"x{n}", last + 1) == last)
        crawl.frontier.define(elsewhere, {"a": LanePolicy()})
        for n in range(2500):
            crawl.frontier.bury(elsewhere, b"", reason="bad", key=str(n))
        steps, refused, made = crawl.frontier.drop_group(elsewhere), 0, False
        for number, _ in enumerate(steps):
            assert number < 20, "the drop does not end"
            try:
                crawl.frontier.define(elsewhere, {"a": LanePolicy()}, GroupPolicy(start=True))
                made = True
            except GroupDropping:
                assert not made
                refused += 1
        assert (made, refused >= 1) == (True, True)
        everywhere = [crawl.request(f"on {host}", host, f"{elsewhere}.a") for host in crawl.spread(6)]
        assert set(crawl.frontier.add(everywhere)[0]) == {ADDED}
        assert (crawl.group(elsewhere).open, crawl.group(elsewhere).paused) == (7, "")

    def test_what_broke_off_may_be_kept(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        page = worker.one()
        steps = crawl.frontier.drop_group("g")
        next(steps)
        with pytest.raises(GroupDropping):
            crawl.define()
        crawl.frontier.resume(group="g")
        crawl.define()
        assert worker.settle(page) == [SETTLED]
        crawl.add("two")
        assert crawl.finish() == ["two"]

    def test_no_key_of_it_is_left_on_the_server(self, crawl: Crawl) -> None:
        """What stays belongs to the crawl, its hosts and its workers."""
        self.fill(crawl, "zebra")
        unfiltered = [crawl.request("x", host, "zebra.never", dont_filter=True) for host in crawl.spread(6)]
        crawl.frontier.add(unfiltered, key="szebra:0")
        crawl.frontier.put_cookies("zebra", {"session": b"1"}, most=10)
        born, _ = crawl.frontier.page_versions("zebra", [("h", "p")])
        crawl.frontier.put_page_versions("zebra", born, {("h", "p"): b"1"}, most=10)
        list(crawl.frontier.drop_group("zebra"))
        whole = {
            keys.SUFFIXES[n]
            for n in (
                "meta",
                "host_policy",
                "hosts",
                "wake",
                "workers",
                "worker_seen",
                "worker_settled",
                "virtual",
                "dropped",
            )
        }
        left = {key.partition("}")[2]: content for key, content in stored(crawl)}
        assert set(re.findall(rb"b'([^']*\|[^']*)'", left.pop(keys.SUFFIXES["counts"], b""))) == set()
        answers = {suffix for suffix in left if suffix.startswith(keys.SUFFIXES["answers"])}
        assert left.keys() - answers <= whole

    def test_the_next_of_its_name_takes_unfiltered_requests_under_the_same_keys(self, crawl: Crawl) -> None:
        """Its rounds begin at 0 again, and so do the keys of what its start yields."""
        seeds = [crawl.request(f"seed {n}", host, dont_filter=True) for n, host in enumerate(crawl.spread(6))]
        for _ in range(2):
            crawl.define()
            assert crawl.frontier.add(seeds, key="sg:0")[0] == [ADDED] * 6
            assert crawl.frontier.add(seeds, key="sg:0")[0] == [DUPLICATE] * 6
            assert crawl.frontier.bury("g", b"", reason="bad", key="start g 0")
            list(crawl.frontier.drop_group("g"))

    def test_what_is_open_in_the_crawl_goes_with_it(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(start=True))
        crawl.frontier.define("other", {"a": LanePolicy()}, GroupPolicy(start=True))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 2
        list(crawl.frontier.drop_group("g"))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 1
        list(crawl.frontier.drop_group("other"))
        assert crawl.worker().exchange(want=crawl.frontier.partitions).hints.open == 0

    def test_who_outlives_it_leaves_nothing_of_it(self, crawl: Crawl) -> None:
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        crawl.frontier.add([crawl.request("page", lane="zebra.a")])
        worker = crawl.worker("zebra")
        page = worker.one()
        steps = crawl.frontier.drop_group("zebra")
        for _ in range(6):
            next(steps)
        crawl.expire()
        crawl.worker().exchange(want=crawl.frontier.partitions)
        list(steps)
        late = Settlement(page, add=[crawl.request("child", lane="zebra.a")], items=[b"item"])
        answer = worker.exchange(settle=[late], counters=[CounterChange("zebra", "n", 1.0)])
        assert answer.settled == [LOST]
        crawl.frontier.keep_items("zebra", "consumer", {0: ""})
        with pytest.raises(UnknownGroup):
            crawl.frontier.bury("zebra", b"bad task", reason="bad", key="t1")
        assert self.left(crawl, "zebra") == []

    def test_children_of_others_that_name_it_are_kept_with_their_page(self, crawl: Crawl) -> None:
        crawl.frontier.define("zebra", {"a": LanePolicy()})
        crawl.add("page")
        worker = crawl.worker("g")
        page = worker.one()
        list(crawl.frontier.drop_group("zebra"))
        children = [crawl.request(f"child {host}", host, "zebra.a") for host in crawl.spread(3)]
        answer = worker.exchange(settle=[Settlement(page, add=children)])
        assert answer.children == [[AddOutcome.UNKNOWN_LANE] * 3]
        letters = crawl.frontier.dead_letters("g")
        assert [(letter.lane, letter.reason) for letter in letters] == [("zebra.a", "unknown_lane")] * 3
        assert crawl.frontier.dead_letters("zebra") == []
        list(crawl.frontier.drop_group("g"))
        assert self.left(crawl, "zebra") == []

    def test_an_unknown_group_is_an_error(self, crawl: Crawl) -> None:
        crawl.define()
        with pytest.raises(UnknownGroup, match="unknown"):
            list(crawl.frontier.drop_group("unknown"))
        list(crawl.frontier.drop_group("g"))
        with pytest.raises(UnknownGroup):
            list(crawl.frontier.drop_group("g"))
