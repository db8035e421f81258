"""Partitions go back to earlier states, and whoever imports dies, at any moment of an import from a file or from scrapy-redis.

Whatever happens, and however often it is begun again: once an import says that it is done, everything is there, once, and nothing is left behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.frontier.contract.conftest import made
from tests.frontier.contract.conftest import settings as chosen
from tests.frontier.contract.machine.ground import FACTOR
from tests.support.scrapy_redis.sides import client

from gossamer.errors import SnapshotError, UnknownCrawl
from gossamer.frontier import codec
from gossamer.frontier.snapshot import restore
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import HostPolicy, LanePolicy, SeenPolicy, SeenScope, Selection, Settlement, Token
from gossamer.scrapy.seen.memory import number_of_custom
from gossamer.scrapy_redis.dupefilter import digest_of
from gossamer.scrapy_redis.transfer import transfer
from gossamer.scrapy_redis.transfer.keys import DigestKind, ProjectKeys, ProjectSource, aside
from gossamer.scrapy_redis.transfer.requests import StoredRequestReader
from gossamer.testing.contract.crawl import Crawl
from gossamer.testing.contract.earlier_state import Picture, another_process, go_back, picture
from gossamer.testing.servers import Server

PARTITIONS, TROUBLED = 3, 4
"""The first so many attempts meet trouble."""
LANES = {
    "a": LanePolicy(),
    "r": LanePolicy(seen=SeenPolicy(scope=SeenScope.ROUND)),
    "n": LanePolicy(seen=SeenPolicy(scope=SeenScope.NEVER)),
}
KEYS = ProjectKeys("shop:requests", "shop:dupefilter")


class Died(Exception):
    """Whoever imports was killed."""


class Trouble:
    """What happens between two steps of an import."""

    def __init__(self, crawl: Crawl, random: Random) -> None:
        self._crawl, self._random, self.over = crawl, random, False
        self._saved: dict[int, Picture] = {}

    def __call__(self, _: object) -> None:
        chance = 1.0 if self.over else self._random.random()
        if chance < 0.1:
            raise Died
        if chance < 0.25:
            partition = self._random.randrange(PARTITIONS)
            self._saved[partition] = picture(self._crawl, partition)
        elif chance < 0.4 and self._saved:
            partition = self._random.choice(sorted(self._saved))
            go_back(self._crawl, self._saved.pop(partition), partition)
            another_process(self._crawl, partition)


def repeated(trouble: Trouble, attempt: Callable[[], object]) -> None:
    """Begin it again until it says that it is done."""
    for tries in range(2 * TROUBLED):
        trouble.over = tries >= TROUBLED
        try:
            attempt()
        except (Died, SnapshotError, UnknownCrawl):
            continue
        return
    raise AssertionError("it does not come to an end")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("valkey") as running:
        yield running


def opened(server: Server, name: str) -> ValkeyFrontier:
    return ValkeyFrontier.open(chosen(server.url, name, GOSSAMER_PARTITIONS=PARTITIONS))


def exported(frontier: ValkeyFrontier) -> bytes:
    out = StringIO()
    Export(frontier, out, items=True).run()
    return out.getvalue().encode()


def content(text: bytes) -> Counter[str]:
    """What a file holds, whatever the order of its lines; of its numbers their sums."""
    found: Counter[str] = Counter()
    for row in map(json.loads, text.splitlines()):
        match row.get("type"):
            case "request" | "dead" | "item" | "document":
                left = {name: value for name, value in row.items() if name not in ("state", "at", "due", "who")}
                found[json.dumps(left, sort_keys=True)] += 1
            case "seen":
                found.update(f"seen {row['memory']} {one}" for one in row["fingerprints"])
            case "counts":
                found.update({f"{row.get('lane') or row.get('group')} {name}": n for name, n in row["counts"].items()})
    return found


def filled(crawl: Crawl, random: Random) -> None:
    crawl.frontier.define("g", LANES)
    for lane, policy in LANES.items():
        never = policy.seen.scope is SeenScope.NEVER
        for host in crawl.spread(random.randint(1, 3 * PARTITIONS)):
            crawl.frontier.add([crawl.request(f"{lane} {host}", host, f"g.{lane}", dont_filter=never)])
    worker = crawl.worker("g")
    leases = worker.lease(random.randint(1, 4))
    worker.exchange(settle=[Settlement(lease, items=[lease.payload]) for lease in leases[1:]])
    crawl.frontier.bury("g", b"dead", reason="x", key="k")
    for text in ("one", "two"):
        crawl.frontier.put_document("notes", "n", text)


CHOSEN: Any = {
    "max_examples": 6 * FACTOR,
    "derandomize": FACTOR == 1,
    "database": None,
    "deadline": None,
    "phases": (Phase.generate,),
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.timeout(300 * FACTOR)
@settings(**CHOSEN)
@given(seed=st.integers(0, 2**32))
def test_a_file_is_imported_whole_and_once(server: Server, seed: int) -> None:
    server.call("FLUSHALL")
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch, opened(server, "one") as one, opened(server, "two") as two:
        patch.setattr(restore, "BATCH_ENTRIES", random.choice([1, 3, 7]))
        filled(made(one), random)
        text = exported(one)
        trouble = Trouble(made(two), random)

        def restored_some(step: Restore) -> None:
            if not step.complete:  # The last line has asked whether all before it is there.
                trouble(step)

        def attempt() -> None:
            with opened(server, "two") as frontier:
                lines = iter(text.splitlines(keepends=True))
                Restore(frontier, SnapshotFile("file", lines), heard=restored_some).run()

        repeated(trouble, attempt)
        assert content(exported(two)) == content(text)


@pytest.mark.timeout(300 * FACTOR)
@settings(**CHOSEN)
@given(seed=st.integers(0, 2**32))
def test_a_project_of_scrapy_redis_is_moved_whole_and_once(server: Server, seed: int) -> None:
    server.call("FLUSHALL")
    random = Random(seed)
    urls = [f"http://h{n % 5}.example/{n}" for n in range(random.randint(1, 40))]
    with pytest.MonkeyPatch.context() as patch, opened(server, "moved") as frontier, client(server) as source:
        patch.setattr(transfer, "BATCH", random.choice([2, 5, 11]))
        patch.setattr(transfer, "STANDS_SECONDS", 0)
        trouble = Trouble(made(frontier), random)
        stored = [json.dumps({"url": url}) for url in urls]
        if random.random() < 0.5:
            source.lpush(KEYS.queue, *stored)
        else:
            source.zadd(KEYS.queue, dict.fromkeys(stored, 0))
        digests = [digest_of("GET", url, b"") for url in urls]
        source.sadd(KEYS.dupefilter, *(one.hex() for one in digests))

        def stored_some(report: object) -> None:
            if source.exists(aside(KEYS.queue)):  # From its removal on everything stands.
                trouble(report)

        def attempt() -> None:
            source.delete(f"{aside(KEYS.queue)}:lock")
            with opened(server, "moved") as target:
                found = ProjectSource(source, KEYS, StoredRequestReader(False))
                transfer.Transfer(found, target, "shop", same=False, digests=DigestKind.NEW, heard=stored_some).run()

        repeated(trouble, attempt)
        assert source.keys("*shop:*") == []
        assert all(frontier.seen("shop.main", [number_of_custom(one) for one in digests]))
        frontier.set_host("", HostPolicy(concurrency=0))
        leases = frontier.exchange(Token.fresh(), want=200, selection=Selection(("shop",))).leases
        assert Counter(codec.decode_request(lease.payload)["url"] for lease in leases) == Counter(urls)
