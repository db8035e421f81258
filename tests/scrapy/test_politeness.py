"""Politeness of a real fleet, as the site sees it: four worker processes together are no ruder than one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import pytest
from bench.crawls.fleet import Fleet
from bench.crawls.shape import Shape
from bench.crawls.site import Visit
from tests.support.workers.forked import forked_workers

from gossamer.testing.servers import Server

__all__ = ["forked_workers"]
pytestmark = pytest.mark.usefixtures("forked_workers")

WORKERS = 4
SEND = 0.5
"""Seconds that a worker may keep a request before it sends it; later, it gives it back."""
SLACK = SEND + 0.5
"""Seconds that a request may be held up on its way to the site, so that the next one seems too close to it."""


def by_host(visits: Sequence[Visit], hosts: int) -> list[list[Visit]]:
    return [[visit for visit in visits if visit.host == host] for host in range(hosts)]


def check_spacing(visits: Sequence[Visit], delay: float) -> None:
    """However many requests in a row one takes, they take as long as the delay between them asks for. The slack is the same
    for two requests and for all of them, so a rate that is too high is found."""
    times = [visit.time for visit in visits]
    for first in range(len(times)):
        for last in range(first + 1, len(times)):
            wanted = (last - first) * delay
            took = times[last] - times[first]
            assert took >= wanted - SLACK, f"{last - first + 1} requests in {took:.2f} s, not in {wanted:.2f} s"
    assert median(later - earlier for earlier, later in pairwise(times)) >= 0.9 * delay


@pytest.mark.timeout(400)
def test_four_workers_keep_the_delay_between_requests_to_a_host(valkey_server: Server, crawl_name: str) -> None:
    delay, shape = 0.25, Shape("flat", 46, hosts=3)
    polite = {"DOWNLOAD_DELAY": delay, "RANDOMIZE_DOWNLOAD_DELAY": False}
    with Fleet(shape, valkey_server.url, crawl_name, hold=True, delay=0.0, more=polite) as fleet:
        fleet.environ["GOSSAMER_SEND_SECONDS"] = str(SEND)
        workers = fleet.together(WORKERS)
        assert fleet.end(workers, 300) == ["finished"] * WORKERS
        fleet.check()
        visits = fleet.site.visits()
    for some in by_host(visits, shape.hosts):
        check_spacing(some, delay)
    assert len({visit.who for visit in visits}) > 1, "more than one of them worked"


@pytest.mark.timeout(400)
def test_four_workers_never_have_more_in_flight_than_a_host_allows(valkey_server: Server, crawl_name: str) -> None:
    limit, shape = 3, Shape("flat", 120, hosts=2)
    # Each of them alone could have many times as many in flight, and pages take long enough to be in flight together.
    polite = {"CONCURRENT_REQUESTS_PER_DOMAIN": limit}
    with Fleet(shape, valkey_server.url, crawl_name, hold=True, delay=0.1, concurrent=16, more=polite) as fleet:
        workers = fleet.together(WORKERS)
        assert fleet.end(workers, 300) == ["finished"] * WORKERS
        fleet.check()
        visits = fleet.site.visits()
    for some in by_host(visits, shape.hosts):
        most = max(visit.in_flight for visit in some)
        assert most <= limit, f"{most} requests at once"
        assert most == limit, "the limit is what held the fleet back"


def test_a_fleet_without_manners_would_be_noticed() -> None:
    alone = [Visit(place * 0.25, place, 0, 1, "x") for place in range(40)]
    check_spacing(alone, 0.25)
    four = [Visit(place * 0.25 / WORKERS, place, 0, 1, "x") for place in range(15)]
    with pytest.raises(AssertionError, match="requests in"):
        check_spacing(four, 0.25)
    double = [Visit(place * 0.25 / 2, place, 0, 1, "x") for place in range(15)]
    with pytest.raises(AssertionError, match="requests in"):
        check_spacing(double, 0.25)
