"""Who gets how much of the room: in each cycle, room = limit - scheduled, and every rule with ready pages gets a share of it.

A rule is a layer of a site, or whatever else wants pages to be scheduled. Two policies divide the room. `rated_shares` is the one of
NEOCrawler: a rule's rate is (100 + weight) / priority, its share is the room in proportion to its rate, rounded up, and what a
rule does not use is carried to the next one, the highest rate first. `weighted_shares` divides by plain weights, exactly over many
cycles. Neither exceeds the room, and neither leaves a rule with ready pages without any for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

MOST_WEIGHT = 100
"""The weight that NEOCrawler adds to a rule's own, so that weight 0 is not none."""
PARTS = 1_000_000
"""The number of parts of a page: what a rule is owed is counted in these."""


class Claim(NamedTuple):
    """A rule with `ready` pages that could be scheduled now. `rate` says how much of the room it should have, compared with the
    others; 0: none, it is paused. `waited` is in how many cycles in a row it had ready pages and got no share."""

    rule: str
    rate: Fraction
    ready: int
    waited: int = 0
    credit: int = 0
    """What earlier cycles owe it, in millionths of a page; only `weighted_shares` uses it."""


class Share(NamedTuple):
    """What a rule gets in a cycle. `share` is what it might have had, `taken` what it takes of that, `left` how many ready pages
    remain. `waited` and `credit` belong into its next claim."""

    rule: str
    share: int
    taken: int
    left: int
    waited: int
    credit: int = 0


Policy = Callable[[int, Sequence[Claim]], list[Share]]


def neocrawler_rate(priority: int, weight: int) -> Fraction:
    """The rate of a NEOCrawler rule. Its priorities begin at 1, and a lower one goes first."""
    return Fraction(MOST_WEIGHT + weight, priority)


def _ordered(claims: Sequence[Claim]) -> list[Claim]:
    """The highest rate first."""
    return sorted(claims, key=lambda claim: (-float(claim.rate), claim.rule))


def _whole(claims: Sequence[Claim]) -> dict[str, int]:
    """The rates as whole numbers in the same proportion: fractions are slow, and planners have thousands of them."""
    common = lcm(*(claim.rate.denominator for claim in claims))
    return {claim.rule: claim.rate.numerator * (common // claim.rate.denominator) for claim in claims}


def rated_shares(room: int, claims: Sequence[Claim]) -> list[Share]:
    """Shares by rate, in the order of rates. They are those of NEOCrawler's scheduler as long as their sum fits into the room; where
    rounding up would exceed it, every rule with ready pages keeps one before another gets its second. When there is not even one
    for each, those that have waited longest come first."""
    claims = _ordered(claims)
    room, rates = max(room, 0), _whole(claims)
    total = sum(rates.values())
    waiting = [claim for claim in claims if claim.rate and claim.ready]
    if room < len(waiting):
        return _one_each(room, claims, waiting)
    found, carried, left, after = [], 0, room, len(waiting)
    for claim in claims:
        if not claim.rate:
            found.append(Share(claim.rule, 0, 0, claim.ready, 0))
            continue
        after -= bool(claim.ready)
        # Rounded up. Those that come after keep at least one page each.
        share = min(-(-room * rates[claim.rule] // total) + carried, left - after)
        taken = min(claim.ready, share)
        carried = share - taken
        left -= taken
        found.append(Share(claim.rule, share, taken, claim.ready - taken, 0))
    return found


def _one_each(room: int, claims: Sequence[Claim], waiting: Sequence[Claim]) -> list[Share]:
    """One page for each of those that have waited longest, of equals for the highest rates."""
    chosen = {claim.rule for claim in sorted(waiting, key=lambda claim: -claim.waited)[:room]}
    named = {claim.rule for claim in waiting}
    return [
        Share(claim.rule, 1, 1, claim.ready - 1, 0)
        if claim.rule in chosen
        else Share(claim.rule, 0, 0, claim.ready, claim.waited + 1 if claim.rule in named else 0)
        for claim in claims
    ]


def weighted_shares(room: int, claims: Sequence[Claim]) -> list[Share]:
    """Shares in proportion to the rates. What a rule does not use is divided among the others in the same way. Parts of a page that a
    rule could not have, or had too much, are its credit for the next cycle, so that over many cycles the proportion is exact; a
    rule that has no page left saves nothing up."""
    claims, left = _ordered(claims), max(room, 0)
    owed = _divided(left * PARTS, claims, _whole(claims))
    taken = dict.fromkeys((claim.rule for claim in claims), 0)
    ready = {claim.rule: claim.ready for claim in claims}
    waited = {claim.rule: claim.waited for claim in claims}
    for rule in sorted(owed, key=lambda rule: (-waited[rule], -owed[rule])):
        taken[rule] = min(max(owed[rule] // PARTS, 0), left)
        left -= taken[rule]
    for rule in sorted(owed, key=lambda rule: taken[rule] * PARTS - owed[rule]):
        if left and taken[rule] < ready[rule]:
            taken[rule] += 1
            left -= 1
    return [
        Share(
            claim.rule,
            taken[claim.rule],
            taken[claim.rule],
            claim.ready - taken[claim.rule],
            claim.waited + 1 if claim.rule in owed and not taken[claim.rule] else 0,
            owed[claim.rule] - taken[claim.rule] * PARTS
            if taken[claim.rule] < claim.ready and claim.rule in owed
            else 0,
        )
        for claim in claims
    ]


def _divided(parts: int, claims: Sequence[Claim], rates: Mapping[str, int]) -> dict[str, int]:
    """What each rule with ready pages should have, in parts of a page: its credit and its part of the room, at most its ready pages."""
    open_claims = [claim for claim in claims if claim.rate and claim.ready]
    owed = {claim.rule: claim.credit for claim in open_claims}
    # Rules that had too much and have no page left owe it to no other rule. So credits do not even out by themselves: all bear the rest.
    parts -= sum(owed.values())
    while parts and open_claims:
        total = sum(rates[claim.rule] for claim in open_claims)
        for claim in open_claims:
            owed[claim.rule] += parts * rates[claim.rule] // total
        full = {claim.rule: claim.ready * PARTS for claim in open_claims if owed[claim.rule] >= claim.ready * PARTS}
        parts = sum(owed[rule] - most for rule, most in full.items())
        owed.update(full)
        open_claims = [claim for claim in open_claims if claim.rule not in full]
    return owed
