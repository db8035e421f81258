"""What the check notices before a crawl loses rows by it: patterns that fit nothing, names that are not there, slips of YAML."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from gossamer.model.page import Response
from gossamer.sites.check.match import fits_a_path
from gossamer.sites.compile import compile_site
from gossamer.sites.extract.scope import roots
from gossamer.sites.file.load import load_text, survey_text

BEGIN = "site: s\nseeds: http://www.s.example/\n"
LOGIN = (
    "site: s\nparams: {{base: 'http://s.example', two: [a, b]}}\nseeds: '{{base}}/{{two}}'\n"
    "login: {{url: '{}', form: {{a: b}}}}\nlayers: {{a: {{}}}}\n"
)
Z = "  z: {match: ^/z}\n"


LISTED = (
    BEGIN + "layers:\n  a: {{match: ^/, records: li, fields: {{h: {{css: a, attr: href}}, at: {}}}, "
    "follow: [{{url: '{{h}}?seen={{at}}', to: z}}]}}\n  z: {{match: ^/z, follow: [{{css: a.next, to: z, pages: 0}}]}}\n{}"
)
TIMED = (
    "warning: layers.a.follow[0].url: {at} changes, and makes another page of what is still the same one: the page turns and links of "
    'layer z were seen before, and are not fetched again (leave it out of url, and write changed: "{at}")'
)


TURNS = LISTED.format("time", "").replace("'{h}?seen={at}'", "'{h}', changed: '{at}'").replace("pages: 0", "hosts: own")


def told(text: str) -> list[str]:
    return [str(problem) for problem in survey_text(text, "f.yaml").problems]


def match(pattern: str) -> str:
    return f"{BEGIN}layers:\n  a: {{match: '{pattern}', follow: a}}\n{Z}"


def layer(text: str) -> str:
    return f"{BEGIN}layers:\n  a: {{match: ^/, fields: {{t: h1, u: h2}}, follow: [{{css: a, to: z}}], {text}}}\n{Z}"


def follow(text: str) -> str:
    return f"{BEGIN}layers:\n  a: {{match: ^/, fields: {{t: h1, u: h2}}, follow: [{{to: z, {text}}}]}}\n{Z}"


def field(text: str) -> str:
    return f"{BEGIN}layers:\n  a: {{match: ^/, fields: {{t: {{css: h1, {text}}}}}, follow: [{{css: a, to: z}}]}}\n{Z}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # match
        (match("^p/"), "f.yaml:4:14: layers.a.match: no path fits this: what is looked at begins with / (write '^/p/')"),
        (match("^$"), "no path fits this"),
        (match(r"^\?id="), "no path fits this"),
        (match("^(p|q)/"), "no path fits this"),
        (match(r"^s\.example/p/"), r"layers.a.match: match is looked for in path and query, where the host s.example never stands (write '^/p/', or the whole URL: '^https?://s\.example/p/')"),
        (match(r"www.s.example/p/"), "warning: layers.a.match: match is looked for in path and query, where the host www.s.example never"),
        (match("(?:https?)://x.example/"), "warning: layers.a.match: match is looked for in path and query, unless it begins with http"),
        (match("^/list?page="), r"warning: layers.a.match: ? makes the sign before it optional, and nothing here fits the ? of a URL (write '^/list\?page=')"),
        (match(r"/view\.php?id=\d+"), r"(write '/view\.php\?id=\d+')"),
        # what says when a page changed
        (follow("css: a, changed: now"), "layers.a.follow[0].changed: changed names no field, so it never differs (write {names}, as changed: \"{at}\")"),
        (follow("css: a, changed: '{v}'"), "layers.a.follow[0].changed: {v} is not a field, parameter or group of match"),
        (follow("css: a, changed: '{t}', again: true"), "changed and again exclude each other"),
        (BEGIN + "layers: {a: {match: ^/, fields: {t: h1}, follow: [{css: a, to: a, pages: 3, changed: '{t}'}]}}\n", "changed and pages exclude each other"),
        (follow("css: a, changed: '{t}'").replace("match: ^/z", "match: ^/z, seen: never"), "warning: layers.a.follow[0].changed: layer z has seen: never, so each page is fetched whenever a link leads to it, whatever changed says (leave seen out of layer z)"),
        (follow("css: a, changed: '{t}'").replace("match: ^/z", "match: ^/z, seen: round"), "warning: layers.a.follow[0].changed: layer z has seen: round, so each page is fetched in every round"),
        *((LISTED.format(field, store), TIMED) for field, store in (
            ("time", ""), ("{css: .d, attr: datetime}", ""), ("{css: i, type: datetime}", ""), ("{css: i, type: int}", ""),
            ("li > time.last", ""), ("{css: i, type: int}", "store: {a: {key: [h]}}\n"),
        )),
        # the patterns of links
        (follow("css: a, match: ^/p/"), "layers.a.follow[0].match: no URL fits this: what is looked at is the whole URL, which begins with http (leave out ^, or write ^https?://[^/]+/p/)"),
        (follow("css: a, match: ^p/"), "follow[0].match: no URL fits this"),
        (follow("css: a, skip: ^/logout"), "warning: layers.a.follow[0].skip: no URL fits this"),
        (follow("css: a, match: '/list?page='"), "warning: layers.a.follow[0].match: ? makes the sign before it optional"),
        # seeds
        ("site: s\nseeds: 'http://s.example/[a-z]'\nlayers: {a: {}}\n", "warning: seeds.url: [a-z] is not a range, so this is one URL (ranges are [1-300], [1-300:5] and [01-99]; write other values in params)"),
        ("site: s\nseeds: ['http://s.example/[1-3,7]']\nlayers: {a: {}}\n", "warning: seeds[0].url: [1-3,7] is not a range"),
        ("site: s\nseeds: 'http://s.example/{1-3}'\nlayers: {a: {}}\n", "warning: seeds.url: {1-3} is not a range"),
        ("site: s\nseeds: 'http://s.example/[1..3]'\nlayers: {a: {}}\n", "warning: seeds.url: [1..3] is not a range"),
        # languages
        (field("type: date, format: YYYY-MM-DD"), "t.format: no date is written like this: % begins what stands for a part of it (as %Y-%m-%d)"),
        (field("type: datetime, format: '%H:%M'"), "t.format: this format says neither a year nor a day (as %d.%m.%Y; write type: text for a time alone)"),
        (follow("xpath: '//dc:link'"), "follow[0].xpath: this is not an XPath expression: undefined namespace prefix (pages are read without the prefixes of XML: write title, not dc:title)"),
        (follow("css: 'dc|link'"), "follow[0].css: this CSS selector has a name with a prefix (pages are read"),
        # names
        (follow("css: a, when: tt"), "follow[0].when: there is no field tt (did you mean t?)"),
        (follow("css: a, when: 'length(v[?x == `1`]) > `0`'"), "follow[0].when: there is no field v (there are t and u)"),
        (follow("css: a, when: 't == \"yes\"'"), "follow[0].when: there is no field yes (a text is written 'yes' in JMESPath, in single quotes)"),
        (follow("css: a, pass: {x: tt.y}"), "follow[0].pass.x: there is no field tt"),
        (follow("url: /q, json: {query: 'query { viewer {login} }'}"), "follow[0].json.query: {login} is not a field, parameter or group of match ({{login}} or { login } stands for the braces themselves, as in GraphQL)"),
        (follow("url: '/q/{posts.id}'"), "follow[0].url: {posts} is not a field"),
        # jmespath on HTML
        (BEGIN + "layers: {a: {fields: {t: {jmespath: x}}}}\n", "warning: layers.a.fields.t.jmespath: JMESPath reads JSON, and pages of this layer are html (write format: json"),
        (BEGIN + "layers: {a: {records: {jmespath: x}, fields: {t: {jmespath: x}}}}\n", "warning: layers.a.records.jmespath: JMESPath"),
        (BEGIN + "layers: {a: {fields: {t: {each: {jmespath: x}, fields: {y: {jmespath: x}}}}}}\n", "warning: layers.a.fields.t.each.jmespath: JMESPath"),
        (follow("jmespath: x"), "warning: layers.a.follow[0].jmespath: JMESPath reads JSON"),
        # variables
        ("site: s\nseeds: 'http://${SITE_HOST}/?k=1'\nlayers: {a: {}}\n", "seeds.url: the host of a URL cannot be a variable"),
        (layer("valid: {contains: '${SITE_KEY}'}"), "layers.a.valid.contains: ${SITE_KEY} is not looked up here (variables stand in "),
        (match("^/p${SITE_KEY}"), "layers.a.match: ${SITE_KEY} is not looked up here"),
        (follow("css: a, skip: '${SITE_KEY}'"), "follow[0].skip: ${SITE_KEY} is not looked up here"),
        (field("regex: 'a${SITE_KEY}'"), "fields.t.regex: ${SITE_KEY} is not looked up here"),
        (field("clean: [strip, {prefix: '${SITE_KEY}'}]"), "fields.t.clean[1].prefix: ${SITE_KEY} is not looked up here"),
        (field("clean: [{replace: [a, '${SITE_KEY}']}]"), "fields.t.clean[0].replace[1]: ${SITE_KEY} is not looked up here"),
        # login
        (LOGIN.format("{nase}/in"), "login.url: {nase} is not a parameter with one value (did you mean base?)"),
        (LOGIN.format("{two}/in"), "login.url: {two} is not a parameter with one value"),
        (LOGIN.format("/in"), "login.url: '/in' is not a URL"),
        # defaults
        (field("type: int, default: none"), "fields.t.default: the default 'none' is not a whole number, as type: int says (leave it out: what is not found is null)"),
        (field("type: int, default: '0'"), "the default '0' is not a whole number, as type: int says (write it without quotes)"),
        (field("type: bool, default: 0"), "the default 0 is not true or false"),
        (field("type: int, all: true, default: [1, x]"), "the default 'x' is not a whole number"),
        (field("type: date, default: never"), "the default 'never' is not a date, as type: date says (write it as pages do, as 2024-12-31)"),
        (field("default: {a: 1}"), "the default a mapping is not a text"),
        (field("default: 0"), "warning: layers.a.fields.t.default: the default 0 is not a text (write type: int, or put it in quotes)"),
        # revisit
        (layer("revisit: {every: 1h, max: 2h}"), "warning: layers.a.revisit: min and max are for adaptive visits (write adaptive: true, or leave them out)"),
        # slips of YAML
        (BEGIN + "layers: {a: {fields: {t: {css: .a, .b}}}}\n", "fields.t..b: unknown key .b (inside { } a comma ends a text: write css: '.a, .b')"),
        (BEGIN + "layers:\n  a:\n    fields:\n      t: h1 #main\n", "f.yaml:6:13: warning: #main is a comment here and does not count (put the text in quotes, or a space after #)"),
        (BEGIN + "layers:\n  a:\n    fields:\n      t: #main\n", "f.yaml:6:10: warning: #main is a comment here"),
        (BEGIN + "layers:\n  a:\n    follow:\n    - a #b\n", "f.yaml:6:9: warning: #b is a comment here"),
        (layer('valid: {content_type: "\\bhtml"}'), "content_type: here stands the control character \\x08, which pages do not have (in double quotes YAML reads \\b"),
        (BEGIN + "layers: {größe: {}}\n", "cannot be a name (use the letters a to z and A to Z, digits"),
    ],
)  # fmt: skip
def test_each_is_told_with_its_place_and_the_remedy(text: str, said: str) -> None:
    lines = told(text)
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    "text",
    [
        match("^/p/"),
        match("p/"),
        match(r"^/?\?id="),
        match(r"^https?://s\.example/p"),
        match(r"^/go\?to=x\.example/"),
        match("(?i)^/P"),
        match(r"^/list\?page="),
        match(r"^/(list|search)?\?page="),
        match("[?&]colou?r="),
        match(".*colou?r="),
        match("^/items?/"),
        follow("css: a, match: '/p/', skip: 'logout$'"),
        follow("css: a, match: '^https?://s.example/p/'"),
        follow("css: a, match: '(?i)^HTTPS?://', skip: '^.*/logout'"),
        field("clean: [{remove: '^\\${a}'}]"),
        "site: s\nseeds: ['http://s.example/?filter[created-at]=1&x[]=2&y[1]=3', 'http://[::1]:80/[1-3]/[01-10:2]']\nlayers: {a: {}}\n",
        LOGIN.format("{base}/in"),
        follow("css: a, when: 't && !u'"),
        follow("css: a, pass: {x: '[t, u]'}"),
        follow("url: /q, json: {query: 'query { viewer { login } }', v: '{t}'}"),
        follow("css: script, jmespath: x").replace(", jmespath: x", ""),
        BEGIN + "layers: {a: {fields: {t: {css: script, jmespath: x}, v: {from: headers.etag}}}}\n",
        BEGIN + "layers: {a: {records: li, fields: {t: {jmespath: x}}}}\n",
        BEGIN + "layers: {a: {fields: {t: {css: a, regex: '^\\${a}'}}}}\n",
        BEGIN + "request: {headers: {X: '${SITE_KEY}'}, form: {k: ['${SITE_KEY}']}}\nlayers: {a: {}}\n",
        "site: s\nseeds: 'http://s.example/?k=${SITE_KEY}'\nlayers: {a: {}}\n",
        field("type: decimal, default: '0.5'"),
        field("type: float, default: 0"),
        field("all: true, default: [x]"),
        field("type: json, default: {a: 1}"),
        BEGIN + "# t: #main\nlayers:\n  a:  #one\n    fields:\n      t: h1 # the main one\n",
    ],
)
def test_what_can_be_meant_has_nothing_to_be_told(text: str) -> None:
    assert told(text) == []


def test_a_pattern_is_tried_on_the_beginning_of_every_path() -> None:
    assert all(map(fits_a_path, (r"^/x(?=\d)", r"(?<=/)x$", r"\.html$")))
    assert not any(map(fits_a_path, (r"^[^/]", r"\A\w", "^$")))


def test_the_names_that_an_expression_looks_for_in_the_fields() -> None:
    assert roots("a.b[?c == d].e | f") == ("a",)
    assert roots("[a, {x: b.c}, length(d[*].e), `1`, 'f']") == ("a", "b", "d")
    assert roots("sort_by(a, &b) && !c") == ("a", "c")


def test_keys_that_begin_with_x_are_a_home_for_anchors() -> None:
    text = (
        BEGIN + "x-fields: &fields {t: h1, u: {css: h2}}\n"
        "x-note: [anything, {at: all}]\nlayers:\n  a: {match: ^/, x-mine: 1, fields: {<<: *fields, v: h3}, follow: a}\n"
        "  z: {match: ^/z, like: a, fields: *fields}\n"
    )
    assert told(text) == []
    (site,) = load_text(text)
    assert list(site.layers["a"].fields) == ["v", "t", "u"]
    assert "unknown key x-mine" in told(text.replace("x-mine: 1, ", "").replace("h2}", "h2, x-mine: 1}"))[0]


def test_a_default_has_the_type_of_its_field() -> None:
    (site,) = load_text(
        BEGIN
        + "layers: {a: {fields: {d: {css: i, type: date, default: '2024-12-31'}, n: {css: i, type: decimal, default: '0.5'}}}}\n"
    )
    page = Response("http://s.example/", 200, {}, b"<p>")
    (record,) = compile_site(site).read("a", page).records
    assert record.fields == {"d": date(2024, 12, 31), "n": Decimal("0.5")}


@pytest.mark.parametrize(
    "text",
    [
        LISTED.format("b", ""),  # Any text.
        LISTED.format("{css: i, type: int}", "store: {a: {key: [at]}}\n"),  # What tells rows apart.
        LISTED.format("time", "").replace(
            "follow: [{css: a.next, to: z, pages: 0}]", "fields: {t: h1}"
        ),  # Nothing is missed.
        LISTED.format("{css: i, type: int}", "").replace("{h}?", "/show/{h}?"),  # An id.
        LISTED.format("time", "").replace("'{h}?seen={at}'", "'/day/{at}'"),  # A page for each day.
        LISTED.format("time", "").replace("'{h}?seen={at}'", "'{h}', changed: '{at}'"),
        TURNS.replace("a.next", "a.related"),  # Pages of their own.
        TURNS.replace(", changed: '{at}'", ""),
    ],
)
def test_urls_whose_values_may_well_belong_to_them_are_left_alone(text: str) -> None:
    assert told(text) == []


def test_links_to_the_next_page_that_are_no_page_turns_are_named_where_lists_say_what_changed() -> None:
    warning = (
        "f.yaml:5:28: warning: layers.z.follow[0]: without pages these are no page turns: they are not fetched again where changed says that a page of "
        "z changed (write pages: 0 if they lead to its further pages)"
    )
    assert told(TURNS) == [warning]
    assert told(TURNS.replace("to: z,", "to: z, pages: 0,")) == []
