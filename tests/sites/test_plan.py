"""What the frontier is told of a site."""

from __future__ import annotations

import pytest

from gossamer.model import (
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    RecordPolicy,
    RevisitRules,
    SeenKind,
    SeenPolicy,
    SeenScope,
)
from gossamer.sites.file.load import load_text
from gossamer.sites.file.params import parameters
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import DepthRow, LayerGraph, by_depth, group, hosts, lanes


def site(text: str) -> SiteSpec:
    return load_text("site: s\n" + text)[0]


def layout(text: str) -> LayerGraph:
    found = site(text)
    return LayerGraph(found, parameters(found.params))


SEED = "seeds: 'http://s.example/list'\n"


def test_the_depth_of_a_layer_is_the_longest_way_to_it() -> None:
    found = layout(
        SEED + "layers:\n"
        "  list: {match: ^/list, follow: [{css: a, to: post}, {css: b, to: comment}, {css: n, to: list, pages: 3}]}\n"
        "  post: {follow: [{css: a, to: comment}, {css: b, to: list}]}\n"
        "  comment: {follow: {css: a, to: user}}\n"
        "  user: {follow: {css: a, to: post}}\n"
    )
    assert found.depths == {"list": 0, "post": 1, "comment": 2, "user": 3}
    assert {name: policy.tier for name, policy in lanes(found).items()} == {
        "list": 0,
        "post": -1,
        "comment": -2,
        "user": -3,
    }


def test_links_without_a_layer_may_lead_to_any_that_matches() -> None:
    found = layout(SEED + "layers: {list: {match: ^/list, follow: a}, post: {match: ^/post, follow: a}, other: {}}\n")
    assert found.edges["list"] == ["list", "post"]
    assert found.depths == {"list": 0, "post": 1, "other": 0}
    assert found.reached() == {"list", "post"}


def test_functions_may_lead_anywhere() -> None:
    found = layout(SEED + "layers: {list: {match: ^/list, handler: 'm:f'}, post: {}, other: {}}\n")
    assert found.reached() == {"list", "post", "other"}
    assert found.depths["other"] == 1


def test_seeds_lead_to_the_layer_they_name_or_match_or_else_the_first() -> None:
    text = "layers: {a: {match: ^/a}, b: {match: ^/b}, c: {}}\n"
    assert layout("seeds: [http://s.example/b]\n" + text).entries == ["b"]
    assert layout("seeds: [http://s.example/x]\n" + text).entries == ["a"]
    assert layout("seeds: [{url: http://s.example/a, layer: c}]\n" + text).entries == ["c"]
    assert layout("seeds: [{tasks: t}]\n" + text).entries == ["a", "b"]
    assert layout("seeds: [{sitemap: http://s.example/s.xml}]\n" + text).entries == ["a", "b"]
    assert layout("seeds: [{feed: http://s.example/f, layer: b}]\n" + text).entries == ["b"]


def test_a_thousand_layers_in_a_row_have_a_deepest_tier() -> None:
    chain = "".join(f"  l{n}: {{follow: {{css: a, to: l{n + 1}}}}}\n" for n in range(1200)) + "  l1200: {}\n"
    found = lanes(layout(SEED + "layers:\n" + chain))
    assert found["l999"].tier == -999
    assert found["l1200"].tier == -1000


def test_a_layer_becomes_a_lane() -> None:
    found = layout(
        SEED + "seen: {policy: rolling, window: 7d}\nlayers:\n"
        "  list: {seen: round, order: lifo, weight: 2.5, backlog: 100, concurrency: 3, stage: slow, tier: 7, follow: {css: a, to: post}}\n"
        "  post: {order: priority}\n"
    )
    assert lanes(found) == {
        "list": LanePolicy(
            order=Order.LIFO,
            tier=7,
            weight=2.5,
            seen=SeenPolicy(scope=SeenScope.ROUND),
            max_queued=100,
            max_leased=3,
            stage="slow",
        ),
        "post": LanePolicy(tier=-1, seen=SeenPolicy(kind=SeenKind.ROLLING, window=7 * 86400.0)),
    }


