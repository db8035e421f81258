"""Lanes that keep page records under random calls: found, fed, visited, dropped, switched off and on, on a server that goes back. No page
is lost, and none is fetched before it is due. What is expected of a visit and of a link are the rules of tests/support/model."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.frontier.contract.machine.ground import FACTOR
from tests.support.model.page_rules import PageRecord, RediscoveryRules, Visit, rediscovered, visited

from gossamer.model import (
    AddOutcome,
    Ending,
    LanePolicy,
    Lease,
    PageState,
    PageVisit,
    RecordPolicy,
    RevisitRules,
    Settlement,
    Token,
)
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.earlier_state import Picture, go_back, picture
from gossamer.testing.servers import Server

NAMES = "abcdef"
USUAL = 600.0
RULES = (
    None, RevisitRules(USUAL, gone=2), RevisitRules(USUAL, min=300.0, max=2400.0, adaptive=True, gone=1),
)  # fmt: skip
TIMES = st.sampled_from((None, 0.0, 900.0))
POLICIES = st.builds(RecordPolicy, st.sampled_from(RULES), TIMES, TIMES, TIMES, st.booleans())
HOW = {"read": (Visit.READ, 200), "unchanged": (Visit.UNCHANGED, 304), "missing": (Visit.MISSING, 404)}


class Queued(NamedTuple):
    """A request in the queue or in the worker's hands."""

    name: str
    filtered: bool
    visit: bool = False
    """Whether the page was visited before, and its time has come."""


@dataclass
class Expected:
    """What the server should have."""

    records: dict[str, PageRecord] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    queue: list[Queued] = field(default_factory=list)
    held: list[tuple[Lease, Queued]] = field(default_factory=list)
    number: int = 0
    term: int = 0

    def known(self, name: str) -> bool:
        """Whether a request for the page is on its way."""
        return any(one.name == name for one in (*self.queue, *(queued for _, queued in self.held)))


