"""Moves what an instance holds into a crawl: read as a snapshot of that crawl, and restored as one.

The instance is only read. What waits there is queued, what was finished becomes a page record or is remembered as seen, both with its
times, and what failed is a dead letter. A URL that has no place in the crawl is counted with its reason. A move that broke off may begin
again: what the crawl has of it is not restored twice.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import IO, Any

from gossamer.frontier.server.keys import partition_of
from gossamer.frontier.snapshot import foreign, line, origin
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.migrate.neocrawler.rules import Rule, rules_of
from gossamer.migrate.neocrawler.state import source
from gossamer.migrate.neocrawler.state.placement import Placed, Placement, Unplaced
from gossamer.migrate.neocrawler.state.source import InstanceKeys
from gossamer.migrate.neocrawler.state.url_info import Fate, UrlInfo, fate_of, info_of, name_of, rule_of
from gossamer.model import RecordPolicy, SeenKind, SeenPolicy, SeenScope
from gossamer.settings import Settings

WAITS, FINISHED, RECORDED, SEEN, COMES_AGAIN, FAILED = "waits", "finished", "recorded", "seen", "comes again", "failed"
EXAMPLES = 3
"""URLs that are named of each reason why some have no place."""
REASON = "neocrawler_failed"
"""The reason of dead letters: NEOCrawler gave the page up."""
BATCH = 500
PARTS = 64
"""The window of a memory is divided into this many parts, and its times are rounded to them."""
OK = 200
"""NEOCrawler takes only pages with this status."""


@dataclass
class StateReport:
    """What was found, by lane and word: waits, failed, finished, and of these recorded, seen, or neither since it comes again anyway.
    `unplaced` counts what has no place, by reason; `examples` names some."""

    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    unplaced: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    restored: Mapping[str, int] = field(default_factory=dict)
    read: int = 0

    def leave_out(self, reason: str, what: str) -> None:
        self.unplaced[reason] += 1
        if len(named := self.examples.setdefault(reason, [])) < EXAMPLES:
            named.append(what)


def read_rules(instance_keys: InstanceKeys) -> list[Rule]:
    """The rules of an instance; BadRules if it has none."""
    hashes = dict(instance_keys.rules.hashes(source.RULES))
    return rules_of(json.dumps(hashes), f"the instance at {instance_keys.instance.rules.url}")


class StateReader:
    """Reads an instance once, and gives it as the lines of a snapshot. `intervals` are those of its rules, by domain and alias."""

    def __init__(
        self,
        instance_keys: InstanceKeys,
        placing: Placement,
        intervals: Mapping[tuple[str, str], float],
        now: float,
        partitions: int,
        heard: Callable[[StateReport], None] = lambda _: None,
    ) -> None:
        self._keys, self._placing, self._intervals = instance_keys, placing, intervals
        self.now, self._partitions, self._heard = now, partitions, heard
        self.report = StateReport()
        self._scheduled: dict[str, str] = {}
        """By name: URLs that are given to spiders, in their order."""
        self._listed: dict[str, tuple[str, str]] = {}
        """By name: URLs in the lists of rules, in their order, and the list."""
        self._stuck: set[str] = set()
        self._seen: dict[tuple[str, int, float], list[str]] = {}

    def lines(self) -> Iterator[foreign.Line]:
        """Requests first: what is cut off then costs pages fetched again, and none missed."""
        self._read_lists()
        waiting: dict[str, UrlInfo] = {}
        ended: set[str] = set()
        with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
            for name, info in self._infos():
                if (fate := self._fate(name, info)) is Fate.WAITS:
                    waiting[name] = info
                    continue
                ended.add(name)
                for row in self._ended(info, fate):
                    spool.write(json.dumps(row) + "\n")
            yield from self._waiting(waiting, ended)
            spool.seek(0)
            yield from map(json.loads, spool)
        for (memory, partition, began), fingerprints in self._seen.items():
            yield foreign.seen(memory, partition, fingerprints, began)

    def _read_lists(self) -> None:
        for url in self._keys.rules.listed(source.QUEUE):
            self._scheduled.setdefault(name_of(url), url)
        for key in sorted(set(self._keys.rules.names("list", source.LIBRARY))):
            for url in self._keys.rules.listed(key):
                self._listed.setdefault(name_of(url), (url, key))
        for key in set(self._keys.reports.names("zset", source.STUCK)):
            self._stuck.update(name_of(url) for url, _ in self._keys.reports.ranked(key))

    def _infos(self) -> Iterator[tuple[str, UrlInfo]]:
        known: set[str] = set()
        for name, fields in self._keys.urls.hashes(""):
            # Rules are here too where all databases are one, and a key may be named twice.
            if source.INFO.fullmatch(name) is None or name in known:
                continue
            known.add(name)
            self.report.read += 1
            if self.report.read % source.PAGE == 0:
                self._heard(self.report)
            info = info_of(fields)
            if not isinstance(info, str):
                yield name, info
            elif name not in self._scheduled and name not in self._listed:
                self.report.leave_out(f"what is known of it cannot be used: {info}", fields.get("url") or name)

    def _fate(self, name: str, info: UrlInfo) -> Fate:
        interval = self._intervals.get(info.rule, 0.0) if info.rule is not None else 0.0
        given, listed, stuck = name in self._scheduled, name in self._listed, name in self._stuck
        return fate_of(info, interval, self.now, scheduled=given, listed=listed, stuck=stuck)

    def _place(self, url: str, rule: tuple[str, str] | None, referer: str) -> Placed | None:
        placed = self._placing.place(url, rule, referer)
        if isinstance(placed, Unplaced):
            self.report.leave_out(placed.reason, url)
            return None
        return placed

    def _waiting(self, waiting: dict[str, UrlInfo], ended: set[str]) -> Iterator[foreign.Line]:
        """What spiders have first, then the lists in their order, then what NEOCrawler has lost sight of."""
        in_lists = ((name, url) for name, (url, _) in self._listed.items())
        for name, url in chain(self._scheduled.items(), in_lists):
            if name in ended:
                continue
            ended.add(name)
            info = waiting.pop(name, None)
            rule = rule_of(self._listed[name][1]) if info is None and name in self._listed else None
            yield from self._request(url, rule if info is None else info.rule, "" if info is None else info.referer)
        for info in waiting.values():
            yield from self._request(info.url, info.rule, info.referer)

    def _request(self, url: str, rule: tuple[str, str] | None, referer: str) -> Iterator[foreign.Line]:
        if (placed := self._place(url, rule, referer)) is not None:
            self.report.found[placed.lane, WAITS] += 1
            yield foreign.request(placed.request)

    def _ended(self, info: UrlInfo, fate: Fate) -> Iterator[foreign.Line]:
        if (placed := self._place(info.url, info.rule, info.referer)) is None:
            return
        first, last = info.create or info.last or self.now, info.last or info.create or self.now
        records = placed.policy.records
        if fate is Fate.FAILED:
            self.report.found[placed.lane, FAILED] += 1
            yield foreign.dead(placed.request, REASON, "NEOCrawler tried it several times and gave up.", last)
            if records is not None:
                yield foreign.page(placed.request, "failed", first=first, last=last, due=0, interval=0, status=0)
            return
        self.report.found[placed.lane, FINISHED] += 1
        if records is not None:
            self.report.found[placed.lane, RECORDED] += 1
            due, interval = _next_visit(records, last)
            yield foreign.page(
                placed.request, "finished", first=first, last=last, due=due, interval=interval, status=OK
            )
        elif placed.policy.seen.scope is not SeenScope.FOREVER or self._is_past(placed.policy.seen, last):
            self.report.found[placed.lane, COMES_AGAIN] += 1
        elif placed.policy.seen.kind is SeenKind.BLOOM:
            said = f"the layer {placed.lane} remembers with a bloom filter, which takes nothing from elsewhere"
            self.report.leave_out(said, info.url)
        else:
            self.report.found[placed.lane, SEEN] += 1
            yield from self._remember(placed, last)

    def _is_past(self, policy: SeenPolicy, last: float) -> bool:
        return 0 < policy.window <= self.now - last

    def _remember(self, placed: Placed, last: float) -> Iterator[foreign.Line]:
        """Full lines; what is left of each memory and time comes last. Times are rounded down: rather a page too soon than too late."""
        policy, asked = placed.policy.seen, placed.request
        part = policy.window / PARTS
        began = last // part * part if part else 0.0
        place = foreign.memory_name(placed.site, policy), partition_of(asked.host, self._partitions), began
        found = self._seen.setdefault(place, [])
        found.append(line.fingerprint_text(asked.fingerprint))
        if len(found) >= BATCH:
            yield foreign.seen(place[0], place[1], self._seen.pop(place), began)


def _next_visit(records: RecordPolicy, last: float) -> tuple[float, float]:
    """When a page is due, and the time between its visits; 0 if it is not visited again by itself."""
    if records.revisit is None:
        return 0.0, 0.0
    interval = records.revisit.bounded(records.revisit.every) if records.revisit.adaptive else records.revisit.every
    return last + interval, interval


def intervals_of(rules: list[Rule]) -> dict[tuple[str, str], float]:
    """The `schedule_interval` of rules, in seconds."""
    found = {(str(rule["domain"]), str(rule["alias"])): rule.get("schedule_interval") for rule in rules}
    return {name: float(value) for name, value in found.items() if isinstance(value, int) and value > 0}


def definitions(placing: Placement, settings: Settings) -> Iterator[foreign.Line]:
    """The groups, lanes and memories of all sites, as their workers define them."""
    for name, site in placing.sites.items():
        limits = {
            "max_items": settings["GOSSAMER_ITEMS_MAX"],
            "max_item_bytes": settings["GOSSAMER_ITEMS_MAX_BYTES"],
            "max_dead": settings["GOSSAMER_DEAD_MAX"],
        }
        yield foreign.group(name, replace(site.group(), **limits))
        for layer, policy in placing.lanes[name].items():
            yield foreign.lane(f"{name}.{layer}", policy)
        for seen in dict.fromkeys(lane.seen for lane in placing.lanes[name].values() if lane.records is None):
            if seen.scope is SeenScope.FOREVER and seen.kind is not SeenKind.BLOOM:
                yield foreign.memory(name, seen)


def as_of(frontier: ValkeyFrontier, name: str, again: bool) -> float:
    """The time for which the state of an instance is read: now, or when it was moved into this crawl first. What becomes of a URL depends
    on it, and a move that was cut off goes on with the same lines."""
    _, _, before = origin.origins(frontier).get(name, "").rpartition("@")
    return float(before) if before and not again else round(frontier.counts().now, 3)


def spool_state(reader: StateReader, defined: Iterator[foreign.Line], out: IO[bytes]) -> str:
    """Write all lines but the header. Returns a name for what they say: the same state at the same time has the same name."""
    digest = blake2b(digest_size=8)
    rows = 0
    for row in chain(defined, reader.lines()):
        data = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        digest.update(data)
        out.write(data)
        rows += 1
    out.write(json.dumps({"type": "end", "lines": rows + 2}).encode() + b"\n")
    return f"neo-{digest.hexdigest()}@{reader.now}"


def restore_state(
    frontier: ValkeyFrontier,
    name: str,
    snapshot: str,
    spooled: IO[bytes],
    heard: Callable[[Restore], None],
    again: bool,
) -> Mapping[str, int]:
    """Restore what was spooled. Returns what became of its lines."""
    spooled.seek(0)
    head: dict[str, Any] = foreign.header(frontier, snapshot, name)
    lines = chain([json.dumps(head).encode() + b"\n"], spooled)
    restore = Restore(frontier, SnapshotFile(name, _Lines(lines)), again=again, heard=heard)
    restore.run()
    return restore.done


class _Lines:
    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return self._lines