@pytest.mark.parametrize(
    ("keys", "policy"),
    [
        ("", None),
        ("page_records: true", RecordPolicy()),
        ("page_records: {max: 9, age: 90d}", RecordPolicy(max_pages=9, max_age=90 * 86400.0)),
        ("page_records: true, seen: round", RecordPolicy(newer=True)),
        ("page_records: true, seen: never", RecordPolicy(finished=0.0)),
        ("rediscover: {failed: never, gone: 1h}", RecordPolicy(failed=None, gone=3600.0)),
        ("revisit: 1h", RecordPolicy(RevisitRules(3600.0), finished=3600.0, gone=3600.0)),
        (
            "revisit: {every: 1h, min: 5m, max: 7d, adaptive: true, gone: 5}, seen: round, rediscover: {finished: now, newer: false}",
            RecordPolicy(RevisitRules(3600.0, 300.0, 7 * 86400.0, True, 5), finished=0.0, gone=3600.0),
        ),
        ("revisit: {every: 1h, adaptive: true}", RecordPolicy(RevisitRules(3600.0, adaptive=True), gone=3600.0)),
    ],
)
def test_layers_keep_page_records_where_a_key_asks_for_them(keys: str, policy: RecordPolicy | None) -> None:
    assert lanes(layout(SEED + "layers: {a: {" + keys + "}}\n"))["a"].records == policy


def test_sitemaps_and_feeds_have_lanes_of_their_own_after_the_others() -> None:
    found = lanes(
        layout("seeds: [{sitemap: http://s.example/s.xml}, {feed: http://s.example/f}]\nlayers: {a: {match: ^/}}\n")
    )
    assert {name: policy.tier for name, policy in found.items()} == {"a": 0, "_sitemap": 1, "_feed": 1}
    assert found["_sitemap"].seen.scope is SeenScope.ROUND


def test_lists_share_with_the_deepest_layer_where_rounds_begin_beside_a_backlog() -> None:
    """Behind it, seeds that are added again would wait until nothing else is left."""
    text = (
        "seeds: [http://s.example/list, {feed: http://s.example/f, layer: post}, {sitemap: http://s.example/s.xml, layer: post}]\n"
        "schedule: {every: 10m, overlap: OVERLAP}\n"
        "layers:\n"
        "  list: {match: ^/list, seen: round, follow: [{css: a, to: forum}]}\n"
        "  forum: {seen: round, follow: [{css: a, to: post}]}\n"
        "  post: {follow: [{css: a, to: comment}]}\n"
        "  comment: {follow: [{css: a, to: user}]}\n"
        "  user: {tier: 5}\n"
    )

    def tiers(overlap: str) -> dict[str, int]:
        return {name: policy.tier for name, policy in lanes(layout(text.replace("OVERLAP", overlap))).items()}

    usual = {"list": 0, "forum": -1, "post": -2, "comment": -3, "user": 5, "_sitemap": 1, "_feed": 1}
    assert tiers("queue") == usual
    assert tiers("reseed") == {**usual, "list": -3, "forum": -3, "_feed": -3}


def test_a_site_becomes_a_group() -> None:
    assert group(
        site(
            "seeds: [http://s.example/, {tasks: 'a:t'}, {tasks: 'a:t'}, {tasks: u}]\nlimits: {backlog: 10, pages: 1e6}\n"
            "politeness: {delay: 0.5s, concurrency: 4}\nlayers: {a: {}}\n"
        )
    ) == GroupPolicy(max_queued=10, max_pages=1_000_000, delay=0.5, concurrency=4, start=True, tasks=("a:t", "u"))
    assert not group(site("seeds: [{tasks: t}]\nlayers: {a: {}}\n")).start


def test_hosts_are_treated_as_the_file_says() -> None:
    found = layout(
        "seeds: ['http://a.example/', 'http://b.example/']\nlayers: {a: {}}\n"
        "politeness: {adaptive: true, delay: 2s, hosts: {A.example: {delay: 5s, concurrency: 1}, 'http://c.example:8080/': {}}}\n"
    )
    assert hosts(found) == {
        "a.example": HostPolicy(delay=5.0, concurrency=1),
        "b.example": HostPolicy(delay=2.0, concurrency=8, adaptive=True, min_delay=2.0),
        "c.example:8080": HostPolicy(),
    }
    assert hosts(layout(SEED + "layers: {a: {}}\n")) == {}


def test_the_table_of_depths_adds_up_layers_of_the_same_depth() -> None:
    assert by_depth({"list": 0, "post": 1, "image": 1}, {"post": (5, 2), "image": (1, 1), "gone": (3, 0)}) == [
        DepthRow(0, ("list",), 0, 0),
        DepthRow(1, ("post", "image"), 6, 3),
        DepthRow(-1, ("gone",), 3, 0),
    ]
