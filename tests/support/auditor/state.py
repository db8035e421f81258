"""Reading the whole state of a partition at one moment, in one atomic step.

It reads the store itself, past the contract, so it belongs to the schema of this version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

import ormsgpack

from gossamer.frontier.server import keys
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


class StoredRequest(NamedTuple):
    """A stored request: what it was added as, and what has become of it. `id` 0: not known by an id now."""

    fingerprint: int
    payload: bytes
    id: int
    attempts: int
    strikes: int


class QueuePlace(NamedTuple):
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
    record: StoredRequest
    deadline: float
    mark: int
    counted: str = ""


class DelayedRow(NamedTuple):
    due: float
    lane: str
    host: str
    priority: int
    record: StoredRequest


class SuspectRow(NamedTuple):
    lane: str
    host: str
    priority: int
    record: StoredRequest


class DeadRow(NamedTuple):
    group: str
    lane: str
    host: str
    priority: int
    attempts: int
    reason: str
    record: StoredRequest


class HostRow(NamedTuple):
    in_flight: int
    last: float
    blocked_until: float
    throttles: int
    crawl_delay: float
    paused: str
    parked: int
    policy: dict[str, Any] | None
    gap: float = 0
    till: float = 0


class PartitionPicture:
    """One partition at one moment. Times are server time in milliseconds."""

    def __init__(self, dump: list[Any]) -> None:
        self.raw: dict[str, Any] = {key.decode("utf-8", "surrogateescape"): value for key, value in dump}
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
        self.turns = {stage: _zset(value) for stage, value in self._each("turns")}
        self.lines = {host: _zset(value) for host, value in self._each("parked")}
        self.own = self._text_hash("own")
        self.wake = _zset(self.raw.get(keys.SUFFIXES["wake"], []))
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
        return self.raw.get(keys.SUFFIXES[name], [])

    def _hash(self, name: str) -> dict[str, Any]:
        return dict(_pairs(self._of(name)))

    def _text_hash(self, name: str) -> dict[str, str]:
        return {field: _text(value) for field, value in _pairs(self._of(name))}

    def _each(self, name: str) -> Iterator[tuple[str, Any]]:
        suffix = keys.SUFFIXES[name]
        for key, value in self.raw.items():
            if key.startswith(suffix):
                yield key[len(suffix) :], value

    def _lane(self, number: str) -> str:
        policy = self.lanes.get(number)
        return str(policy["name"]) if policy else f"gone {number}" if number else ""

    def _place(self, name: str) -> QueuePlace:
        lane, priority, host = name.split(":", 2)
        return QueuePlace(self._lane(lane), int(priority), host)

    def _lease(self, number: int, raw: bytes) -> LeaseRow:
        lane, host, priority, attempts, strikes, incarnation, nonce, alone, first, *more = _unpack(raw)
        first = _bytes(first)
        record = _record(first)._replace(id=number, attempts=attempts, strikes=strikes) if first else _NOTHING
        nonce = _text(nonce)
        mark = self.marks.get(number, "")
        return LeaseRow(
            self._lane(_text(lane)), _text(host), int(priority), _text(incarnation), nonce, alone == 1, record,
            self.deadlines.get(number, 0), int(mark[0]) if mark[1:] == nonce else 0, _text(more[1]) if len(more) > 1 else "",
        )  # fmt: skip

    def _delayed(self) -> Iterator[DelayedRow]:
        raw = self._of("delayed")
        for member, score in zip(raw[::2], raw[1::2], strict=True):
            _, (lane, host, priority, record) = _unpack(member)
            yield DelayedRow(float(score), self._lane(_text(lane)), _text(host), int(priority), _record(_bytes(record)))

    def _suspect(self, raw: bytes) -> SuspectRow:
        number, (lane, host, priority, attempts, strikes, _, _, _, first, *_) = _unpack(raw)
        record = _record(_bytes(first))._replace(id=number, attempts=attempts, strikes=strikes)
        return SuspectRow(self._lane(_text(lane)), _text(host), int(priority), record)

    def _seen(self) -> Iterator[tuple[str, set[int]]]:
        """Exact memories by group|policy|round, as sets of fingerprints."""
        for name, number in self._text_hash("seen_names").items():
            if "|exact@" in name:
                prefix = f"{keys.SUFFIXES['seen']}{number}:"
                known = (value for key, value in self.raw.items() if key.startswith(prefix))
                yield name, {int(one) % 2**64 for bucket in known for one in bucket}

    def requests(self) -> Iterator[tuple[str, str, str, int, StoredRequest]]:
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


def look(frontier: ValkeyFrontier, partition: int = 0) -> PartitionPicture:
    """A picture of one partition, taken in one step."""
    base = keys.base(frontier.crawl, partition)
    return PartitionPicture(frontier.connection.execute("EVAL", _DUMP, 1, base, key=base))


_NOTHING = StoredRequest(0, b"", 0, 0, 0)


def _record(raw: bytes) -> StoredRequest:
    if raw[:1] == b"\x01":
        _, high, low, counts, strikes = AGAIN.unpack_from(raw)
        attempts = counts & 0xFFFFFF  # above them stand silent losses
        first = raw[AGAIN.size :]
        number = high * 2**32 + low
    else:
        first, number, attempts, strikes = raw, 0, 0, 0
    _, fingerprint = FIRST.unpack_from(first)
    return StoredRequest(fingerprint, first[FIRST.size :], number, attempts, strikes)


def _host(raw: bytes) -> HostRow:
    if raw.isdigit():  # nothing but requests in flight
        return HostRow(int(raw), 0, 0, 0, 0, "", 0, None)
    in_flight, last, blocked, throttles, _, floor, paused, _, parked, policy, gap, _, till, *_ = _unpack(raw)
    return HostRow(in_flight, last, blocked, throttles, floor, _text(paused), parked, policy or None, gap, till)


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
