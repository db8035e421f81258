"""What the add-on makes cheaper changes nothing else: a site sees the same requests, a project the same items and stats, as with
plain Scrapy and as with any of the changes alone."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from scrapy.settings import Settings
from tests.scrapy.spiders.tuned import Tuned
from tests.support.site import Reply, Site, links
from tests.support.workers.workers import Workers

from gossamer.errors import SettingError
from gossamer.scrapy.speedups.defaults import TUNES, apply, chosen
from gossamer.testing.servers import Server

PAGES = [f"/page/{number}" for number in range(12)]
COUNTED = (
    "downloader/request_count", "downloader/request_method_count/GET", "downloader/request_method_count/POST",
    "downloader/request_method_count/HEAD", "downloader/request_method_count/PUT", "downloader/response_count",
    "downloader/response_status_count/200", "downloader/response_status_count/302", "downloader/response_status_count/404",
    "downloader/response_status_count/418", "downloader/response_status_count/503", "dupefilter/filtered",
    "httpcompression/response_count", "httperror/response_ignored_count", "item_scraped_count", "request_depth_max",
    "response_received_count", "retry/count", "httpcompression/response_bytes", "offsite/filtered",
)  # fmt: skip


class Seen(NamedTuple):
    """A request as the site saw it: without what belongs to the connection."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Crawled(NamedTuple):
    requests: Counter[Seen]
    counts: dict[str, Any]


def furnished(site: Site) -> Site:
    site.on(
        "/",
        links(
            *PAGES,
            "/moved",
            "/refresh",
            "/gzip",
            "/deflate",
            "/busy",
            "/gone",
            "/set",
            "/page/1#part",
            "/page/2?b=2&a=1",
        ),
    )
    for number, page in enumerate(PAGES):
        site.on(page, links(*PAGES[number:], "/", "/page/2?a=1&b=2", PAGES[0]))
    site.on("/moved", Reply(302, headers={"Location": "/moved/here"}))
    site.on("/refresh", Reply(body='<meta http-equiv="refresh" content="0;url=/refreshed">'))
    site.on("/gzip", Reply(body=gzip.compress(b"<p>packed</p>", mtime=0), headers={"Content-Encoding": "gzip"}))
    site.on("/deflate", Reply(body=zlib.compress(b"<p>packed</p>"), headers={"Content-Encoding": "deflate"}))
    site.on("/busy", Reply(503, headers={"Retry-After": "0"}, times=1))
    site.on("/gone", Reply(404))
    site.on("/wanted", Reply(418))
    site.on("/set", Reply(headers={"Set-Cookie": "kept=yes; Path=/"}, body='<a href="/set/after">x</a>'))
    return site


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


def crawled(server: Server, name: str, settings: Mapping[str, Any]) -> Crawled:
    with furnished(Site()) as site, Workers(server.url, f"tuning-{name}", LOG_LEVEL="INFO") as workers:
        worker = workers.start(Tuned, settings=settings, site=site.url)
        assert worker.wait() == 0, worker.log
        stats = worker.stats()
        assert stats["downloader/request_count"] > 30, worker.log
        visits = list(site.visits)
        host = site.host
    requests = Counter(
        Seen(visit.method, visit.target, _headers(visit.headers, host, visit.path), visit.body) for visit in visits
    )
    return Crawled(requests, {key: stats.get(key) for key in COUNTED})


def _headers(headers: Mapping[str, str], host: str, path: str) -> tuple[tuple[str, str], ...]:
    """By name, without those of the connection. Which page a link was first found on, and whether a cookie was set before,
    is a matter of order: it is compared only where there is one."""
    found = {name.lower(): value.replace(host, "site") for name, value in headers.items()}
    for name in ("connection", "keep-alive", "host"):
        found.pop(name, None)
    if path.startswith("/page/") or path in ("/", "/same"):
        found.pop("referer", None)
    due = {"/set/after": {"kept=yes"}, "/cookies": {"given=1"}}.get(path, set())
    sent = set(found.pop("cookie", "").split("; ")) & due
    if sent:
        found["cookie"] = "; ".join(sent)
    return tuple(sorted(found.items()))


@pytest.fixture(scope="module")
def plain(server: Server) -> Crawled:
    return crawled(server, "plain", {"ADDONS": {}})


@pytest.mark.parametrize("said", ["none", "all", *(tune.name for tune in TUNES)])
def test_a_project_does_what_it_does_without(server: Server, plain: Crawled, said: str) -> None:
    found = crawled(server, said, {"GOSSAMER_TUNING": said})
    differing = {seen.target for seen in (found.requests - plain.requests) + (plain.requests - found.requests)}
    assert found.requests == plain.requests, differing
    assert found.counts == plain.counts
    assert found.counts["dupefilter/filtered"] > 50


def test_the_site_is_worth_the_comparison(plain: Crawled) -> None:
    targets = Counter(seen.target for seen in plain.requests.elements())
    assert (targets["/busy"], targets["/same"], targets["/moved/here"], targets["/refreshed"]) == (2, 4, 1, 1)
    assert plain.counts["httpcompression/response_count"] == 2
    [after] = [dict(seen.headers) for seen in plain.requests if seen.target == "/set/after"]
    assert after["cookie"] == "kept=yes"
    assert after["referer"] == "http://site/set"


class TestChosen:
    def test_all_by_default_less_what_is_named_with_a_minus(self) -> None:
        names = [tune.name for tune in TUNES]
        assert [tune.name for tune in chosen("all")] == names
        assert [tune.name for tune in chosen("-early, -uvloop")] == [n for n in names if n not in ("early", "uvloop")]
        assert [tune.name for tune in chosen("signals")] == ["signals"]
        assert chosen("none") == []

    def test_an_unknown_name_is_refused_with_those_there_are(self) -> None:
        with pytest.raises(SettingError, match=r"earlier.*uvloop"):
            chosen("earlier")

    def test_what_the_project_chose_stays(self) -> None:
        own = {"https": "project.Handler"}
        settings = Settings({"DOWNLOAD_HANDLERS": own, "ASYNCIO_EVENT_LOOP": "asyncio.SelectorEventLoop"})
        apply(settings, "all")
        assert settings.getdict("DOWNLOAD_HANDLERS") == own
        assert settings["ASYNCIO_EVENT_LOOP"] == "asyncio.SelectorEventLoop"
