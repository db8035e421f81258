"""The cases: what a site file means, whichever engine crawls it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

from tests.engine.conformance.conformance import Came, Case
from tests.support.site import Reply, Site, data, links

CASES: list[Case] = []
Check = Callable[[Came], None]


def case(text: str, prepare: Callable[[Site, Site], object], **more: Any) -> Callable[[Check], Check]:
    """Of the function below, which says what must be true; its name is the case's."""

    def decorate(check: Check) -> Check:
        CASES.append(Case(check.__name__, text, prepare, check, **more))
        return check

    return decorate


def page(title: str, *paths: str) -> Reply:
    return Reply(body=f"<h1>{title}</h1>" + "".join(f'<a href="{path}">{path}</a>' for path in paths))


def xml(text: str) -> Reply:
    return Reply(body=text, headers={"Content-Type": "application/xml"})


# Following.

FORUM = """
    seeds: [SITE/list/1]
    politeness: {robots: ignore}
    layers:
      list:
        match: '^/list/(?P<page>\\d+)'
        seen: round
        fields: {page: {from: url, regex: '(\\d+)$', type: int}}
        follow:
          - {css: a.post, to: post, pass: [page]}
          - {css: a.next, to: list, pages: 2}
      post:
        match: '^/post/'
        fields: {title: h1, list: {from: parent.page, type: int}}
"""


def forum(site: Site, lists: int, posts: int) -> None:
    for number in range(1, lists + 1):
        named = [f"/post/{number}-{post}" for post in range(posts)]
        body = "".join(f'<a class="post" href="{name}">p</a>' for name in named)
        site.on(f"/list/{number}", Reply(body=f'{body}<a class="next" href="/list/{number + 1}">n</a>'))
        for name in named:
            site.on(name, page(f"Title of {name}"))


@case(FORUM, lambda site, _: forum(site, 6, 2))
def page_turns(came: Came) -> None:
    posts = [f"/post/{n}-{p}" for n in (1, 2, 3) for p in (0, 1)]
    assert sorted(came.targets()) == sorted(["/list/1", "/list/2", "/list/3", *posts])
    assert {(item["title"], item["list"]) for item in came.of("post")} == {
        (f"Title of {path}", int(path[6])) for path in posts
    }
    assert sorted(item["page"] for item in came.of("list")) == [1, 2, 3]
    first = came.one("/list/1")
    assert first.headers["accept-encoding"].startswith("gzip, deflate")
    assert first.headers["user-agent"].startswith("gossamer/")
    assert "accept-language" not in first.headers
    assert "referer" not in first.headers


FOLLOWS = """
    seeds: [{url: SITE/start, headers: {X-Seed: one}, cookies: {c: seed}, pass: {who: me}}]
    politeness: {robots: ignore}
    params: {word: hello}
    layers:
      start:
        match: '^/start'
        fields: {token: 'b', who: {from: parent.who}}
        follow:
          - {css: a.form, to: end, form: {q: '{word}', t: '{token}', many: [1, 2]}, pass: {t: token}}
          - {css: a.json, to: end, json: {q: '{token}', n: 1}, headers: {X-Token: '{token}'}, cookies: {k: '{token}'}}
          - {css: a.body, to: end, method: PUT, body: 'raw {token}'}
          - {css: a.query, to: end, method: GET, form: {q: 'a b'}}
          - {css: a.head, to: end, method: HEAD}
          - {url: 'SITE/end/made/{token}', to: end}
          - {css: a.skipped, to: end, skip: 'skipped'}
          - {css: a.when, to: end, when: "token == 'no'"}
      end:
        match: '^/end'
        fields: {path: {from: url}, token: {from: parent.t}}
"""


def follows(site: Site, _: Site) -> None:
    names = ("form", "json", "body", "query", "head", "skipped", "when")
    site.on("/start", Reply(body="<b>T1</b>" + "".join(f'<a class="{n}" href="/end/{n}">x</a>' for n in names)))


