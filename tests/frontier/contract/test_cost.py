"""What a call costs the server, in commands: it must not grow with the number of groups, workers or hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Settlement
from gossamer.testing.contract import Crawl
from gossamer.testing.servers import Server

FEW, MANY = 40, 160
WHOLE = ("hgetall", "hkeys", "hvals", "keys", "scan")
"""Commands that are one each and read everything."""


def commands(server: Server, do: Callable[[], object]) -> Counter[str]:
    server.call("CONFIG", "RESETSTAT")
    do()
    found = re.findall(r"cmdstat_(\S+?):calls=(\d+)", str(server.call("INFO", "commandstats")))
    return Counter({name: int(calls) for name, calls in found if name not in ("info", "config|resetstat")})


class Costs:
    """Two crawls that differ in one number only."""

    def __init__(self, server: Server, opened: Callable[..., Crawl], crawl: str) -> None:
        self.server, self.opened, self.crawl = server, opened, crawl

    def compare(self, prepare: Callable[[Crawl, int], Callable[[], object]], calls: int = 10) -> None:
        few, many = (self.cost(prepare, number, calls) for number in (FEW, MANY))
        assert not [name for name in WHOLE if many[name]], many
        assert many.total() <= few.total() + 12 * calls, f"{few} with {FEW}, {many} with {MANY}"

    def cost(self, prepare: Callable[[Crawl, int], Callable[[], object]], number: int, calls: int) -> Counter[str]:
        do = prepare(self.opened(self.server.url, f"{self.crawl}-{number}"), number)
        do()
        do()
        return commands(self.server, lambda: [do() for _ in range(calls)])


@pytest.fixture
def costs(valkey_server: Server, opened: Callable[..., Crawl], crawl_name: str) -> Costs:
    return Costs(valkey_server, opened, crawl_name)


def groups(crawl: Crawl, number: int, policy: GroupPolicy | None = None, pages: int = 20) -> list[str]:
    names = [f"s{n}" for n in range(number)]
    for name in names:
        crawl.frontier.define(name, {"a": LanePolicy(), "b": LanePolicy(tier=-1)}, policy)
        crawl.add(*(f"{name} {n}" for n in range(pages)), lane=f"{name}.a")
    return names


@pytest.mark.parametrize("policy", [GroupPolicy(), GroupPolicy(concurrency=1)], ids=["lax", "strict"])
def test_a_page_of_a_host_that_many_groups_share(costs: Costs, policy: GroupPolicy) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        crawl.frontier.set_host("", HostPolicy(concurrency=2))
        groups(crawl, number, policy)
        worker = crawl.worker()
        held = worker.lease(2)
        for _ in range(3):
            worker.lease(8)

        def page() -> None:
            gone = held.pop(0)
            held.extend(worker.exchange(settle=[Settlement(gone)], want=4).leases)
            assert held, "the host's slots are used"

        return page

    costs.compare(prepare)


def test_a_page_of_a_host_with_a_delay_that_many_groups_share(costs: Costs) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        crawl.frontier.set_host("", HostPolicy(delay=10, concurrency=2))
        groups(crawl, number)
        worker = crawl.worker()
        for _ in range(3):
            worker.settle(*worker.lease(8))

        def page() -> None:
            crawl.advance(11)
            worker.settle(*worker.send(1))

        return page

    costs.compare(prepare)


@pytest.mark.parametrize("named", [True, False], ids=["named", "all"])
def test_an_idle_call_beside_many_held_groups(costs: Costs, named: bool) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        names = groups(crawl, number, GroupPolicy(max_pages=1), pages=2)
        crawl.frontier.set_host("", HostPolicy(concurrency=0))
        worker = crawl.worker(*(names if named else ()))
        worker.settle(*worker.lease(2 * number))
        assert worker.exchange(want=1).hints.paused == "pages_full"
        return lambda: worker.exchange(want=4)

    costs.compare(prepare)


def test_a_page_beside_many_workers_that_wait(costs: Costs) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        crawl.define()
        crawl.frontier.set_host("", HostPolicy(concurrency=2))
        crawl.add(*(f"{n}" for n in range(60)))
        worker = crawl.worker()
        held = worker.lease(2)
        for _ in range(number):
            crawl.worker().exchange(want=4)

        def page() -> None:
            gone = [held.pop(0)] if held else []
            held.extend(worker.exchange(settle=[Settlement(lease) for lease in gone], want=4).leases)

        return page

    costs.compare(prepare)


def test_an_operators_word_on_a_host_that_many_groups_ask(costs: Costs) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        groups(crawl, number, GroupPolicy(delay=20))
        worker = crawl.worker()
        worker.send(1)
        worker.lease(8)

        def word() -> None:
            crawl.frontier.set_host(crawl.host, HostPolicy(delay=5))
            crawl.frontier.block(crawl.host, 10)
            crawl.frontier.block(crawl.host, 0)

        return word

    costs.compare(prepare)


def test_a_page_of_a_group_with_a_limit_of_pages_beside_many_hosts(costs: Costs) -> None:
    def prepare(crawl: Crawl, number: int) -> Callable[[], object]:
        crawl.define(policy=GroupPolicy(max_pages=10_000))
        for host in crawl.hosts(number + 1)[1:]:
            crawl.add(f"blocked {host}", host=host)
            crawl.frontier.block(host, 1000)
        crawl.add(*(f"{n}" for n in range(30)))
        worker = crawl.worker()
        for _ in range(3):
            worker.settle(*worker.lease(1))
        return lambda: worker.settle(*worker.lease(1))

    costs.compare(prepare)
