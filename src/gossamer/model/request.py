"""Requests, leases, and how leases end.

The values on the hot path are named tuples: immutable like frozen dataclasses, at a quarter of the cost to make.
"""

from __future__ import annotations

import enum
import os
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import urlsplit

from gossamer.model.plan.page_record import PageVisit

DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


class Request(NamedTuple):
    """One thing to fetch.

    `fingerprint` is its identity for the seen memory: any whole number from 0 to 2**64-1. `host` is the unit of
    politeness. `lane` is the full name `group.lane` (the last dot divides). A higher `priority` goes first; it is
    clamped to ±2**31. `dont_filter` requests are neither checked against seen nor marked: identical ones are all
    kept. `delay` seconds must pass before it may be leased; 0 means now. `payload` is opaque to the frontier.
    `changed` stands for a text that says when the page changed (`changed_digest`), 0 for none: a page that was seen is
    queued again if its last fetch that ended had another one. Requests with `dont_filter` have none.
    """

    fingerprint: int
    host: str
    lane: str
    payload: bytes = b""
    priority: int = 0
    dont_filter: bool = False
    delay: float = 0.0
    changed: int = 0


class AddKey(str):
    """A key that Gossamer makes for what it adds by itself. Each kind has a beginning of its own (`s`: starts, `t`: tasks, `m`: requests of
    scrapy-redis, `x`: items of no page, `add `, `start `, `replay `, `reconcile:`, hexadecimal digits: children of pages), and none begins
    like those of producers."""

    __slots__ = ()


PRODUCERS = "p"
"""How the keys of producers begin on the server, whatever their text is."""


def stored_key(key: str) -> str:
    """The key as the server keeps it."""
    return key if isinstance(key, AddKey) else PRODUCERS + key


_made: set[str] = set()
_inherited: set[str] = set()


def _forked() -> None:
    """In a forked child: forget the parent's incarnations."""
    _inherited.update(_made)
    _made.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def inherited(incarnation: str) -> bool:
    """Whether it names a worker of a process that this one was forked from, which may still use it."""
    return incarnation in _inherited


class Token(NamedTuple):
    """Names one call of one worker: its incarnation (random per process life) and a number that grows by one."""

    incarnation: str
    sequence: int

    @classmethod
    def fresh(cls) -> Token:
        """The token of a new incarnation's first call."""
        incarnation = secrets.token_hex(8)
        _made.add(incarnation)
        return cls(incarnation, 1)

    def next(self) -> Token:
        """The token of the next call; in a forked child, the first one of an incarnation of its own."""
        if self.incarnation in _inherited:
            return Token.fresh()
        return Token(self.incarnation, self.sequence + 1)


class Lease(NamedTuple):
    """The right to process one request until `deadline` (server time, seconds).

    `(partition, id, incarnation, nonce)` is the fence: a worker that does not hold exactly this cannot settle.
    `attempt` counts leases of this request, this one included. `alone` marks a request that killed its workers
    before: it is leased to a worker that holds nothing else. `send_by` is the server time after which an unsent lease
    must be released instead of sent, so that hosts never see two requests closer than their delay. `paced`: its host has a delay, and
    gets no other request before this one is reported as sent (see `Sent`), released, or past its send window. `visit`: the page has a record, and
    is visited again by the request that led to it before.
    """

    partition: int
    id: int
    incarnation: str
    nonce: str
    lane: str
    host: str
    priority: int
    fingerprint: int
    payload: bytes
    attempt: int
    alone: bool
    deadline: float
    send_by: float
    paced: bool = False
    visit: bool = False


class Sent(NamedTuple):
    """A request of a lease went out `age` seconds ago, by the clock of its worker. The delay of its host counts from then."""

    lease: Lease
    age: float = 0.0


class HostVerdict(enum.Enum):
    """What a response says about its host. Only OK may shorten an adaptive delay. THROTTLED asks for a pause of all requests;
    UNAVAILABLE is a 503 that does not, and becomes one when at least 5 of the host's last 10 answers say so. STILL_UNAVAILABLE is one
    of a page that is tried again: it is not counted among these answers."""

    OK = "ok"
    ERROR = "error"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    STILL_UNAVAILABLE = "still_unavailable"


class Feedback(NamedTuple):
    """How the host answered. `latency` in seconds, None if unknown; `retry_after` in seconds as the host asked for,
    None if it did not say (the block then doubles with each throttled answer in a row)."""

    verdict: HostVerdict = HostVerdict.OK
    latency: float | None = None
    retry_after: float | None = None