@case(FOLLOWS, follows)
def follow_rules(came: Came) -> None:
    start = came.one("/start")
    assert (start.headers["x-seed"], start.headers["cookie"]) == ("one", "c=seed")
    form, body = came.one("/end/form"), came.one("/end/json")
    assert (form.method, form.body) == ("POST", b"q=hello&t=T1&many=1&many=2")
    assert form.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (body.method, json.loads(body.body)) == ("POST", {"q": "T1", "n": 1})
    assert (body.headers["content-type"], body.headers["x-token"]) == ("application/json", "T1")
    assert body.headers["cookie"] == "k=T1"
    assert (came.one("/end/body").method, came.one("/end/body").body) == ("PUT", b"raw T1")
    assert "/end/query?q=a+b" in came.targets()
    assert came.one("/end/head").method == "HEAD"
    assert came.one("/end/made/T1").method == "GET"
    assert len(came.asked) == 7
    assert {item["token"] for item in came.of("end")} == {None, "T1"}
    assert [item["who"] for item in came.of("start")] == ["me"]


REDIRECTS = """
    seeds: [SITE/a, SITE/loop, SITE/across, SITE/nowhere, {url: SITE/form, form: {x: 1}}, {url: SITE/keep, form: {x: 2}}, SITE/cookie]
    politeness: {robots: ignore}
    request: {redirects: 3, headers: {X-All: everywhere}, retries: 0}
    layers:
      page: {fields: {title: h1, at: {from: url}}}
"""


def to(path: str, status: int = 302, **more: str) -> Reply:
    return Reply(status, "", {"Location": path, **more})


def redirects(site: Site, other: Site) -> None:
    site.on("/a", to("/b", 301)).on("/b", to("c")).on("/c", page("arrived"))
    site.on("/loop", to("/loop2")).on("/loop2", to("/loop"))
    site.on("/across", to(f"{other.url}/there")).on("/nowhere", to("mailto:nobody"))
    site.on("/form", to("/got", 302)).on("/keep", to("/kept", 307))
    site.on(
        "/cookie", Reply(302, "", {"Location": "/cookie", "Set-Cookie": "id=7; Path=/cookie"}, times=1), page("let in")
    )
    other.on("/there", page("elsewhere"))


@case(REDIRECTS, redirects)
def redirects_hop_by_hop(came: Came) -> None:
    targets = came.targets()
    assert [targets.count(path) for path in ("/a", "/b", "/c", "/loop", "/loop2", "/cookie")] == [1, 1, 1, 2, 2, 2]
    assert {item["title"]: item["at"] for item in came.items if item["title"]} == {
        "arrived": "SITE/c",
        "elsewhere": "OTHER/there",
        "let in": "SITE/cookie",
    }
    got, kept = came.one("/got"), came.one("/kept")
    assert (got.method, got.body, "content-type" in got.headers) == ("GET", b"", False)
    assert (kept.method, kept.body) == ("POST", b"x=2")
    assert [reason for reason, _ in came.dead] == ["protocol", "redirect_loop"]
    assert [one.headers.get("cookie") for one in came.asked if one.path == "/cookie"] == [None, "id=7"]
    [there] = came.other
    assert there.headers["x-all"] == "everywhere"


PRIVATE = """
    seeds: [{url: SITE/in, headers: {Authorization: Bearer ME, X-Mine: '1'}, cookies: {s: secret}}]
    politeness: {robots: ignore}
    layers:
      page: {fields: {title: h1}}
"""


@case(PRIVATE, lambda site, other: site.on("/in", to("/on")).on("/on", to(f"{other.url}/out")))
def what_only_one_host_may_see(came: Came) -> None:
    for path in ("/in", "/on"):
        assert (came.one(path).headers["authorization"], came.one(path).headers["cookie"]) == ("Bearer ME", "s=secret")
    [out] = came.other
    assert out.headers["x-mine"] == "1"
    assert not {"authorization", "cookie"} & out.headers.keys()


# Failures.

FAILING = """
    seeds: [SITE/busy, SITE/broken, SITE/gone, SITE/forbidden, SITE/cut, SITE/asked, SITE/teapot]
    politeness: {robots: ignore}
    request: {retries: 1, retry_status: [500, 503]}
    layers:
      page: {fields: {title: h1}}
"""


