"""What a crawl holds, a page at a time: the rows that a snapshot reads."""

from __future__ import annotations

from typing import Any, NamedTuple


class ScannedRequest(NamedTuple):
    """One stored request as a snapshot sees it. `due` is server time in seconds, 0 for now; `number` is its id, 0 if it was
    never leased; `filtered` False: it was added without a look at the seen memory; `changed`
    stands for the text that its list said, 0 for none."""

    partition: int
    lane: str
    host: str
    priority: int
    due: float
    fingerprint: int
    payload: bytes
    number: int = 0
    attempts: int = 0
    strikes: int = 0
    filtered: bool = True
    changed: int = 0


class ScannedDeadLetter(NamedTuple):
    """One dead letter as a snapshot sees it."""

    partition: int
    number: int
    group: str
    lane: str
    host: str
    priority: int
    attempts: int
    strikes: int
    reason: str
    detail: str
    at: float
    record: bytes


class ScanPage(NamedTuple):
    """A page of a scan; `cursor` is "" at the end. Rows are `ScannedRequest`, `ScannedDeadLetter` or, for hosts and page_texts, raw tables and bytes. `journal` is
    how many entries the journal has."""

    cursor: str
    rows: list[Any]
    now: float
    journal: int = 0


class SeenPage(NamedTuple):
    """A page of a memory: `what` it is about (policy, fps, forgotten, bits, none), its details and, for bits, the bytes."""

    cursor: str
    what: str
    details: list[Any]
    data: bytes