class Fetched(NamedTuple):
    """The response has arrived: the host's slot is free, though the page is not settled yet."""

    lease: Lease
    feedback: Feedback | None = None


class Ending(enum.Enum):
    """How a lease ends.

    DONE: processed. REPLACED: a retry or redirect among its children stands for it now. RETRY: back into the same
    lane after a delay. FAILED: a dead letter with its reason, until replayed or dropped.
    """

    DONE = "done"
    REPLACED = "replaced"
    RETRY = "retry"
    FAILED = "failed"


class Settlement(NamedTuple):
    """The end of one lease together with everything its page produced; applied as a whole or not at all.

    `delay` (seconds) and `priority` (None: as before) serve RETRY; `reason` (a word) and `detail` (a traceback)
    serve FAILED. `push` has keys and data for ordinary lists anywhere on the server, appended in this order.
    `withheld` makes the children that were left out because the frontier is known to know them; they are made and added
    where that is not so any more (see `relies` of `Frontier.exchange`).
    `kept` is how many items the page brought that are kept elsewhere (a file, a database, a list): the frontier only counts them.
    `visit` is what the page was like, for its record in a lane that keeps records.
    """

    lease: Lease
    ending: Ending = Ending.DONE
    add: Sequence[Request] = ()
    items: Sequence[bytes] = ()
    feedback: Feedback | None = None
    delay: float = 0.0
    priority: int | None = None
    reason: str = ""
    detail: str = ""
    push: Sequence[tuple[str, bytes]] = ()
    withheld: Callable[[], Sequence[Request]] | None = None
    kept: int = 0
    visit: PageVisit | None = None


class CounterOp(enum.Enum):
    """How a counter's value joins what is stored: sum, last value, largest, smallest."""

    ADD = "add"
    SET = "set"
    MAX = "max"
    MIN = "min"


class CounterChange(NamedTuple):
    """One change of a group's counter."""

    group: str
    name: str
    value: float
    op: CounterOp = CounterOp.ADD


class Selection(NamedTuple):
    """Which lanes a worker serves: whole `groups`, single `lanes` (full names), or every lane of a `stage`.

    Groups and lanes add up. With neither, the stage decides: "" is the pool of lanes that name no stage. With
    groups or lanes given, a stage narrows them; None takes all of them.
    """

    groups: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    stage: str | None = None


class Task(NamedTuple):
    """What an outside producer pushed to `key`, leased until it is settled. `data` is as it was pushed. `poison`: it was tried
    alone, and its worker died once more; it is to be buried, not tried again."""

    key: str
    id: int
    nonce: str
    data: bytes
    attempt: int
    taken: str = ""
    poison: bool = False

    @property
    def identity(self) -> str:
        """What its requests are keyed by: the same for whoever holds it, and never that of another task."""
        # With what it was taken up with: after a failover that lost writes, a number may come again for another task.
        return f"{self.id}.{self.taken}" if self.taken else str(self.id)


def fingerprint(url: str, method: str = "GET", body: bytes = b"") -> int:
    """A 64-bit fingerprint of exactly this URL, method and body, for callers without a fingerprinter of their own."""
    text = f"{method}\0{url}\0"
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data + body, digest_size=8).digest(), "big")


def changed_digest(text: str, passage: int = 0) -> int:
    """What stands for a text that says when a page changed: a whole number from 1 to 2**64-1. Its last byte is 0, or stands for
    the pass (1 and on) over a page and its page turns: the same text in another pass is another one, and 0 is equal to each."""
    digest = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big") or 1
    return digest << 8 | (passage and passage % 255 + 1)


def host_of(url: str) -> str:
    """The unit of politeness of a URL: its host name in lower case, with the port unless it is the scheme's own."""
    # Up to the first slash after the host; a query or fragment that comes earlier only costs a place in the cache.
    end = url.find("/", url.find("//") + 2)
    return _host_of_origin(url if end < 0 else url[:end])


@lru_cache(maxsize=50_000)
def _host_of_origin(url: str) -> str:
    parts = urlsplit(url)
    name = parts.hostname or ""
    if ":" in name:
        name = f"[{name}]"
    port = parts.port
    if port is None or port == DEFAULT_PORTS.get(parts.scheme):
        return name
    return f"{name}:{port}"
