"""Guarantee 7, by what hosts answer: blocks, Retry-After, and the delay that follows a host's latency."""

from __future__ import annotations

import pytest

from gossamer.model import Feedback, Fetched, GroupPolicy, HostPolicy, HostVerdict, Settlement
from gossamer.testing.contract.crawl import SETTLED, Crawl, Worker, names


def told(crawl: Crawl, feedback: Feedback, count: int = 1) -> None:
    """The host answers so many requests like this."""
    worker = crawl.worker()
    for n in range(count):
        crawl.add(f"told {feedback} {n}", dont_filter=True, priority=100)
        lease = worker.one()
        assert worker.exchange(settle=[Settlement(lease, feedback=feedback)]).settled == [SETTLED]


class TestBlocks:
    """Hosts that ask to be left alone."""

    def test_a_blocked_host_is_left_alone_until_then(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1")
        until = crawl.frontier.block(crawl.host, 300, "by hand")
        assert worker.lease(1) == []
        [info] = crawl.frontier.hosts([crawl.host])
        assert (info.blocked_until, info.reason) == (until, "by hand")
        crawl.advance(299)
        assert worker.lease(1) == []
        crawl.advance(1)
        assert names(worker.lease(1)) == ["1"]

    def test_unblocking_opens_a_host_at_once(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1")
        crawl.frontier.block(crawl.host, 300)
        assert worker.lease(1) == []
        assert crawl.frontier.block(crawl.host, 0) == 0
        assert names(worker.lease(1)) == ["1"]

    def test_unblocking_does_not_shorten_the_delay(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(delay=10))
        crawl.add("1", "2")
        worker.send()
        crawl.frontier.block(crawl.host, 100)
        crawl.frontier.block(crawl.host, 0)
        assert worker.lease(1) == []
        crawl.advance(10)
        assert len(worker.lease(1)) == 1

    def test_a_throttled_answer_blocks_the_host_for_all(self, crawl: Crawl) -> None:
        told(crawl, Feedback(HostVerdict.THROTTLED, retry_after=120))
        crawl.add("1")
        assert crawl.worker().lease(1) == []
        crawl.advance(119)
        assert crawl.worker().lease(1) == []
        crawl.advance(1)
        assert len(crawl.worker().lease(1)) == 1

    def test_a_throttled_answer_counts_when_it_was_fetched(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1", "2")
        lease = worker.one()
        worker.exchange(fetched=[Fetched(lease, Feedback(HostVerdict.THROTTLED, retry_after=60))])
        assert worker.lease(1) == []

    @pytest.mark.parametrize("asked", [10**6, 9e8])
    def test_retry_after_is_capped(self, crawl: Crawl, asked: float) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_max=600))
        told(crawl, Feedback(HostVerdict.THROTTLED, retry_after=asked))
        [info] = crawl.frontier.hosts([crawl.host])
        assert 599 < info.blocked_until - info.now <= 600

    def test_a_senseless_retry_after_counts_as_none(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_base=7))
        for senseless in (float("nan"), float("inf"), -5.0):
            told(crawl, Feedback(HostVerdict.THROTTLED, retry_after=senseless))
            [info] = crawl.frontier.hosts([crawl.host])
            assert 6 < info.blocked_until - info.now <= 7
            crawl.frontier.block(crawl.host, 0)

    def test_without_retry_after_the_block_doubles(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_base=5, block_max=35))
        for expected in (5, 10, 20, 35, 35):
            told(crawl, Feedback(HostVerdict.THROTTLED))
            [info] = crawl.frontier.hosts([crawl.host])
            assert expected - 1 < info.blocked_until - info.now <= expected
            crawl.advance(expected)

    def test_refusals_of_one_moment_count_as_one(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(block_base=5))
        crawl.add("1", "2", "3", "4")
        refused = Feedback(HostVerdict.THROTTLED)
        worker.exchange(fetched=[Fetched(lease, refused) for lease in worker.lease(4)])
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.throttled == 1
        assert info.blocked_until - info.now <= 5

    def test_a_good_answer_ends_the_doubling(self, crawl: Crawl) -> None:
        crawl.define()
        for _ in range(3):
            told(crawl, Feedback(HostVerdict.THROTTLED))
            crawl.advance(100)
        told(crawl, Feedback(HostVerdict.OK))
        told(crawl, Feedback(HostVerdict.THROTTLED))
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.blocked_until - info.now <= 5

    def test_pages_that_are_not_available_block_no_host_that_answers_others(self, crawl: Crawl) -> None:
        """Fewer than half of its last ten answers."""
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_base=5))
        for _ in range(5):
            told(crawl, Feedback(HostVerdict.UNAVAILABLE), 4)
            told(crawl, Feedback(HostVerdict.OK), 3)
            told(crawl, Feedback(HostVerdict.ERROR), 3)
        [info] = crawl.frontier.hosts([crawl.host])
        assert (info.blocked_until, info.throttled) == (0, 0)

    def test_a_host_that_is_not_available_is_blocked_for_longer_each_time(self, crawl: Crawl) -> None:
        """It is one host to all workers, and to all that happened before."""
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_base=5, block_max=35))
        told(crawl, Feedback(HostVerdict.OK), 20)
        for _ in range(4):
            told(crawl, Feedback(HostVerdict.UNAVAILABLE))
            assert crawl.frontier.hosts([crawl.host])[0].blocked_until == 0
        for expected in (5, 10, 20, 35, 35):
            told(crawl, Feedback(HostVerdict.UNAVAILABLE))
            [info] = crawl.frontier.hosts([crawl.host])
            assert expected - 1 < info.blocked_until - info.now <= expected
            crawl.advance(expected)
        told(crawl, Feedback(HostVerdict.OK))
        told(crawl, Feedback(HostVerdict.UNAVAILABLE))
        [info] = crawl.frontier.hosts([crawl.host])
        assert 4 < info.blocked_until - info.now <= 5, "a good answer ends the doubling"
        crawl.advance(5)
        told(crawl, Feedback(HostVerdict.OK), 6)
        told(crawl, Feedback(HostVerdict.UNAVAILABLE))
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.blocked_until <= info.now, "enough good answers end it"

    def test_answers_of_one_moment_that_is_not_available_block_once(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(block_base=5, concurrency=20))
        crawl.add(*(str(n) for n in range(12)))
        gone = Feedback(HostVerdict.UNAVAILABLE)
        worker.exchange(fetched=[Fetched(lease, gone) for lease in worker.lease(12)])
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.throttled == 1
        assert 0 < info.blocked_until - info.now <= 5

    def test_pages_that_are_tried_again_are_no_further_answers(self, crawl: Crawl) -> None:
        """They do not block a host of which few pages are not available, and prolong the block of one that is not."""
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(block_base=5))
        told(crawl, Feedback(HostVerdict.UNAVAILABLE), 4)
        told(crawl, Feedback(HostVerdict.STILL_UNAVAILABLE), 12)
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until == 0
        told(crawl, Feedback(HostVerdict.UNAVAILABLE))
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until > 0
        crawl.advance(5)
        told(crawl, Feedback(HostVerdict.STILL_UNAVAILABLE, retry_after=1))
        [info] = crawl.frontier.hosts([crawl.host])
        assert 9 < info.blocked_until - info.now <= 10

    def test_what_a_host_answered_long_ago_says_nothing(self, crawl: Crawl) -> None:
        crawl.define()
        told(crawl, Feedback(HostVerdict.UNAVAILABLE), 4)
        crawl.advance(600)
        told(crawl, Feedback(HostVerdict.UNAVAILABLE), 4)
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until == 0
        told(crawl, Feedback(HostVerdict.UNAVAILABLE))
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until > 0

    def test_unblocking_a_host_forgets_its_answers(self, crawl: Crawl) -> None:
        crawl.define()
        told(crawl, Feedback(HostVerdict.UNAVAILABLE), 5)
        crawl.frontier.block(crawl.host, 0)
        told(crawl, Feedback(HostVerdict.UNAVAILABLE), 4)
        assert crawl.frontier.hosts([crawl.host])[0].blocked_until == 0

    def test_a_shorter_retry_after_does_not_shorten_a_block(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1", "2")
        one, two = worker.lease(2)
        worker.exchange(fetched=[Fetched(one, Feedback(HostVerdict.THROTTLED, retry_after=500))])
        worker.exchange(fetched=[Fetched(two, Feedback(HostVerdict.THROTTLED, retry_after=5))])
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.blocked_until - info.now > 400

    def test_a_paused_host_waits_until_it_is_resumed(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("1")
        crawl.frontier.pause(host=crawl.host, reason="they called")
        assert worker.lease(1) == []
        assert crawl.frontier.hosts([crawl.host])[0].paused == "they called"
        crawl.advance(10_000)
        assert worker.lease(1) == []
        crawl.frontier.resume(host=crawl.host)
        assert names(worker.lease(1)) == ["1"]

    def test_thousands_of_blocked_hosts_hold_no_open_one_up(self, crawl: Crawl, worker: Worker) -> None:
        hosts = crawl.hosts(601)
        crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(hosts)])
        for host in hosts[:600]:
            crawl.frontier.block(host, 1000)
        assert [lease.host for lease in worker.lease(5)] == [hosts[600]]
        crawl.advance(1000)
        assert len(worker.lease(600)) == 600

    def test_hosts_are_told_in_the_order_they_were_asked(self, crawl: Crawl) -> None:
        hosts = crawl.spread(7)
        assert [info.host for info in crawl.frontier.hosts(hosts)] == hosts
        assert crawl.frontier.hosts([]) == []


