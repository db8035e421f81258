"""Pages whose lists say when they changed: fetched again exactly when that text differs from the one of the last fetch that ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    Ending,
    LanePolicy,
    Lease,
    RecordPolicy,
    Request,
    RevisitRules,
    SeenKind,
    SeenPolicy,
    SeenScope,
    Settlement,
    SettleOutcome,
    changed_digest,
    fingerprint,
)
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, LOST, SETTLED, Crawl, Worker, names
from gossamer.testing.contract.guarantees.pages.recorded_lane import fed, leads

LANES = {
    "exact": LanePolicy(),
    "bloom": LanePolicy(seen=SeenPolicy(SeenKind.BLOOM, capacity=1000, error=1e-4)),
    "rolling by age": LanePolicy(seen=SeenPolicy(SeenKind.ROLLING, window=100_000)),
    "rolling by count": LanePolicy(seen=SeenPolicy(SeenKind.ROLLING, window_count=400)),
    "hits by age": LanePolicy(seen=SeenPolicy(SeenKind.HITS, window=100_000)),
    "hits by count": LanePolicy(seen=SeenPolicy(SeenKind.HITS, window_count=400)),
    "hits by rounds": LanePolicy(seen=SeenPolicy(SeenKind.HITS, window_rounds=5)),
    "round": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)),
    "records": LanePolicy(records=RecordPolicy(failed=None)),
    "visits": LanePolicy(records=RecordPolicy(revisit=RevisitRules(1e6), failed=None)),
}
EVERY = pytest.mark.parametrize("policy", LANES.values(), ids=LANES)
SOME = ("exact", "hits by age", "records", "visits")
KINDS = pytest.mark.parametrize("policy", [LANES[name] for name in SOME], ids=SOME)


def said(crawl: Crawl, name: str, text: str, **more: object) -> Request:
    """A list says this of a page; the payload says what it said."""
    request = crawl.request(name, **more)  # type: ignore[arg-type]
    return request._replace(payload=f"{name} {text}".encode(), changed=changed_digest(text) if text else 0)


def add(crawl: Crawl, name: str, *texts: str) -> list[AddOutcome]:
    return [crawl.frontier.add([said(crawl, name, text)])[0][0] for text in texts]


def fetched(crawl: Crawl) -> list[str]:
    """What is fetched now, and settled."""
    return crawl.finish()


class TestChangedPages:
    """Whatever the memory: a text decides, the last one wins, and a page is under way once."""

    @EVERY
    def test_another_text_fetches_the_page_again_and_the_same_does_not(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        assert add(crawl, "one", "A", "A") == [ADDED, DUPLICATE]
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "A") == [DUPLICATE]
        assert fetched(crawl) == []
        assert add(crawl, "one", "B", "B") == [ADDED, DUPLICATE]
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "A") == [ADDED], "it is compared with the last fetch, not with all"
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "A") == [DUPLICATE]
        crawl.balanced()

    @EVERY
    def test_a_page_turn_is_fetched_in_each_pass_over_its_thread(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})

        def turn(text: str, passage: int) -> list[AddOutcome]:
            request = said(crawl, "two", f"{text}{passage}")._replace(changed=changed_digest(text, passage))
            return crawl.frontier.add([request])[0]

        for passage, text in enumerate("ABA", 1):
            add(crawl, "one", text)
            if text == "A":
                assert [turn(text, passage), turn(text, passage)] == [[ADDED], [DUPLICATE]]
            assert sorted(fetched(crawl)) == [f"one {text}", *([f"two A{passage}"] if text == "A" else [])]
            assert turn("A", 0) == [DUPLICATE], "a list says the same of it"
        assert add(crawl, "one", "A") == [DUPLICATE]
        for passage in (1, 2):
            request = crawl.request("one")._replace(changed=changed_digest("A", passage))
            assert crawl.frontier.add([request])[0] == [DUPLICATE], "a page turn leads back to the first page"
        assert fetched(crawl) == []
        crawl.balanced()

    @KINDS
    def test_a_page_that_waits_is_fetched_once_as_the_last_list_said(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A", "B", "C")
        assert crawl.lane().queued == 1
        if policy.records is None:
            assert fetched(crawl) == ["one C"]
        else:
            assert fetched(crawl) == ["one A", "one C"]
        assert add(crawl, "one", "C") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_a_page_in_a_workers_hands_is_fetched_again_afterwards(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B", "C", "B")
        assert worker.lease(1) == [], "two workers must not write the same rows at once"
        assert worker.settle(lease) == [SETTLED]
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "B") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_the_last_list_is_believed_even_if_it_says_what_is_under_way(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        """Lists settle in any order: one fetch too many is cheap, one too few is a stale row."""
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B", "A")
        worker.settle(lease)
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "A") == [ADDED]

    @KINDS
    def test_a_dead_letter_counts_as_fetched_and_another_text_tries_again(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        worker.settle(worker.one(), ending=Ending.FAILED, reason="http_500")
        assert add(crawl, "one", "A") == [DUPLICATE], "it waits among the dead letters"
        assert add(crawl, "one", "B") == [ADDED]
        assert fetched(crawl) == ["one B"]
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "B") == [ADDED], "the replayed request was of an older list"

    @EVERY
    def test_what_a_list_says_of_a_page_that_fails_is_not_lost(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B")
        worker.settle(lease, ending=Ending.FAILED, reason="http_500")
        assert fetched(crawl) == ["one B"]
        crawl.balanced()

    @KINDS
    def test_a_page_under_way_is_not_replayed_beside(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        worker.settle(worker.one(), ending=Ending.FAILED, reason="http_500")
        add(crawl, "one", "B")
        [letter] = crawl.frontier.dead_letters("g")
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        assert fetched(crawl) == ["one B"]
        assert crawl.frontier.dead_letters("g") == []
        crawl.balanced()

    @KINDS
    def test_a_retry_goes_on_and_what_was_said_meanwhile_follows(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B")
        worker.settle(lease, ending=Ending.RETRY, delay=5.0)
        assert add(crawl, "one", "B") == [DUPLICATE]
        crawl.advance(6)
        assert fetched(crawl)[-1] == "one B"
        assert add(crawl, "one", "B") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_a_lost_worker_loses_nothing_of_it(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B")
        crawl.expire()
        other = crawl.worker()
        again = other.one()
        assert names([again]) == ["one A"], "the same request with the same number"
        assert worker.settle(lease) == [LOST]
        assert other.settle(again) == [SETTLED]
        assert fetched(crawl) == ["one B"]
        crawl.balanced()

    @KINDS
    def test_poison_is_buried_and_the_next_text_goes_on(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        for _ in range(crawl.strikes + 1):
            assert len(crawl.worker().send()) == 1
            crawl.expire()
        add(crawl, "one", "B")
        assert fetched(crawl) == ["one B"]
        assert [letter.reason for letter in crawl.frontier.dead_letters("g")] == ["poison"]
        crawl.balanced()

    @KINDS
    def test_released_leases_keep_their_text(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        worker.release(worker.one())
        assert add(crawl, "one", "A") == [DUPLICATE]
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "A", "B") == [DUPLICATE, ADDED]

    @KINDS
    def test_a_link_without_a_text_leads_to_new_pages_only(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        fetched(crawl)
        assert add(crawl, "one", "") == [DUPLICATE]
        assert add(crawl, "two", "", "") == [ADDED, DUPLICATE]
        assert fetched(crawl) == ["two "]
        assert add(crawl, "one", "A") == [DUPLICATE]

    @KINDS
    def test_a_page_that_was_fetched_without_a_text_is_fetched_once_with_one(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        """What changed before the list was read with texts is not known."""
        crawl.define({"a": policy})
        add(crawl, "one", "")
        fetched(crawl)
        assert add(crawl, "one", "A", "A") == [ADDED, DUPLICATE]
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "A") == [DUPLICATE]

    @KINDS
    def test_an_unfiltered_request_is_fetched_beside_and_says_nothing(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        fetched(crawl)
        asked = said(crawl, "one", "B", dont_filter=True)
        assert crawl.frontier.add([asked])[0] == [ADDED]
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "A", "B") == [DUPLICATE, ADDED]

    @KINDS
    def test_a_forgotten_page_is_new_unless_it_is_under_way(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        assert crawl.frontier.forget("g.a", [fingerprint("one")]) == [True]
        assert add(crawl, "one", "A") == [DUPLICATE]
        assert fetched(crawl) == ["one A"]
        assert crawl.frontier.forget("g.a", [fingerprint("one")]) == [True]
        assert add(crawl, "one", "A") == [ADDED]
        assert fetched(crawl) == ["one A"]

    @EVERY
    def test_a_page_whose_text_is_forgotten_is_fetched_whatever_its_list_says(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        """As one of a thread of which a page turn failed. It stays seen, and what is under way stays so."""
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        assert crawl.frontier.forget_texts("g.a", [fingerprint("one"), fingerprint("two")]) == [False, False]
        assert add(crawl, "one", "A") == [DUPLICATE]
        assert fetched(crawl) == ["one A"]
        assert crawl.frontier.forget_texts("g.a", [fingerprint("one")]) == [True]
        assert add(crawl, "one", "", "A", "A") == [DUPLICATE, ADDED, DUPLICATE]
        assert crawl.frontier.forget_texts("g.a", [fingerprint("one")]) == [False]
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "A") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_what_is_under_way_stays_so_when_the_last_fetch_does_not_count(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        assert fetched(crawl) == ["one A"]
        assert add(crawl, "one", "B") == [ADDED]
        assert crawl.frontier.forget_texts("g.a", [fingerprint("one")]) == [True]
        assert add(crawl, "one", "B") == [DUPLICATE]
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "B") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_children_of_pages_are_compared_with_the_settlement(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy, "list": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        host = crawl.hosts(1, crawl.frontier.partitions - 1)[0]
        for text in ("A", "A", "B", "B"):
            crawl.add("list", lane="g.list", dont_filter=True)
            worker = crawl.worker(lanes=["g.list"])
            worker.settle(worker.one(), add=[said(crawl, "one", text, host=host)])
            crawl.worker().exchange()
        assert crawl.lane().queued == 1
        assert fetched(crawl)[-1] == "one B"

    @KINDS
    def test_a_page_that_settles_with_a_link_to_itself_keeps_to_its_text(
        self, crawl: Crawl, policy: LanePolicy
    ) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        worker.settle(worker.one(), add=[said(crawl, "one", "A"), said(crawl, "two", "A")])
        assert fetched(crawl) == ["two A"]

    @KINDS
    def test_dropped_requests_are_new_again(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy, "b": policy})
        add(crawl, "one", "A")
        fetched(crawl)
        add(crawl, "one", "B", "C")
        list(crawl.frontier.drop_lane("g.a"))
        crawl.define({"a": policy, "b": policy})
        assert add(crawl, "one", "C") == [ADDED]
        assert fetched(crawl) == ["one C"]
        assert add(crawl, "one", "C") == [DUPLICATE]
        crawl.balanced()

    @KINDS
    def test_what_waits_outlives_another_policy(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B")
        crawl.define({"a": LanePolicy(seen=SeenPolicy(SeenKind.ROLLING, window=77_000))})
        worker.settle(lease)
        assert fetched(crawl) == ["one B"]
        assert add(crawl, "one", "B") == [DUPLICATE]

    def test_what_waits_outlives_a_round(self, crawl: Crawl) -> None:
        crawl.define({"a": LANES["round"]})
        add(crawl, "one", "A")
        worker = crawl.worker()
        lease = worker.one()
        add(crawl, "one", "B")
        crawl.frontier.new_round("g", 1)
        worker.settle(lease)
        assert fetched(crawl) == ["one B"]

    def test_pages_that_wait_for_a_planner_are_asked_for_as_the_last_list_said(self, crawl: Crawl) -> None:
        crawl.define({"a": LANES["visits"]})
        leader = leads(crawl)
        assert add(crawl, "one", "A", "B", "B", "C") == [ADDED, DUPLICATE, DUPLICATE, DUPLICATE]
        assert crawl.lane().found == 1
        crawl.advance(1)
        assert fed(crawl, 10, term=leader.term) == 1
        assert add(crawl, "one", "C") == [DUPLICATE]
        assert fetched(crawl) == ["one C"]
        assert add(crawl, "one", "C") == [DUPLICATE]
        assert add(crawl, "one", "D") == [ADDED]
        assert crawl.lane().found == 1
        crawl.balanced()

    def test_a_text_comes_while_a_page_is_visited_again(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(records=RecordPolicy(revisit=RevisitRules(100.0)))})
        add(crawl, "one", "A")
        fetched(crawl)
        crawl.advance(101)
        worker = crawl.worker()
        lease = worker.one()
        assert lease.visit
        add(crawl, "one", "A", "B")
        worker.settle(lease)
        assert fetched(crawl) == ["one B"]
        crawl.balanced()

    def test_scope_never_fetches_whatever_the_text(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        assert add(crawl, "one", "A", "A") == [ADDED, ADDED]
        assert fetched(crawl) == ["one A", "one A"]

    @EVERY
    def test_random_lists_and_workers(self, crawl: Crawl, policy: LanePolicy) -> None:
        """Against a model: nothing is fetched twice for one text in a row, and after the last list each page was fetched after it was told."""
        for seed in range(6):
            Histories(crawl, replace(policy), Random(seed)).run()


class Histories:
    """Lists say texts, workers lease, settle, fail, retry, die."""

    def __init__(self, crawl: Crawl, policy: LanePolicy, random: Random) -> None:
        self.crawl, self.random, self.worker = crawl, random, crawl.worker()
        crawl.define({"a": policy})
        self.held: list[Lease] = []
        self.prefix = f"{random.random()}"
        self.pages = [f"{self.prefix}{number}" for number in range(4)]
        self.ended: dict[str, str] = {}
        self.owed: set[str] = set()
        """Pages of which a list said something that neither their last fetch nor the one under way knew."""

    def run(self) -> None:
        steps: list[Callable[[], None]] = [self.say, self.say, self.lease, self.end, self.end, self.die]
        for _ in range(60):
            self.random.choice(steps)()
        self.drain()
        assert not self.owed
        # Lists that settle late may have been last: what they say now is the truth, and holds after one more fetch.
        for page in self.pages:
            add(self.crawl, page, "truth")
        self.drain()
        assert {self.ended[page] for page in self.pages} == {"truth"}
        assert [add(self.crawl, page, "truth") for page in self.pages] == [[DUPLICATE]] * 4
        self.crawl.balanced()
        assert self.crawl.group().open == 0

    def say(self) -> None:
        page, text = self.random.choice(self.pages), self.random.choice("ABC")
        if add(self.crawl, page, text) == [ADDED]:
            assert self.ended.get(page) != text, "it was fetched with that text last"
            assert page not in [self.page_of(lease)[0] for lease in self.held]
        if self.ended.get(page) != text and (page, text) not in map(self.page_of, self.held):
            self.owed.add(page)

    def lease(self) -> None:
        leases = self.worker.lease(self.random.randint(1, 3))
        self.owed -= {self.page_of(lease)[0] for lease in leases}
        self.held += leases
        under_way = [self.page_of(lease)[0] for lease in self.held]
        assert len(set(under_way)) == len(under_way), "a page is in one worker's hands at a time"

    def end(self) -> None:
        if self.held:
            lease = self.held.pop(self.random.randrange(len(self.held)))
            ending = self.random.choice([Ending.DONE, Ending.DONE, Ending.REPLACED, Ending.RETRY])
            answer = self.worker.exchange(settle=[Settlement(lease, ending)])
            assert answer.settled == [SettleOutcome.SETTLED]
            if ending is not Ending.RETRY:
                self.note(lease)

    def die(self) -> None:
        self.crawl.expire()
        self.held, self.worker = [], self.crawl.worker()

    def drain(self) -> None:
        for lease in self.held:
            self.worker.settle(lease)
            self.note(lease)
        self.held = []
        worker = Worker(self.crawl.frontier)
        while leases := worker.lease(1):
            worker.settle(*leases)
            self.owed.discard(self.page_of(leases[0])[0])
            self.note(leases[0])

    def note(self, lease: Lease) -> None:
        page, text = self.page_of(lease)
        self.ended[page] = text

    @staticmethod
    def page_of(lease: Lease) -> tuple[str, str]:
        page, _, text = lease.payload.decode().partition(" ")
        return page, text


class TestChangedTables:
    """What is kept of texts is bounded by the memory beside which it stands."""

    def kept(self, crawl: Crawl) -> int:
        base = keys.base(crawl.frontier.crawl, 0)
        found = crawl.command(("KEYS", f"{keys.escape(base)}{keys.SUFFIXES['page_texts']}*"), base)
        return sum(crawl.command(("HLEN", key), base) for key in map(bytes.decode, found))

    @KINDS
    def test_a_crawl_without_texts_keeps_nothing(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        crawl.add("one", "two")
        crawl.finish()
        assert self.kept(crawl) == 0

    @EVERY
    def test_it_is_a_digest_for_each_page_and_goes_with_the_group(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        for text in "ABCD":
            for name in ("one", "two"):
                add(crawl, name, text)
            fetched(crawl)
        assert self.kept(crawl) == 2
        add(crawl, "one", "E", "F")
        list(crawl.frontier.drop_group("g"))
        assert self.kept(crawl) == 0
        base = keys.base(crawl.frontier.crawl, 0)
        assert crawl.command(("EXISTS", f"{base}{keys.SUFFIXES['newer']}g"), base) == 0

    @pytest.mark.parametrize("policy", [LANES["rolling by age"], LANES["hits by age"]], ids=["rolling", "hits"])
    def test_it_goes_with_the_window(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        fetched(crawl)
        for number in range(12):
            crawl.advance(25_001)
            add(crawl, f"other {number}", "A")
            fetched(crawl)
        assert self.kept(crawl) <= 6
        assert add(crawl, "one", "A") == [ADDED]

    def test_a_page_that_is_listed_keeps_its_text_in_a_memory_of_hits(self, crawl: Crawl) -> None:
        crawl.define({"a": LANES["hits by age"]})
        add(crawl, "one", "A")
        fetched(crawl)
        for number in range(12):
            crawl.advance(25_001)
            add(crawl, f"other {number}", "A")
            assert add(crawl, "one", "A") == [DUPLICATE]

    def test_it_goes_with_the_records_that_are_too_many(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(records=RecordPolicy(max_pages=10))})
        for number in range(80):
            add(crawl, f"page {number}", "A")
            fetched(crawl)
            crawl.advance(1)
        assert self.kept(crawl) <= 12

    @KINDS
    def test_a_forgotten_page_keeps_no_text(self, crawl: Crawl, policy: LanePolicy) -> None:
        crawl.define({"a": policy})
        add(crawl, "one", "A")
        fetched(crawl)
        crawl.frontier.forget("g.a", [fingerprint("one")])
        assert self.kept(crawl) == 0
