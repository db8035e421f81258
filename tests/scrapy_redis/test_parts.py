"""Queues, dupefilter, items and small parts: what scrapy-redis does, ours does, on the same keys with the same commands."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from scrapy import FormRequest, Request
from scrapy.settings import Settings
from tests.support.scrapy_redis.sides import SIDES, client, module, request, spider, watched

from gossamer.testing.servers import Server

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*retry_on_timeout", "ignore:.*:scrapy.exceptions.ScrapyDeprecationWarning"
)

NEW, OLD = "gossamer.scrapy_redis", "scrapy_redis"
QUEUES = ("FifoQueue", "LifoQueue", "PriorityQueue")


def queue_of(side: str, kind: str, server: Any, name: str, **more: Any) -> Any:
    return getattr(module(side, "queue"), kind)(server, spider(name), "%(spider)s:requests", **more)


def commands_of(valkey_server: Server, act: Callable[[], object]) -> list[str]:
    with watched(valkey_server) as since:
        act()
        return since()


@pytest.mark.parametrize(("kind", "order"), [("FifoQueue", "abc"), ("LifoQueue", "cba"), ("PriorityQueue", "bca")])
def test_a_queue_gives_back_what_was_pushed_in_its_order(
    side: str, kind: str, order: str, redis: Any, crawl_name: str
) -> None:
    queue = queue_of(side, kind, redis, crawl_name)
    for letter, priority in (("a", -5), ("b", 7), ("c", 1)):
        queue.push(
            request(f"http://site/{letter}", priority=priority, callback=queue.spider.parse_it, meta={"n": letter})
        )
    assert len(queue) == 3
    assert queue.key == f"{crawl_name}:requests"
    popped = [queue.pop() for _ in range(3)]
    assert [one.meta["n"] for one in popped] == list(order)
    assert {one.callback for one in popped} == {queue.spider.parse_it}
    assert queue.pop() is None
    assert len(queue) == 0


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize(("writer", "reader"), [(OLD, NEW), (NEW, OLD)])
def test_an_old_and_a_new_worker_share_one_queue(
    kind: str, writer: str, reader: str, redis: Any, crawl_name: str
) -> None:
    pushing, popping = queue_of(writer, kind, redis, crawl_name), queue_of(reader, kind, redis, crawl_name)
    sent = FormRequest("http://site/form", formdata={"q": "ä"}, headers={"X": "1"}, cookies={"c": "d"}, priority=3)
    pushing.push(sent)
    assert len(popping) == 1
    got = popping.pop()
    assert type(got) is FormRequest
    assert got.to_dict() == sent.to_dict()
    assert len(pushing) == 0


@pytest.mark.parametrize("kind", QUEUES)
def test_queues_send_the_same_commands(kind: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    def act(side: str) -> list[str]:
        queue = queue_of(side, kind, redis, crawl_name)
        said = commands_of(
            valkey_server,
            lambda: [queue.push(request(priority=2)), len(queue), queue.pop(), queue.pop(), queue.clear()],
        )
        # The stored bytes may differ: a turn stands before the pickle.
        return [command.split(" \\x")[0] for command in said]

    ours = act(NEW)
    assert ours == act(OLD)
    assert [command.split()[0] for command in ours][:2] == {
        "FifoQueue": ["LPUSH", "LLEN"], "LifoQueue": ["LPUSH", "LLEN"], "PriorityQueue": ["ZADD", "ZCARD"],
    }[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["FifoQueue", "LifoQueue"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_list_can_be_waited_on(kind: str, protocol: int, valkey_server: Server, crawl_name: str) -> None:
    with client(valkey_server, protocol=protocol, legacy_responses=False) as server:
        queue = queue_of(NEW, kind, server, crawl_name)
        queue.push(request("http://site/waited"))
        assert queue.pop(timeout=1).url == "http://site/waited"


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_that_decodes_can_be_used(kind: str, protocol: int, valkey_server: Server, crawl_name: str) -> None:
    with client(valkey_server, protocol=protocol, decode_responses=True) as server:
        queue = queue_of(NEW, kind, server, crawl_name)
        queue.push(request("http://site/", body=b"\xff\x00", method="POST"))
        assert queue.server is server
        assert queue.pop().body == b"\xff\x00"


def test_identical_requests_are_all_kept(redis: Any, crawl_name: str) -> None:
    queue = queue_of(NEW, "PriorityQueue", redis, crawl_name)
    for _ in range(3):
        queue.push(request(dont_filter=True))
    assert len(queue) == 3
    old = queue_of(OLD, "PriorityQueue", redis, f"{crawl_name}-old")
    for _ in range(3):
        old.push(request(dont_filter=True))
    assert len(old) == 1, "scrapy-redis keeps one; if it no longer does, the fix is not needed"


def test_equal_priorities_leave_in_the_order_they_came(redis: Any, crawl_name: str) -> None:
    urls = [f"http://site/{'x' * (97 * n % 50)}{n}" for n in range(30)]
    queue = queue_of(NEW, "PriorityQueue", redis, crawl_name)
    other = queue_of(NEW, "PriorityQueue", redis, crawl_name)
    for number, url in enumerate(urls):
        (queue, other)[number % 2].push(request(url, priority=4))
    assert [queue.pop().url for _ in urls] == urls


def test_what_an_old_worker_queued_is_not_overtaken(redis: Any, crawl_name: str) -> None:
    old, new = queue_of(OLD, "PriorityQueue", redis, crawl_name), queue_of(NEW, "PriorityQueue", redis, crawl_name)
    new.push(request("http://site/new"))
    old.push(request("http://site/old"))
    assert [new.pop().url, new.pop().url] == ["http://site/old", "http://site/new"]


@pytest.mark.parametrize(("writer", "reader"), [(OLD, NEW), (NEW, OLD), (NEW, NEW)])
def test_another_serializer_keeps_turns_too(writer: str, reader: str, redis: Any, crawl_name: str) -> None:
    class Readable:
        @staticmethod
        def dumps(obj: Any) -> str:
            return json.dumps(obj, default=bytes.decode)

        loads = staticmethod(json.loads)

    pushing = queue_of(writer, "PriorityQueue", redis, crawl_name, serializer=Readable)
    popping = queue_of(reader, "PriorityQueue", redis, crawl_name, serializer=Readable)
    for letter in "zya":
        pushing.push(request(f"http://site/{letter}"))
    expected = ["a", "y", "z"] if writer == OLD else ["z", "y", "a"]
    assert [popping.pop().url[-1] for _ in "123"] == expected


def test_a_serializer_without_its_functions_is_refused(side: str, redis: Any, crawl_name: str) -> None:
    with pytest.raises(TypeError, match="does not implement 'loads'"):
        queue_of(side, "FifoQueue", redis, crawl_name, serializer=object())


def test_a_queue_of_ones_own(side: str, redis: Any, crawl_name: str) -> None:
    base = module(side, "queue").Base

    class Twice(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return int(self.server.llen(self.key))

        def push(self, request: Request) -> None:
            data = self._encode_request(request)
            self.server.rpush(self.key, data, data)

        def pop(self, timeout: int = 0) -> Request | None:
            data = self.server.lpop(self.key)
            return self._decode_request(data) if data else None

    queue: Any = Twice(redis, spider(crawl_name), "%(spider)s:mine")
    queue.push(request())
    assert (len(queue), queue.pop().url, len(queue)) == (2, "http://site/", 1)
    queue.clear()
    assert redis.exists(f"{crawl_name}:mine") == 0
    with pytest.raises(NotImplementedError):
        base(redis, spider(crawl_name), "k").pop()


class InMemory:
    """Stands for a client: it has what a list queue calls, and answers to any other name as well."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}

    def lpush(self, key: str, data: Any) -> None:
        self.lists.setdefault(key, []).insert(0, data)

    def lpop(self, key: str) -> Any:
        return self.lists[key].pop(0) if self.lists.get(key) else None

    def rpop(self, key: str) -> Any:
        return self.lists[key].pop() if self.lists.get(key) else None

    def llen(self, key: str) -> int:
        return len(self.lists.get(key, ()))

    def delete(self, key: str) -> None:
        self.lists.pop(key, None)

    def __getattr__(self, name: str) -> Any:
        return InMemory()


