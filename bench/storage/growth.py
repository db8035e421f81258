"""What it costs when much is queued, or many hosts are blocked: probes of a large crawl and a small one by turns."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections.abc import Iterable
from functools import partial
from math import inf
from statistics import median
from typing import NamedTuple

from bench.storage.measure import Cost, Progress, cost, start_server
from bench.storage.peers import LANE, Gossamer
from bench.storage.workload import FIELDS, Site

from gossamer.frontier.codec import encode_request
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import HostPolicy, Lease, Request, Token, fingerprint
from gossamer.settings import load
from gossamer.testing.servers import Server

SMALL = 10_000
FILL_BATCH, FILL_RUN = 1_000, 100
BLOCK_SECONDS = 86_400.0
SITE = Site(hosts=1000)
ONE_HOST = Site(hosts=1)
NO_LIMIT = HostPolicy(concurrency=0)


class Growth(NamedTuple):
    """A probe of a large crawl beside the small one: µs per request, and how many times the small one's they are."""

    case: str
    work: str
    wall_us: float
    server_us: float
    wall_times: float
    server_times: float


def fill(url: str, first: int, count: int, site: Site = SITE, end: float = inf) -> int:
    """Queue so many requests as fast as one client can, until the end given (monotonic time); answers how many. Their
    fingerprints are random, their payloads of true size, and a call holds few hosts."""
    settings = load({"GOSSAMER_URL": url, "GOSSAMER_CRAWL": "bench"})
    bits = random.Random(f"{first} {count}").getrandbits
    head, _, tail = encode_request(FIELDS | {"url": site.url(0)}).partition(b"00000000-")
    hosts = [f"forum{number:05d}.example.com" for number in range(site.hosts)]
    with ValkeyFrontier.open(settings, host=NO_LIMIT) as frontier:
        for start in range(first, first + count, FILL_BATCH):
            if time.monotonic() > end:
                return start - first
            frontier.add(
                [
                    Request(
                        bits(64), hosts[n // FILL_RUN % site.hosts], LANE, b"%s%08d-%s" % (head, n % 10**8, tail)
                    )
                    for n in range(start, min(start + FILL_BATCH, first + count))
                ]
            )  # fmt: skip
    return count


def _fill_share(share: tuple[str, int, int, float]) -> int:
    # Ctrl-C is the parent's to handle; it ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    url, first, count, end = share
    return fill(url, first, count, end=end)


def fill_with_two(url: str, first: int, count: int, end: float = inf) -> int:
    """The same from two processes: one alone leaves the server waiting."""
    half = count // 2
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return sum(pool.map(_fill_share, [(url, first, half, end), (url, first + half, count - half, end)]))


class Probe:
    """A crawl that is asked what adding and leasing cost now; each probe leaves as much queued as it found."""

    def __init__(self, server: Server, site: Site) -> None:
        self.server, self.site = server, site
        self.peer = Gossamer(server.url, host=NO_LIMIT)
        self._first = 50_000_000

    def run(self, count: int) -> dict[str, Cost]:
        urls = self.site.urls(self._first, count)
        self._first += count
        return {
            "add": cost(self.server, count, partial(self.peer.add, urls)),
            "lease": cost(self.server, count, partial(self.peer.drain, count)),
        }


def compare(case: str, small: Probe, large: Probe, rounds: int, count: int) -> list[Growth]:
    pairs = [(small.run(count), large.run(count)) for _ in range(rounds)]
    rows = []
    for work in ("add", "lease"):
        few, many = [a[work] for a, _ in pairs], [b[work] for _, b in pairs]
        rows.append(
            Growth(
                case, work,
                median(c.wall / c.number for c in many) * 1e6,
                median(c.server_us for c in many),
                median(b.wall / a.wall for a, b in zip(few, many, strict=True)),
                median(b.server / a.server for a, b in zip(few, many, strict=True)),
            )
        )  # fmt: skip
    return rows


def queued(levels: Iterable[tuple[int, float]], rounds: int, count: int, progress: Progress) -> list[Growth]:
    """At each level (how many queued, and how many seconds it may take to get there) against SMALL. Where the time does
    not suffice, the level reached is measured instead, and named."""
    rows = []
    with start_server() as few, start_server() as many:
        small, large = Probe(few, SITE), Probe(many, SITE)
        fill(few.url, 0, SMALL)
        fill(many.url, 0, SMALL)
        rows += compare(f"{SMALL:,} queued, the same twice", small, large, rounds, count)
        filled = SMALL
        for level, seconds in levels:
            progress.step(f"growth: {level:,} queued")
            filled += fill_with_two(many.url, filled, level - filled, time.monotonic() + min(seconds, progress.left))
            if filled < level:
                progress.leave_out(f"growth: {level:,} queued; {filled:,} are")
            rows += compare(f"{filled:,} queued", small, large, rounds, count)
        small.peer.close()
        large.peer.close()
    return rows


def blocked(hosts: int, rounds: int, count: int, progress: Progress) -> tuple[list[Growth], dict[str, float]]:
    """One host with work, alone or beside so many blocked ones that have a request queued each. Also, what it takes
    until all of those are out of the way: a blocked host is set aside when it is first met."""
    progress.step(f"growth: {hosts:,} blocked hosts")
    with start_server() as alone, start_server() as crowded:
        small, large = Probe(alone, ONE_HOST), Probe(crowded, ONE_HOST)
        frontier = large.peer.frontier
        names = [f"blocked{number:06d}.example.com" for number in range(hosts)]
        payload = encode_request(FIELDS | {"url": ONE_HOST.url(0)})
        for part in (names[first : first + FILL_BATCH] for first in range(0, hosts, FILL_BATCH)):
            frontier.add([Request(fingerprint(name), name, LANE, payload) for name in part])
            blocks = [frontier.verbs.control.block(name, BLOCK_SECONDS, "bench") for name in part]
            frontier.ask([one for verb in blocks for one in next(verb)])
        fill(alone.url, 0, SMALL, ONE_HOST)
        fill(crowded.url, 0, SMALL, ONE_HOST)
        calls = 0

        def meet() -> None:
            nonlocal calls
            token = Token.fresh()
            leases: list[Lease] = []
            while not leases:
                leases = frontier.exchange(token, want=1).leases
                token, calls = token.next(), calls + 1
            frontier.release(token, leases)

        once = cost(crowded, hosts, meet)
        rows = compare(f"{hosts:,} hosts blocked", small, large, rounds, count)
        small.peer.close()
        large.peer.close()
    return rows, {"hosts": hosts, "calls": calls, "wall_us": once.wall / hosts * 1e6, "server_us": once.server_us}
