"""The keys of a scrapy-redis project as they lie on its server, looked at without changing anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from gossamer.errors import GossamerError, InvalidRequest, PolicyError
from gossamer.scrapy_redis.connection import Client
from gossamer.scrapy_redis.dupefilter import digest_of, old_digest_of
from gossamer.scrapy_redis.transfer.project import ProjectWorkers
from gossamer.scrapy_redis.transfer.requests import StoredRequestReader, payload_of

BATCH = 500
SAMPLE = 1000
"""How many queued requests are asked for what the dupefilter holds."""
SIZES = {"list": "llen", "zset": "zcard", "set": "scard"}


class DigestKind(StrEnum):
    """What the members of a dupefilter are."""

    AUTO = "auto"
    """Found from the queued requests."""
    NEW = "new"
    """Of scrapy-redis newer than 0.7.3."""
    OLD = "old"
    """Of scrapy-redis 0.7.3 and older, which had them from Scrapy."""
    OWN = "own"
    """Of a `request_fingerprint` of the project."""
    NONE = "none"
    """Left where they are; only what is queued counts as seen."""


@dataclass(frozen=True)
class ProjectKeys:
    """Where the project's data lie."""

    queue: str
    dupefilter: str
    seeds: tuple[str, ...] = ()


@dataclass
class TransferReport:
    """What was found, by key, and what became of it, by word: requests, unreadable, refused, seen, foreign, seeds; of requests, unmade
    are those that workers would refuse, with their reasons."""

    sizes: dict[str, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def left(self) -> int:
        """How much was found and not moved, or in vain."""
        return self.done["unreadable"] + self.done["refused"] + self.done["foreign"] + self.done["unmade"]


class ProjectSource:
    """One project on `server`, a client whose answers are bytes."""

    def __init__(self, server: Client, keys: ProjectKeys, reader: StoredRequestReader) -> None:
        self.server, self.keys, self.reader = server, keys, reader

    @property
    def digests_key(self) -> str:
        """Where a move that was begun keeps what it found the digests to be."""
        return f"{aside(self.keys.queue)}:digests"

    def look(self) -> TransferReport:
        """How much there is, what was set aside by an earlier attempt included."""
        keys = self.keys
        report = TransferReport({key: self.size(key) + self.size(aside(key)) for key in (keys.queue, *keys.seeds)})
        report.sizes[keys.dupefilter] = self.size(keys.dupefilter)
        return report

    def check(self, digests: DigestKind) -> DigestKind:
        """What the digests are, before anything is moved; PolicyError or InvalidRequest says why nothing can be."""
        if self.kind(self.keys.queue) == "set":
            raise PolicyError(
                f"key {self.keys.queue!r} is a set, which no queue of scrapy-redis is. Name another with --queue-key."
            )
        kind = self.kind(self.keys.dupefilter)
        if kind not in ("set", "none"):
            raise PolicyError(
                f"key {self.keys.dupefilter!r} is a {kind}, not a set. Name another with --dupefilter-key."
            )
        self.check_pickles()
        return self.digests() if digests is DigestKind.AUTO else digests

    def rehearse(self, digests: DigestKind, workers: ProjectWorkers | None = None) -> TransferReport:
        """`look`, and read everything to see whether it could be moved, and what `workers` would refuse then."""
        report = self.look()
        for data in self.queued():
            try:
                fields = self.reader.fields(data)
                payload_of(fields)
            except GossamerError:
                report.done["unreadable"] += 1
                continue
            report.done["requests"] += 1
            if workers is not None and (reason := workers.refusal(fields)):
                report.done["unmade"] += 1
                report.refusals[reason] += 1
        if digests is not DigestKind.NONE and self.kind(self.keys.dupefilter) == "set":
            for member in self.server.sscan_iter(self.keys.dupefilter, count=BATCH):
                report.done["seen" if digests is DigestKind.OWN or is_digest(member) else "foreign"] += 1
        return report

    def digests(self) -> DigestKind:
        """Which digests the dupefilter holds. What is queued went through it, unless it said `dont_filter`, so it holds
        theirs. InvalidRequest says why they are unknown or cannot be used, and what to do."""
        key = self.keys.dupefilter
        if self.kind(key) != "set":
            return DigestKind.NEW
        if told_before := self.server.get(self.digests_key):
            return DigestKind(told_before.decode())
        asked, members = 0, []
        for data in islice(self.queued(SAMPLE), SAMPLE):
            try:
                fields = self.reader.fields(data)
            except GossamerError:
                continue
            if not fields.get("dont_filter"):
                asked += 1
                said = fields.get("method", "GET"), fields["url"], fields.get("body") or b""
                members += [digest_of(*said).hex(), old_digest_of(*said).hex()]
        with self.server.pipeline(transaction=False) as pipe:
            for member in members:
                pipe.sismember(key, member)
            answers = pipe.execute()
        new, old = sum(map(bool, answers[::2])), sum(map(bool, answers[1::2]))
        if new and not old:
            return DigestKind.NEW
        told = f"Of {asked:,} queued requests, {key} holds {new:,} by the fingerprints of today's scrapy-redis and {old:,} by those of"
        raise InvalidRequest(
            f"{told} 0.7.3 and older. {_ways(asked, new, old)} Nothing was moved."
            if asked
            else f"Nothing that is queued tells which fingerprints {key} holds. {_ways(asked, new, old)} Nothing was moved."
        )

    def check_pickles(self) -> None:
        """Refuse to begin if a flag is missing that the requests need."""
        for data in self.queued(most=1):
            if not self.reader.admits(data):
                raise InvalidRequest(
                    f"{self.keys.queue} holds pickles. They are read only with --allow-pickle, and then nothing that they name "
                    "is run. Nothing was moved."
                )

    def queued(self, most: int = 2**53) -> Iterator[bytes]:
        """What is queued: up to `most` of what was set aside, and of the rest."""
        for key in (aside(self.keys.queue), self.keys.queue):
            kind, size = self.kind(key), min(most, self.size(key))
            if kind in ("list", "zset"):
                read = self.server.lrange if kind == "list" else self.server.zrange
                for first in range(0, size, BATCH):
                    yield from read(key, first, first + min(most, BATCH) - 1)

    def size(self, key: str) -> int:
        kind = self.kind(key)
        return int(getattr(self.server, SIZES[kind])(key)) if kind != "none" else 0

    def kind(self, key: str) -> str:
        kind = self.server.type(key)
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        if kind not in (*SIZES, "none"):
            raise PolicyError(f"key {key!r} is a {kind}, not a list, set or sorted set. Name another key.")
        return kind


def _ways(asked: int, new: int, old: int) -> str:
    """What can be done where the digests are not simply new."""
    ways = []
    if new or not asked:
        ways.append("--fingerprints new if scrapy-redis was newer than 0.7.3 all the time")
    if old or not asked:
        ways.append(
            "--fingerprints old, and DUPEFILTER_CLASS = 'gossamer.scrapy_redis.dupefilter.OldRFPDupeFilter' in the project, since a "
            "digest cannot be turned into a newer one"
        )
    if not new and not old:
        ways.append("--fingerprints own if the project's dupefilter has a request_fingerprint of its own, and keeps it")
    ways.append(
        "--fingerprints none to leave them: then pages that are not queued are fetched again when they are found"
    )
    return f"Give {'; or '.join(ways)}."


def spiders(server: Client, templates: Sequence[str]) -> list[str]:
    """The names of the spiders that have keys of these templates on a server."""
    found: set[str] = set()
    for template in templates:
        before, name, after = template.replace("%(name)s", "%(spider)s").partition("%(spider)s")
        if not name:
            continue
        for key in server.scan_iter(match=f"{_escaped(before)}*{_escaped(after)}", count=1000):
            text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            found.add(text.removeprefix(before).removesuffix(after))
    return sorted(found)


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def is_digest(data: bytes) -> bool:
    return len(data) == 40 and all(letter in b"0123456789abcdef" for letter in data)


def aside(key: str) -> str:
    """What a key is called while it is moved, in the same slot of a cluster."""
    return f"{key}:moving" if "{" in key else f"{{{key}}}:moving"
