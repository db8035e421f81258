"""Page records: bytes of each, what a page costs the server with and without them, and a planner's cycle over many.

    python -m bench.records [--records 1000000] [--sites 1000] [--rounds 7] [--only size|page|cycle] [--json FILE]

`size`: a lane with so many records, and nothing else on the server. The first ones come by the usual way (found, leased, settled); the others are
copies of these with other URLs, written directly, since ten million visits would take hours.
`page`: the server's processor time for a page that is found, and then leased and settled, without links and with 15, by each kind of memory; by
turns, the median of several rounds.
`cycle`: a planner's cycle over `--sites` sites that share so many records, some pages of each due, while pages are settled in between.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.storage.measure import server_seconds, start_server, used_memory
from bench.storage.workload import Site

from gossamer.frontier.codec import encode_request
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    LanePolicy,
    PageVisit,
    RecordPolicy,
    Request,
    RevisitRules,
    Selection,
    Settlement,
    Token,
    fingerprint,
    host_of,
)
from gossamer.planner.loop import Planner
from gossamer.registry import Registry, SiteText
from gossamer.settings import load
from gossamer.testing.resp import RespConnection
from gossamer.testing.servers import Server

CRAWL = "bench"
BASE = keys.base(CRAWL, 0)
DAY = 86400.0
REVISIT = LanePolicy(records=RecordPolicy(RevisitRules(DAY, adaptive=True), finished=DAY))
POLICIES = {"seen: exact": LanePolicy(), "page_records": LanePolicy(records=RecordPolicy()), "revisit": REVISIT}
REAL, ADD, COPY = 2_000, 500, 2_000
"""Records that come by the usual way, requests of one call, records of one command."""
PROBE, ROUNDS, BATCH, LINKS = 3_000, 7, 64, 15
VISITED_MAX = 200_000
"""Pages of a memory, which has no copies."""
DUE, CYCLES, LIMIT = 50, 30, 20_000
"""Pages of each site that are due at first, cycles that are measured, and what may be queued."""
SITE = "site: {name}\nseeds: [https://{name}.example/]\nlayers:\n  post: {{match: ^/, revisit: 1d}}\n"


def request(url: str, lane: str = "forum.post") -> Request:
    meta = {"depth": 2, "trail": ["https://www.forum.example/list"], "round": 1}
    return Request(fingerprint(url), host_of(url), lane, encode_request({"url": url, "meta": meta}))


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Lane:
    """A crawl with one lane, worked on by one client."""

    def __init__(self, server: Server, policy: LanePolicy) -> None:
        self.frontier = ValkeyFrontier.open(load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": CRAWL}))
        self.frontier.define("forum", {"post": policy})
        self.recorded = policy.records is not None
        self.token = Token.fresh()

    def add(self, urls: Sequence[str]) -> None:
        for first in range(0, len(urls), ADD):
            self.frontier.add([request(url) for url in urls[first : first + ADD]])

    def visit(self, pages: int, links: Sequence[Sequence[str]] = ()) -> None:
        """Lease and settle so many pages, each with its links."""
        settle: list[Settlement] = []
        done = 0
        while done < pages or settle:
            want = min(BATCH, pages - done)
            answer = self.frontier.exchange(self.token, settle=settle, want=want, selection=Selection(("forum",)))
            self.token = self.token.next()
            settle = []
            for lease in answer.leases:
                found = [request(url) for url in links[done]] if links else ()
                seen = PageVisit(200, lease.fingerprint) if self.recorded else None
                settle.append(Settlement(lease, add=found, visit=seen))
                done += 1


class Copies:
    """Writes copies of one record. All URLs are of the same length, so the copies differ in nothing but the URL and the name."""

    def __init__(self, server: Server, number: str, url: str) -> None:
        self._connection = RespConnection(("127.0.0.1", server.port), 60.0)
        self._pages, self._due = (f"{BASE}{keys.SUFFIXES[key]}{number}" for key in ("pages", "page_due"))
        name = fingerprint(url).to_bytes(8, "big")
        raw = self._connection.call("HGET", self._pages, name)
        self._host, self._url = host_of(url).encode(), url.encode()
        self._record = str(raw).encode(errors="surrogateescape")

    def write(self, urls: Iterator[str], due: Iterator[float] | None) -> None:
        pairs: list[bytes] = []
        scores: list[str | bytes] = []
        for url in urls:
            # The host stands before the URL, which has it too.
            record = self._record.replace(self._url, url.encode()).replace(self._host, host_of(url).encode(), 1)
            name = fingerprint(url).to_bytes(8, "big")
            pairs += (name, record)
            if due is not None:
                scores += (f"{next(due):.0f}", name)
            if len(pairs) >= 2 * COPY:
                self._send(pairs, scores)
        self._send(pairs, scores)

    def _send(self, pairs: list[bytes], scores: list[str | bytes]) -> None:
        if pairs:
            self._connection.call("HSET", self._pages, *pairs)
        if scores:
            self._connection.call("ZADD", self._due, *scores)
        pairs.clear()
        scores.clear()

    def close(self) -> None:
        self._connection.close()


def spread(start: float, seconds: float, number: int) -> Iterator[float]:
    """Milliseconds from `start` on, evenly over so many seconds."""
    return (1000 * (start + seconds * place / max(number, 1)) for place in range(number))


class Size(NamedTuple):
    policy: str
    records: int
    bytes: float
    url: int


def size(server: Server, name: str, records: int) -> Size:
    if POLICIES[name].records is None:
        records = min(records, VISITED_MAX)
    server.call("FLUSHALL", "SYNC", timeout=60)
    before = used_memory(server)
    lane, site = Lane(server, POLICIES[name]), Site(100)
    urls = site.urls(0, min(REAL, records))
    lane.add(urls)
    lane.visit(len(urls))
    if lane.recorded:
        now = lane.frontier.counts().now
        copies = Copies(server, "1", urls[0])
        due = spread(now + DAY, DAY, records) if name == "revisit" else None
        copies.write((site.url(number) for number in range(len(urls), records)), due)
        copies.close()
        [row] = [row for row in lane.frontier.counts().lanes if row.pages]
        if row.pages != records:
            raise RuntimeError(f"{row.pages} records were written instead of {records}")
    else:
        for first in range(len(urls), records, 50_000):
            urls = site.urls(first, min(50_000, records - first))
            lane.add(urls)
            lane.visit(len(urls))
    found = Size(name, records, (used_memory(server) - before) / records, len(urls[0]))
    lane.frontier.close()
    return found


class PageCost(NamedTuple):
    """Microseconds of the server's processor for one page."""

    policy: str
    what: str
    server_us: float
    more: float
    """In percent, compared with an exact memory."""