def failing(site: Site, _: Site) -> None:
    site.on("/busy", Reply(500, times=1), page("at last")).on("/broken", Reply(500)).on("/gone", Reply(404))
    site.on("/forbidden", Reply(403)).on("/cut", Reply(drop=True)).on("/teapot", Reply(429))
    site.on("/asked", Reply(503, headers={"Retry-After": "1"}, times=1), page("when asked"))


@case(FAILING, failing)
def retries_and_giving_up(came: Came) -> None:
    counts = {path: came.targets().count(path) for path in came.targets()}
    assert counts == {
        "/busy": 2, "/broken": 2, "/gone": 1, "/forbidden": 1, "/cut": 2, "/asked": 2, "/teapot": 1,
    }  # fmt: skip
    assert [reason for reason, _ in came.dead] == ["bad_length", "http_500", "invalid", "invalid"]
    assert sorted(item["title"] for item in came.items) == ["at last", "when asked"]
    assert (came.counters["site/gone"], came.counters["gossamer/retries"]) == (1, 4)
    assert came.counters["engine/failed/bad_length"] == 2


INVALID = """
    seeds: ['SITE/p/[1-5]']
    politeness: {robots: ignore}
    request: {retries: 0}
    layers:
      page:
        valid: {status: [200, 404], min_length: 15, contains: [here], lacks: [captcha], content_type: html}
        fields: {title: h1}
"""


def invalid(site: Site, _: Site) -> None:
    site.on("/p/1", page("here it is")).on("/p/2", page("captcha, here")).on("/p/3", Reply(body="here"))
    site.on("/p/4", Reply(404, "<h1>not here, but read</h1>")).on(
        "/p/5", Reply(body="here, but plain text.", headers={"Content-Type": "text/plain"})
    )


@case(INVALID, invalid)
def pages_that_look_wrong(came: Came) -> None:
    assert sorted(item["title"] for item in came.items) == ["here it is", "not here, but read"]
    assert [reason for reason, _ in came.dead] == ["invalid"] * 3
    assert came.counters["site/invalid"] == 3


LACKING = """
    seeds: [SITE/fail/1, SITE/keep/1, SITE/drop/1, SITE/any/1]
    politeness: {robots: ignore}
    layers:
      fail: {match: '^/fail', require: [title], fields: {title: h1}, follow: [a]}
      keep: {match: '^/keep', require: [title], lacking: keep, fields: {title: h1, p: p}, follow: [a]}
      drop: {match: '^/drop', require: [title], lacking: drop, fields: {title: h1, p: p}, follow: [a]}
      any: {match: '^/any', require: [[title, p]], fields: {title: h1, p: p}}
"""


def lacking(site: Site, _: Site) -> None:
    for name in ("fail", "keep", "drop", "any"):
        site.on(f"/{name}/1", Reply(body=f'<p>words</p><a href="/any/{name}">more</a>'))
        site.on(f"/any/{name}", page(f"after {name}"))


@case(LACKING, lacking)
def required_fields(came: Came) -> None:
    assert [(reason, "title" in detail) for reason, detail in came.dead] == [("lack", True)]
    assert [item["p"] for item in came.of("keep")] == ["words"]
    assert came.of("drop") == came.of("fail") == []
    assert came.counters["site/lack"] == 3
    assert came.counters["site/missing/keep.title"] == 1


UNREACHABLE = """
    seeds: [SITE/slow, SITE/large, SITE/packed, 'http://127.0.0.1:9/', SITE/garbled]
    politeness: {robots: ignore}
    request: {retries: 0, timeout: 2s, max_size: 2000}
    layers:
      page: {match: '^/', fields: {title: h1}}
"""


def unreachable(site: Site, _: Site) -> None:
    site.hold("/slow")
    site.on("/large", Reply(body="x" * 2001))
    site.on("/packed", Reply(body=gzip.compress(b"x" * 9000), headers={"Content-Encoding": "gzip"}))
    site.on("/garbled", Reply(body=b"\x1f\x8b no", headers={"Content-Encoding": "gzip"}))


@case(UNREACHABLE, unreachable)
def timeouts_sizes_and_silence(came: Came) -> None:
    assert sorted(came.targets()) == ["/garbled", "/large", "/packed", "/slow"]
    reasons = [reason for reason, _ in came.dead]
    assert reasons == ["bad_encoding", "connect", "timeout", "too_large", "too_large"]


