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

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
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


def long(body: str) -> Reply:
    """A page that is long enough: NEOCrawler takes fewer than 500 characters for a broken one."""
    return Reply(body=f"<html>{body}<!-- {'-' * 500} --></html>")


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
    # No seed is of other.example, but links of shop.example lead there.
    assert command("site", "check", "sites").out.splitlines()[-1] == "2 files, 2 sites, 2 seeds"
    text = Path("sites/shop.example.yaml").read_text("utf-8")
    assert '#   detail: script: ["jsexec_result = 1;"]: left out: JavaScript in the page' in text


def test_a_rule_is_imported_as_documentation_prints_it(command: Command) -> None:
    Path("rule.js").write_text(
        """module.exports = {
          domain: "shop.example",         // the site
          "url_pattern": "/list/",        // every list
          "alias": 'list',
          "seed": ["http://shop.example/list/1"],
          ...
        };
        """
    )
    assert command("import", "neocrawler", "rule.js", "-o", "sites").out.splitlines()[-1].startswith("1 site file;")
    assert command("site", "check", "sites").out.splitlines()[-1] == "1 file, 1 site, 1 seed"


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
    site.on("/list/1", long(box)).on("/list/2", long(box))
    offers = "<p class=offer><b>Ann</b></p><p class=offer><b>Bob</b></p>"
    body = f"<h1>Chair</h1>Price: 20 <i class=tag title=a></i><i class=tag title=b></i>{offers}"
    site.on("/detail/7", long(body))
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


def unit(expression: str, mode: str = "css", pick: str = "text") -> dict[str, Any]:
    return {"base": "content", "mode": mode, "expression": expression, "pick": pick, "index": 1}


def kept(rule: dict[str, Any]) -> dict[str, str]:
    """A rule as NEOCrawler's server keeps it: every field a text, with everything that its form has."""
    whole = {
        "encoding": "auto", "save_page": False, "format": "html", "jshandle": False, "inject_jquery": False,
        "load_img": False, "cookie": [], "drill_relation": unit("title"), "script": [], "navigate_rule": [],
        "stoppage": -1, "weight": 10, "active": True, "seed": [], "schedule_rule": "FIFO", "use_proxy": False,
        "id_parameter": ["#"], "drill_rules": ["a"], "first_schedule": 1400000000000, "priority": 1,
        "schedule_interval": 86400, "extract_rule": {"category": "crawled", "rule": {}}, **rule,
    }  # fmt: skip
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in whole.items()}


def directory_of(url: str) -> list[dict[str, Any]]:
    """Four levels, as in the tutorial of NEOCrawler's README: a home page, categories, lists by number, and details, which alone
    have something to extract. All have a word that must be on the page."""
    rule = {"nickname": unit("._title>strong"), "name": unit(">Account: (.*?)</td>", "regex")}
    rule |= {"about": unit(".introduction", pick="html"), "logo": unit(".avatar>img", pick="@src")}
    detail = {"category": "crawled", "rule": rule, "require": [["name", "oid", "nickname"]]}
    ranges = [f"{url}/t_{topic}_#.html#1#4#1" for topic in ("food", "music")]
    return [
        {"alias": "detail", "url_pattern": f"^{url}/account_\\d+.html$", "extract_rule": detail, "type": "node",
         "drill_rules": ["a", ".avatar>img"], "schedule_interval": 8640000, "validation_keywords": ["You are here"]},
        {"alias": "list", "url_pattern": f"^{url}/t_.*?.html$", "type": "branch", "priority": 3, "seed": ranges,
         "validation_keywords": ["You are here"]},
        {"alias": "category", "url_pattern": f"^{url}/topics_.*?.html$", "type": "branch", "priority": 2,
         "seed": [f"{url}/topics_news.html"], "validation_keywords": ["You are here"]},
        {"alias": "home", "url_pattern": f"^{url}/$", "type": "branch", "priority": 4, "seed": [f"{url}/"],
         "validation_keywords": ["Directory"]},
    ]  # fmt: skip


async def run_all() -> None:
    await NativeWorker(load({"GOSSAMER_DATA_DIR": str(Path.cwd())}), NativeJob(stage=None)).run()


