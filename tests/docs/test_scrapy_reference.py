"""The worker's page of the reference names everything that a project may use, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gossamer
from gossamer.scrapy.process.run import GOOD
from gossamer.scrapy.request.task import KEYS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "worker.md").read_text("utf-8")
SOURCES = [path for room in ("scrapy", "courier") for path in (ROOT / "src" / "gossamer" / room).rglob("*.py")]
COUNTED = re.compile(r'(?:_count|pending_counters\.add)\(\s*f?"((?:gossamer|scheduler)/[^"]+)"')


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(title: str) -> set[str]:
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_public_name_is_there() -> None:
    assert gossamer._PUBLIC
    assert [name for name in gossamer._PUBLIC if f"`gossamer.{name}" not in section("Names")] == []
    for name in re.findall(r"`gossamer\.(\w+)", section("Names")):
        assert name == "scrapy_redis" or getattr(gossamer, name)


def test_every_task_key_is_there_and_no_other() -> None:
    assert first_cells("Tasks") == set(KEYS)


def test_every_stat_that_the_worker_adds_is_there() -> None:
    counted = {re.sub(r"\{.*\}", "…", name) for path in SOURCES for name in COUNTED.findall(path.read_text("utf-8"))}
    assert "gossamer/lost" in counted
    assert counted - first_cells("Stats") == set()


def test_every_good_end_is_there() -> None:
    assert GOOD - first_cells("Why a worker ended") == set()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_python_on_a_page_is_python(page: Path) -> None:
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    ):
        compile(code, f"{page.name} block {number}", "exec")
