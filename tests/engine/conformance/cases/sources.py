"""Where pages come from: robots.txt, sitemaps, feeds, tasks."""

from __future__ import annotations

import gzip
import json

from tests.engine.conformance.cases.case import case, page, xml
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

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
      post: {match: '^/post/', require: none, fields: {title: h1, n: {from: parent.n, type: int}}}
      other: {require: none, fields: {title: h1}}
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
