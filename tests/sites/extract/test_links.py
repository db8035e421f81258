"""Links: which addresses become requests, how they are written, and what goes with them."""

from __future__ import annotations

import gc
import json
from typing import Any
from urllib.parse import urljoin

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import URL, SmallSite, read, reader, saved, urls
from w3lib.url import safe_url_string

from gossamer.model.page import Response
from gossamer.sites import template
from gossamer.sites.extract import layer, links
from gossamer.sites.extract.urls import PageUrls
from gossamer.sites.page import PageVerdict

ALL = "follow: [{css: a, to: here}]"


def hrefs(*addresses: str, base: str = "", charset: str = "utf-8", rule: str = ALL, **rest: Any) -> list[str]:
    head = f'<base href="{base}">' if base else ""
    body = head + "".join(f'<a href="{address}">x</a>' for address in addresses)
    return urls(
        read(rule, body.encode(charset, "xmlcharrefreplace"), content_type=f"text/html; charset={charset}", **rest)
    )


@pytest.mark.parametrize(("hosts", "found"), [("", 3), (", hosts: any", 3), (", hosts: own", 1)])
def test_hosts_says_whether_links_may_leave_the_site(hosts: str, found: int) -> None:
    rule = f"follow: [{{css: a, to: here{hosts}}}]"
    urls = ["http://bbs.example/post/1", "http://other.example/post/2", "https://elsewhere.example/"]
    assert hrefs("/post/1", "//other.example/post/2", "https://elsewhere.example/", rule=rule) == urls[:found]


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("/post/1", "http://bbs.example/post/1"),
        ("4", "http://bbs.example/list/python/4"),
        ("../x", "http://bbs.example/list/x"),
        ("../../../../x", "http://bbs.example/x"),
        ("?page=2", "http://bbs.example/list/python/3?page=2"),
        ("//cdn.example/x", "http://cdn.example/x"),
        ("https://a.example/b", "https://a.example/b"),
        ("HTTP://A.example/b", "http://a.example/b"),
        ("  /a\n b ", "http://bbs.example/a%20b"),
        ("/a\tb\r\nc", "http://bbs.example/abc"),
        ("/a b?q=c d", "http://bbs.example/a%20b?q=c%20d"),
        ("/%e4%b8%ad", "http://bbs.example/%e4%b8%ad"),
        ("/中?q=中", "http://bbs.example/%E4%B8%AD?q=%E4%B8%AD"),
        ("/100%", "http://bbs.example/100%"),
        ("/a#b", "http://bbs.example/a"),
        ("/a\\b", "http://bbs.example/a/b"),
        ("/a?x=1&amp;y=2", "http://bbs.example/a?x=1&y=2"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://a.example/b/../c/./d", "http://a.example/c/d"),
        ("http://a.example:8080/b", "http://a.example:8080/b"),
        ("/ {}|", "http://bbs.example/%20%7B%7D%7C"),
    ],
)
def test_an_address_becomes_the_url_a_browser_would_ask_for(address: str, url: str) -> None:
    assert hrefs(address) == [url]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:void(0)",
        " JavaScript:x",
        "mailto:a@b.c",
        "tel:1",
        "data:text/html,x",
        "ftp://a/b",
        "about:blank",
        "#top",
        "",
        "   ",
        "blob:x",
    ],
)
def test_what_is_no_page_is_left_alone(address: str) -> None:
    reading = read(ALL, f'<a href="{address}">x</a>')
    assert (reading.links, reading.notes) == ([], ())


@pytest.mark.parametrize("address", ["http://", "http:///x", "//", "http://[::1/", "http://a:port/"])
def test_addresses_that_cannot_be_asked_for_are_counted(address: str) -> None:
    reading = read(ALL, f'<a href="{address}">x</a><a href="/ok">y</a>'.encode())
    assert urls(reading) == ["http://bbs.example/ok"]
    assert reading.notes == ("links: 1 addresses are not URLs that can be fetched",)


