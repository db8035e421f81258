"""Pages that a browser makes (`render: true`), with Chromium of the system and no connection but to the site."""

from __future__ import annotations

import re
from secrets import token_hex

import pytest
from tests.engine.conformance.conformance import Came, Case, crawled, once
from tests.support.servers.web_proxy import WebProxy
from tests.support.site import Reply, Site

from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

MADE = """<html><body><div id=x></div><script src="/script.js"></script></body></html>"""
SCRIPT = """document.getElementById('x').innerHTML = '<h1>made ' + navigator.userAgent + '</h1><a href="/plain">p</a><b id="/alone"></b>'"""
SITE = """
    seeds: [SITE/made, SITE/raw, SITE/gone, SITE/empty, SITE/slow, SITE/moved]
    politeness: {robots: obey}
    request: {retries: 0, timeout: 4s, user_agent: Robot/1, headers: {X-Ours: '1'}, cookies: {c: '5'}}
    layers:
      made:
        match: '^/(made|gone|empty|slow|moved|there)'
        request: {render: true}
        fields: {title: h1, at: {from: url}}
        follow: [{css: a, to: plain}, {css: b, attr: id, to: alone}]
      alone: {match: '^/alone', request: {render: true, session: none}}
      plain: {match: '^/(plain|raw)', fields: {title: h1}, require: none}
"""


BY_PROXY = """
    seeds: [SITE/made]
    politeness: {robots: ignore}
    request: {retries: 0, timeout: 20s, proxy: pool, render: true}
    proxies: {pool: {urls: ['PROXY']}}
    layers: {made: {fields: {title: h1}}}
"""
PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = settings\n",
    "settings.py": (
        "PLAYWRIGHT_LAUNCH_OPTIONS = {'args': ['--log-net-log=net.json',"
        " '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1']}\n"
    ),
}
"""The browser writes down what it asks for; should it ask elsewhere, a test fails, and nothing leaves the machine."""


def prepare(site: Site, _: Site) -> None:
    for path in ("/made", "/raw"):
        site.on(path, Reply(body=MADE, headers={"Set-Cookie": "s=1; Path=/"} if path == "/made" else {}))
    site.on("/script.js", Reply(body=SCRIPT, headers={"Content-Type": "text/javascript"}))
    site.on("/robots.txt", Reply(404, "")).on("/gone", Reply(404, "<p>gone</p>")).on("/empty", Reply(404, "")).on(
        "/plain", Reply(body="<h1>plain</h1>")
    )
    site.on("/moved", Reply(302, "", {"Location": "/there"})).on("/there", Reply(body="<h1>there</h1>"))
    site.hold("/slow")


@pytest.fixture(scope="session")
def both(valkey_server: Server, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Came]:
    def crawl() -> dict[str, Came]:
        folder = tmp_path_factory.mktemp("render")
        with WebProxy(login="me:pass") as proxy:
            by_proxy = BY_PROXY.replace("PROXY", proxy.url)
            cases = [
                Case("rendered", SITE, prepare, lambda came: None),
                Case("by_proxy", by_proxy, prepare, lambda came: None),
            ]
            with crawled(valkey_server, f"c{token_hex(6)}", folder, "scrapy", cases, PROJECT) as found:
                assert ("GET", True) in {(method, login) for method, _, login in proxy.asked()}
                return found

    return once(tmp_path_factory, worker_id, "render", crawl)


@pytest.fixture
def came(both: dict[str, Came]) -> Came:
    return both["rendered"]


def test_what_a_script_makes_is_there_only_where_it_is_rendered(came: Came) -> None:
    assert {item["at"]: item["title"] for item in came.of("made")}["SITE/made"].startswith("made ")
    assert sorted(str(item["title"]) for item in came.of("plain")) == ["None", "plain"]


def test_a_browser_asks_as_the_site_file_says(came: Came) -> None:
    made = came.one("/made")
    assert (made.headers["user-agent"], made.headers["x-ours"]) == ("Robot/1", "1")
    assert "c=5" in made.headers["cookie"]


def test_cookies_of_a_rendered_page_are_the_sites(came: Came) -> None:
    assert came.one("/plain").headers["cookie"] == "c=5; s=1"


def test_a_browser_keeps_its_cookies(came: Came) -> None:
    # A difference: the layer says `session: none`.
    assert "s=1" in came.one("/alone").headers["cookie"]


def test_what_is_gone_or_too_slow_is_what_it_always_is(came: Came) -> None:
    assert came.counters["site/gone"] == 1
    # A difference: for a browser an error without a page is no answer at all.
    assert [(reason, "RESPONSE_CODE" in detail) for reason, detail in came.dead] == [
        ("protocol", True),
        ("timeout", False),
    ]


def test_a_browser_follows_redirects_by_itself(came: Came) -> None:
    # A difference: the frontier sees one page, under the address where the browser ended.
    assert "SITE/there" in {item["at"] for item in came.of("made")}
    assert "gossamer/responses/302" not in came.counters
    # Another: what a page needs to be made is fetched beside the frontier.
    assert "/script.js" in came.targets()


def test_robots_txt_is_no_page_for_a_browser(came: Came) -> None:
    assert [one.headers.get("sec-fetch-mode") for one in came.asked if one.path == "/robots.txt"] == [None]


def test_a_rendered_page_comes_by_the_proxy_that_the_site_names(both: dict[str, Came]) -> None:
    assert [item["title"][:5] for item in both["by_proxy"].items] == ["made "]


def test_a_browser_asks_nobody_but_the_site(came: Came) -> None:
    # What the browser itself wrote down of its network, in the project's directory.
    text = (came.folder / "project" / "net.json").read_text("utf-8", "replace")
    hosts = set(re.findall(r'"url":"(?:https?|wss?)://([^/:"]+)', text))
    assert hosts == {"127.0.0.1"}
