"""How much memory: queued requests on both sides, and seen URLs under each policy beside a set of hex digests."""

from __future__ import annotations

import multiprocessing
import random
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.storage.measure import Progress, server_seconds, start_server, used_memory
from bench.storage.peers import Gossamer, ScrapyRedis
from bench.storage.workload import Site
from scrapy_redis.connection import get_redis

from gossamer.frontier.call import function_call, text
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.control.tables import seen_table
from gossamer.frontier.verbs.work.batch import entry_of
from gossamer.model import SeenKind, SeenPolicy
from gossamer.settings import Settings, load
from gossamer.testing.servers import Server

MARK_BATCH = 5_000
PIECE = 20_000
HEX = "set of hex digests"
ERROR = 1e-4


class Queued(NamedTuple):
    """Bytes per queued request, alone and with the memory of what was seen."""

    hosts: int
    contender: str
    requests: int
    queued: float
    with_seen: float


class Remembered(NamedTuple):
    """Bytes per seen URL, and microseconds of the server's processor to add it. `error`: share of new URLs taken for seen, of `probes` asked once all were in; None where
    none was measured."""

    policy: str
    urls: int
    bytes: float
    microseconds: float
    error: float | None = None
    probes: int = 0


def queued(server: Server, count: int, hosts: int, progress: Progress) -> list[Queued]:
    """Both sides, the same requests."""
    site = Site(hosts, 1 if hosts > 1000 else 15)
    return [
        Queued(hosts, name, count, *(size / count for size in measure(server, site, count, progress)))
        for name, measure in (("scrapy-redis", _their_queue), ("gossamer", _our_queue))
    ]


def _their_queue(server: Server, site: Site, count: int, progress: Progress) -> tuple[int, int]:
    """The same commands that its scheduler sends, but many at once: one at a time takes minutes."""
    progress.step(f"memory: {count:,} queued on {site.hosts:,} hosts, scrapy-redis")
    server.call("FLUSHALL", "SYNC")
    before = used_memory(server)
    peer = ScrapyRedis(server.url)
    queue, seen = peer.scheduler.queue, peer.scheduler.df
    with peer.server.pipeline(transaction=False) as pipe:
        for first in range(0, count, PIECE):
            for request in peer.ready(site.urls(first, min(PIECE, count - first))):
                pipe.execute_command("ZADD", queue.key, -request.priority, queue._encode_request(request))
            pipe.execute()
    peer.server.connection_pool.disconnect()
    alone = used_memory(server) - before
    with peer.server.pipeline(transaction=False) as pipe:
        for first in range(0, count, PIECE):
            for request in peer.ready(site.urls(first, min(PIECE, count - first))):
                pipe.sadd(seen.key, seen.request_fingerprint(request))
            pipe.execute()
    peer.close()
    return alone, used_memory(server) - before


def _our_queue(server: Server, site: Site, count: int, progress: Progress) -> tuple[int, int]:
    progress.step(f"memory: {count:,} queued on {site.hosts:,} hosts, gossamer")
    sizes = []
    for filtered in (False, True):
        server.call("FLUSHALL", "SYNC")
        Gossamer(server.url).close()
        before = used_memory(server)
        peer = Gossamer(server.url)
        for first in range(0, count, PIECE):
            requests = site.urls(first, min(PIECE, count - first))
            peer.add(requests) if filtered else peer.queue(requests)
        peer.close()
        sizes.append(used_memory(server) - before)
    return sizes[0], sizes[1]