# Where pages come from.

ROBOTS = """
    seeds: [SITE/open, SITE/shut/1]
    request: {user_agent: Spider/1}
    layers:
      page: {match: '^/', fields: {title: h1}, follow: [a]}
"""


def robots(site: Site, _: Site) -> None:
    rules = "User-agent: Spider\nDisallow: /shut\n\nUser-agent: *\nDisallow: /"
    site.on("/robots.txt", Reply(body=rules, headers={"Content-Type": "text/plain"}))
    site.on("/open", page("open", "/shut/2", "/open/2"))


@case(ROBOTS, robots)
def robots_are_obeyed(came: Came) -> None:
    assert came.targets()[0] == "/robots.txt"
    assert sorted(came.targets()) == ["/open", "/open/2", "/robots.txt"]
    assert {one.headers["user-agent"] for one in came.asked} == {"Spider/1"}
    assert came.counters["site/robots_denied"] == 2


LISTED = """
    seeds: [{sitemap: SITE/index.xml}, {feed: SITE/feed}, {sitemap: SITE/no, since: 1d}]
    politeness: {robots: ignore}
    request: {retries: 0}
    layers:
      list: {match: '^/list/', fields: {at: {from: url}}}
      post: {match: '^/post/', fields: {at: {from: url}}}
"""


def listed(site: Site, _: Site) -> None:
    url = site.url
    site.on("/index.xml", xml(f"<sitemapindex><sitemap><loc>{url}/map.xml.gz</loc></sitemap></sitemapindex>"))
    pages = "".join(f"<url><loc>{url}{path}</loc></url>" for path in ("/post/1", "/elsewhere", "/list/9"))
    site.on("/map.xml.gz", Reply(body=gzip.compress(f"<urlset>{pages}</urlset>".encode())))
    site.on("/feed", xml(f"<rss><channel><item><link>{url}/post/2</link></item></channel></rss>"))
    site.on("/no", Reply(body="<html>no sitemap</html>"))


@case(LISTED, listed)
def sitemaps_and_feeds(came: Came) -> None:
    assert sorted(came.targets()) == ["/feed", "/index.xml", "/list/9", "/map.xml.gz", "/no", "/post/1", "/post/2"]
    assert [(reason, "not a sitemap" in detail) for reason, detail in came.dead] == [("invalid", True)]
    assert sorted(item["at"] for item in came.items) == ["SITE/list/9", "SITE/post/1", "SITE/post/2"]


FED = """
    seeds: [{tasks: 'TASKS'}]
    politeness: {robots: ignore}
    layers:
      post: {match: '^/post/', fields: {title: h1, n: {from: parent.n, type: int}}}
      other: {fields: {title: h1}}
"""
TASKS = (
    "SITE/post/1",
    json.dumps({"url": "SITE/post/2", "layer": "post", "pass": {"n": 7}, "headers": {"X-Task": "2"}}),
    json.dumps({"url": "SITE/form", "layer": "other", "form": {"a": "b"}, "cookies": {"c": "d"}}),
    json.dumps({"url": "SITE/post/1"}),
    json.dumps({"url": "SITE/post/3", "layer": "nowhere"}),
    "not a url",
)


@case(FED, lambda site, _: None, tasks=TASKS)
def tasks_of_producers(came: Came) -> None:
    assert sorted(came.targets()) == ["/form", "/post/1", "/post/1", "/post/2"]
    form = came.one("/form")
    assert (form.method, form.body, form.headers["cookie"]) == ("POST", b"a=b", "c=d")
    assert came.one("/post/2").headers["x-task"] == "2"
    assert [reason for reason, _ in came.dead] == ["bad_task", "bad_task"]
    assert sorted(str(item["n"]) for item in came.of("post")) == ["7", "None", "None"]
    assert (came.counters["gossamer/tasks"], came.counters["gossamer/tasks_bad"]) == (6, 2)


# Python.

