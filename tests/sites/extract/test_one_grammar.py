"""Fields and links have one grammar: a selector, what reads its result, steps, a condition."""

from __future__ import annotations

import pytest
from tests.sites.extract.small_site import fields, read, urls

from gossamer.sites.file.load import survey_text

PAGE = """<a class=p onclick="go('/post/1')">one</a><a class=p onclick="go('/post/2')">two</a><a class=q href=" /post/3 ">3</a>
<script id=s>{"next": {"url": "\\/post\\/4"}, "ids": [5, 6]}</script><b class=id>7, 8</b>"""


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("{css: a.p, attr: onclick, regex: \"'(.+?)'\"}", ["/post/1", "/post/2"]),
        ("{css: 'a.p::attr(onclick)', clean: [{take: \"'(.+?)'\"}]}", ["/post/1", "/post/2"]),
        ('{xpath: //script, regex: \'"url": "(.+?)"\'}', ["/post/4"]),
        ("{css: '#s', jmespath: next.url}", ["/post/4"]),
        ("{css: '#s', jmespath: 'ids[]', clean: [{prefix: /post/}]}", ["/post/5", "/post/6"]),
        ("{css: '.id::text', clean: [{split: ','}, strip, {prefix: /post/}]}", ["/post/7", "/post/8"]),
        ("{css: a.q, clean: [{suffix: /all}]}", ["/post/3/all"]),
        ("{from: fields.where}", ["/post/9"]),
        ("{from: headers.link, regex: '<(.+?)>; rel=next'}", ["/post/10"]),
        ("{css: a.q, when: where}", ["/post/3"]),
        ("{css: a.q, when: none}", []),
    ],
)
def test_links_are_found_as_fields_are(rule: str, found: list[str]) -> None:
    text = f"fields: {{where: {{value: /post/9}}, none: .none}}\nfollow: {rule}"
    reading = read(text, PAGE, headers={"link": "</post/10>; rel=next"})
    assert [url.removeprefix("http://bbs.example") for url in urls(reading)] == found
    assert reading.notes == ()


def test_a_field_is_read_when_those_before_it_say_so() -> None:
    text = """
    fields:
      kind: {css: b, regex: '(\\d)'}
      aye: {css: a.q, when: "kind == '7'"}
      nay: {css: a.q, when: "kind == '8'"}
      none: {css: a.q, when: "kind == '8'", default: gone}
      list: {css: a, all: true, when: nothing}
      odd: {css: a.q, when: length(nothing)}
      each: {each: a, when: kind, fields: {t: {xpath: text()}, u: {value: x, when: t}}}
    """
    reading = read(text, PAGE)
    (record,) = reading.records
    each = [{"t": "one", "u": "x"}, {"t": "two", "u": "x"}, {"t": "3", "u": "x"}]
    assert record.fields == {
        "kind": "7", "aye": "3", "nay": None, "none": "gone", "list": [], "odd": None, "each": each,
    }  # fmt: skip
    # Only what went wrong counts as missing, not what was not wanted.
    assert reading.missing == ("odd",)
    assert reading.notes[0].startswith("odd: JMESPathTypeError")


def test_a_condition_holds_for_each_of_many_records() -> None:
    text = "format: json\nrecords: {jmespath: x}\nfields: {a: {jmespath: a, type: int}, b: {jmespath: b, when: a, default: '-'}}"
    body = '{"x": [{"a": 1, "b": "p"}, {"a": 0, "b": "q"}, {"a": 2, "b": "r"}, {"a": 0, "b": "s"}, {"a": 3, "b": "t"}]}'
    found = read(text, body, content_type="application/json").records
    assert [record.fields["b"] for record in found] == ["p", "-", "r", "-", "t"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("fields: {t: {css: a, when: u}, u: b}", "fields.t.when: there is no field u (a field that comes earlier)"),
        ("fields: {t: {each: a, fields: {x: {css: a, when: t}}}}", "fields.t.fields.x.when: there is no field t"),
        ("fields: {t: {css: a, when: 'b['}}", "fields.t.when: this is not a JMESPath expression"),
        ("follow: {css: a, to: a, clean: [{take: '('}]}", "follow.clean[0].take: this is not a regular expression"),
        ("follow: {css: a, xpath: //a}", "follow: css and xpath exclude each other"),
        ("follow: {css: a, url: /x}", "follow: css and url exclude each other"),
        ("follow: {url: /x, clean: strip}", "follow: url and clean exclude each other (write the steps in a field, and its {name} in url)"),
        ("follow: {to: a}", "follow: nothing says which links (write css, xpath, regex, jmespath, from or url)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(rule: str, said: str) -> None:
    text = f"site: s\nseeds: http://s.example/\nlayers: {{a: {{match: ^/, {rule}}}}}\n"
    told = [str(problem) for problem in survey_text(text, "f.yaml").problems]
    assert any(said in line for line in told), told


def test_a_step_for_numbers_in_fields_is_the_same_in_links() -> None:
    text = "fields: {n: {css: .id, clean: [{split: ','}, strip]}}"
    assert fields(text, PAGE) == {"n": ["7", "8"]}
