"""Modules, classes and files that a page names are there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from scripts.reflow import ROOT, pages

NAME = re.compile(r"\bgossamer(?:\.[A-Za-z_]\w*)+")
PATH = re.compile(r"\b(?:src|tests|scripts|bench|examples|docs)/[\w./*-]*[\w*]")
FILES = {"gossamer.toml", "gossamer.json"}
MADE = {"bench/results"}
"""What the benches write."""


def there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)  # type: ignore[assignment]
        return found is not None
    return False


def missing(text: str) -> list[str]:
    names = [name for name in sorted(set(NAME.findall(text)) - FILES) if not there(name)]
    return names + [path for path in sorted(set(PATH.findall(text)) - MADE) if not list(ROOT.glob(path))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_is_there(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


def test_what_is_not_there_is_found() -> None:
    text = "`gossamer.scrapy.scheduler.FleetScheduler`, gossamer.worker, `gossamer.Addons`; src/gossamer/cli, tests/unit, `tests/*/test_no`"
    assert missing(text) == ["gossamer.Addons", "gossamer.worker", "tests/*/test_no", "tests/unit"]
