"""`gossamer import neocrawler`: rules in, site files and a report out; and the files are crawled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Command
from tests.support.site import Reply, Site

from gossamer.engine.worker import NativeJob, NativeWorker
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load

DETAIL: dict[str, Any] = {
    "domain": "shop.example",
    "alias": "detail",
    "url_pattern": "/detail/\\d+",
    "drill_rules": [],
    "script": ["jsexec_result = 1;"],
    "drill_relation": {"mode": "css", "expression": "title", "pick": "text", "index": 1},
    "extract_rule": {
        "category": "goods",
        "rule": {
            "title": {"mode": "css", "expression": "h1", "pick": "text", "index": 1},
            "price": {"mode": "regex", "expression": "price: (\\d+)", "index": 1},
            "tags": {"mode": "css", "expression": ".tag", "pick": "@title", "index": -1},
            "offers": {
                "mode": "css",
                "expression": ".offer",
                "subset": {
                    "mapping": True,
                    "category": "offers",
                    "rule": {"who": {"mode": "css", "expression": "b", "pick": "text", "index": 1}},
                },
            },
        },
        "require": ["title"],
    },
}
LISTED: dict[str, Any] = {
    "domain": "shop.example",
    "alias": "list",
    "url_pattern": "/list/",
    "seed": ["http://shop.example/list/[1-2]"],
    "drill_rules": [".box a"],
    "schedule_interval": 3600,
    "id_parameter": ["#"],
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


def write(rules: Any) -> str:
    Path("rules.json").write_text(json.dumps(rules), "utf-8")
    return "rules.json"


def test_files_are_written_checked_and_reported(command: Command) -> None:
    rules = [LISTED, DETAIL, {**LISTED, "domain": "other.example", "seed": []}]
    said = command("import", "neocrawler", write(rules), "-o", "sites")
    lines = said.out.splitlines()
    assert lines[0] == "SITE\tRULES\tFIELD\tVALUE\tWHAT BECAME OF IT"
    assert lines[2].startswith("shop.example\tdetail\tdrill_relation\t{")
    assert lines[1].startswith('shop.example\tdetail\tscript\t["jsexec_result = 1;"]\tleft out: ')
    assert "sites/shop.example.yaml: site shop.example, 2 layers: list, detail" in lines
    assert lines[-1] == "2 site files; 2 fields left out, 0 changed"
    assert command("site", "check", "sites").out.splitlines()[-1] == "2 files, 2 sites, 2 seeds, 1 warning"
    text = Path("sites/shop.example.yaml").read_text("utf-8")
    assert '#   detail: script: ["jsexec_result = 1;"]: left out: JavaScript in the page' in text


def test_nothing_is_written_over_unasked(command: Command) -> None:
    file = write([LISTED])
    command("import", "neocrawler", file, "--dry-run")
    assert not Path("shop.example.yaml").exists()
    command("import", "neocrawler", file)
    Path("shop.example.yaml").write_text("mine")
    assert "shop.example.yaml is there already" in command("import", "neocrawler", file, code=2).err
    assert Path("shop.example.yaml").read_text() == "mine"
    command("import", "neocrawler", file, "--force")
    assert "layers:" in Path("shop.example.yaml").read_text()


def test_the_report_is_told_to_programs(command: Command) -> None:
    [told] = command("import", "neocrawler", "-", "--json", given=json.dumps([LISTED, DETAIL])).json
    assert (told["file"], told["site"], told["layers"]) == ("shop.example.yaml", "shop.example", ["list", "detail"])
    assert [(note["rule"], note["field"]) for note in told["notes"]] == [
        ("detail", "script"),
        ("detail", "drill_relation"),
    ]
    assert told["problems"] == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "standard input holds no rules"),
        ("{", "standard input holds no rules"),
        ("[3]", "3 stands where a rule should be"),
        (b"\xff\xfe", "standard input is no text in UTF-8"),
    ],
)
def test_what_holds_no_rules_is_said_in_a_line(command: Command, given: str | bytes, said: str) -> None:
    assert said in command("import", "neocrawler", "-", code=2, given=given).err
    assert not list(Path().glob("*.yaml"))


async def test_what_was_brought_in_is_crawled(command: Command, frontier: ValkeyFrontier, site: Site) -> None:
    box = '<div class=box><a href="/detail/7?session=1">d</a><a href=/elsewhere>e</a></div><a href=/detail/8>no</a>'
    site.on("/list/1", Reply(body=box)).on("/list/2", Reply(body=box))
    offers = "<p class=offer><b>Ann</b></p><p class=offer><b>Bob</b></p>"
    body = f"<h1>Chair</h1>Price: 20 <i class=tag title=a></i><i class=tag title=b></i>{offers}"
    site.on("/detail/7", Reply(body=body))
    here = [{**rule, "domain": "127.0.0.1"} for rule in (LISTED, {**DETAIL, "id_parameter": ["#"]})]
    here[0]["seed"] = [f"{site.url}/list/[1-2]"]
    command("import", "neocrawler", write(here), "-o", "sites")
    command("site", "push", "sites")
    await NativeWorker(load({"GOSSAMER_DATA_DIR": str(Path.cwd())}), NativeJob(stage=None)).run()
    assert sorted(path for path in site.paths() if path != "/robots.txt") == ["/detail/7", "/list/1", "/list/2"]
    database = sqlite3.connect("items.db")
    try:
        assert database.execute("select title, price, tags from goods").fetchall() == [("Chair", "20", '["a","b"]')]
        assert database.execute("select who from offers order by place").fetchall() == [("Ann",), ("Bob",)]
    finally:
        database.close()
