"""A server whose state went back: what callers remember of it ends with the state it was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from gossamer.errors import LaneKept
from gossamer.frontier.call import function_call
from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    GroupPolicy,
    LanePolicy,
    PartitionState,
    Request,
    SeenPolicy,
    SeenScope,
    Settlement,
    StartState,
    Token,
)
from gossamer.testing.contract.crawl import ADDED, SETTLED, Crawl, Worker
from gossamer.testing.contract.earlier_state import another_process, define_apart, go_back, picture


class CachingWorker:
    """A worker that leaves out children which it knows to be known."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl, self.worker = crawl, crawl.worker()
        self.states: dict[int, PartitionState] = {}
        self.made = 0

    def settle(self, page: str, children: Sequence[str] = (), withheld: Sequence[str] = ()) -> None:
        """Fetch the next request, which is `page`, and settle it."""
        lease = self.worker.one()
        assert lease.payload.decode() == page

        def make() -> list[Request]:
            self.made += 1
            return self.crawl.requests(withheld)

        answer = self.worker.exchange(
            settle=[Settlement(lease, add=self.crawl.requests(children), withheld=make if withheld else None)],
            relies=self.states,
        )
        assert answer.settled == [SETTLED]
        assert [len(outcomes) for outcomes in answer.children] == [len(children)]
        self.states.update(answer.states)


