"""`gossamer report`: what each day brought, what failed, what was left out, what is stuck."""

from __future__ import annotations

import csv
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.support.command import Command

from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    CounterChange,
    Ending,
    GroupPolicy,
    LanePolicy,
    RecordPolicy,
    Request,
    Selection,
    Settlement,
    Token,
)
from gossamer.model.reply import selection_info
from gossamer.planner.loop import Planner
from gossamer.testing.clock import advance

DAY = 86_400.0


@pytest.fixture
def two_days(frontier: ValkeyFrontier) -> ValkeyFrontier:
    """A shop that brought four pages and a failure three days ago, and one page and a failure today."""
    frontier.define("shop", {"list": LanePolicy(), "lamp": LanePolicy()})
    now = frontier.counts().now
    advance(frontier, (DAY * 3 / 2 - now % DAY) % DAY)
    token = Token.fresh()
    for first, number in ((0, 5), (10, 2)):
        if first:
            advance(frontier, 3 * DAY)
        payloads = [codec.encode_request({"url": f"https://shop.example/{first + n}"}) for n in range(number)]
        requests = [Request(first + n + 1, f"h{n}", "shop.lamp", payload) for n, payload in enumerate(payloads)]
        frontier.add(requests)
        broken, *rest = frontier.exchange(token, want=100).leases
        token = token.next()
        ends = [Settlement(broken, Ending.FAILED, reason="lack", detail="no title")]
        ends += [Settlement(lease, items=[b"i"]) for lease in rest]
        counters = [
            CounterChange("shop", "site/rows/lamp", 2.0 * len(rest)),
            CounterChange("shop", "site/lacking/lamp", 1),
        ]
        frontier.exchange(token, settle=ends, counters=counters)
        token = token.next()
    return frontier


def test_each_day_is_told_by_layer(two_days: ValkeyFrontier, command: Command, tmp_path: Path) -> None:
    rows = command("report", "daily", "--json").json
    lamps = [row for row in rows if row["layer"] == "lamp"]
    assert [(x["fetched"], x["finished"], x["failed"], x["lacking"], x["rows"]) for x in lamps] == [
        (5, 4, 1, 1, 8),
        (2, 1, 1, 1, 2),
    ]
    assert [row["items"] for row in rows if row["layer"] == ""] == [4, 1]
    [whole, today] = command("report", "daily", "--site", "shop", "--days", "1").rows
    assert (whole[1:3], today[1:6]) == (["shop", ""], ["shop", "lamp", "2", "1", "0"])
    chart = tmp_path / "lamps.svg"
    told = command("report", "daily", "--csv", "--chart", str(chart), "--days", "10")
    assert [row["finished"] for row in csv.DictReader(told.out.splitlines()) if row["layer"]] == ["4", "1"]
    [line] = ElementTree.parse(chart).getroot().iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.get("points", "").split()) == 10
    assert "--what nope: there are fetched" in command("report", "daily", "--what", "nope", code=2).err
    day = datetime.now(UTC).date()
    assert any(str(day - timedelta(days=back)) in chart.read_text() for back in (0, 1)), "days have their dates"
    command("report", "daily", "--chart", str(chart.with_suffix(".png")), "--days", "1")
    assert chart.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    said = command("report", "daily", "--chart", "lamps.jpg", code=2).err
    assert "charts are SVG or PNG; call the file lamps.svg or lamps.png" in " ".join(said.split())
    nothing = command("report", "daily", "--chart", str(chart), "--what", "lost", code=2)
    assert "nothing of lost was counted in these days" in nothing.err
    assert "no site or spider 'nope' has run" in command("report", "daily", "--site", "nope", code=2).err


def test_failures_are_told_by_reason(two_days: ValkeyFrontier, command: Command) -> None:
    [row] = command("report", "failures", "--json").json
    assert (row["site"], row["layer"], row["reason"], row["number"], row["detail"]) == (
        "shop",
        "lamp",
        "lack",
        2,
        "no title",
    )
    assert row["url_of_the_last"] == "https://shop.example/10"
    assert command("report", "failures", "--days", "1").rows[0][3] == "1"
    assert command("report", "failures", "--csv").out.splitlines()[0].startswith("site,layer,reason,number")


def test_what_sites_left_out_is_told_by_layer(two_days: ValkeyFrontier, command: Command) -> None:
    changes = [
        CounterChange("shop", "site/replaced/lamp", 3),
        CounterChange("shop", "site/limited/list.follow[0]", 1),
        CounterChange("shop", "site/seeds_unread/gone", 2),
        CounterChange("shop", "site/seeds_empty", 0),
    ]
    two_days.exchange(Token.fresh(), counters=changes)
    rows = [(row["where"], row["number"]) for row in command("report", "left-out", "--json").json]
    assert rows == [("lamp", 3), ("list.follow[0]", 1), ("lamp", 2), ("gone", 2)]
    two_days.define("other", {"page": LanePolicy()})
    assert command("report", "left-out", "--site", "other").out == "nothing was left out\n"


