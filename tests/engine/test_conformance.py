"""Both engines, one meaning: every case is crawled by each of them, and what came of it is the same, request by request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from secrets import token_hex

import pytest
from tests.engine.conformance import Asked, Came, Case, crawled
from tests.engine.conformance_cases import CASES
from tests.worker.harness.variants import FIRST

from gossamer.testing.servers import Server

ENGINES = ("native", "scrapy", f"scrapy {FIRST}")
Both = dict[str, dict[str, Came]]


@pytest.fixture(scope="module")
def both(valkey_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """What came of all cases, by engine; one worker process for each."""
    with ExitStack() as stack:
        yield {
            engine: stack.enter_context(
                crawled(valkey_server, f"c{token_hex(6)}", tmp_path_factory.mktemp(engine[:6]), engine, CASES)
            )
            for engine in ENGINES
        }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_means_what_it_should(both: Both, case: Case, engine: str) -> None:
    case.check(both[engine][case.name])


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_means_the_same(both: Both, case: Case, engine: str) -> None:
    native, scrapy = both["native"][case.name], both[engine][case.name]
    for part in ("asked", "other"):
        one, two = (_in_order(getattr(came, part), case.same_order) for came in (native, scrapy))
        assert one == two, part
    assert sorted(map(repr, native.items)) == sorted(map(repr, scrapy.items))
    assert [reason for reason, _ in native.dead] == [reason for reason, _ in scrapy.dead]
    assert native.counters == scrapy.counters
    assert native.told == scrapy.told


def _in_order(asked: list[Asked], kept: bool) -> list[tuple[object, ...]]:
    rows = [(one.method, one.target, tuple(sorted(one.headers.items())), one.body) for one in asked]
    return list(rows) if kept else sorted(rows)
