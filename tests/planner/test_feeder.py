"""Shares of the room on a real server: never more queued than the limit, everybody has a part, and a change of the leader changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.support.planned_crawl import PlannedCrawl

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    DueLane,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    RecordPolicy,
    Request,
    Selection,
    Settlement,
    Token,
)
from gossamer.planner.feeder import MILLION, rates
from gossamer.planner.loop import Planner
from gossamer.testing.servers import Server


@pytest.fixture
def crawl(valkey_server: Server, crawl_name: str) -> Iterator[PlannedCrawl]:
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        yield crawl


class Site:
    """A site whose pages wait for the planner; `find` finds new ones, `fetch` works on those that are queued."""

    numbers = count(1)

    def __init__(self, frontier: ValkeyFrontier, name: str, weight: float = 1.0) -> None:
        self.frontier, self.name, self.token = frontier, name, Token.fresh()
        frontier.define(name, {"page": LanePolicy(records=RecordPolicy())}, GroupPolicy(weight=weight))

    def find(self, number: int) -> None:
        requests = [Request(next(self.numbers), f"h{n % 7}.example", f"{self.name}.page", b"x") for n in range(number)]
        self.frontier.add(requests)

    def fetch(self, number: int) -> int:
        leases = self.frontier.exchange(self.token, want=number, selection=Selection(groups=(self.name,))).leases
        self.token = self.token.next()
        self.frontier.exchange(self.token, settle=[Settlement(lease) for lease in leases])
        self.token = self.token.next()
        return len(leases)

    @property
    def queued(self) -> int:
        return sum(lane.queued + lane.delayed for lane in self.frontier.counts(self.name).lanes)


def leading(crawl: PlannedCrawl, name: str, limit: int, shares: str = "weights") -> Planner:
    return Planner(crawl.frontier, name, seconds=4, limit=limit, shares=shares)


def test_what_is_found_faster_than_it_is_fetched_waits_below_the_limit_and_is_caught_up_with(
    crawl: PlannedCrawl,
) -> None:
    planner, site = leading(crawl, "one", 300), Site(crawl.frontier, "a")
    planner.cycle()
    fetched, curve = 0, []
    for _ in range(8):
        site.find(200)
        planner.cycle()
        curve.append(site.queued)
        fetched += site.fetch(60)
        crawl.advance(1)
    assert max(curve) <= 300
    assert curve[-1] >= 290, "the room is used"
    for _ in range(40):
        planner.cycle()
        assert site.queued <= 300
        fetched += site.fetch(100)
        crawl.advance(1)
        if fetched == 1600:
            break
    assert fetched == 1600
    assert crawl.frontier.drained("a").drained


def test_a_limit_below_the_number_of_partitions_holds_and_every_partition_has_its_turn(
    valkey_server: Server, crawl_name: str
) -> None:
    with PlannedCrawl(valkey_server, crawl_name, partitions=5) as crawl:
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        planner, site = leading(crawl, "one", 2), Site(crawl.frontier, "a")
        planner.cycle()
        site.find(20)
        fetched = 0
        for _ in range(20):
            planner.cycle()
            assert site.queued <= 2
            fetched += site.fetch(2)
        assert fetched == 20


@pytest.mark.parametrize("shares", ["weights", "neocrawler"])
def test_sites_have_their_part_by_weight_and_none_starves(crawl: PlannedCrawl, shares: str) -> None:
    planner = leading(crawl, "one", 40, shares)
    planner.cycle()
    sites = [
        Site(crawl.frontier, "heavy", 6.0),
        Site(crawl.frontier, "light", 2.0),
        Site(crawl.frontier, "tiny", 0.001),
    ]
    for site in sites:
        site.find(800)
    fetched = dict.fromkeys((site.name for site in sites), 0)
    for _ in range(20):
        planner.cycle()
        assert sum(site.queued for site in sites) <= 40
        for site in sites:
            fetched[site.name] += site.fetch(100)
        crawl.advance(1)
    assert fetched["tiny"] >= 20 if shares == "neocrawler" else fetched["tiny"] == 0, "a part of 1 in 8,000"
    assert 2.5 < fetched["heavy"] / fetched["light"] < 4, "3, but for what is rounded up and kept for the last"
    cycle = crawl.frontier.plan_cycles(1)[0]
    assert (cycle.limit, cycle.room, cycle.scheduled) == (20, 20, 0), "of two partitions, each has half"
    assert sum(lane.taken for lane in cycle.lanes) <= cycle.room
    assert {lane.lane for lane in cycle.lanes} == {"heavy.page", "light.page", "tiny.page"}


def test_a_weight_that_changes_counts_at_once_and_a_paused_site_takes_no_room(crawl: PlannedCrawl) -> None:
    planner, frontier = leading(crawl, "one", 30), crawl.frontier
    planner.cycle()
    first, second = Site(frontier, "first"), Site(frontier, "second")
    for site in (first, second):
        site.find(500)
    planner.cycle()
    assert (first.queued, second.queued) in ((15, 15), (16, 14), (14, 16))
    first.fetch(30)
    second.fetch(30)
    frontier.define("second", {"page": LanePolicy(records=RecordPolicy())}, GroupPolicy(weight=4.0))
    planner.cycle()
    assert first.queued + second.queued == 30
    assert 22 <= second.queued <= 26
    first.fetch(30)
    second.fetch(30)
    frontier.pause(group="second", reason="later")
    planner.cycle()
    assert (first.queued, second.queued) == (30, 0)


@pytest.mark.parametrize("key", ["weight: 0", "active: false"])
@pytest.mark.parametrize("limit", [30, 1])
def test_a_site_that_its_file_turns_off_takes_no_room(crawl: PlannedCrawl, key: str, limit: int) -> None:
    """Workers do not serve it: what it has queued would stay, and be missing to the others."""
    planner, frontier = leading(crawl, "one", limit), crawl.frontier
    planner.cycle()
    first, second = Site(frontier, "first"), Site(frontier, "second")
    for site in (first, second):
        site.find(500)
    planner.cycle()
    left = second.queued
    text = "site: second\nseeds: http://s.example/\nlayers: {page: {}}\n"
    frontier.put_document("site", "second", text + key + "\n")
    for _ in range(4):
        first.fetch(30)
        planner.cycle()
        assert (first.queued, second.queued) == (limit, left)
    frontier.put_document("site", "second", text)
    first.fetch(30)
    second.fetch(30)
    for _ in range(4):
        planner.cycle()
    assert second.queued or limit == 1


@pytest.mark.parametrize("shares", ["weights", "neocrawler"])
def test_a_site_that_took_all_the_room_and_then_stops_keeps_no_other_from_going_on(
    crawl: PlannedCrawl, shares: str
) -> None:
    planner, frontier = leading(crawl, "one", 129, shares), crawl.frontier
    planner.cycle()
    first = Site(frontier, "first")
    first.find(1000)
    for _ in range(12):
        planner.cycle()
        first.fetch(60)
    planner.cycle()
    assert first.queued == 129 - 4, "a part is kept"
    others = [Site(frontier, name) for name in ("second", "third", "fourth")]
    for site in others:
        site.find(100)
    fetched = dict.fromkeys(others, 0)
    for _ in range(12):
        planner.cycle()
        assert first.queued + sum(site.queued for site in others) <= 129
        for site in others[1:]:
            fetched[site] += site.fetch(10)
    assert others[0].queued, "nobody fetches these"
    assert min(fetched[site] for site in others[1:]) >= 6
    frontier.pause(group="first", reason="later")
    planner.cycle()
    assert sum(site.queued for site in others) > 60, "what a paused site has queued takes no room"


def test_a_paused_layer_leaves_its_part_to_the_others_of_its_site() -> None:
    """It went to other sites: a site with one of two layers paused had half of its weight."""
    lanes = [
        DueLane("a.list", 1, 6, "", 9, 0),
        DueLane("a.post", 2, 6, "sale", 9, 0),
        DueLane("b.page", 1, 3, "", 9, 0),
    ]
    assert rates(lanes) == {"a.list": 6 * MILLION, "a.post": 0, "b.page": 3 * MILLION}
    assert rates([lane._replace(paused="") for lane in lanes])["a.post"] == 4 * MILLION
    assert rates([lane._replace(paused="sale") for lane in lanes]) == dict.fromkeys(("a.list", "a.post", "b.page"), 0)


def test_a_leader_that_takes_over_queues_no_more_than_there_is_room(crawl: PlannedCrawl) -> None:
    one, two, site = leading(crawl, "one", 50), leading(crawl, "two", 50), Site(crawl.frontier, "a")
    one.cycle()
    site.find(500)
    one.cycle()
    assert site.queued == 26, "half of the room of each partition, as long as nobody is known to fetch from it"
    site.fetch(20)
    one.cycle()
    assert site.queued == 50
    crawl.advance(60)
    assert two.cycle().leader.granted
    assert site.queued == 50
    site.fetch(20)
    assert not one.cycle().leader.granted
    assert site.queued == 30
    assert two.cycle().fed == 20
    assert site.queued == 50
