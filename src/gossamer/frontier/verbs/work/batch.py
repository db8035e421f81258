"""Requests on their way to the server: checked, grouped by place, and their outcomes put back in order. No I/O."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any

from gossamer.errors import InvalidRequest
from gossamer.model import AddOutcome, Request

PRIORITY_MAX = 2**31
HOST_MAX = 255
DELAY_MAX = 10 * 365 * 86400.0
RECORD = Struct(">BQ")
"""Head of a record that was never leased: kind 0 (2: unfiltered, 4: another visit) and the fingerprint; the payload follows."""
VISIT = 4
CHANGED_RECORD = Struct(">BQQ")
"""Head of a record with a text: its kind, the fingerprint and the text's digest; the payload follows."""
CHANGED = 6

OUTCOMES = {outcome.value: outcome for outcome in AddOutcome}
ADDED = AddOutcome.ADDED
TAKEN = AddOutcome.ADDED.value + AddOutcome.DUPLICATE.value
REFUSED = AddOutcome.UNKNOWN_LANE.value + AddOutcome.CLOSED.value
"""There was no lane."""
NOW_ADDED = str.maketrans(dict.fromkeys(REFUSED, AddOutcome.ADDED.value))

Slot = tuple[list[AddOutcome], int]


Place = tuple[str, str, int, int]
"""Where a request goes: lane, host, priority, delay in milliseconds."""


class RequestChecker:
    """Checks requests field by field; remembers hosts and lanes that passed, which are few and come again."""

    def __init__(self, payload_max: int) -> None:
        self.payload_max = payload_max
        self._hosts: set[str] = set()
        self._lanes: set[str] = set()

    def prepare(self, request: Request) -> tuple[Place, bytes]:
        """The request's place and record, or InvalidRequest naming the field."""
        fingerprint, host, lane, payload, priority, dont_filter, delay, changed = request
        try:
            record = pack_record(fingerprint, changed, dont_filter=dont_filter) + payload
            known = host in self._hosts and lane in self._lanes
        except (StructError, TypeError):
            self.fingerprint(fingerprint)
            self.changed(changed)
            self.payload(payload)
            known = False
            record = b""
        if len(record) > self.payload_max or type(payload) is not bytes:
            self.payload(payload)
        if not known:
            self._hosts.add(self.host(host))
            self._lanes.add(self.lane(lane))
        if type(priority) is not int or not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
            priority = self.priority(priority)
        return (lane, host, priority, self.delay(delay) if delay else 0), record

    def payload(self, payload: bytes) -> None:
        if type(payload) is not bytes:
            raise InvalidRequest(f"payload is {type(payload).__name__}, not bytes; encode it with the codec.")
        if len(payload) > self.payload_max:
            raise InvalidRequest(
                f"payload has {len(payload)} bytes; GOSSAMER_PAYLOAD_MAX_BYTES allows {self.payload_max}. "
                "Send less, or raise it."
            )

    def fingerprint(self, value: int) -> int:
        if type(value) is not int or not 0 <= value < 2**64:
            raise InvalidRequest(f"fingerprint {value!r} is not a whole number from 0 to 2**64-1.")
        return value

    def changed(self, value: int) -> None:
        if type(value) is not int or not 0 <= value < 2**64:
            raise InvalidRequest(
                f"changed {value!r} is not a whole number from 0 to 2**64-1; make one of a text with changed_digest."
            )

    def priority(self, value: int) -> int:
        if type(value) is not int:
            raise InvalidRequest(f"priority {value!r} is not a whole number.")
        return max(-PRIORITY_MAX, min(PRIORITY_MAX, value))

    def delay(self, value: float) -> int:
        """Whole milliseconds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= DELAY_MAX:
            raise InvalidRequest(f"delay {value!r} is not a number of seconds from 0 to ten years.")
        return math.ceil(value * 1000)

    def host(self, host: str) -> str:
        if len(self._hosts) > 100_000:
            self._hosts.clear()
        if not isinstance(host, str) or not 0 < len(host) <= HOST_MAX:
            raise InvalidRequest(f"host {host!r} must be text of 1 to {HOST_MAX} characters.")
        if not host.isprintable() or " " in host:
            raise InvalidRequest(f"host {host!r} holds blanks, control characters or bytes that are no text.")
        return host

    def lane(self, lane: str) -> str:
        if (
            not isinstance(lane, str)
            or not 0 < lane.rfind(".") < len(lane) - 1
            or not lane.isprintable()
            or len(lane) > 201
        ):
            raise InvalidRequest(f"lane {lane!r} is not of the form group.lane.")
        return lane


class Batch:
    """Requests for one partition, grouped by lane, host, priority and delay; order inside a group is kept."""

    __slots__ = ("_groups", "count", "size")

    def __init__(self) -> None:
        self._groups: dict[Place, tuple[list[str], list[bytes], list[Slot], list[int]]] = {}
        self.count = 0
        self.size = 0

    def put(self, place: Place, entry: str, record: bytes, slot: Slot, page: int = 0) -> None:
        """`page` is the settlement whose child the request is; 0: of none."""
        group = self._groups.get(place)
        if group is None:
            self._groups[place] = group = ([], [], [], [])
        entries, records, slots, pages = group
        entries.append(entry)
        records.append(record)
        slots.append(slot)
        if page:
            if pages and pages[-2] == page:
                pages[-1] += 1
            else:
                pages += page, 1
        self.count += 1
        self.size += len(record)

    @property
    def header(self) -> list[list[Any]]:
        return [
            [*place, entries, list(map(len, records)), *([pages] if pages else ())]
            for place, (entries, records, _, pages) in self._groups.items()
        ]

    @property
    def records(self) -> bytes:
        """All records in the header's order, one after the other."""
        return b"".join([record for _, records, _, _ in self._groups.values() for record in records])

    @classmethod
    def of(cls, header: Sequence[Sequence[Any]], records: bytes) -> Batch:
        """The batch that has this header and these records; its outcomes are not read."""
        batch, at = cls(), 0
        for lane, host, priority, delay, entries, lengths, *_ in header:
            outcomes = [ADDED] * len(entries)
            for index, (entry, length) in enumerate(zip(entries, lengths, strict=True)):
                batch.put((lane, host, priority, delay), entry, records[at : at + length], (outcomes, index))
                at += length
        return batch

    def refuse(self) -> None:
        """Their pages were given away."""
        for _, _, slots, _ in self._groups.values():
            for target, index in slots:
                target[index] = AddOutcome.LOST

    @property
    def lanes(self) -> set[str]:
        return {place[0] for place in self._groups}

    def unknown(self, outcomes: Sequence[bytes | str]) -> set[str]:
        """The lanes that did not exist."""
        letter = AddOutcome.UNKNOWN_LANE.value
        pairs = zip(self._groups, outcomes, strict=True)
        return {place[0] for place, told in pairs if letter in (told if isinstance(told, str) else told.decode())}

    def resolved(self, outcomes: Sequence[bytes | str], there: Collection[str]) -> list[str]:
        """The outcomes after what was refused has been added to the lanes that are `there` now."""
        told = [letters if isinstance(letters, str) else letters.decode() for letters in outcomes]
        pairs = zip(self._groups, told, strict=True)
        return [letters.translate(NOW_ADDED) if place[0] in there else letters for place, letters in pairs]

    def accepted(
        self, outcomes: Sequence[bytes | str], lanes: Collection[str], there: Collection[str] = (), taken: str = TAKEN
    ) -> tuple[list[list[Any]], bytes, list[tuple[Slot, ...]]]:
        """Header and records of what was added to these lanes or known before, without requests that nothing would recognise
        again. Of lanes that are `there` now, also what was refused because the lane was missing or was being dropped. The last
        value has, by the groups of the header, the slots of what was refused."""
        header, kept, refused = [], [], []
        for (place, (entries, records, slots, _)), letters in zip(self._groups.items(), outcomes, strict=True):
            text = letters if isinstance(letters, str) else letters.decode()
            wanted = REFUSED + taken if place[0] in there else taken if place[0] in lanes else ""
            some = [n for n, letter in enumerate(text) if letter in wanted and entries[n]]
            if some:
                header.append([*place, [entries[n] for n in some], [len(records[n]) for n in some]])
                kept += [records[n] for n in some]
                refused.append(tuple(slots[n] for n in some if text[n] in REFUSED))
        return header, b"".join(kept), refused

    def settle(self, outcomes: Sequence[bytes | str]) -> None:
        """Write each outcome to the slot its request came from."""
        for (_, _, slots, _), letters in zip(self._groups.values(), outcomes, strict=True):
            text = letters if isinstance(letters, str) else letters.decode()
            for (target, index), letter in zip(slots, text, strict=True):
                if letter != "a":
                    target[index] = OUTCOMES[letter]


