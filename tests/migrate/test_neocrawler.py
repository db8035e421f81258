"""NEOCrawler's rules as site files: what each field becomes, and that nothing is dropped without a word."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.errors import BadRules
from gossamer.migrate.neocrawler.convert import ConvertedSite, convert
from gossamer.migrate.neocrawler.fields import FIELDS
from gossamer.migrate.neocrawler.pattern import match_of
from gossamer.migrate.neocrawler.rules import rules_of
from gossamer.migrate.neocrawler.units import SUBSET, UNIT, only_group, python_regex
from gossamer.model.page import Response
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.file.load import load_text
from gossamer.sites.file.problems import errors_of
from gossamer.sites.page import Reading

ROOT = Path(__file__).parents[2]
FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
COVERAGE = ROOT / "docs" / "evidence" / "coverage.md"

PRINTED = """The rule of a domain:

{
  "domain": "x.example",      // without www, as in "x.example"
  "url_pattern": "^http://news\\.x\\.example/\\\\d+\\.html$", /* a regular
                                 expression */
  alias: 'news "one"',
  "id_parameter": [...],      // ...
  ...
  "extract_rule": {
    "rule": {
      "t": {"base": "content", "mode": "css", "expression": "h1", "pick": "text", "index": 1},
      ...
    }
  },
  "cookie": ...,
  "drill_rules": ["a", "//b", ...],
  "active": true,
  "seed": ["http://x.example/"]   // rounds begin here
  ...
}
"""


def rule(**more: Any) -> dict[str, Any]:
    return {"domain": "x.example", "alias": "page", "url_pattern": "/p/", **more}


def unit(expression: Any, mode: str = "css", **more: Any) -> dict[str, Any]:
    return {"base": "content", "mode": mode, "expression": expression, "pick": "text", "index": 1, **more}


def one(*rules: dict[str, Any]) -> ConvertedSite:
    [made] = convert([*rules])
    assert errors_of(made.problems) == []
    return made


def site(*rules: dict[str, Any]) -> CompiledSite:
    [found] = load_text(one(*rules).text)
    return compile_site(found)


def layer(**more: Any) -> Any:
    return site(rule(**more)).layers["page"]


def told(*rules: dict[str, Any]) -> dict[str, str]:
    return {note.field: note.became for note in one(*rules).notes}


def read(fields: dict[str, Any], body: str, url: str = "http://x.example/p/1", **more: Any) -> Reading:
    made = site(rule(extract_rule={"category": "crawled", "rule": fields}, **more))
    return made.read("page", Response(url, 200, {"content-type": "text/html; charset=utf-8"}, long(body)))


def long(body: str) -> bytes:
    """A page of more than 500 characters; NEOCrawler takes others for broken ones."""
    return f"{body}<!-- {' ' * 500} -->".encode()


def values(fields: dict[str, Any], body: str, **more: Any) -> dict[str, Any]:
    return read(fields, body, **more).records[0].fields


class TestRules:
    RULE = rule(drill_rules=["a"], active=True, schedule_interval=60, extract_rule={"rule": {"t": unit("[x]")}})

    @pytest.mark.parametrize("form", ["list", "one", "keys", "texts", "hash", "nested", "dump", "text list"])
    def test_every_form_in_which_rules_are_kept_is_read(self, form: str) -> None:
        whole = self.RULE
        # As the server keeps them: every field a text.
        flat = {k: v if isinstance(v, str) else json.dumps(v) for k, v in whole.items()}
        deeper = {**flat, "extract_rule": json.dumps({"rule": json.dumps(whole["extract_rule"]["rule"])})}
        nameless = {k: v for k, v in whole.items() if k not in ("domain", "alias")}
        key = "driller:x.example:page"
        text = {
            "list": json.dumps([whole]),
            "one": json.dumps(whole),
            "keys": json.dumps({key: nameless}),
            "texts": json.dumps({key: json.dumps(whole)}),
            "hash": json.dumps({key: deeper}),
            "nested": json.dumps({"x.example": {"page": nameless}}),
            "dump": f"{key}\n{json.dumps(flat)}\n",
            "text list": json.dumps([json.dumps(flat)]),
        }[form]
        [found] = rules_of(text)
        assert found == whole

    def test_a_rule_as_documentation_prints_it(self) -> None:
        """With comments at the ends of lines, and `...` for what is left out."""
        [found] = rules_of(PRINTED)
        assert found == {
            "domain": "x.example",
            "url_pattern": r"^http://news\.x\.example/\d+\.html$",
            "alias": 'news "one"',
            "id_parameter": [],
            "extract_rule": {"rule": {"t": unit("h1")}},
            "cookie": None,
            "drill_rules": ["a", "//b"],
            "active": True,
            "seed": ["http://x.example/"],
        }

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{ "url_pattern": @ }', "'@ }' on line 1"),
            ('\n\n{\n "url_pattern": word\n}', "the object on line 3: Expecting value"),
            ("", "it is not JSON"),
            ("nonsense", "it is not JSON"),
            ("driller:a:b\n{", "What follows driller:a:b cannot be read: it has no end"),
            ("[]", "holds no rules"),
            ("{}", "holds no rules"),
            ("[1]", "1 stands where a rule should be"),
            ('["x"]', "'x' stands where a rule should be"),
            ('[{"url_pattern": "a"}]', "rule 1 has no domain and no alias"),
            ('[{"alias": "a"}]', "rule 1 has no domain"),
        ],
    )
    def test_what_holds_no_rules_is_told(self, text: str, said: str) -> None:
        with pytest.raises(BadRules, match=re.escape(said)):
            rules_of(text, "rules.json")

    def test_names_that_look_like_numbers_stay_texts(self) -> None:
        [found] = rules_of('{"driller:1.example:12": {"url_pattern": "123", "weight": "12"}}')
        assert (found["alias"], found["url_pattern"], found["weight"]) == ("12", "123", 12)

    def test_two_rules_of_one_name_are_refused(self) -> None:
        with pytest.raises(BadRules, match=r"Two rules are called x.example:page"):
            convert([rule(), rule()])


class TestFields:
    def test_domain_and_alias(self) -> None:
        made = convert([rule(), rule(alias="other", url_pattern="/o/"), rule(domain="y.example", alias="start:1")])
        assert [(each.name, each.layers) for each in made] == [
            ("x.example", ("page", "other")),
            ("y.example", ("start:1",)),
        ]
        odd = one(rule(domain="ex ample", alias="a.b"), rule(domain="ex ample", alias="a b"))
        assert (odd.name, odd.layers) == ("ex-ample", ("a_b", "a_b_2"))
        assert [note.field for note in odd.notes if note.became.startswith("changed: the")] == [
            "alias",
            "alias",
            "domain",
        ]

    def test_url_pattern(self) -> None:
        made = site(
            rule(
                url_pattern="^http://www\\.x\\.example/list/\\d+$", alias="list", seed=["http://www.x.example/list/1"]
            ),
            rule(url_pattern="/post/(?<id>\\d+)\\.html"),
        )
        assert made.layer_of("http://www.x.example/list/12") == ("list", {})
        assert made.layer_of("https://deep.x.example/post/7.html?a") == ("page", {"id": "7"})
        assert made.layer_of("https://x.example:8080/post/7.html") == ("page", {"id": "7"})
        # NEOCrawler takes the first name of a host away, and has the domain.
        assert made.layer_of("https://deep.er.x.example/post/7.html?a") is None
        for other in ("http://notx.example/post/7.html", "http://y.example/post/7.html", "http://x.example/list/1"):
            assert made.layer_of(other) is None

    @pytest.mark.parametrize(
        ("pattern", "fits", "fits_not"),
        [
            ("^http://www.x.example/a|t\\d+.html$", "http://x.example/t1.html", "http://y.example/t1.html"),
            ("^.+/a$", "http://x.example/b/a", "http://x.example/b/ab"),
            ("a(b|c)[|]", "http://x.example/ab|", "http://x.example/b"),
            ("%5Ehttp%3A%2F%2Fx.example%2F%5Cd", "http://x.example/1", "http://x.example/a"),
            ("x.example\\/q", "http://x.example/q", "http://x.example/r"),
            ("www.x.example$", "http://www.x.example", "http://www.x.example/a"),
            ("//www.x.example/a", "https://www.x.example/a/b", "http://x.example/a"),
        ],
    )
    def test_patterns_are_those_of_whole_urls_of_the_domain(self, pattern: str, fits: str, fits_not: str) -> None:
        match, said = match_of(pattern, "x.example")
        assert said == ""
        assert re.search(match, fits)
        assert not re.search(match, fits_not)

    @pytest.mark.parametrize("pattern", ["", "^/p/", "("])
    def test_patterns_that_fit_nothing_are_told(self, pattern: str) -> None:
        assert told(rule(url_pattern=pattern))["url_pattern"].startswith("left out: ")
        assert layer(url_pattern=pattern).match is None

    def test_id_parameter(self) -> None:
        made = site(
            rule(id_parameter=["id", "page"]),
            rule(alias="none", url_pattern="/n/", id_parameter=["#", "id"]),
            rule(alias="all", url_pattern="/a/", id_parameter=[]),
        )
        address = "http://x.example/?page=1&sid=2&id=3"
        assert made.canonical("page", address) == "http://x.example/?id=3&page=1"
        assert made.canonical("none", address) == "http://x.example/"
        assert made.canonical("all", address) == "http://x.example/?id=3&page=1&sid=2"

    def test_encoding(self) -> None:
        assert layer(encoding="gbk").encoding == "gbk"
        assert layer(encoding="auto").encoding is None
        assert "there is no character set" in told(rule(encoding="klingon"))["encoding"]

    def test_type(self) -> None:
        assert told(rule(type="branch"))["type"].startswith("changed: ")

    def test_save_page(self) -> None:
        assert layer(save_page=True).save
        assert layer(save_page=1).save
        assert not layer(save_page=False).save
        assert "neither true nor false" in told(rule(save_page="maybe"))["save_page"]

    def test_format(self) -> None:
        assert layer(format="binary").format.value == "binary"
        made = one(
            rule(format="json", drill_rules=["a"], extract_rule={"rule": {"t": unit("b"), "j": unit("$.a.b", "json")}})
        )
        notes = {note.field: note.became for note in made.notes}
        assert "pages of format json" in notes["drill_rules"]
        assert "pages of format json" in notes["extract_rule.rule.t"]
        assert "check this JMESPath" in notes["extract_rule.rule.j"]
        [found] = load_text(made.text)
        body = Response("http://x.example/p/", 200, {}, b'{"a": {"b": "c"}}' + b" " * 500)
        assert compile_site(found).read("page", body).records[0].fields == {"j": "c"}
        assert "left out" in told(rule(format="binary", extract_rule={"rule": {"t": unit("b")}}))["extract_rule.rule"]
        assert told(rule(format="pdf"))["format"] == "changed: read as html"

    def test_jshandle(self) -> None:
        made = site(rule(jshandle=True))
        assert made.site.engine == "scrapy"
        assert made.layers["page"].request is not None
        assert made.layers["page"].request.render is True
        assert "runs in Scrapy" in told(rule(jshandle=True))["jshandle"]
        assert layer(jshandle=False).request is None

    def test_cookie(self) -> None:
        cookies = [{"name": "a", "value": "1", "domain": ".x.example"}, {"name": "b", "value": "{two}", "path": "/"}]
        assert layer(cookie=cookies).request.cookies == {"a": "1", "b": "{two}"}
        assert layer(cookie="a=1; b=2=3").request.cookies == {"a": "1", "b": "2=3"}
        assert layer(cookie={"a": 1}).request.cookies == {"a": "1"}
        assert layer(cookie=[]).request is None
        bad = told(rule(cookie=[{"name": "c", "value": "${HOME}"}]))
        assert bad["cookie"].startswith("left out")
        assert told(rule(cookie=[{"value": "c"}]))["cookie"] == "left out: it has no name"
        assert "every page" in told(rule(cookie=[{"name": "c", "domain": "y.example"}]))["cookie.domain"]

    def test_drill_rules(self) -> None:
        made = site(
            rule(drill_rules=["a.next", ".box a", "img"], seed=["http://x.example/p/1"]),
            rule(alias="img", url_pattern="\\.png"),
        )
        body = '<a class=next href="/p/2">n</a><div class=box><a href=/q>q</a></div><a href=/p/3>3</a><img src=/i.png>'
        found = made.read("page", Response("http://x.example/p/1", 200, {}, long(body))).links
        assert [(link.layer, link.url) for link in found] == [
            ("page", "http://x.example/p/2"),
            ("img", "http://x.example/i.png"),
        ]

    def test_a_selector_that_cannot_be_used_is_left_out_and_told(self) -> None:
        made = one(rule(drill_rules=["a:eq(", "b"], extract_rule={"rule": {"t": unit("h1["), "u": unit("h2")}}))
        [found] = load_text(made.text)
        assert [follow.css for follow in found.layers["page"].follow] == ["b"]
        assert list(found.layers["page"].fields) == ["u"]
        assert {note.field: note.value for note in made.notes if "not a CSS selector" in note.became} == {
            "drill_rules": "a:eq(",
            "extract_rule.rule.t": '{"css": "h1["}',
        }
        assert "#   page: drill_rules: a:eq(: left out: this is not a CSS selector" in made.text

    def test_seeds_that_are_ranges(self) -> None:
        made = site(
            rule(
                url_pattern="^http://www.x.example/p_[a-z]+_.*?.html$", seed=["http://www.x.example/p_a_#.html#1#300#1"]
            ),
            rule(alias="b", url_pattern="^http://www.x.example/nt|n/\\d+$", seed=["http://www.x.example/nn/##2#36#4"]),
        )
        urls = [(seed.layer, seed.url) for seed in made.seeds()]
        assert (len(urls), urls[0], urls[299]) == (
            309,
            ("page", "http://www.x.example/p_a_1.html"),
            ("page", "http://www.x.example/p_a_300.html"),
        )
        assert [url for layer, url in urls if layer == "b"] == [
            f"http://www.x.example/nn/{number}" for number in range(2, 37, 4)
        ]
        assert made.site.seeds[0].url == "http://www.x.example/p_a_[1-300].html"
        for bad in ("http://x.example/p/##9#1#1", "http://x.example/p/##1#9#0", "http://x.example/p/##a#9#1"):
            assert told(rule(seed=[bad]))["seed"].startswith("left out: ")

    def test_links_and_seeds_of_other_domains(self) -> None:
        rules = [
            rule(drill_rules=["a", "b"], seed=["http://y.example/q/1"]),
            rule(domain="y.example", alias="q", url_pattern="/q/"),
            rule(domain="z.example", url_pattern="/z/", active=False, drill_rules=["a"]),
        ]
        x, y, z = (load_text(each.text)[0] for each in convert(rules))
        assert [(follow.css, follow.to) for follow in x.layers["page"].follow] == [
            ("a", None),
            ("b", None),
            ("a", "y.example.*"),
            ("b", "y.example.*"),
        ]
        assert (x.seeds, [seed.url for seed in y.seeds], z.active) == ((), ["http://y.example/q/1"], False)

    def test_drill_relation(self) -> None:
        notes = told(rule(drill_relation=unit("title")))
        assert "store.LAYER.add: parent" in notes["drill_relation"]
        made = site(rule(extract_rule={"rule": {"t": unit("h1")}}))
        assert made.site.store["page"].add == ("parent",)

    def test_validation_keywords(self) -> None:
        made = site(rule(validation_keywords=["log out", "ü"]))
        page = Response("http://x.example/p/", 200, {}, long("log out"))
        assert made.read("page", page).verdict.value == "invalid"
        assert made.read("page", page._replace(body=long("ü log out"))).verdict.value == "ok"

    @pytest.mark.parametrize(("format", "least"), [("html", 500), ("json", 500), ("binary", 20)])
    def test_short_pages_are_broken_ones(self, format: str, least: int) -> None:
        made = site(rule(format=format))
        for count, verdict in ((least - 1, "invalid"), (least, "ok")):
            text = "ü" * count if format != "binary" else "x" * count
            assert made.read("page", Response("http://x.example/p/", 200, {}, text.encode())).verdict.value == verdict

    @pytest.mark.parametrize("field", ["script", "navigate_rule", "inject_jquery", "load_img", "stoppage"])
    def test_what_a_browser_did(self, field: str) -> None:
        assert told(rule(**{field: ["x"]}))[field].startswith("left out: ")
        assert field not in told(rule(**{field: -1 if field == "stoppage" else []}))

    @pytest.mark.parametrize("field", ["first_schedule", "last_schedule", "id"])
    def test_what_is_state_and_no_rule(self, field: str) -> None:
        assert told(rule(**{field: 1393584663736}))[field].startswith("left out: ")

    def test_priority_and_weight(self) -> None:
        made = site(rule(priority=2, weight=20), rule(alias="b", url_pattern="/b/", priority="1", weight=10))
        assert [(each.tier, each.weight) for each in made.layers.values()] == [(0, 60), (0, 110)]
        # Between domains, the shares of all their rules count.
        urgent, lazy, both = convert(
            [
                rule(domain="a.example", priority=1, weight=10),
                rule(domain="b.example", priority=10, weight=10),
                rule(priority=1),
                rule(alias="b", url_pattern="/b/", priority=4),
            ]
        )
        weights = [compile_site(load_text(each.text)[0]).group().weight for each in (urgent, lazy, both)]
        assert weights == [110, 11, 125]
        for bad in ({"priority": 0}, {"weight": "much"}, {"priority": -1}):
            assert told(rule(**bad))["priority and weight"].startswith("left out")

    def test_schedule_interval(self) -> None:
        made = site(
            rule(schedule_interval=86400, seed=["http://x.example/p/1"]),
            rule(alias="b", url_pattern="/b/", schedule_interval=90, seed=["http://x.example/b/1"]),
            rule(alias="c", url_pattern="/c/", schedule_interval=10),
        )
        assert made.site.schedule is not None
        assert made.site.schedule.every == 90
        seen = [each.seen for each in made.layers.values()]
        assert [(each.policy, each.window) for each in seen if each] == [
            ("rolling", 86400),
            ("rolling", 90),
            ("rolling", 10),
        ]
        assert told(rule(schedule_interval="often"))["schedule_interval"].startswith("left out")
        both = told(
            rule(schedule_interval=60, seed=["http://x.example/p/1"]),
            rule(alias="b", url_pattern="/b/", schedule_interval=3600, seed=["http://x.example/b/1"]),
        )
        assert both["schedule_interval"] == "changed: rounds begin every 1m, for all seeds of the site"

    def test_active(self) -> None:
        made = one(rule(), rule(alias="idle", url_pattern="/idle/", active=False))
        assert made.layers == ("page",)
        assert "it is below as a comment" in {note.field: note.became for note in made.notes}["active"]
        assert "#   idle:\n#     match: " in made.text
        assert site(rule(active=False), rule(alias="off", url_pattern="/o/", active=False)).site.active is False

    def test_seed(self) -> None:
        made = site(rule(url_pattern="/p/\\d+", seed=["http://x.example/p/[1-300]", "http://x.example/p/[08-10]?{b}"]))
        assert made.seed_count() == 303
        assert [link.url for link in made.seeds()][-2:] == ["http://x.example/p/09?{b}", "http://x.example/p/10?{b}"]
        other = one(rule(seed="http://x.example/else"))
        assert "{url: http://x.example/else" not in other.text
        assert {note.field for note in other.notes} == {"seed"}
        [found] = load_text(other.text)
        assert [(link.url, link.layer) for link in compile_site(found).seeds()] == [("http://x.example/else", "page")]

    def test_schedule_rule(self) -> None:
        assert layer(schedule_rule="LIFO").order == "lifo"
        assert layer(schedule_rule="fifo").order == "fifo"
        assert told(rule(schedule_rule="RANDOM"))["schedule_rule"] == "changed: first in, first out"

    def test_use_proxy(self) -> None:
        made = site(rule(use_proxy=True))
        assert made.layers["page"].request is not None
        assert made.layers["page"].request.proxy == "pool"
        assert made.site.proxies["pool"].urls == ("http://127.0.0.1:2013",)
        assert "name your proxies" in told(rule(use_proxy=True))["use_proxy"]

    def test_a_field_that_nobody_knows(self) -> None:
        assert "not known" in told(rule(colour="blue"))["colour"]


class TestExtraction:
    PAGE = (
        '<h1> One <b>two</b></h1><a class=x href="/1">p</a><a class=x href="/2">q</a>'
        "<p>Name：Ann<i>Born: May > 1999<</i></p><div class=c><b>c1</b><i>t1</i></div><div class=c><b>c2</b></div>"
    )

    def test_css(self) -> None:
        got = values(
            {
                "text": unit("h1"),
                "inner": unit("h1", pick="innerText", index="1"),
                "html": unit("h1", pick="html"),
                "attr": unit("a.x", pick="@href"),
                "second": unit("a.x", index=2),
                "all": unit("a.x", pick="@href", index=-1),
                "zero": unit("a.x", index=0),
                "none": unit("h9"),
                "bare": {"expression": "h1"},
            },
            self.PAGE,
        )
        assert got == {
            "text": "One two", "inner": "One two", "html": "One <b>two</b>", "attr": "/1", "second": "q", "all": ["/1", "/2"],
            "zero": "p", "none": None, "bare": "One two",
        }  # fmt: skip

    def test_regex(self) -> None:
        got = values(
            {
                "first": unit("name：(\\w+?)<", "regex"),
                "second": unit("(\\w+): (?:[a-z]+) > (?<year>\\d+)", "regex", index=2),
                "all": unit("<b>(\\w+)</b>", "regex", index=-1),
                "address": unit("/p/(\\d+)", "regex", base="url"),
                "missing_index": {"mode": "regex", "expression": "class=(x)"},
            },
            self.PAGE,
        )
        assert got == {
            "first": "Ann", "second": "1999", "all": ["two", "c1", "c2"], "address": "1", "missing_index": ["x", "x"],
        }  # fmt: skip

    def test_value(self) -> None:
        assert values({"a": unit("{forum} x", "value"), "b": unit(7, "value"), "c": unit("", "value")}, "") == {
            "a": "{forum} x", "b": 7, "c": "",
        }  # fmt: skip

    def test_xpath(self) -> None:
        assert values({"a": unit("//a/@href", "xpath", index=2)}, self.PAGE) == {"a": "/2"}

    def test_subset(self) -> None:
        subset = {"category": "comment", "relate": "#t#", "rule": {"b": unit("b"), "i": unit("i")}, "require": ["b"]}
        more = {"mapped": unit(".c", subset={**subset, "mapping": True}), "kept": unit(".c", subset=subset, index=-1)}
        rows = [{"b": "c1", "i": "t1"}, {"b": "c2", "i": None}]
        assert values(more, self.PAGE) == {"mapped": rows, "kept": rows}
        made = one(rule(extract_rule={"category": "node", "rule": more}))
        [found] = load_text(made.text)
        tables = {table.name: table.parent for table in compile_site(found).tables()}
        assert tables == {"node": "", "comment": "node"}
        notes = {note.field: note.became for note in made.notes}
        assert notes["extract_rule.rule.kept.subset.require"].startswith("left out")
        assert notes["extract_rule.rule.mapped.subset.relate"].startswith("changed")

    def test_category(self) -> None:
        fields = {"rule": {"t": unit("h1")}}
        made = one(
            rule(extract_rule={"category": "news", **fields}),
            rule(alias="b", url_pattern="/b/", extract_rule={"category": "news", **fields}),
            rule(alias="c", url_pattern="/c/", extract_rule={"category": "own-1", **fields}),
            rule(alias="d", url_pattern="/d/", extract_rule=fields),
        )
        [found] = load_text(made.text)
        assert {name: rule.table for name, rule in found.store.items()} == {
            "page": "x_example_page", "b": "x_example_b", "c": "own_1", "d": "x_example_d",
        }  # fmt: skip
        assert [note.rule for note in made.notes if note.field == "extract_rule.category"] == ["page", "b", "c"]
        assert one(rule(domain="39.net", extract_rule=fields)).text.count("table: t_39_net_page") == 1

    def test_require(self) -> None:
        fields = {"a": unit("h1"), "b": unit("h8"), "c": unit("h9")}
        made = site(rule(extract_rule={"rule": fields, "require": ["a", ["b", "c"], "absent"]}))
        page = Response("http://x.example/p/", 200, {}, long(self.PAGE))
        reading = made.read("page", page)
        assert (reading.verdict.value, reading.reason) == ("lack", "lacks one of b or c")
        assert len(reading.records) == 1, "it complained and stored"
        assert (
            "no field of this name"
            in told(rule(extract_rule={"rule": fields, "require": ["x"]}))["extract_rule.require"]
        )

    def test_names_of_fields_that_no_table_takes(self) -> None:
        made = one(rule(extract_rule={"rule": {"标题": unit("h1"), "1st": unit("h1"), "url": unit("a", pick="@href")}}))
        [found] = load_text(made.text)
        assert list(found.layers["page"].fields) == ["field", "field_1st", "field_url"]
        assert sum("the field is called" in note.became for note in made.notes) == 3
        # What refers to them follows.
        talk = unit(".c", subset={"category": "c", "rule": {"b": unit("b")}})
        made = one(rule(extract_rule={"rule": {"标题": unit("h1"), "评论": talk}, "require": [["标题", "评论"]]}))
        [found] = load_text(made.text)
        assert found.layers["page"].require == (("field", "field_2"),)
        assert [table.name for table in compile_site(found).tables()] == ["x_example_page"]

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"t": "h1"}, "extract_rule.rule.t"),
            ({"t": unit(None)}, "extract_rule.rule.t"),
            ({"t": unit("a", pick="value")}, "extract_rule.rule.t.pick"),
            ({"t": unit("a", mode="magic")}, "extract_rule.rule.t.mode"),
            ({"t": unit("a", base="header")}, "extract_rule.rule.t.base"),
            ({"t": unit("a", colour=1)}, "extract_rule.rule.t.colour"),
            ({"t": unit("a", "regex")}, "extract_rule.rule.t"),
            ({"t": unit("(a)", "regex", index=2)}, "extract_rule.rule.t.index"),
            ({"t": unit("(a)(b)\\1", "regex", index=2)}, "extract_rule.rule.t.index"),
            ({"t": unit("a", subset="x")}, "extract_rule.rule.t.subset"),
            ({"t": unit("a", subset={"rule": {}})}, "extract_rule.rule.t.subset"),
            ({"t": unit("a", subset={"rule": {"b": unit("(b)", "regex")}})}, "extract_rule.rule.t.subset.rule.b"),
            (["t"], "extract_rule.rule"),
        ],
    )
    def test_what_has_no_sense_or_another_is_told(self, given: Any, field: str) -> None:
        assert field in told(rule(extract_rule={"rule": given}))

    def test_extraction_rules_that_are_none(self) -> None:
        assert "extract_rule" in told(rule(extract_rule="h1"))
        assert "extract_rule.relate" in told(rule(extract_rule={"relate": "x", "rule": {}}))
        assert "extract_rule.more" in told(rule(extract_rule={"more": "x"}))

    @pytest.mark.parametrize(
        ("text", "number", "made"),
        [
            ("(a)(b)", 2, "(?:a)(b)"),
            ("(?<n>a)(?:b)([(])(?=c)\\((d)", 2, "(?:a)(?:b)([(])(?=c)\\((?:d)"),
            ("(a(b)c)", 1, "(a(?:b)c)"),
            ("([^[|]+)[^]x[||]", 1, "([^\\[|]+)[\\s\\S]x[\\||]"),
        ],
    )
    def test_one_group_of_an_expression(self, text: str, number: int, made: str) -> None:
        assert only_group(python_regex(text), number) == made


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**13)
    | st.text(max_size=12)
    | st.sampled_from(["a", "#", "^http://x.example/"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
UNITS = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(UNIT, JSON), "mode": st.sampled_from(["css", "regex", "value", 1])}
)
EXTRACT = st.fixed_dictionaries(
    {},
    optional={
        "category": JSON,
        "require": JSON,
        "rule": JSON | st.dictionaries(st.text(max_size=6), UNITS, max_size=3),
    },
)
RULES = st.fixed_dictionaries(
    {"domain": st.sampled_from(["x.example", "39.net", "ä ö"]), "alias": st.text(min_size=1, max_size=8)},
    optional={name: JSON for name in FIELDS if name not in ("domain", "alias", "extract_rule")}
    | {"extract_rule": EXTRACT | JSON},
)


@pytest.mark.timeout(120 * FACTOR)
@settings(max_examples=40 * FACTOR)
@given(st.lists(RULES, min_size=1, max_size=3, unique_by=lambda one: one["alias"]))
def test_whatever_a_rule_holds_the_file_can_be_used_and_nothing_is_dropped_without_a_word(
    rules: list[dict[str, Any]],
) -> None:
    text = json.dumps(rules)
    for made in convert(rules_of(text)):
        assert errors_of(made.problems) == []
        [found] = load_text(made.text)
        compile_site(found)
        said = {(note.rule, note.field) for note in made.notes}
        for each in rules_of(text):
            for field in FIELDS:
                value = each.get(field)
                if each["domain"] == made.name and FIELDS[field] and value not in (None, "", [], {}, 0, False, -1):
                    assert (each["alias"], field) in said


def _tests() -> set[str]:
    """Every test of the project, as file::name or file::Class::name."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            within = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
            for function in inner:
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(f"{name}::{within}{function.name}")
    return found


def _rows() -> list[list[str]]:
    lines = COVERAGE.read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return [row for row in rows if row[0] not in ("NEOCrawler", "layer_crawler") and not row[0].startswith("---")]


class TestCoverage:
    def test_every_row_names_tests_that_exist_or_says_that_it_comes_later(self) -> None:
        known = _tests()
        rows = _rows()
        assert len(rows) > 60
        wrong = []
        for row in rows:
            names = re.findall(r"`(tests/[^`]+)`", row[-1])
            if len(row) != 3 or [name for name in names if name not in known] or not (names or "later" in row[-1]):
                wrong.append(row)
        assert wrong == []

    def test_every_field_of_neocrawler_has_a_row(self) -> None:
        first = [row[0] for row in _rows()]
        missing = [name for name in FIELDS if not any(cell.startswith(f"`{name}`") for cell in first)]
        extraction = [*(f"extract_rule.rule.*.{name}" for name in UNIT)]
        extraction += [f"extract_rule.rule.*.subset.{name}" for name in SUBSET]
        extraction += ["extract_rule.category", "extract_rule.rule", "extract_rule.require"]
        missing += [name for name in extraction if not any(cell.startswith(f"`{name}`") for cell in first)]
        assert missing == []
