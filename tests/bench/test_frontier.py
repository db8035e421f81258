"""The benchmark runs: every scenario, as small as it can be. No speed is asserted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import frontier
from bench.figures import decile
from bench.storage import growth, size, speed, target
from bench.storage.clients import Clients
from bench.storage.measure import Progress, start_server
from bench.storage.workload import LINKS, Site

from gossamer.testing.servers import Server

SITE = Site(hosts=20)


@pytest.fixture
def server() -> Iterator[Server]:
    with start_server() as running:
        yield running


@pytest.fixture
def progress() -> Progress:
    return Progress(60, quiet=True)


def test_urls_are_as_long_as_real_ones_and_share_hosts_in_runs() -> None:
    assert len(SITE.url(7)) == 80
    assert len({url.split("/")[2] for url in SITE.urls(0, SITE.run)}) == 1
    assert len({url.split("/")[2] for url in SITE.urls(0, 1000)}) == 20


def test_a_page_has_one_or_two_new_links_on_the_host_of_the_others() -> None:
    known = set(SITE.urls(0, 600))
    pages = [links for client in (0, 1) for links in SITE.links(50, 600, client)]
    assert all(len(links) == LINKS and len({link.split("/")[2] for link in links}) == 1 for links in pages)
    new = [link for links in pages for link in links if link not in known]
    assert len(new) == len(set(new)) == 150


def test_every_contender_does_all_the_work_alone(server: Server, progress: Progress) -> None:
    rows = speed.rows(speed.compare(server, speed.contenders(120, 240), SITE, 1, None, progress), 1, "100 hosts")
    assert len(rows) == len(speed.WORK) * len(speed.contenders(1, 1))
    assert all(row.rate > 0 and row.server_us > 0 for row in rows)
    named = {one.name for one in target.targets({"speed": rows, "queued": [], "seen": [], "growth": []})}
    assert named >= {"adding new", "adding duplicates", "lease and settle", "a whole page", "server time per page"}


def test_contenders_work_in_several_processes_at_once(server: Server, progress: Progress) -> None:
    with Clients(2) as clients:
        rows = speed.rows(speed.compare(server, speed.contenders(120, 240)[:2], SITE, 1, clients, progress), 2, "")
    assert {row.contender for row in rows} == {"scrapy-redis", target.PLAIN}


def test_queued_requests_are_weighed_on_both_sides(server: Server, progress: Progress) -> None:
    rows = size.queued(server, 2000, 20, progress)
    assert [row.contender for row in rows] == ["scrapy-redis", "gossamer"]
    assert all(row.queued > 0 and row.with_seen > 0 for row in rows)


@pytest.mark.parametrize("name", [size.HEX, *size.policies(2000)])
def test_every_memory_is_weighed(name: str) -> None:
    row = size.remembered(name, 2000, 100, time.monotonic() + 60)
    assert 1900 < row.urls <= 2000
    assert row.microseconds > 0
    assert (row.error is not None) == name.startswith("bloom")


def test_a_memory_that_takes_too_long_is_left_out() -> None:
    with pytest.raises(TimeoutError):
        size.remembered("exact", 2000, 0, time.monotonic() - 1)


def test_growth_is_measured(monkeypatch: pytest.MonkeyPatch, progress: Progress) -> None:
    monkeypatch.setattr(growth, "SMALL", 200)
    rows = growth.queued([(1200, 60), (10**9, 0)], 1, 100, progress)
    assert [row.case for row in rows[::2]] == ["200 queued, the same twice", "1,200 queued", "1,200 queued"]
    assert progress.skipped == ["growth: 1,000,000,000 queued; 1,200 are"]


def test_blocked_hosts_are_measured(monkeypatch: pytest.MonkeyPatch, progress: Progress) -> None:
    monkeypatch.setattr(growth, "SMALL", 200)
    rows, once = growth.blocked(300, 1, 100, progress)
    assert len(rows) == 2
    assert once["calls"] >= 1


def test_the_command_prints_tables_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(frontier, "QUICK", frontier.QUICK._replace(queued=300))
    path = tmp_path / "deeper" / "figures.json"
    assert frontier.main(["--quick", "--only", "queued", "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert [row["hosts"] for row in figures["queued"]] == [100, 100, 10_000, 10_000]
    assert "bytes per queued request" in capsys.readouterr().out
    assert figures["left_out"] == []


def test_check_fails_when_a_target_is_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [size.Queued(100, name, 1, 100.0, 110.0) for name in ("scrapy-redis", "gossamer")]
    found = {part: rows if part == "queued" else [] for part in (*frontier.PARTS, "parking")}
    monkeypatch.setattr(frontier, "measure", lambda *_: found)
    arguments = ["--quick", "--json", str(tmp_path / "figures.json")]
    assert frontier.main(arguments) == 0
    assert frontier.main([*arguments, "--check"]) == 1


def test_ctrl_c_ends_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(frontier, "measure", interrupted)
    assert frontier.main(["--quick", "--json", str(tmp_path / "figures.json")]) == 130
    assert not list(tmp_path.iterdir())


def test_a_decile_is_never_beyond_the_values() -> None:
    assert decile([1.0, 100.0]) >= 1.0
    assert decile([3.0]) == 3.0
    assert decile([float(n) for n in range(11)]) == 1.0