def test_a_query_is_written_in_the_character_set_of_the_page() -> None:
    assert hrefs("/中?q=中", charset="gbk") == ["http://bbs.example/%E4%B8%AD?q=%D6%D0"]
    assert hrefs("/x?q=я&amp;p=中", charset="windows-1251") == ["http://bbs.example/x?q=%FF&p=%26%2320013%3B"]
    assert urls(read("follow: [{css: a, to: here}]", saved("shift_jis.html"), content_type="")) == [
        "http://bbs.example/s?q=%93%FA%96%7B%8C%EA%82%CC%8Cf%8E%A6%94%C2"
    ]


@pytest.mark.parametrize(
    ("page", "url"),
    [
        ("<bASe href=/q/>", "/q/x"),
        ("<base href=' /q/ r/ '>", "/q/%20r/x"),
        ("<base href='\\\\bbs.example\\q\\'>", "/q/x"),
        ("<base href='/q\n/r/'>", "/q/r/x"),
        ("<base href=''><base href=/q/>", "/list/python/x"),
        ("<base href='data:,x'><base href=/q/>", "/list/python/x"),
        ("<!-- <base href=/q/> --><script>'<base href=/q/>'</script>", "/list/python/x"),
        ("<p>text<base href=/q/>", "/q/x"),
        ("<base href=../r/s>", "/list/r/x"),
        ("<basefont href=/q/>", "/list/python/x"),
    ],
)
def test_the_base_as_browsers_find_it(page: str, url: str) -> None:
    assert urls(read(ALL, f"{page}<a href=x>")) == [f"http://bbs.example{url}"]


def test_the_base_of_a_page() -> None:
    assert hrefs("x", base="/other/") == ["http://bbs.example/other/x"]
    assert hrefs("x", base="https://c.example/d/e") == ["https://c.example/d/x"]
    assert hrefs("x", base="javascript:x") == ["http://bbs.example/list/python/x"]
    assert hrefs("x", base="http://[bad") == ["http://bbs.example/list/python/x"]
    assert urls(read(ALL, '<BASE target=_top><bAsE><Base HREF="/q/"><base href="/r/"><a href=x>')) == [
        "http://bbs.example/q/x"
    ]


def test_one_page_is_given_once_by_identity_and_layer() -> None:
    assert hrefs("/a?x=1&amp;y=2", "/a?y=2&amp;x=1", "/a?x=1&amp;y=2#z", " /a?x=1&amp;y=2") == [
        "http://bbs.example/a?x=1&y=2"
    ]
    reading = read("follow: [{css: a, to: post}, {css: a, to: list}]", '<a href="/a">')
    assert [(link.url, link.layer) for link in reading.links] == [
        ("http://bbs.example/a", "post"),
        ("http://bbs.example/a", "list"),
    ]


def test_fragments_stay_where_the_identity_of_the_layer_counts_them() -> None:
    assert hrefs("/keeping/a#1", "/keeping/a#2", "/post/1#x", rule="follow: [a]") == [
        "http://bbs.example/keeping/a#1",
        "http://bbs.example/keeping/a#2",
        "http://bbs.example/post/1",
    ]


def test_links_go_to_the_layer_that_matches_or_nowhere() -> None:
    reading = read("follow: [a]", '<a href="/post/1"><a href="/list/x/2"><a href="/elsewhere">')
    assert [(link.url, link.layer) for link in reading.links] == [
        ("http://bbs.example/post/1", "post"),
        ("http://bbs.example/list/x/2", "list"),
    ]


def test_match_skip_limit_priority_and_again() -> None:
    body = "".join(f'<a href="/p/{n}">' for n in (1, 2, 2, 3, 4, 15, 5))
    reading = read(
        "follow: [{css: a, to: here, match: '/p/\\d$', skip: '3', limit: 3, priority: 7, again: true}]", body
    )
    assert urls(reading) == [f"http://bbs.example/p/{n}" for n in (1, 2, 4)]
    assert {(link.priority, link.dont_filter) for link in reading.links} == {(7, True)}


def test_the_limit_counts_for_the_page_however_many_records_it_has() -> None:
    body = "".join(f"<li><b>{n}</b><a href=/{n}a><a href=/{n}b>" for n in range(4))
    reading = read("records: {css: li}\nfields: {b: b}\nfollow: [{css: a, to: here, pass: [b], limit: 3}]", body)
    assert urls(reading) == [f"http://bbs.example/{n}" for n in ("0a", "0b", "1a")]


