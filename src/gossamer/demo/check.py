"""Whether a crawl of the forum was complete, exact and polite: what the forum saw beside what the frontier counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gossamer.demo.page import lane_of
from gossamer.model import GroupCounts, LaneCounts
from gossamer.testing.forum import Arrival

LATER = (429, 503)


class Finding(NamedTuple):
    """One thing that was checked. `ok` None: told, not checked."""

    what: str
    expected: str
    found: str
    ok: bool | None


class Outcome(NamedTuple):
    """All that is known after a crawl: `pages`, `redirects` and `missing` as the forum expects them."""

    pages: frozenset[str]
    redirects: frozenset[str]
    missing: frozenset[str]
    arrivals: list[Arrival]
    lanes: list[LaneCounts]
    group: GroupCounts
    items: list[str]
    concurrency: int


def findings(outcome: Outcome) -> list[Finding]:
    """Every check, in the order in which people want to read them."""
    answered = {status: _urls(outcome.arrivals, (status,)) for status in (200, 302, 404)}
    later = _urls(outcome.arrivals, LATER)
    known = outcome.pages | outcome.redirects | outcome.missing
    strange = sum(1 for arrival in outcome.arrivals if _url(arrival) not in known or not arrival.status)
    posts = Counter(url for url in outcome.pages if lane_of(url) != "list")
    total = {name: sum(getattr(lane, name) for lane in outcome.lanes) for name in LaneCounts._fields[1:-1]}
    flight = max((arrival.in_flight for arrival in outcome.arrivals), default=0)
    left = total["queued"] + total["delayed"] + total["leased"]
    return [
        _equal("pages crawled", len(outcome.pages), len(answered[200])),
        _each_once("each page exactly once", outcome.pages, answered[200]),
        _each_once("redirects followed once", outcome.redirects, answered[302]),
        _each_once("dead letters (404)", outcome.missing, answered[404]),
        _equal("dead letters kept", len(outcome.missing), outcome.group.dead),
        _equal("requests nobody expected", 0, strange),
        _equal("told to come later, tried again", sum(later.values()), total["retried"]),
        Finding("items, one per post or comment", _n(sum(posts.values())), _n(len(outcome.items)), Counter(outcome.items) == posts),
        _equal("pages done by the frontier's count", len(outcome.pages), total["done"]),
        _equal("left in the frontier", 0, left),
        _equal("leases lost or run out", 0, total["expired"] + outcome.group.lost),
        Finding("most in flight at one host", f"≤ {outcome.concurrency}", _n(flight), 0 < flight <= outcome.concurrency),
        Finding("links that were known already", "", _n(total["duplicates"]), None),
    ]  # fmt: skip


def _equal(what: str, expected: int, found: int) -> Finding:
    return Finding(what, _n(expected), _n(found), expected == found)


def _each_once(what: str, expected: frozenset[str], found: Counter[str]) -> Finding:
    wrong = [url for url in expected if found[url] != 1] + [url for url in found if url not in expected]
    said = f"{_n(len(found) - len(set(wrong) & set(found)))} as expected"
    if wrong:
        said += f", not {min(wrong)}" + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")
    return Finding(what, _n(len(expected)), said if wrong else _n(len(found)), not wrong)


def _urls(arrivals: Iterable[Arrival], statuses: tuple[int, ...]) -> Counter[str]:
    return Counter(_url(arrival) for arrival in arrivals if arrival.status in statuses)


def _url(arrival: Arrival) -> str:
    return f"http://{arrival.host}{arrival.path}"


def _n(number: int) -> str:
    return f"{number:,}"
