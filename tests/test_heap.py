"""Garbage collection while a crawl runs: what was loaded before it is left out."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gossamer import heap


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The tests' own process has frozen what it has collected (`tests/conftest.py`)."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_what_is_loaded_is_left_out_of_collection_during_a_crawl() -> None:
    assert gc.get_freeze_count() == 0
    heap.begin_crawl()
    loaded = gc.get_freeze_count()
    assert loaded > 10_000
    heap.begin_crawl()
    heap.end_crawl()
    assert gc.get_freeze_count() >= loaded * 0.9, "another one goes on"
    heap.end_crawl()
    assert gc.get_freeze_count() == 0
    gc.freeze()
    try:
        heap.begin_crawl()
        heap.end_crawl()
        assert gc.get_freeze_count(), "it was not ours"
    finally:
        gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_young_objects_are_looked_at_less_often_during_a_crawl() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 11, 12)
        with heap.during_crawl():
            assert gc.get_threshold() == (heap.YOUNG, 11, 12)
            assert gc.get_freeze_count()
        assert (gc.get_threshold(), gc.get_freeze_count()) == ((700, 11, 12), 0)
        for own in (0, 50_000):
            gc.set_threshold(own, 11, 12)
            with heap.during_crawl():
                assert gc.get_threshold() == (own, 11, 12), "a project that chose otherwise keeps its choice"
    finally:
        gc.set_threshold(*before)
