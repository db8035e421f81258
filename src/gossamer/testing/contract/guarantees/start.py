"""Guarantee 9: starts run once per round; drained is definite."""

from __future__ import annotations

import pytest

from gossamer.errors import UnknownGroup
from gossamer.model import GroupPolicy, LanePolicy, SeenPolicy, SeenScope, Settlement, StartState
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, Crawl, Worker

OWED = GroupPolicy(start=True)


class TestStartedOnce:
    """`start()` runs once per round, whatever the number of workers."""

    def test_one_worker_runs_it(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        workers = [crawl.worker() for _ in range(4)]
        states = [crawl.frontier.start("g", worker.token) for worker in workers]
        assert states == [(StartState.GRANTED, 0)] + [(StartState.BUSY, 0)] * 3
        assert crawl.frontier.start("g", workers[0].token) == (StartState.GRANTED, 0)
        assert crawl.frontier.started("g", workers[0].token)
        assert [crawl.frontier.start("g", worker.token) for worker in workers] == [(StartState.DONE, 0)] * 4

    def test_it_is_taken_over_when_its_worker_dies(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.start("g", first.token)
        crawl.advance(crawl.lease_seconds - 1)
        assert crawl.frontier.start("g", second.token)[0] is StartState.BUSY
        crawl.advance(2)
        assert crawl.frontier.start("g", second.token)[0] is StartState.GRANTED
        assert not crawl.frontier.renew_start("g", first.token)
        assert not crawl.frontier.started("g", first.token)
        assert crawl.frontier.started("g", second.token)

    def test_renewing_keeps_the_right(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.start("g", first.token)
        for _ in range(3):
            crawl.advance(crawl.lease_seconds - 5)
            assert crawl.frontier.renew_start("g", first.token)
        assert crawl.frontier.start("g", second.token)[0] is StartState.BUSY

    def test_given_back_the_next_worker_has_it(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.start("g", first.token)
        assert not crawl.frontier.release_start("g", second.token)
        assert crawl.frontier.release_start("g", first.token)
        assert (crawl.group().open, crawl.group().start) == (1, "owed")
        assert crawl.frontier.start("g", second.token)[0] is StartState.GRANTED
        assert not crawl.frontier.started("g", first.token)
        assert crawl.frontier.started("g", second.token)

    def test_a_new_round_owes_it_again(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=OWED)
        for number in range(3):
            assert crawl.frontier.start("g", worker.token) == (StartState.GRANTED, number)
            assert crawl.frontier.started("g", worker.token)
            assert crawl.frontier.drained("g").drained
            assert crawl.frontier.new_round("g", number + 1) == number + 1
            assert crawl.group().round == number + 1
            assert not crawl.frontier.drained("g").drained

    def test_an_older_round_changes_nothing(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=OWED)
        crawl.frontier.new_round("g", 5)
        crawl.frontier.start("g", worker.token)
        crawl.frontier.started("g", worker.token)
        assert crawl.frontier.new_round("g", 5) == 5
        assert crawl.frontier.new_round("g", 3) == 5
        assert crawl.frontier.start("g", worker.token) == (StartState.DONE, 5)

    def test_a_round_begun_takes_the_old_starts_right(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=OWED)
        crawl.frontier.start("g", worker.token)
        crawl.frontier.new_round("g", 1)
        assert not crawl.frontier.started("g", worker.token)
        assert crawl.group().open == 1

    def test_a_group_without_a_start_owes_none(self, crawl: Crawl) -> None:
        crawl.define()
        assert crawl.frontier.start("g", crawl.worker().token)[0] is StartState.DONE
        with pytest.raises(UnknownGroup):
            crawl.frontier.start("unknown", crawl.worker().token)
        with pytest.raises(UnknownGroup):
            crawl.frontier.new_round("unknown", 1)

    def test_a_start_no_longer_wanted_holds_nobody(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        assert not crawl.frontier.drained("g").drained
        crawl.define({}, GroupPolicy())
        assert crawl.frontier.drained("g").drained
        crawl.define({}, OWED)
        assert not crawl.frontier.drained("g").drained
        crawl.balanced()

    def test_defining_again_owes_no_second_start(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        crawl.define(policy=OWED)
        assert crawl.group().open == 1

    def test_a_round_of_list_pages(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)), "b": LanePolicy()})
        assert crawl.add("list") == [ADDED]
        assert crawl.add("post", lane="g.b") == [ADDED]
        crawl.frontier.new_round("g", 1)
        assert crawl.add("list") == [ADDED]
        assert crawl.add("post", lane="g.b") == [DUPLICATE]


class TestDrained:
    """A group is drained when nothing is queued, delayed, leased, waiting as a task or owed as a start."""

    def test_not_before_its_start(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=OWED)
        assert crawl.frontier.drained("g") == (False, 1, 0)
        crawl.frontier.start("g", worker.token)
        assert not crawl.frontier.drained("g").drained
        crawl.add("one")
        crawl.frontier.started("g", worker.token)
        assert crawl.frontier.drained("g") == (False, 1, 0)
        crawl.finish()
        assert crawl.frontier.drained("g") == (True, 0, 0)

    def test_not_while_anything_is_queued_leased_or_delayed(self, crawl: Crawl, worker: Worker) -> None:
        for number, host in enumerate(crawl.spread(3)):
            crawl.frontier.add([crawl.request(f"now {number}", host), crawl.request(f"later {number}", host, delay=30)])
        assert crawl.frontier.drained("g") == (False, 6, 0)
        leases = worker.lease(3)
        assert crawl.frontier.drained("g").open == 6
        worker.settle(*leases)
        assert crawl.frontier.drained("g") == (False, 3, 0)
        crawl.advance(30)
        worker.settle(*worker.lease(3))
        assert crawl.frontier.drained("g").drained

    def test_not_while_a_task_waits_or_is_leased(self, crawl: Crawl, worker: Worker) -> None:
        source = f"{crawl.frontier.crawl}:tasks"
        crawl.define(policy=GroupPolicy(tasks=(source,)))
        assert crawl.frontier.drained("g").drained
        crawl.command(("RPUSH", source, "a task"), source)
        assert crawl.frontier.drained("g") == (False, 0, 1)
        [task] = crawl.frontier.lease_tasks(worker.token, source, 1)
        assert crawl.frontier.drained("g") == (False, 0, 1)
        crawl.frontier.settle_tasks(worker.token, source, done=[task])
        assert crawl.frontier.drained("g").drained

    def test_not_while_a_page_goes_from_partition_to_partition(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.spread(3)
        crawl.add("page 0", host=hosts[0])
        for number in range(1, 12):
            page = worker.one()
            assert not crawl.frontier.drained("g").drained
            child = crawl.request(f"page {number}", hosts[number % 3])
            worker.exchange(settle=[Settlement(page, add=[child])])
            assert not crawl.frontier.drained("g").drained
        worker.settle(worker.one())
        assert crawl.frontier.drained("g").drained

    def test_hints_tell_what_is_open(self, crawl: Crawl) -> None:
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.add("one", "two")
        crawl.add("elsewhere", lane="other.a")
        want = crawl.frontier.partitions
        assert crawl.worker("g").exchange(want=want).hints.open == 2
        assert crawl.worker().exchange(want=want).hints.open == 3
        assert crawl.worker("unknown").exchange(want=want).hints.open == 0

    def test_an_unknown_group_is_an_error(self, crawl: Crawl) -> None:
        with pytest.raises(UnknownGroup):
            crawl.frontier.drained("unknown")
