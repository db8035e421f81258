"""Guarantee 5: a request that kills its workers is tried alone, then set aside; its neighbours are not blamed."""

from __future__ import annotations

from gossamer.model import Ending, Lease
from gossamer.testing.contract.crawl import SETTLED, Crawl, Worker, names


def kill(crawl: Crawl, times: int, *, neighbours: bool = False) -> None:
    """Workers die `times` times on the request "poison", after it was sent."""
    for _ in range(times):
        worker = crawl.worker()
        leases = worker.lease(3 if neighbours else 1)
        worker.sent(*(lease for lease in leases if lease.payload == b"poison"))
        crawl.expire()


def suspect(crawl: Crawl) -> None:
    crawl.define()
    crawl.add("poison")
    kill(crawl, crawl.strikes)


class TestPoison:
    """Poison is contained."""

    def test_what_was_sent_when_its_workers_died_is_tried_alone(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        crawl.add("other")
        leases = worker.lease(5)
        assert [(lease.payload, lease.alone) for lease in leases] == [(b"poison", True)]

    def test_below_the_strikes_it_is_leased_like_any_other(self, crawl: Crawl) -> None:
        crawl.add("poison")
        kill(crawl, crawl.strikes - 1)
        assert not crawl.worker().one().alone

    def test_dying_on_it_alone_makes_it_a_dead_letter(self, crawl: Crawl) -> None:
        suspect(crawl)
        kill(crawl, 1)
        assert crawl.worker().lease(5) == []
        [letter] = crawl.frontier.dead_letters("g")
        assert (letter.reason, letter.host, letter.lane) == ("poison", crawl.host, "g.a")
        assert crawl.frontier.dead_letter(letter.partition, letter.id).payload == b"poison"
        assert (crawl.group().open, crawl.lane().failed) == (0, 1)

    def test_neighbours_that_were_merely_leased_are_not_blamed(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("poison", "near", "far")
        kill(crawl, crawl.strikes, neighbours=True)
        assert names(worker.lease(3)) == ["poison"]
        others = crawl.worker().lease(3)
        assert sorted(names(others)) == ["far", "near"]
        assert not any(lease.alone for lease in others)
        assert crawl.frontier.dead_letters("g") == []

    def test_orderly_retries_and_releases_are_no_deaths(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("slow")
        for _ in range(5 * crawl.strikes):
            lease = worker.one()
            worker.sent(lease)
            worker.settle(lease, ending=Ending.RETRY)
            worker.release(worker.one())
        for _ in range(2):
            assert not crawl.worker().one().alone
            crawl.expire()
        assert not crawl.worker().one().alone
        assert crawl.frontier.dead_letters("g") == []

    def test_deaths_before_anybody_said_that_it_was_sent_count_little(self, crawl: Crawl) -> None:
        """Some requests kill before their worker can say a word; so many deaths must not go unnoticed."""
        crawl.add("quick")
        for _ in range(4 * crawl.strikes):
            assert not crawl.worker().one().alone
            crawl.expire()
        assert crawl.worker().one().alone
        crawl.expire()
        assert crawl.worker().lease(1) == []
        assert [letter.reason for letter in crawl.frontier.dead_letters("g")] == ["poison"]

    def test_a_worker_that_tries_one_alone_gets_nothing_else(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        crawl.add("other")
        lease = worker.one()
        assert lease.alone
        assert worker.lease(5) == []
        assert names(crawl.worker().lease(5)) == ["other"]
        assert worker.settle(lease) == [SETTLED]

    def test_a_worker_that_holds_something_is_emptied_first(self, crawl: Crawl) -> None:
        crawl.add("poison")
        kill(crawl, crawl.strikes - 1)
        last = crawl.worker()
        last.sent(last.one())
        crawl.advance(crawl.lease_seconds / 2)
        crawl.add("other")
        busy = crawl.worker()
        held = busy.lease(1)
        assert names(held) == ["other"]
        # The last worker's lease runs out now, that of the busy one does not.
        crawl.advance(crawl.lease_seconds / 2 + 1)
        crawl.add("more")
        assert busy.exchange(want=3).leases == []
        assert busy.settle(*held) == [SETTLED]
        assert [(lease.payload, lease.alone) for lease in busy.lease(3)] == [(b"poison", True)]

    def test_success_alone_clears_it(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        assert worker.settle(worker.one()) == [SETTLED]
        assert (crawl.group().open, crawl.lane().done) == (0, 1)
        crawl.add("other", "another")
        assert len(worker.lease(2)) == 2

    def test_a_retry_asked_for_alone_clears_its_strikes(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        worker.settle(worker.one(), ending=Ending.RETRY)
        assert not worker.one().alone
        crawl.expire()
        assert not crawl.worker().one().alone

    def test_released_when_alone_it_stays_a_suspect(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        assert worker.release(worker.one()) == [True]
        assert crawl.worker().one().alone
        crawl.balanced()

    def test_lost_alone_before_it_was_sent_it_is_tried_again(self, crawl: Crawl) -> None:
        suspect(crawl)
        assert crawl.worker().one().alone
        crawl.expire()
        again = crawl.worker().one()
        assert again.alone
        assert crawl.frontier.dead_letters("g") == []

    def test_a_suspect_of_a_blocked_host_stops_nobody(self, crawl: Crawl, worker: Worker) -> None:
        suspect(crawl)
        crawl.frontier.block(crawl.host, 3600)
        crawl.add("other", host=crawl.hosts(2)[1])
        lease = worker.one()
        assert lease.payload == b"other"
        worker.settle(lease)
        answer = worker.exchange(want=1)
        assert answer.leases == []
        assert answer.hints.ready_in is not None
        assert 0 < answer.hints.ready_in <= 3600
        crawl.advance(3601)
        assert worker.one().alone

    def test_a_suspect_of_a_paused_lane_waits(self, crawl: Crawl) -> None:
        suspect(crawl)
        crawl.frontier.pause(lane="g.a")
        assert crawl.worker().lease(1) == []
        crawl.frontier.resume(lane="g.a")
        assert crawl.worker().one().alone

    def test_several_suspects_are_tried_one_after_the_other(self, crawl: Crawl) -> None:
        hosts = crawl.spread(4)
        crawl.frontier.add([crawl.request(f"p{n}", host) for n, host in enumerate(hosts)])
        for _ in range(crawl.strikes):
            worker = crawl.worker()
            worker.sent(*worker.lease(4))
            crawl.expire()
        worker = crawl.worker()
        tried: list[Lease] = []
        for _ in range(4):
            lease = worker.one()
            assert lease.alone
            worker.settle(lease)
            tried.append(lease)
        assert sorted(names(tried)) == [f"p{n}" for n in range(4)]
        assert crawl.group().open == 0