M = "tests.engine.conformance.hooks"
HOOKED = f"""
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    request: {{retries: 0}}
    hooks:
      before_request: {M}:before_request
      after_download: {M}:after_download
      after_extract: {M}:after_extract
      before_store: {M}:before_store
      on_fail: {M}:on_fail
      after_round: {M}:after_round
    layers:
      list: {{match: '^/list', fields: {{title: h1}}, follow: [{{css: a, to: post}}]}}
      post: {{match: '^/post/', fields: {{title: h1}}}}
"""


def hooked(site: Site, _: Site) -> None:
    site.on("/list", page("Title", "/post/1", "/post/never", "/post/2", "/post/3"))
    site.on("/post/1", page("Title 1")).on("/post/2", Reply(500)).on("/post/3", page("unwanted"))


@case(HOOKED, hooked)
def hooks(came: Came) -> None:
    assert sorted(came.targets()) == ["/list", "/post/1", "/post/2", "/post/3"]
    assert {one.headers.get("x-hook") for one in came.asked} == {"yes"}
    assert {(item["title"], item["stored"]) for item in came.items} == {("TITLE", True), ("TITLE 1", True)}
    assert [reason for reason, _ in came.dead] == ["http_500"]
    assert came.told == [["fail", "SITE/post/2", "http_500"], ["round", 0]]
    assert came.counters["site/left_out"] == 1


HANDLED = f"""
    seeds: [SITE/post/1]
    politeness: {{robots: ignore}}
    layers:
      post: {{match: '^/post/', handler: '{M}:post'}}
"""


@case(HANDLED, lambda site, _: site.on("/post/1", page("one", "/post/2")).on("/post/2", page("two")))
def handlers(came: Came) -> None:
    assert sorted((item["title"], item["from"]) for item in came.items) == [("ONE", None), ("TWO", 0)]


BROKEN = f"""
    seeds: [SITE/x]
    politeness: {{robots: ignore}}
    hooks: {{after_download: '{M}:broken'}}
    layers:
      post: {{fields: {{title: h1}}}}
"""


@case(BROKEN, lambda site, _: None)
def hooks_that_raise(came: Came) -> None:
    [(reason, detail)] = came.dead
    assert (reason, "KeyError: 'oh'" in detail) == ("engine", True)


# Records.

STORED = """
    seeds: [SITE/post/1, SITE/post/2, SITE/price/1, SITE/price/2, SITE/price/3]
    politeness: {robots: ignore, concurrency: 1}
    layers:
      post:
        match: '^/post/(?P<id>\\d+)'
        fields:
          id: {from: url, regex: '(\\d+)$', type: int}
          title: h1
          price: {css: i, type: decimal}
          at: {css: time, type: datetime}
          replies: {each: {css: li}, fields: {who: b, n: {css: u, type: int}}}
      price: {match: '^/price', fields: {title: h1, price: {css: i, type: decimal}}}
    store:
      price: {table: conformance_prices, key: [title], history: true}
      post: {table: conformance_posts, key: [id], add: [url, round, parent], children: {replies: {table: conformance_replies}}}
"""


def stored(site: Site, _: Site) -> None:
    for number in (1, 2):
        replies = "".join(f"<li><b>w{n}</b><u>{n}</u></li>" for n in range(number))
        body = f"<h1>T{number}</h1><i>{number}.50</i><time>2024-05-0{number}T10:00:00Z</time><ul>{replies}</ul>"
        site.on(f"/post/{number}", Reply(body=body))
    for number, price in enumerate((5, 5, 6), 1):
        site.on(f"/price/{number}", Reply(body=f"<h1>thing</h1><i>{price}</i>"))


@case(STORED, stored)
def records_in_tables(came: Came) -> None:
    assert came.items == []
    assert came.counters["site/records"] == 5
    found = came.rows("select id, title, round from conformance_posts order by id")
    assert found == [(1, "T1", 0), (2, "T2", 0)]
    assert came.rows("select parent_id, who, n from conformance_replies order by 1, 3") == [
        (1, "w0", 0), (2, "w0", 0), (2, "w1", 1),
    ]  # fmt: skip
    assert [float(price) for (price,) in came.rows("select price from conformance_prices order by price")] == [5, 6]


# What pages are.

