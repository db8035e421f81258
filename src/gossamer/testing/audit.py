"""Reading the whole state of a crawl at one moment, and checking that it holds together.

`look` takes a picture of a partition in one atomic read; `problems` says what in it contradicts itself; `audit` does both
for a whole crawl. For tests: the read is as long as the crawl is large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

import ormsgpack

from gossamer.frontier import keys
from gossamer.frontier.valkey import ValkeyFrontier

AGAIN = Struct(">BIIIB")
FIRST = Struct(">BQ")

# Everything below one base key. Answers and the bits of bloom memories are left out: nothing can be checked in them.
_DUMP = r"""#!lua flags=no-writes
local base, out, cursor = KEYS[1], {}, '0'
local pattern = string.gsub(base, '[%[%]%*%?\\^]', '\\%1') .. ':*'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind = redis.call('TYPE', key).ok
    local value
    if kind == 'hash' then value = redis.call('HGETALL', key)
    elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'set' then value = redis.call('SMEMBERS', key)
    elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    elseif kind == 'stream' then value = redis.call('XRANGE', key, '-', '+')
    end
    if value then out[#out + 1] = {string.sub(key, #base + 1), value} end
  end
until cursor == '0'
return out
"""


class Record(NamedTuple):
    """A stored request: what it was added as, and what has become of it. `id` 0: not known by an id now."""

    fingerprint: int
    payload: bytes
    id: int
    attempts: int
    strikes: int


class Place(NamedTuple):
    lane: str
    priority: int
    host: str


class LeaseRow(NamedTuple):
    """A lease as it is stored. `lane` is "" for a permit; `mark` is 0 leased, 1 sent, 2 response arrived."""

    lane: str
    host: str
    priority: int
    incarnation: str
    nonce: str
    alone: bool
    record: Record
    deadline: float
    mark: int


class DelayedRow(NamedTuple):
    due: float
    lane: str
    host: str
    priority: int
    record: Record


class SuspectRow(NamedTuple):
    lane: str
    host: str
    priority: int
    record: Record


class DeadRow(NamedTuple):
    group: str
    lane: str
    host: str
    priority: int
    attempts: int
    reason: str
    record: Record


class HostRow(NamedTuple):
    in_flight: int
    next_at: float
    blocked_until: float
    throttles: int
    crawl_delay: float
    paused: str
    parked: list[str]
    policy: dict[str, Any] | None


class Picture:
    """One partition at one moment. Times are server time in milliseconds."""

    def __init__(self, dump: list[Any]) -> None:
        self._raw: dict[str, Any] = {key.decode("utf-8", "surrogateescape"): value for key, value in dump}
        self.meta = self._text_hash("meta")
        self.counts = {field: int(value) for field, value in self._text_hash("counts").items()}
        self.lanes: dict[str, dict[str, Any]] = {
            field: ormsgpack.unpackb(value) for field, value in self._hash("lane_policy").items()
        }
        self.groups: dict[str, dict[str, Any]] = {
            field: ormsgpack.unpackb(value) for field, value in self._hash("group_policy").items()
        }
        self.group_lanes = {group: {_text(one) for one in value} for group, value in self._each("group_lanes")}
        self.held = self._text_hash("group_held")
        self.default_host: dict[str, Any] = ormsgpack.unpackb(self._hash("host_policy")[""])
        self.fronts = {self._place(name): [_record(raw) for raw in value] for name, value in self._each("front")}
        self.queues = {self._place(name): [_record(raw) for raw in value] for name, value in self._each("queue")}
        self.rings = {tuple(name.split(":")): [_text(one) for one in value] for name, value in self._each("ring")}
        self.priorities = {lane: _zset(value) for lane, value in self._each("priorities")}
        self.active = {place: _zset(value) for place, value in self._each("active")}
        self.tiers = {stage: _zset(value) for stage, value in self._each("tiers")}
        self.hosts = {name: _host(value) for name, value in self._hash("hosts").items()}
        self.parked = {
            tuple(name.split(":", 1)): [int(one) for one in _zset(value)] for name, value in self._each("waiting")
        }
        self.wake = _zset(self._raw.get(keys.SUFFIXES["wake"], []))
        self.marks = {int(field): value for field, value in self._text_hash("marks").items()}
        self.deadlines = {int(member): score for member, score in _zset(self._of("deadlines")).items()}
        self.leases = {int(field): self._lease(int(field), value) for field, value in self._hash("leases").items()}
        self.alone = self._text_hash("alone")
        self.delayed = list(self._delayed())
        self.suspects = [self._suspect(raw) for raw in self._of("suspects")]
        self.dead = {int(field): _dead(value) for field, value in self._hash("dead").items()}
        self.dead_order = {group: [int(one) for one in _zset(value)] for group, value in self._each("dead_order")}
        self.items = {
            group: [(_text(row[0]), bytes(row[1][1])) for row in value] for group, value in self._each("items")
        }
        self.counters = {
            group: {field: float(value) for field, value in _pairs(value)} for group, value in self._each("counters")
        }
        self.starts = {field: ormsgpack.unpackb(value) for field, value in self._hash("starts").items()}
        self.rounds = {field: int(value) for field, value in self._text_hash("rounds").items()}
        self.workers = {_text(name) for name in self._hash("workers")}
        self.seen = dict(self._seen())

    def _of(self, name: str) -> Any:
        return self._raw.get(keys.SUFFIXES[name], [])

    def _hash(self, name: str) -> dict[str, Any]:
        return dict(_pairs(self._of(name)))

    def _text_hash(self, name: str) -> dict[str, str]:
        return {field: _text(value) for field, value in _pairs(self._of(name))}

    def _each(self, name: str) -> Iterator[tuple[str, Any]]:
        suffix = keys.SUFFIXES[name]
        for key, value in self._raw.items():
            if key.startswith(suffix):
                yield key[len(suffix) :], value

    def _lane(self, number: str) -> str:
        policy = self.lanes.get(number)
        return str(policy["name"]) if policy else f"gone {number}" if number else ""

    def _place(self, name: str) -> Place:
        lane, priority, host = name.split(":", 2)
        return Place(self._lane(lane), int(priority), host)

    def _lease(self, number: int, raw: bytes) -> LeaseRow:
        lane, host, priority, attempts, strikes, incarnation, nonce, alone, first = _unpack(raw)
        first = _bytes(first)
        record = _record(first)._replace(id=number, attempts=attempts, strikes=strikes) if first else _NOTHING
        nonce = _text(nonce)
        mark = self.marks.get(number, "")
        return LeaseRow(
            self._lane(_text(lane)), _text(host), int(priority), _text(incarnation), nonce, alone == 1, record,
            self.deadlines.get(number, 0), int(mark[0]) if mark[1:] == nonce else 0,
        )  # fmt: skip

    def _delayed(self) -> Iterator[DelayedRow]:
        raw = self._of("delayed")
        for member, score in zip(raw[::2], raw[1::2], strict=True):
            _, (lane, host, priority, record) = _unpack(member)
            yield DelayedRow(float(score), self._lane(_text(lane)), _text(host), int(priority), _record(_bytes(record)))

    def _suspect(self, raw: bytes) -> SuspectRow:
        number, (lane, host, priority, attempts, strikes, *_, first) = _unpack(raw)
        record = _record(_bytes(first))._replace(id=number, attempts=attempts, strikes=strikes)
        return SuspectRow(self._lane(_text(lane)), _text(host), int(priority), record)

    def _seen(self) -> Iterator[tuple[str, set[int]]]:
        """Exact memories by group|policy|round, as sets of fingerprints."""
        for name, number in self._text_hash("seen_names").items():
            if "|exact@" in name:
                prefix = f"{keys.SUFFIXES['seen']}{number}:"
                known = (value for key, value in self._raw.items() if key.startswith(prefix))
                yield name, {int(one) % 2**64 for bucket in known for one in bucket}

    def requests(self) -> Iterator[tuple[str, str, str, int, Record]]:
        """Everything not settled: state, lane, host, priority, record. Permits are no requests."""
        for state, lists in (("front", self.fronts), ("queued", self.queues)):
            for place, records in lists.items():
                for record in records:
                    yield state, place.lane, place.host, place.priority, record
        for row in self.delayed:
            yield "delayed", row.lane, row.host, row.priority, row.record
        for lease in self.leases.values():
            if lease.lane:
                yield "leased", lease.lane, lease.host, lease.priority, lease.record
        for suspect in self.suspects:
            yield "suspect", suspect.lane, suspect.host, suspect.priority, suspect.record


def look(frontier: ValkeyFrontier, partition: int = 0) -> Picture:
    """A picture of one partition, taken in one step."""
    base = keys.base(frontier.crawl, partition)
    return Picture(frontier.connection.execute("EVAL", _DUMP, 1, base, key=base))


def audit(frontier: ValkeyFrontier, *, filtered: bool = False) -> list[Picture]:
    """Pictures of every partition; AssertionError with all problems if one contradicts itself.

    `filtered` says that every request was added filtered, to lanes with an exact memory: then a fingerprint is open at
    most once, and known.
    """
    pictures = [look(frontier, partition) for partition in range(frontier.partitions)]
    found = [
        f"partition {partition}: {problem}"
        for partition, picture in enumerate(pictures)
        for problem in problems(picture, filtered=filtered)
    ]
    if found:
        raise AssertionError("\n".join(found))
    return pictures


def problems(picture: Picture, *, filtered: bool = False) -> list[str]:
    """Everything in a picture that contradicts something else in it."""
    return [
        *_counted(picture), *_placed(picture), *_lanes(picture), *_hosts(picture), *_leased(picture), *_dead_kept(picture),
        *_once(picture, filtered),
    ]  # fmt: skip


def _counted(picture: Picture) -> Iterator[str]:
    real: Counter[str] = Counter()
    for lane in picture.lanes.values():
        real.update({f"{lane['name']}|{what}": 0 for what in "qdl"})
    names = {"front": "q", "queued": "q", "suspect": "q", "delayed": "d", "leased": "l"}
    groups: Counter[str] = Counter()
    of_lane = {lane["name"]: lane["group"] for lane in picture.lanes.values()}
    for state, name, _, _, _ in picture.requests():
        real[f"{name}|{names[state]}"] += 1
        groups[of_lane.get(name, "")] += 1
        if name not in of_lane:
            yield f"a {state} request belongs to {name}, which does not exist"
    ids = {lane["name"]: number for number, lane in picture.lanes.items()}
    for field, value in real.items():
        name, _, what = field.rpartition("|")
        counted = picture.counts.get(f"{ids.get(name)}|{what}", 0)
        if counted != value:
            yield f"{name} counts {counted} as {what!r} and has {value}"
    for group in picture.groups:
        start = picture.starts.get(group)
        value = groups[group] + (start is not None and start[1] in ("owed", "leased"))
        counted = picture.counts.get(f"g|{group}|open", 0)
        if counted != value:
            yield f"group {group} counts {counted} open and has {value}"
    held = Counter(lease.incarnation for lease in picture.leases.values())
    for field, counted in picture.counts.items():
        if counted < 0:
            yield f"count {field} is {counted}"
        if field.startswith("w|") and counted != held[field[2:]]:
            yield f"worker {field[2:]} counts {counted} leases and holds {held[field[2:]]}"
    for incarnation, value in held.items():
        if f"w|{incarnation}" not in picture.counts:
            yield f"worker {incarnation} holds {value} leases and counts none"


def _placed(picture: Picture) -> Iterator[str]:
    """Every place with work stands in its ring once, or is parked once; nothing else does."""
    ids = {lane["name"]: number for number, lane in picture.lanes.items()}
    stands: Counter[tuple[str, int, str]] = Counter()
    for (lane, priority), hosts in picture.rings.items():
        for host in hosts:
            stands[lane, int(priority), host] += 1
        if priority not in picture.priorities.get(lane, {}):
            yield f"ring {lane}:{priority} has hosts but its lane does not know the priority"
    for (number, host), parked in picture.parked.items():
        stands.update((number, one, host) for one in parked)
        if number not in picture.hosts[host].parked:
            yield f"host {host} waits in lane {number} and does not know it"
    for host, row in picture.hosts.items():
        for number in row.parked:
            if (number, host) not in picture.parked:
                yield f"host {host} is noted as waiting in lane {number} and is not"
    work = {(ids.get(p.lane, p.lane), p.priority, p.host) for p in (*picture.queues, *picture.fronts)}
    for place in work:
        if stands[place] != 1:
            yield f"{place} has work and stands {stands[place]} times in rings or parked"
    for place in stands:
        if place not in work:
            yield f"{place} stands in a ring or is parked without work"
    for lane, known in picture.priorities.items():
        for priority, score in known.items():
            if (lane, priority) not in picture.rings:
                yield f"lane {lane} knows priority {priority} whose ring is empty"
            if score != -int(priority):
                yield f"lane {lane} has priority {priority} at {score}"


def _lanes(picture: Picture) -> Iterator[str]:
    for number, lane in picture.lanes.items():
        here = f"{lane['stage']}:{lane['tier']}"
        for place, members in picture.active.items():
            if number in members and place != here:
                yield f"lane {lane['name']} is active in {place}, not in {here}"
        group = picture.groups.get(lane["group"])
        room = lane["max_leased"] == 0 or picture.counts.get(f"{number}|l", 0) < lane["max_leased"]
        open_now = group is not None and not (
            lane["paused"] or group["paused"] or picture.held.get(lane["group"]) or lane.get("closed")
        )
        if open_now and room and picture.priorities.get(number) and number not in picture.active.get(here, {}):
            yield f"lane {lane['name']} has ready work and is not active"
        if number not in picture.group_lanes.get(lane["group"], set()):
            yield f"group {lane['group']} does not know its lane {lane['name']}"
    places = set(picture.active)
    told = {f"{stage}:{tier}" for stage, tiers in picture.tiers.items() for tier in tiers}
    if places != told:
        yield f"lanes are active in {sorted(places)}, the tiers say {sorted(told)}"


def _hosts(picture: Picture) -> Iterator[str]:
    flying = Counter(lease.host for lease in picture.leases.values() if lease.mark != 2)
    for host, number in flying.items():
        if host not in picture.hosts:
            yield f"host {host} has {number} in flight and no record"
    for host, row in picture.hosts.items():
        if row.in_flight != flying[host]:
            yield f"host {host} counts {row.in_flight} in flight and has {flying[host]}"
        if row.paused or not row.parked:
            continue
        in_ring = all(
            any(host in hosts for (number, _), hosts in picture.rings.items() if number == lane) for lane in row.parked
        )
        if row.in_flight == 0 and host not in picture.wake and not in_ring:
            yield f"host {host} is parked and nothing wakes it"
        wait = max(row.next_at, row.blocked_until)
        limit = (row.policy or picture.default_host)["concurrency"]
        full = limit > 0 and row.in_flight >= limit
        if not full and picture.wake.get(host, 0) > wait:
            yield f"host {host} may be asked at {wait} and wakes at {picture.wake[host]}"


def _leased(picture: Picture) -> Iterator[str]:
    if picture.leases.keys() != picture.deadlines.keys():
        yield f"leases {sorted(picture.leases)} have deadlines {sorted(picture.deadlines)}"
    if not picture.marks.keys() <= picture.leases.keys():
        yield f"marks without a lease: {sorted(picture.marks.keys() - picture.leases.keys())}"
    alone = {lease.incarnation: number for number, lease in picture.leases.items() if lease.alone}
    if {name: int(number) for name, number in picture.alone.items()} != alone:
        yield f"alone are {alone}, noted {picture.alone}"
    if int(picture.meta.get("alone", 0)) != len(alone):
        yield f"{len(alone)} leases are alone, counted {picture.meta.get('alone')}"
    if int(picture.meta.get("x", 0)) != len(picture.suspects):
        yield f"{len(picture.suspects)} suspects, counted {picture.meta.get('x')}"
    returned = sum(len(records) for records in picture.fronts.values())
    if int(picture.meta.get("front", returned)) != returned:
        yield f"{returned} requests came back, counted {picture.meta['front']}"
    holders = Counter(lease.incarnation for lease in picture.leases.values() if lease.lane)
    for incarnation in alone:
        if holders[incarnation] != 1:
            yield f"worker {incarnation} tries a request alone and holds {holders[incarnation]}"


def _dead_kept(picture: Picture) -> Iterator[str]:
    listed = sorted(number for numbers in picture.dead_order.values() for number in numbers)
    if listed != sorted(picture.dead):
        yield f"dead letters {sorted(picture.dead)} are listed as {listed}"


def _once(picture: Picture, filtered: bool) -> Iterator[str]:
    rows = list(picture.requests())
    for number, times in Counter(row[4].id for row in rows if row[4].id).items():
        if times > 1:
            yield f"request {number} is in {times} places"
    if not filtered:
        return
    seen = set().union(*picture.seen.values())
    for fingerprint, times in Counter(row[4].fingerprint for row in rows).items():
        if times > 1:
            yield f"fingerprint {fingerprint} is in {times} places"
        if fingerprint not in seen:
            yield f"fingerprint {fingerprint} is stored and not seen"


_NOTHING = Record(0, b"", 0, 0, 0)


def _record(raw: bytes) -> Record:
    if raw[:1] == b"\x01":
        _, high, low, attempts, strikes = AGAIN.unpack_from(raw)
        first = raw[AGAIN.size :]
        number = high * 2**32 + low
    else:
        first, number, attempts, strikes = raw, 0, 0, 0
    _, fingerprint = FIRST.unpack_from(first)
    return Record(fingerprint, first[FIRST.size :], number, attempts, strikes)


def _host(raw: bytes) -> HostRow:
    if raw.isdigit():  # nothing but requests in flight
        return HostRow(int(raw), 0, 0, 0, 0, "", [], None)
    in_flight, next_at, blocked, throttles, _, floor, paused, _, parked, *policy = _unpack(raw)
    lanes = [_text(lane) for lane in parked]
    return HostRow(in_flight, next_at, blocked, throttles, floor, _text(paused), lanes, policy[0] if policy else None)


def _dead(raw: bytes) -> DeadRow:
    group, lane, host, priority, attempts, _, reason, _, _, _, record = _unpack(raw)
    return DeadRow(
        _text(group), _text(lane), _text(host), int(priority), attempts, _text(reason), _record(_bytes(record))
    )


def _pairs(flat: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(flat, dict):
        flat = [one for pair in flat.items() for one in pair]
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        yield _text(field), value


def _zset(flat: Iterable[Any]) -> dict[str, float]:
    values = list(flat)
    return {_text(member): float(score) for member, score in zip(values[::2], values[1::2], strict=True)}


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def _unpack(raw: bytes) -> Any:
    """The values of a stored entry, packed one after the other or as one list; texts as bytes, for they may be anything."""
    values, at = [], 0
    while at < len(raw):
        value, at = _value(raw, at)
        values.append(value)
    return values[0] if len(values) == 1 else values


def _value(raw: bytes, at: int) -> tuple[Any, int]:
    kind = raw[at]
    at += 1
    if kind < 0x80 or kind >= 0xE0:
        return (kind if kind < 0x80 else kind - 0x100), at
    if kind < 0x90:
        return _table(raw, at, kind & 0x0F)
    if kind < 0xA0:
        return _list(raw, at, kind & 0x0F)
    if kind < 0xC0:
        return raw[at : at + (kind & 0x1F)], at + (kind & 0x1F)
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _NUMBERS:
        number = _NUMBERS[kind]
        return number.unpack_from(raw, at)[0], at + number.size
    width = 1 << (kind - _SIZED[kind])
    size = int.from_bytes(raw[at : at + width], "big")
    at += width
    if kind >= 0xDE:
        return _table(raw, at, size)
    if kind >= 0xDC:
        return _list(raw, at, size)
    return raw[at : at + size], at + size


def _list(raw: bytes, at: int, size: int) -> tuple[list[Any], int]:
    values = []
    for _ in range(size):
        value, at = _value(raw, at)
        values.append(value)
    return values, at


def _table(raw: bytes, at: int, size: int) -> tuple[dict[str, Any], int]:
    flat, at = _list(raw, at, 2 * size)
    return {_text(key): value for key, value in zip(flat[::2], flat[1::2], strict=True)}, at


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: Struct(">f"), 0xCB: Struct(">d"), 0xCC: Struct(">B"), 0xCD: Struct(">H"), 0xCE: Struct(">I"),
    0xCF: Struct(">Q"), 0xD0: Struct(">b"), 0xD1: Struct(">h"), 0xD2: Struct(">i"), 0xD3: Struct(">q"),
}  # fmt: skip
# Kinds whose size follows in 1, 2 or 4 bytes, and the kind where their row of widths begins.
_SIZED = {0xC4: 0xC4, 0xC5: 0xC4, 0xC6: 0xC4, 0xD9: 0xD9, 0xDA: 0xD9, 0xDB: 0xD9,
          0xDC: 0xDB, 0xDD: 0xDB, 0xDE: 0xDD, 0xDF: 0xDD}  # fmt: skip
