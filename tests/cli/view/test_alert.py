"""`gossamer alert`: rules, what fires, silences, and a test of the webhook."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.cli.run.crawl import command as spider_command
from gossamer.cli.run.crawl_sites import CrawlOptions, crawl_again, site_command
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupPolicy, LanePolicy
from gossamer.planner.alerts.watch import AlertWatch
from gossamer.planner.loop import Planner


def test_rules_are_pushed_alerts_listed_and_silenced(
    frontier: ValkeyFrontier, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("rules:\n  pausd: {for: 0s}\n")
    said = command("alert", "push", file, code=2).err
    assert f"{file}:2:3: rules.pausd: pausd is no kind of alert" in said
    assert "did you mean paused?" in said
    file.write_text("rules:\n  paused: {for: 0s, severity: critical}\n  item_rate: {below: 90/h, only: [a, b*]}\n")
    rows = {row[0]: row for row in command("alert", "check", file).rows}
    assert rows["paused"][:4] == ["paused", "paused", "critical", "0 s"]
    assert rows["item_rate"][7] == "only a b*, below 90/h, window 1 h 0 min, baseline 1 d 0 h, pages 20"
    assert rows["server_memory"][7] == "above 85%"
    assert command("alert", "check", file, "--json").json["item_rate"]["below"] == "90/h"
    assert "the defaults" in command("alert", "rules").err
    assert "never evaluated" in command("alert", "list").err
    assert command("alert", "push", file, "--json").json["version"] == 1
    assert command("alert", "rules", "--json").json["rules"]["paused"]["severity"] == "critical"
    frontier.define("shop", {"page": LanePolicy()}, GroupPolicy(start=True))
    frontier.pause(group="shop", reason="too many errors")
    command("alert", "silence", "paused", "sh*", "--for", "1h")
    Planner(frontier, "one", seconds=4, alerts=AlertWatch(frontier, None, "one")).cycle()
    told = command("alert", "list")
    [row] = [row for row in told.rows if row[0] == "paused"]
    assert (row[:4], row[7]) == (["paused", "critical", "firing", "shop"], "paused: too many errors")
    assert "UTC" in row[6]
    assert re.search(
        r"evaluated \d+ s ago by one; no message is sent: the planner has no GOSSAMER_ALERT_WEBHOOK", told.err
    )
    command("alert", "silence", "paused", "sh*", "--end")
    assert "nosuch: there is no such rule" in command("alert", "silence", "nosuch", code=2).err
    assert "there is no silence" in command("alert", "silence", "paused", "--end", code=2).err
    alert = {one["rule"]: one for one in command("alert", "list", "--json").json["alerts"]}["paused"]
    assert (alert["silenced"], alert["sent"]) == (None, False)
    command("alert", "remove")
    assert "no alert rules of its own" in command("alert", "remove", code=2).err


def test_the_webhook_is_tried_and_its_address_not_shown(
    frontier: ValkeyFrontier, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "GOSSAMER_ALERT_WEBHOOK is not set" in command("alert", "test", code=2).err
    with Site() as site:
        site.on("/SECRET", Reply(200, "ok", times=1), Reply(500, "no"))
        monkeypatch.setenv("GOSSAMER_ALERT_WEBHOOK", f"{site.url}/SECRET")
        said = [command("alert", "test"), command("alert", "test", "--json", code=1), command("alert", "test", code=1)]
        said += [command("settings"), command("settings", "--json"), command("doctor", code=1)]
        sent = json.loads(site.visits[0].body)
        shown = f"{site.url}/***"
    assert "this is a test" in sent["text"]
    assert said[0].out == f"{shown} took the message\n"
    assert said[1].json["error"] == f"{shown} answered 500 (no)"
    assert shown in said[3].out
    assert f"alerts go to {shown}" in said[5].out
    assert not any("SECRET" in text for one in said for text in one)
    monkeypatch.setenv("GOSSAMER_ALERT_WEBHOOK", "hooks.example/SECRET")
    wrong = command("settings", code=2).err
    assert "expected an address that begins with https://" in wrong
    assert "SECRET" not in wrong


def test_a_crawl_shows_the_address_neither_to_workers_nor_on_the_terminal() -> None:
    given = {"GOSSAMER_ALERT_WEBHOOK": "https://hooks.example/SECRET", "GOSSAMER_CRAWL": "main"}
    asked = CrawlOptions([Path("a.yaml")], 1, False, True, "", "", False)
    for words in (spider_command("quotes", {}, given), site_command(["a"], asked, given, [], ())):
        assert "GOSSAMER_CRAWL=main" in words
        assert "SECRET" not in str(words)
    again = crawl_again(asked, given)
    assert again.endswith("-s 'GOSSAMER_ALERT_WEBHOOK=https://hooks.example/***' -s GOSSAMER_CRAWL=main")
