"""Tasks from outside become requests while the crawl runs, each once; what cannot be used becomes a dead letter."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from scrapy import Spider
from tests.scrapy.spiders import fed
from tests.scrapy.spiders.fed import Fed, Map, Narrow, Own, Rules
from tests.support.site import Reply, Site, links
from tests.support.workers.variants import FIRST, LAST, Variant, some
from tests.support.workers.workers import Workers, left, of

from gossamer.errors import PolicyError
from gossamer.scrapy.policies import task_keys
from gossamer.scrapy.spiders import FleetSpider
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

FULL = {
    "method": "put",
    "headers": {"X-One": "1", "X-Many": ["a", "b"]},
    "cookies": {"session": "s1"},
    "body": "some body",
    "meta": {"deep": {"er": [1, 2.5, None, True]}},
    "cb_kwargs": {"name": "value", "number": 3},
    "callback": "parse_full",
    "errback": "on_error",
    "priority": 7,
    "lane": "urgent",
    "dont_filter": False,
    "encoding": "latin-1",
    "flags": ["seen"],
}
BAD: list[tuple[str | bytes, str]] = [
    ("{not json", "not valid JSON"),
    ("{}", "has no url"),
    ('{"url": "/relative"}', "no scheme"),
    ('{"url": 7}', "JSON string"),
    ("[1]", "JSON array"),
    ("no-scheme.example/x", "no scheme"),
    ("http://host:port/", "cannot be used"),
    ("http:///nowhere", "no host"),
    ('{"url": "http://x/", "callback": "nothing"}', "no such method"),
    ('{"url": "http://x/", "callback": "__init__"}', "no such method"),
    ('{"url": "http://x/", "errback": 3}', "no such method"),
    ('{"url": "http://x/", "colour": "red"}', "unknown keys: colour"),
    ('{"url": "http://x/", "body": "a", "json": 1}', "only one body"),
    ('{"url": "http://x/", "priority": "high"}', "priority"),
    ('{"url": "http://x/", "meta": []}', "meta"),
    ('{"url": "http://x/", "lane": "nowhere"}', "no lane 'nowhere'"),
    ('{"url": "http://x/", "lane": "other.lane"}', "other.lane"),
    ('{"url": "http://x/", "encoding": "klingon"}', "klingon"),
    (b"\xff\xfe\x00", "not UTF-8 text"),
    ("", "url is empty"),
]


@pytest.mark.parametrize("variant", some((FIRST, "select"), (LAST, "uvloop")), ids=str)
def test_tasks_of_every_kind_of_key_are_taken_while_the_crawl_runs(
    variant: Variant, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    site.hold("/start")
    keys = [f"{crawl_name}:{kind}" for kind in ("list", "set", "zset")]
    with Workers(valkey_server.url, crawl_name, variant) as workers:
        worker = workers.start(Fed, site=site.url, settings={"GOSSAMER_TASKS_BATCH": 4}, keys="|".join(keys))
        site.reached("/start")
        valkey_server.call("RPUSH", keys[0], *(f"{site.url}/list/{n}" for n in range(10)), f"{site.url}/list/0")
        valkey_server.call("SADD", keys[1], *(f"{site.url}/set/{n}" for n in range(10)))
        for number in range(10):
            valkey_server.call("ZADD", keys[2], number, f"{site.url}/zset/{number}")
        for bad, _ in BAD:
            valkey_server.call("RPUSH", keys[0], bad)
        valkey_server.call("RPUSH", keys[0], json.dumps({"url": f"{site.url}/full", **FULL}))
        valkey_server.call("RPUSH", keys[0], json.dumps({"url": f"{site.url}/form", "form": {"a": 1, "b": ["x", "y"]}}))
        valkey_server.call("RPUSH", keys[0], json.dumps({"url": f"{site.url}/json", "json": {"k": [1, "é"]}}))
        valkey_server.call("RPUSH", keys[0], json.dumps(f"{site.url}/text"))
        site.wait(
            lambda paths: len(paths) == 1 + 11 + 10 + 10 + 4, "every task to be crawled beside the page that is held"
        )
        site.release("/start")
        assert worker.reason() == "finished"
        with workers.frontier() as frontier:
            found = left(frontier, Fed.name)
        check_bad(found.dead)
        check_full(site, {item["id"]: item for item in found.items})
        asked = Counter(site.paths())
        assert asked.pop("/list/0") == 2, "two tasks are two requests"
        assert set(asked.values()) == {1}
        assert worker.stats()["gossamer/tasks"] == 11 + 10 + 10 + 4 + len(BAD)
        assert worker.stats()["gossamer/tasks_bad"] == len(BAD)


def check_bad(dead: list[Any]) -> None:
    assert len(dead) == len(BAD)
    assert [letter for letter in dead if letter.reason != "bad_task"] == []
    details = [letter.detail for letter in dead]
    for task, why in BAD:
        assert any(why in detail for detail in details), f"{task!r}: {details}"
    assert not any("Traceback" in detail for detail in details), "each says in words what is wrong"


def check_full(site: Site, items: dict[str, Any]) -> None:
    visits = {visit.path: visit for visit in site.visits}
    full, item = visits["/full"], items["/full"]
    assert (full.method, full.body) == ("PUT", b"some body")
    assert full.headers["X-One"] == "1"
    assert full.headers["Cookie"] == "session=s1"
    assert item["named"] == FULL["cb_kwargs"]
    assert item["meta"]["deep"] == {"er": [1, 2.5, None, True]}
    assert (item["priority"], item["flags"], item["encoding"], item["dont_filter"]) == (7, ["seen"], "latin-1", False)
    form, sent = visits["/form"], visits["/json"]
    assert (form.method, form.body) == ("POST", b"a=1&b=x&b=y")
    assert form.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert (sent.method, json.loads(sent.body)) == ("POST", {"k": [1, "é"]})
    assert sent.headers["Content-Type"] == "application/json"
    assert visits["/text"].method == "GET"


def test_rules_sitemaps_and_tasks_of_ones_own(site: Site, valkey_server: Server, crawl_name: str) -> None:
    site.on("/list/1", links("/list/2", "/post/1", "/post/2"))
    site.on("/list/2", links("/list/1", "/post/3"))
    locations = "".join(f"<url><loc>{site.url}/page/{n}</loc></url>" for n in range(3))
    xml = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'
    site.on("/sitemap.xml", Reply(body=xml, headers={"Content-Type": "text/xml"}))
    keys = {name: f"{crawl_name}:{name}" for name in ("rules", "map", "own", "narrow")}
    valkey_server.call("RPUSH", keys["rules"], f"{site.url}/list/1")
    valkey_server.call("RPUSH", keys["map"], f"{site.url}/sitemap.xml")
    valkey_server.call("SADD", keys["own"], "x", "none", "bad")
    valkey_server.call("RPUSH", keys["narrow"], *(f"{site.url}/narrow/{n}" for n in range(6)))
    with Workers(valkey_server.url, crawl_name) as workers:
        worker = workers.start(Rules, Map, Own, Narrow, site=site.url, keys=f"{crawl_name}:%(name)s")
        assert {worker.reason(name) for name in keys} == {"finished"}
        with workers.frontier() as frontier:
            found = {name: left(frontier, name) for name in keys}
        assert found["rules"].ids() == {f"/post/{n}": 1 for n in (1, 2, 3)}
        assert found["map"].ids() == {f"/page/{n}": 1 for n in range(3)}
        assert found["own"].ids() == {f"/x/{n}": 1 for n in range(3)}
        assert found["own"].reasons() == {"bad_task": 1}
        assert "not a task of mine" in found["own"].dead[0].detail
        assert found["narrow"].ids() == {f"/narrow/{n}": 1 for n in range(6)}, "those without room were offered again"


def test_what_other_spiders_call_tasks_is_their_own_business() -> None:
    class Fleet(FleetSpider):
        name = "fleet"

    class Plain(Spider):
        name = "plain"

        def tasks(self) -> None: ...

    assert task_keys(Fleet()) == ("fleet:start_urls",)
    assert task_keys(Plain()) == ()
    for own in ([{"id": 1}], ["a", "b"], 7, None, {"a": 1}, (1, 2)):
        assert task_keys(Spider("own", tasks=own)) == (), own
    assert task_keys(Spider("own", tasks=("a:%(name)s", "b"))) == ("a:own", "b")
    assert task_keys(Fleet(tasks=["k"])) == ("k",)
    with pytest.raises(PolicyError, match="a key or a tuple of keys"):
        task_keys(Fleet(tasks=7))


@pytest.mark.parametrize("patch", [fed.die_before_adding, fed.die_before_settling])
def test_a_task_whose_worker_was_killed_is_done_once(
    patch: Any, site: Site, valkey_server: Server, crawl_name: str
) -> None:
    key = f"{crawl_name}:tasks"
    with Workers(valkey_server.url, crawl_name, GOSSAMER_LEASE_SECONDS=2.0) as workers:
        valkey_server.call("RPUSH", key, *(f"{site.url}/{n}" for n in range(5)))
        first = workers.start(Fed, keys=key, patches=[f"{fed.__name__}.{patch.__name__}"])
        first.wait()
        assert of(first.events, "settle") == []
        assert workers.start(Fed, keys=key).reason() == "finished"
        with workers.frontier() as frontier:
            assert left(frontier, Fed.name).ids() == {f"/{n}": 1 for n in range(5)}
