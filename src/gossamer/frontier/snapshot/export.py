"""A crawl as lines: everything it holds, read while it runs, rather twice than never.

The order of reading makes the promise (see `snapshot`); the order of lines makes the file safe to cut: requests stand
before the memories that would refuse them, so a file that ends too early costs pages fetched again, not pages missed.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from itertools import islice
from secrets import token_hex
from typing import Any, Protocol
from zlib import compress

import ormsgpack

from gossamer.errors import SnapshotError, UnknownDocument, UnknownGroup, UnknownLane
from gossamer.frontier import item_stream
from gossamer.frontier.codec.redaction import concealed
from gossamer.frontier.server import keys, library
from gossamer.frontier.snapshot import line, origin
from gossamer.frontier.snapshot.requests import LISTS, PAGE, queue_places
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.plan.daily import counters_of
from gossamer.frontier.verbs.work.batch import is_record, unpack_record
from gossamer.model import Counts, GroupCounts, ScannedDeadLetter, ScannedRequest, ScanPage

ROUNDS = 1000
LANE_COUNTS = ("added", "duplicates", "done", "replaced", "retried", "failed", "expired", "overflow")
GROUP_COUNTS = ("pages", "items", "lost", "refused_items", "refused_children")

Line = dict[str, Any]


class TextOutput(Protocol):
    def write(self, text: str, /) -> Any: ...


class Export:
    """One snapshot, with `secrets` or without them. `records` counts the requests, dead letters and fingerprints read so far, of about `expected`."""

    def __init__(
        self,
        frontier: ValkeyFrontier,
        out: TextOutput,
        *,
        items: bool = False,
        secrets: bool = True,
        heard: Callable[[Export], None] | None = None,
    ) -> None:
        self.frontier, self.name = frontier, token_hex(8)
        self.records = self.requests = self.lines = 0
        self.expected = 0
        self.redacted = 0
        """How many lines are without their secrets."""
        self.cookies_left_out = 0
        """How many cookies are not in the file, since they are secrets."""
        self._out, self._items, self._secrets = out, items, secrets
        self._heard = heard or (lambda _: None)
        self._told: dict[str, Line] = {}

    def run(self) -> None:
        """Write the whole crawl to `out`; SnapshotError if that is not one state of it."""
        partitions = range(self.frontier.partitions)
        servers = [self._server(partition) for partition in partitions]
        for partition in partitions:
            self._page(partition, "begin")
        try:
            counts = self.frontier.counts()
            memories = self.frontier.seen_counts()
            self.expected = sum(lane.queued + lane.delayed + lane.leased for lane in counts.lanes)
            self.expected += sum(memory.known for memory in memories) + sum(group.dead for group in counts.groups)
            self.expected += sum(lane.pages for lane in counts.lanes)
            self._header(counts)
            self._policies(counts)
            self._documents()
            with tempfile.TemporaryFile("w+", encoding="utf-8") as later:
                # What a lane that keeps no records any more has left to do is done: its pages are in the queue then.
                self.frontier.run(self.frontier.verbs.control.purge())
                for memory in memories:
                    for partition in partitions:
                        self._memory(partition, memory.name, later)
                for name in [name for name, table in counts.lane_policies.items() if "records" in table]:
                    for partition in partitions:
                        self._page_records(partition, name, later)
                for name in _lanes_with_memories(counts):
                    for partition in partitions:
                        self._texts(partition, name, later)
                for partition in partitions:
                    self._hosts(partition)
                for partition in partitions:
                    self._held(partition)
                self._numbers()
                self._tasks()
                # What settled pages still owe goes into the journal, as have the requests of starts that ended meanwhile.
                self.frontier.run(self.frontier.verbs.work.outbox.complete_all())
                self._policies(self.frontier.counts())
                for partition in partitions:
                    self._journal(partition)
                # Workers share the cookies of a page before its links are queued, so those of all requests above are there.
                self._shared()
                self._check_servers(servers)
                later.seek(0)
                for text in later:
                    self._out.write(text)
                    self.lines += 1
        finally:
            for partition in partitions:
                self._page(partition, "end")
        self._write({"type": "end", "lines": self.lines + 1, "requests": self.requests})

    def _write(self, row: Line) -> None:
        self._out.write(json.dumps(row, separators=(",", ":")) + "\n")
        self.lines += 1

    def _page(self, partition: int, what: str, cursor: str = "0", place: str = "") -> ScanPage:
        return self.frontier.scan(partition, what, cursor, PAGE, place, self.name)

    def _pages(self, partition: int, what: str, place: str = "") -> Iterator[Any]:
        cursor = "0"
        while cursor:
            page = self._page(partition, what, cursor, place)
            yield from page.rows
            cursor = page.cursor
            self._heard(self)

    def _header(self, counts: Counts) -> None:
        key = keys.default_host(self.frontier.crawl)
        host = ormsgpack.unpackb(self.frontier.connection.execute("HGET", key, "", key=key))
        self._write(
            {
                "gossamer": "snapshot",
                "format": line.FORMAT,
                "snapshot": self.name,
                "holds": origin.origin_ids(self.frontier),
                "crawl": self.frontier.crawl,
                "partitions": self.frontier.partitions,
                "schema": library.SCHEMA,
                "at": counts.now,
                "paused": counts.paused,
                "secrets": self._secrets,
                "host": line.host_policy(host),
            }
        )

    def _policies(self, counts: Counts) -> None:
        """Groups and lanes that were not written yet, or have changed since."""
        for group in counts.groups:
            table = counts.group_policies[group.group]
            self._tell(
                f"group {group.group}",
                {
                    "type": "group",
                    "group": group.group,
                    "policy": line.group_policy(table),
                    "paused": table.get("paused", ""),
                    "round": group.round,
                    "start": group.start,
                },
            )
        for name, table in sorted(counts.lane_policies.items()):
            policy, paused = line.lane_policy(table), table.get("paused", "")
            self._tell(f"lane {name}", {"type": "lane", "lane": name, "policy": policy, "paused": paused})

    def _documents(self) -> None:
        """Every kept version, oldest first. A version that is stored meanwhile may be missing."""
        frontier = self.frontier
        for kind, name in frontier.run(frontier.verbs.documents.every()):
            for info in reversed(frontier.document_history(kind, name)):
                with contextlib.suppress(UnknownDocument):
                    self._write(line.document(kind, frontier.document(kind, name, info.version)))

    def _tell(self, key: str, row: Line) -> None:
        if self._told.get(key) != row:
            self._told[key] = row
            self._write(row)

    def _memory(self, partition: int, name: str, later: TextOutput) -> None:
        verbs, cursor = self.frontier.verbs.snapshot, ""
        while True:
            page = self.frontier.run(verbs.seen_page(partition, name, cursor))
            row: Line = {"type": "seen", "memory": name, "partition": partition}
            if page.what == "policy":
                policy, state = page.details
                self._tell(f"memory {name}", {"type": "memory", "memory": name, "policy": policy})
                if state:
                    self._spool(later, {**row, "type": "layers", "state": state})
            elif page.what == "fps" and page.details[0]:
                fingerprints, began, behind = page.details
                row["fingerprints"] = [line.unsigned_text(signed) for signed in fingerprints]
                if began or behind:
                    row |= {"began": began / 1000, "behind": behind}
                self._spool(later, row)
                self.records += len(fingerprints)
            elif page.what == "forgotten" and page.details[0]:
                fingerprints = [line.unsigned_text(signed) for signed in page.details[0]]
                self._spool(later, {**row, "type": "forgotten", "fingerprints": fingerprints})
            elif page.what == "bits" and page.data.strip(b"\0"):
                layer, segment, offset = page.details
                bits = b64encode(compress(page.data, 1)).decode()
                place = {"layer": layer, "segment": segment, "offset": offset}
                self._spool(later, {**row, "type": "bits", **place, "zlib": bits})
            self._heard(self)
            cursor = page.cursor
            if not cursor:
                return

    def _page_records(self, partition: int, lane: str, later: TextOutput) -> None:
        """Read before the queues are, and written behind their requests: a page that waits and is queued by then is in both."""
        cursor = "0"
        with contextlib.suppress(UnknownLane):  # Dropped meanwhile.
            while cursor:
                cursor, rows = self.frontier.scan_page_records(lane, partition, cursor, PAGE)
                for row in rows:
                    self._spool(later, line.page_record(row) | self._payload(row.payload))
                self.records += len(rows)
                self._heard(self)

    def _texts(self, partition: int, lane: str, later: TextOutput) -> None:
        """What lists said of the pages when they were fetched last."""
        cursor = "0"
        while cursor:
            page = self._page(partition, "page_texts", cursor, lane)
            if page.rows:
                pages = b64encode(b"".join(page.rows)).decode()
                self._spool(later, {"type": "page_texts", "lane": lane, "partition": partition, "pages": pages})
            cursor = page.cursor

    def _spool(self, later: TextOutput, row: Line) -> None:
        later.write(json.dumps(row, separators=(",", ":")) + "\n")

    def _hosts(self, partition: int) -> None:
        cursor = "0"
        while cursor:
            page = self._page(partition, "hosts", cursor)
            for name, blocked, reason, paused, crawl_delay, policy in page.rows:
                row: Line = {"type": "host", "host": name}
                row |= {"policy": line.host_policy(policy)} if policy else {}
                row |= {"blocked_until": round(page.now + blocked / 1000, 3), "reason": reason} if blocked else {}
                row |= {"paused": paused} if paused else {}
                row |= {"crawl_delay": crawl_delay / 1000} if crawl_delay else {}
                self._write(row)
            cursor = page.cursor

    def _held(self, partition: int) -> None:
        """All requests and dead letters of a partition."""
        self._queues(partition)
        for state in ("delayed", "suspect", "leased"):
            for row in self._pages(partition, state):
                self._request(state, row)
        for group in self._groups():
            for row in self._pages(partition, "newer", group):
                self._request("new", row)
        for dead in self._pages(partition, "dead"):
            self._dead(dead)
        if self._items:
            self._item_lines(partition)

    def _check_servers(self, before: list[str]) -> None:
        """A server that was replaced or restarted may lack requests whose fingerprints were read before: what was read is not one
        state of the crawl. Its cursors have lost their meaning, too."""
        for partition, server in enumerate(before):
            if self._server(partition) != server:
                raise SnapshotError(
                    f"The server of partition {partition} was restarted or replaced while it was read, and may have lost what had been "
                    "read of it. Export again."
                )

    def _server(self, partition: int) -> str:
        info = self.frontier.connection.execute(
            "INFO", "server", key=keys.base(self.frontier.crawl, partition), final=True
        )
        return next((text for text in info.decode().splitlines() if text.startswith("run_id:")), "")

    def _queues(self, partition: int) -> None:
        for kind, state in (("front", "returned"), ("queue", "queued")):
            places = queue_places(self.frontier, partition, kind)
            while some := list(islice(places, LISTS)):
                self._lists(partition, state, some)

    def _lists(self, partition: int, state: str, places: list[str]) -> None:
        verbs, left = self.frontier.verbs.snapshot, [(place, "0") for place in places]
        returned: dict[str, list[ScannedRequest]] = {}
        while left:
            more = []
            pages = self.frontier.run(verbs.lists(partition, left, PAGE, self.name))
            for (place, _), page in zip(left, pages, strict=True):
                if state == "returned":
                    returned.setdefault(place, []).extend(page.rows)
                else:
                    for row in page.rows:
                        self._request(state, row)
                if page.cursor:
                    more.append((place, page.cursor))
            left = more
            self._heard(self)
        # What comes back is put back at the end of its queue, so oldest first. These are never more than were leased.
        for rows in returned.values():
            for row in reversed(rows):
                self._request(state, row)

    def _request(self, state: str, row: ScannedRequest) -> None:
        if f"lane {row.lane}" not in self._told:
            self._policies(self.frontier.counts())
        record: Line = {"type": "request", "state": state, "lane": row.lane, "host": row.host}
        record |= {"priority": row.priority} if row.priority else {}
        record |= {"due": row.due} if row.due else {}
        record["fingerprint"] = line.fingerprint_text(row.fingerprint)
        record |= {} if row.filtered else {"dont_filter": True}
        record |= {"attempts": row.attempts} if row.attempts else {}
        record |= {"strikes": row.strikes} if row.strikes else {}
        record |= {"changed": line.fingerprint_text(row.changed)} if row.changed else {}
        self._write(record | self._payload(row.payload))
        self.records += 1
        self.requests += 1

    def _payload(self, data: bytes) -> Line:
        fields = line.payload_json(data)
        if self._secrets:
            return fields
        fields = line.redacted_payload(fields)
        self.redacted += "redacted" in fields
        return fields

    def _dead(self, row: ScannedDeadLetter) -> None:
        names = ("group", "lane", "host", "priority", "attempts", "strikes", "reason", "detail", "at")
        record: Line = {"type": "dead", **{name: getattr(row, name) for name in names}}
        if not self._secrets:
            record["detail"] = concealed(row.detail)
        if is_record(row.record):
            kind, fingerprint, changed, payload = unpack_record(row.record)
            record["fingerprint"] = line.fingerprint_text(fingerprint)
            record |= {"dont_filter": True} if kind == 2 else {}
            record |= {"changed": line.fingerprint_text(changed)} if changed else {}
            record |= self._payload(payload)
        else:
            record["garbage"] = b64encode(row.record).decode()
        self._write(record)
        self.records += 1

    def _item_lines(self, partition: int) -> None:
        for group in self._groups():
            after = "0-0"
            while rows := self.frontier.read_items(group, partition, after, PAGE):
                after = rows[-1][0]
                for position, data in rows:
                    place = {"partition": partition, "position": position}
                    self._write({"type": "item", "group": group, **place, **line.payload_json(data)})

    def _numbers(self) -> None:
        """What was counted over the life of the crawl, and the counters of users."""
        counts = self.frontier.counts()
        for lane in counts.lanes:
            row = {name: getattr(lane, name) for name in LANE_COUNTS if getattr(lane, name)}
            if row:
                self._write({"type": "counts", "lane": lane.lane, "counts": row})
        for group in counts.groups:
            row = {name: getattr(group, name) for name in GROUP_COUNTS if getattr(group, name)}
            if row:
                self._write({"type": "counts", "group": group.group, "counts": row})
            counters = dict(group.counters)
            for field in self.frontier.coverage([group.group]):
                counters |= counters_of(field)
            if counters:
                self._write({"type": "counters", "group": group.group, "counters": counters})
            self._rounds(group)

    def _rounds(self, group: GroupCounts) -> None:
        """The log, oldest first, and what each day brought. Stands after the counts: they say which round is the present one."""
        with contextlib.suppress(UnknownGroup):  # Dropped meanwhile.
            for info in reversed(self.frontier.rounds(group.group, ROUNDS)):
                self._write({"type": "round", **info._asdict(), "present": info.round == group.round})
            for counts in self.frontier.daily_counts(group.group):
                self._write({"type": "daily", **counts._asdict(), "day": counts.day.isoformat()})

    def _tasks(self) -> None:
        sources = {
            source: None
            for row in self._told.values()
            if row["type"] == "group"
            for source in row["policy"]["tasks"]
        }  # fmt: skip
        for source in sources:
            for kind, data, score in self._waiting(source):
                self._write({"type": "task", "source": source, "kind": kind, "score": score, **self._payload(data)})

    def _waiting(self, source: str) -> Iterator[tuple[str, bytes, float]]:
        """Tasks at their producer's key, then those leased: a task goes from the one to the other and never back."""
        execute, book = self.frontier.connection.execute, keys.task_keys(source)[1]
        kind = execute("TYPE", source, key=source)
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        if kind == "list":
            at = 0
            while rows := execute("LRANGE", source, -at - PAGE, -at - 1, key=source):
                yield from (("list", data, 0.0) for data in reversed(rows))
                at += len(rows)
        elif kind in ("set", "zset"):
            cursor: Any = "0"
            while True:
                cursor, rows = execute("SSCAN" if kind == "set" else "ZSCAN", source, cursor, "COUNT", PAGE, key=source)
                pairs = zip(rows[::2], rows[1::2], strict=True) if kind == "zset" else ((data, 0.0) for data in rows)
                yield from ((kind, data, float(score)) for data, score in pairs)
                if cursor in (b"0", 0, "0"):
                    break
        cursor = "0"
        while True:
            cursor, rows = execute("HSCAN", book, cursor, "COUNT", PAGE, key=book)
            for field, value in zip(rows[::2], rows[1::2], strict=True):
                if field.isdigit():
                    yield kind if kind != "none" else "list", _first_text(value), 0.0
            if cursor in (b"0", 0, "0"):
                return

    def _shared(self) -> None:
        """What workers and readers of a group have together."""
        for group in self._groups():
            for name, positions in item_stream.consumers(self.frontier, group, notes=True).items():
                places = {str(partition): at for partition, at in positions.items()}
                self._write({"type": "consumer", "group": group, "consumer": name, "positions": places})
            _, found, _ = self.frontier.cookies(group)
            cookies = {name: data for name, data in found.items() if data}  # The others are gone.
            if self._secrets:
                for name, data in cookies.items():
                    self._write(line.cookie(group, name, data))
            elif cookies:
                self.cookies_left_out += len(cookies)
                self._write({"type": "cookies", "group": group, "left_out": len(cookies)})

    def _groups(self) -> list[str]:
        return [key.removeprefix("group ") for key in self._told if key.startswith("group ")]

    def _journal(self, partition: int) -> None:
        """Up to where it was when all else had been read: later entries come from pages that are in the snapshot."""
        cursor, length = "0", None
        while cursor:
            page = self._page(partition, "journal", cursor)
            length = page.journal if length is None else length
            for row in page.rows:
                self._request("new", row)
            cursor = page.cursor if page.cursor and int(page.cursor) < length else ""
            self._heard(self)


def _first_text(packed: bytes) -> bytes:
    """The first text of a packed array, as it is: what producers push need not be UTF-8."""
    head = packed[1]
    if head < 0xC0:
        return packed[2 : 2 + (head & 0x1F)]
    width = 1 << (head - 0xD9)
    length = int.from_bytes(packed[2 : 2 + width], "big")
    return packed[2 + width : 2 + width + length]


def _lanes_with_memories(counts: Counts) -> list[str]:
    """A lane for each memory, and those that keep page records."""
    lanes: dict[tuple[str, str], str] = {}
    for name, table in sorted(counts.lane_policies.items()):
        own = name if table.get("records") else table["seen"]["spec"]
        lanes.setdefault((name.rpartition(".")[0], own), name)
    return list(lanes.values())
