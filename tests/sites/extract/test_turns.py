"""Pages by number, offset and cursor: {turn} in a URL or body, to the first page that is empty or comes again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.sites.extract.small_site import read

from gossamer.model.page import PageRequest, Response
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text, survey_text
from gossamer.sites.page import Reading

LIST = "records: li\nfields: {name: b}\nfollow: {url: '/list/x/1?page={turn+1}', to: here, pages: 0}"


def next_of(reading: Reading) -> PageRequest:
    (link,) = [link for link in reading.links if link.turn]
    return link


def items(*names: str) -> str:
    return "".join(f"<li><b>{name}</b></li>" for name in names)


def test_numbered_pages_end_with_the_first_empty_one() -> None:
    first = next_of(read(LIST, items("a", "b")))
    assert (first.url, first.turn, first.depth) == ("http://bbs.example/list/x/1?page=2", 1, 0)
    second = next_of(read(LIST, items("c"), turn=1, inherited=first.inherited))
    assert second.url.endswith("?page=3")
    end = read(LIST, "<ul></ul>", turn=2, inherited=second.inherited)
    assert (end.links, end.records, end.notes) == ([], [], ())


def test_a_page_that_comes_again_ends_them_and_says_so() -> None:
    link = next_of(read(LIST, items("a") + "<p>page 7</p>", turn=6))
    end = read(LIST, items("a") + "<p>page 8</p>", turn=7, inherited=link.inherited)
    assert end.links == []
    assert end.notes == ("follow[0]: this page has the same as the one before it, so the pages end here",)


def test_a_rule_that_begins_with_page_1_goes_on_from_there() -> None:
    text = LIST.replace("{turn+1}", "{turn}")
    own = read(text, items("a"), url="http://bbs.example/list/x/1?page=1")
    assert (next_of(own).url[-6:], next_of(own).turn) == ("page=2", 2), "turn 1 would be the page itself"
    assert own.notes == ("follow[0]: the first page turn would be this page itself, and is left out",)
    first = next_of(read(text, items("a"), url="http://bbs.example/list/x/1"))
    assert (first.url[-6:], first.turn) == ("page=1", 1)
    again = read(text, items("a"), turn=1, inherited=first.inherited)
    assert next_of(again).url.endswith("page=2"), "page 1 is the first page once more, and not the end"
    assert read(text, items("a"), turn=2, inherited=next_of(again).inherited).links == []


@pytest.mark.parametrize(
    ("seed", "rule", "said"),
    [
        ("/l?page=1", "url: '/l?page={turn}'", "follow.url: the seed http://s.example/l?page=1 is at 1, and the first page turn leads to 1, not 2 (write {turn+1})"),
        ("/l?page=1", "url: '/l?page={turn+2}'", "leads to 3, not 2 (write {turn+1})"),
        ("/l/[3-4]", "url: 'http://s.example/l/{turn+1}'", "the seed http://s.example/l/3 is at 3, and the first page turn leads to 2, not 4"),
        ("/l?start=1&q=x", "url: '/l?start={turn*20}&q={c}'", "leads to 20, not 21 (write {turn*20+1})"),
        ("/l?page=0", "url: '/l?page={turn+1}'", "(write {turn})"),
        ("/l', json: {p: 1, q: x}, x-: '", "url: /l, json: {q: x, p: '{turn}'}", "the first page turn asks for the same as a seed (write {turn+1} for {turn})"),
        ("/l', json: {p: 1}, x-: '", "url: /l, json: {p: '{turn+1}'}", ""),
        ("/l?page=1", "url: '/l?page={turn+1}'", ""),
        ("/l?page=0", "url: '/l?page={turn}'", ""),
        ("/l", "url: '/l?page={turn}'", ""),
        ("/l?start=1", "url: '/l?start={turn*20+1}'", ""),
    ],
)  # fmt: skip
def test_a_seed_that_the_turns_do_not_go_on_from(seed: str, rule: str, said: str) -> None:
    seed = f"{{url: 'http://s.example{seed}'}}".replace(", x-: ''", "")
    layer = f"match: ^/, records: li, fields: {{t: b}}, page: {{c: h1}}, follow: {{{rule}, to: a, pages: 0}}"
    told = [str(one) for one in survey_text(f"site: s\nseeds: [{seed}]\nlayers: {{a: {{{layer}}}}}\n").problems]
    assert [said in one for one in told] == [True] * bool(said), told


def test_a_list_of_links_is_empty_without_links_and_a_list_in_fields_without_members() -> None:
    links = "follow: [{url: '/p?n={turn}', to: here, pages: 3}, {css: a, to: post}]"
    reading = read(links, "<a href=/post/1>1</a>", turn=2)
    assert [link.url[18:] for link in reading.links] == ["/post/1", "/p?n=3"]
    assert read(links, "<a href=/post/1>1</a>", turn=3).links[1:] == []
    assert read(links, "<a href=/post/1>1</a>", turn=3).cut_off
    assert read(links, "<p>", turn=1).links == []
    lists = "fields: {ids: {css: i, all: true}}\nfollow: {url: '/p?n={turn}', to: here, pages: 0}"
    assert next_of(read(lists, "<i>1</i>")).url.endswith("/p?n=1")
    assert read(lists, "<p>").links == []


@pytest.mark.parametrize(
    ("rule", "turn", "asked"),
    [
        ("url: '/p?offset={turn*20}'", 0, ("/p?offset=20", b"")),
        ("url: '/p?start={turn*20+1}'", 2, ("/p?start=61", b"")),
        ("url: /p, form: {page: '{turn}', q: '{name} {turn+1}'}", 1, ("/p", b"page=2&q=x+3")),
        ("url: /p, json: {page: '{turn+1}', all: ['{turn}', '{{turn}}']}", 1, ("/p", b'{"page": 3, "all": [2, "{turn}"]}')),
        ("url: /p, body: 'p={turn}', headers: {X-Page: '{turn}'}", 1, ("/p", b"p=2")),
    ],
)  # fmt: skip
def test_offsets_and_bodies_count_too(rule: str, turn: int, asked: tuple[str, bytes]) -> None:
    text = f"fields: {{name: {{value: x}}, ids: {{css: i, all: true}}}}\nfollow: {{{rule}, to: here, pages: 0}}"
    link = next_of(read(text, "<i>1</i>", turn=turn))
    assert (link.url[18:], link.body) == asked
    assert link.headers.get("X-Page") in (None, "2")


@pytest.mark.parametrize("what", ["headers: {X-Page: '{turn}', X-All: '1'}", "cookies: {page: '{turn+1}'}"])
def test_headers_and_cookies_that_count_tell_pages_apart(what: str) -> None:
    """They have one URL: without that, each would be a page that was seen."""
    text = f"fields: {{ids: {{css: i, all: true}}}}\nfollow: {{url: /p, {what}, to: here, pages: 0}}"
    links = [next_of(read(text, "<i>1</i>", turn=turn)) for turn in (0, 1, 0)]
    assert [link.turn for link in links] == [1, 2, 1]
    first, second, again = (link.fingerprint for link in links)
    assert first == again != second


def test_records_of_the_same_keys_are_the_same_page() -> None:
    text = (
        "site: s\nseeds: http://s.example/list\nlayers: {here: {match: ^/list, " + ", ".join(LIST.splitlines()) + "}}\n"
    )

    def turned(store: str, body: str) -> bool:
        site = compile_site(load_text(text + store)[0])
        first = next_of(site.read("here", Response("http://s.example/list", 200, {}, items("a", "b").encode())))
        page = Response("http://s.example/list", 200, {}, body.encode(), turn=1, inherited=first.inherited)
        return bool(site.read("here", page).links)

    shown_again = items("a", "b").replace("</li>", "<i>seen 2 times</i></li>")
    assert turned("", shown_again), "nobody knows what tells these apart"
    assert not turned("store: {here: {key: [name]}}", shown_again)
    assert turned("store: {here: {key: [name]}}", items("a", "c"))
    assert turned("store: {here: {key: [name], history: true}}", shown_again)


def test_a_site_that_gives_fewer_records_than_the_rule_counts_is_noticed() -> None:
    """Of ?limit=3, a server may give two: the third of each page would be left out in silence."""
    text = LIST.replace("page={turn+1}", "offset={turn*3}&limit=3")
    first = read(text, items("a", "b"))
    second = read(text, items("d", "e"), turn=1, inherited=next_of(first).inherited)
    assert (first.skipped, second.skipped) == ((), ("follow[0]",))
    [note] = second.notes
    assert note.startswith("follow[0]: a page has 2 records and the next one begins 3 further on")
    for names in (("d", "e", "f"), ("d",)):
        assert read(text, items(*names), turn=1, inherited=next_of(first).inherited).skipped == ()
    full = read(text, items("a", "b", "c"))
    assert read(text, items("d", "e", "f"), turn=1, inherited=next_of(full).inherited).skipped == ()


def test_a_condition_decides_alone() -> None:
    text = "fields: {more: .more}\nfollow: {url: '/p?n={turn}', to: here, pages: 0, when: more}"
    assert next_of(read(text, "<b class=more>1</b>")).url.endswith("/p?n=1")
    assert read(text, "<p>").links == []


def test_a_field_of_that_name_keeps_its_meaning() -> None:
    text = "fields: {turn: b, ids: {css: i, all: true}}\nfollow: {url: '/p?a={turn}&b={turn+1}', to: here, pages: 0}"
    assert next_of(read(text, "<b>x</b><i>1</i>")).url.endswith("/p?a=x&b=2")


def test_what_marks_a_page_is_no_value_that_it_inherits() -> None:
    text = LIST + "\n"
    link = next_of(read(text, items("a"), inherited={"forum": "f"}))
    assert {name: value for name, value in link.inherited.items() if name[0] != "="} == {"forum": "f"}
    whole = text.replace("{name: b}", "{name: b, all: {from: parent, type: json}}")
    (record,) = read(whole, items("b"), turn=1, inherited=link.inherited).records
    assert record.fields["all"] == {"forum": "f"}


def test_cursors_in_a_helper_field() -> None:
    text = """
    format: json
    fields: {_cursor: {jmespath: meta.next}, ids: {jmespath: 'items[].id', all: true}}
    follow: {url: '/api?cursor={_cursor}', to: here, pages: 0, when: _cursor}
    """

    def page(**data: Any) -> Reading:
        return read(text, json.dumps(data), content_type="application/json")

    assert next_of(page(items=[{"id": 1}], meta={"next": "a b"})).url == "http://bbs.example/api?cursor=a%20b"
    end = page(items=[{"id": 2}], meta={"next": None})
    assert (end.links, end.notes) == ([], ())


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("follow: {url: '/p?n={turn}', to: a}", "follow: {turn} is the number of a page turn, and this rule has no pages (write pages: 0"),
        ("follow: {url: '/p?n={turn+1}', to: a}", "follow: {turn} is the number of a page turn"),
        ("fields: {t: h1}, follow: {url: '/p?n={turn}', to: a, pages: 0}", "follow.pages: nothing says where these pages end"),
        ("fields: {t: h1}, follow: {url: '/p?n={turn}', to: a, pages: 9}", ""),
        ("fields: {t: h1}, follow: {url: '/p?n={turn*2}', to: a, pages: 0, when: t}", ""),
        ("records: li, fields: {t: h1}, follow: {url: /p, json: {p: '{turn}'}, to: a, pages: 0}", ""),
    ],
)  # fmt: skip
def test_what_the_check_says(rule: str, said: str) -> None:
    told = [
        str(one)
        for one in survey_text(f"site: s\nseeds: http://s.example/\nlayers: {{a: {{match: ^/, {rule}}}}}\n").problems
    ]
    assert any(said in line for line in told) if said else told == []
