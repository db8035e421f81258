"""`gossamer import scrapy-redis`: everything arrives, once, whatever breaks off, and no pickle runs anything."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from hashlib import sha1
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from scrapy import FormRequest, Request
from tests.scrapy.request.test_objects import Point, Product
from tests.support import fork_server
from tests.support.scrapy_redis.sides import SIDES, client, module, request, spider
from w3lib.url import canonicalize_url

from gossamer.errors import GossamerError, InvalidRequest, PolicyError, SnapshotError
from gossamer.frontier import codec
from gossamer.frontier.inspection import RestoreTarget
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Order, SeenScope, Selection, Token
from gossamer.scrapy.request.objects import ObjectCodec
from gossamer.scrapy.seen.memory import number_of_custom
from gossamer.scrapy.speedups.fingerprint import number_by
from gossamer.scrapy_redis.dupefilter import DigestFingerprinter, OldRFPDupeFilter
from gossamer.scrapy_redis.transfer import transfer
from gossamer.scrapy_redis.transfer.keys import DigestKind, ProjectKeys, ProjectSource, aside
from gossamer.scrapy_redis.transfer.requests import StoredRequestReader
from gossamer.scrapy_redis.transfer.transfer import Transfer
from gossamer.settings import load
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.earlier_state import Picture, another_process, go_back, picture
from gossamer.testing.servers import Cluster, Server

pytestmark = pytest.mark.filterwarnings("ignore:.*retry_on_timeout")

GROUP = "shop"
MAIN = f"{GROUP}.main"


@pytest.fixture
def frontier(valkey_server: Server, crawl_name: str) -> Iterator[ValkeyFrontier]:
    with ValkeyFrontier.open(
        load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}, environ={})
    ) as made:
        yield made


@pytest.fixture
def keys(crawl_name: str) -> ProjectKeys:
    return ProjectKeys(f"{crawl_name}:requests", f"{crawl_name}:dupefilter", (f"{crawl_name}:start_urls",))


def filled(
    server: Any, keys: ProjectKeys, count: int, kind: str = "PriorityQueue", side: str = SIDES[0]
) -> list[Request]:
    """A project's keys as scrapy-redis leaves them: each request queued, all of them and more in the dupefilter."""
    made = spider(keys.queue.partition(":")[0])
    queue = getattr(module(side, "queue"), kind)(server, made, "%(spider)s:requests")
    df = module(side, "dupefilter").RFPDupeFilter(server, keys.dupefilter)
    requests = [
        request(f"http://site{n % 3}/{n}", priority=n % 4, callback=made.parse_it, meta={"n": n}) for n in range(count)
    ]
    for one in requests:
        df.request_seen(one)
        queue.push(one)
    for n in range(count):
        df.request_seen(request(f"http://site/done/{n}"))
    return requests


def moved(server: Any, frontier: ValkeyFrontier, keys: ProjectKeys, pickles: bool = True, **more: Any) -> Counter[str]:
    return Transfer(ProjectSource(server, keys, StoredRequestReader(pickles)), frontier, GROUP, **more).run().done


def leased(frontier: ValkeyFrontier, most: int = 2000) -> list[dict[str, Any]]:
    """Everything that may be leased, in order, as fields of requests."""
    token = Token.fresh()
    found: list[dict[str, Any]] = []
    while len(found) < most:
        answer = frontier.exchange(token, want=500, selection=Selection((GROUP,)))
        if not answer.leases:
            break
        found += [{**codec.decode_request(lease.payload), "priority": lease.priority} for lease in answer.leases]
        token = token.next()
    return found


def unlimited(frontier: ValkeyFrontier) -> None:
    from gossamer.model import HostPolicy

    frontier.set_host("", HostPolicy(concurrency=0))


