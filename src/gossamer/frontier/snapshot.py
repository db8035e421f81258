"""Paging through everything a crawl holds, while it runs. Conversations without I/O.

A snapshot turns a journal on, reads queues, delayed and suspect requests, then leases, and last the journal: whatever moved
behind its back was queued anew and so is in the journal. A request may be read twice, never missed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gossamer.frontier import keys
from gossamer.frontier.ask import Verb, ask, read

KEEP_MS = 600_000


class Scanned(NamedTuple):
    """One stored request as a snapshot sees it. `due` is server time in seconds, 0 for now."""

    partition: int
    lane: str
    host: str
    priority: int
    due: float
    fingerprint: int
    payload: bytes


class Page(NamedTuple):
    """A page of a scan; `cursor` is "" at the end. Rows are `Scanned` or, for hosts, raw tables."""

    cursor: str
    rows: list[Any]
    now: float


class SnapshotVerbs:
    """Builds and reads the calls of a snapshot."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.crawl, self.partitions = crawl, partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def page(self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "") -> Verb[Page]:
        """`what`: begin and end the journal; leased, delayed, suspect, journal, hosts; or list, with the `place` of one queue."""
        header = {"what": what, "cursor": cursor, "limit": limit, "key": place, "keep_ms": KEEP_MS}
        [reply] = yield [ask("scan", self.bases[partition], header)]
        cursor, heads, now = read(reply[0])
        if what == "hosts":
            return Page(cursor, heads, now / 1000)
        rows = [
            Scanned(partition, lane, host, priority, due / 1000, int.from_bytes(record[1:9], "big"), record[9:])
            for (lane, host, priority, due), record in zip(heads, reply[1:], strict=True)
        ]
        return Page(cursor, rows, now / 1000)
