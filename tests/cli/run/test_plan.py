"""`gossamer plan --dry-run` and `gossamer site list`: what is, and what will begin."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.example_sites import Place
from tests.support.planned_crawl import PAGES, PlannedCrawl
from tests.support.planned_crawl import site as planned_site
from tests.support.site import Site

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy, Token
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server


def test_the_next_hour_and_the_table_of_all_sites(command: Command, valkey_server: Server, crawl_name: str) -> None:
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        crawl.push("slow", "{every: 25m, deadline: 5m}")
        crawl.push("fast", "{every: 10m}")
        crawl.frontier.put_document("site", "new", "site: new\nlayers: {page: {}}\n")
        crawl.push("still", "{every: 10m}")
        crawl.run_round("fast")
        crawl.run_round("still")
        crawl.seed("slow", 3)
        crawl.frontier.pause(group="still", reason="by hand")
        crawl.advance(6 * 60)
        said = command("plan", "--dry-run")
        assert [row[2:5] for row in said.rows] == [
            ["fast", "1", "begins"],
            ["fast", "2", "begins"],
            ["slow", "1", "begins"],
            *(["fast", f"{number}", "begins"] for number in (3, 4, 5)),
            ["slow", "2", "begins"],
            ["fast", "6", "begins"],
        ]
        assert said.err.startswith("no planner leads; it is ")
        assert re.fullmatch(r"4 min 0 s|3 min \d+ s", said.rows[0][1])
        assert len(command("plan", "--dry-run", "--hours", 0.1, "--json").json) == 1
        crawl.planner("one").cycle()
        assert "one leads" in command("plan", "--dry-run").err
        listed = command("site", "list")
        assert listed.err == "1 running, 1 waiting, 1 new, 1 paused; 1 late; the planner one begins rounds\n"
        rows = {row[0]: row for row in listed.rows}
        assert [rows[name][1] for name in ("fast", "new", "slow", "still")] == [
            "waiting",
            "new",
            "running, late",
            "paused",
        ]
        assert rows["slow"][6:] == ["3", "0", "0: 3"]
        assert rows["fast"][5].endswith("UTC")
        assert rows["new"][5].startswith(
            "no worker has served it yet, or its group was dropped: `gossamer round new new`"
        )
        assert rows["still"][5] == "by hand"
        assert [row[0] for row in command("site", "list", "--state", "late", "--state", "new").rows] == ["new", "slow"]
        assert "--state lat: there are running," in command("site", "list", "--state", "lat", code=2).err
        told = {row["group"]: row for row in command("site", "list", "--json").json}
        assert told["slow"]["depths"][0]["waiting"] == 3
        assert crawl.rounds("fast") == [(0, "ended")], "nothing was begun"


def test_schedules_of_spiders_are_checked_kept_and_listed(
    command: Command, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        crawl.push("forum", "{every: 10m}")
        file = tmp_path / "spiders.yaml"
        file.write_text("spider: quotes\nschedule: {evry: 1h, cron: '61 * * * *'}\n---\n- spider\n")
        said = command("spider", "push", file, code=2).err.splitlines()
        assert said == [
            "error: spiders.yaml:2:12: schedule.evry: unknown key evry (did you mean every?)",
            "error: spiders.yaml:4:1: this is not a mapping (it begins with spider: name)",
        ]
        file.write_text("spider: quotes\nschedule: {cron: '61 * * * *'}\n")
        assert "this is not a cron expression" in command("spider", "push", file, code=2).err
        file.write_text(
            "spider: quotes\nschedule: {every: 1h}\narguments: {a-b: x, name: y, on: true, day: 2026-01-01}\n---\n"
            "spider: b\nschedule: {every: 1h}\narguments: {a-b: x, name: y}\ntasks: {key: k, sql: DROP TABLE pages}\n---\n"
            "spider: c\nschedule: {every: 1h}\ntasks: {key: k, sql: SELECT 1; COMMIT}\n---\n"
            "spider: d\nschedule: {every: 1h}\ntasks: {key: k, csv: a.csv, sql: SELECT 1}\n---\n"
            "spider: e\nschedule: {every: 1h}\ntasks: {key: k, csv: a.csv, database: x}\n"
        )
        assert [
            line.partition("spiders.yaml:")[2] for line in command("spider", "push", file, code=2).err.splitlines()
        ] == [
            "3:34: arguments.on: an argument is text, as after -a: write it in quotes",
            "7:18: arguments.a-b: a-b cannot name an argument (use letters, digits and _)",
            "7:27: arguments.name: name is no argument here: the name of the spider decides its group (take it out)",
            "8:22: tasks.sql: this is not a query (write SELECT … FROM …)",
            "12:22: tasks.sql: there is more than one statement (write a single query, without ;)",
            "16:8: tasks: tasks come from either csv or sql",
            "20:8: tasks: database is for sql (a file of csv needs none)",
        ]
        file.write_text("spider: forum\nschedule: {every: 1h}\n")
        assert "forum is planned by the crawl's site file forum" in command("spider", "push", file, code=2).err
        file.write_text("spider: quotes\nschedule: {every: 1h, deadline: 2h}\n")
        said_well = command("spider", "push", file)
        assert said_well.out == "spiders: version 1: quotes\n"
        assert "the deadline is longer than every" in said_well.err
        [row] = command("spider", "list").rows
        assert row[:3] == ["quotes", "spiders", "new"]
        tasks = "tasks: {key: 'q:tasks', sql: SELECT url FROM pages}"
        file.write_text(f"spider: quotes\nschedule: {{every: 30m}}\narguments: {{tag: x, page: 7}}\n{tasks}\n")
        assert "do not begin its rounds: a query may read any table" in command("spider", "push", file).err
        assert command("spider", "list").rows[0][10:] == ["tag=x page=7", "q:tasks: SELECT url FROM pages"]
        crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True))
        crawl.run_round("quotes")
        coming = [row for row in command("plan", "--dry-run").rows if row[2] == "quotes"]
        assert coming[0][6] == "tag=x page=7 tasks of q:tasks: SELECT url FROM pages"
        told = [row for row in command("plan", "--dry-run", "--json").json if row["group"] == "quotes"]
        assert told[0]["arguments"] == {"tag": "x", "page": "7"}
        assert [row["group"] for row in command("site", "list", "--json").json] == ["forum", "quotes"]
        command("spider", "remove", "spiders")
        assert command("spider", "list").rows == []
        assert "was removed" in command("spider", "remove", "spiders", code=2).err
        assert "the crawl has no spider file 'nope'" in command("spider", "remove", "nope", code=2).err


def test_spider_files_have_the_versions_that_site_files_have(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path
) -> None:
    file = tmp_path / "spiders.yaml"
    first, second = (f"# rounds\r\nspider: quotes\nschedule: {{every: {n}h}}".encode() for n in (1, 2))
    file.write_bytes(first)
    assert command("spider", "push", file).out == "spiders: version 1: quotes\n"
    again = command("spider", "push", file, "--json").json
    assert again == [{"name": "spiders", "version": 1, "changed": False, "spiders": ["quotes"], "former": None}]
    file.write_bytes(second)
    assert command("spider", "push", file, "--note", "slower").out == "spiders: version 2: quotes\n"
    assert command("spider", "push", file).out == "spiders: version 2, unchanged: quotes\n"
    # As it was pushed, also by the name of a spider in it.
    assert command("spider", "show", "quotes").out.encode() == second
    assert command("spider", "show", "spiders", "--version", "1").out.encode() == first
    assert [row[4] for row in command("spider", "history", "quotes").rows] == ["slower", ""]
    assert "+schedule: {every: 2h}" in command("spider", "diff", "spiders").out
    assert command("spider", "rollback", "spiders", "1").out == "spiders: version 3: quotes\n"
    assert "yours is made of version 2" in command("spider", "push", file, "--expect", "2", code=1).err
    assert [row[3:] for row in command("site", "log").rows][:2] == [
        ["rollback", "spider spiders", "to version 1: version 3"],
        ["push", "spider spiders", "version 2: slower"],
    ]
    other = tmp_path / "other.yaml"
    other.write_bytes(second)
    assert "planned by the crawl's spider file spiders" in command("spider", "push", other, code=2).err
    command("spider", "remove", "quotes")
    assert "was removed. `gossamer spider rollback`" in command("spider", "show", "spiders", code=2).err
    assert "says that it was removed" in command("spider", "rollback", "spiders", "4", code=2).err
    assert command("spider", "rollback", "spiders", "2").out == "spiders: version 5: quotes\n"


def test_settings_that_let_the_lead_run_out_are_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSAMER_PLAN_CYCLE_SECONDS", "3")
    said = command("plan", code=2)
    assert "a planner that leads must look at least twice in that time" in said.err


SITE = "site: forum\nseeds: [http://forum.example/]\nlayers: {page: {seen: round}}\n"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("schedule: {cron: '61 * * * *'}", "this is not a cron expression"),
        ("schedule: {cron: '0 0 30 2 *'}", "schedule.cron"),
        ("schedule: {every: 0s}", "every must be longer than 0"),
        ("schedule: {every: -5m}", "schedule.every"),
        ("schedule: {every: 1h, cron: '0 * * * *'}", "a schedule is either every or cron"),
        ("schedule: {every: 1h, tz: Mars/Olympus}", "schedule.tz"),
        ("schedule: {every: 1h, blackout: [{from: '00:00', to: '24:00'}]}", "no round would ever begin"),
        ("weight: 0.0001", "a weight is at least 0.001, or 0 for a site that is paused"),
        ("weight: -1", "weight is -1; it must be at least 0"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_place(
    command: Command, tmp_path: Path, more: str, says: str
) -> None:
    file = tmp_path / "forum.yaml"
    file.write_text(SITE + more + "\n")
    for said in (command("site", "check", file, code=2), command("site", "push", file, code=2)):
        assert says in said.err + said.out
        assert "forum.yaml:4:" in said.err + said.out
    assert "no crawl" in command("site", "list", code=2).err, "nothing was pushed"


def test_a_long_deadline_is_a_warning_and_weight_0_pauses_a_site(
    command: Command, valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "forum.yaml"

    def pushed(more: str) -> str:
        file.write_text(SITE + more + "\n")
        return command("site", "push", file).err

    assert "the deadline is longer than every" in pushed("schedule: {every: 10m, deadline: 20m}")
    with PlannedCrawl(valkey_server, crawl_name) as crawl:
        planner = crawl.planner("one")
        crawl.frontier.define("forum", {"page": LanePolicy()}, GroupPolicy(start=True))
        crawl.run_round("forum")
        pushed("schedule: {every: 10m}\nweight: 0")
        crawl.advance(1200)
        assert planner.cycle().done == []
        [row] = command("site", "list").rows
        assert (row[1], row[5]) == ("paused", "its weight is 0")
        pushed("schedule: {every: 10m}\nactive: false")
        assert planner.cycle().done == []
        assert command("site", "list").rows[0][5] == "its file says active: false"
        pushed("schedule: {every: 10m}\nweight: 2")
        assert [done.group for done in planner.cycle().done] == ["forum"]
        crawl.seed("forum", 3)
        # It is removed while its round runs.
        command("site", "remove", "forum", "--yes")
        crawl.advance(1200)
        assert planner.cycle().done == []
        assert crawl.rounds("forum")[-1] == (1, "running")
        assert sum(lane.queued for lane in crawl.frontier.counts("forum").lanes) == 3, "what waits stays"
        command("site", "rollback", "forum", 4)
        crawl.fetch("forum")
        assert [done.group for done in planner.cycle().done] == ["forum"]
    said = command("lane", "set", "forum.page", "--weight", 0, code=2).err
    assert "0.001" in said


def test_a_fleet_that_repeats_sends_alerts_by_itself(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    """It has a planner in it, which begins the rounds of the sites that are served, and of no others."""
    rules = "every: 1s\nclear: 0s\ngather: 0s\nrules: {paused: {for: 0s, only: [forum]}, no_workers: {active: false}}\n"
    with Site() as site:
        webhook = f"{site.url}/SECRET"
        place = Place(tmp_path, valkey_server, crawl_name, GOSSAMER_PLAN_CYCLE_SECONDS="0.2")
        file = place.write(
            f"site: forum\nseeds: [{site.url}/list]\nschedule: {{every: 1s}}\npoliteness: {{robots: ignore}}\n"
            "layers: {list: {seen: round}}\n"
        )
        with place.frontier() as frontier:
            frontier.put_document("alert", "rules", rules)
            frontier.put_document("site", "old", planned_site("old", "{every: 1s}"))
            frontier.define("old", {"page": LanePolicy()}, GroupPolicy(start=True))
            token = Token.fresh()
            frontier.start("old", token)
            frontier.started("old", token)
            crawling = place.start("crawl", file, "--repeat", "-w", "1", "-s", f"GOSSAMER_ALERT_WEBHOOK={webhook}")
            site.reached("/list")
            wait_until(lambda: any(info.who for info in frontier.rounds("forum")), "a round that the planner began", 60)
            frontier.pause(group="forum", reason="by hand")
            site.reached("/SECRET")
            frontier.resume(group="forum")
            site.reached("/SECRET", 2)
            crawling.send_signal(signal.SIGINT)
            assert crawling.wait(60) == 0
            assert [info.round for info in frontier.rounds("old")] == [0], "nobody serves it"
            assert not frontier.plan_state().leader.present, "it gave the lead back"
        told = [json.loads(visit.body) for visit in site.visits if visit.path == "/SECRET"]
    assert [(one["status"], one["alerts"][0]["labels"]["site"]) for one in told] == [
        ("firing", "forum"),
        ("resolved", "forum"),
    ]
