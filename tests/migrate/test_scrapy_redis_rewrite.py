"""What is rewritten, and that nothing else of a file changes."""

from __future__ import annotations

import pytest

from gossamer.migrate.scrapy_redis import scan

CASES = [
    ("import scrapy_redis  # why\n\n\nclass A(scrapy_redis.spiders.RedisSpider): ...\n", 2),
    ("import os, scrapy_redis.queue as q , sys\n", 1),
    ("from  scrapy_redis.spiders import (\n    RedisSpider,  # scrapy_redis.spiders\n)\n", 1),
    ("from \\\n    scrapy_redis import connection\n", 1),
    ("x = {'scrapy_redis.pipelines.RedisPipeline': 300, \"scrapy_redis.x\": 1}\n", 1),
    ("x = f'{a}=scrapy_redis.queue.FifoQueue'\n", 1),
    ("x = '''a\nscrapy_redis.queue.Base\n  scrapy_redis.scheduler.Scheduler'''\n", 2),
    ("x = ('scrapy crawl a '\n     '-s SCHEDULER=scrapy_redis.scheduler.Scheduler')\n", 1),
    ("ä = 'ö'; from scrapy_redis.utils import bytes_to_str; ü = 'scrapy_redis.stats.RedisStatsCollector'\n", 2),
    ('"""scrapy_redis.spiders"""\n# scrapy_redis.spiders\nx = 1\n', 0),
    ("x = 'my_scrapy_redis.spiders', 'vendor.scrapy_redis.spiders', 'scrapy_redis_bloomfilter.queue'\n", 0),
    ("import scrapy_redis.spiders\n\n\ndef f(scrapy_redis): return scrapy_redis.spiders\n", 1),
    ("scrapy_redis = 1\nprint(scrapy_redis)\n", 0),
]


@pytest.mark.parametrize(("text", "places"), CASES)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_only_the_name_is_changed(text: str, places: int, ends: str, encoding: str) -> None:
    if encoding == "latin-1":
        text = f"# -*- coding: latin-1 -*-\n{text}"
    data = text.replace("\n", ends).encode(encoding)
    report = scan({"a.py": data})
    edits = report.edits.get("a.py", [])
    assert len(edits) == places
    written = report.rewritten.get("a.py", data)
    assert written.count(b"gossamer.") == places
    assert written.replace(b"gossamer.", b"") == data, "take the new words out, and the file is what it was"
    assert not scan({"a.py": written}).edits


def test_edits_name_their_lines() -> None:
    report = scan({"a.py": b"\n\nfrom scrapy_redis import queue\nx = '''\nscrapy_redis.queue.Base'''\n"})
    assert [(edit.line, edit.old, edit.new) for edit in report.edits["a.py"]] == [
        (3, "scrapy_redis", "gossamer.scrapy_redis"),
        (5, "scrapy_redis", "gossamer.scrapy_redis"),
    ]
