"""The short form of scripts/chaos/mixture.py: sites with rows and a spider with a feed in one crawl, over rounds, while things break."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from scripts.chaos.mixture import KINDS, Embedded, run


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "seed"), [("embedded", 3), ("partitions", 101), ("sentinel", 5)])
def test_tables_files_and_exports_have_what_the_pages_had(kind: str, seed: int) -> None:
    mixture = run(kind, random.Random(seed), rounds=2)
    assert not mixture.wrong, "\n".join([*mixture.story, *mixture.wrong])


@pytest.fixture
def mixture() -> Iterator[Embedded]:
    with ExitStack() as stack:
        yield Embedded(random.Random(1), stack)


def test_what_lacks_and_what_is_too_much_is_noticed(mixture: Embedded) -> None:
    for found, doubled, right in (
        ("ab", False, True), ("a", False, False), ("abb", False, False), ("abb", True, True), ("abc", True, False),
        ("aa", True, False),
    ):  # fmt: skip
        mixture.wrong.clear()
        mixture.compare("letters", found, "ab", doubled=doubled)
        assert (not mixture.wrong) is right, (found, doubled)


def test_a_world_changes(mixture: Embedded) -> None:
    world = mixture.world
    rounds, reached = [], set()
    for _ in range(20):
        reached.add(len(world.titles()))
        rounds.append((world.shown(), world.titles(), world.items(), dict(world.threads), set(world.closed)))
        world.change()
    for what in zip(*rounds, strict=True):
        assert any(before != after for before, after in pairwise(what))
    assert len(reached) > 1, "pages come and go"


def test_every_kind_has_troubles_of_its_own() -> None:
    common = set.intersection(*(set(kind.TROUBLES) for kind in KINDS.values()))
    assert all(set(kind.TROUBLES) - common for kind in KINDS.values())