def rows(query: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect("items.db")
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


async def test_the_details_of_a_directory_with_ranges_of_lists_arrive(
    command: Command, frontier: ValkeyFrontier, site: Site
) -> None:
    here = '<p class="_vb_weizhi">You are here</p>'
    accounts = {}
    for topic, first in (("food", 1), ("music", 101)):
        for number in range(1, 5):
            ids = range(first + 10 * number, first + 10 * number + 3)
            links = "".join(f'<a href="/account_{id}.html">a</a>' for id in ids)
            site.on(f"/t_{topic}_{number}.html", long(here + links))
            accounts.update({id: (f"Nick {id}", f"name-{id}", f"<i>{topic}</i>", f"/logo/{id}.png") for id in ids})
    for id, (nickname, name, about, logo) in accounts.items():
        table = f"<table><tr><td>Account: {name}</td></tr></table><p class=introduction>{about}</p>"
        title = f'<h1 class="_title"><strong>{nickname}</strong></h1><p class=avatar><img src="{logo}"></p>'
        site.on(f"/account_{id}.html", long(here + title + table))
    site.on("/", long("Directory <a href=/topics_all.html>all</a>")).on("/topics_news.html", long(here))
    site.on("/topics_all.html", long(f"{here}<a href=/t_food_1.html>food</a><a href=/account_7.html>one more</a>"))
    # Too short: a broken page, whatever is on it.
    site.on("/account_7.html", Reply(body=f"{here}<h1 class=_title><strong>Nick 7</strong></h1>"))
    # As the dump tool writes them, in the order of the server.
    domain = {"domain": "127.0.0.1"}
    dump = "".join(
        f"driller:127.0.0.1:{rule['alias']}\n{json.dumps(kept({**domain, **rule}))}\n"
        for rule in directory_of(site.url)
    )
    Path("dump.json").write_text(dump, "utf-8")
    command("import", "neocrawler", "dump.json", "-o", "sites")
    text = Path("sites/127.0.0.1.yaml").read_text("utf-8")
    assert "/t_food_[1-4].html" in text
    command("site", "check", "sites")
    Path("sites/127.0.0.1.yaml").write_text(f"{text}\nrequest: {{retries: 0}}\n", "utf-8")
    command("site", "push", "sites")
    await run_all()
    table = 'select nickname, name, about, logo from "t_127_0_0_1_detail" order by nickname'
    assert rows(table) == sorted(accounts.values())
    lists = {path for path in site.paths() if path.startswith("/t_")}
    assert lists == {f"/t_{topic}_{number}.html" for topic in ("food", "music") for number in range(1, 5)}
    [letter] = frontier.dead_letters("127.0.0.1")
    assert (letter.reason, "characters are fewer than 500" in letter.detail) == ("invalid", True)


async def test_links_lead_from_the_lists_of_one_domain_to_the_details_of_another(
    command: Command, frontier: ValkeyFrontier, site: Site
) -> None:
    """As in NEOCrawler's example instance, whose lists and details are of different hosts; and as people keep rules: with comments,
    over many lines, or one in each file."""
    with Site("127.0.0.2") as other:
        stories = {number: (f"Story {number}", f"Text {number}") for number in range(1, 9)}
        for page in (1, 2):
            links = "".join(f"<li><a href={other.url}/c/2014-5/{number}.html>s</a></li>" for number in stories)
            site.on(f"/roll/index_{page}.html", long(f"<ul>{links}</ul><p class=pages><a href=index_2.html>2</a></p>"))
        for number, (title, text) in stories.items():
            other.on(f"/c/2014-5/{number}.html", long(f"<h1 id=t>{title}</h1><div id=b>{text}</div>"))
        listed = {
            "domain": "127.0.0.1", "alias": "list", "url_pattern": "/roll/index_\\d+", "type": "branch", "priority": 2,
            "drill_rules": ["ul li a", ".pages a"], "schedule_interval": 86400,
        }  # fmt: skip
        fields = {"title": unit("#t"), "content": unit("#b")}
        detail = {
            "domain": "127.0.0.2", "alias": "detail", "url_pattern": f"^{other.url}/c/[\\d\\-]+/\\d+.html$", "type": "node",
            "drill_rules": [], "extract_rule": {"category": "stories", "rule": fields},
            # It names a page of the other domain: that one's rule has it.
            "seed": [f"{site.url}/roll/index_1.html"],
        }  # fmt: skip
        Path("rules").mkdir()
        Path("rules/index.js").write_text("module.exports = {list: require('./list.js')};\n", "utf-8")
        Path("rules/list.js").write_text(f"module.exports = {json.dumps(listed, indent=2)}\n", "utf-8")
        commented = f"Host\t10.1.1.1\n// driller:127.0.0.2:detail\n\n{json.dumps(detail, indent=2)}\n\n// next\n"
        Path("rules/kept.txt").write_text(commented, "utf-8")
        said = command("import", "neocrawler", "rules", "-o", "sites").out
        assert "a rule of 127.0.0.2 names it, but it is of this site" in said
        command("site", "push", "sites")
        await run_all()
        assert rows("select title, content from stories order by title") == sorted(stories.values())
        assert sorted(other.paths()) == sorted(["/robots.txt", *(f"/c/2014-5/{number}.html" for number in stories)])
