"""Lines of a snapshot back into a crawl, on whatever server and with however many partitions.

May be repeated: every partition remembers the line up to which it has restored a snapshot. Requests of a filtered lane that the crawl
knows already are left out. A fingerprint does not tell its host, so where the number of partitions differs, each partition
remembers all of them.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable
from datetime import date
from typing import Any
from zlib import decompress
from zlib import error as ZlibError

from gossamer.errors import DecodingError, EncodingError, InvalidRequest, PolicyError, SnapshotError
from gossamer.frontier import item_stream
from gossamer.frontier.server import keys
from gossamer.frontier.server.layout import RECORDS
from gossamer.frontier.snapshot import line, origin
from gossamer.frontier.snapshot.export import GROUP_COUNTS, LANE_COUNTS, Line
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs import rounds
from gossamer.frontier.verbs.documents import checked_text, digest_of, kind_of, name_of
from gossamer.frontier.verbs.plan import daily
from gossamer.frontier.verbs.plan.pages import EVENTS, STATES
from gossamer.frontier.verbs.work.batch import RECORD, pack_record
from gossamer.model import DailyCounts, PageEvent, PageState, RoundInfo

BATCH_ENTRIES = 500
BATCH_BYTES = 1_000_000
MOST_COOKIES = 1_000_000
"""More than workers keep: their own limit applies when they store the next one."""
FEED = "feed-"
"""How the names of consumers begin that stand for the file of a feed."""
STORED_COUNTS = {**{name: name for name in (*LANE_COUNTS, *GROUP_COUNTS)}, "duplicates": "dup"}
_WRONG = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, Base64Error, ZlibError, DecodingError, EncodingError,
    InvalidRequest, PolicyError, SnapshotError,
)  # fmt: skip


class Restore:
    """One import. `done` counts what became of lines: restored, known, before (an earlier attempt), unplaced."""

    def __init__(
        self,
        frontier: ValkeyFrontier,
        source: SnapshotFile,
        *,
        forget_bloom: bool = False,
        without_secrets: bool = False,
        again: bool = False,
        heard: Callable[[Restore], None] | None = None,
    ) -> None:
        self.frontier, self.source, self._forget_bloom = frontier, source, forget_bloom
        self._without_secrets, self._again = without_secrets, again
        self.redacted = 0
        """How many requests, dead letters and tasks were restored without their secrets."""
        self.cookies_left_out = 0
        """How many cookies the crawl had that are not in the file."""
        self.snapshot = str(source.header["snapshot"])
        self.done: Counter[str] = Counter()
        self.complete = False
        self._heard = heard or (lambda _: None)
        self._same = int(source.header["partitions"]) == frontier.partitions
        self._lanes: set[str] = set()
        self._epochs: list[str] = []
        self._runs: dict[str, str] = {}
        self._batch: list[tuple[list[list[Any]], list[bytes]]] = []
        self._entries = self._bytes = 0
        self._tasks: dict[str, tuple[list[list[Any]], list[bytes]]] = {}
        self._rounds: dict[str, int] = {}
        self._cookies: dict[str, dict[str, bytes]] = {}
        self._known_cookies: dict[str, frozenset[str] | None] = {}
        self._clear()

    def run(self) -> None:
        """Restore every line. A line that cannot be used raises `SnapshotError` with its number; those before it are in. So does a server
        that was restarted or replaced meanwhile: it may have lost lines, which the next import restores."""
        already, self._epochs = self.frontier.run(self.frontier.verbs.snapshot.restored(self.snapshot))
        if already < 1:
            self._check_origin()
            self._crawl(self.source.header)
        for row in self.source.rows():
            # Tasks may be on another server than all partitions: their own book says which are there.
            if self.source.number <= already and row.get("type") != "task":
                self.done["before"] += 1
                self.complete = row.get("type") == "end"
                self._before(row)
                continue
            try:
                self._row(row)
            except _WRONG as error:
                self._flush(self.source.number - 1)
                said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
                raise SnapshotError(
                    f"{self.source.name}, line {self.source.number}: {said}. Correct that and import again: what stands "
                    "before this line is restored and will not be restored twice."
                ) from error
            if self._entries >= BATCH_ENTRIES or self._bytes >= BATCH_BYTES:
                self._flush(self.source.number)
        self._flush(self.source.number)
        for source in self._runs:
            self._put_tasks(source, [], [])

    def _check_origin(self) -> None:
        """Refuse state that is there: only requests that go through a memory would be known as such."""
        holds = [str(crawl) for crawl in self.source.header.get("holds", ())]
        there = {
            crawl: by for crawl, by in origin.origins(self.frontier).items() if crawl in holds and by != self.snapshot
        }
        if there and not self._again:
            how = (
                "it was exported from this crawl"
                if "" in there.values()
                else "another export of it was imported before"
            )
            raise SnapshotError(
                f"{self.source.name}: what it holds is in crawl {self.frontier.crawl!r} already, since {how}. Items, dead letters, counts and "
                "requests that pass by the seen memory would be there twice. Import into another crawl (--crawl NAME), or with "
                "--again, which doubles them."
            )
        origin.add_origins(self.frontier, holds, self.snapshot)

    def _clear(self) -> None:
        self._batch = [([], []) for _ in range(self.frontier.partitions)]
        self._entries = self._bytes = 0
        self._tasks = {}
        self._cookies = {}

    def _before(self, row: Line) -> None:
        """What an earlier attempt restored, as far as later lines need it."""
        match row.get("type"):
            case "lane":
                self._lanes.add(row["lane"])
            case "group":
                self._rounds[row["group"]] = int(row["round"])
            case "cookies":
                self._restore_cookies(row)

    def _flush(self, upto: int) -> None:
        verbs, run = self.frontier.verbs.snapshot, self.frontier.run
        for source, (tasks, data) in self._tasks.items():
            self._put_tasks(source, tasks, data)
        for group, cookies in self._cookies.items():
            self._put_cookies(group, cookies)
        names = {"r": "restored", "k": "known", "s": "before", "u": "unplaced"}
        for letters in run(verbs.restore(self.snapshot, upto, self._batch, self._epochs)):
            for letter in letters:
                self.done[names[letter]] += 1
        self._clear()
        self._heard(self)

    def _put_tasks(self, source: str, tasks: list[list[Any]], data: list[bytes]) -> None:
        """In a cluster a node that holds no partition may have them."""
        verb = self.frontier.verbs.snapshot.restore_tasks(
            self.snapshot, source, tasks, data, self._runs.get(source, "")
        )
        done, self._runs[source] = self.frontier.run(verb)
        self.done["restored"] += done
        self.done["before"] += len(tasks) - done

    def _put(self, partition: int, entry: list[Any], record: bytes = b"") -> None:
        rows, records = self._batch[partition]
        rows.append(RECORDS[f"ENTRY_{entry[0].upper()}"].of(self.source.number, *entry))
        records.append(record)
        self._entries += 1
        self._bytes += len(record) + 20 * sum(len(part) for part in entry if isinstance(part, list))

    def _everywhere(self, entry: list[Any], record: bytes = b"") -> None:
        for partition in range(self.frontier.partitions):
            self._put(partition, entry, record)

    def _row(self, row: Line) -> None:
        kind = row["type"]
        method = getattr(self, f"_restore_{kind}", None) if isinstance(kind, str) and kind.isidentifier() else None
        if method is None:
            raise SnapshotError(f"lines of type {kind!r} are not known to this Gossamer")
        method(row)

    def _crawl(self, header: Line) -> None:
        self.frontier.set_host("", line.host_policy_from(header["host"]))
        if header.get("paused"):
            self.frontier.pause(reason=header["paused"])

    def _restore_group(self, row: Line) -> None:
        group = row["group"]
        self._flush(self.source.number - 1)
        self._rounds[group] = int(row["round"])
        self.frontier.define(group, {}, line.group_policy_from(row["policy"]))
        if row.get("paused"):
            self.frontier.pause(group=group, reason=row["paused"])
        home = keys.home_of(group, self.frontier.partitions)
        for partition in range(self.frontier.partitions):
            self._put(partition, ["round", group, int(row["round"]), row["start"], partition == home])

    def _restore_lane(self, row: Line) -> None:
        group, _, name = row["lane"].rpartition(".")
        self._flush(self.source.number - 1)
        self.frontier.define(group, {name: line.lane_policy_from(row["policy"])})
        self._lanes.add(row["lane"])
        if row.get("paused"):
            self.frontier.pause(lane=row["lane"], reason=row["paused"])

    def _restore_memory(self, row: Line) -> None:
        if row["policy"]["kind"] == "bloom" and not self._same and not self._forget_bloom:
            # Put together, its parts would take ever more new requests for known ones.
            number = self.source.header["partitions"]
            raise SnapshotError(
                f"memory {row['memory']!r} is a bloom filter, which cannot be divided in another way; import into a crawl with "
                f"GOSSAMER_PARTITIONS={number}, or with --forget-bloom, which fetches again what it knew"
            )
        self._everywhere(["memory", row["memory"], dict(row["policy"])])

    def _restore_host(self, row: Line) -> None:
        host = row["host"]
        if "policy" in row:
            self.frontier.set_host(host, line.host_policy_from(row["policy"]))
        if row.get("crawl_delay"):
            self.frontier.set_crawl_delay(host, row["crawl_delay"])
        left = row.get("blocked_until", 0) - self.frontier.counts().now if "blocked_until" in row else 0
        if left > 0:
            self.frontier.block(host, left, row.get("reason", ""))
        if row.get("paused"):
            self.frontier.pause(host=host, reason=row["paused"])

    def _payload(self, row: Line) -> bytes:
        data = line.payload_from(row, self._without_secrets)
        self.redacted += bool(row.get("redacted"))
        return data

    def _restore_request(self, row: Line) -> None:
        if row["lane"] not in self._lanes:
            raise SnapshotError(f"lane {row['lane']!r} was not defined by a line before")
        checked = self.frontier.verbs.control.checked
        host, payload = checked.host(row["host"]), self._payload(row)
        signed = line.signed_from(row["fingerprint"])
        filtered = not row.get("dont_filter", False)
        entry = [
            "request", row["state"], row["lane"], host, checked.priority(row.get("priority", 0)),
            round(row.get("due", 0) * 1000), filtered, signed, int(row.get("attempts", 0)), int(row.get("strikes", 0)),
        ]  # fmt: skip
        record = self._head(row) + payload
        self._put(keys.partition_of(host, self.frontier.partitions), entry, record)

    def _restore_page(self, row: Line) -> None:
        if row["lane"] not in self._lanes:
            raise SnapshotError(f"lane {row['lane']!r} was not defined by a line before")
        checked = self.frontier.verbs.control.checked
        host = checked.host(row["host"])
        high, low = divmod(int(row.get("signature", "0"), 16), 2**32)
        trail = [[EVENTS.index(PageEvent(event)) + 1, int(at)] for event, at in row["trail"]]
        entry = [
            "page", row["lane"], host, checked.priority(row.get("priority", 0)), STATES.index(PageState(row["state"])) + 1,
            *(round(row.get(name, 0) * 1000) for name in ("first", "last", "since", "due", "interval")),
            *(int(row.get(name, 0)) for name in ("version", "status", "changes", "misses")), [high, low], trail,
        ]  # fmt: skip
        record = RECORD.pack(0, int(row["fingerprint"], 16)) + self._payload(row)
        self._put(keys.partition_of(host, self.frontier.partitions), entry, record)

    def _restore_dead(self, row: Line) -> None:
        names = ("group", "lane", "host", "priority", "attempts", "strikes", "reason", "detail")
        if "garbage" in row:
            record = b64decode(row["garbage"], validate=True)
        else:
            record = self._head(row) + self._payload(row)
        partitions = self.frontier.partitions
        home = keys.partition_of(row["host"], partitions) if row["host"] else keys.home_of(row["group"], partitions)
        self._put(home, ["dead", *(row[name] for name in names), round(row["at"] * 1000)], record)

    @staticmethod
    def _head(row: Line) -> bytes:
        changed = int(row.get("changed", "0"), 16)
        return pack_record(int(row["fingerprint"], 16), changed, dont_filter=bool(row.get("dont_filter")))

    def _remembered(self, row: Line, entry: list[Any], record: bytes = b"") -> None:
        if entry[0] not in ("seen", "page_texts") and self._forget_bloom:
            return
        if self._same:
            self._put(int(row["partition"]), entry, record)
        else:
            self._everywhere(entry, record)

    def _restore_seen(self, row: Line) -> None:
        signed = [line.signed_from(text) for text in row["fingerprints"]]
        began, behind = round(row.get("began", 0) * 1000), int(row.get("behind", 0))
        self._remembered(row, ["seen", row["memory"], signed, began, behind])

    def _restore_page_texts(self, row: Line) -> None:
        if row["lane"] not in self._lanes:
            raise SnapshotError(f"lane {row['lane']!r} was not defined by a line before")
        self._remembered(row, ["page_texts", row["lane"]], b64decode(row["pages"], validate=True))

    def _restore_forgotten(self, row: Line) -> None:
        signed = [line.signed_from(text) for text in row["fingerprints"]]
        self._remembered(row, ["forgotten", row["memory"], signed])

    def _restore_layers(self, row: Line) -> None:
        self._remembered(row, ["layers", row["memory"], list(row["state"])])

    def _restore_bits(self, row: Line) -> None:
        bits = decompress(b64decode(row["zlib"], validate=True))
        self._remembered(row, ["bits", row["memory"], row["layer"], row["segment"], row["offset"]], bits)

    def _restore_counts(self, row: Line) -> None:
        lane, group = row.get("lane"), row.get("group") or row["lane"].rpartition(".")[0]
        prefix = "" if lane else f"g|{group}|"
        flat = [part for name, n in row["counts"].items() for part in (prefix + STORED_COUNTS[name], int(n))]
        self._put(keys.home_of(group, self.frontier.partitions), ["counts", flat, lane or False])

    def _restore_counters(self, row: Line) -> None:
        # Where workers put them.
        flat = [part for name, value in row["counters"].items() for part in (name, float(value))]
        self._put(0, ["counters", row["group"], flat])

    def _restore_round(self, row: Line) -> None:
        group, number = row["group"], int(row["round"])
        info = RoundInfo(**{name: row[name] for name in RoundInfo._fields if name in row})
        home = keys.home_of(group, self.frontier.partitions)
        self._put(home, ["logged", group, number, rounds.stored(info)])
        if row["present"]:
            for partition in range(self.frontier.partitions):
                counts = [getattr(info, name) if partition == home else 0 for name in rounds.COUNTS]
                self._put(partition, ["standing", group, number, counts])

    def _restore_daily(self, row: Line) -> None:
        group, day = row["group"], date.fromisoformat(row["day"])
        counts = DailyCounts(**{**{name: row.get(name, 0) for name in DailyCounts._fields}, "day": day})
        home = keys.home_of(group, self.frontier.partitions)
        self._put(home, ["daily", group, *daily.stored(counts)])

    def _restore_document(self, row: Line) -> None:
        name = f"{kind_of(row['kind'])}|{name_of(row['name'])}"
        data = checked_text(row["kind"], row["name"], row["text"])
        known = [round(row["at"] * 1000), str(row["who"]), str(row["note"]), digest_of(data), bool(row["deleted"])]
        self._put(
            0, ["document", name, int(row["version"]), *known, self.frontier.verbs.documents.kept_of(row["kind"])], data
        )

    def _restore_item(self, row: Line) -> None:
        # Positions of consumers mean the same where items keep theirs.
        at = row.get("position", "") if self._same else ""
        home = int(row["partition"]) if at else keys.home_of(row["group"], self.frontier.partitions)
        self._put(home, ["item", row["group"], at], line.payload_from(row))

    def _restore_consumer(self, row: Line) -> None:
        name, positions = str(row["consumer"]), row["positions"]
        if name.startswith(FEED) and self.source.header["crawl"] != self.frontier.crawl:
            return  # the file of a feed belongs to its crawl
        for partition in range(self.frontier.partitions):
            if self._same and str(partition) in positions:
                self._put(partition, ["consumer", row["group"], name, str(positions[str(partition)])])
            elif not name.startswith("*"):
                self._put(partition, ["consumer", row["group"], name, item_stream.START])

    def _restore_task(self, row: Line) -> None:
        tasks, data = self._tasks.setdefault(row["source"], ([], []))
        tasks.append([self.source.number, row["kind"], float(row.get("score", 0))])
        data.append(self._payload(row))
        self._entries += 1

    def _restore_cookie(self, row: Line) -> None:
        if row["group"] not in self._rounds:
            raise SnapshotError(f"group {row['group']!r} was not defined by a line before")
        name, data = line.cookie_from(row)
        self._cookies.setdefault(row["group"], {})[name] = data
        self._entries += 1
        self._bytes += len(data)

    def _put_cookies(self, group: str, cookies: dict[str, bytes]) -> None:
        """Those that a crawl has itself are newer, and a later round has begun without these."""
        if group not in self._known_cookies:
            rounds_now = [row.round for row in self.frontier.counts(group).groups if row.group == group]
            later = any(number > self._rounds[group] for number in rounds_now)
            self._known_cookies[group] = None if later else frozenset(self.frontier.cookies(group)[1])
        known = self._known_cookies[group]
        fresh = {} if known is None else {name: data for name, data in cookies.items() if name not in known}
        if fresh:
            self.frontier.put_cookies(group, fresh, most=MOST_COOKIES)
        self.done["restored"] += len(fresh)
        self.done["known"] += len(cookies) - len(fresh)

    def _restore_cookies(self, row: Line) -> None:
        self.cookies_left_out += int(row["left_out"])

    def _restore_end(self, row: Line) -> None:
        self.complete = True
