"""Pages that several workers try: one dies between two calls, another is late, and the page has changed meanwhile.

A page with children for several partitions, or with more than one call holds, is settled by several calls. The server's side of
each is atomic; what happens between them is not, so everything may: here the worker stops after any number of calls (some of
those that go side by side included), its lease runs out, others try, and it goes on where it was, late. In the end one attempt is
settled. Whatever was tried: every unfiltered child of that attempt is there, as often as the page had it, and no filtered one twice;
a worker that goes on late changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.frontier.contract.machine.ground import FACTOR
from tests.support.auditor.audit import audit
from tests.support.auditor.remains import remains

from gossamer.errors import FrontierError
from gossamer.frontier.call import Verb
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.work import part
from gossamer.model import (
    ExchangeReply,
    HostPolicy,
    LanePolicy,
    Lease,
    Request,
    SeenPolicy,
    SeenScope,
    Settlement,
    SettleOutcome,
    Token,
)
from gossamer.settings import load
from gossamer.testing import clock
from gossamer.testing.servers import Server

LEASE = 1_000.0
CALL = 3
"""So many children go in one call here, so that few are many."""
HOSTS = tuple(f"host{number}" for number in range(6))
PARENT = "parent"
GROUP = "tried"
START, PAGES = f"{GROUP}.start", f"{GROUP}.pages"
UNFILTERED = 12
"""Children up to this number are unfiltered, those above are not."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("valkey") as running:
        yield running


@pytest.fixture(autouse=True)
def small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "CALL_REQUESTS", CALL)


child = st.integers(1, 24).map(
    lambda number: Request(number, HOSTS[number % len(HOSTS)], PAGES, b"%d" % number, 0, number <= UNFILTERED)
)
attempt = st.tuples(st.lists(child, max_size=8), st.integers(0, 6), st.integers(0, 3), st.booleans())
"""What the page has, after how many calls the worker stops and how many of the next get through, and whether it goes on late."""


class Attempt:
    """One worker's call that settles the page, as far as it came."""

    def __init__(self, frontier: ValkeyFrontier, lease: Lease, token: Token, children: list[Request]) -> None:
        self.frontier, self.children = frontier, children
        self.answer: ExchangeReply | None = None
        self.verb: Verb[ExchangeReply] = frontier.verbs.work.exchange(token, settle=[Settlement(lease, add=children)])
        self.asks = next(self.verb)

    def go(self, calls: int, some: int = 0) -> None:
        """So many steps on; of the next only some questions arrive, and the worker does not hear the answers."""
        for _ in range(calls):
            if self.answer is None:
                self.step(self.frontier.ask(self.asks))
        if self.answer is None and some:
            self.frontier.ask(self.asks[:some])

    def step(self, replies: list[Any]) -> None:
        try:
            self.asks = self.verb.send(replies)
        except StopIteration as stop:
            self.answer = stop.value


SEARCH = settings(
    max_examples=30 * FACTOR,
    derandomize=FACTOR == 1,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def page(server: Server, partitions: int) -> Iterator[ValkeyFrontier]:
    """A crawl with one page to be fetched."""
    server.call("FLUSHALL")
    given = {
        "GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "tries", "GOSSAMER_PARTITIONS": partitions,
        "GOSSAMER_LEASE_SECONDS": LEASE, "GOSSAMER_POISON_STRIKES": 100,
    }  # fmt: skip
    with ValkeyFrontier.open(load(given, environ={}), host=HostPolicy(concurrency=0)) as frontier:
        frontier.define(GROUP, {"start": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER)), "pages": LanePolicy()})
        frontier.add([Request(0, PARENT, START, PARENT.encode())])
        yield frontier


@pytest.mark.timeout(300 * FACTOR)
@SEARCH
@given(partitions=st.sampled_from((1, 3)), tries=st.lists(attempt, max_size=3), last=st.lists(child, max_size=8))
def test_a_page_is_what_its_last_attempt_found(
    server: Server,
    partitions: int,
    tries: list[tuple[list[Request], int, int, bool]],
    last: list[Request],
) -> None:
    with page(server, partitions) as frontier:
        begun: list[Attempt] = []
        late: list[Attempt] = []
        for children, calls, some, goes_on in [*tries, (last, 1000, 0, False)]:
            token = Token.fresh()
            leases = lease_parent(frontier, token)
            if not leases:
                break  # the attempt before has come through, heard or not
            begun.append(Attempt(frontier, leases[0], token.next(), children))
            note(
                f"{[one.fingerprint for one in children]}: {calls} steps and {some} calls{', late' if goes_on else ''}"
            )
            begun[-1].go(calls, some)
            late += begun[-1:] if goes_on else []
            clock.advance(frontier, 2 * LEASE)
        assert not lease_parent(frontier, Token.fresh()), "the page was never settled"
        before = there(frontier)
        note(f"there is {before}")
        for one in late:
            one.go(1000)
            assert one is begun[-1] or (one.answer and one.answer.settled == [SettleOutcome.LOST])
        after = there(frontier)
        assert after == before, "a late worker has added something"
        judge(begun, after)


@pytest.mark.timeout(300 * FACTOR)
@SEARCH
@given(partitions=st.sampled_from((1, 3)), tried=attempt)
def test_a_dropped_group_is_not_heard_of_again(
    server: Server, partitions: int, tried: tuple[list[Request], int, int, bool]
) -> None:
    """Whatever its page still owes when its worker dies, and though the worker goes on when the group is gone."""
    children, calls, some, goes_on = tried
    with page(server, partitions) as frontier:
        token = Token.fresh()
        begun = Attempt(frontier, lease_parent(frontier, token)[0], token.next(), children)
        begun.go(calls, some)
        frontier.pause(group=GROUP)
        for _ in range(3):  # the lease runs out; nothing else is leased meanwhile
            clock.advance(frontier, 2 * LEASE)
            frontier.exchange(Token.fresh())
        for _ in frontier.drop_group(GROUP):
            pass
        if goes_on:
            with suppress(FrontierError):
                begun.go(1000)
        clock.advance(frontier, 2 * LEASE)
        for _ in range(3):
            assert not frontier.exchange(Token.fresh(), want=100).leases
        left = remains(frontier, GROUP)
        assert not left, f"a dropped group left {left[:10]}"
        audit(frontier)


def lease_parent(frontier: ValkeyFrontier, token: Token) -> list[Lease]:
    answer = frontier.exchange(token, want=len(HOSTS) * 10)
    parents = [lease for lease in answer.leases if lease.lane == START]
    frontier.release(token, [lease for lease in answer.leases if lease.lane != START])
    return parents


def there(frontier: ValkeyFrontier) -> Counter[int]:
    """How often each child is there."""
    return Counter(
        record.fingerprint
        for picture in audit(frontier)
        for _, lane, _, _, record in picture.requests()
        if lane == PAGES
    )


def judge(begun: list[Attempt], found: Counter[int]) -> None:
    """The last attempt is the one that was settled; what others had sent before their leases ran out may be there too."""
    had = [Counter(one.fingerprint for one in each.children) for each in begun]
    for number in {number for each in had for number in each} | set(found):
        least, most = had[-1][number], max(each[number] for each in had)
        if number > UNFILTERED:
            least, most = min(least, 1), min(most, 1)
        assert least <= found[number] <= most, f"{number} is there {found[number]} times, the page had it {least} times"
