"""A worker leaves out children that the server is known to know, and the server forgets them at any moment in between.

Whatever is forgotten, and whenever: a page that is settled has all its children in the frontier, and a page that is not is there
to be leased again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.frontier.contract.machine.ground import FACTOR
from tests.frontier.contract.machine.machine import log_file

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import HostPolicy, LanePolicy, Lease, PartitionState, Request, Settlement, SettleOutcome, Token
from gossamer.settings import load
from gossamer.testing.servers import Server

PAGES = 3
LANE = "g.pages"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("valkey").start(fsync="always") as running:
        yield running


class Careful:
    """A worker that leaves out what it knows to be known, as couriers do."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self.frontier, self.token = frontier, Token.fresh()
        self.held: list[Lease] = []
        self.known: set[int] = set()
        self.states: dict[int, PartitionState] = {}

    def lease(self) -> None:
        answer = self.frontier.exchange(self.token, want=PAGES)
        self.token = self.token.next()
        self.held += answer.leases
        self.states = dict(answer.states)

    def settle(self, page: Lease, links: list[int]) -> bool:
        every = [request(number) for number in links]
        some = [one for one in every if one.fingerprint not in self.known]
        settlement = Settlement(page, add=some, withheld=lambda: every)
        answer = self.frontier.exchange(self.token, settle=[settlement], relies=self.states)
        self.token = self.token.next()
        if not all(state.leads_to(answer.states[place]) for place, state in self.states.items()):
            self.known.clear()
        self.states = dict(answer.states)
        self.known.update(links if answer.settled == [SettleOutcome.SETTLED] else ())
        return answer.settled == [SettleOutcome.SETTLED]


def request(number: int) -> Request:
    return Request(number, "host", LANE, b"%d" % number)


@pytest.mark.timeout(300 * FACTOR)
@settings(
    max_examples=6 * FACTOR,
    derandomize=FACTOR == 1,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(
    links=st.lists(st.lists(st.integers(10, 14), min_size=1, max_size=3, unique=True), min_size=PAGES, max_size=PAGES),
    at=st.integers(1, PAGES - 1),
    to=st.integers(0, PAGES - 2),
)
def test_a_settled_page_has_its_children(server: Server, links: list[list[int]], at: int, to: int) -> None:
    """When `at` pages are settled, the state is again what it was after `to` of them."""
    server.call("FLUSHALL")
    values = {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "relied", "GOSSAMER_LEASE_SECONDS": 36_000}
    with ValkeyFrontier.open(load(values, environ={}), host=HostPolicy(concurrency=0)) as frontier:
        frontier.define("g", {"pages": LanePolicy()})
        frontier.add([request(number) for number in range(PAGES)])
        worker = Careful(frontier)
        worker.lease()
        log = log_file(server)
        sizes, settled = [log.stat().st_size], list[int]()
        for place, (page, found) in enumerate(zip(list(worker.held), links, strict=True)):
            if place == at:
                server.kill()
                os.truncate(log, sizes[min(to, at)])
                server.restart()
                settled = settled[:to]
            if worker.settle(page, found):
                settled.append(place)
            sizes.append(log.stat().st_size)
        for place in settled:
            known = frontier.seen(LANE, links[place])
            assert all(known), f"page {place} was settled, of its children {links[place]} are known: {known}"
        left = {lease.fingerprint for lease in worker.held} - {worker.held[place].fingerprint for place in settled}
        assert sum(lane.leased for lane in frontier.counts().lanes) == len(left)