@pytest.mark.parametrize("kind", ["PriorityQueue", "FifoQueue", "LifoQueue"])
@pytest.mark.parametrize("side", SIDES)
def test_requests_arrive_as_they_were_queued(
    kind: str, side: str, redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    unlimited(frontier)
    sent = filled(redis, keys, 40, kind, side)
    assert moved(redis, frontier, keys) == {"requests": 40, "seen": 80, "foreign": 0}
    found = leased(frontier)
    assert Counter(
        (one["url"], one["priority"], one["callback"], one["meta"]["n"], one["dont_filter"]) for one in found
    ) == Counter((one.url, one.priority, "parse_it", one.meta["n"], False) for one in sent)
    assert [one["priority"] for one in found] == sorted((one["priority"] for one in found), reverse=True)
    assert redis.keys(f"*{keys.queue.partition(':')[0]}:*") == []


def test_order_inside_a_priority_is_kept(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    unlimited(frontier)
    queue = module(SIDES[0], "queue").FifoQueue(redis, spider("x"), keys.queue)
    for n in range(600):
        queue.push(request(f"http://site/{n}"))
    moved(redis, frontier, keys)
    assert [one["url"] for one in leased(frontier)] == [f"http://site/{n}" for n in range(600)]


def test_what_was_seen_stays_seen_by_scrapy_rediss_own_digests(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    sent = filled(redis, keys, 5)
    moved(redis, frontier, keys)
    number = number_by(DigestFingerprinter())
    old = [*sent, *(request(f"http://site/done/{n}") for n in range(5))]
    assert frontier.seen(MAIN, [number(one) for one in old]) == [True] * 10
    assert frontier.seen(MAIN, [number(request("http://site/new"))]) == [False]


def old_fingerprint(one: Request) -> str:
    """As `scrapy.utils.request.request_fingerprint` made it, which scrapy-redis 0.7.3 and older called."""
    return sha1(one.method.encode() + canonicalize_url(one.url).encode() + one.body).hexdigest()


def filled_by_old(server: Any, keys: ProjectKeys) -> list[Request]:
    sent = filled(server, keys, 5)
    server.delete(keys.dupefilter)
    done = [request(f"http://site/done/{n}?b=1&a=2") for n in range(5)]
    server.sadd(keys.dupefilter, *(old_fingerprint(one) for one in (*sent, *done)))
    return [*sent, *done]


def test_fingerprints_of_older_versions_are_recognised_and_refused_with_the_ways_out(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    filled_by_old(redis, keys)
    with pytest.raises(
        InvalidRequest, match=r"0 by .* and 5 by those of 0\.7\.3.*--fingerprints old.*--fingerprints none"
    ):
        moved(redis, frontier, keys)
    assert (redis.zcard(keys.queue), redis.scard(keys.dupefilter)) == (5, 10)


def test_a_project_goes_on_with_the_fingerprints_of_older_versions(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    seen = filled_by_old(redis, keys)
    assert moved(redis, frontier, keys, digests=DigestKind.OLD)["seen"] == 10
    df = OldRFPDupeFilter(redis, "unused")
    known = [number_of_custom(bytes.fromhex(df.request_fingerprint(one))) for one in seen]
    assert frontier.seen(MAIN, known) == [True] * 10


def test_a_dupefilter_may_be_left_and_what_is_queued_is_known_all_the_same(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    seen = filled_by_old(redis, keys)
    assert moved(redis, frontier, keys, digests=DigestKind.NONE) == {"requests": 5}
    number = number_by(DigestFingerprinter())
    assert frontier.seen(MAIN, [number(one) for one in seen]) == [True] * 5 + [False] * 5
    assert redis.scard(keys.dupefilter) == 10


def test_fingerprints_of_the_projects_own_come_along_when_it_says_so(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    filled(redis, keys, 3)
    redis.delete(keys.dupefilter)
    redis.sadd(keys.dupefilter, "/a", "/b", "ab12")
    with pytest.raises(InvalidRequest, match="--fingerprints own"):
        moved(redis, frontier, keys)
    done = moved(redis, frontier, keys, digests=DigestKind.OWN)
    assert (done["seen"], done["foreign"]) == (3, 0)
    assert frontier.seen(MAIN, [number_of_custom(one) for one in (b"/a", b"/b", b"\xab\x12")]) == [True] * 3


def test_what_nothing_queued_can_tell_has_to_be_said(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    [first, *_] = filled(redis, keys, 3)
    redis.sadd(keys.dupefilter, "not a digest")
    redis.delete(keys.queue)
    with pytest.raises(InvalidRequest, match="Nothing that is queued tells"):
        moved(redis, frontier, keys)
    done = moved(redis, frontier, keys, digests=DigestKind.NEW)
    assert (done["seen"], done["foreign"]) == (6, 1)
    assert frontier.seen(MAIN, [number_by(DigestFingerprinter())(first)]) == [True]
    assert redis.smembers(keys.dupefilter) == {b"not a digest"}, "what was not moved is where it was"


def test_last_in_first_out_stays_so(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    unlimited(frontier)
    queue = module(SIDES[0], "queue").LifoQueue(redis, spider("x"), keys.queue)
    for n in range(600):
        queue.push(request(f"http://site/{n}"))
    moved(redis, frontier, keys, order=Order.LIFO)
    assert [one["url"] for one in leased(frontier)] == [f"http://site/{n}" for n in reversed(range(600))]


def test_requests_of_older_versions_of_scrapy_are_read() -> None:
    stored = {"url": "http://site/", "method": "GET", "_encoding": "latin-1", "headers": {}, "body": "ä", "meta": {}}
    fields = StoredRequestReader(True).fields(pickle.dumps(stored, protocol=2))
    assert (fields["encoding"], fields["body"], "_encoding" in fields) == ("latin-1", b"\xe4", False)


def test_the_memory_may_be_one_of_the_round(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    [first, *_] = filled(redis, keys, 3)
    moved(redis, frontier, keys, scope=SeenScope.ROUND)
    number = number_by(DigestFingerprinter())(first)
    assert frontier.seen(MAIN, [number]) == [True]
    frontier.new_round(GROUP, 1)
    frontier.new_round(GROUP, 2)
    assert frontier.seen(MAIN, [number]) == [False]


@pytest.mark.parametrize("kind", ["PriorityQueue", "FifoQueue"])
@pytest.mark.parametrize(
    ("broken", "nth"), {"add": 2, "unlink": 1, "delete": 1, "srem": 2, "renamenx": 1, "set": 2}.items()
)
@pytest.mark.parametrize("after", [True, False])
def test_a_move_that_broke_off_is_begun_again(
    kind: str,
    broken: str,
    nth: int,
    after: bool,
    redis: Any,
    frontier: ValkeyFrontier,
    keys: ProjectKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each of the commands that change something, before or after it was done."""
    unlimited(frontier)
    monkeypatch.setattr(transfer, "BATCH", 10)
    sent = filled(redis, keys, 25, kind)
    where = frontier if broken == "add" else redis
    calls, original = 0, getattr(where, broken)

    def break_off(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != nth:
            return original(*args, **named)
        if after:
            original(*args, **named)
        raise ConnectionResetError

    monkeypatch.setattr(where, broken, break_off)
    with pytest.raises(ConnectionResetError):
        moved(redis, frontier, keys)
    redis.delete(f"{aside(keys.queue)}:lock")
    moved(redis, frontier, keys)
    assert Counter(one["url"] for one in leased(frontier)) == Counter(one.url for one in sent)
    assert frontier.seen(MAIN, [number_by(DigestFingerprinter())(one) for one in sent]) == [True] * 25
    assert redis.keys(f"*{keys.queue.partition(':')[0]}:*") == []


def test_nothing_is_removed_before_it_is_known_to_stand(
    redis_server: Server, frontier: ValkeyFrontier, keys: ProjectKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frontier's server loses its last second, with requests and fingerprints that had been moved to it."""
    unlimited(frontier)
    monkeypatch.setattr(transfer, "BATCH", 10)
    monkeypatch.setattr(transfer, "STANDS_SECONDS", 0)
    crawl = Crawl(frontier, lambda *_: None, lambda words, key: frontier.connection.execute(*words, key=key))
    states: list[Picture] = []

    def stored(_: object) -> None:
        states.append(picture(crawl))
        if len(states) == 5:
            go_back(crawl, states[1])
            another_process(crawl)

    with client(redis_server) as other:
        sent = filled(other, keys, 25, "FifoQueue")
        with pytest.raises(SnapshotError, match=r"was restarted or replaced.*Import again"):
            moved(other, frontier, keys, same=False, heard=stored)
        assert (other.llen(aside(keys.queue)), other.scard(keys.dupefilter)) == (25, 50)
        moved(other, frontier, keys, same=False)
        assert other.keys(f"*{keys.queue.partition(':')[0]}:*") == []
    assert Counter(one["url"] for one in leased(frontier)) == Counter(one.url for one in sent)
    assert frontier.seen(MAIN, [number_by(DigestFingerprinter())(one) for one in sent]) == [True] * 25


def test_what_another_server_could_still_lose_is_waited_for(
    redis_server: Server, frontier: ValkeyFrontier, keys: ProjectKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "STANDS_SECONDS", 0.3)
    began: list[float] = []
    with client(redis_server) as other:
        filled(other, keys, 3)
        moved(other, frontier, keys, same=False, heard=lambda _: began.append(time.monotonic()))
    # The queue and the dupefilter are stored, then it is waited, then digests are removed.
    assert began[2] - began[1] >= 0.3


def test_identical_requests_are_all_moved(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    unlimited(frontier)
    queue = module(SIDES[0], "queue").FifoQueue(redis, spider("x"), keys.queue)
    for _ in range(3):
        queue.push(request(dont_filter=True))
    moved(redis, frontier, keys)
    queue.push(request(dont_filter=True))
    moved(redis, frontier, keys)
    assert len(leased(frontier)) == 4


def test_what_is_queued_later_is_moved_though_its_digest_was(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys
) -> None:
    unlimited(frontier)
    filled(redis, keys, 4)
    moved(redis, frontier, keys)
    filled(redis, keys, 4)
    moved(redis, frontier, keys)
    assert len(leased(frontier)) == 8, "an old worker that still ran has queued them anew"


def test_a_second_process_is_kept_out(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    filled(redis, keys, 1)
    redis.set(f"{aside(keys.queue)}:lock", "other", ex=60)
    with pytest.raises(PolicyError, match="moved by another process"):
        moved(redis, frontier, keys)
    assert redis.zcard(keys.queue) == 1


def test_pickles_are_not_read_unless_it_is_asked_for(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    filled(redis, keys, 3)
    with pytest.raises(InvalidRequest, match="--allow-pickle"):
        moved(redis, frontier, keys, pickles=False)
    assert (redis.zcard(keys.queue), redis.scard(keys.dupefilter)) == (3, 6)


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_what_cannot_be_read_becomes_a_dead_letter(
    redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys, tmp_path: Path
) -> None:
    unlimited(frontier)
    target = tmp_path / "made"
    bad = [
        pickle.dumps({"url": "http://site/", "meta": {"x": Evil(target)}}), b"\x80garbage", b"{no json", b'{"a": 1}',
        b'{"url": 3}', b'{"url": "http://site", "meta": []}', b'{"url": "http://site", "priority": "x"}',
    ]  # fmt: skip
    redis.zadd(keys.queue, dict.fromkeys(bad, 0))
    redis.zadd(keys.queue, {b'{"url": "http://site/good"}': 1})
    assert moved(redis, frontier, keys)["unreadable"] == len(bad)
    assert [one["url"] for one in leased(frontier)] == ["http://site/good"]
    letters = frontier.dead_letters(GROUP)
    assert {letter.reason for letter in letters} == {"unreadable"}
    payloads = [frontier.dead_letter(letter.partition, letter.id).payload for letter in letters]
    named = [codec.decode_request(payload) for payload in payloads if payload not in bad]
    assert sorted(one["url"] for one in named) == ["http://site", "http://site", "http://site/"]
    assert {one["stored"] for one in named} | {payload for payload in payloads if payload in bad} == set(bad)
    assert not target.exists()


def test_items_in_meta_come_along_without_their_class(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    unlimited(frontier)
    item = Product(name="a", parts=[Point(1, 2)])
    redis.zadd(keys.queue, {pickle.dumps({"url": "http://site/", "meta": {"item": item}}, protocol=-1): 0})
    assert moved(redis, frontier, keys) == {"requests": 1}
    [found] = leased(frontier)
    assert found["meta"]["item"].name == "tests.scrapy.request.test_objects:Product"
    assert codec.decode_request(codec.encode_request(found), build=ObjectCodec(["tests"]).make)["meta"]["item"] == item


def test_all_fields_of_a_request_survive(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    made = spider("x")
    sent = FormRequest(
        "http://site/form", formdata={"q": "ä"}, headers={"X": ["1", "2"]}, cookies={"c": "d"}, priority=-3, flags=["f"],
        meta={"download_slot": "slow", "d": {"e": (1, b"\xff")}}, cb_kwargs={"k": 1}, errback=made.parse_it, encoding="latin-1",
    )  # fmt: skip
    module(SIDES[0], "queue").PriorityQueue(redis, made, keys.queue).push(sent)
    moved(redis, frontier, keys)
    answer = frontier.exchange(Token.fresh(), want=1, selection=Selection((GROUP,)))
    [lease] = answer.leases
    assert lease.host == "slow"
    from gossamer.scrapy.request.codec import RequestCodec

    got = RequestCodec(made, GROUP, {"main": None}, lambda _: 0, 10**6).decode(lease)
    assert type(got) is FormRequest
    assert got.to_dict(spider=made) == sent.to_dict(spider=made)


def test_a_key_of_another_kind_is_refused(redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys) -> None:
    redis.set(keys.queue, "text")
    with pytest.raises(GossamerError, match="is a string"):
        moved(redis, frontier, keys)
    redis.delete(keys.queue)
    redis.rpush(keys.dupefilter, "x")
    with pytest.raises(GossamerError, match="not a set"):
        moved(redis, frontier, keys)


def test_a_crawl_of_several_partitions_remembers_everywhere(
    cluster: Cluster, redis: Any, keys: ProjectKeys, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"GOSSAMER_URL": cluster.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 3}, environ={})
    with ValkeyFrontier.open(settings) as frontier:
        unlimited(frontier)
        sent = filled(redis, keys, 12)
        monkeypatch.setattr(transfer, "STANDS_SECONDS", 0)
        moved(redis, frontier, keys, same=False)
        assert Counter(one["url"] for one in leased(frontier)) == Counter(one.url for one in sent)
        outcomes = frontier.add([_asked(one) for one in sent])[0]
        assert {outcome.name for outcome in outcomes} == {"DUPLICATE"}


def _asked(one: Request) -> Any:
    from gossamer.model import Request as Asked
    from gossamer.model import host_of

    return Asked(number_by(DigestFingerprinter())(one), host_of(one.url), MAIN)


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_seeds_come_along_from_another_server(
    kind: str,
    redis_server: Server,
    frontier: ValkeyFrontier,
    redis: Any,
    keys: ProjectKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfer, "BATCH", 10)
    monkeypatch.setattr(transfer, "STANDS_SECONDS", 0)
    [key] = keys.seeds
    seeds = [f"http://site/{n:02}".encode() for n in range(25)]
    calls, original = 0, RestoreTarget.tasks

    def break_off(*args: Any) -> None:
        nonlocal calls
        calls += 1
        original(*args)
        if calls == 2:
            raise ConnectionResetError

    monkeypatch.setattr(RestoreTarget, "tasks", break_off)
    with client(redis_server) as other:
        if kind == "list":
            other.rpush(key, *seeds)
            redis.rpush(key, "http://site/waits")
        elif kind == "set":
            other.sadd(key, *seeds)
        else:
            other.zadd(key, {seed: n for n, seed in enumerate(seeds)})
        with pytest.raises(ConnectionResetError):
            moved(other, frontier, keys, same=False)
        if kind == "list":
            assert redis.lpop(key, 2) == seeds[5:7]
        elif kind == "set":
            redis.srem(key, *seeds[5:7])
        else:
            redis.zrem(key, *seeds[5:7])
        moved(other, frontier, keys, same=False)
        assert other.keys(f"*{key.partition(':')[0]}*") == []
    left = [*seeds[:5], *seeds[7:]]
    if kind == "list":
        assert redis.lrange(key, 0, -1) == [*left, b"http://site/waits"], "none that was taken meanwhile is back"
    elif kind == "set":
        assert redis.smembers(key) == set(left)
    else:
        assert redis.zrange(key, 0, -1, withscores=True) == [(seed, float(seeds.index(seed))) for seed in left]


def command(
    url: str, crawl: str, *words: str, say: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    environ = {**kept, "GOSSAMER_URL": url, "GOSSAMER_CRAWL": crawl}
    return fork_server.run("gossamer", ["import", "scrapy-redis", *words], environ, cwd or Path.cwd(), 100, say=say)


def test_the_command(
    valkey_server: Server, redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys, crawl_name: str
) -> None:
    filled(redis, keys, 7)
    redis.rpush(keys.seeds[0], "http://site/seed")
    url = valkey_server.url
    rehearsed = command(url, crawl_name, crawl_name, "--allow-pickle", "--dry-run", "--json")
    assert json.loads(rehearsed.stdout)["requests"] == 7
    refused = command(url, crawl_name, crawl_name, "--allow-pickle", say="n\n")
    assert (refused.returncode, "No old worker may run" in refused.stderr) == (1, True)
    missing = command(url, crawl_name, crawl_name, "--yes")
    assert (missing.returncode, "--allow-pickle" in missing.stderr) == (2, True)
    assert redis.zcard(keys.queue) == 7
    done = command(url, crawl_name, crawl_name, "--allow-pickle", "--yes", "--group", GROUP)
    assert done.returncode == 0, done.stderr
    assert "moved: 7 requests, 14 fingerprints" in done.stdout
    assert "stay where they are" in done.stdout
    again = command(url, crawl_name, crawl_name, "--allow-pickle", "--from", url, "--json", "--yes")
    assert json.loads(again.stdout)["found"] == {keys.queue: 0, keys.seeds[0]: 1, keys.dupefilter: 0}
    assert redis.llen(keys.seeds[0]) == 1, "the same server by another name"


def test_a_rehearsal_says_what_the_move_and_the_workers_of_the_project_would(
    valkey_server: Server, redis: Any, keys: ProjectKeys, crawl_name: str, tmp_path: Path
) -> None:
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop\n")
    (tmp_path / "shop.py").write_text(
        f"""
import scrapy
SPIDER_MODULES = ["shop"]
class Shop(scrapy.Spider):
    name = {crawl_name!r}
    def parse_it(self, response): ...
"""
    )
    rehearsal = (valkey_server.url, crawl_name, crawl_name, "--allow-pickle", "--dry-run")
    filled(redis, keys, 3)
    assert command(*rehearsal, cwd=tmp_path).returncode == 0
    refused: list[dict[str, Any]] = [{"meta": {"p": Point(1)}}, {"callback": "gone"}, {"meta": {"p": Point(2)}}]
    for n, more in enumerate(refused):
        redis.zadd(keys.queue, {pickle.dumps({"url": f"http://site/{n}", **more}, -1): 0})
    redis.sadd(keys.dupefilter, "not a digest")
    done = command(*rehearsal, cwd=tmp_path)
    assert (done.returncode, "workers would refuse: 3 of these requests" in done.stdout) == (1, True), done.stderr
    assert "could be moved: 6 requests, 6 fingerprints" in done.stdout
    assert "could not be moved: 1 entr" in done.stdout
    assert "refused 2 times: meta['p']: tests.scrapy.request.test_objects.Point is of a package" in done.stderr
    assert f"refused 1 time: callback 'gone': the spider {crawl_name} has no such method" in done.stderr
    redis.delete(keys.queue)
    told = command(*rehearsal)
    assert (told.returncode, "could be moved" in told.stdout, "Give --fingerprints" in told.stderr) == (2, False, True)


def test_the_command_says_what_it_did_not_find_or_move(
    valkey_server: Server, redis: Any, frontier: ValkeyFrontier, keys: ProjectKeys, crawl_name: str
) -> None:
    url = valkey_server.url
    filled(redis, keys, 2)
    wrong = command(url, crawl_name, crawl_name[:-1] + "_", "--allow-pickle", "--yes")
    assert wrong.returncode == 2
    assert f"{crawl_name[:-1]}_:requests" in wrong.stderr
    assert f"Did you mean {crawl_name}" in wrong.stderr
    nobody = command(url, crawl_name, crawl_name, "--from", "redis://127.0.0.1:1", "--dry-run")
    assert nobody.stderr.startswith("error: Error ")
    assert "connecting to 127.0.0.1:1. Connection refused; check that the server runs" in nobody.stderr
    bad = pickle.dumps({"url": "http://user:secret@site/bad", "meta": {"x": ip_address("192.0.2.1")}})
    redis.zadd(keys.queue, {bad: 0})
    assert command(url, crawl_name, crawl_name, "--allow-pickle", "--dry-run").returncode == 1
    done = command(url, crawl_name, crawl_name, "--allow-pickle", "--yes", "--group", GROUP, "--lifo")
    assert (done.returncode, "LifoMemoryQueue" in done.stderr) == (1, True), done.stderr
    assert frontier.counts(GROUP).lane_policies[MAIN]["order"] == "lifo"
    [letter] = frontier.dead_letters(GROUP)
    assert codec.decode_request(frontier.dead_letter(letter.partition, letter.id).payload)["url"].endswith("/bad")
    assert "ipaddress" in letter.detail
    again = command(url, crawl_name, crawl_name, "--allow-pickle", "--yes", "--group", GROUP)
    assert (again.returncode, "moved: nothing" in again.stdout) == (0, True), again.stderr
