"""An engine of Scrapy that lacks what a worker uses is refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.errors import UnsupportedScrapy
from gossamer.scrapy.page.engine_hooks import NEEDED, check

SETS = {"_slot.inprogress", "downloader.active"}
ONLY_THERE = {"_start", "_SLOT_HEARTBEAT_INTERVAL"}


def engine() -> Any:
    made = SimpleNamespace()
    for path in NEEDED:
        *parts, name = path.split(".")
        part = made
        for one in parts:
            part.__dict__.setdefault(one, SimpleNamespace())
            part = getattr(part, one)
        setattr(part, name, set() if path in SETS else None if path in ONLY_THERE else print)
    return made


def part_of(made: Any, path: str) -> tuple[Any, str]:
    *parts, name = path.split(".")
    for one in parts:
        made = getattr(made, one)
    return made, name


def test_an_engine_with_everything_is_used() -> None:
    check(engine())


@pytest.mark.parametrize("path", NEEDED)
def test_what_an_engine_lacks_is_named(path: str) -> None:
    made = engine()
    delattr(*part_of(made, path))
    with pytest.raises(UnsupportedScrapy, match=rf" has no engine\.{path}\. "):
        check(made)


@pytest.mark.parametrize("path", sorted(set(NEEDED) - ONLY_THERE))
def test_what_is_something_else_in_an_engine_is_named(path: str) -> None:
    made = engine()
    part, name = part_of(made, path)
    setattr(part, name, None)
    with pytest.raises(UnsupportedScrapy, match=rf" has no engine\.{path}\. "):
        check(made)
    setattr(part, name, [])
    with pytest.raises(UnsupportedScrapy, match=rf" has no engine\.{path}\. "):
        check(made)


def test_an_engine_without_a_slot_lacks_all_of_it() -> None:
    made = engine()
    made._slot = None
    with pytest.raises(UnsupportedScrapy, match=r"engine\._slot\.inprogress, engine\._slot\.nextcall\.schedule, "):
        check(made)