FOUND, SETTLED, BOTH, LINKED = "found", "settled", "both", f"{LINKS} links"


def page_costs(server: Server, rounds: int) -> list[PageCost]:
    spent: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        for name, policy in POLICIES.items():
            server.call("FLUSHALL", "SYNC", timeout=60)
            for what, seconds in _one_round(server, policy).items():
                spent.setdefault((name, what), []).append(seconds / PROBE)
        say(f"page: round {number + 1} of {rounds}")
    plain = next(iter(POLICIES))
    return [
        PageCost(name, what, 1e6 * median(times), 100 * (median(times) / median(spent[plain, what]) - 1))
        for (name, what), times in spent.items()
    ]


def _one_round(server: Server, policy: LanePolicy) -> dict[str, float]:
    """Seconds that finding so many pages takes, leasing and settling them, and settling others with links."""
    lane, site = Lane(server, policy), Site(100)
    known = site.urls(0, REAL)
    lane.add(known)
    lane.visit(REAL)
    marks = [server_seconds(server)]
    lane.add(site.urls(REAL, PROBE))
    marks.append(server_seconds(server))
    lane.visit(PROBE)
    marks.append(server_seconds(server))
    lane.add(site.urls(REAL + PROBE, PROBE))
    marks.append(server_seconds(server))
    fresh = 10 * PROBE
    lane.visit(PROBE, [[site.url(fresh + page), *known[page % (REAL - LINKS) :][: LINKS - 1]] for page in range(PROBE)])
    marks.append(server_seconds(server))
    lane.frontier.close()
    found, settled, _, linked = (after - before for before, after in pairwise(marks))
    return {FOUND: found, SETTLED: settled, BOTH: found + settled, LINKED: linked}


class CycleCost(NamedTuple):
    """Milliseconds of one cycle, each the median: on the clock, of this process, of the server; and pages that were queued."""

    sites: int
    records: int
    wall: float
    client: float
    server: float
    fed: float