class TestWentBack:
    """Whatever a caller remembers of the frontier ends with the state that it was learned from."""

    def test_what_is_known_is_left_out(self, crawl: Crawl) -> None:
        crawl.add("a", "b")
        reader = CachingWorker(crawl)
        reader.settle("a", ["child"])
        before = crawl.lane().duplicates
        reader.settle("b", withheld=["child"])
        assert reader.made == 0
        assert crawl.lane().duplicates == before
        assert crawl.finish() == ["child"]

    def test_an_older_state_is_told_what_was_left_out(self, crawl: Crawl) -> None:
        crawl.add("a", "b")
        reader = CachingWorker(crawl)
        [a, b] = reader.worker.lease(2)
        earlier = picture(crawl)
        answer = reader.worker.exchange(settle=[Settlement(a, add=crawl.requests(["child"]))])
        assert answer.children == [[ADDED]]
        go_back(crawl, earlier)
        told = reader.worker.exchange(
            settle=[Settlement(b, withheld=lambda: crawl.requests(["child"]))], relies=answer.states
        )
        assert told.settled == [SETTLED]
        assert told.states[0].change != answer.states[0].change + 1
        assert crawl.lane().queued == 1
        crawl.balanced()

    def test_so_is_another_server_process(self, crawl: Crawl) -> None:
        crawl.add("a", "b", "c")
        reader = CachingWorker(crawl)
        reader.settle("a", ["child"])
        before = dict(reader.states)
        another_process(crawl)
        reader.settle("b", withheld=["child", "other"])
        assert reader.made == 1
        assert not before[0].leads_to(reader.states[0])
        reader.settle("c", withheld=["child"])
        assert reader.made == 1
        assert crawl.finish() == ["child", "other"]

    def test_a_process_that_took_over_and_wrote_is_noticed_when_the_first_one_is_back(self, crawl: Crawl) -> None:
        crawl.add("a", "b")
        reader = CachingWorker(crawl)
        reader.settle("a", ["child"])
        another_process(crawl)
        crawl.finish(Worker(crawl.frontier), most=0)
        # Anything that writes notes who wrote last.
        crawl.frontier.define("other", {})
        reader.settle("b", withheld=["child"])
        assert reader.made == 1

    def test_a_refused_call_changes_nothing_before_it_is_told_everything(self, crawl: Crawl) -> None:
        crawl.add("a", "b")
        reader = CachingWorker(crawl)
        reader.settle("a", ["child"])
        another_process(crawl)
        lease = reader.worker.one()

        def make() -> list[Request]:
            raise LookupError("asked for what was left out")

        settle = [Settlement(lease, withheld=make, items=[b"i"])]
        with pytest.raises(LookupError):
            reader.worker.exchange(settle=settle, relies=reader.states)
        assert (crawl.group().pages, crawl.items(), crawl.lane().leased) == (1, [], 1)

    def test_a_call_that_was_told_everything_may_be_repeated(self, crawl: Crawl) -> None:
        crawl.add("a", "b")
        reader = CachingWorker(crawl)
        reader.settle("a", ["child"])
        lease = reader.worker.one()
        another_process(crawl)
        settle = [Settlement(lease, add=crawl.requests(["new"]), withheld=lambda: crawl.requests(["child", "other"]))]
        told = [crawl.frontier.exchange(reader.worker.token, settle=settle, relies=reader.states) for _ in range(2)]
        assert [(answer.settled, answer.children) for answer in told] == [([SETTLED], [[ADDED]])] * 2
        assert sorted(crawl.finish(crawl.worker())) == ["child", "new", "other"]

    def test_a_call_repeated_after_it_was_forgotten_is_executed_again(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("a")
        lease = worker.one()
        earlier = picture(crawl)
        settle = [Settlement(lease, add=crawl.requests(["child"]), items=[b"i"])]
        first = crawl.frontier.exchange(worker.token, settle=settle)
        go_back(crawl, earlier)
        again = crawl.frontier.exchange(worker.token, settle=settle)
        assert (again.settled, again.children) == (first.settled, first.children) == ([SETTLED], [[ADDED]])
        assert crawl.items() == [b"i"]
        assert crawl.finish() == ["child"]

    def test_what_was_added_elsewhere_is_added_again(self, crawl: Crawl) -> None:
        """A page is settled in its partition, its children are in another, and that one goes back."""
        other = crawl.frontier.partitions - 1
        if not other:
            return
        crawl.add("page", "another")
        worker, [host] = crawl.worker(), crawl.hosts(1, other)
        earlier = picture(crawl, other)
        children = [
            crawl.request("child", host),
            crawl.request("twin", host, dont_filter=True),
            crawl.request("twin", host, dont_filter=True),
        ]
        [page] = worker.lease(1)
        assert worker.exchange(settle=[Settlement(page, add=children)], want=1).children == [[ADDED] * 3]
        assert crawl.add("start", host=host) == [ADDED]
        go_back(crawl, earlier, other)
        for _ in range(2):
            # The second one has forgotten nothing, and gets nothing twice.
            another_process(crawl, other)
            worker.exchange(want=3)
        crawl.balanced()
        crawl.expire()
        assert sorted(crawl.finish()) == ["another", "child", "start", "twin", "twin"]

    def test_a_partition_that_lost_the_beginning_of_a_round_begins_it_again(self, crawl: Crawl) -> None:
        """Otherwise the memory of the last round takes for known what the new one has there."""
        partitions = crawl.frontier.partitions
        for lost in range(partitions if partitions > 1 else 0):
            group, number, worker = f"g{lost}", 0, crawl.worker(f"g{lost}")
            crawl.frontier.define(
                group, {"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}, GroupPolicy(start=True)
            )
            [here], [there] = crawl.hosts(1, (lost + 1) % partitions), crawl.hosts(1, lost)
            for number in range(2):
                earlier = picture(crawl, lost)
                crawl.frontier.new_round(group, number)
                self._start(crawl, group, number, [crawl.request("page", here, f"{group}.a")])
                [page] = worker.lease(1)
                worker.exchange(settle=[Settlement(page, add=[crawl.request("child", there, f"{group}.a")])])
                if number == 0:
                    assert crawl.finish(worker) == ["child"]
            go_back(crawl, earlier, lost)
            another_process(crawl, lost)
            worker.exchange(want=partitions)
            crawl.expire()
            assert crawl.group(group).round == 1
            if crawl.group(group).start == "owed":  # The partition that knows of starts has gone back.
                self._start(crawl, group, 1, [crawl.request("page", here, f"{group}.a")])
            assert crawl.finish(worker) == ["child"]
            crawl.balanced(group)

    def test_a_partition_that_lost_a_group_or_a_lane_has_it_again(self, crawl: Crawl) -> None:
        partitions = crawl.frontier.partitions
        for lost in range(partitions if partitions > 1 else 0):
            [here], [there] = crawl.hosts(1, (lost + 1) % partitions), crawl.hosts(1, lost)
            for whole, home in ((True, False), (False, False), (False, True)):
                named = (f"{lost}{whole}{number}" for number in range(99))
                group = next(name for name in named if (keys.home_of(name, partitions) == lost) is home)
                still = f"{group}paused"
                nothing = picture(crawl, lost)
                for name in (group, still):
                    crawl.frontier.define(name, {"a": LanePolicy(tier=2)}, GroupPolicy(weight=3))
                crawl.frontier.pause(group=still, reason="by hand")
                one_lane = picture(crawl, lost)
                crawl.frontier.define(group, {"b": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
                crawl.frontier.pause(lane=f"{group}.b", reason="by hand")
                before, worker = crawl.frontier.counts(), crawl.worker(group, still)
                crawl.add("page", "other", host=here, lane=f"{group}.a")
                pages = worker.lease(2 * partitions)
                first = [crawl.request("first", there, f"{group}.{lane}") for lane in "ab"]
                assert worker.exchange(settle=[Settlement(pages[0], add=first)]).children == [[ADDED] * 2]
                go_back(crawl, nothing if whole else one_lane, lost)
                another_process(crawl, lost)
                second = [crawl.request("second", there, f"{group}.{lane}") for lane in "ac"]
                told = worker.exchange(settle=[Settlement(pages[1], add=second)])
                assert told.children == [[ADDED, AddOutcome.UNKNOWN_LANE]], "the lane is there again; .c never was"
                after = crawl.frontier.counts()
                assert (after.group_policies, after.lane_policies) == (before.group_policies, before.lane_policies)
                crawl.expire()
                assert sorted(crawl.finish(worker)) == ["first", "second"]
                crawl.frontier.resume(lane=f"{group}.b")
                assert crawl.finish(worker) == ["first"]

    def test_nothing_of_a_dropped_group_or_lane_is_added_to_the_next_one(self, crawl: Crawl) -> None:
        """Whoever has dropped it, and whichever partition goes on in another process."""
        other = crawl.frontier.partitions - 1
        if not other:
            return
        [host], worker = crawl.hosts(1, other), crawl.worker()
        for whole, lanes in ((True, "ab"), (False, "ab"), (False, "b")):
            crawl.define({"a": LanePolicy(), "b": LanePolicy()})
            crawl.add(f"page {whole} {lanes}")
            [page] = worker.lease(1)
            children = [crawl.request("child", host), crawl.request("twin", host, dont_filter=True)]
            assert worker.exchange(settle=[Settlement(page, add=children)]).children == [[ADDED] * 2]
            assert crawl.add("start", host=host) == [ADDED]
            assert sum(crawl.frontier.drop_group("g") if whole else crawl.frontier.drop_lane("g.a")) == 3
            crawl.define({name: LanePolicy() for name in lanes})
            another_process(crawl, other)
            worker.exchange(everywhere=True)
            assert (crawl.finish(), crawl.group().dead) == ([], 0)
            crawl.balanced()

    def test_who_runs_a_start_begins_its_round_where_it_was_lost(self, crawl: Crawl) -> None:
        """Nobody was there when the partition went back: who runs the start has nothing to compare its state with."""
        partitions = crawl.frontier.partitions
        lost = next((p for p in range(partitions) if p != keys.home_of("g", partitions)), None)
        if lost is None:
            return
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}, GroupPolicy(start=True))
        [host] = crawl.hosts(1, lost)
        for number in range(2):
            earlier = picture(crawl, lost)
            crawl.frontier.new_round("g", number)
            if number:
                go_back(crawl, earlier, lost)
            self._start(crawl, "g", number, [crawl.request("page", host)])
            assert crawl.finish() == ["page"]

    def test_what_was_added_to_a_young_group_is_added_again_whatever_the_clocks(self, crawl: Crawl) -> None:
        """The clock of the partition that lost it is behind those of the others, by which the group is younger than what was added."""
        partitions = crawl.frontier.partitions
        for lost in range(partitions if partitions > 1 else 0):
            group, worker = f"g{lost}", crawl.worker(f"g{lost}")
            [here], [there] = crawl.hosts(1, (lost + 1) % partitions), crawl.hosts(1, lost)
            worker.exchange(everywhere=True)
            for p in range(partitions):
                key = keys.partition_meta(crawl.frontier.crawl, p)
                crawl.command(("HINCRBY", key, "off", 0 if p == lost else 5000), key)
            nothing = picture(crawl, lost)
            crawl.frontier.define(group, {"a": LanePolicy()})
            crawl.frontier.add([crawl.request("page", here, f"{group}.a")])
            worker.settle(*worker.lease(partitions), add=[crawl.request("child", there, f"{group}.a")])
            go_back(crawl, nothing, lost)
            another_process(crawl, lost)
            worker.exchange(everywhere=True)
            assert crawl.finish(worker) == ["child"]

    def test_a_group_that_a_partition_lost_is_made_again_for_whoever_adds_to_it(self, crawl: Crawl) -> None:
        """Though nobody named it when the partition answered in another state first."""
        partitions = crawl.frontier.partitions
        for lost in range(partitions if partitions > 1 else 0):
            group, worker, nothing = f"g{lost}", crawl.worker(), picture(crawl, lost)
            [here], [there] = crawl.hosts(1, (lost + 1) % partitions), crawl.hosts(1, lost)
            crawl.frontier.define(
                group, {"a": LanePolicy(), "never": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))}
            )
            worker.exchange(everywhere=True)
            go_back(crawl, nothing, lost)
            another_process(crawl, lost)
            worker.exchange(everywhere=True)
            seeds = [crawl.request("page", here, f"{group}.a"), crawl.request("once", there, f"{group}.never")]
            assert crawl.frontier.add(seeds)[0] == [ADDED] * 2
            page = next(lease for lease in worker.lease(partitions + 1) if lease.payload == b"page")
            children = [crawl.request("child", there, f"{group}.a"), crawl.request("typo", there, f"{group}.none")]
            told = worker.exchange(settle=[Settlement(page, add=children)])
            assert told.children == [[ADDED, AddOutcome.UNKNOWN_LANE]]
            crawl.expire()
            assert sorted(crawl.finish(worker)) == ["child", "once"], "what was there comes once"

    def test_two_partitions_that_lost_a_group_have_it_again(self, crawl: Crawl) -> None:
        """Also where the group is at home, so that what is known of it is elsewhere."""
        partitions = crawl.frontier.partitions
        for lost in combinations(range(partitions), 2) if partitions > 2 else ():
            group, hosts = f"g{lost[0]}{lost[1]}", [crawl.hosts(1, p)[0] for p in range(partitions)]
            nothing, worker = {p: picture(crawl, p) for p in lost}, crawl.worker(group)
            crawl.frontier.define(
                group, {"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}, GroupPolicy(start=True)
            )
            crawl.frontier.new_round(group, 1)
            kept = next(p for p in range(partitions) if p not in lost)
            seeds = [crawl.request("page", hosts[kept], f"{group}.a")]
            self._start(crawl, group, 1, seeds)
            children = [crawl.request(f"{p}", host, f"{group}.a") for p, host in enumerate(hosts)]
            worker.settle(worker.one(), add=children)
            for p in lost:
                go_back(crawl, nothing[p], p)
                another_process(crawl, p)
            worker.exchange(everywhere=True)
            assert crawl.group(group).round == 1
            if crawl.group(group).start == "owed":  # The partition that knows of starts has gone back.
                self._start(crawl, group, 1, seeds)
            assert sorted(crawl.finish(worker)) == [f"{p}" for p in range(partitions)]
            assert crawl.frontier.drained(group).drained
            crawl.balanced(group)

    def test_a_drop_of_a_lane_that_a_partition_forgot_is_made_up_for(self, crawl: Crawl) -> None:
        """By workers that live, also if the partition is the group's home or was in the midst of it; and the next lane of its name, if there
        is one, meets nothing of the dropped one."""
        partitions = crawl.frontier.partitions
        hosts = [crawl.hosts(1, p)[0] for p in range(partitions)]
        for number, lost in enumerate(2 * list(range(partitions)) if partitions > 1 else ()):
            next_one, middle, group = number < partitions, number % 2 == 0, f"g{number}"
            lanes = {"a": LanePolicy(), "b": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}
            crawl.frontier.define(group, {"a": lanes["a"]})
            define_apart(crawl, group, {"b": lanes["b"]}, range(partitions))
            worker = crawl.worker(group)
            dropped = [crawl.request(page, host, f"{group}.b") for host in hosts for page in ("queued", "settled")]
            crawl.frontier.add(dropped)
            worker.settle(*worker.lease(partitions))
            crawl.frontier.add([crawl.request("kept", host, f"{group}.a") for host in hosts])
            earlier = picture(crawl, lost)
            steps = crawl.frontier.drop_lane(f"{group}.b")
            next(steps)
            if middle:
                earlier = picture(crawl, lost)
            assert sum(steps) == partitions
            if next_one:
                crawl.frontier.define(group, lanes)
            go_back(crawl, earlier, lost)
            another_process(crawl, lost)
            worker.exchange(everywhere=True)
            there = [row.lane for row in crawl.frontier.counts(group).lanes]
            assert there == ([f"{group}.a", f"{group}.b"] if next_one else [f"{group}.a"])
            pages = ["kept"] * partitions
            if next_one:
                assert crawl.frontier.add(dropped)[0] == [ADDED] * len(dropped)
                pages += ["queued", "settled"] * partitions
            assert sorted(crawl.finish(worker)) == sorted(pages)
            assert crawl.frontier.drained(group).drained
            crawl.balanced(group)

    def test_a_lane_that_was_kept_once_and_is_dropped_now_stays_nowhere(self, crawl: Crawl) -> None:
        """Nor where a partition has forgotten that it was kept, and is in the midst of the first drop."""
        partitions = crawl.frontier.partitions
        for lost in range(partitions if partitions > 1 else 0):
            group, lanes = f"g{lost}", {"a": LanePolicy(), "b": LanePolicy()}
            crawl.frontier.define(group, lanes)
            worker = crawl.worker(group)
            crawl.frontier.add([crawl.request("page", crawl.hosts(1, p)[0], f"{group}.b") for p in range(partitions)])
            steps = crawl.frontier.drop_lane(f"{group}.b")
            next(steps)
            earlier = picture(crawl, lost)
            crawl.frontier.define(group, lanes)
            with pytest.raises(LaneKept):
                next(steps)
            assert sum(crawl.frontier.drop_lane(f"{group}.b")) == partitions
            go_back(crawl, earlier, lost)
            another_process(crawl, lost)
            worker.exchange(everywhere=True)
            assert [row.lane for row in crawl.frontier.counts(group).lanes] == [f"{group}.a"]
            assert crawl.frontier.drained(group).drained

    def test_who_has_not_heard_of_the_drop_of_a_lane_does_not_bring_it_back(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        policy = crawl.frontier.counts().lane_policies["g.b"]
        late = {
            "salt": "late",
            "group": "g",
            "policy": False,
            "fresh": {},
            "lanes": {"b": {**policy, "made": 0}},
            "home": False,
        }
        assert sum(crawl.frontier.drop_lane("g.b")) == 0
        bases = [keys.base(crawl.frontier.crawl, p) for p in range(crawl.frontier.partitions)]
        crawl.frontier.ask([function_call("define", base, late) for base in bases])  # type: ignore[attr-defined]
        assert [row.lane for row in crawl.frontier.counts().lanes] == ["g.a"]
        crawl.define({"b": LanePolicy()})
        assert crawl.add("page", lane="g.b") == [ADDED]

    def test_a_drop_that_a_partition_forgot_is_made_up_for(self, crawl: Crawl) -> None:
        """By workers that live, and by whoever makes the next group of its name, which meets nothing of the dropped one."""
        partitions = crawl.frontier.partitions
        for number, lost in enumerate(2 * list(range(partitions)) if partitions > 1 else ()):
            alive, middle = number < partitions, number % 2 == 0
            group, hosts = f"g{number}", [crawl.hosts(1, p)[0] for p in range(partitions)]
            worker, pages = crawl.worker(group), ["queued", "leased", "settled"]

            def requests(
                group: str = group, hosts: Sequence[str] = hosts, pages: Sequence[str] = pages
            ) -> list[Request]:
                return [crawl.request(page, host, f"{group}.a") for host in hosts for page in pages]

            def make(group: str = group) -> None:
                crawl.frontier.define(group, {"a": LanePolicy()}, GroupPolicy(start=True))

            make()
            crawl.frontier.new_round(group, 1)
            self._start(crawl, group, 1, requests())
            leases = worker.lease(2 * partitions)
            worker.settle(*leases[partitions:])
            earlier = picture(crawl, lost)
            worker.release(*leases[:partitions])
            steps = crawl.frontier.drop_group(group)
            next(steps)
            if middle:
                earlier = picture(crawl, lost)
            for _ in steps:
                pass
            if alive:
                make()
                self._start(crawl, group, 0, requests())
            go_back(crawl, earlier, lost)
            another_process(crawl, lost)
            if alive:
                worker.exchange(everywhere=True)
                if crawl.group(group).start == "owed":
                    self._start(crawl, group, 0, requests())
            else:
                make()
                self._start(crawl, group, 0, requests())
            assert crawl.group(group).round == 0
            assert sorted(crawl.finish(worker)) == sorted(partitions * pages)
            assert crawl.frontier.drained(group).drained
            crawl.balanced(group)
            assert sum(crawl.frontier.drop_group(group)) == 0

    def test_who_defines_a_group_begins_its_round_where_it_was_lost(self, crawl: Crawl) -> None:
        """Nobody was there when the partition went back, and the start has run: the next worker has nothing but the group to ask for."""
        partitions = crawl.frontier.partitions
        lost = next((p for p in range(partitions) if p != keys.home_of("g", partitions)), None)
        if lost is None:
            return
        [here], [there] = crawl.hosts(1, keys.home_of("g", partitions)), crawl.hosts(1, lost)
        for number in range(2):
            earlier = picture(crawl, lost)
            crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}, GroupPolicy(start=True))
            crawl.frontier.new_round("g", number)
            self._start(crawl, "g", number, [crawl.request("page", here)])
            if number:
                go_back(crawl, earlier, lost)
                crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}, GroupPolicy(start=True))
            worker = crawl.worker()
            worker.settle(worker.one(), add=[crawl.request("child", there)])
            assert crawl.finish() == ["child"]

    def _start(self, crawl: Crawl, group: str, number: int, requests: Sequence[Request]) -> None:
        token = Token.fresh()
        assert crawl.frontier.start(group, token) == (StartState.GRANTED, number)
        crawl.frontier.add(requests, key=f"start:{number}")
        assert crawl.frontier.started(group, token)
