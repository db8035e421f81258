"""`gossamer plan --dry-run` and `gossamer site list --rounds`: what is, and what will begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.planned_crawl import PlannedCrawl

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
        assert said.rows[0][1] in ("3 min 59 s", "4 min 0 s")
        assert len(command("plan", "--dry-run", "--hours", 0.1, "--json").json) == 1
        crawl.planner("one").cycle()
        assert "one leads" in command("plan", "--dry-run").err
        listed = command("site", "list", "--rounds")
        assert listed.err == "the planner one begins rounds\n"
        rows = {row[0]: row for row in listed.rows}
        assert [rows[name][1] for name in ("fast", "new", "slow", "still")] == [
            "waiting",
            "new",
            "running",
            "paused: by hand",
        ]
        assert rows["slow"][5] == "late"
        assert rows["slow"][7:] == ["3", "0", "0: 3"]
        assert rows["fast"][6].endswith("UTC")
        assert rows["new"][6] == "no worker has served it yet"
        assert rows["still"][6] == "the site is paused"
        told = {row["group"]: row for row in command("site", "list", "--rounds", "--json").json}
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
        file.write_text("spider: forum\nschedule: {every: 1h}\n")
        assert "forum is planned by the crawl's site file forum" in command("spider", "push", file, code=2).err
        file.write_text("spider: quotes\nschedule: {every: 1h, deadline: 2h}\n")
        said_well = command("spider", "push", file)
        assert said_well.out == "spiders version 1: quotes\n"
        assert "the deadline is longer than every" in said_well.err
        [row] = command("spider", "list").rows
        assert row[:3] == ["quotes", "spiders", "new"]
        assert [row["group"] for row in command("site", "list", "--rounds", "--json").json] == ["forum", "quotes"]
        command("spider", "remove", "spiders")
        assert command("spider", "list").rows == []
        assert "no schedules" in command("spider", "remove", "spiders", code=2).err


def test_settings_that_let_the_lead_run_out_are_refused(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSAMER_PLAN_CYCLE_SECONDS", "3")
    said = command("plan", code=2)
    assert "a planner that leads must look at least twice in that time" in said.err
