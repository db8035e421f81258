"""What is followed: links, page turns, redirects."""

from __future__ import annotations

import json

from tests.engine.conformance.cases.case import case, page
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

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
      page: {require: none, fields: {title: h1, at: {from: url}}}
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
