"""The requests that a crawl has, read while it runs: some may be read twice, or be missed while they move."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import ScannedRequest

PAGE = 500
LISTS = 64
"""Queues that are read in one call."""
STATES = ("leased", "suspect", "delayed", "queued")
"""`suspect`: it may have killed its worker, and waits to be tried alone."""


def queue_places(frontier: ValkeyFrontier, partition: int, kind: str) -> Iterator[str]:
    """Where the queues of a partition are (`kind`: queue, or front for what comes back): each `q:lane id:priority:host`, or `f:…`."""
    crawl, cursor = frontier.crawl, b"0"
    base, pattern = keys.base(crawl, partition), keys.queue_pattern(crawl, partition, kind)
    while True:
        cursor, found = frontier.connection.execute("SCAN", cursor, "MATCH", pattern, "COUNT", 1000, key=base)
        yield from (keys.queue_place(crawl, partition, key.decode()) for key in found)
        if cursor in (b"0", 0, "0"):
            return


def requests_of(frontier: ValkeyFrontier, state: str, *, lane: str = "", host: str = "") -> Iterator[ScannedRequest]:
    """The requests in a state of `STATES`, of a lane, of a host, or both."""
    partitions = [keys.partition_of(host, frontier.partitions)] if host else range(frontier.partitions)
    for partition in partitions:
        found = _queued(frontier, partition, lane, host) if state == "queued" else _scanned(frontier, partition, state)
        yield from (row for row in found if lane in ("", row.lane) and host in ("", row.host))


def _scanned(frontier: ValkeyFrontier, partition: int, state: str) -> Iterator[ScannedRequest]:
    cursor = "0"
    while cursor:
        page = frontier.scan(partition, state, cursor, PAGE)
        yield from page.rows
        cursor = page.cursor


def _queued(frontier: ValkeyFrontier, partition: int, lane: str, host: str) -> Iterator[ScannedRequest]:
    for kind in ("front", "queue"):
        places = queue_places(frontier, partition, kind)
        wanted = (place for place in places if host in ("", place.split(":", 3)[3]))
        while some := list(islice(wanted, LISTS)):
            left = [(place, "0") for place in some]
            while left:
                pages = frontier.run(frontier.verbs.snapshot.lists(partition, left, PAGE, ""))
                more = []
                for (place, _), page in zip(left, pages, strict=True):
                    yield from page.rows
                    # A queue is of one lane.
                    if page.cursor and lane in ("", page.rows[0].lane):
                        more.append((place, page.cursor))
                left = more
