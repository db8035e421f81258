"""Dead letters: what failed for good is kept until somebody decides."""

from __future__ import annotations

import pytest

from gossamer.errors import PolicyError, UnknownDeadLetter
from gossamer.frontier.verbs.control.dead_letters import MOST_BYTES
from gossamer.model import AddOutcome, Ending, LanePolicy, Settlement
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, SETTLED, Crawl, Worker


def bury(crawl: Crawl, *names: str, **how: str) -> None:
    """Requests called so fail, one after the other."""
    worker = crawl.worker()
    for name in names:
        crawl.add(name)
        worker.settle(worker.one(), ending=Ending.FAILED, **how)
        crawl.advance(1)


class TestDeadLetters:
    """List, show, replay, drop, bury."""

    def test_they_tell_what_failed_and_why(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("one", priority=7)
        worker.settle(worker.one(), ending=Ending.RETRY)
        worker.settle(worker.one(), ending=Ending.FAILED, reason="http_500", detail="Traceback …\ud800")
        [letter] = crawl.frontier.dead_letters("g")
        request = crawl.request("one")
        assert (letter.group, letter.lane, letter.host, letter.priority) == ("g", "g.a", crawl.host, 7)
        assert (letter.fingerprint, letter.attempt, letter.reason) == (request.fingerprint, 2, "http_500")
        assert letter.detail.startswith("Traceback …")
        assert letter.payload == b""
        assert crawl.frontier.dead_letter(letter.partition, letter.id)._replace(payload=b"") == letter
        assert crawl.frontier.dead_letter(letter.partition, letter.id).payload == b"one"
        assert crawl.group().dead == 1

    def test_they_are_paged_oldest_first(self, crawl: Crawl) -> None:
        crawl.define()
        bury(crawl, *(f"r{n}" for n in range(7)))
        pages = [crawl.frontier.dead_letters("g", after=after, limit=3) for after in (0, 3, 6, 9)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        letters = [letter for page in pages for letter in page]
        shown = [crawl.frontier.dead_letter(letter.partition, letter.id).payload for letter in letters]
        assert shown == [b"r%d" % n for n in range(7)]
        assert crawl.frontier.dead_letters("unknown") == []

    def test_many_are_read_by_few_calls_of_bounded_size(self, crawl: Crawl) -> None:
        crawl.define()
        payloads = [b"%d" % n + bytes(size) for n, size in enumerate((10, MOST_BYTES, 10, 10, MOST_BYTES, 10, 10))]
        for number, payload in enumerate(payloads):
            assert crawl.frontier.bury("g", payload, reason="bad_task", key=str(number))
        letters = [letter for after in range(7) for letter in crawl.frontier.dead_letters("g", after, 1)]
        partition, numbers = letters[0].partition, [letter.id for letter in letters]
        assert crawl.frontier.drop_dead(partition, numbers[3:4] + numbers[6:]) == 2
        calls = []
        while found := crawl.frontier.read_dead(partition, numbers):
            calls.append(found)
            numbers = numbers[numbers.index(found[-1].id) + 1 :]
        assert [len(found) for found in calls] == [2, 2, 1]
        assert [letter.payload for found in calls for letter in found] == [
            payload for number, payload in enumerate(payloads) if number not in (3, 6)
        ]
        assert [letter._replace(payload=b"") for found in calls for letter in found] == letters[:3] + letters[4:6]

    def test_replayed_they_are_queued_with_their_attempts_forgiven(self, crawl: Crawl) -> None:
        bury(crawl, "one", "two")
        one, two = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(one.partition, [one.id, two.id, 999_999]) == 2
        assert crawl.frontier.replay(one.partition, [one.id]) == 0
        assert crawl.frontier.dead_letters("g") == []
        leases = crawl.worker().lease(5)
        assert [(lease.payload, lease.attempt) for lease in leases] == [(b"one", 1), (b"two", 1)]
        assert crawl.add("one") == [DUPLICATE]
        crawl.balanced()

    def test_a_replay_without_its_lane_is_refused(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        bury(crawl, "one")
        for _ in crawl.frontier.drop_lane("g.a"):
            pass
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 0
        crawl.define()
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1

    def test_dropped_they_are_gone(self, crawl: Crawl) -> None:
        crawl.define()
        bury(crawl, "one", "two")
        one, two = crawl.frontier.dead_letters("g")
        assert crawl.frontier.drop_dead(one.partition, [one.id]) == 1
        assert crawl.frontier.drop_dead(one.partition, [one.id]) == 0
        assert crawl.frontier.dead_letters("g") == [two]
        with pytest.raises(UnknownDeadLetter):
            crawl.frontier.dead_letter(one.partition, one.id)
        with pytest.raises(PolicyError):
            crawl.frontier.drop_dead(crawl.frontier.partitions, [1])

    def test_something_from_outside_is_buried_once_per_key(self, crawl: Crawl) -> None:
        crawl.define()
        assert crawl.frontier.bury("g", b"{bad", reason="bad_task", key="task 1", detail="no JSON")
        assert not crawl.frontier.bury("g", b"{bad", reason="bad_task", key="task 1", detail="no JSON")
        assert crawl.frontier.bury("g", b"{bad", reason="bad_task", key="task 2")
        letters = crawl.frontier.dead_letters("g")
        assert [letter.reason for letter in letters] == ["bad_task"] * 2
        assert crawl.frontier.dead_letter(letters[0].partition, letters[0].id).payload == b"{bad"
        assert crawl.group().open == 0

    def test_a_child_of_an_unknown_lane_becomes_one(self, crawl: Crawl, worker: Worker) -> None:
        crawl.add("page")
        children = [crawl.request("fine"), crawl.request("typo", lane="g.unknown")]
        answer = worker.exchange(settle=[Settlement(worker.one(), add=children)])
        assert answer.settled == [SETTLED]
        assert answer.children == [[ADDED, AddOutcome.UNKNOWN_LANE]]
        [letter] = crawl.frontier.dead_letters("g")
        assert (letter.reason, letter.lane) == ("unknown_lane", "g.unknown")
        crawl.define({"unknown": LanePolicy()})
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        assert sorted(crawl.finish()) == ["fine", "typo"]