class TestAdaptiveDelay:
    """The delay that follows a host's latency."""

    def delay(self, crawl: Crawl) -> float:
        return crawl.frontier.hosts([crawl.host])[0].delay

    def answered(self, crawl: Crawl, verdict: HostVerdict, latency: float | None, times: int = 1) -> float:
        for _ in range(times):
            crawl.advance(1000)
            told(crawl, Feedback(verdict, latency, retry_after=0))
        return self.delay(crawl)

    def test_it_follows_latency_by_the_target(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(adaptive=True, target=2.0, max_delay=60))
        assert self.answered(crawl, HostVerdict.OK, 4.0, 12) == pytest.approx(2.0, abs=0.02)
        assert self.answered(crawl, HostVerdict.OK, 1.0, 12) == pytest.approx(0.5, abs=0.02)

    def test_it_begins_with_the_delay_goes_down_by_halves_and_up_at_once(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(delay=0.5))
        crawl.frontier.set_host("", HostPolicy(delay=8, adaptive=True, min_delay=0.5, max_delay=60))
        assert self.delay(crawl) == 8
        assert [self.answered(crawl, HostVerdict.OK, 0.2) for _ in range(4)] == [4.1, 2.15, 1.175, 0.687]
        assert self.answered(crawl, HostVerdict.OK, 0.2, 5) == 0.5
        assert self.answered(crawl, HostVerdict.OK, 20.0) == 20
        assert self.answered(crawl, HostVerdict.OK, 100.0) == 60

    def test_it_stays_between_min_and_max(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(adaptive=True, min_delay=1, max_delay=3))
        assert self.delay(crawl) == 1
        assert self.answered(crawl, HostVerdict.OK, 500.0, 5) == 3
        assert self.answered(crawl, HostVerdict.OK, 0.0, 20) == 1

    def test_errors_never_shorten_it(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(adaptive=True))
        before = self.answered(crawl, HostVerdict.OK, 8.0, 5)
        assert self.answered(crawl, HostVerdict.ERROR, 0.001, 5) == before
        assert self.answered(crawl, HostVerdict.THROTTLED, 0.001, 3) == before
        assert self.answered(crawl, HostVerdict.ERROR, 50.0) > before

    def test_unknown_latency_changes_nothing(self, crawl: Crawl) -> None:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(adaptive=True))
        before = self.answered(crawl, HostVerdict.OK, 8.0, 5)
        assert self.answered(crawl, HostVerdict.OK, None, 5) == before

    def test_it_is_kept_between_requests(self, crawl: Crawl, worker: Worker) -> None:
        crawl.frontier.set_host("", HostPolicy(adaptive=True))
        self.answered(crawl, HostVerdict.OK, 10.0, 8)
        crawl.advance(1000)
        crawl.add("1", "2")
        worker.send()
        crawl.advance(self.delay(crawl) - 1)
        assert worker.lease(1) == []
        crawl.advance(1.1)
        assert len(worker.lease(1)) == 1