def test_page_turns_stay_in_the_layer_and_end() -> None:
    rule = "follow: [{css: a.post}, {css: a.next, to: list, pages: 2}]"
    first = read(rule, saved("forum-list.html"), name="list", depth=1, inherited={"board": "b"})
    assert len(first.links) == 41
    turn = first.links[-1]
    assert (turn.url, turn.layer, turn.turn, turn.depth, dict(turn.inherited)) == (
        "http://bbs.example/list/python/4",
        "list",
        1,
        1,
        {"board": "b"},
    )
    assert {(link.turn, link.depth, dict(link.inherited) == {}) for link in first.links[:-1]} == {(0, 2, True)}
    assert read(rule, saved("forum-list.html"), name="list", turn=1).links[-1].turn == 2
    assert len(read(rule, saved("forum-list.html"), name="list", turn=2).links) == 40
    endless = read("follow: [{css: a.next, to: list, pages: 0}]", saved("forum-list.html"), name="list", turn=900)
    assert endless.links[0].turn == 901


def test_links_deeper_than_the_site_goes_are_left_alone() -> None:
    assert hrefs("/a", site=SmallSite(depth=3), depth=2) == ["http://bbs.example/a"]
    assert hrefs("/a", site=SmallSite(depth=3), depth=3) == []


def test_elements_texts_and_values_that_are_links() -> None:
    html = '<link href="/1"><img src="/2"><form action="/3"></form><p>/no</p><iframe src="/4"></iframe><b data-u="/5">'
    assert urls(
        read("follow: [{css: '*', to: here}, {css: b, attr: data-u, to: here}, {xpath: '//b/@data-u', to: here}]", html)
    ) == [f"http://bbs.example/{n}" for n in (1, 2, 3, 4, 5)]
    news = read(r"follow: [{regex: '\"url\":\"([^\"]+)\"', to: here}]", saved("news.html"))
    assert urls(news) == ["https://news.example.org/2024/05/17/valley-bridge"]
    assert urls(read("follow: [{regex: 'href=\"([^\"]*)', to: here}]", '<a href="/x?a=1&amp;b=2">')) == [
        "http://bbs.example/x?a=1&b=2"
    ]
    api = read("format: json\nfollow: [{jmespath: 'meta.[next, total, page]', to: here}]", saved("api.json"))
    assert urls(api) == ["http://bbs.example/api/comments?page=3"]
    assert len(read("format: xml\nfollow: [{css: loc, to: here}]", saved("sitemap.xml")).links) == 28
    assert urls(read("format: xml\nfollow: [{css: 'item > link', to: here, limit: 1}]", saved("feed.xml")))[
        0
    ].startswith("https://blog.example.com/1/")


def test_urls_made_of_names() -> None:
    reading = read(
        """
        fields:
          id: {css: b, type: int}
          ids: {css: li, all: true, type: int}
          q: {css: i}
          kids: {each: {css: li}, fields: {n: {from: content}}}
          absent: {css: u}
        follow:
          - {url: '/api/{id}/comments?forum={forum}&q={q}&k={key}', to: here}
          - {url: '/x/{ids}', to: here}
          - {url: '/k/{kids.n}', to: here}
          - {url: '{q}', to: here}
          - {url: '/{absent}', to: here}
          - {url: '/inherited/{up}', to: here}
          - {url: '/path/{q}', to: here}
        """,
        "<b>7</b><i>/a&amp;b #100% c</i><ul><li>1<li>2</ul>",
        name="list",
        site=SmallSite(key="s&d"),
        inherited={"up": 4},
    )
    assert urls(reading) == [
        "http://bbs.example/api/7/comments?forum=python&q=/a%26b%20%23100%25%20c&k=s%26d",
        "http://bbs.example/x/1",
        "http://bbs.example/x/2",
        "http://bbs.example/k/1",
        "http://bbs.example/k/2",
        "http://bbs.example/a&b%20",
        "http://bbs.example/inherited/4",
        "http://bbs.example/path//a&b%20%23100%%20c",
    ]
    assert reading.notes == ("follow[4]: {absent} stands for nothing on this page",)