class PageMachine(RuleBasedStateMachine):
    make: Callable[[], Crawl]

    def __init__(self) -> None:
        super().__init__()
        self.crawl = type(self).make()
        self.worker = self.crawl.worker()
        self.planner = Token.fresh()
        self.expected = Expected()
        self.earlier: tuple[Picture, Expected, RecordPolicy] | None = None

    @initialize(policy=POLICIES)
    def begin(self, policy: RecordPolicy) -> None:
        self.policy = policy
        self.sighting = RediscoveryRules(0.0, None, None, policy.finished, policy.failed, policy.gone, policy.newer)
        self.define()

    def define(self, records: bool = True) -> None:
        self.crawl.define({"a": LanePolicy(records=self.policy if records else None)})

    @property
    def now(self) -> float:
        return self.crawl.frontier.counts().now

    def turn(self, name: str, state: PageState, now: float, **more: int) -> None:
        record = self.expected.records.get(name, PageRecord(state, now))
        self.expected.records[name] = record._replace(state=state, changed=now, **more)
        self.expected.due.pop(name, None)

    def enter(self, name: str, now: float) -> None:
        """A page is wanted: it waits for the planner, or is queued."""
        if self.expected.term:
            self.turn(name, PageState.FOUND, now, version=self.expected.number)
            self.expected.due[name] = now
        else:
            self.turn(name, PageState.SCHEDULED, now, version=self.expected.number)
            self.expected.queue.append(Queued(name, True))

    def move(self, name: str, now: float) -> None:
        """A due page goes into the queue, unless the lane has stopped to visit pages."""
        record = self.expected.records[name]
        self.turn(name, PageState.SCHEDULED, now, version=max(self.expected.number, record.version))
        self.expected.queue.append(Queued(name, True, record.state is not PageState.FOUND))

    # Links and visits.

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    def link(self, names: list[str]) -> None:
        names = [name for name in names if not any(not one.filtered and one.name == name for one in self.on_its_way())]
        outcomes = self.crawl.add(*names) if names else []
        now = self.now
        for name, outcome in zip(names, outcomes, strict=True):
            record = self.expected.records.get(name)
            if record is not None and record.state in (PageState.FOUND, PageState.SCHEDULED):
                assert outcome is AddOutcome.DUPLICATE
                continue
            at = rediscovered(record, self.sighting, self.expected.number, now).at
            assert (outcome is AddOutcome.ADDED) == (at is not None and at <= now), (name, record, at, now)
            if at is not None and at <= now:
                self.enter(name, now)
            elif at is not None:
                self.expected.due[name] = min(at, self.expected.due.get(name, at))

    def pass_by_the_filter(self, name: str) -> None:
        if not self.expected.known(name):
            assert self.crawl.add(name, dont_filter=True) == [AddOutcome.ADDED]
            self.expected.queue.append(Queued(name, False))

    def on_its_way(self) -> list[Queued]:
        return [*self.expected.queue, *(queued for _, queued in self.expected.held)]

    @rule(want=st.integers(1, 3))
    def lease(self, want: int) -> None:
        answer = self.worker.exchange(want=want)
        self.leased(answer.leases, answer.hints.now)
        assert len(answer.leases) == want or not self.expected.queue

    def leased(self, leases: list[Lease], now: float) -> None:
        if not self.expected.term:
            for name, due in sorted(self.expected.due.items(), key=lambda one: one[1]):
                if due <= now:
                    self.move(name, now)
        for lease in leases:
            name = lease.payload.decode()
            found = [one for one in self.expected.queue if (one.name, one.visit) == (name, lease.visit)]
            assert found, f"{name} was fetched before it was due, or twice, or is not taken for what it is"
            self.expected.queue.remove(found[0])
            self.expected.held.append((lease, found[0]))

    @rule(data=st.data(), want=st.integers(1, 4))
    def work(self, data: st.DataObject, want: int) -> None:
        """Most of what a crawl does: pages are leased and settled."""
        self.lease(want)
        while self.expected.held:
            self.settle(data)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if not self.expected.held:
            return
        place = data.draw(st.integers(0, len(self.expected.held) - 1), "held")
        how = data.draw(st.sampled_from((*HOW, "read", "failed", "retry", "replaced")), "how")
        signature = data.draw(st.integers(1, 2), "signature")
        lease, queued = self.expected.held.pop(place)
        name, filtered = queued.name, queued.filtered
        ending = Ending(how) if how in ("failed", "retry", "replaced") else Ending.DONE
        visit = PageVisit(HOW[how][1], signature if how == "read" else 0) if how in HOW else None
        answer = self.worker.exchange(settle=[Settlement(lease, ending, visit=visit)])
        now = answer.hints.now
        if how == "retry":
            self.expected.queue.append(queued)
            return
        record = self.expected.records.get(name)
        # Another request decides: the one that waits, or is queued.
        others = (PageState.FOUND,) if filtered else (PageState.FOUND, PageState.SCHEDULED)
        if (record is not None and record.state in others) or (how == "replaced" and not filtered):
            return
        record = record or PageRecord(PageState.SCHEDULED, now, version=self.expected.number)
        due: float | None
        if how == "failed":
            record, due = self.failed(record, now)
        else:
            kind = HOW[how][0] if how in HOW else Visit.UNCHANGED
            record, due = visited(record, self.policy.revisit, kind, signature, now)
        self.expected.records[name] = record
        self.expected.due.pop(name, None)
        if due is not None:
            self.expected.due[name] = due

    def failed(self, record: PageRecord, now: float) -> tuple[PageRecord, float | None]:
        record = record._replace(state=PageState.FAILED, changed=now)
        if (rules := self.policy.revisit) is None:
            return record, None
        interval = min(2 * max(record.interval, rules.every), max(rules.bounds[1], rules.every))
        return record._replace(interval=interval), now + interval

    @rule(seconds=st.sampled_from((600, 900, 3000)), data=st.data())
    def later(self, seconds: int, data: st.DataObject) -> None:
        """Time passes, and what is due by then is visited."""
        self.wait(seconds)
        self.feed(3)
        self.work(data, 4)

    # Time, rounds, planners.

    @rule(what=st.sampled_from(("lead", "feed", "feed", "resign")), most=st.integers(0, 3))
    def plan(self, what: str, most: int) -> None:
        if what == "feed":
            self.feed(most)
        else:
            getattr(self, what)()

    @rule(
        what=st.sampled_from(
            ("next_round", "next_round", "switch_off_and_on", "visit_otherwise", "drop", "remember", "go_back")
        ),
        name=st.none() | st.sampled_from(NAMES),
    )
    def interfere(self, what: str, name: str | None) -> None:
        if name is not None:
            self.pass_by_the_filter(name)
        else:
            getattr(self, what)()

    @rule(seconds=st.sampled_from((30, 300, 600, 900, 3000)))
    def wait(self, seconds: int) -> None:
        """What is held is given back first, or its leases would run out."""
        if self.expected.held:
            assert all(self.worker.release(*(lease for lease, _ in self.expected.held)))
            self.expected.queue += [queued for _, queued in self.expected.held]
            self.expected.held.clear()
        self.crawl.advance(seconds)

    def next_round(self) -> None:
        self.expected.number += 1
        self.crawl.frontier.new_round("g", self.expected.number)

    def lead(self) -> None:
        """A planner feeds from now on."""
        if not self.expected.term:
            self.expected.term = self.crawl.frontier.lead(self.planner, "planner", 1e6).term
            self.feed(0)

    def feed(self, most: int) -> None:
        if not self.expected.term:
            return
        [row] = self.crawl.frontier.feed(0, [("g.a", most, None)], term=self.expected.term)
        now = self.now
        due = sorted((at, name) for name, at in self.expected.due.items() if at <= now)
        assert row.moved == min(most, len(due))
        # Of pages found in one moment, any may be first.
        moved = {one.name for one in self._records() if one.state is PageState.SCHEDULED}
        for _, name in due:
            if name in moved:
                self.move(name, now)

    def resign(self) -> None:
        if self.expected.term:
            assert self.crawl.frontier.resign(self.planner, self.expected.term)
            self.expected.term = 0

    # Operators and faults.

    def switch_off_and_on(self) -> None:
        """Pages that wait are queued, and all others are new again."""
        self.define(records=False)
        self.define()
        for name, record in self.expected.records.items():
            if record.state is PageState.FOUND:
                self.expected.queue.append(Queued(name, True))
        self.expected.records.clear()
        self.expected.due.clear()

    def visit_otherwise(self) -> None:
        """The lane visits its pages twice as often, or half as often again: what comes sooner does so at once."""
        if (before := self.policy.revisit) is None:
            return
        factor = 0.5 if before.every == USUAL else 2.0
        rules = before._replace(every=before.every * factor, min=before.min * factor, max=before.max * factor)
        self.policy = replace(self.policy, revisit=rules)
        self.define()
        low, high = rules.bounds
        for name, at in self.expected.due.items():
            record = self.expected.records[name]
            if factor > 1 or not record.interval or record.state in (PageState.FOUND, PageState.SCHEDULED):
                continue
            fixed = record.state is PageState.FINISHED and not rules.adaptive
            interval = rules.every if fixed else min(max(record.interval, low), max(high, rules.every))
            if record.changed + interval < at:
                self.expected.records[name] = record._replace(interval=interval)
                self.expected.due[name] = record.changed + interval

    def drop(self) -> None:
        if not self.expected.held:
            gone = len(self.expected.queue) + sum(
                record.state is PageState.FOUND for record in self.expected.records.values()
            )
            assert sum(self.crawl.frontier.drop_lane("g.a")) == gone
            self.define()
            self.expected = Expected(number=self.expected.number, term=self.expected.term)

    def remember(self) -> None:
        self.earlier = picture(self.crawl), deepcopy(self.expected), self.policy

    def go_back(self) -> None:
        """The server has an earlier state, with the clock of then; what the worker leased since is lost."""
        if self.earlier is not None:
            go_back(self.crawl, self.earlier[0])
            self.expected, self.policy = deepcopy(self.earlier[1]), self.earlier[2]

    # What holds at any time.

    class Row(NamedTuple):
        name: str
        state: PageState
        due: float
        interval: float
        changes: int
        misses: int
        version: int

    def _records(self) -> list[Row]:
        rows = self.crawl.frontier.scan_page_records("g.a", 0, limit=1000)[1]
        return [
            self.Row(row.payload.decode(), row.state, row.due, row.interval, row.changes, row.misses, row.version)
            for row in rows
        ]

    @invariant()
    def the_records_are_as_expected(self) -> None:
        found = {row.name: row for row in self._records()}
        assert set(found) == set(self.expected.records)
        for name, record in self.expected.records.items():
            row = found[name]
            assert row.state is record.state, (name, row, record)
            assert abs(row.due - self.expected.due.get(name, 0.0)) < 2, (name, row, self.expected.due.get(name))
            assert abs(row.interval - record.interval) < 0.01, (name, row, record)
            assert (row.changes, row.misses, row.version) == (record.changes, record.misses, record.version)

    @invariant()
    def nothing_is_lost(self) -> None:
        lane = self.crawl.lane()
        waiting = sum(record.state is PageState.FOUND for record in self.expected.records.values())
        assert (lane.queued, lane.leased, lane.found) == (len(self.expected.queue), len(self.expected.held), waiting)
        self.crawl.balanced()

    def teardown(self) -> None:
        """Without a planner, all that is queued, waits or falls due goes out."""
        self.resign()
        self.wait(30)
        left = {one.name for one in self.expected.queue} | set(self.expected.due)
        last = max([*self.expected.due.values(), 0.0]) - self.now
        if last > 0:
            self.crawl.advance(last + 1)
        assert left <= set(self.crawl.finish(most=100)), "some page is lost"


@pytest.mark.timeout(300 * FACTOR)
def test_no_page_is_lost_or_fetched_before_it_is_due(valkey_server: Server, opened: Callable[..., Crawl]) -> None:
    def make() -> Crawl:
        return opened(valkey_server.url, f"pages-{Token.fresh().incarnation}")

    run_state_machine_as_test(
        type("Tested", (PageMachine,), {"make": staticmethod(make)}),
        settings=settings(
            max_examples=20 * FACTOR,
            stateful_step_count=40,
            derandomize=FACTOR == 1,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
