"""Paging through everything a crawl holds, while it runs, and putting it back. Generators without I/O.

A snapshot turns a journal on, reads memories first, then queues, delayed and suspect requests, then leases, dead letters, and last
the journal: whatever moved behind its back was queued again and so is in the journal. A request may be read twice, never missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.frontier.call import Verb, function_call, read, text
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.work.batch import unpack_record
from gossamer.model import ScannedDeadLetter, ScannedRequest, ScanPage, SeenPage

KEEP_MS = 600_000


class SnapshotVerbs:
    """Builds and reads the calls of a snapshot."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.crawl, self.partitions = crawl, partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def scan(
        self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "", snapshot: str = ""
    ) -> Verb[ScanPage]:
        """`what`: begin and end the journal; leased, delayed, suspect, dead, journal, hosts; list, with the `place` of one
        queue; newer, with a group; or page_texts, with a lane. `snapshot` names the snapshot that this belongs to; "" reads a page without a journal."""
        [reply] = yield [function_call("scan", self.bases[partition], _header(what, cursor, limit, place, snapshot))]
        return _page(partition, what, reply)

    def lists(
        self, partition: int, places: Sequence[tuple[str, str]], limit: int, snapshot: str
    ) -> Verb[list[ScanPage]]:
        """A page of each of some queues (place, cursor), from the end that does not move under the reader: FIFO queues from
        the newest to the oldest."""
        replies = yield [
            function_call("scan", self.bases[partition], _header("list", cursor, limit, place, snapshot))
            for place, cursor in places
        ]
        return [_page(partition, "list", reply) for reply in replies]

    def seen_page(self, partition: int, name: str, cursor: str, limit: int = 5000) -> Verb[SeenPage]:
        [reply] = yield [
            function_call("seen_scan", self.bases[partition], {"name": name, "cursor": cursor, "limit": limit})
        ]
        cursor, what, details = read(reply[0])
        return SeenPage(cursor, what, details, reply[1])

    def restored(self, snapshot: str) -> Verb[tuple[int, list[str]]]:
        """The line up to which all partitions have restored a snapshot, and the epoch of each."""
        header = {"snapshot": snapshot, "upto": 0, "entries": []}
        replies = yield [function_call("restore", base, header) for base in self.bases]
        told = [read(reply) for reply in replies]
        return min(line for line, _ in told), [epoch for _, epoch in told]

    def restore(
        self,
        snapshot: str,
        upto: int,
        entries: Sequence[tuple[Sequence[list[Any]], Sequence[bytes]]],
        epochs: Sequence[str] = (),
    ) -> Verb[list[str]]:
        """Restore entries (with a record each) by partition; letters per partition. All have restored up to a line then. SnapshotError
        where a partition is in another epoch than this, if given, and may have lost lines."""
        replies = yield [
            function_call(
                "restore", base, {"snapshot": snapshot, "upto": upto, "entries": rows, "epoch": epoch}, *records
            )
            for base, epoch, (rows, records) in zip(self.bases, epochs or [""] * self.partitions, entries, strict=True)
        ]
        return [text(reply) if rows else "" for reply, (rows, _) in zip(replies, entries, strict=True)]

    def restore_tasks(
        self, snapshot: str, source: str, tasks: Sequence[list[Any]], data: Sequence[bytes], run: str = ""
    ) -> Verb[tuple[int, str]]:
        """Put tasks (line, kind, score) back to their producer's key, each line once. How many, and the server process that has them.
        SnapshotError if `run` is another one: it may have lost some."""
        header = {"snapshot": snapshot, "tasks": tasks, "run": run}
        [reply] = yield [function_call("restore_tasks", keys.task_keys(source), header, *data)]
        done, run = read(reply)
        return done, run


def _header(what: str, cursor: str, limit: int, place: str, snapshot: str) -> dict[str, Any]:
    return {
        "what": what, "cursor": cursor, "limit": limit, "key": place, "keep_ms": KEEP_MS, "snapshot": snapshot,
    }  # fmt: skip


def _page(partition: int, what: str, reply: Any) -> ScanPage:
    cursor, heads, now, journal = read(reply[0])
    if what == "hosts":
        return ScanPage(cursor, heads, now / 1000, journal)
    rows: list[Any]
    if what == "page_texts":
        return ScanPage(cursor, reply[1:], now / 1000, journal)
    if what == "dead":
        rows = [
            ScannedDeadLetter._make((partition, *head[:-1], head[-1] / 1000, record))
            for head, record in zip(heads, reply[1:], strict=True)
        ]
    else:
        rows = [_scanned(partition, head, record) for head, record in zip(heads, reply[1:], strict=True)]
    return ScanPage(cursor, rows, now / 1000, journal)


def _scanned(partition: int, head: list[Any], record: bytes) -> ScannedRequest:
    lane, host, priority, due, number, attempts, strikes = head
    kind, fingerprint, changed, payload = unpack_record(record)
    return ScannedRequest(
        partition, lane, host, priority, due / 1000, fingerprint, payload, number, attempts, strikes, kind != 2, changed
    )
