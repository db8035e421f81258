"""Partitions go back to earlier states at any moment of a crawl of several rounds, together or not, while the workers go on.

Whatever they forget (the group, a lane, that one was dropped, the beginning of a round, a start, children of other partitions), and whenever:
every page of the site is fetched in every round, the crawl comes to an end, and nothing is left of a group or lane that was dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.frontier.contract.conftest import made
from tests.frontier.contract.conftest import settings as chosen
from tests.frontier.contract.machine.ground import FACTOR
from tests.support.auditor.remains import remains

from gossamer.courier.rounds import start_key
from gossamer.errors import GroupDropping, LaneKept, UnknownGroup, UnknownLane
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Request, SeenPolicy, SeenScope, Selection, Settlement, StartState
from gossamer.testing.contract.crawl import SETTLED, Crawl, Worker
from gossamer.testing.contract.earlier_state import Picture, another_process, define_apart, go_back, picture
from gossamer.testing.servers import Server

PARTITIONS, ROUNDS, TURNS, QUIET, GROUP = 3, 3, 400, 6, "shop"
LANES = {name: LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)) for name in "ab"}
JUNK = "junk"
"""A lane that is dropped with all that is in it."""
BACK_MAX, LATE = 3, 8
"""How often partitions go back, and after how many steps at the latest."""
FORGETFUL = PARTITIONS - 1
"""So many go back at a time: what all have forgotten did not happen."""


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
    """Two workers, and partitions that forget. What happened is told if it fails."""

    def __init__(self, crawls: list[Crawl], random: Random) -> None:
        self.crawls, self.random, self.site = crawls, random, Site(crawls[0], random)
        self.workers = [Worker(crawl.frontier, Selection((GROUP,))) for crawl in crawls]
        self.told: list[str] = []
        self._saved: dict[int, Picture] = {}
        self._steps = self._backs = 0
        for worker in self.workers:
            worker.exchange(want=PARTITIONS)

    def trouble(self) -> None:
        """Something else happens before the next step, perhaps."""
        crawl, likely = self.crawls[0], self.random.random() < 0.25
        self._steps += 1
        if likely and self._backs < BACK_MAX and len(self._saved) < FORGETFUL and self.random.random() < 0.7:
            partition = self.random.choice([p for p in range(PARTITIONS) if p not in self._saved])
            if not self._saved:
                self._steps = 0
            self._saved[partition] = picture(crawl, partition)
            self.told.append(f"from here on {partition} forgets")
        elif self._saved and (likely or self._steps > LATE):
            # Together, or one after the other.
            self._go_back(self.random.sample(sorted(self._saved), self.random.randint(1, len(self._saved))))

    def _go_back(self, partitions: list[int]) -> None:
        self._backs += 1
        for partition in partitions:
            go_back(self.crawls[0], self._saved.pop(partition), partition)
            another_process(self.crawls[0], partition)
            self.told.append(f"{partition} has gone back")

    def calm(self) -> None:
        """Nothing is forgotten any more but what is now."""
        self._go_back(sorted(self._saved))
        self._backs = BACK_MAX

    def requests(self, pages: list[int]) -> list[Request]:
        request, hosts = self.crawls[0].request, self.site.hosts
        return [request(f"{page}", hosts[page], f"{GROUP}.{'ab'[page % 2]}") for page in pages]

    def define(self, frontier: Frontier) -> None:
        """A lane at a time: a partition may have some of them."""
        for name, policy in LANES.items():
            frontier.define(GROUP, {name: policy}, GroupPolicy(start=True))
            self.trouble()

    def make_junk(self) -> None:
        """Make a lane and drop it."""
        self.told.append("there is junk")
        frontier, junk = self.random.choice(self.crawls).frontier, {JUNK: LanePolicy()}
        if self.random.random() < 0.5:  # Two workers at once: a birth for each partition.
            frontier.define(GROUP, {}, GroupPolicy(start=True))
            define_apart(self.crawls[0], GROUP, junk, range(PARTITIONS))
        frontier.define(GROUP, junk, GroupPolicy(start=True))
        self.trouble()
        frontier.add([self.crawls[0].request(f"x{host}", host, f"{GROUP}.{JUNK}") for host in self.site.hosts])
        self.told.append("it is dropped")
        kept = self.random.random() < 0.5
        while True:  # Until it is not there any more: a worker has made it again, perhaps.
            try:
                for gone in self.random.choice(self.crawls).frontier.drop_lane(f"{GROUP}.{JUNK}"):
                    self.trouble()
                    if not gone:
                        self.crawls[0].expire()
                    if kept and self.random.random() < 0.3:
                        kept = False
                        self.told.append("a worker starts meanwhile")
                        self.random.choice(self.crawls).frontier.define(GROUP, junk, GroupPolicy(start=True))
            except LaneKept:
                self.told.append("it is kept")
            except UnknownLane:
                return

    def begin(self, number: int) -> None:
        self.told.append(f"round {number}")
        if number:
            self.random.choice(self.crawls).frontier.new_round(GROUP, number)
        else:
            self.define(self.crawls[0].frontier)

    def drop(self, *, starting: bool = False) -> None:
        """With `starting`, workers start meanwhile: they are refused until it is gone, and what they make then stays."""
        self.told.append("it is dropped")
        frontiers = [crawl.frontier for crawl in self.crawls]
        for gone in self.random.choice(frontiers).drop_group(GROUP):
            self.trouble()
            if not gone:
                self.crawls[0].expire()  # What is leased nobody settles any more.
            if starting and self.random.random() < 0.3:
                with suppress(GroupDropping):
                    self.random.choice(frontiers).define(GROUP, LANES, GroupPolicy(start=True))
                    self.told.append("a worker has made it anew")

    def fetched(self, number: int) -> set[int]:
        """Crawl a round to its end."""
        found, quiet, backs = set[int](), list[int](), 0
        for _ in range(TURNS):
            self.trouble()
            if backs != self._backs:
                backs, quiet = self._backs, []
            which = self.random.randrange(len(self.workers))
            worker, frontier = self.workers[which], self.crawls[which].frontier
            leases = worker.exchange(want=PARTITIONS).leases
            self.look_after(worker, number)
            for lease in leases:
                self.trouble()
                if lease.lane.endswith(JUNK):
                    continue  # A partition has forgotten that it was dropped.
                page = int(lease.payload)
                answer = worker.exchange(settle=[Settlement(lease, add=self.requests(self.site.links[page]))])
                self.told.append(
                    f"{which}: {page} {answer.settled[0].value} {[one.value for one in answer.children[0]]}"
                )
                if answer.settled == [SETTLED]:
                    found.add(page)
            if leases:
                quiet = []
            elif self.drained(frontier):
                quiet.append(which)
                # Each of them looks once more before it ends: only who has added something knows that a partition lacks it.
                if len(quiet) > QUIET and len({*quiet}) == len(self.workers) and not self._saved:
                    there = [lane.lane for lane in frontier.counts(GROUP).lanes]
                    assert there == [f"{GROUP}.{name}" for name in LANES], "\n".join(self.told)
                    return found
            else:
                self.crawls[0].expire()
        raise AssertionError(f"round {number} does not end: {self.crawls[0].frontier.counts(GROUP)}")

    def look_after(self, worker: Worker, number: int) -> None:
        """What workers do besides: make what is gone everywhere, begin the round that was asked for, run its start."""
        frontier = worker.frontier
        counts = frontier.counts(GROUP)
        rows, lanes = counts.groups, {lane.lane for lane in counts.lanes}
        if not lanes.issuperset(f"{GROUP}.{name}" for name in LANES):
            self.define(frontier)
        elif rows[0].round < number:
            frontier.new_round(GROUP, number)
        elif rows[0].start in ("owed", "leased"):
            state, present = frontier.start(GROUP, worker.token)
            self.told.append(f"start {present}: {state.value}")
            if state is StartState.GRANTED:
                # Those that are not filtered are known by their keys alone.
                unfiltered = self.random.random() < 0.5
                seeds = [one._replace(dont_filter=unfiltered) for one in self.requests(self.site.seeds)]
                frontier.add(seeds, key=[start_key(GROUP, present, place) for place in range(len(seeds))])
                self.trouble()
                known(lambda: frontier.started(GROUP, worker.token))

    def drained(self, frontier: Frontier) -> bool:
        return known(lambda: frontier.drained(GROUP).drained)


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
    max_examples=20 * FACTOR,
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
        number = 0
        for _ in range(ROUNDS):
            run.trouble()
            run.begin(number)
            if run.random.random() < 0.4:
                run.make_junk()
            missing = run.site.pages - run.fetched(number)
            assert not missing, "\n".join(run.told)
            number += 1
            if run.random.random() < 0.4:
                run.drop(starting=run.random.random() < 0.5)
                run.begin(0)
                number = 0
        run.drop()
        run.calm()
        run.begin(0)  # Whoever makes it again makes up for what partitions have forgotten.
        run.drop()
        assert remains(frontiers[0], GROUP) == [], "\n".join(run.told)
    finally:
        for frontier in frontiers:
            frontier.close()
