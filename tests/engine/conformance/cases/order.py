"""Limits of depth, the order of pages, and the referrers they send."""

from __future__ import annotations

from tests.engine.conformance.cases.case import case
from tests.engine.conformance.cases.following import FORUM, forum, to
from tests.engine.conformance.conformance import Came
from tests.support.site import Reply, Site, links

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
