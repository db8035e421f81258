"""Shares of the room: never more than it, nobody starves, and NEOCrawler's formula to the page."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.planner.policy.shares import Claim, Policy, Share, neocrawler_rate, rated_shares, weighted_shares

POLICIES = [rated_shares, weighted_shares]
RATES = st.builds(neocrawler_rate, st.integers(1, 10), st.integers(-99, 100))
CLAIMS = st.lists(st.tuples(RATES | st.just(Fraction(0)), st.integers(0, 200), st.integers(0, 5)), max_size=12).map(
    lambda rows: [Claim(f"r{place}", *row) for place, row in enumerate(rows)]
)
ROOM = st.integers(-5, 400)


def again(claims: list[Claim], shares: list[Share], ready: dict[str, int]) -> list[Claim]:
    """The claims of the next cycle."""
    by_rule = {share.rule: share for share in shares}
    return [
        claim._replace(ready=ready[claim.rule], waited=by_rule[claim.rule].waited, credit=by_rule[claim.rule].credit)
        for claim in claims
    ]


@pytest.mark.parametrize("policy", POLICIES)
@given(room=ROOM, claims=CLAIMS)
def test_the_room_is_never_exceeded(policy: Policy, room: int, claims: list[Claim]) -> None:
    shares = policy(room, claims)
    assert sorted(share.rule for share in shares) == sorted(claim.rule for claim in claims)
    by_rule = {claim.rule: claim for claim in claims}
    for share in shares:
        claim = by_rule[share.rule]
        assert 0 <= share.taken <= min(share.share, claim.ready)
        assert share.left == claim.ready - share.taken
        if not claim.rate:
            assert share.taken == 0
    most = min(max(room, 0), sum(claim.ready for claim in claims if claim.rate))
    taken = sum(share.taken for share in shares)
    # What the last rule does not use waits for the next cycle in NEOCrawler's way; weights divide it at once.
    assert taken <= most if policy is rated_shares else taken == most


@pytest.mark.parametrize("policy", POLICIES)
@given(room=st.integers(1, 6), claims=CLAIMS, cycles=st.integers(1, 40))
def test_nobody_with_ready_pages_starves(policy: Policy, room: int, claims: list[Claim], cycles: int) -> None:
    """With pages ready all the time, every rule gets one within as many cycles as its rate deserves."""
    claims = [claim._replace(ready=1000, waited=0) for claim in claims if claim.rate]
    ready = {claim.rule: 1000 for claim in claims}
    got: Counter[str] = Counter()
    total = sum((claim.rate for claim in claims), Fraction(0))
    for _ in range(cycles):
        shares = policy(room, claims)
        got.update({share.rule: share.taken for share in shares})
        claims = again(claims, shares, ready)
    for claim in claims:
        deserved = room * cycles * claim.rate / total
        assert got[claim.rule] >= 1 or cycles < len(claims) or deserved < len(claims) + 1
        assert claim.waited <= max(len(claims), math.ceil((len(claims) + 1) * total / (room * claim.rate)))


def transcribed(room: int, rules: list[tuple[Fraction, int]]) -> list[int]:
    """NEOCrawler's scheduler as its source has it: every rule in the order of rates takes the rounded-up share of the room and what
    the one before did not use."""
    rules = sorted(rules, key=lambda rule: -rule[0])
    each = room / sum(rate for rate, _ in rules)
    more, taken = 0, []
    for rate, queued in rules:
        count = math.ceil(each * rate) + more
        actual = count if queued >= count else queued
        taken.append(actual)
        more = count - actual
    return taken


@given(room=st.integers(1, 400), rules=st.lists(st.tuples(RATES, st.integers(0, 200)), min_size=1, max_size=12))
def test_rated_shares_are_those_of_neocrawler_where_they_fit_into_the_room(
    room: int, rules: list[tuple[Fraction, int]]
) -> None:
    claims = [Claim(f"r{place:02}", *rule) for place, rule in enumerate(rules)]
    expected = transcribed(room, rules)
    found = [share.taken for share in rated_shares(room, claims)]
    if sum(expected) <= room:
        assert found == expected
    else:  # It would have scheduled more than its limit.
        assert sum(found) == min(room, sum(ready for _, ready in rules))


def test_a_worked_example() -> None:
    """Room for 100: the rule with the highest rate uses a part of its share, and the next one has the rest as well."""
    claims = [
        Claim("lists", neocrawler_rate(1, 100), 30),
        Claim("posts", neocrawler_rate(2, 0), 500),
        Claim("users", neocrawler_rate(5, -50), 500),
    ]
    shares = rated_shares(100, claims)
    assert [(share.rule, share.share, share.taken, share.left) for share in shares] == [
        ("lists", 77, 30, 0),
        ("posts", 67, 67, 433),
        ("users", 3, 3, 497),
    ]


@given(
    rates=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    rooms=st.lists(st.integers(0, 60), min_size=1, max_size=40),
)
def test_weighted_shares_are_exact_over_many_cycles(rates: list[int], rooms: list[int]) -> None:
    claims = [Claim(f"r{place}", Fraction(rate), 10_000) for place, rate in enumerate(rates)]
    ready = {claim.rule: 10_000 for claim in claims}
    got: Counter[str] = Counter()
    for room in rooms:
        shares = weighted_shares(room, claims)
        got.update({share.rule: share.taken for share in shares})
        claims = again(claims, shares, ready)
    for claim in claims:
        assert abs(got[claim.rule] - sum(rooms) * claim.rate / sum(rates)) <= len(rates)


def test_what_a_paused_rule_does_not_use_goes_to_the_others() -> None:
    claims = [Claim("a", Fraction(0), 100), Claim("b", Fraction(1), 100), Claim("c", Fraction(3), 10)]
    for policy in POLICIES:
        assert {share.rule: share.taken for share in policy(50, claims)} == {"a": 0, "b": 40, "c": 10}


@pytest.mark.parametrize(
    ("due", "weights", "neocrawler"),
    [
        ((500, 500, 500), (30, 10, 5), (30, 10, 5)),
        ((12, 500, 500), (12, 22, 11), (12, 28, 5)),
        ((500, 500, 3), (32, 10, 3), (30, 10, 3)),
        ((500, 0, 500), (39, 0, 6), (30, 0, 15)),
    ],
)
def test_the_examples_of_the_documentation(
    due: tuple[int, int, int], weights: tuple[int, int, int], neocrawler: tuple[int, int, int]
) -> None:
    claims = [Claim(f"r{place}", Fraction(rate), due[place]) for place, rate in enumerate((6, 2, 1))]
    assert tuple(share.taken for share in weighted_shares(45, claims)) == weights
    assert tuple(share.taken for share in rated_shares(45, claims)) == neocrawler


@pytest.mark.parametrize("policy", POLICIES)
def test_a_rule_with_a_single_page_has_its_turn_among_many_with_more(policy: Policy) -> None:
    """Rules whose pages come and go leave parts of pages behind. These must not add up, or whoever wants least comes last for ever."""
    chance = random.Random(1)
    rates = {f"r{place:03}": Fraction(chance.choice((1, 2, 4))) for place in range(60)}
    ready = dict.fromkeys(rates, 0)
    claims = [Claim(rule, rate, 0) for rule, rate in rates.items()]
    for _ in range(2000):
        for rule in rates:
            if int(rule[1:]) < 20:
                ready[rule] = 500
            elif not ready[rule] and chance.random() < 0.3:
                ready[rule] = chance.randint(1, 3)
        claims = [claim._replace(ready=ready[claim.rule]) for claim in claims]
        shares = policy(90, claims)
        assert sum(share.taken for share in shares) <= 90
        for share in shares:
            ready[share.rule] -= share.taken
        claims = again(claims, shares, ready)
        assert max(claim.waited for claim in claims) <= 3
        assert abs(sum(claim.credit for claim in claims)) <= 60 * 1_000_000
