"""What the scanner says of projects as people write them, and that what it writes is what the tests of these run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.scrapy_redis.sides import SIDES
from tests.support.scrapy_redis.style import PREFIX, PROJECTS

from gossamer.migrate.scrapy_redis import RULES, FindingVerdict, Project, scan

DIFFERENCES: dict[str, set[str]] = {
    "bloom": {"bloom.py:31 request-seen", "scheduler.py:5 scheduler-subclass"},
    "chain": set(),
    "closing": {"spiders.py:10 next-requests"},
    "commands": {
        "commands/look.py:16 scheduler-from-settings",
        "commands/look.py:18 scheduler-parts",
        "push.py:14 key-seeds-read",
    },
    "details": set(),
    "emptykey": {"extensions.py:10 idle-signal", "extensions.py:14 key-seeds-read"},
    "generator": set(),
    "noserver": set(),
    "pickled": set(),
    "queue": {"settings.py:8 own-queue-class"},
    "rules": set(),
    "seeds": set(),
    "seen": {"dupefilter.py:9 request-seen"},
    "server": set(),
    "single": set(),
    "smartidle": {"extensions.py:20 idle-signal", "extensions.py:33 key-seeds-read"},
}
"""By project: each place that is not as it was, and why."""


def test_every_project_is_known() -> None:
    assert set(DIFFERENCES) == {path.name for path in PROJECTS.iterdir() if (path / "settings.py").exists()}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_report_names_what_differs(name: str) -> None:
    found = scan(Project(PROJECTS / name).read()).findings
    told = {f"{each.where} {each.code}" for each in found if RULES[each.code].verdict is not FindingVerdict.MOVES}
    assert told == DIFFERENCES[name]


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_is_written_is_what_runs(name: str, tmp_path: Path) -> None:
    shutil.copytree(PROJECTS / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    project = Project(tmp_path / name)
    project.write(scan(project.read()).rewritten)
    for file in (tmp_path / name).rglob("*.py"):
        there = (PROJECTS / name / file.relative_to(tmp_path / name)).read_text()
        assert file.read_text() == PREFIX.sub(SIDES[1], there), file
    again = scan(project.read())
    assert not again.edits, "a rewritten project has nothing left to rewrite"
    told = {
        f"{each.where} {each.code}" for each in again.findings if RULES[each.code].verdict is not FindingVerdict.MOVES
    }
    assert told == DIFFERENCES[name], "and its differences are still named"