@pytest.mark.parametrize(("kind", "order"), [("FifoQueue", "ab"), ("LifoQueue", "ba")])
def test_a_queue_works_on_what_stands_for_a_client(side: str, kind: str, order: str) -> None:
    queue = queue_of(side, kind, InMemory(), "in-memory")
    for letter in "abc":
        queue.push(request(f"http://site/{letter}"))
        if letter == "b":
            assert "".join(queue.pop().url[-1] for _ in range(2)) == order
    assert len(queue) == 1
    queue.clear()
    assert (len(queue), queue.pop()) == (0, None)


def test_the_aliases_name_the_queues(side: str) -> None:
    queue = module(side, "queue")
    assert (queue.SpiderQueue, queue.SpiderStack, queue.SpiderPriorityQueue) == (
        queue.FifoQueue, queue.LifoQueue, queue.PriorityQueue,
    )  # fmt: skip


REQUESTS = [
    request("http://site/a?b=2&a=1#frag"),
    request("http://site/a?a=1&b=2"),
    request("http://site/a?a=1&b=2", method="POST"),
    request("http://site/a?a=1&b=2", method="POST", body="ü"),
    request("HTTP://Site:80/%7Eü?x"),
    request("http://site/", headers={"X": "1"}, meta={"m": 1}, dont_filter=True),
]