@pytest.mark.parametrize(
    ("when", "followed"),
    [
        ("replies", False),
        ("n", False),
        ("n == `0`", True),
        ("title", True),
        ("length(list) > `1`", True),
        ("none", False),
        ("map", True),
        ("length(n)", False),
    ],
)
def test_links_are_followed_on_conditions(when: str, followed: bool) -> None:
    rule = f"""
    format: json
    fields: {{replies: {{jmespath: replies, all: true}}, n: {{jmespath: n, type: int}}, title: {{jmespath: title}}, list: {{jmespath: list, all: true}}, map: {{jmespath: map, type: json}}}}
    follow: [{{url: /x, to: here, when: '{when}'}}]
    """
    reading = read(rule, '{"replies": [], "n": 0, "title": "t", "list": [1, 2], "map": {"a": 1}}')
    assert bool(reading.links) is followed
    assert bool(reading.notes) is (when == "length(n)")


def test_what_is_passed_on() -> None:
    rule = """
    fields: {title: h1, n: {css: b, type: int}, none: u}
    follow:
      - {css: a, to: here, pass: [title, n, none, board, forum]}
      - {css: a, to: post, pass: {name: title, twice: '[n, n]', gone: none}}
    """
    one, other = read(rule, "<h1>T</h1><b>3</b><a href=/x>", name="list", inherited={"board": "B", "unasked": 1}).links
    assert dict(one.inherited) == {"title": "T", "n": 3, "board": "B", "forum": "python"}
    assert dict(other.inherited) == {"name": "T", "twice": [3, 3]}


def test_records_give_their_own_fields_to_their_own_links() -> None:
    reading = read(
        """
        records: {css: tr.thread}
        fields: {subject: {css: a.post}, replies: {css: .replies, type: int}}
        follow:
          - {css: a.post, to: post, pass: [subject], when: 'replies > `0`'}
          - {css: a.next, to: list, pages: 3, pass: [subject, forum]}
          - {css: '.author a', to: here}
        """,
        saved("forum-list.html"),
        name="list",
    )
    posts = [link for link in reading.links if link.layer == "post"]
    assert [dict(link.inherited)["subject"] for link in posts] == [
        record.fields["subject"] for record in reading.records
    ]
    (turn,) = [link for link in reading.links if link.turn]
    assert dict(turn.inherited) == {"forum": "python"}
    assert len([link for link in reading.links if link.layer == "here"]) == 9


def test_requests_with_bodies_headers_and_cookies() -> None:
    rule = """
    fields: {id: {css: b, type: int}, tags: {css: li, all: true}}
    follow:
      - {url: /form, to: here, form: {id: '{id}', tag: '{tags}', fixed: a&b, sure: true}}
      - {url: /json, to: here, json: {id: '{id}', text: 'n{id}', deep: [{t: '{tags}'}], x: {y: 1}}, headers: {X-Id: '{id}'}, method: PUT}
      - {url: /text, to: here, body: '{"a": {id}}', headers: {content-type: text/x}, cookies: {c: 'v{id}'}}
      - {url: '/get?a=1', to: here, method: GET, form: {q: '{id} x'}}
      - {url: /none, to: here, form: {q: '{nothing}'}}
    """
    reading = read(rule, "<b>7</b><li>x<li>y")
    form, put, text, get = reading.links
    assert (form.method, form.body, dict(form.headers)) == (
        "POST",
        b"id=7&tag=x&tag=y&fixed=a%26b&sure=true",
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (put.method, json.loads(put.body)) == (
        "PUT",
        {"id": 7, "text": "n7", "deep": [{"t": ["x", "y"]}], "x": {"y": 1}},
    )
    assert dict(put.headers) == {"X-Id": "7", "Content-Type": "application/json"}
    assert (text.method, text.body, dict(text.headers), dict(text.cookies)) == (
        "POST",
        b'{"a": 7}',
        {"content-type": "text/x"},
        {"c": "v7"},
    )
    assert (get.method, get.url, get.body) == ("GET", "http://bbs.example/get?a=1&q=7+x", b"")
    assert reading.notes == ("follow[4]: {nothing} stands for nothing on this page",)
    assert len({link.fingerprint for link in reading.links}) == 4


def test_too_many_links_of_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "LINKS", 100)
    monkeypatch.setattr(template, "LINKS", 100)
    assert len(read(ALL, "".join(f"<a href=/{n}>" for n in range(100))).links) == 100
    reading = read(ALL, "".join(f"<a href=/{n}>" for n in range(101)))
    assert (reading.verdict, reading.links) == (PageVerdict.LIMIT, [])
    rule = "fields: {a: {css: b, all: true}, c: {css: i, all: true}}\nfollow: [{url: '/{a}/{c}', to: here}]"
    assert len(read(rule, "<b>x</b>" * 10 + "".join(f"<i>{n}</i>" for n in range(10))).links) == 10
    reading = read(rule, "<b>x</b>" * 10 + "<i>x</i>" * 11)
    assert reading.reason == "/{a}/{c} gives more than 100 URLs; a page may have 100 links"


