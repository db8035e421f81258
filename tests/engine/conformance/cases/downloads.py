"""How pages are requested: cookies, logins, headers, proxies, certificates, and what is saved."""

from __future__ import annotations

import gzip

from tests.engine.conformance.cases.case import case, page
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

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
