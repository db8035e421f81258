"""What the state machine found, each in the fewest calls that show it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, Ending, Fetched, HostPolicy, LanePolicy, Lease, Request, Settlement, Token
from gossamer.model.policy import GroupPolicy
from gossamer.settings import load
from gossamer.testing import clock
from gossamer.testing.servers import Server


@pytest.fixture
def frontier(valkey_server: Server, crawl_name: str) -> Iterator[ValkeyFrontier]:
    given = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}
    with ValkeyFrontier.open(load(given, environ={}), host=HostPolicy(concurrency=0)) as opened:
        yield opened


def fingerprints(leases: list[Lease]) -> list[int]:
    return [lease.fingerprint for lease in leases]


def test_requests_due_at_the_same_moment_keep_their_order(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(number, "x", "g.a", delay=100) for number in (5, 3, 9, 1)])
    clock.advance(frontier, 100)
    assert fingerprints(frontier.exchange(Token.fresh(), want=4).leases) == [5, 3, 9, 1]


def test_leases_that_ran_out_together_keep_their_order(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(number, "x", "g.a") for number in range(12)])
    frontier.exchange(Token.fresh(), want=12)
    clock.advance(frontier, 1000)
    assert fingerprints(frontier.exchange(Token.fresh(), want=12).leases) == list(range(12))


def test_lanes_beyond_the_number_wanted_come_before_a_later_tier(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy(), "b": LanePolicy(), "later": LanePolicy(tier=1)})
    frontier.add([Request(1, "blocked", "g.a"), Request(2, "x", "g.b"), Request(3, "x", "g.later")])
    frontier.block("blocked", 1000)
    assert fingerprints(frontier.exchange(Token.fresh(), want=1).leases) == [2]


def test_a_retried_page_adds_its_unfiltered_children_each_time(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(1, "x", "g.a", priority=5)])
    token = Token.fresh()
    child = Request(2, "x", "g.a", dont_filter=True)
    for _ in range(3):
        [lease] = frontier.exchange(token, want=1).leases
        token = token.next()
        answer = frontier.exchange(token, settle=[Settlement(lease, Ending.RETRY, [child])])
        token = token.next()
        assert answer.children == [[AddOutcome.ADDED]]
    assert frontier.counts().lanes[0].queued == 4


def test_a_lost_settlement_counts_against_its_own_group(frontier: ValkeyFrontier) -> None:
    for group in ("g", "h"):
        frontier.define(group, {"a": LanePolicy()})
    frontier.add([Request(1, "x", "g.a"), Request(2, "x", "h.a")])
    token = Token.fresh()
    leases = frontier.exchange(token, want=2).leases
    frontier.exchange(token.next(), settle=[Settlement(lease) for lease in leases])
    frontier.exchange(token.next().next(), settle=[Settlement(lease) for lease in leases])
    assert {group.group: group.lost for group in frontier.counts().groups} == {"g": 1, "h": 1}


def test_only_the_worker_that_ran_the_start_has_started(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()}, GroupPolicy(start=True))
    late, quick = Token.fresh(), Token.fresh()
    frontier.start("g", late)
    clock.advance(frontier, 1000)
    frontier.start("g", quick)
    assert frontier.started("g", quick)
    assert frontier.started("g", quick)
    assert not frontier.started("g", late)


def test_a_late_worker_cannot_free_a_slot_twice(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.set_host("x", HostPolicy(concurrency=1))
    frontier.add([Request(number, "x", "g.a") for number in range(3)])
    late, holder = Token.fresh(), Token.fresh()
    [old] = frontier.exchange(late, want=1).leases
    clock.advance(frontier, 1000)
    [new] = frontier.exchange(holder, want=1).leases
    assert fingerprints(frontier.exchange(holder.next(), fetched=[Fetched(new)], want=1).leases) == [1]
    frontier.exchange(late.next(), sent=[old])
    assert frontier.exchange(holder.next().next(), settle=[Settlement(new)], want=1).leases == []
    assert frontier.hosts(["x"])[0].in_flight == 1


def test_a_lowered_limit_holds_at_once(frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(number, "x", "g.a") for number in range(3)])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=1).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED)])
    frontier.define("g", {}, GroupPolicy(max_dead=1))
    answer = frontier.exchange(token.next().next(), want=1)
    assert (answer.leases, answer.hints.paused) == ([], "dead_full")
    frontier.define("g", {}, GroupPolicy(max_dead=2))
    assert len(frontier.exchange(token.next().next().next(), want=1).leases) == 1
