"""The page on scrapy-redis names every module and every setting that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "src" / "gossamer" / "scrapy_redis"
PAGE = (ROOT / "docs" / "reference" / "scrapy-redis.md").read_text("utf-8")
SETTING = re.compile(r'"((?:REDIS|SCHEDULER|DUPEFILTER|MAX_IDLE|STATS|CONCURRENT)_[A-Z_]+)"')
MODULES = {
    "connection", "defaults", "dupefilter", "queue", "picklecompat", "pipelines", "stats", "utils", "spiders", "scheduler",
}  # fmt: skip
# Names of values in `defaults`, not of settings.
OTHERS = {"REDIS_CLS"}


def test_every_setting_that_is_read_stands_on_the_page() -> None:
    read = {name for file in ROOM.rglob("*.py") for name in SETTING.findall(file.read_text("utf-8"))} - OTHERS
    assert "REDIS_START_URLS_KEY" in read
    assert [name for name in sorted(read) if f"`{name}`" not in PAGE] == []


def test_every_setting_on_the_page_is_read() -> None:
    text = "".join(file.read_text("utf-8") for file in ROOM.rglob("*.py"))
    named = set(re.findall(r"`((?:REDIS|SCHEDULER|DUPEFILTER|MAX_IDLE|STATS)_[A-Z_]+)`", PAGE))
    assert [name for name in sorted(named) if f'"{name}"' not in text] == []


def test_every_module_stands_on_the_page() -> None:
    assert {file.stem for file in ROOM.glob("*.py")} >= MODULES
    assert [name for name in MODULES if f"| `{name}` |" not in PAGE] == []
