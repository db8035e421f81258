"""Guarantee 4: a worker whose lease was given away cannot settle it."""

from __future__ import annotations

import pytest

from gossamer.model import AddOutcome, Ending, Settlement
from gossamer.testing.contract.crawl import ADDED, LOST, SETTLED, Crawl, Worker


def given_away(crawl: Crawl) -> tuple[Worker, Worker, Settlement, Settlement]:
    """Two workers that hold the same page, the first of them no longer; with what each makes of it."""
    crawl.define()
    crawl.add("page")
    first, second = crawl.worker(), crawl.worker()
    old = first.one()
    crawl.expire()
    new = second.one()
    children = [crawl.request("filtered"), crawl.request("unfiltered", dont_filter=True)]
    return first, second, Settlement(old, add=children, items=[b"item"]), Settlement(new, add=children, items=[b"item"])


class TestFencing:
    """Fencing: what a late worker says about a lost lease is refused, and counted."""

    def test_a_late_settlement_is_refused(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        assert first.exchange(settle=[old._replace(add=(), items=())]).settled == [LOST]
        assert (crawl.lane().leased, crawl.lane().done, crawl.group().lost) == (1, 0, 1)
        assert second.exchange(settle=[new]).settled == [SETTLED]

    def test_late_items_are_refused_and_counted(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        first.exchange(settle=[old])
        assert (crawl.items(), crawl.group().refused_items) == ([], 1)
        second.exchange(settle=[new])
        assert crawl.items() == [b"item"]

    def test_late_children_are_refused_and_counted(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        assert first.exchange(settle=[old]).children == [[AddOutcome.LOST] * 2]
        assert crawl.group().refused_children == 2
        assert crawl.frontier.seen("g.a", [old.add[0].fingerprint]) == [False]
        assert second.exchange(settle=[new]).children == [[ADDED, ADDED]]
        assert sorted(crawl.finish()) == ["filtered", "unfiltered"]

    def test_late_after_the_new_holder_adds_nothing(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        assert second.exchange(settle=[new]).children == [[ADDED, ADDED]]
        assert first.exchange(settle=[old]).children == [[AddOutcome.LOST] * 2]
        assert (crawl.group().open, crawl.items()) == (2, [b"item"])

    @pytest.mark.parametrize("count", [9, 2500])
    @pytest.mark.parametrize("dont_filter", [False, True], ids=["filtered", "unfiltered"])
    def test_late_children_of_any_partition_and_any_number_change_nothing(
        self, crawl: Crawl, count: int, dont_filter: bool
    ) -> None:
        first, second, old, new = given_away(crawl)
        hosts = crawl.spread(9)
        children = [crawl.request(f"c{n}", hosts[n % 9], dont_filter=dont_filter) for n in range(count)]
        before = crawl.frontier.counts().lanes
        answer = first.exchange(settle=[old._replace(add=children)])
        assert (answer.settled, answer.children) == ([LOST], [[AddOutcome.LOST] * count])
        assert crawl.frontier.counts().lanes == before
        assert not any(crawl.frontier.seen("g.a", [child.fingerprint for child in children]))
        assert (crawl.group().open, crawl.group().refused_children) == (1, count)
        assert second.exchange(settle=[new._replace(add=children)]).children == [[ADDED] * count]
        assert crawl.group().open == count

    def test_a_late_page_keeps_no_child_of_another_away(self, crawl: Crawl) -> None:
        """Settled in one call, one of them lost: each child belongs to its own page."""
        first, _, old, _ = given_away(crawl)
        crawl.add("fine")
        [fine] = first.lease(1)
        hosts = crawl.spread(6)
        late = [crawl.request(f"late {n}", host, dont_filter=n % 2 == 0) for n, host in enumerate(hosts)]
        good = [crawl.request(f"good {n}", host, dont_filter=n % 2 == 0) for n, host in enumerate(hosts)]
        unknown = [crawl.request("nowhere", host, "g.unknown") for host in hosts]
        answer = first.exchange(settle=[old._replace(add=[*late, *unknown]), Settlement(fine, add=good)])
        assert (answer.settled, answer.children) == ([LOST, SETTLED], [[AddOutcome.LOST] * 12, [ADDED] * 6])
        assert crawl.frontier.dead_letters("g") == []
        assert crawl.group().open == 7

    def test_a_late_failure_buries_nothing(self, crawl: Crawl) -> None:
        first, _, old, _ = given_away(crawl)
        assert first.exchange(settle=[old._replace(ending=Ending.FAILED)]).settled == [LOST]
        assert crawl.frontier.dead_letters("g") == []

    def test_a_late_retry_queues_nothing(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        assert first.exchange(settle=[Settlement(old.lease, Ending.RETRY)]).settled == [LOST]
        second.exchange(settle=[Settlement(new.lease)])
        assert crawl.group().open == 0

    def test_a_late_release_is_refused(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        assert first.release(old.lease) == [False]
        assert second.release(new.lease) == [True]

    def test_another_worker_cannot_settle_with_a_copied_lease(self, crawl: Crawl) -> None:
        crawl.add("one")
        lease = crawl.worker().one()
        assert crawl.worker().settle(lease) == [LOST]
        assert crawl.lane().leased == 1

    def test_a_lease_of_the_same_worker_again_has_another_fence(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one")
        old = worker.one()
        crawl.expire()
        new = worker.one()
        assert worker.settle(old) == [LOST]
        assert worker.settle(new) == [SETTLED]

    def test_one_lost_lease_keeps_no_other_from_settling(self, crawl: Crawl) -> None:
        first, second, old, _ = given_away(crawl)
        crawl.add("fine")
        [fine] = first.lease(1)
        answer = first.exchange(settle=[old, Settlement(fine, items=[b"fine"]), old])
        assert answer.settled == [LOST, SETTLED, LOST]
        assert crawl.items() == [b"fine"]
        assert second.lease(5) == []

    def test_late_news_of_a_download_changes_nothing(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        first.sent(old.lease)
        first.fetched(old.lease)
        [info] = crawl.frontier.hosts([crawl.host])
        assert info.in_flight == 1
        assert second.settle(new.lease) == [SETTLED]

    def test_late_news_does_not_undo_what_the_holder_said(self, crawl: Crawl) -> None:
        first, second, old, new = given_away(crawl)
        crawl.add("beside")
        second.one()
        second.fetched(new.lease)
        first.sent(old.lease)
        second.settle(new.lease)
        # One slot was freed by the response; settling frees no second one.
        assert crawl.frontier.hosts([crawl.host])[0].in_flight == 1