def policies(urls: int) -> dict[str, SeenPolicy]:
    """Every way of remembering so many URLs."""
    return {
        "exact": SeenPolicy(),
        "bloom, sized beforehand": SeenPolicy(SeenKind.BLOOM, capacity=urls, error=ERROR),
        "bloom, grown from a tenth": SeenPolicy(SeenKind.BLOOM, capacity=max(1000, urls // 10), error=ERROR),
        "rolling": SeenPolicy(SeenKind.ROLLING, window_count=urls),
        "hits, everything met twice": SeenPolicy(SeenKind.HITS, window_count=urls),
    }


def remembered(name: str, urls: int, probes: int, end: float) -> Remembered:
    """Load so many fingerprints into a memory of its own on a server of its own, and weigh it. TimeoutError when that is
    not done by the end given (monotonic time)."""
    with start_server() as server:
        settings = load({"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": "bench"})
        _warm(server, settings, name)
        before, cpu = used_memory(server), server_seconds(server)
        if name == HEX:
            _load_hex(server, urls, end)
            return Remembered(name, urls, (used_memory(server) - before) / urls, _per_url(server, cpu, urls))
        policy = policies(urls)[name]
        with ValkeyFrontier.open(settings) as frontier:
            memory = Memory(frontier, policy)
            for _ in range(2 if policy.kind is SeenKind.HITS else 1):
                for batch in fingerprints(1, urls, end):
                    memory.ask("mark", batch)
            spent = _per_url(server, cpu, urls)
            known = memory.count()
        weight = used_memory(server) - before
        if policy.kind is not SeenKind.BLOOM:
            return Remembered(name, known, weight / known, spent)
        with ValkeyFrontier.open(settings) as frontier:
            memory = Memory(frontier, policy)
            wrong = sum(memory.ask("probe", batch).count("y") for batch in fingerprints(2, probes, end))
        return Remembered(name, urls, weight / urls, spent, wrong / probes, probes)


def _warm(server: Server, settings: Settings, name: str) -> None:
    """Use every command once: a server keeps a histogram of some 25 kB for each that it has ever run."""
    end = time.monotonic() + 60
    if name == HEX:
        _load_hex(server, 1000, end)
    else:
        with ValkeyFrontier.open(settings) as frontier:
            memory = Memory(frontier, policies(1000)[name])
            for batch in fingerprints(3, 2000, end):
                memory.ask("mark", batch)
            memory.count()
    server.call("FLUSHALL", "SYNC")
    ValkeyFrontier.open(settings).close()


def _per_url(server: Server, since: float, urls: int) -> float:
    return (server_seconds(server) - since) / urls * 1e6


class Memory:
    """A memory without queues, asked in large batches."""

    def __init__(self, frontier: ValkeyFrontier, policy: SeenPolicy) -> None:
        self._frontier, self._policy = frontier, seen_table(policy)
        self._key, self._incarnation, self._sequence = keys.seen_base("bench"), secrets.token_hex(8), 0

    def ask(self, action: str, batch: list[str]) -> str:
        self._sequence += 1
        header = {"i": self._incarnation, "s": self._sequence, "policy": self._policy, "fps": batch, "action": action}
        [reply] = self._frontier.ask([function_call("mark", self._key, header)])
        return text(reply)

    def count(self) -> int:
        return int(self.ask("count", []))


def fingerprints(seed: int, count: int, end: float) -> Iterator[list[str]]:
    bits = random.Random(seed).getrandbits
    for number in _batches(count, end):
        yield [entry_of(bits(64)) for _ in range(number)]


def _batches(count: int, end: float) -> Iterator[int]:
    """TimeoutError at the end given, or as soon as it is plain that it will not do."""
    begin = time.monotonic()
    for first in range(0, count, MARK_BATCH):
        now = time.monotonic()
        if now > end or (first > count / 20 and (now - begin) * count / first > end - begin):
            raise TimeoutError
        yield min(MARK_BATCH, count - first)


def _load_hex(server: Server, urls: int, end: float) -> None:
    bits = random.Random(1).getrandbits
    with get_redis(url=server.url) as client:
        for number in _batches(urls, end):
            client.sadd("bench:dupefilter", *(f"{bits(160):040x}" for _ in range(number)))


def _job(given: tuple[str, int, int, float, float]) -> Remembered | str:
    # Ctrl-C is the parent's to handle; it ends this process, whose server dies with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name, urls, probes, seconds, end = given
    try:
        return remembered(name, urls, probes, min(end, time.monotonic() + seconds))
    except TimeoutError:
        return f"memory: {name}, {urls:,} URLs"


def all_remembered(sizes: Sequence[int], probes: int, seconds: float, progress: Progress) -> list[Remembered]:
    """Every policy at every size, two at a time, each at most so many seconds long."""
    end = time.monotonic() + progress.left
    jobs = [(name, urls, probes, seconds, end) for urls in sizes for name in (HEX, *policies(urls))]
    found = []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for outcome in pool.imap(_job, jobs):
            if isinstance(outcome, Remembered):
                progress.step(f"memory: {outcome.policy}, {outcome.urls:,} URLs: {outcome.bytes:.2f} bytes each")
                found.append(outcome)
            else:
                progress.leave_out(outcome)
    return found
