"""Guarantee 3: marking seen and queueing are one step; and what each kind of memory promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gossamer.errors import UnknownLane
from gossamer.frontier.call import function_call
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control import control
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, SeenKind, SeenPolicy, SeenScope, fingerprint
from gossamer.model.request import AddKey
from gossamer.testing.contract.crawl import ADDED, DUPLICATE, FULL, Crawl

POLICIES = {
    "exact": SeenPolicy(),
    "bloom": SeenPolicy(SeenKind.BLOOM, capacity=1000, error=1e-4),
    "rolling by age": SeenPolicy(SeenKind.ROLLING, window=1000),
    "rolling by count": SeenPolicy(SeenKind.ROLLING, window_count=400),
    "hits by age": SeenPolicy(SeenKind.HITS, window=1000),
    "hits by count": SeenPolicy(SeenKind.HITS, window_count=400),
    "hits by rounds": SeenPolicy(SeenKind.HITS, window_rounds=5),
}
EVERY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def lane(crawl: Crawl, policy: SeenPolicy) -> None:
    crawl.define({"a": LanePolicy(seen=policy)})


class TestSeenMeansStored:
    """Seen means stored: what was refused is not seen, what is seen was queued."""

    def test_a_full_lane_refuses_without_marking(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(max_queued=2)})
        assert crawl.add("1", "2", "3") == [ADDED, ADDED, FULL]
        three = crawl.request("3")
        assert crawl.frontier.seen("g.a", [three.fingerprint]) == [False]
        assert crawl.finish() == ["1", "2"]
        assert crawl.add("3") == [ADDED]

    def test_a_full_group_refuses_without_marking(self, crawl: Crawl) -> None:
        crawl.define(policy=GroupPolicy(max_queued=1))
        assert crawl.add("1", "2") == [ADDED, FULL]
        crawl.finish()
        assert crawl.add("2") == [ADDED]

    def test_identical_unfiltered_requests_are_all_kept(self, crawl: Crawl) -> None:
        assert crawl.add("same", "same", dont_filter=True) == [ADDED, ADDED]
        assert crawl.add("same", dont_filter=True) == [ADDED]
        assert crawl.add("same") == [ADDED]
        assert crawl.finish() == ["same"] * 4

    def test_unfiltered_requests_are_not_marked(self, crawl: Crawl) -> None:
        crawl.add("one", dont_filter=True)
        assert crawl.frontier.seen("g.a", [crawl.request("one").fingerprint]) == [False]

    def test_a_duplicate_in_one_batch_is_found(self, crawl: Crawl) -> None:
        assert crawl.add("one", "two", "one") == [ADDED, ADDED, DUPLICATE]
        assert crawl.lane().duplicates == 1

    def test_what_was_settled_is_still_seen(self, crawl: Crawl) -> None:
        crawl.add("one")
        crawl.finish()
        assert crawl.add("one") == [DUPLICATE]

    def test_a_keyed_add_is_repeated_without_harm(self, crawl: Crawl) -> None:
        requests = crawl.requests(["x", "x", "y"], dont_filter=True) + crawl.requests(["z"])
        assert crawl.frontier.add(requests, key="task 7")[0] == [ADDED] * 4
        assert crawl.frontier.add(requests, key="task 7")[0] == [DUPLICATE] * 4
        assert crawl.frontier.add(requests, key="task 8")[0] == [ADDED] * 3 + [DUPLICATE]

    def test_keys_of_single_requests_hold_in_any_batch(self, crawl: Crawl) -> None:
        requests = crawl.requests(["x", "x", "y"], dont_filter=True)
        assert crawl.frontier.add(requests[:2], key=["start 0", "start 1"])[0] == [ADDED, ADDED]
        assert crawl.frontier.add(requests, key=["start 0", "start 1", "start 2"])[0] == [DUPLICATE, DUPLICATE, ADDED]
        assert crawl.frontier.add(requests[1:], key=["start 1", "start 2"])[0] == [DUPLICATE, DUPLICATE]

    def test_keys_of_producers_are_their_own_whatever_they_look_like(self, crawl: Crawl) -> None:
        """A start's key of a round that has not begun counts as known, and a task's is known once the task was taken."""
        crawl.frontier.define("hop", {"a": LanePolicy()})
        requests, token = crawl.requests(["x"], lane="hop.a", dont_filter=True), "0" * 16
        looks = ["shop:2026:17", "turls:0:0", "start hop 0", "replay 0.1 2", "reconcile:hop.a:0:1", "mhop:queue:0"]
        for key in [*looks, f"add {token}:1:0", f"x{token}", f"{token}:1:0", "pkey"]:
            crawl.frontier.add(requests, key=[AddKey(key)])
            assert crawl.frontier.add(requests, key=[key])[0] == [ADDED], key
            assert crawl.frontier.add(requests, key=[key])[0] == [DUPLICATE], key
            crawl.frontier.bury("hop", b"", reason="bad", key=AddKey(f"bad {key}"))
            assert crawl.frontier.bury("hop", b"", reason="bad", key=f"bad {key}"), key

    def test_keys_are_kept_for_a_week_and_no_more_of_them(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        requests = crawl.requests([str(n) for n in range(900)], dont_filter=True)
        for week in range(6):
            assert set(crawl.frontier.add(requests, key=f"start {week}")[0]) == {ADDED}
            crawl.advance(6 * 86400)
            assert set(crawl.frontier.add(requests[:9], key=f"start {week}")[0]) == {DUPLICATE}
            crawl.advance(2 * 86400)
        crawl.frontier.add(requests[:1], key="last")
        base = keys.base(crawl.frontier.crawl, 0)
        assert crawl.command(("ZCARD", f"{base}{keys.SUFFIXES['keyed']}g"), base) <= 901

    def test_lanes_with_equal_policies_share_a_memory(self, crawl: Crawl) -> None:
        other = SeenPolicy(SeenKind.ROLLING, window=500)
        crawl.define({"a": LanePolicy(), "b": LanePolicy(tier=3), "c": LanePolicy(seen=other)})
        crawl.frontier.define("other", {"a": LanePolicy()})
        lanes = ["g.a", "g.b", "g.c", "other.a"]
        outcomes = [crawl.add("one", lane=name)[0] for name in lanes]
        assert outcomes == [ADDED, DUPLICATE, ADDED, ADDED]

    def test_scope_never_checks_nothing(self, crawl: Crawl) -> None:
        lane(crawl, SeenPolicy(scope=SeenScope.NEVER))
        assert crawl.add("one", "one") == [ADDED, ADDED]
        assert crawl.frontier.seen("g.a", [1]) == [False]
        assert crawl.frontier.forget("g.a", [1]) == [False]


class TestEverySeenPolicy:
    """What all memories promise."""

    @EVERY
    def test_a_fingerprint_is_new_once(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lane(crawl, policy)
        names = [f"r{n}" for n in range(90)]
        assert crawl.add(*names) == [ADDED] * 90
        assert crawl.add(*names, "new") == [DUPLICATE] * 90 + [ADDED]
        assert crawl.lane().queued == 91

    @EVERY
    def test_a_forgotten_one_is_new_again(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lane(crawl, policy)
        one, two, unknown = (crawl.request(name).fingerprint for name in ("one", "two", "unknown"))
        crawl.add("one", "two")
        assert crawl.frontier.forget("g.a", [one, unknown]) == [True, False]
        assert crawl.frontier.forget("g.a", [one]) == [False]
        assert crawl.frontier.seen("g.a", [one, two, unknown]) == [False, True, False]
        assert crawl.add("one", "two") == [ADDED, DUPLICATE]
        assert crawl.add("one") == [DUPLICATE]
        with pytest.raises(UnknownLane):
            crawl.frontier.forget("g.unknown", [one])

    @EVERY
    def test_it_is_counted(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lane(crawl, policy)
        hosts = crawl.spread(50)
        crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(hosts)])
        crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(hosts)])
        [info] = crawl.frontier.seen_counts()
        assert (info.known, info.kind) == (50, policy.kind.value)
        crawl.frontier.forget("g.a", [crawl.request("r0").fingerprint])
        assert crawl.frontier.seen_counts()[0].known == 49

    @EVERY
    def test_every_fingerprint_of_64_bits_is_itself(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lane(crawl, policy)
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        edges = [0, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
        near = sorted({n % 2**64 for edge in edges for n in (edge, edge - 1, edge + 1, edge ^ 2**63, edge ^ 2**32)})
        requests = [crawl.request(f"{n}")._replace(fingerprint=n) for n in near]
        assert crawl.frontier.add(requests)[0] == [ADDED] * len(near)
        assert crawl.frontier.add(requests)[0] == [DUPLICATE] * len(near)
        assert crawl.frontier.seen("g.a", near) == [True] * len(near)
        assert sorted(lease.fingerprint for lease in crawl.worker().lease(len(near))) == near

    @pytest.mark.parametrize(
        "policy", [one for one in POLICIES.values() if not one.window_rounds], ids=lambda one: one.spec
    )
    def test_a_round_begins_with_an_empty_memory(self, crawl: Crawl, policy: SeenPolicy) -> None:
        lane(crawl, replace(policy, scope=SeenScope.ROUND))
        assert crawl.add("one", "one") == [ADDED, DUPLICATE]
        assert crawl.frontier.new_round("g", 1) == 1
        assert crawl.add("one", "one") == [ADDED, DUPLICATE]
        assert crawl.frontier.new_round("g", 1) == 1
        assert crawl.add("one") == [DUPLICATE]

    @EVERY
    def test_thousands_are_remembered_exactly_within_its_promise(self, crawl: Crawl, policy: SeenPolicy) -> None:
        if policy.window_count:
            policy = SeenPolicy(policy.kind, window_count=6000)
        if policy.kind is SeenKind.BLOOM:
            policy = SeenPolicy(policy.kind, capacity=3000, error=1e-4)
        lane(crawl, policy)
        requests = crawl.requests(f"r{n}" for n in range(5000))
        added = crawl.frontier.add(requests)[0].count(ADDED)
        assert added == 5000 if policy.kind is not SeenKind.BLOOM else added >= 4990
        assert crawl.frontier.add(requests)[0] == [DUPLICATE] * 5000
        assert crawl.frontier.seen("g.a", [one.fingerprint for one in requests]) == [True] * 5000
        unknown = [fingerprint(f"u{n}") for n in range(5000)]
        false = crawl.frontier.seen("g.a", unknown).count(True)
        assert false == 0 if policy.kind is not SeenKind.BLOOM else false <= 5


class TestChangedPolicy:
    """A lane with another policy begins with an empty memory; the old one goes when no lane uses it."""

    OTHER = SeenPolicy(SeenKind.EXACT, SeenScope.ROUND)

    def keys(self, crawl: Crawl) -> list[str]:
        return sorted(key for info in crawl.frontier.seen_counts() for place in info.keys for key in kept(crawl, place))

    def fill(self, crawl: Crawl, policy: SeenPolicy) -> list[str]:
        lane(crawl, policy)
        crawl.frontier.add([crawl.request(f"r{n}", host) for n, host in enumerate(crawl.spread(900))])
        return self.keys(crawl)

    def left(self, crawl: Crawl, known: list[str]) -> list[str]:
        return [key for key in known if crawl.command(("EXISTS", key), key)]

    @EVERY
    def test_nothing_of_the_old_memory_is_left(self, crawl: Crawl, policy: SeenPolicy) -> None:
        old = self.fill(crawl, policy)
        assert self.left(crawl, old) == old != []
        lane(crawl, self.OTHER)
        assert self.left(crawl, old) == []
        assert crawl.frontier.seen_counts() == []
        assert crawl.add("r0") == [ADDED], "what was seen under the old policy is new"
        lane(crawl, policy)
        assert crawl.add("r1") == [ADDED], "the old memory does not come back"
        assert len(crawl.frontier.seen_counts()) == 1

    def test_a_memory_that_another_lane_uses_stays(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()})
        crawl.frontier.define("beside", {"a": LanePolicy()})
        crawl.add("one")
        crawl.add("one", lane="beside.a")
        crawl.define({"a": LanePolicy(seen=self.OTHER)})
        assert crawl.add("one", lane="g.b") == [DUPLICATE]
        crawl.define({"b": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER))})
        assert [info.name.partition("|")[0] for info in crawl.frontier.seen_counts()] == ["beside"]
        assert crawl.add("one", lane="beside.a") == [DUPLICATE]

    def test_lanes_that_change_places_keep_their_memories(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy(seen=self.OTHER)})
        crawl.add("one")
        crawl.add("two", lane="g.b")
        crawl.define({"a": LanePolicy(seen=self.OTHER), "b": LanePolicy()})
        assert [crawl.add("two"), crawl.add("one", lane="g.b")] == [[DUPLICATE], [DUPLICATE]]

    def test_another_order_or_tier_keeps_the_memory(self, crawl: Crawl) -> None:
        crawl.add("one")
        crawl.define({"a": LanePolicy(tier=3, weight=2.0)})
        assert crawl.add("one") == [DUPLICATE]

    def test_it_goes_in_bounded_steps(self, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> None:
        old = self.fill(crawl, SeenPolicy())
        monkeypatch.setattr(control, "PURGE_BUDGET", 1)
        calls: list[str] = []

        def told(verb: str, *rest: Any) -> RoutedCommand:
            calls.append(verb)
            return function_call(verb, *rest)

        monkeypatch.setattr(control, "function_call", told)
        lane(crawl, self.OTHER)
        assert self.left(crawl, old) == []
        assert calls.count("purge") >= 3

    @EVERY
    def test_what_somebody_left_half_done_the_next_one_finishes(
        self, crawl: Crawl, monkeypatch: pytest.MonkeyPatch, policy: SeenPolicy
    ) -> None:
        old = self.fill(crawl, policy)
        with monkeypatch.context() as broken:
            broken.setattr(control.ControlVerbs, "purge", lambda self, partitions: iter(()))
            lane(crawl, self.OTHER)
        assert self.left(crawl, old) == old
        lane(crawl, self.OTHER)
        assert self.left(crawl, old) == []


class TestRollingMemories:
    """What is younger than the window is surely remembered, what is older than 1.25 windows surely forgotten."""

    @pytest.mark.parametrize("kind", [SeenKind.ROLLING, SeenKind.HITS])
    def test_by_age(self, crawl: Crawl, kind: SeenKind) -> None:
        lane(crawl, SeenPolicy(kind, window=1000))
        crawl.add("old")
        crawl.advance(600)
        crawl.add("young")
        crawl.advance(399)
        assert crawl.frontier.seen("g.a", [crawl.request("old").fingerprint]) == [True]
        crawl.advance(252)
        assert crawl.add("old", "young") == [ADDED, DUPLICATE]

    @pytest.mark.parametrize("kind", [SeenKind.ROLLING, SeenKind.HITS])
    def test_by_count(self, crawl: Crawl, kind: SeenKind) -> None:
        lane(crawl, SeenPolicy(kind, window_count=100))
        crawl.add(*(f"r{n}" for n in range(100)))
        assert crawl.frontier.seen("g.a", [crawl.request("r0").fingerprint]) == [True]
        crawl.add(*(f"r{n}" for n in range(100, 200)))
        known = crawl.frontier.seen("g.a", [crawl.request(f"r{n}").fingerprint for n in range(200)])
        assert known[100:] == [True] * 100
        assert not any(known[:75])

    def test_rolling_forgets_what_is_still_met(self, crawl: Crawl) -> None:
        lane(crawl, SeenPolicy(SeenKind.ROLLING, window=1000))
        crawl.add("one")
        outcomes = []
        for _ in range(4):
            crawl.advance(400)
            outcomes += crawl.add("one")
        assert outcomes[:2] == [DUPLICATE, DUPLICATE]
        assert ADDED in outcomes[2:]

    def test_hits_keep_what_is_still_met(self, crawl: Crawl) -> None:
        lane(crawl, SeenPolicy(SeenKind.HITS, window=1000))
        crawl.add("one", "two")
        for _ in range(10):
            crawl.advance(900)
            assert crawl.add("one") == [DUPLICATE]
        assert crawl.add("two") == [ADDED]

    @pytest.mark.parametrize(("rounds", "forgotten"), [(1, 2), (3, 4), (4, 5), (6, 8), (10, 15)])
    def test_by_rounds(self, crawl: Crawl, rounds: int, forgotten: int) -> None:
        """However long they take. What was seen in the last so many rounds is known, what is met stays known."""
        lane(crawl, SeenPolicy(SeenKind.HITS, window_rounds=rounds))
        last = {name: number for number, name in enumerate(("gone", "later", "last"))}
        for number in range(len(last) + forgotten):
            crawl.frontier.new_round("g", 3 + number)
            crawl.add("listed", *(name for name, seen in last.items() if seen == number))
            known = crawl.frontier.seen("g.a", [crawl.request(name).fingerprint for name in last])
            for seen, is_known in zip(last.values(), known, strict=True):
                assert is_known or not seen <= number <= seen + rounds
                assert not is_known or seen <= number < seen + forgotten
            crawl.advance(86_400)
        [info] = crawl.frontier.seen_counts()
        assert info.known == 1
        assert crawl.add("listed", "gone") == [DUPLICATE, ADDED]

    def test_rolling_by_rounds_forgets_what_is_still_met(self, crawl: Crawl) -> None:
        lane(crawl, SeenPolicy(SeenKind.ROLLING, window_rounds=2))
        outcomes = []
        for number in range(1, 7):
            crawl.frontier.new_round("g", number)
            outcomes += crawl.add("one")
        assert outcomes == [ADDED, DUPLICATE, DUPLICATE, ADDED, DUPLICATE, DUPLICATE]

    @pytest.mark.parametrize("kind", [SeenKind.ROLLING, SeenKind.HITS])
    def test_a_long_rest_leaves_nothing_behind(self, crawl: Crawl, kind: SeenKind) -> None:
        lane(crawl, SeenPolicy(kind, window=1000))
        for n in range(12):
            crawl.advance(600)
            crawl.add(f"r{n}")
        crawl.advance(1_000_000)
        crawl.add("after")
        [info] = crawl.frontier.seen_counts()
        assert info.known == 1
        for _ in range(3):
            crawl.add("after")
        left = {key for place in info.keys for key in kept(crawl, place)}
        assert len(left) <= 3, left


def kept(crawl: Crawl, place: str) -> set[str]:
    """The keys of a memory, found the slow way."""
    cursor, found = "0", set[str]()
    while True:
        after, page = crawl.command(("SCAN", cursor, "MATCH", place + "*", "COUNT", 100_000), place)
        found |= {key.decode() for key in page}
        cursor = after.decode()
        if cursor == "0":
            return found