ENCODED = """
    seeds: [SITE/meta, SITE/header, SITE/forced, SITE/gzip, SITE/deflate, SITE/bytes]
    politeness: {robots: ignore}
    layers:
      page: {fields: {title: h1}}
      forced: {match: '^/forced', encoding: koi8-r, fields: {title: h1}}
      bytes: {match: '^/bytes', format: binary, fields: {at: {from: url}}}
"""


def encoded(site: Site, _: Site) -> None:
    site.on("/meta", Reply(body='<meta charset="shift_jis"><h1>日本</h1>'.encode("shift_jis")))
    site.on(
        "/header",
        Reply(body="<h1>naïve</h1>".encode("cp1252"), headers={"Content-Type": "text/html; charset=windows-1252"}),
    )
    site.on(
        "/forced", Reply(body="<h1>Привет</h1>".encode("koi8-r"), headers={"Content-Type": "text/html; charset=utf-8"})
    )
    body = "<h1>gepäckt</h1>".encode()
    kind = {"Content-Type": "text/html; charset=utf-8"}
    site.on("/gzip", Reply(body=gzip.compress(body), headers={"Content-Encoding": "gzip", **kind}))
    site.on("/deflate", Reply(body=zlib.compress(body), headers={"Content-Encoding": "deflate", **kind}))
    site.on("/bytes", Reply(body=bytes(range(256)), headers={"Content-Type": "image/png"}))


@case(ENCODED, encoded)
def encodings(came: Came) -> None:
    titles = [item["title"] for item in came.items if "title" in item]
    assert sorted(titles) == sorted(["日本", "naïve", "Привет", "gepäckt", "gepäckt"])
    assert [item["at"] for item in came.of("bytes")] == ["SITE/bytes"]
    assert came.dead == []


FORMATS = """
    seeds: [SITE/data, SITE/doc, SITE/plain]
    politeness: {robots: ignore}
    layers:
      data: {match: '^/data', format: json, records: {jmespath: 'things'}, fields: {id: {jmespath: id, type: int}, tags: {jmespath: 'tags[]', all: true}}, follow: [{jmespath: 'next', to: data}]}
      doc: {match: '^/doc', format: xml, fields: {name: {xpath: '//name/text()'}}}
      plain: {match: '^/plain', format: text, fields: {n: {regex: 'n=(\\d+)', type: int}}}
"""


def formats(site: Site, _: Site) -> None:
    site.on("/data", data({"things": [{"id": "1", "tags": ["a"]}, {"id": 2, "tags": ["b", "c"]}], "next": "/data?p=2"}))
    site.on("/doc", xml("<?xml version='1.0'?><doc><name>ÄÖ</name></doc>"))
    site.on("/plain", Reply(body="x n=42", headers={"Content-Type": "text/plain"}))


@case(FORMATS, formats)
def json_xml_and_text(came: Came) -> None:
    assert sorted(came.targets()) == ["/data", "/data?p=2", "/doc", "/plain"]
    assert sorted((item["id"], tuple(item["tags"])) for item in came.of("data")) == [
        (1, ("a",)), (1, ("a",)), (2, ("b", "c")), (2, ("b", "c")),
    ]  # fmt: skip
    assert [item["name"] for item in came.of("doc")] == ["ÄÖ"]
    assert [item["n"] for item in came.of("plain")] == [42]


IDENTITY = """
    seeds: [SITE/start]
    politeness: {robots: ignore}
    identity: {drop: [utm_*, sid]}
    layers:
      start: {match: '^/start', follow: [a]}
      kept: {match: '^/kept', identity: [id], fields: {at: {from: url}}}
      page: {match: '^/page', fields: {at: {from: url}}}
      never: {match: '^/never', seen: never, follow: []}
"""
SAME = (
    "/page?a=1", "/page?a=1&utm_x=2", "/page?sid=3&a=1", "/page?a=2", "/kept?id=1&x=1", "/kept?id=1&x=2", "/kept?id=2#f",
    "/never", "/page?q=a b|c", "/page?q=%C3%A4", "/page/ä/[x]", "/page/%7Etilde/../up",
)  # fmt: skip


@case(IDENTITY, lambda site, _: site.on("/start", links(*SAME)))
def which_pages_are_the_same(came: Came) -> None:
    assert len([one for one in came.targets() if one.startswith("/kept")]) == 2
    assert len([one for one in came.targets() if one.startswith("/page?a=1")]) == 1
    assert len(came.targets()) == len(set(came.targets())) == 10