def test_fingerprints_are_the_same() -> None:
    old, new = (module(side, "dupefilter").RFPDupeFilter(None, "k") for side in SIDES)
    assert [new.request_fingerprint(one) for one in REQUESTS] == [old.request_fingerprint(one) for one in REQUESTS]
    fingerprinter = module(NEW, "dupefilter").DigestFingerprinter.from_crawler(None)
    assert [fingerprinter.fingerprint(one).hex() for one in REQUESTS] == [
        old.request_fingerprint(one) for one in REQUESTS
    ]


def test_the_dupefilter_of_a_spider(side: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    made = spider(crawl_name, {"REDIS_URL": valkey_server.url, "DUPEFILTER_DEBUG": True})
    df = module(side, "dupefilter").RFPDupeFilter.from_spider(made)
    assert (df.key, df.debug) == (f"{crawl_name}:dupefilter", True)
    assert [df.request_seen(one) for one in (REQUESTS[0], REQUESTS[1], REQUESTS[2])] == [False, True, False]
    assert redis.type(df.key) == b"set"
    assert redis.scard(df.key) == 2
    df.close("finished")
    assert redis.exists(df.key) == 0


def test_dupefilters_of_old_and_new_workers_know_each_others_requests(redis: Any, crawl_name: str) -> None:
    old, new = (module(side, "dupefilter").RFPDupeFilter(redis, f"{crawl_name}:dupefilter") for side in SIDES)
    assert [old.request_seen(REQUESTS[0]), new.request_seen(REQUESTS[0])] == [False, True]
    assert [new.request_seen(REQUESTS[2]), old.request_seen(REQUESTS[2])] == [False, True]


def test_dupefilters_send_the_same_commands(valkey_server: Server, redis: Any, crawl_name: str) -> None:
    said = []
    for side in SIDES:
        df = module(side, "dupefilter").RFPDupeFilter(redis, f"{crawl_name}:dupefilter")
        said.append(commands_of(valkey_server, lambda df=df: [df.request_seen(REQUESTS[0]), df.clear()]))  # type: ignore[misc]
    assert said[0] == said[1]
    assert [command.split()[0] for command in said[0]] == ["SADD", "DEL"]


def test_a_dupefilter_without_a_spider_has_a_key_of_its_own(side: str, valkey_server: Server) -> None:
    crawler = spider("any", {"REDIS_URL": valkey_server.url}).crawler
    df = module(side, "dupefilter").RFPDupeFilter.from_crawler(crawler)
    assert df.key.startswith("dupefilter:1")
    assert df.key.removeprefix("dupefilter:").isdigit()


def test_the_dupefilter_takes_its_client_from_its_own_module(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dupefilter = module(side, "dupefilter")
    monkeypatch.setattr(dupefilter, "get_redis_from_settings", lambda settings: "mine")
    assert dupefilter.RFPDupeFilter.from_settings(Settings()).server == "mine"


@pytest.mark.parametrize("debug", [True, False])
def test_filtered_requests_are_logged(side: str, debug: bool, caplog: pytest.LogCaptureFixture) -> None:
    df = module(side, "dupefilter").RFPDupeFilter(None, "k", debug)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            df.log(request("http://site/twice"), spider("any"))
    lines = [record.getMessage() for record in caplog.records if "http://site/twice" in record.getMessage()]
    first = "Filtered duplicate request: <GET http://site/twice>" if debug else "Filtered duplicate request <GET"
    assert lines[0].startswith(first)
    assert len(lines) == (2 if debug else 1)


async def test_items_go_to_the_end_of_a_list(side: str, valkey_server: Server, redis: Any, crawl_name: str) -> None:
    crawler = spider(crawl_name, {"REDIS_URL": valkey_server.url}).crawler
    pipeline = module(side, "pipelines").RedisPipeline.from_crawler(crawler)
    for number in (1, 2):
        assert pipeline._process_item({"n": number, "t": "ä"}, crawler.spider) == {"n": number, "t": "ä"}
    key = f"{crawl_name}:items"
    assert pipeline.item_key({}, crawler.spider) == key
    assert [json.loads(data) for data in redis.lrange(key, 0, -1)] == [{"n": 1, "t": "ä"}, {"n": 2, "t": "ä"}]
    assert redis.lindex(key, 0) == b'{"n": 1, "t": "\\u00e4"}'


async def test_an_item_is_stored_when_its_pipeline_is_through(
    valkey_server: Server, redis: Any, crawl_name: str
) -> None:
    settings = {
        "REDIS_URL": valkey_server.url,
        "REDIS_ITEMS_KEY": "%(spider)s:out",
        "REDIS_ITEMS_SERIALIZER": "json.dumps",
    }
    crawler = spider(crawl_name, settings).crawler
    pipeline = module(NEW, "pipelines").RedisPipeline.from_crawler(crawler)
    assert await pipeline.process_item({"n": 1}) == {"n": 1}
    assert await pipeline.process_item({"n": 2}, crawler.spider) == {"n": 2}
    assert redis.lrange(f"{crawl_name}:out", 0, -1) == [b'{"n": 1}', b'{"n": 2}']


def test_small_parts_answer_alike(side: str) -> None:
    utils, picklecompat = module(side, "utils"), module(side, "picklecompat")
    assert (utils.bytes_to_str(b"\xe4", "latin-1"), utils.bytes_to_str("ä"), utils.bytes_to_str(1)) == ("ä", "ä", 1)
    assert [utils.is_dict(text) for text in ("{}", "[1]", "3", "http://site", "", "{")] == [True] * 3 + [False] * 3
    assert utils.convert_bytes_to_str(b"a") == "a"
    assert utils.convert_bytes_to_str({b"a": b"1", "b": 2}) == {"a": "1", "b": 2}
    assert list(utils.convert_bytes_to_str((b"a", 1))) == ["a", 1]
    assert utils.TextColor.WARNING == "\033[93m"
    data = {"url": "u", "n": [1, 2.5, None, True, b"\xff"], "t": (1, {2})}
    assert picklecompat.loads(picklecompat.dumps(data)) == data


def test_defaults_are_the_same() -> None:
    old, new = (module(side, "defaults") for side in SIDES)
    ours = {name: getattr(new, name) for name in dir(old) if name.isupper()}
    theirs = {name: getattr(old, name) for name in dir(old) if name.isupper()}
    assert ours == {n: f"gossamer.{v}" if str(v).startswith("scrapy_redis.") else v for n, v in theirs.items()}


def test_every_public_name_is_there() -> None:
    for name in ("connection", "defaults", "dupefilter", "queue", "picklecompat", "pipelines", "stats", "utils"):
        theirs, ours = module(OLD, name), module(NEW, name)
        own = [n for n, value in vars(theirs).items() if not n.startswith("_") and defined_in(theirs, value)]
        assert [n for n in own if not hasattr(ours, n)] == [], name
        for cls in [n for n in own if isinstance(getattr(theirs, n), type)]:
            assert set(dir(getattr(theirs, cls))) - set(dir(getattr(ours, cls))) == set(), f"{name}.{cls}"


def defined_in(place: ModuleType, value: object) -> bool:
    return not isinstance(value, ModuleType) and getattr(value, "__module__", place.__name__) == place.__name__
