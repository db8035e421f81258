"""The crawl benchmark: its site, its arithmetic, its targets. No speed is asserted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from bench import crawl
from bench.crawl import Key
from bench.crawls.contender import OURS, PLAIN, REDIS, REDIS_STATS, TUNED
from bench.crawls.distance import Distance
from bench.crawls.lap import Lap, executed, lap_of, ratio
from bench.crawls.shape import LINKS, PAGE_BYTES, RULES, Shape
from bench.crawls.site import STRANGER, SiteProcess, Visit
from bench.storage.measure import Progress

from gossamer.testing.resp import RespConnection
from gossamer.testing.servers import Server


@pytest.fixture(scope="module")
def site() -> Iterator[SiteProcess]:
    with SiteProcess(Shape("ten", 50, hosts=2), delay=0.001) as running:
        yield running


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pages", [1, 2, 997])
def test_every_page_can_be_reached_from_the_front_page(rule: str, pages: int) -> None:
    shape, found, todo = Shape(rule, pages), {0}, [0]
    while todo:
        links = [link for link in shape.links(todo.pop()) if link not in found]
        found.update(links)
        todo += set(links)
    assert found == set(range(pages))


def test_a_page_of_the_graph_has_fifteen_links_in_two_kilobytes() -> None:
    shape = Shape("graph", 5_000)
    assert {len(shape.links(number)) for number in range(0, 5_000, 97)} == {LINKS}
    assert {len(shape.body(number, ["http://127.0.0.1:1"])) for number in range(0, 5_000, 97)} == {PAGE_BYTES}


def test_children_lie_on_other_hosts() -> None:
    body = Shape("ten", 50, hosts=2).body(0, ["http://a", "http://b"]).decode()
    assert 'href="http://b/ten/1"' in body
    assert 'href="http://a/ten/2"' in body


def fetch(origin: str, *paths: str) -> list[int]:
    connection = HTTPConnection(origin.removeprefix("http://"), timeout=30)
    statuses = []
    for path in paths:
        connection.request("GET", path, headers={"User-Agent": "somebody"})
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    return statuses


def test_the_site_remembers_every_visit(site: SiteProcess) -> None:
    site.reset()
    assert fetch(site.origins[0], "/ten/0", "/ten/4", "/ten/4", "/robots.txt") == [200, 200, 200, 404]
    assert fetch(site.origins[1], "/ten/7", "/ten/4") == [200, 404], "a page lies on one host only"
    visits = site.visits()
    assert [(visit.host, visit.page) for visit in visits] == [
        (0, 0), (0, 4), (0, 4), (0, STRANGER), (1, 7), (1, STRANGER),
    ]  # fmt: skip
    assert {(visit.in_flight, visit.who) for visit in visits} == {(1, "somebody")}
    assert sorted(visits) == visits
    assert (site.requests(), site.pages()) == (6, 4)
    site.reset()
    assert site.visits() == []


def test_round_trips_are_counted_and_take_longer(valkey_server: Server) -> None:
    with Distance(valkey_server.port, 0.02) as far, RespConnection(("127.0.0.1", far.port)) as connection:
        # In one piece and in several: the answer, too.
        assert connection.call("ECHO", "x") == "x"
        assert len(str(connection.call("ECHO", "x" * 1_000_000))) == 1_000_000
        assert far.round_trips == 2
        assert far.measured() >= 0.02


def visits(*pages: int) -> list[Visit]:
    return [Visit(10.0 + place / 4, page, 0, 1, "x") for place, page in enumerate(pages)]


def test_a_lap_is_timed_from_the_first_to_the_last_arrival() -> None:
    lap = lap_of(visits(0, 1, 2, 1, 3), 4, client=2.0)
    assert lap == Lap(pages=4, wall=1.0, client=2.0)
    assert lap.rate == 4.0


def test_a_crawl_that_is_not_complete_is_none() -> None:
    with pytest.raises(RuntimeError, match="2 of 5 pages"):
        lap_of(visits(0, 1, 3, -1), 5, client=1.0)


def test_commands_that_only_watch_do_not_count() -> None:
    stats = {"cmdstat_fcall": "calls=7,usec=9", "cmdstat_sadd": "calls=20,usec=1", "cmdstat_info": "calls=3,usec=1"}
    assert executed(stats) == (27, 7)


def test_ratios_are_medians_of_the_rounds_own() -> None:
    ours = [Lap(100, wall, 1.0) for wall in (1.0, 2.0, 9.0)]
    theirs = [Lap(100, wall, 1.0) for wall in (3.0, 4.0, 9.0)]
    assert ratio(ours, theirs, lambda lap: lap.rate) == 2.0


def laps(rate: float, server: float = 0.0, trips: int | None = None, distance: float = 0.0) -> list[Lap]:
    return [Lap(1_000, 1_000 / rate, 2.0, server, 500, 400, trips, distance)] * 3


FOUND = {
    Key(PLAIN): laps(200),
    Key(TUNED): laps(400),
    Key(REDIS): laps(100, server=2.0),
    Key(REDIS_STATS): laps(40, server=8.0),
    Key(OURS): laps(400, server=0.4),
    Key(OURS, away=True): laps(380, server=0.4, trips=300, distance=0.001),
    Key(OURS, counted=True): laps(300, server=0.4, trips=500),
}


def test_targets_at_their_edge_are_reached() -> None:
    assert {one.name: (one.figure, one.reached) for one in crawl.targets(FOUND)} == {
        "pages/s, to Scrapy": ("2.00×; 1.00× by processor time", True),
        "pages/s, to Scrapy, tuned alike": ("1.00×; 1.00× by processor time", True),
        "pages/s, to scrapy-redis": ("4.00×; 1.00× by processor time", True),
        "pages/s, to scrapy-redis with stats": ("10.00×; 1.00× by processor time", True),
        "round trips per page": ("0.50", True),
        "server time per page, to scrapy-redis": ("1/5.0", True),
        "pages/s with the server away, to without": ("0.95×", True),
    }


def test_every_target_can_be_missed() -> None:
    slow = FOUND | {
        Key(OURS): laps(370, server=0.5),
        Key(OURS, away=True): laps(330),
        Key(OURS, counted=True): laps(300, trips=510),
    }
    assert not any(one.reached for one in crawl.targets(slow))


def test_the_table_has_the_counted_round_trips_beside_the_timed_laps() -> None:
    text = crawl.report(FOUND, ["something"])
    [line] = [line for line in text.splitlines() if "| Gossamer" in line and "ms" not in line]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells == ["1", "", OURS, "400", "2.00", "400", "0.5", "0.50", "2.00×", "1.00×"]
    assert "Left out for want of time: something." in text


@pytest.mark.timeout(400)
def test_the_command_lets_contenders_crawl_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crawl, "QUICK", crawl.Scale(seconds=3_600, rounds=1, lap=0.1, workers=1))
    path = tmp_path / "deeper" / "figures.json"
    who = ["--only", OURS, "--only", TUNED]
    assert crawl.main(["--quick", "--rule", "forum", *who, "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert [(row["contender"], row["workers"], row["distance_ms"] > 0) for row in figures["crawl"]] == [
        (OURS, 1, False), (TUNED, 1, False), (OURS, 1, True),
    ]  # fmt: skip
    assert figures["crawl"][0]["round_trips"] > 0
    assert [one["name"] for one in figures["targets"]] == [
        "pages/s, to Scrapy, tuned alike",
        "round trips per page",
        "pages/s with the server away, to without",
    ]
    assert "round trips per page" in capsys.readouterr().out


def test_what_does_not_fit_is_left_out() -> None:
    progress = Progress(0, quiet=True)
    found: crawl.Found = {}
    crawl.measure(crawl.QUICK, "graph", [PLAIN], progress, found)
    assert found == {}
    assert len(progress.skipped) == 1


def test_what_was_measured_before_ctrl_c_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*given: Any) -> None:
        given[-1].update(FOUND)
        raise KeyboardInterrupt

    monkeypatch.setattr(crawl, "measure", interrupted)
    path = tmp_path / "figures.json"
    assert crawl.main(["--quick", "--json", str(path)]) == 130
    figures = json.loads(path.read_text())
    assert figures["interrupted"]
    assert len(figures["targets"]) == 7