# Limits and order.

REFERRING = """
    seeds: [SITE/start]
    politeness: {robots: ignore}
    layers:
      start: {match: '^/start', follow: [{css: a, to: end}, {css: b, to: own}, {css: i, to: off}]}
      end: {match: '^/end', follow: [{css: a, to: end}]}
      own: {request: {headers: {referer: mine}}}
      off: {request: {referer: false}}
"""


def referring(site: Site, other: Site) -> None:
    ways = f'<a href="/end/moved">m</a><a href="/end/é">e</a><a href="{other.url}/end/out">o</a>'
    site.on("/start", Reply(body=f'{ways}<b href="/own">b</b><i href="/off">i</i>'))
    site.on("/end/moved", to("/end/here")).on("/end/here", links("/end/last"))


@case(REFERRING, referring)
def referers_as_browsers_send_them(came: Came) -> None:
    said = {one.path: one.headers.get("referer") for one in [*came.asked, *came.other]}
    assert said == {
        "/start": None,
        "/end/moved": "SITE/start",
        # The page with the link, not the one that moved.
        "/end/here": "SITE/start",
        "/end/last": "SITE/end/here",
        "/end/%C3%A9": "SITE/start",
        "/end/out": "SITE/",
        "/own": "mine",
        "/off": None,
    }


DEEP = """
    seeds: [SITE/1]
    politeness: {robots: ignore}
    limits: {depth: 2}
    layers:
      one: {match: '^/1', fields: {at: {from: url}}, follow: [{css: a, to: two}]}
      two: {match: '^/2', follow: [{css: a, to: three}]}
      three: {match: '^/3', follow: [{css: a, to: four}]}
      four: {match: '^/4', fields: {at: {from: url}}}
"""


@case(DEEP, lambda site, _: site.on("/1", links("/2")).on("/2", links("/3")).on("/3", links("/4")))
def limits_of_depth(came: Came) -> None:
    assert came.targets() == ["/1", "/2", "/3"]


ONE_BY_ONE = "politeness: {robots: ignore, concurrency: 1}"


@case(FORUM.replace("politeness: {robots: ignore}", ONE_BY_ONE), lambda site, _: forum(site, 3, 3), same_order=True)
def deepest_first(came: Came) -> None:
    assert came.targets() == [
        "/list/1", "/post/1-0", "/post/1-1", "/post/1-2", "/list/2", "/post/2-0", "/post/2-1", "/post/2-2", "/list/3",
        "/post/3-0", "/post/3-1", "/post/3-2",
    ]  # fmt: skip


ORDERED = """
    seeds: [SITE/start]
    politeness: {robots: ignore, concurrency: 1}
    layers:
      start:
        match: '^/start'
        follow:
          - {css: 'a[href^="/l/"]', to: last}
          - {css: 'a[href^="/p/high"]', to: first, priority: 5}
          - {css: 'a[href^="/p/"]', to: first}
      last: {match: '^/l/', order: lifo, tier: 5}
      first: {match: '^/p/', order: priority, tier: 1}
"""


@case(
    ORDERED,
    lambda site, _: site.on("/start", links("/l/1", "/l/2", "/l/3", "/p/1", "/p/high", "/p/2")),
    same_order=True,
)
def lifo_and_priority(came: Came) -> None:
    assert came.targets() == ["/start", "/p/high", "/p/1", "/p/2", "/l/3", "/l/2", "/l/1"]


# How pages are asked for.

COOKIES = """
    seeds: [SITE/login]
    politeness: {robots: ignore, concurrency: 1}
    request: {cookies: {mine: '1'}}
    layers:
      login: {match: '^/login', follow: [{css: a, to: inside}]}
      inside: {match: '^/in', follow: [{css: a, to: alone}]}
      alone: {match: '^/alone', request: {session: none}}
"""


def cookies(site: Site, _: Site) -> None:
    site.on("/login", Reply(body='<a href="/in">x</a>', headers={"Set-Cookie": "s=42; Path=/"}))
    site.on("/in", Reply(body='<a href="/alone">x</a>', headers={"Set-Cookie": "t=1; Path=/other"}))


