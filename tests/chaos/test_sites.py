"""Fifty sites that between them use everything a site file can say, one pool of three workers, hosts that misbehave, a worker and the
database killed: the hosts' access log and the tables are as they should be. And the audit would notice if they were not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import yaml  # type: ignore[import-untyped]
from scripts.chaos.sites import FILES, SHOPS, Scenario, run
from tests.support.many_sites import audit
from tests.support.many_sites.audit import Story
from tests.support.many_sites.server import Access
from tests.support.workers.forked import forked

from gossamer.sites import format as form
from gossamer.testing.servers import Server

STORY = Story({"n1": 1, "n2": 0, "n12": 0}, SHOPS, 3, 2, 4, {1: 0.08}, {0: 2, 1: 2, 6: 1}, slack=0.5)


@pytest.mark.timeout(600)
def test_fifty_sites_with_faults_end_as_they_would_without(valkey_server: Server, crawl_name: str) -> None:
    with Scenario(valkey_server.url, crawl_name, launch=forked) as scenario:
        told = run(scenario, valkey_server, random.Random(crawl_name))
    assert told.pages > told.killed_at, "the worker was killed in the middle"
    assert told.again > 0, "and it had a page under way"


def test_the_files_use_every_key_that_a_site_file_has_and_a_crawl_can_show() -> None:
    """Those of a browser, of the other engine and of the planner have their tests elsewhere."""
    used: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            used.update(str(key) for key in value)
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    for file in FILES.rglob("*.yaml"):
        text = file.read_text()
        walk(yaml.safe_load(text))
    for part in (
        form.Layer,
        form.Follow,
        form.FieldRule,
        form.Seed,
        form.SiteSpec,
        form.Hooks,
        form.StoreRule,
        form.Limits,
    ):
        known = {field.alias or name for name, field in part.model_fields.items()}
        missing = known - used - ELSEWHERE
        assert not missing, f"{part.__name__}: {sorted(missing)} are used by no file"


ELSEWHERE = {
    *(
        "title",
        "active",
        "engine",
        "private_addresses",
        "extends",
        "examples",
        "revisit",
        "rediscover",
        "page_records",
        "lacking",
        "body",
        "archive",
        "existing",
        "columns",
    ),
    *(
        "backlog",
        "seeds",
        "default",
        "database",
        "strip",
        "again",
        "languages",
        "code",
        "refresh",
        "types",
        "hold",
        "changed",
        "gone",
    ),
}
"""What has tests of its own: tests/engine, tests/store and tests/sites."""


def access(key: audit.Key, at: float, lasting: float = 0.01) -> Access:
    who = "details" if "/comments/" in key[2] else "one"
    return Access(key[0], key[1], key[2], {"x-worker": who}, "", at, at + lasting, 200)


def fine_log() -> list[Access]:
    """A log as it should be: everything as often as expected, a second apart."""
    keys = [key for key, count in audit.expected(STORY).items() for _ in range(count)]
    keys += [(3, "GET", f"/c/{n}") for n in range(1, 4)]
    return [access(key, float(place)) for place, key in enumerate(sorted(keys))]


def test_an_honest_log_is_accepted() -> None:
    log = fine_log()
    assert audit.pages(log, STORY) == []
    assert audit.politeness(log, STORY) == []
    assert audit.details(log, "details") == []


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda log: log.pop(5), "instead of"),
        (lambda log: log.append(access((0, "GET", "/n/n2/private/1"), 1e6)), "should not have been"),
        (lambda log: log.append(access((0, "GET", "/n/n2/list/3"), 1e6)), "should not have been"),
        (lambda log: log.append(access((3, "GET", "/d/a/4"), 1e6)), "should not have been"),
        (lambda log: log.extend(access((8, "GET", f"/z/{n}"), 1e6 + n) for n in range(5)), "the kill explains 4"),
        (lambda log: log.extend(access((8, "GET", "/z/1"), 1e6 + n) for n in range(3)), "asked for 4 times"),
        (lambda log: log.extend(access((3, "GET", f"/c/{n}"), 1e6 + n) for n in range(4, 8)), "limits.pages"),
        (lambda log: log.append(access((2, "GET", "/s/s1/p/9?ref=x"), 1e6)), "should not have been"),
    ],
    ids=["lost", "robots", "turn", "depth", "again", "often", "limit", "unknown"],
)
def test_the_audit_notices_pages(spoil: Callable[[list[Access]], None], says: str) -> None:
    log = fine_log()
    spoil(log)
    assert any(says in one for one in audit.pages(log, STORY))


def test_the_audit_notices_impoliteness() -> None:
    log = [access((0, "GET", f"/{n}"), 10.0 + n / 100, 1.0) for n in range(3)]
    assert "3 pages at a time instead of 2" in audit.politeness(log, STORY)[0]
    log = [access((1, "GET", f"/{n}"), n * 0.02) for n in range(20)]
    assert "0.08 s apart" in audit.politeness(log, STORY)[0]
    busy = access((6, "GET", "/x/3"), 1.0)._replace(status=429)
    assert "2 s of rest" in audit.politeness([busy, access((6, "GET", "/x/4"), 2.5)], STORY)[0]
    assert audit.politeness([busy, access((6, "GET", "/x/4"), 3.5)], STORY) == []


def test_the_audit_notices_disorder_and_the_wrong_pool() -> None:
    paths = ["lifo/1", "lifo/2", "prio/1", "prio/2", *(f"weight/light/{n}" for n in range(8)), "weight/last/1"]
    assert len(audit.order([access((4, "GET", f"/o/{path}"), float(n)) for n, path in enumerate(paths)])) == 4
    wrong = access((0, "GET", "/n/n2/comments/1?page=1"), 1.0)._replace(headers={"x-worker": "one"})
    assert "by one" in audit.details([wrong], "details")[0]


def test_the_audit_notices_rows() -> None:
    urls = {number: f"http://h{number}" for number in range(9)}
    none: dict[str, list[dict[str, object]]] = {name: [] for name in TABLE_NAMES}
    wrong = audit.rows(none, STORY, urls)
    assert {one.partition(":")[0] for one in wrong} == set(TABLE_NAMES)
    doubled = none | {"private": [{"token": "t77", "method": "POST", "url": "x"}] * 2}
    assert "private: 1 times ('t77', 'POST') is too many" in audit.rows(doubled, STORY, urls)


TABLE_NAMES = (
    *(
        "articles",
        "articles_paras",
        "comments",
        "products",
        "feedy",
        "tasked",
        "proxied",
        "robotic",
        "faulty",
        "throttled",
    ),
    *("paused", "changed", "remembered", "charsets_wrong", "charsets_right", "hooked", "private", "scheduled"),
)