def test_rules_of_a_page_of_records_see_what_the_page_says() -> None:
    rule = """
    records: li
    page: {next: {css: .next, attr: data-page}, more: {css: .more, type: bool}, lang: html::attr(lang)}
    fields: {id: '::attr(id)', note: {value: '{lang}-{next}'}, own: {from: page.lang}}
    follow:
      - {url: '/list/py/{next}', to: here, pages: 0, when: more}
      - {url: '/all/{next}', to: here, when: more}
      - {url: '/{lang}/{id}', to: here, pass: {of: next, id: id}}
      - {css: b a, to: here, when: more}
      - {css: i a, to: here, when: "more && id == '2'"}
      - {css: u a, to: here, pass: [forum]}
      - {from: fields.id, regex: .+, clean: {replace: ['^', '/id/']}, to: here}
    """
    body = """<html lang=en><u><a href=/u></a></u><b><a href=/b></a></b><i><a href=/i></a></i><p class=next data-page=7></p><p class=more>MORE</p>
    <li id=1><b><a href=/b1></a></b><i><a href=/i1></a></i><li id=2><b><a href=/b2></a></b><i><a href=/i2></a></i>"""
    reading = read(rule, body.replace("MORE", "yes"))
    assert [record.fields for record in reading.records] == [
        {"id": "1", "note": "en-7", "own": "en"},
        {"id": "2", "note": "en-7", "own": "en"},
    ]
    # What needs only the page's values is found on the whole page, the rest in each record.
    paths = [link.url.removeprefix("http://bbs.example") for link in reading.links]
    assert paths == ["/list/py/7", "/all/7", "/en/1", "/en/2", "/b", "/b1", "/b2", "/i2", "/u", "/id/1", "/id/2"]
    assert [dict(link.inherited) for link in reading.links[2:4]] == [{"of": "7", "id": "1"}, {"of": "7", "id": "2"}]
    assert [link.url[-5:] for link in read(rule, body.replace("MORE", "no")).links[:2]] == ["/en/1", "/en/2"]


def test_names_of_one_record_go_together() -> None:
    rule = """
    format: json
    fields:
      topics: {each: {jmespath: topics}, fields: {id: {jmespath: id, type: int}, slug: {jmespath: slug}, tags: {jmespath: tags, all: true}}}
      views: {jmespath: views, all: true}
      user: {jmespath: user, type: json}
    follow: [{url: '%s', to: here}]
    """
    body = json.dumps(
        {
            "topics": [
                {"id": 1, "slug": "one", "tags": ["a", "b"]},
                {"id": 2, "slug": "two", "tags": ["c"]},
                {"id": 3, "slug": None, "tags": []},
            ],
            "views": ["new", "top"],
            "user": {
                "ids": [7, 8],
                "names": ["x", "y"],
                "roles": [{"n": "r", "of": [{"i": 1, "j": 2}, {"i": 3, "j": 4}]}],
            },
        }
    )

    def gives(template: str) -> list[str]:
        reading = read(rule % template, body, content_type="application/json")
        return [link.url.removeprefix("http://bbs.example") for link in reading.links]

    assert gives("/t/{topics.slug}/{topics.id}") == ["/t/one/1", "/t/two/2"]
    assert gives("/t/{topics.id}?x={topics.id}") == ["/t/1?x=1", "/t/2?x=2", "/t/3?x=3"]
    # Lists within a record go with that record, other lists with every record.
    assert gives("/{topics.id}/{topics.tags}") == ["/1/a", "/1/b", "/2/c"]
    assert gives("/{views}/{topics.id}/{topics.slug}") == ["/new/1/one", "/new/2/two", "/top/1/one", "/top/2/two"]
    assert gives("/{user.ids}/{user.names}") == ["/7/x", "/7/y", "/8/x", "/8/y"]
    assert gives("/{user.roles.n}/{user.roles.of.i}-{user.roles.of.j}") == ["/r/1-2", "/r/3-4"]
    reading = read(rule % "/t/{topics.slug}/{topics.id}", body, content_type="application/json")
    assert reading.notes == ("/t/{topics.slug}/{topics.id}: 1 values are empty and give no URL",)


