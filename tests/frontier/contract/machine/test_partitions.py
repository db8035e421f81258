"""One of several partitions goes back to an earlier state at any moment of a crawl of several rounds, while the workers go on.

Whatever it forgets (the group, the beginning of a round, a start, children of other partitions), and whenever: every page of the site is
fetched in every round, and the crawl comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.frontier.contract.conftest import made
from tests.frontier.contract.conftest import settings as chosen
from tests.frontier.contract.machine.ground import FACTOR

from gossamer.errors import UnknownGroup
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Request, SeenPolicy, SeenScope, Selection, Settlement, StartState
from gossamer.testing.contract.crawl import SETTLED, Crawl, Worker
from gossamer.testing.contract.guarantees.rollback import Picture, another_process, go_back, picture
from gossamer.testing.servers import Server

PARTITIONS, ROUNDS, TURNS, QUIET = 3, 3, 400, 6
LANES = {"a": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND))}
BACK_MAX, LATE = 2, 8
"""How often a partition goes back, and after how many steps at the latest."""


class Site:
    """Pages that link to each other, on hosts of all partitions."""

    def __init__(self, crawl: Crawl, random: Random) -> None:
        hosts, count = crawl.spread(2 * PARTITIONS), random.randint(4, 14)
        self.hosts = [random.choice(hosts) for _ in range(count)]
        self.links = [[random.randrange(count) for _ in range(random.randint(0, 4))] for _ in range(count)]
        self.seeds = [random.randrange(count) for _ in range(random.randint(1, 2))]
        self.pages, todo = set[int](), list(self.seeds)
        while todo:
            page = todo.pop()
            if page not in self.pages:
                self.pages.add(page)
                todo += self.links[page]


class Run:
    """Two workers, and a partition that forgets. What happened is told if it fails."""

    def __init__(self, crawls: list[Crawl], random: Random) -> None:
        self.crawls, self.random, self.site = crawls, random, Site(crawls[0], random)
        self.workers = [Worker(crawl.frontier, Selection(("g",))) for crawl in crawls]
        self.told: list[str] = []
        self._saved: tuple[int, Picture] | None = None
        self._steps = self._backs = 0
        for worker in self.workers:
            worker.exchange(want=PARTITIONS)

    def trouble(self) -> None:
        """Something else happens before the next step, perhaps."""
        crawl, likely = self.crawls[0], self.random.random() < 0.25
        self._steps += 1
        if self._saved is None:
            if likely and self._backs < BACK_MAX:
                partition = self.random.randrange(PARTITIONS)
                self._saved, self._steps = (partition, picture(crawl, partition)), 0
                self.told.append(f"from here on {partition} forgets")
        elif likely or self._steps > LATE:
            partition, earlier = self._saved
            self._saved, self._backs = None, self._backs + 1
            go_back(crawl, earlier, partition)
            another_process(crawl, partition)
            self.told.append(f"{partition} has gone back")

    def requests(self, pages: list[int]) -> list[Request]:
        return [self.crawls[0].request(f"{page}", self.site.hosts[page]) for page in pages]

    def begin(self, number: int) -> None:
        self.told.append(f"round {number}")
        if number:
            self.random.choice(self.crawls).frontier.new_round("g", number)
        else:
            self.crawls[0].frontier.define("g", LANES, GroupPolicy(start=True))

    def fetched(self, number: int) -> set[int]:
        """Crawl a round to its end."""
        found, quiet = set[int](), 0
        for _ in range(TURNS):
            self.trouble()
            which = self.random.randrange(len(self.workers))
            worker, frontier = self.workers[which], self.crawls[which].frontier
            leases = worker.exchange(want=PARTITIONS).leases
            self.look_after(worker, number)
            for lease in leases:
                self.trouble()
                page = int(lease.payload)
                answer = worker.exchange(settle=[Settlement(lease, add=self.requests(self.site.links[page]))])
                self.told.append(
                    f"{which}: {page} {answer.settled[0].value} {[one.value for one in answer.children[0]]}"
                )
                if answer.settled == [SETTLED]:
                    found.add(page)
            if leases:
                quiet = 0
            elif self.drained(frontier):
                quiet += 1
                if quiet > QUIET and self._saved is None:
                    return found
            else:
                self.crawls[0].expire()
        raise AssertionError(f"round {number} does not end: {self.crawls[0].frontier.counts('g')}")

    def look_after(self, worker: Worker, number: int) -> None:
        """What workers do besides: make what is gone everywhere, begin the round that was asked for, run its start."""
        frontier = worker.frontier
        rows = frontier.counts("g").groups
        if not rows:
            frontier.define("g", LANES, GroupPolicy(start=True))
        elif rows[0].round < number:
            frontier.new_round("g", number)
        elif rows[0].start in ("owed", "leased"):
            state, present = frontier.start("g", worker.token)
            self.told.append(f"start {present}: {state.value}")
            if state is StartState.GRANTED:
                frontier.add(self.requests(self.site.seeds), key=f"start:{present}")
                self.trouble()
                known(lambda: frontier.started("g", worker.token))

    def drained(self, frontier: Frontier) -> bool:
        return known(lambda: frontier.drained("g").drained)


def known(ask: Callable[[], bool]) -> bool:
    """The answer; False from a partition that has forgotten the group and has not been told of it yet."""
    try:
        return ask()
    except UnknownGroup:
        return False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("valkey") as running:
        yield running


@pytest.mark.timeout(300 * FACTOR)
@settings(
    max_examples=40 * FACTOR,
    derandomize=FACTOR == 1,
    database=None,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_every_page_is_fetched_in_every_round(server: Server, seed: int) -> None:
    server.call("FLUSHALL")
    frontiers = [ValkeyFrontier.open(chosen(server.url, "parts", GOSSAMER_PARTITIONS=PARTITIONS)) for _ in range(2)]
    try:
        run = Run([made(frontier) for frontier in frontiers], Random(seed))
        for number in range(ROUNDS):
            run.trouble()
            run.begin(number)
            missing = run.site.pages - run.fetched(number)
            assert not missing, "\n".join(run.told)
    finally:
        for frontier in frontiers:
            frontier.close()