def test_what_waits_for_nobody_is_stuck(two_days: ValkeyFrontier, command: Command) -> None:
    frontier = two_days
    assert command("report", "stuck").out == "nothing is stuck\n"
    frontier.add([Request(99, "slow", "shop.list", b"x")])
    advance(frontier, 60)
    assert command("report", "stuck", code=1).rows == [["shop", "1 open", "no worker serves it"]]
    frontier.pause(group="shop", reason="sale")
    frontier.block("slow", 600, "429")
    rows = command("report", "stuck", "--json", code=1).json
    assert [row["why"].split(" ")[0] for row in rows] == ["paused:", "blocked"]
    frontier.resume(group="shop")
    frontier.block("slow", 0)
    frontier.add([Request(100, "other", "shop.list", b"x")])
    token = Token.fresh()
    one, two = frontier.exchange(token, want=5).leases
    tries = [Settlement(one, Ending.RETRY, delay=500.0), Settlement(two, Ending.RETRY, delay=5.0)]
    frontier.exchange(token.next(), settle=tries)
    [row] = command("report", "stuck", code=1).rows
    assert row[:2] == ["shop", "1 page of list"]
    assert row[2].startswith("failed, and tried again in ")


def test_whatever_is_paused_is_stuck(frontier: ValkeyFrontier, command: Command) -> None:
    """A lane, a host or the whole crawl, not only a site."""
    frontier.define("shop", {"list": LanePolicy(), "lamp": LanePolicy()})
    frontier.exchange(Token.fresh(), want=0, info={"group": "shop"})
    frontier.pause(lane="shop.lamp", reason="no stock")
    frontier.pause(host="h", reason="asked to")
    assert command("report", "stuck").out == "nothing is stuck\n", "nothing waits there"
    frontier.add([Request(1, "h", "shop.lamp", b"x"), Request(2, "h", "shop.list", b"x")])
    rows = command("report", "stuck", code=1).rows
    assert rows == [["shop", "1 page of lamp", "paused: no stock"], ["", "host h", "paused: asked to"]]
    frontier.resume(lane="shop.lamp")
    frontier.resume(host="h")
    assert command("report", "stuck").out == "nothing is stuck\n"
    frontier.pause(reason="maintenance")
    assert command("report", "stuck", code=1).rows == [["", "2 open", "the crawl is paused: maintenance"]]


def test_tasks_that_nobody_takes_are_stuck(frontier: ValkeyFrontier, command: Command) -> None:
    frontier.define("shop", {"list": LanePolicy()}, GroupPolicy(tasks=("shop:tasks",)))
    command("task", "push", "shop:tasks", "https://shop.example/1", "https://shop.example/2")
    assert command("report", "stuck", code=1).rows == [["shop", "2 tasks", "no worker serves it"]]
    frontier.lease_tasks(Token.fresh(), "shop:tasks", 2)
    assert command("report", "stuck", code=1).rows == [["shop", "2 tasks", "no worker serves it"]], "its worker died"
    frontier.pause(group="shop", reason="sale")
    assert command("report", "stuck", code=1).rows == [["shop", "2 tasks", "paused: sale"]]
    frontier.resume(group="shop")
    frontier.exchange(Token.fresh(), want=0, info={"group": "shop"})
    assert command("report", "stuck").out == "nothing is stuck\n"
    frontier.pause(reason="maintenance")
    assert command("report", "stuck", code=1).rows == [["", "2 tasks", "the crawl is paused: maintenance"]]


def test_layers_whose_pool_has_no_worker_are_stuck(frontier: ValkeyFrontier, command: Command) -> None:
    """The workers of the lists served the site, so nothing was stuck, and all the details waited."""
    frontier.define("shop", {"list": LanePolicy(), "lamp": LanePolicy(stage="details"), "note": LanePolicy()})
    frontier.add([Request(n, "h", f"shop.{lane}", b"x") for n, lane in enumerate(("list", "lamp", "lamp", "note"), 1)])

    def worker(**selection: Any) -> None:
        info = {"name": "one", "groups": "shop", **selection_info(Selection(**selection))}
        frontier.exchange(token, want=0, info=info)

    token = Token.fresh()
    worker(stage="")
    told = [["shop", "2 pages of lamp", "no worker serves the stage details"]]
    assert command("report", "stuck", code=1).rows == told
    assert "shop.lamp: no worker serves the stage details, and pages wait there\n" in command("status").out
    token = token.next()
    worker(stage="details", lanes=("shop.lamp",))
    unserved = "no worker serves this layer"
    assert command("report", "stuck", code=1).rows == [["shop", f"1 page of {x}", unserved] for x in ("list", "note")]
    assert "shop, stage details" in command("status").out
    token = token.next()
    worker()
    assert command("report", "stuck").out == "nothing is stuck\n"


def test_a_worker_that_can_serve_no_site_serves_none(frontier: ValkeyFrontier, command: Command) -> None:
    """One that waits for its first site, or for the database of its sites, looked as if it served all."""
    frontier.define("shop", {"list": LanePolicy()})
    frontier.add([Request(1, "h", "shop.list", b"x")])
    token = Token.fresh()
    frontier.exchange(token, want=0, info={"name": "one", "groups": "", "group": ""})
    assert command("report", "stuck", code=1).rows == [["shop", "1 open", "no worker serves it"]]
    token = token.next()
    frontier.exchange(token, want=0, info={"groups": "shop", "outages": "shop the disk is full"})
    told = "its workers wait for their database: the disk is full"
    assert command("report", "stuck", code=1).rows == [["shop", "1 open", told]]