SAFE_BASES = st.sampled_from(
    [URL, "http://a.example/", "https://a.example/b/c?d=e", "http://127.0.0.1:8080/x/y.html", "http://localhost:99/a/"]
)
PIECES = st.lists(
    st.sampled_from(["/", "a", "B1", ".", "..", "?", "=", "&", "#", ":", "//", "http://", "https://x.example", "%20", "%", "é", " ", "-", "~", "+", ";", "@", "x.html", "a:b", "'", "(", "*", "80", "[", "\\"]),
    max_size=8,
).map("".join)  # fmt: skip


@given(SAFE_BASES, PIECES)
@settings(deadline=None)
def test_the_short_way_gives_what_the_long_way_gives(base: str, address: str) -> None:
    addresses = PageUrls(base, lambda: "utf-8")

    def outcome(make: Any) -> Any:
        try:
            return make(address)
        except ValueError:
            return ValueError

    assert outcome(addresses.absolute) == outcome(addresses._long_way)


@given(SAFE_BASES, st.from_regex(r"(/[a-z0-9]{1,5}){1,3}/?(\?[a-z]=[0-9])?", fullmatch=True))
@settings(deadline=None)
def test_plain_addresses_are_what_scrapy_makes_of_them(base: str, address: str) -> None:
    assert PageUrls(base, lambda: "utf-8").absolute(address) == safe_url_string(urljoin(base, address))


def test_bodies_are_compared_too() -> None:
    rule = yaml.safe_dump({"follow": [{"url": "/x", "to": "here", "form": {"n": n}} for n in (1, 2, 1)]})
    assert [link.body for link in read(rule).links] == [b"n=1", b"n=2"]


def test_links_that_a_limit_leaves_out_are_told() -> None:
    body = "<a href=/1></a><a href=/2></a>"
    assert read("follow: {css: a, to: here, limit: 1}", body).limited == ("follow[0]",)
    assert read("follow: {css: a, to: here, limit: 2}", body).limited == ()
    assert read("follow: {css: a, to: here, pages: 1}", body, turn=1).limited == ("follow[0]",)


def test_a_page_that_was_read_leaves_no_work_for_the_garbage_collector() -> None:
    # A page in a reference cycle stays in memory, with its tree, until the collector looks for it.
    rules = reader("{fields: {link: {css: a, attr: href, type: url}}, follow: [{css: a, to: post}]}")
    page = Response(URL, 200, {}, '<base href="/x/"><a href="/post/1?q=é">one</a>'.encode())
    rules.read(page)
    gc.collect()
    gc.disable()
    try:
        found = rules.read(page)
        assert (urls(found), len(found.records)) == (["http://bbs.example/post/1?q=%C3%A9"], 1)
        del found
        assert gc.collect() == 0
    finally:
        gc.enable()


def texts(rule: str, page: str, **rest: Any) -> dict[str, str]:
    """What links say of when their pages changed, by path."""
    return {link.url.removeprefix("http://bbs.example"): link.changed for link in read(rule, page, **rest).links}


def test_what_a_link_says_of_when_its_page_changed() -> None:
    page = """<b>v7</b><li><a href=/1>x</a><time>10:00</time></li><li><a href=/2>x</a><time></time></li>
              <li><a href=/3>x</a></li>"""
    records = "records: li\nfields: {u: {css: a, attr: href}, at: time}\npage: {v: b}\nfollow: [{RULE, to: here, changed: '{at}'}]"
    for rule in ("url: '{u}'", "css: a", "xpath: .//a"):
        reading = read(records.replace("RULE", rule), page)
        assert [link.changed for link in reading.links] == ["10:00", "", ""]
        assert reading.textless == ("follow[0]",)
    both = records.replace("RULE", "css: a").replace("{at}'", "{v} at {at}'")
    assert texts(both, page) == {"/1": "v7 at 10:00", "/2": "v7 at ", "/3": "v7 at "}
    whole = "fields: {v: b}\nfollow: [{css: a, to: here, changed: '{v}'}]"
    assert texts(whole, page) == {"/1": "v7", "/2": "v7", "/3": "v7"}


