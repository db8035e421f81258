"""Both engines, one meaning: every case is crawled by each of them, and what came of it is the same, request by request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

import pytest
from tests.engine.conformance.cases import CASES
from tests.engine.conformance.conformance import Asked, Came, Case, crawled, once
from tests.support.hard_server.server import HardServer
from tests.support.workers.variants import FIRST

from gossamer.testing.servers import Server

ENGINES = ("native", "scrapy", f"scrapy {FIRST}")
All = dict[str, dict[str, Came]]

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="session")
def came(valkey_server: Server, hard: HardServer, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> All:
    """What came of all cases, by engine: one worker process for each, once for all processes of pytest."""
    return once(tmp_path_factory, worker_id, "cases", lambda: _crawled(valkey_server, hard, tmp_path_factory))


def _crawled(server: Server, hard: HardServer, folders: pytest.TempPathFactory) -> All:
    words = {"SECURE": hard.secure_url("/ok"), "AUTHORITY": hard.authority}
    places = [folders.mktemp(engine[:6]) for engine in ENGINES]

    def by(engine: str, place: Path) -> dict[str, Came]:
        with crawled(server, f"c{token_hex(6)}", place, engine, CASES, words=words) as came:
            return came

    # Each waits for retries and delays for most of its time.
    with ThreadPoolExecutor(len(ENGINES)) as side_by_side:
        return dict(zip(ENGINES, side_by_side.map(by, ENGINES, places), strict=True))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_means_what_it_should(came: All, case: Case, engine: str) -> None:
    case.check(came[engine][case.name])


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_means_the_same(came: All, case: Case, engine: str) -> None:
    native, scrapy = came["native"][case.name], came[engine][case.name]
    for part in ("asked", "other"):
        one, two = (_in_order(getattr(each, part), case.same_order) for each in (native, scrapy))
        assert one == two, part
    assert sorted(map(repr, native.items)) == sorted(map(repr, scrapy.items))
    assert [reason for reason, _ in native.dead] == [reason for reason, _ in scrapy.dead]
    assert native.counters == scrapy.counters
    assert native.told == scrapy.told


def _in_order(asked: list[Asked], kept: bool) -> list[tuple[object, ...]]:
    rows = [(one.method, one.target, tuple(sorted(one.headers.items())), one.body) for one in asked]
    return list(rows) if kept else sorted(rows)