def cycle(server: Server, sites: int, records: int) -> CycleCost:
    server.call("FLUSHALL", "SYNC", timeout=60)
    frontier = ValkeyFrontier.open(load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": CRAWL}))
    names = [f"site{number:04d}" for number in range(sites)]
    Registry(frontier).push_all([SiteText(name, SITE.format(name=name), name) for name in names], who="bench")
    for name in names:
        frontier.define(name, {"post": REVISIT})
    each = max(1, records // sites)
    numbers = dict(_pairs(server.call("HGETALL", BASE + keys.SUFFIXES["recorded"])))
    ids = dict(_pairs(server.call("HGETALL", BASE + keys.SUFFIXES["lane_names"])))
    token = Token.fresh()
    for place, name in enumerate(names):
        _fill(server, frontier, name, ids[f"{name}.post"], numbers[ids[f"{name}.post"]], place * each, each)
        if place % 100 == 99:
            say(f"cycle: {(place + 1) * each:,} records of {place + 1} sites")
    planner = Planner(frontier, "bench", seconds=60.0, limit=LIMIT)
    planner.cycle()
    walls, clients, servers, fed = [], [], [], []
    for _ in range(CYCLES):
        answer = frontier.exchange(token, want=200)
        frontier.exchange(token.next(), settle=[Settlement(lease, visit=PageVisit(200, 1)) for lease in answer.leases])
        token = token.next().next()
        cpu, spent, clock = time.process_time(), server_seconds(server), time.perf_counter()
        fed.append(planner.cycle().fed)
        walls.append(time.perf_counter() - clock)
        clients.append(time.process_time() - cpu)
        servers.append(server_seconds(server) - spent)
    frontier.close()
    wall, client, spent = (1000 * median(times) for times in (walls, clients, servers))
    return CycleCost(sites, each * sites, wall, client, spent, median(fed))


def _fill(server: Server, frontier: ValkeyFrontier, name: str, lane: str, number: str, first: int, each: int) -> None:
    """Records of one site: the first is real; DUE of the others are due now, one more every second."""
    site = Site(1, 1)
    urls = [site.url(first + place).replace("forum00000", name) for place in range(each)]
    frontier.add([request(urls[0], f"{name}.post")])
    token = Token.fresh()
    [lease] = frontier.exchange(token, want=1, selection=Selection((name,))).leases
    now = frontier.exchange(token.next(), settle=[Settlement(lease, visit=PageVisit(200, 1))]).hints.now
    copies = Copies(server, number, urls[0])
    copies.write(iter(urls[1:]), spread(now - DUE, float(each), each))
    copies.close()
    server.call("ZADD", BASE + keys.SUFFIXES["feeds"], f"{1000 * (now - DUE):.0f}", lane)


def _pairs(flat: Any) -> Iterator[tuple[str, str]]:
    return zip(flat[::2], flat[1::2], strict=True)


def show(rows: Sequence[NamedTuple]) -> None:
    if rows:
        print("  ".join(f"{field:>14}" for field in rows[0]._fields))
    for row in rows:
        print("  ".join(f"{value:>14,.1f}" if isinstance(value, float) else f"{value:>14}" for value in row))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, action="append", help="may be given several times; 1,000,000")
    parser.add_argument("--sites", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the part `page`; {ROUNDS}")
    parser.add_argument("--only", choices=("size", "page", "cycle"), action="append")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    parts, numbers = given.only or ("size", "page", "cycle"), given.records or [1_000_000]
    found: dict[str, list[Any]] = {}
    if "page" in parts:
        with start_server() as server:
            found["page"] = page_costs(server, given.rounds)
    # Without a log, which would have every copy in it.
    with Server("valkey").start({"slowlog-log-slower-than": -1}) as server:
        for number in numbers:
            for part in [part for part in ("size", "cycle") if part in parts]:
                say(f"{part}: {number:,} records")
                rows = (
                    [size(server, name, number) for name in POLICIES]
                    if part == "size"
                    else [cycle(server, given.sites, number)]
                )
                found.setdefault(part, []).extend(rows)
    for rows in found.values():
        show(rows)
    if given.json:
        given.json.write_text(
            json.dumps({part: [row._asdict() for row in rows] for part, rows in found.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
