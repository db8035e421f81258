"""Whether a crawl of the forum was complete, exact and polite: what the forum saw beside what the frontier kept. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gossamer.status.progress import Progress
from gossamer.testing.forum import Arrival

LATER = (429, 503)
LIST = ("/", "/board/")


class DemoCheck(NamedTuple):
    """One thing that was checked. `ok` None: told, not checked."""

    what: str
    expected: str
    found: str
    ok: bool | None


class DemoOutcome(NamedTuple):
    """All that is known after a crawl: `pages`, `redirects` and `missing` as the forum has them, `arrivals` as it saw them,
    the group's `progress`, the URLs of the `items` in the stream, the `limit` of requests at once to a host, and how many
    requests the killed worker `held` when it died; None: none was killed."""

    pages: frozenset[str]
    redirects: frozenset[str]
    missing: frozenset[str]
    arrivals: list[Arrival]
    progress: Progress
    items: list[str]
    limit: int
    held: int | None


def findings(outcome: DemoOutcome) -> list[DemoCheck]:
    """Every check, in the order in which people want to read them."""
    answered = {
        status: Counter(_url(arrival) for arrival in outcome.arrivals if arrival.status == status)
        for status in (200, 302, 404)
    }
    # A worker that dies may leave before the answer; that visit counts like the others.
    visits = Counter(_url(arrival) for arrival in outcome.arrivals if arrival.status not in LATER)
    later = [_url(arrival) for arrival in outcome.arrivals if arrival.status in LATER]
    known = outcome.pages | outcome.redirects | outcome.missing
    once, again = sum(count == 1 for count in visits.values()), visits.total() - len(visits)
    posts = Counter(url for url in outcome.pages if not _path(url).startswith(LIST[1]) and _path(url) != LIST[0])
    items = Counter(outcome.items)
    flight = max((arrival.in_flight for arrival in outcome.arrivals), default=0)
    # A machine that stands still for seconds lets leases of living workers run out as well, and their pages come again.
    progress, held = outcome.progress, outcome.held
    bound = max(held or 0, progress.expired)
    return [
        _same("pages crawled", outcome.pages, answered[200]),
        _same("redirects followed", outcome.redirects, answered[302]),
        _same("pages that are missing (404)", outcome.missing, answered[404]),
        _equal("unexpected requests", 0, len(set(visits) - known)),
        DemoCheck(
            "of all these fetched exactly once", f"≥ {_n(len(known) - bound)}", _n(once), once >= len(known) - bound
        ),
        DemoCheck("fetched again because of the kill", f"≤ {_n(bound)}", _n(again), again <= bound),
        DemoCheck("in progress in the killed worker", "", "none was killed" if held is None else _n(held), None),
        _equal("retried after 429 or 503", len(later), sum(answered[200][url] > 0 for url in later)),
        _equal("items, one per post or comment", posts.total(), items.total()),
        _equal("items lost", 0, (posts - items).total()),
        _equal("items doubled or unknown", 0, (items - posts).total()),
        _equal("pages settled in the frontier", len(outcome.pages) + len(outcome.missing), progress.pages),
        _equal("dead letters", 0, progress.dead),
        _equal("left in the frontier", 0, progress.open),
        DemoCheck("most at once at one host", f"≤ {outcome.limit}", _n(flight), 0 < flight <= outcome.limit),
    ]


def _same(what: str, expected: frozenset[str], found: Counter[str]) -> DemoCheck:
    wrong = sorted(expected ^ set(found))
    said = _n(len(found))
    if wrong:
        said += f", but not {wrong[0]}" if wrong[0] in expected else f", also {wrong[0]}"
        said += f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return DemoCheck(what, _n(len(expected)), said, not wrong)


def _equal(what: str, expected: int, found: int) -> DemoCheck:
    return DemoCheck(what, _n(expected), _n(found), expected == found)


def _url(arrival: Arrival) -> str:
    return f"http://{arrival.host}{arrival.path}"


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def _n(number: int) -> str:
    return f"{number:,}"