class Batches:
    """Batches per partition, none larger than one call may carry."""

    def __init__(self, count_max: int, size_max: int) -> None:
        self._count_max, self._size_max = count_max, size_max
        self._full: dict[int, list[Batch]] = {}
        self._open: dict[int, Batch] = {}

    def put(self, partition: int, place: Place, entry: str, record: bytes, slot: Slot, page: int = 0) -> None:
        batch = self._open.get(partition)
        if batch is None:
            self._open[partition] = batch = Batch()
            self._full.setdefault(partition, []).append(batch)
        batch.put(place, entry, record, slot, page)
        if batch.count >= self._count_max or batch.size >= self._size_max:
            del self._open[partition]

    def __iter__(self) -> Iterator[tuple[int, int, Batch]]:
        """Partition, number of the batch in it, and the batch."""
        for partition, batches in self._full.items():
            for number, batch in enumerate(batches):
                yield partition, number, batch


def request_entry(request: Request) -> str:
    """The entry of a request that is filtered."""
    entry = entry_of(request.fingerprint)
    return f"c{entry}" if request.changed else entry


def is_record(record: bytes) -> bool:
    """Whether it is a record that was never leased."""
    head = {0: RECORD.size, 2: RECORD.size, VISIT: RECORD.size, CHANGED: CHANGED_RECORD.size}
    return len(record) > 0 and len(record) >= head.get(record[0], len(record) + 1)


def pack_record(fingerprint: int, changed: int = 0, *, dont_filter: bool = False) -> bytes:
    """The head of the record of a request; its payload follows."""
    if changed and not dont_filter:
        return CHANGED_RECORD.pack(CHANGED, fingerprint, changed)
    return RECORD.pack(2 if dont_filter else 0, fingerprint)


def unpack_record(record: bytes) -> tuple[int, int, int, bytes]:
    """Kind, fingerprint, digest of the text (0: none) and payload of a record that was never leased."""
    if record[0] == CHANGED:
        return (*CHANGED_RECORD.unpack_from(record), record[CHANGED_RECORD.size :])
    return (*RECORD.unpack_from(record), 0, record[RECORD.size :])


def entry_of(fingerprint: int) -> str:
    """The signed decimal text under which a fingerprint is remembered."""
    return str(fingerprint if fingerprint < 2**63 else fingerprint - 2**64)
