"""Page records: the server's rules are those of the model, and a snapshot carries them to another crawl."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.model import page_rules
from tests.support.model.page_rules import PageRecord, RediscoveryRules, Visit, rediscovered, visited

from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    Ending,
    HostPolicy,
    LanePolicy,
    PageInfo,
    PageState,
    PageVisit,
    RecordPolicy,
    RevisitRules,
    Settlement,
    Token,
    fingerprint,
)
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.crawl import ADDED, names
from gossamer.testing.contract.guarantees.pages.recorded_lane import HOUR, HOURLY, leads, page, recorded, visit
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]
SECONDS = st.integers(0, 20_000)
TIMES = st.none() | SECONDS.map(float)
RULES = st.builds(
    RevisitRules, st.integers(1, 9000), st.integers(0, 100), st.integers(100, 9000), st.booleans(), st.integers(1, 3)
)
POLICIES = st.builds(RecordPolicy, st.none() | RULES, TIMES, TIMES, TIMES, st.booleans())
STEPS = st.lists(
    st.tuples(st.sampled_from((200, 200, 304, 404)), st.integers(1, 3), SECONDS, st.booleans()), min_size=1, max_size=6
)


def as_planned(info: PageInfo) -> PageRecord:
    return PageRecord(info.state, info.since, info.version, info.interval, info.signature, info.changes, info.misses)


def close(one: float | None, other: float) -> bool:
    """The server rounds to milliseconds; None is never."""
    return abs((one or 0.0) - other) < 0.002


@given(policy=POLICIES, steps=STEPS)
@settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_server_decides_as_the_model_does(
    valkey_server: Server, opened: Opened, policy: RecordPolicy, steps: list[tuple[int, int, int, bool]]
) -> None:
    """Visits with any outcome, time that passes, new rounds, and a link that leads to the page again after each."""
    crawl = opened(valkey_server.url, f"pages-{Token.fresh().incarnation}")
    recorded(crawl, policy)
    rules = RediscoveryRules(0.0, None, None, policy.finished, policy.failed, policy.gone, policy.newer)
    crawl.add("page")
    worker, number = crawl.worker(), 0
    for status, signature, seconds, newer in steps:
        leases = worker.lease(1)
        if leases:
            before = page(crawl, "page")
            worker.settle(leases[0], visit=PageVisit(status, signature if status == 200 else 0))
            after = page(crawl, "page")
            how = {304: Visit.UNCHANGED, 404: Visit.MISSING}.get(status, Visit.READ)
            expected, due = visited(as_planned(before), policy.revisit, how, signature, after.last)
            assert as_planned(after)._replace(interval=0.0) == expected._replace(interval=0.0)
            assert close(expected.interval, after.interval)
            assert close(due, after.due)
        crawl.advance(seconds)
        if newer:
            number += 1
            crawl.frontier.new_round("g", number)
        known = page(crawl, "page")
        now = crawl.frontier.counts().now
        at = rediscovered(as_planned(known), rules, number, now).at
        queued = known.state is PageState.SCHEDULED
        added = crawl.add("page") == [ADDED]
        assert added == (not queued and at is not None and at <= now)
        if at is not None and at > now and not queued:
            assert close(min(at, known.due or at), page(crawl, "page").due)


def test_nothing_is_fetched_before_it_is_due() -> None:
    """The bounds of adaptive rules are what the server gets."""
    assert RevisitRules(HOUR).bounds == (60.0, 64 * HOUR)
    assert RevisitRules(30.0).bounds == (30.0, 64 * 30.0)
    assert (page_rules.SHRINK, page_rules.GROW) == (0.5, 1.5)


def copied(source: Crawl, target: Crawl) -> Restore:
    out = StringIO()
    assert isinstance(source.frontier, ValkeyFrontier)
    assert isinstance(target.frontier, ValkeyFrontier)
    Export(source.frontier, out).run()
    lines = out.getvalue().encode().splitlines(keepends=True)
    one = Restore(target.frontier, SnapshotFile("crawl.jsonl", iter(lines)))
    one.run()
    assert one.complete
    return one


def test_a_snapshot_has_every_page_with_its_history(valkey_server: Server, opened: Opened, crawl_name: str) -> None:
    """Also of another number of partitions. What was queued is queued once, what waited is not lost, what is due is due when it was."""
    source = opened(valkey_server.url, crawl_name, GOSSAMER_PARTITIONS=3)
    target = opened(valkey_server.url, crawl_name + "-copy", GOSSAMER_PARTITIONS=2)
    policy = RecordPolicy(
        RevisitRules(HOUR, adaptive=True, gone=1), finished=9 * HOUR, newer=True, max_pages=500, max_age=90.0
    )
    source.define({"a": LanePolicy(records=policy)})
    for name, status, ending in (
        ("read", 200, Ending.DONE),
        ("gone", 404, Ending.DONE),
        ("failed", 500, Ending.FAILED),
    ):
        source.add(name, host=source.spread(3)[len(name) % 3])
        visit(source, name, status, 77, ending)
    source.add("again", host=source.spread(3)[1])
    visit(source, "again", 200, 5)
    source.advance(2)
    source.add("queued", "leased", host=source.spread(3)[2])
    source.frontier.new_round("g", 1)
    source.add("again", host=source.spread(3)[1])
    worker = source.worker()
    [held] = [lease for lease in worker.lease(3) if lease.payload == b"leased"]
    source.expire()
    leads(source)
    source.add("found", host=source.spread(3)[0])
    target.advance(70)  # Their clocks were set forward.
    copied(source, target)
    assert (
        target.frontier.counts().lane_policies["g.a"]["records"]
        == source.frontier.counts().lane_policies["g.a"]["records"]
    )
    every = ["read", "gone", "failed", "again", "queued", "leased", "found"]
    for name in every:
        was, now = page(source, name), page(target, name)
        same = ("first", "last", "due", "interval", "status", "signature", "changes", "misses", "host", "payload")
        if was.state in (PageState.FINISHED, PageState.FAILED, PageState.GONE):
            assert now._replace(partition=0) == was._replace(partition=0)
        elif was.last:
            assert [getattr(now, field) for field in same] == [getattr(was, field) for field in same]
    target.balanced()
    assert sorted(target.finish()) == ["again", "found", "leased", "queued"]
    assert held.payload == b"leased"
    target.advance(HOUR)
    assert {"read", "found"} <= set(target.finish()), "the visits go on"


def test_pages_that_move_while_a_snapshot_is_taken_are_in_it(
    valkey_server: Server, opened: Opened, crawl_name: str
) -> None:
    """Records are read before the queues: what is settled, found or moved in between is fetched rather twice than never."""
    source, target = opened(valkey_server.url, crawl_name), opened(valkey_server.url, crawl_name + "-copy")
    recorded(source, HOURLY)
    source.add(*(f"queued {n}" for n in range(6)))
    leads(source)
    source.add(*(f"found {n}" for n in range(6)))
    worker, told = source.worker(), []

    def heard(export: Export) -> None:
        told.append(export.records)
        if len(told) == 2:
            # The records have been read, and no queue.
            [lease] = worker.lease(1)
            worker.exchange(settle=[Settlement(lease, add=source.requests(["child"]))])
            source.frontier.feed(0, [("g.a", 2, None)])
            source.finish(worker, most=7)
            source.add("new")

    assert isinstance(source.frontier, ValkeyFrontier)
    out = StringIO()
    Export(source.frontier, out, heard=heard).run()
    assert isinstance(target.frontier, ValkeyFrontier)
    Restore(target.frontier, SnapshotFile("x", iter(out.getvalue().encode().splitlines(keepends=True)))).run()
    waiting = set(source.finish()) | {row.payload.decode() for row in _listed(source, PageState.FOUND)}
    assert {"child", "new"} <= waiting
    target.balanced()
    assert waiting <= set(target.finish())


def _listed(crawl: Crawl, state: PageState) -> list[PageInfo]:
    return crawl.frontier.scan_page_records("g.a", 0, limit=1000, state=state)[1]


def test_a_long_backlog_stays_in_the_records(valkey_server: Server, opened: Opened, crawl_name: str) -> None:
    """After a long downtime all pages are due: their requests are not all copied into the queue at once."""
    crawl = opened(valkey_server.url, crawl_name)
    recorded(crawl, HOURLY)
    crawl.frontier.set_host("", HostPolicy(concurrency=0))
    number, worker = 10_200, crawl.worker()
    crawl.add(*(str(n) for n in range(number)))

    def visited_now() -> set[str]:
        done: set[str] = set()
        while leases := worker.lease(1000):
            done.update(names(leases))
            worker.settle(*leases)
        return done

    assert len(visited_now()) == number
    crawl.advance(HOUR)
    for _ in range(200):
        worker.exchange(want=1)
    lane = crawl.lane()
    assert lane.queued <= 10_000
    assert lane.queued + lane.leased < number
    crawl.expire()
    again = visited_now()
    crawl.advance(2)
    assert len(again | visited_now()) == number


def test_a_record_takes_a_hundred_bytes_beside_host_and_request(
    valkey_server: Server, opened: Opened, crawl_name: str
) -> None:
    crawl = opened(valkey_server.url, crawl_name)
    recorded(crawl, HOURLY)
    crawl.add("page", host="h")
    for signature in range(9):
        visit(crawl, "page", 200, signature + 1)
        crawl.advance(HOUR)
    assert len(page(crawl, "page").trail) == 8
    base = f"gossamer:{{{crawl_name}/0}}"
    number = crawl.command(("HGETALL", f"{base}:pr"), base)[1].decode()
    [_, record] = crawl.command(("HGETALL", f"{base}:pg:{number}"), base)
    assert len(record) - len("page") - len("h") <= 100
    assert names(crawl.worker().lease(1)) == ["page"]
    assert fingerprint("page")
