"""Page records: bytes per URL, and the server's time of a page with and without them.

    python -m bench.pages --pages 1000000

Every page is found, leased and settled once, with a signature; then nothing but what is remembered is left on the server. The pages of
the second figure have 15 links each, most of them known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import monotonic

from bench.storage.measure import server_seconds, start_server, used_memory
from bench.storage.workload import Site

from gossamer.frontier.codec import encode_request
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
from gossamer.settings import load
from gossamer.testing.servers import Server

BATCH, WANT = 1000, 500
LINKS = 15
POLICIES = {
    "seen: exact": LanePolicy(),
    "page_records": LanePolicy(records=RecordPolicy()),
    "revisit": LanePolicy(records=RecordPolicy(RevisitRules(86400.0, adaptive=True), finished=86400.0)),
}


def request(url: str) -> Request:
    payload = encode_request(
        {"url": url, "meta": {"depth": 2, "trail": ["https://www.forum.example/list"], "round": 1}}
    )
    return Request(fingerprint(url), host_of(url), "forum.post", payload)


class Pages:
    """A crawl with one lane, filled and emptied."""

    def __init__(self, server: Server, policy: LanePolicy) -> None:
        self.frontier = ValkeyFrontier.open(load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "bench"}))
        self.frontier.define("forum", {"post": policy})
        self.recorded = policy.records is not None
        self.token = Token.fresh()

    def add(self, urls: Sequence[str]) -> None:
        self.frontier.add([request(url) for url in urls])

    def visit(self, pages: int, links: Sequence[Sequence[str]] = ()) -> None:
        """Lease and settle so many pages, each with its links."""
        settle: list[Settlement] = []
        done = 0
        while done < pages or settle:
            want = min(WANT if not links else 64, pages - done)
            answer = self.frontier.exchange(self.token, settle=settle, want=want, selection=Selection(("forum",)))
            self.token = self.token.next()
            settle = []
            for lease in answer.leases:
                found = [request(url) for url in links[done]] if links else ()
                seen = PageVisit(200, lease.fingerprint) if self.recorded else None
                settle.append(Settlement(lease, add=found, visit=seen))
                done += 1


def measure(server: Server, name: str, pages: int, probes: int) -> tuple[float, float, int]:
    server.call("FLUSHALL", "SYNC")
    before = used_memory(server)
    crawl, site, began = Pages(server, POLICIES[name]), Site(100, 15), monotonic()
    urls = [site.url(number) for number in range(BATCH)]
    for first in range(0, pages, BATCH):
        crawl.add([site.url(number) for number in range(first, min(first + BATCH, pages))])
        crawl.visit(min(BATCH, pages - first))
        if first % 50_000 == 0:
            print(f"  {name}: {first:,} of {pages:,} after {monotonic() - began:.0f} s", file=sys.stderr)
    size = (used_memory(server) - before) / pages
    crawl.add([site.url(pages + number) for number in range(probes)])
    fresh = pages + probes
    links = [[site.url(fresh + page), *urls[page % BATCH : page % BATCH + LINKS - 1]][:LINKS] for page in range(probes)]
    started = server_seconds(server)
    crawl.visit(probes, links)
    spent = (server_seconds(server) - started) / probes
    crawl.frontier.close()
    return size, spent * 1e6, sum(map(len, urls)) // len(urls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--probes", type=int, default=20_000)
    parser.add_argument("--only", choices=POLICIES, action="append", help="may be given several times")
    given = parser.parse_args()
    with start_server() as server:
        rows = {name: measure(server, name, given.pages, given.probes) for name in given.only or POLICIES}
    length = next(iter(rows.values()))[2]
    print(f"{given.pages:,} pages, URLs of {length} characters, {LINKS} links on a page")
    for name, (size, micro, _) in rows.items():
        print(f"{name:14} {size:8.1f} bytes per URL {micro:8.1f} us of the server per page")


if __name__ == "__main__":
    main()
