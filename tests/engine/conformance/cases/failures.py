"""What fails: retries, pages that look wrong or lack fields, hosts that cannot be reached."""

from __future__ import annotations

import gzip

from tests.engine.conformance.cases.case import case, page
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

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
    assert [reason for reason, _ in came.dead] == ["blocked", "invalid", "invalid"]
    assert (came.counters["site/blocked"], came.counters["site/invalid"]) == (1, 2)


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
