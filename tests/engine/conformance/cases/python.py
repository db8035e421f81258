"""Hooks and handlers of a site."""

from __future__ import annotations

from tests.engine.conformance.cases.case import case, page
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site

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
