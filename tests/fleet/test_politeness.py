"""Fairness and politeness of a fleet of eight processes, checked on what was leased and when.

A lease's time is the server's own: its deadline less the lease seconds. A slot is surely still taken until the moment at which
the worker sends the word that the response arrived; the server can only learn of it later. So a check that counts until
then may miss a violation of a millisecond, but never raises a false alarm.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import count, islice, pairwise
from typing import NamedTuple

import pytest
from tests.support.auditor.audit import audit
from tests.support.fork_context import fork_context

from gossamer.frontier.server import keys
from gossamer.frontier.server import library as server_library
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Fetched, GroupPolicy, HostPolicy, LanePolicy, Lease, Request, Settlement, Token
from gossamer.settings import Settings, load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Cluster, Server

FLEET = 8
LEASE_SECONDS = 600.0
LIMITS = {
    "slow": HostPolicy(delay=0.03, concurrency=2),
    "narrow": HostPolicy(concurrency=1),
    "wide": HostPolicy(concurrency=3),
    "both": HostPolicy(delay=0.01, concurrency=3),
}
PAGES = {"slow": 25, "narrow": 120, "wide": 240, "both": 60, "free": 100}


class Row(NamedTuple):
    """One lease: when the server gave it, and until when its slot was surely taken (server time, milliseconds)."""

    partition: int
    id: int
    lane: str
    host: str
    leased: int
    taken_until: int


class Log(NamedTuple):
    """What one worker saw. `waited`: how often it was given less than it wanted and told to come back later."""

    rows: list[Row]
    waited: int


def at(url: str, crawl: str, partitions: int) -> Settings:
    given = {
        "GOSSAMER_URL": url,
        "GOSSAMER_CRAWL": crawl,
        "GOSSAMER_PARTITIONS": partitions,
        "GOSSAMER_LEASE_SECONDS": LEASE_SECONDS,
    }
    return load(given, environ={})


def work(settings: Settings, seed: int, library: str | None) -> Log:
    """One process of the fleet: until all is done, or the group may not go on."""
    choice, token, waited = random.Random(seed), Token.fresh(), 0
    fetching: list[Lease] = []
    settling: list[Lease] = []
    rows: list[Row] = []
    with ValkeyFrontier.open(settings, library=library) as frontier:
        while True:
            sending = int(time.time() * 1000)
            rows += [
                Row(lease.partition, lease.id, lease.lane, lease.host, leased_at(lease), sending) for lease in fetching
            ]
            answer = frontier.exchange(
                token,
                fetched=[Fetched(lease) for lease in fetching],
                settle=[Settlement(lease) for lease in settling],
                want=choice.randint(1, 6) * frontier.partitions,
            )
            token = token.next()
            settling, fetching = fetching, answer.leases
            if not fetching and not settling:
                over = answer.hints.open == 0 or answer.hints.paused == "pages_full"
                if over:
                    return Log(rows, waited)
                waited += bool(answer.hints.ready_in)
                time.sleep(min(0.02, answer.hints.ready_in or 0.02))


def leased_at(lease: Lease) -> int:
    return round((lease.deadline - LEASE_SECONDS) * 1000)


def fleet(frontier: ValkeyFrontier, settings: Settings, library: str | None = None) -> list[Log]:
    """Let eight processes work at once: nothing is leased before the last of them has called."""
    frontier.pause()
    with ProcessPoolExecutor(FLEET, mp_context=fork_context()) as pool:
        running: list[Future[Log]] = [pool.submit(work, settings, seed, library) for seed in range(FLEET)]

        def gathered() -> bool:
            for one in running:
                if one.done():
                    one.result()
            return len(frontier.workers()) == FLEET

        try:
            wait_until(gathered, "eight workers to call", 90)
        finally:
            frontier.resume()
        return [one.result() for one in running]


def check_politeness(rows: Sequence[Row], limits: Mapping[str, HostPolicy]) -> dict[str, int]:
    """AssertionError if a host was asked too soon or too often at once; answers how many were in flight at most."""
    most: dict[str, int] = {}
    for host, policy in limits.items():
        mine = sorted((row for row in rows if row.host == host), key=lambda row: row.id)
        for row, following in pairwise(mine):
            gap = following.leased - row.leased
            assert gap >= round(policy.delay * 1000), f"{host}: {row.id} and {following.id} are {gap} ms apart"
        for place, row in enumerate(mine):
            others = sum(other.taken_until > row.leased for other in mine[:place])
            most[host] = max(most.get(host, 0), others + 1)
            assert policy.concurrency == 0 or others < policy.concurrency, f"{host}: {others + 1} at once with {row.id}"
    return most


def polite_crawl(settings: Settings, library: str | None = None) -> tuple[list[Row], int]:
    with ValkeyFrontier.open(settings, library=library) as frontier:
        frontier.define("g", {"a": LanePolicy(), "b": LanePolicy(weight=2)})
        for host, policy in LIMITS.items():
            frontier.set_host(host, policy)
        pages = [(host, number) for host, count in PAGES.items() for number in range(count)]
        requests = [Request(place, host, f"g.{'ab'[number % 2]}") for place, (host, number) in enumerate(pages)]
        frontier.add(requests)
        logs = fleet(frontier, settings, library)
        rows = [row for log in logs for row in log.rows]
        assert Counter(row.host for row in rows) == PAGES, "every page once"
        audit(frontier, filtered=True)
        return rows, sum(log.waited for log in logs)


@pytest.mark.timeout(300)
def test_eight_processes_never_ask_a_host_too_often(valkey_server: Server, crawl_name: str) -> None:
    rows, waited = polite_crawl(at(valkey_server.url, crawl_name, 1))
    most = check_politeness(rows, LIMITS)
    # The limits were met, so they were what kept the fleet back.
    assert most["wide"] == 3
    assert most["narrow"] == 1
    assert waited > 0


@pytest.mark.timeout(300)
def test_eight_processes_on_a_cluster_never_ask_a_host_too_often(cluster: Cluster, crawl_name: str) -> None:
    rows, waited = polite_crawl(at(cluster.url, crawl_name, 3))
    assert len({row.partition for row in rows}) > 1, "the hosts of this test lie on several partitions"
    check_politeness(rows, LIMITS)
    assert waited > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "right", "wrong", "host"),
    [
        (
            "host",
            "return sent + max(Host.delay(S, host), host.gap, host.heeds and asked(S, host) or 0)",
            "return 0",
            "slow",
        ),
        ("host", "local free = limit == 0 and huge or limit - host.inflight", "local free = huge", "wide"),
    ],
)
def test_a_fleet_without_manners_is_noticed(name: str, right: str, wrong: str, host: str, crawl_name: str) -> None:
    source = server_library.source(name)
    assert source.count(right) == 1, f"{name}.lua no longer has {right!r}: change this test, too"
    library = server_library.changed_library({name: source.replace(right, wrong)})
    with Server("valkey") as server:
        rows, _ = polite_crawl(at(server.url, crawl_name, 1), library)
    with pytest.raises(AssertionError, match=host):
        check_politeness(rows, {host: LIMITS[host]})


WEIGHTS = {"g.one": 1, "g.two": 2, "g.five": 5}
ALL = 2400
WINDOW = 800


def fair_crawl(settings: Settings) -> list[Row]:
    """Lanes with more work than is leased; a lane of a later tier has work, too, and must wait."""
    with ValkeyFrontier.open(settings, host=HostPolicy(concurrency=0)) as frontier:
        lanes = {lane.partition(".")[2]: LanePolicy(weight=weight) for lane, weight in WEIGHTS.items()}
        frontier.define("g", {**lanes, "later": LanePolicy(tier=1, weight=100)}, GroupPolicy(max_pages=ALL))
        numbers = count()
        for lane, weight in {**WEIGHTS, "g.later": 1}.items():
            for partition in range(frontier.partitions):
                names = (f"{lane}{number}" for number in count())
                here = (name for name in names if keys.partition_of(name, frontier.partitions) == partition)
                hosts = list(islice(here, 4))
                amount = ALL * weight // sum(WEIGHTS.values()) + 100
                frontier.add([Request(next(numbers), hosts[place % 4], lane) for place in range(amount)])
        rows = [row for log in fleet(frontier, settings) for row in log.rows]
        for counts in frontier.counts().lanes:
            assert counts.queued > 0, f"{counts.lane} ran empty: its share says nothing"
        return rows


def check_shares(rows: Sequence[Row]) -> None:
    ordered = sorted(rows, key=lambda row: row.id)
    assert len(ordered) >= WINDOW
    for start in range(0, len(ordered) - WINDOW + 1, WINDOW // 4):
        shares = Counter(row.lane for row in ordered[start : start + WINDOW])
        assert shares["g.later"] == 0
        for lane, weight in WEIGHTS.items():
            expected = WINDOW * weight / sum(WEIGHTS.values())
            assert abs(shares[lane] - expected) <= 0.05 * expected, f"{lane} had {shares[lane]} of {WINDOW} at {start}"


@pytest.mark.timeout(300)
def test_eight_processes_share_lanes_by_weight(valkey_server: Server, crawl_name: str) -> None:
    check_shares(fair_crawl(at(valkey_server.url, crawl_name, 1)))


@pytest.mark.timeout(300)
def test_eight_processes_on_a_cluster_share_lanes_by_weight(cluster: Cluster, crawl_name: str) -> None:
    rows = fair_crawl(at(cluster.url, crawl_name, 3))
    for partition in range(3):
        check_shares([row for row in rows if row.partition == partition])