def test_a_round_that_cannot_begin_is_stuck(frontier: ValkeyFrontier, command: Command) -> None:
    frontier.define("quotes", {"page": LanePolicy()}, GroupPolicy(start=True))
    frontier.exchange(Token.fresh(), want=0, info={"group": "quotes"})
    frontier.put_document("spider", "quotes", "spider: quotes\nschedule: {every: 1s}\n")
    frontier.start("quotes", token := Token.fresh())
    frontier.started("quotes", token)
    advance(frontier, 10)
    frontier.exchange(Token.fresh(), want=0, info={"group": "quotes"})
    frontier.end_round("quotes", token)
    frontier.ended("quotes", token, {})
    assert command("report", "stuck").out == "nothing is stuck\n"
    frontier.round_note("quotes", 0, {"obstacle": "tasks.csv: no such file"})
    assert command("report", "stuck", code=1).rows == [["quotes", "its rounds", "tasks.csv: no such file"]]
    frontier.drop_document("spider", "quotes")
    assert command("report", "stuck").out == "nothing is stuck\n"


def test_failures_are_those_of_the_days_that_are_counted(frontier: ValkeyFrontier, command: Command) -> None:
    """Also shortly after midnight, as in the report of each day."""
    frontier.define("shop", {"list": LanePolicy()})
    now = frontier.counts().now
    advance(frontier, DAY - now % DAY - 600)
    token = Token.fresh()
    frontier.add([Request(1, "h", "shop.list", codec.encode_request({"url": "https://shop.example/1"}))])
    [lease] = frontier.exchange(token, want=1).leases
    frontier.exchange(token.next(), settle=[Settlement(lease, Ending.FAILED, reason="lack", detail="no title")])
    advance(frontier, 1200)
    assert command("report", "failures", "--days", 1).out == "there are no dead letters of these days\n"
    assert [row[3] for row in command("report", "failures", "--days", 2).rows] == ["1"]


def test_cycles_of_planners_are_told_by_layer(frontier: ValkeyFrontier, command: Command) -> None:
    assert command("report", "cycles").out == "no planner has found due pages yet\n"
    frontier.define("shop", {"lamp": LanePolicy(records=RecordPolicy())})
    planner = Planner(frontier, "one", seconds=4, limit=3 * frontier.partitions)
    planner.cycle()
    frontier.add([Request(n + 1, "h", "shop.lamp", b"x") for n in range(5)])
    planner.cycle()
    planner.cycle()
    rows = command("report", "cycles").rows
    # Nobody serves the layer, so it does not get all the room.
    assert [row[2:] for row in rows] == [
        ["3", "2", "1", "shop.lamp", "0", "0", "3"],
        ["3", "0", "3", "shop.lamp", "2", "2", "3"],
    ]
    assert [row["room"] for row in command("report", "cycles", "--json", "--limit", "1").json] == [1]


def test_rows_stay_whole_on_a_terminal_of_80_columns(
    command: Command, frontier: ValkeyFrontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "newspapers"
    frontier.define(group, {"articles": LanePolicy()})
    token = Token.fresh()
    frontier.add([Request(number, "h", f"{group}.articles") for number in range(3)])
    for ending in (Ending.DONE, Ending.FAILED, Ending.RETRY):
        [lease] = frontier.exchange(token, want=1).leases
        counters = [CounterChange(group, f"site/{name}/articles", 1_234_567) for name in ("read", "rows", "lacking")]
        frontier.exchange(token.next(), settle=[Settlement(lease, ending)], counters=counters)
        token = Token.fresh()
    rows = len(command("report", "daily").rows)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = re.sub(r"\x1b\[[\d;]*m", "", command("report", "daily").out).splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if re.match(r"\d{4}-\d\d-\d\d +newspapers ", line)]) == rows, lines


def test_a_site_that_no_worker_has_served_is_stuck(frontier: ValkeyFrontier, command: Command) -> None:
    """Its tasks may wait, and nothing else names it: it has no group yet."""
    text = "site: lamps\nseeds: [{tasks: lamps:tasks}]\nlayers: {page: {fields: {title: h1}}}\n"
    frontier.put_document("site", "lamps", text)
    frontier.put_document("site", "off", text.replace("lamps", "off") + "active: false\n")
    [row] = command("report", "stuck", "--json", code=1).json
    assert (row["site"], row["what"]) == ("lamps", "its rounds")
    assert row["why"].startswith("no worker has served it yet")
    frontier.define("lamps", {"page": LanePolicy()})
    assert command("report", "stuck").out == "nothing is stuck\n"


def test_coverage_says_nothing_of_the_pages_of_spiders(frontier: ValkeyFrontier, command: Command) -> None:
    frontier.define("books", {"page": LanePolicy()}, GroupPolicy(start=True))
    assert command("report", "coverage").out == "no page of a site was read yet\n"
