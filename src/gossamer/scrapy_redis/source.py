"""The keys of a scrapy-redis project as they lie on its server, looked at without changing anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gossamer.errors import GossamerError, InvalidRequest, PolicyError
from gossamer.scrapy_redis.connection import Client
from gossamer.scrapy_redis.stored import Reader

BATCH = 500
SIZES = {"list": "llen", "zset": "zcard", "set": "scard"}


@dataclass(frozen=True)
class Keys:
    """Where the project's data lie."""

    queue: str
    dupefilter: str
    seeds: tuple[str, ...] = ()


@dataclass
class Report:
    """What was found, by key, and what became of it, by word: requests, unreadable, refused, seen, foreign, seeds."""

    sizes: dict[str, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)


class Source:
    """One project on `server`, a client whose answers are bytes."""

    def __init__(self, server: Client, keys: Keys, reader: Reader) -> None:
        self.server, self.keys, self.reader = server, keys, reader

    def look(self) -> Report:
        """How much there is, what was set aside by an earlier attempt included."""
        keys = self.keys
        report = Report({key: self.size(key) + self.size(aside(key)) for key in (keys.queue, *keys.seeds)})
        report.sizes[keys.dupefilter] = self.size(keys.dupefilter)
        return report

    def rehearse(self) -> Report:
        """`look`, and read every queued request to see whether it could be moved."""
        report = self.look()
        for data in self.queued():
            try:
                self.reader.fields(data)
            except GossamerError:
                report.done["unreadable"] += 1
            else:
                report.done["requests"] += 1
        report.done["seen"] = report.sizes[self.keys.dupefilter]
        return report

    def check_pickles(self) -> None:
        """Refuse to begin if a flag is missing that the requests need."""
        for data in self.queued(most=1):
            if not self.reader.admits(data):
                raise InvalidRequest(
                    f"{self.keys.queue} holds pickles. They are read only with --allow-pickle, and then no more than plain data "
                    "is made of them. Nothing was moved."
                )

    def queued(self, most: int = 2**53) -> Iterator[bytes]:
        """What is queued, up to so many of what was set aside and of the rest."""
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


def aside(key: str) -> str:
    """What a key is called while it is moved, in the same slot of a cluster."""
    return f"{key}:moving" if "{" in key else f"{{{key}}}:moving"
