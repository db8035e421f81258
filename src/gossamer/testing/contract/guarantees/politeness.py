"""Guarantee 7: a host never sees more of the whole crawl than its policy allows."""

from __future__ import annotations

from collections import Counter

import pytest

from gossamer.errors import InvalidRequest
from gossamer.model import Ending, GroupPolicy, HostPolicy, LanePolicy, Request, Sent, Settlement
from gossamer.testing.contract.crawl import SETTLED, Crawl, Worker, names


def ready_in(crawl: Crawl) -> float | None:
    return crawl.worker().exchange(want=crawl.frontier.partitions).hints.ready_in


class TestPoliteness:
    """Delay and concurrency of hosts, for the whole crawl."""

    def test_requests_keep_the_delay_whatever_the_workers(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10))
        crawl.add("1", "2", "3")
        assert names(crawl.worker().send(3)) == ["1"]
        assert crawl.worker().lease(3) == []
        wait = ready_in(crawl)
        assert wait is not None
        assert 9 < wait <= 10
        crawl.advance(9)
        assert crawl.worker().lease(3) == []
        crawl.advance(1)
        assert names(crawl.worker().lease(3)) == ["2"]
        assert crawl.worker().lease(3) == []

    def test_the_delay_counts_from_the_sending_not_from_the_settlement(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10))
        crawl.add("1", "2")
        sent = worker.send()
        crawl.advance(9)
        worker.settle(*sent)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert names(worker.lease(1)) == ["2"]

    def test_a_lease_that_waited_to_be_sent_shortens_no_delay(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=3, concurrency=8))
        crawl.add("1", "2")
        worker, other = crawl.worker(), crawl.worker()
        lease = worker.one()
        crawl.advance(2)
        worker.sent(lease)
        crawl.advance(2)
        assert other.lease(1) == [], "four seconds after the lease, two after the sending"
        crawl.advance(1)
        assert names(other.lease(1)) == ["2"]

    def test_a_sending_counts_from_when_it_was_not_from_its_report(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=8))
        crawl.add("1", "2")
        lease = worker.one()
        crawl.advance(4)
        worker.exchange(sent=[Sent(lease, 3)])
        crawl.advance(6.9)
        assert worker.lease(1) == []
        crawl.advance(0.1)
        assert names(worker.lease(1)) == ["2"]

    def test_what_is_reported_as_sent_after_its_window_keeps_others_away_all_the_same(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(delay=3))
        crawl.add("1", "2")
        worker, other = crawl.worker("g"), crawl.worker("g")
        answer = worker.exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        crawl.advance(lease.send_by - answer.hints.now + 4)
        other.exchange()  # by now the host is at rest
        worker.sent(lease)
        assert other.lease(1) == []
        crawl.advance(3)
        assert names(other.lease(1)) == ["2"]

    def test_before_it_is_reported_as_sent_its_host_gets_no_other(self, crawl: Crawl) -> None:
        """It may be sent in the last moment of its window; then the delay begins."""
        crawl.frontier.set_host("", HostPolicy(delay=1, concurrency=8))
        crawl.add("1", "2")
        answer = crawl.worker().exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        window = lease.send_by - answer.hints.now
        crawl.advance(window)
        assert crawl.worker().lease(1) == []
        wait = ready_in(crawl)
        assert wait is not None
        assert 0 < wait <= 1
        crawl.advance(1)
        assert names(crawl.worker().lease(1)) == ["2"]

    def test_what_is_given_back_unsent_costs_no_delay(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=8))
        crawl.add("1", "2")
        assert worker.release(worker.one()) == [True]
        assert names(crawl.worker().lease(1)) == ["1"]

    def test_only_hosts_with_a_delay_wait_for_reports(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1", "2")
        first, second = worker.one(), worker.one()
        assert (first.paced, second.paced) == (False, False)
        crawl.frontier.set_host("", HostPolicy(delay=1))
        crawl.add("3", host=crawl.hosts(2)[1])
        assert worker.one().paced

    def test_a_late_report_is_not_taken_for_that_of_another(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=1, concurrency=8))
        crawl.add("1", "2", "3")
        first, second = crawl.worker(), crawl.worker()
        late = first.one()
        crawl.advance(7)
        assert names(second.lease(1)) == ["2"]
        first.sent(late)
        crawl.advance(2)
        assert crawl.worker().lease(1) == [], "the second may still be on its way"

    def test_only_its_own_lease_ends_the_wait_of_a_host(self, crawl: Crawl) -> None:
        """Leases of one call have one nonce, be they of a group with a delay or without."""
        crawl.frontier.define("slow", {"a": LanePolicy()}, GroupPolicy(delay=40))
        crawl.frontier.set_host("", HostPolicy(concurrency=8))
        crawl.add("released", "fetched", "settled")
        crawl.add("first", "second", lane="slow.a")
        worker, other = crawl.worker(), crawl.worker("slow")
        answer = worker.exchange(want=6 * crawl.frontier.partitions)
        leases = {lease.payload.decode(): lease for lease in answer.leases}
        first = leases["first"]
        assert {lease.nonce for lease in answer.leases} == {first.nonce}
        assert [name for name, lease in leases.items() if lease.paced] == ["first"]
        worker.release(leases["released"])
        worker.fetched(leases["fetched"])
        worker.settle(leases["settled"])
        crawl.advance(first.send_by - answer.hints.now - 0.5)
        assert other.lease(1) == [], "the first may be sent yet"
        worker.sent(first)
        crawl.advance(30)
        assert other.lease(1) == []
        crawl.advance(10)
        assert names(other.lease(1)) == ["second"]

    def test_in_flight_never_exceeds_the_concurrency(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=3))
        crawl.add(*(f"{n}" for n in range(20)))
        first, second = crawl.worker(), crawl.worker()
        held = first.lease(2) + second.lease(9)
        assert len(held) == 3
        assert crawl.worker().lease(9) == []
        first.settle(held[0])
        assert len(second.lease(9)) == 1

    def test_no_limit_is_no_limit(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        crawl.add(*(f"{n}" for n in range(100)))
        assert len(crawl.worker().lease(100)) == 100

    def test_hosts_do_not_wait_for_each_other(self, crawl: Crawl) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=1))
        hosts = crawl.spread(5)
        crawl.frontier.add([crawl.request(f"{host} {n}", host) for n in range(3) for host in hosts])
        for _ in range(3):
            worker = crawl.worker()
            leases = worker.lease(15)
            assert sorted(lease.host for lease in leases) == sorted(hosts)
            worker.settle(*leases)
            crawl.advance(10)

    def test_the_slot_is_free_when_the_response_arrived(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        crawl.add("1", "2", "3")
        first = worker.one()
        assert worker.lease(1) == []
        worker.fetched(first)
        second = worker.one()
        # Settling what had been fetched frees no second slot, nor does telling it again.
        worker.fetched(first)
        worker.settle(first)
        assert worker.lease(1) == []
        worker.settle(second)
        assert names(worker.lease(1)) == ["3"]

    def test_the_slot_is_free_when_the_lease_is_settled_released_or_lost(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        crawl.add("1", "2")
        worker.settle(worker.one(), ending=Ending.RETRY)
        worker.release(worker.one())
        worker.one()
        crawl.expire()
        worker.one()
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.in_flight == 1

    @pytest.mark.parametrize("delay", [0, 5])
    def test_a_group_makes_its_hosts_stricter(self, crawl: Crawl, worker: Worker, delay: float) -> None:
        crawl.define(policy=GroupPolicy(delay=20, concurrency=1))
        crawl.frontier.set_host("", HostPolicy(delay=delay, concurrency=4))
        crawl.add("1", "2")
        [lease] = worker.send()
        crawl.advance(19)
        worker.settle(lease)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert names(worker.lease(1)) == ["2"]

    def test_a_group_never_makes_its_hosts_laxer(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(delay=1, concurrency=50))
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=1))
        crawl.add("1", "2")
        worker.one()
        crawl.advance(5)
        assert worker.lease(1) == []

    def test_a_groups_concurrency_holds_without_a_delay(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(concurrency=2))
        crawl.add(*(f"{n}" for n in range(6)))
        leases = worker.lease(6)
        assert len(leases) == 2
        worker.settle(leases[0])
        assert len(worker.lease(6)) == 1

    def test_a_groups_concurrency_counts_its_own_requests(self, crawl: Crawl) -> None:
        """The host's own concurrency bounds all together."""
        crawl.frontier.define("strict", {"a": LanePolicy()}, GroupPolicy(concurrency=1))
        crawl.frontier.set_host("", HostPolicy(concurrency=4))
        crawl.add(*(f"{n}" for n in range(9)))
        crawl.add(*(f"s{n}" for n in range(9)), lane="strict.a")
        lax, strict = crawl.worker("g"), crawl.worker("strict")
        assert len(lax.lease(3)) == 3
        held = strict.lease(9)
        assert names(held) == ["s0"]
        assert lax.lease(9) == []
        strict.settle(*held)
        assert names(strict.lease(9)) == ["s1"]

    @pytest.mark.parametrize("chosen", [True, False], ids=["a worker each", "one worker"])
    def test_the_stricter_of_two_groups_gets_its_share(self, crawl: Crawl, chosen: bool) -> None:
        crawl.define({"a": LanePolicy(tier=-5)})
        crawl.frontier.define("strict", {"a": LanePolicy()}, GroupPolicy(concurrency=1))
        crawl.frontier.set_host("", HostPolicy(concurrency=4))
        crawl.add(*(f"{n}" for n in range(200)))
        crawl.add(*(f"s{n}" for n in range(200)), lane="strict.a")
        workers = [crawl.worker("g"), crawl.worker("strict")] if chosen else [crawl.worker()]
        held = {worker: worker.lease(8) for worker in workers}
        done: Counter[str] = Counter()
        for _ in range(60):
            for worker in workers:
                gone, held[worker] = held[worker][:1], held[worker][1:]
                done.update(lease.lane for lease in gone)
                held[worker] += worker.exchange(settle=[Settlement(lease) for lease in gone], want=8).leases
                strict = [lease for leases in held.values() for lease in leases if lease.lane == "strict.a"]
                assert len(strict) <= 1
                assert sum(map(len, held.values())) <= 4
        assert done["strict.a"] >= 8
        assert done["g.a"] >= 40

    def test_groups_share_a_hosts_slots(self, crawl: Crawl) -> None:
        crawl.frontier.define("other", {"a": LanePolicy()})
        crawl.frontier.set_host("", HostPolicy(concurrency=1, delay=10))
        crawl.frontier.add([crawl.request("1"), crawl.request("2", lane="other.a")])
        assert len(crawl.worker("g").lease(2)) == 1
        assert crawl.worker("other").lease(2) == []

    def test_a_hosts_own_policy_replaces_the_default(self, crawl: Crawl, worker: Worker) -> None:
        one, two = crawl.hosts(2)
        crawl.frontier.set_host(one, HostPolicy(concurrency=1))
        for host in (one, two):
            crawl.add(*(f"{host} {n}" for n in range(4)), host=host)
        leases = worker.lease(8)
        assert sorted(lease.host for lease in leases) == sorted([one, *[two] * 4])
        crawl.frontier.set_host(one, None)
        assert len(worker.lease(8)) == 3

    def test_a_shorter_delay_counts_from_the_last_request(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=1000))
        crawl.add("1", "2")
        worker.send()
        crawl.advance(1)
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=5))
        assert worker.lease(1) == []
        crawl.advance(4)
        assert names(worker.lease(1)) == ["2"]

    def test_a_shorter_delay_does_not_undercut_a_groups(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(delay=30))
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=10))
        crawl.add("1", "2")
        worker.send()
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=1))
        crawl.advance(29)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert len(worker.lease(1)) == 1

    def test_the_crawl_delay_of_robots_counts(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=1))
        crawl.frontier.set_crawl_delay(crawl.host, 30)
        crawl.add("1", "2")
        worker.send()
        crawl.advance(29)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert len(worker.lease(1)) == 1
        assert crawl.frontier.hosts([crawl.host])[0].crawl_delay == 30

    def test_the_crawl_delay_never_shortens_a_delay(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=30))
        crawl.frontier.set_crawl_delay(crawl.host, 2)
        assert crawl.frontier.hosts([crawl.host])[0].delay == 30
        with pytest.raises(InvalidRequest):
            crawl.frontier.set_crawl_delay(crawl.host, float("nan"))

    def test_the_crawl_delay_counts_for_groups_that_heed_it(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define(policy=GroupPolicy(crawl_delay=False))
        crawl.frontier.define("heeds", {"a": LanePolicy()})
        crawl.frontier.set_crawl_delay(crawl.host, 30)
        crawl.add("1", "2", "3")
        assert len(worker.lease(3)) == 3, "no delay at all"
        crawl.frontier.add([Request(number, crawl.host, "heeds.a") for number in (101, 102)])
        worker.send()
        crawl.advance(29)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert len(worker.lease(1)) == 1

    def test_an_operators_delay_goes_before_the_crawl_delay_which_can_be_forgotten(self, crawl: Crawl) -> None:
        crawl.frontier.set_crawl_delay(crawl.host, 1000)
        crawl.add("1", "2", "3", "4")
        worker = crawl.worker()
        worker.send()
        crawl.advance(5)
        assert worker.lease(1) == []
        crawl.frontier.set_host(crawl.host, HostPolicy(delay=5, crawl_delay=False))
        worker.send()
        crawl.frontier.set_host(crawl.host, None)
        crawl.advance(5)
        assert worker.lease(1) == [], "without his word it counts again"
        crawl.frontier.set_crawl_delay(crawl.host, 0)
        assert len(worker.lease(2)) == 2

    def test_a_lease_must_be_sent_within_its_window(self, crawl: Crawl) -> None:
        crawl.add("1")
        answer = crawl.worker().exchange(want=crawl.frontier.partitions)
        [lease] = answer.leases
        assert answer.hints.now < lease.send_by < lease.deadline

    def test_a_permit_takes_a_slot_and_the_delay(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(concurrency=1, delay=10))
        crawl.add("1")
        permit, wait = crawl.frontier.permit(worker.token, crawl.host)
        assert permit is not None
        assert wait is None
        assert worker.lease(1) == []
        again, wait = crawl.frontier.permit(worker.token.next(), crawl.host)
        assert again is None
        assert wait is not None
        assert 9 < wait <= 10
        crawl.advance(10)
        nothing, until_freed = crawl.frontier.permit(worker.token.next().next(), crawl.host)
        assert (nothing, until_freed) == (None, None)
        assert worker.settle(permit) == [SETTLED]
        assert names(worker.lease(1)) == ["1"]
        assert crawl.group().pages == 0

    def test_a_repeated_permit_takes_one_slot(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define()
        first = crawl.frontier.permit(worker.token, crawl.host)
        assert crawl.frontier.permit(worker.token, crawl.host) == first
        assert crawl.frontier.hosts([crawl.host])[0].in_flight == 1

    def test_a_permit_runs_out_like_a_lease(self, crawl: Crawl, worker: Worker) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(concurrency=1))
        crawl.frontier.permit(worker.token, crawl.host)
        crawl.expire()
        permit, _ = crawl.frontier.permit(worker.token.next(), crawl.host)
        assert permit is not None
        assert crawl.frontier.hosts([crawl.host])[0].in_flight == 1