def test_names_of_one_list_go_together() -> None:
    listed = {
        "items": [{"id": 1, "at": 5}, {"id": 2, "at": None}, {"id": 3, "at": 7, "tags": ["a", "b"]}],
        "all": [8, 9],
    }
    rule = "format: json\nfields:\n  items: {each: {jmespath: items}, fields: {id: {jmespath: id}, at: {jmespath: at}, tags: {jmespath: tags, all: true}}}\n  all: {jmespath: all, all: true}\nfollow: [{url: '/{items.id}', to: here, changed: 'TEXT'}]"
    page = json.dumps(listed)
    assert texts(rule.replace("TEXT", "{items.at}"), page) == {"/1": "5", "/2": "", "/3": "7"}
    assert texts(rule.replace("TEXT", "{items.tags}"), page) == {"/1": "", "/2": "", "/3": '["a", "b"]'}
    assert texts(rule.replace("TEXT", "{all}"), page) == dict.fromkeys(("/1", "/2", "/3"), '["8", "9"]'), (
        "one link each"
    )
    assert texts(rule.replace("TEXT", "{items.at}{all}"), page)["/1"] == '5["8", "9"]'


def test_of_two_links_to_a_page_the_one_that_says_something_counts() -> None:
    rule = "fields: {v: b}\nfollow: [{css: a, to: here}, {css: a, to: here, changed: '{v}'}]"
    assert texts(rule, "<b>7</b><a href=/1>x</a>") == {"/1": "7"}
    late = "records: li\nfields: {at: i}\nfollow: [{css: a, to: here, changed: '{at}'}]"
    page = "<li><a href=/1>x</a><li><a href=/2>x</a><li><a href=/2>x</a><i>8</i><li><a href=/1>x</a><i>7</i><li><a href=/1>x</a><i>6</i>"
    assert texts(late, page) == {"/1": "7", "/2": "8"}


class CountedLinks(list[Any]):
    """Links of a page, and how many of them were looked at."""

    looked = 0

    def __getitem__(self, place: Any) -> Any:
        self.looked += 1
        return super().__getitem__(place)

    def __iter__(self) -> Any:
        for link in super().__iter__():
            self.looked += 1
            yield link


def test_a_list_that_names_each_page_twice_looks_at_each_link_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    every: list[links.LinkSet] = []

    class CountingSet(links.LinkSet):
        def __init__(self) -> None:
            super().__init__()
            self.links = CountedLinks()
            every.append(self)

    monkeypatch.setattr(layer, "LinkSet", CountingSet)
    rule = "records: li\nfields: {at: i}\nfollow: [{css: a, to: here, changed: '{at}'}]"
    for text in ("", "<i>7</i>"):
        page = "".join(f"<li><a href=/{n}>x</a>{text}</li>" for n in range(300)) * 2
        reading = read(rule, page + "".join(f"<li><a href=/{n}>x</a><i>8</i></li>" for n in range(300)))
        assert {link.changed for link in reading.links} == {"7" if text else "8"}
        [found] = every
        assert len(found.links) == 300
        assert found.links.looked <= 4 * 300  # type: ignore[attr-defined]
        every.clear()


@pytest.mark.parametrize("rule", ["follow: [{css: a, to: post}]", "follow: [{css: i, to: list}, {css: a, to: post}]"])
def test_links_that_are_longer_than_urls_may_be_are_named(rule: str) -> None:
    reading = read(rule, f"<a href=/post/{'9' * 8_000}>x</a><a href='/post/{'ü' * 2_000}'>y</a><a href=/post/1>z</a>")
    assert urls(reading) == ["http://bbs.example/post/1"]
    [(name, why)] = reading.overlong.items()
    assert name == f"follow[{rule.count('css') - 1}]"
    assert why.startswith("an address of 8006 characters is longer than 8000: '/post/999")
    assert reading.notes == (f"{name}: {why}",)
    assert name not in reading.linkless
