"""A lane that keeps page records, and what the tests do with it."""

from __future__ import annotations

from gossamer.model import (
    Ending,
    LanePolicy,
    Leader,
    PageInfo,
    PageVisit,
    RecordPolicy,
    RevisitRules,
    Token,
    fingerprint,
)
from gossamer.testing.contract.crawl import SETTLED, Crawl

HOUR = 3600.0
HOURLY = RecordPolicy(revisit=RevisitRules(HOUR))


def recorded(crawl: Crawl, policy: RecordPolicy | None = None, lane: LanePolicy | None = None) -> None:
    """Lane `a` keeps records."""
    usual = lane or LanePolicy()
    crawl.define(
        {
            "a": LanePolicy(usual.order, max_queued=usual.max_queued, records=policy or RecordPolicy()),
            "plain": LanePolicy(),
        }
    )


def page(crawl: Crawl, name: str) -> PageInfo:
    [found] = crawl.frontier.page_records("g.a", [fingerprint(name)])
    assert found is not None, f"no record of {name}"
    return found


def visit(crawl: Crawl, name: str, status: int = 200, signature: int = 1, ending: Ending = Ending.DONE) -> PageInfo:
    """The page is the next one to go out; its record after the visit."""
    worker = crawl.worker()
    lease = worker.one()
    assert lease.payload == name.encode()
    assert worker.settle(lease, ending=ending, visit=PageVisit(status, signature)) == [SETTLED]
    return page(crawl, name)


def leads(crawl: Crawl, *lanes: str) -> Leader:
    """Somebody leads for a minute, and feeds."""
    leader = crawl.frontier.lead(Token.fresh(), "planner", 60.0)
    assert leader.granted
    fed(crawl, 0, term=leader.term)
    return leader


def fed(crawl: Crawl, most: int, limit: int | None = None, term: int = 0) -> int:
    """How many pages of lane `a` were moved, on all partitions."""
    partitions = range(crawl.frontier.partitions)
    return sum(crawl.frontier.feed(p, [("g.a", most, limit)], term=term)[0].moved for p in partitions)