@case(COOKIES, cookies)
def cookies_of_a_site(came: Came) -> None:
    assert [one.headers.get("cookie") for one in came.asked] == ["mine=1", "mine=1; s=42", "mine=1"]


ASKED = """
    seeds: [SITE/a, SITE/b]
    politeness: {robots: ignore}
    request: {auth: [me, '${CONFORMANCE_SECRET}'], user_agent: Mozilla/5.0 (x), headers: {Accept: text/x, Accept-Language: de}}
    layers:
      a: {match: '^/a', follow: [{url: 'OTHER/c', to: c}]}
      b: {match: '^/b', request: {user_agent: other, headers: {X-B: '1'}}}
      c: {match: '^/c'}
"""


@case(ASKED, lambda site, _: None)
def logins_agents_and_headers(came: Came) -> None:
    a, b, [c] = came.one("/a"), came.one("/b"), came.other
    assert a.headers["authorization"] == b.headers["authorization"] == "Basic bWU6czNjcmV0"
    assert "authorization" not in c.headers
    assert (a.headers["user-agent"], b.headers["user-agent"]) == ("Mozilla/5.0 (x)", "other")
    assert {one.headers["accept"] for one in came.asked} == {"text/x"}
    assert {one.headers["accept-language"] for one in (*came.asked, c)} == {"de"}
    assert (b.headers["x-b"], "x-b" in a.headers) == ("1", False)


PROXIED = """
    seeds: [SITE/a, SITE/b]
    politeness: {robots: ignore, concurrency: 1}
    request: {retries: 3, proxy: pool}
    proxies: {pool: {urls: ['http://127.0.0.1:9', 'http://me:pass@OTHER_HOST'], fails: 1}}
    layers:
      page: {fields: {title: h1}}
"""


@case(PROXIED, lambda site, other: [other.on(path, page(f"by proxy {path}")) for path in ("/a", "/b")])
def proxies_in_turn(came: Came) -> None:
    assert came.asked == []
    assert {one.headers["proxy-authorization"] for one in came.other} == {"Basic bWU6cGFzcw=="}
    assert sorted(item["title"] for item in came.items) == ["by proxy /a", "by proxy /b"]
    assert came.counters["engine/failed/proxy"] == 1


SECURED = """
    seeds: [SECURE?file, SECURE?open, SECURE?usual]
    politeness: {robots: ignore}
    layers:
      file: {match: 'file$', request: {verify: AUTHORITY}, fields: {status: {from: status, type: int}}}
      open: {match: 'open$', request: {verify: false}, fields: {status: {from: status, type: int}}}
      usual: {match: 'usual$', fields: {status: {from: status, type: int}}}
"""


@case(SECURED, lambda site, _: None)
def certificates(came: Came) -> None:
    assert sorted((item["layer"], item["status"]) for item in came.items) == [("file", 200), ("open", 200)]
    assert [reason for reason, _ in came.dead] == ["tls"]
    # Another try would not help.
    assert "gossamer/retries" not in came.counters


SAVED = """
    seeds: [SITE/kept, SITE/not]
    politeness: {robots: ignore}
    request: {auth: [me, secret]}
    layers:
      kept: {match: '^/kept', save: true, fields: {title: h1}}
      not: {match: '^/not'}
"""


def saved(site: Site, _: Site) -> None:
    site.on("/kept", Reply(body=gzip.compress(b"<h1>kept</h1>"), headers={"Content-Encoding": "gzip", "X-Odd": "1"}))


@case(SAVED, saved)
def pages_are_kept(came: Came) -> None:
    from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

    [file] = (came.folder / "pages" / "pages_are_kept").glob("*.warc.gz")
    with file.open("rb") as stream:
        records = [(one.rec_type, one.http_headers, one.content_stream().read()) for one in ArchiveIterator(stream)]
    [(_, answer, body)] = [one for one in records if one[0] == "response"]
    [(_, request, _)] = [one for one in records if one[0] == "request"]
    assert (body, answer.get_header("X-Odd")) == (b"<h1>kept</h1>", "1")
    assert request.protocol.startswith("GET") or request.statusline.startswith("/kept")
    assert request.get_header("Authorization") is None
