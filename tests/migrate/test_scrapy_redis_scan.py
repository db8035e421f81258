"""What the scanner finds in texts, and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from gossamer.cli import main
from gossamer.migrate.scrapy_redis import RULES, scan
from gossamer.migrate.scrapy_redis.names import SPECIAL
from gossamer.scrapy.request import plain_state

USES = "import scrapy_redis.spiders as _\n"
ROOM = Path(__file__).parents[2] / "src" / "gossamer" / "migrate" / "scrapy_redis"


def codes(text: str, name: str = "a.py", **more: str) -> list[str]:
    """Line and code of all but what every one of these texts has: the import of `USES`, and a server that nobody names."""
    files = {name: dedent(text), **{f"{each}.py": dedent(other) for each, other in more.items()}}
    found = scan({path: data.encode() for path, data in files.items()}).findings
    return [
        f"{each.line} {each.code}" for each in found if each.path == name and each.code not in ("import", "no-server")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.PriorityQueue'", ["2 path", "2 queue-class"]),
        ("SCHEDULER_QUEUE_CLASS = 'scrapy_redis.queue.SpiderStack'", ["2 lifo-queue-class", "2 path"]),
        ("custom_settings = {'SCHEDULER_QUEUE_KEY': 'q'}", ["2 queue-key"]),
        ("settings.set('SCHEDULER_DUPEFILTER_KEY', 'k')", ["2 dupefilter-key"]),
        ("SCHEDULER_QUEUE_KEY = '%(spider)s:requests'", ["2 setting"]),
        ("SCHEDULER_QUEUE_KEY = 'q'\nGOSSAMER_CRAWL = 'a'", ["2 setting", "3 setting"]),
        ("DUPEFILTER_KEY = 'a%(timestamp)s'", ["2 timestamp-key"]),
        ("settings['SCHEDULER_SERIALIZER'] = 'json'", ["2 serializer"]),
        ("DUPEFILTER_CLASS = 'scrapy.dupefilters.BaseDupeFilter'", ["2 no-filter"]),
        ("DUPEFILTER_CLASS = 'other.place.Filter'", ["2 outside-dupefilter-class"]),
        ("SCHEDULER = env('S')", ["2 dynamic-value"]),
        ("cmdline.execute('scrapy crawl a -s SCHEDULER_FLUSH_ON_START=1'.split())", ["2 flush-on-start"]),
        ("process = CrawlerProcess(dict(SCHEDULER_PERSIST=True))", ["2 setting"]),
        ("FEEDS = {'out.json': {'format': 'json'}}", ["2 feeds"]),
        ("custom_settings = {'FEED_URI': 's3://key:word@bucket/%(name)s.json'}", ["2 feeds-apart"]),
        ("FEEDS = {'%(batch_id)d.jl': {'batch_item_count': 100}}", ["2 feeds-apart"]),
        ("cmdline.execute('scrapy crawl a -o a.csv'.split())", ["2 feeds"]),
        ("class A:\n    custom_settings = made()", ["3 dynamic-settings"]),
        ("class A:\n    custom_settings = dict(SCHEDULER_QUEUE_KEY='q')", ["3 queue-key"]),
        ("class A:\n    custom_settings = dict(made, SCHEDULER_QUEUE_KEY='q')", ["3 dynamic-settings", "3 queue-key"]),
        ("class A:\n    custom_settings = {**made, 'a': 1}", ["3 dynamic-settings"]),
        ("settings.update(other)", ["2 dynamic-settings"]),
        ("globals().update(other)", ["2 dynamic-settings"]),
        ("locals().update(other)", ["2 dynamic-settings"]),
        (
            ("try:\n    from scrapy_redis.spiders import RedisSpider\nexcept ImportError:\n    from .mine import RedisSpider\n"
            "class A(RedisSpider):\n    def spider_idle(self): ...\n"),
            ["7 spider-idle"],
        ),
        ("from scrapy_redis_bloomfilter.scheduler import Scheduler", ["2 package-bloom"]),
        ("SCHEDULER = 'scrapy_redis_bloomfilter.scheduler.Scheduler'", ["2 package-bloom"]),
        ("import scrapy_redis_cluster", ["2 package-cluster"]),
        ("from scrapy_redis_sentinel import defaults", ["2 package-sentinel"]),
        ("import scrapy_redis_expiredupefilter", ["2 package-other"]),
        ("BLOOMFILTER_BIT = 30", ["2 package-bloom"]),
        ("server.zcard('shop:requests')", ["2 key-queue-read"]),
        ("server.zcard('%s:requests' % name)", ["2 key-queue-read"]),
        ("server.delete(f'{name}:dupefilter', name + ':requests')", ["2 key-queue-clear", "2 key-seen-clear"]),
        ("server.execute_command('SCARD', '{}:dupefilter'.format(name))", ["2 key-seen-read"]),
        ("KEY = 'shop:dupefilter'\nserver.srem(KEY, 'x')", ["3 key-seen-write"]),
        ("server.lpush('shop:start_urls', 'http://site')", ["2 key-seeds"]),
        ("server.llen('shop:start_urls')", ["2 key-seeds-read"]),
        ("server.lrange('shop:items', 0, -1)", ["2 key-items"]),
        ("server.hgetall('shop:stats')", ["2 key-stats"]),
        ("server.flushdb()", ["2 flush-server"]),
        ("server.zcard('scores')", []),
        ("'shop:requests'.upper()", []),
        ("import pickle\npickle.loads(x)", ["3 pickle"]),
        ("from scrapy_redis import picklecompat", ["2 picklecompat"]),
        ("from .scrapy_redis.spiders import RedisSpider", ["2 copied-package"]),
        ("import urllib2", ["2 python-2"]),
        ("setup(install_requires=['scrapy-redis>=0.6'])", ["2 requirement"]),
        ("crawler.engine.slot.scheduler.df.clear()", ["2 scheduler-parts"]),
        ("from scrapy.signals import spider_idle", ["2 idle-signal"]),
        ("a = 'scrapy_' 'redis.spiders'", ["2 hidden-path"]),
        ("__import__('scrapy_redis.spiders')", ["2 hidden-path"]),
        ("a = 'scrapy_redis'", ["2 bare-name"]),
        ("import logging\nlogging.getLogger('scrapy_redis')", ["3 path"]),
    ],
)  # fmt: skip
def test_a_place_is_found(text: str, expected: list[str]) -> None:
    assert codes(USES + text) == expected


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("lambda: 1", "unstorable-in-meta"),
        ("Product(a=1)", "item-in-meta"),
        ("item", "item-in-meta"),
        ("[1, {'b': item}]", "item-in-meta"),
        ("copy.deepcopy(item)", "item-in-meta"),
        ("Offer(1)", "item-in-meta"),
        ("loader", "loader-in-meta"),
        ("functools.partial(self.parse_item, 1)", ""),
        ("functools.partial(helper, 1)", "unstorable-in-meta"),
        ("loader.load_item()", "item-in-meta"),
        ("response", "unstorable-in-meta"),
        ("self", "unstorable-in-meta"),
        ("row", "unstorable-in-meta"),
        ("response.css('a')", "unstorable-in-meta"),
        ("helper", "unstorable-in-meta"),
        ("Account('x')", "item-in-meta"),
        ("Copied('x')", "object-in-meta"),
        ("Client()", "object-in-meta"),
        ("(n for n in [])", "unstorable-in-meta"),
        ("response.css('a::text').get()", ""),
        ("{'a': [1, 'b']}", ""),
        ("response.meta['item']", ""),
        ("item['a']", ""),
    ],
)
@pytest.mark.parametrize(
    "way",
    [
        "yield Request('http://site', meta={'x': VALUE})",
        "yield response.follow('/', cb_kwargs=dict(x=VALUE))",
        "request.meta['x'] = VALUE",
        "more = {'x': VALUE}; yield scrapy.Request('http://site', meta=more)",
        "more = {}; more['x'] = VALUE; yield scrapy.Request('http://site', meta=more)",
    ],
)
def test_what_requests_carry_is_judged(value: str, code: str, way: str) -> None:
    text = f"""
    import copy, functools
    import scrapy
    from scrapy.loader import ItemLoader
    from items import Offer, Product
    from scrapy_redis.spiders import RedisSpider
    from scrapy import Request

    class Account: pass

    class Copied(Account):
        def __getstate__(self): pass

    class Client(requests.Session): pass

    def helper(): pass

    class Shop(RedisSpider):
        def parse(self, response):
            item = Product()
            loader = ItemLoader(item, response)
            for row in response.css('tr'):
                {way.replace("VALUE", value)}
    """
    items = """
    import scrapy
    from dataclasses import dataclass
    class Product(scrapy.Item): pass
    @dataclass
    class Offer:
        price: int
    """
    found = codes(text, items=items)
    assert found == ([f"23 {code}"] if code else [])


def test_classes_are_followed_through_the_project() -> None:
    text = """
    from base import BaseFilter, BaseScheduler, BaseSpider
    class Filter(BaseFilter):
        def request_seen(self, request): ...
    class Print(BaseFilter):
        def request_fingerprint(self, request): ...
    class Own(BaseScheduler):
        df = None
        def enqueue_request(self, request): ...
        def close(self, reason): ...
        def helper(self): ...
    class Shop(BaseSpider):
        def make_request_from_data(self, data): ...
        def schedule_next_requests(self): ...
        def spider_idle(self): ...
        def start_requests(self): ...
    """
    base = """
    import scrapy_redis.scheduler as s
    from scrapy_redis import spiders
    from scrapy_redis.dupefilter import RFPDupeFilter as F
    class BaseFilter(F): pass
    class BaseScheduler(s.Scheduler): pass
    class BaseSpider(spiders.RedisSpider): pass
    """
    assert codes(text, base=base) == [
        "4 request-seen", "6 request-fingerprint", "7 scheduler-subclass", "13 make-request", "14 next-requests",
        "15 spider-idle", "16 start-requests",
    ]  # fmt: skip
    report = scan({"a.py": dedent(text).encode(), "base.py": dedent(base).encode()})
    told = [
        (each.code, each.what) for each in report.findings if each.code.endswith(("scheduler", "scheduler-subclass"))
    ]
    own, empty = "class Own overrides enqueue_request, close", "class BaseScheduler overrides nothing"
    assert told == [("scheduler-subclass", own), ("empty-scheduler", empty)]
    files = {"a.py": dedent(text).encode(), "base.py": dedent(base).encode()}
    for named, code in (("scrapy_redis.scheduler.Scheduler", "unused-scheduler"), ("a.Own", "scheduler-subclass")):
        found = scan({**files, "settings.py": f"SCHEDULER = '{named}'\n".encode()}).findings
        assert [each.code for each in found if each.what == own] == [code]


def test_a_server_that_is_named_is_not_missing() -> None:
    def missing(line: str) -> bool:
        found = scan({"settings.py": f"SCHEDULER = 'scrapy_redis.scheduler.Scheduler'\n{line}\n".encode()}).findings
        return any(each.code == "no-server" for each in found)

    assert missing("")
    assert missing("REDIS_PARAMS = {'password': 'x'}")
    assert not missing("REDIS_HOST = 'cache'")
    assert not missing("REDIS_PARAMS = {'host': 'cache'}")
    assert not any(each.code == "no-server" for each in scan({"a.py": b"SCHEDULER = 'x'\n"}).findings)


def test_passwords_are_not_shown() -> None:
    text = b"import scrapy_redis\nREDIS_URL = 'redis://:pass-word@cache'\nREDIS_PARAMS = {'password': 'pass-word'}\n"
    text += b"FEED_URI = 's3://key:pass-word@bucket/a.json'\n"
    report = scan({"settings.py": text})
    assert not [each for each in report.findings if "pass-word" in each.what]


def test_a_starred_import_brings_the_classes() -> None:
    text = "from scrapy_redis.spiders import *\nclass A(RedisSpider):\n    def next_requests(self): pass\n"
    assert codes(text) == ["3 next-requests"]


def test_classes_whose_objects_are_not_stored_are_those_that_workers_refuse() -> None:
    assert SPECIAL == plain_state.SPECIAL


def test_scripts_and_requirements_are_read_and_not_written() -> None:
    report = scan(
        {
            "watch.sh": b"#!/bin/sh\n# redis-cli zcard old:requests\nredis-cli -n 2 ZCARD shop:requests\nredis-cli del 'shop:dupefilter' shop:requests\n",
            "requirements.txt": b"scrapy\nscrapy-redis==0.7.3\n",
            "requirements/base.in": b"scrapy_redis\n",
            "dev-requirements.txt": b"scrapy-redis\n",
            "Dockerfile": b"RUN pip install scrapy scrapy-redis\nCMD scrapy crawl a -s SCHEDULER=scrapy_redis.scheduler.Scheduler\n",
        }
    )
    assert [f"{each.where} {each.code}" for each in report.findings] == [
        "Dockerfile:1 requirement", "Dockerfile:2 text-path", "dev-requirements.txt:1 requirement", "requirements.txt:2 requirement",
        "requirements/base.in:1 requirement", "watch.sh:3 key-queue-read", "watch.sh:4 key-queue-clear", "watch.sh:4 key-seen-clear",
    ]  # fmt: skip
    assert not report.edits


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"from scrapy_redis.spiders import RedisSpider\nprint 'a'\n", ["2 python-2", "1 unwritten"]),
        (b"try:\n    pass\nexcept ValueError, e:\n    pass\n", ["3 python-2"]),
        (b"def broken(:\n", ["1 unreadable"]),
        (b"# coding: klingon\n", ["0 unreadable"]),
        (b"a = '\xff\xfe'\n", ["0 unreadable"]),
        (b"a = 1\0\n", ["1 unreadable", "0 unreadable"]),
    ],
)
def test_what_cannot_be_parsed_is_told(data: bytes, expected: list[str]) -> None:
    report = scan({"old.py": data})
    assert {f"{each.line} {each.code}" for each in report.findings} <= set(expected)
    assert report.findings
    assert not report.rewritten


def test_a_copy_of_the_package_in_the_project_is_told_and_left_alone() -> None:
    copied = b"from scrapy_redis.queue import Base\n"
    report = scan({"shop/scrapy_redis/scheduler.py": copied, "shop/scrapy_redis/queue.py": copied})
    assert [(each.where, each.code) for each in report.findings] == [("shop/scrapy_redis", "copied-package")]
    assert not report.edits


def test_every_code_has_a_rule_and_every_rule_a_place() -> None:
    text = "".join(file.read_text() for file in ROOM.glob("*.py") if file.name != "rules.py")
    made = {f"key-{name}-{doing}" for name in ("queue", "seen") for doing in ("read", "write", "clear")}
    made |= {
        "key-items",
        "key-stats",
        "own-stats",
        "own-pipeline",
        "setup-redis",
        "fetch-data",
        "start-requests",
        "spider-idle",
    }
    made |= {f"outside-{name}" for name in ("dupefilter-class", "scheduler", "stats-class")}
    made |= {f"package-{name}" for name in ("bloom", "cluster", "sentinel", "other")}
    for code in RULES:
        assert code in made or re.search(rf'"{code}"', text), code


def test_every_command_that_a_remedy_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = {
        tuple(words.split())
        for rule in RULES.values()
        for words in re.findall(r"`gossamer ([a-z-]+(?: [a-z-]+)?)", rule.remedy)
    }
    assert len(named) > 5
    for words in named:
        assert main([*words, "--help"]) == 0, words
