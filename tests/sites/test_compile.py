"""A site, ready to be crawled."""

from __future__ import annotations

import pytest

from gossamer.errors import MissingVariable, SiteError
from gossamer.model import fingerprint
from gossamer.model.page import PageRequest, Response
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.file.load import load_text
from gossamer.sites.format import SiteSpec

TEXT = """
site: s
seeds:
  - http://s.example/list/{forum}/[1-2]
  - {url: 'http://s.example/post/9', layer: post, priority: 5, pass: {forum: '{lang}', n: 1}, headers: {L: '{lang}'}}
  - {sitemap: 'http://s.example/sitemap.xml', since: 1d, layer: post, pass: {x: 1}}
  - {feed: 'http://s.example/feed'}
  - {tasks: 'queue:s'}
params: {forum: [a, b], lang: en}
limits: {depth: 5}
identity: {drop: [sid]}
layers:
  list: {match: '^/list/(?P<forum>\\w)/', follow: [{css: a.post, to: post, priority: 7}, {css: a.search, to: search, priority: 7}]}
  post: {match: '^/post/(?P<id>\\d+)', order: priority, identity: none, fields: {t: h1, id: {value: '{id}-{lang}'}}}
  search: {match: '^/search', request: {form: {q: '{word}', lang: '{lang}'}, headers: {X: y}}}
  own: {handler: 'm:f'}
store: {post: {}}
"""


@pytest.fixture(scope="module")
def site() -> CompiledSite:
    return compile_site(load_text(TEXT)[0])


def page(url: str, body: bytes) -> Response:
    return Response(url, 200, {"content-type": "text/html; charset=utf-8"}, body)


def test_seeds_come_one_by_one_and_are_counted(site: CompiledSite) -> None:
    seeds = list(site.seeds())
    assert len(seeds) == site.seed_count() == 7
    assert [seed.url for seed in seeds[:4]] == [f"http://s.example/list/{forum}/{n}" for forum in "ab" for n in (1, 2)]
    assert {seed.layer for seed in seeds[:4]} == {"list"}
    post, sitemap, feed = seeds[4:]
    assert (post.layer, post.priority, post.inherited, post.headers) == (
        "post",
        5,
        {"forum": "en", "n": 1},
        {"L": "en"},
    )
    assert (sitemap.layer, sitemap.inherited) == ("_sitemap", {"x": 1, "since": 86400.0, "layer": "post"})
    assert (feed.layer, feed.inherited) == ("_feed", {})
    assert set(site.lanes()) == {"list", "post", "search", "own", "_sitemap", "_feed"}
    assert site.group().tasks == ("queue:s",)
    assert site.own_hosts == {"s.example"}


def test_it_is_what_its_layers_see(site: CompiledSite) -> None:
    context: SiteContext = site
    assert context.params == {"lang": "en"}
    assert context.limits_depth == 5
    assert context.has_layer("post")
    assert not context.has_layer("_feed")
    assert context.layer_of("http://s.example/post/7") == ("post", {"id": "7"})
    assert context.groups("list", "http://s.example/list/a/") == {"forum": "a"}
    assert context.fingerprint("list", "http://s.example/list/a/?sid=1") == fingerprint("http://s.example/list/a/")
    assert context.fingerprint("post", "http://s.example/post/7?a=1") == fingerprint("http://s.example/post/7")
    assert site.canonical("list", "http://S.example:80/?b=1&sid=2&a=0") == "http://s.example/?a=0&b=1"
    assert site.fingerprint("_feed", "http://s.example/f?sid=1") == fingerprint("http://s.example/f")


def test_pages_are_read_by_the_rules_of_their_layer(site: CompiledSite) -> None:
    reading = site.read("post", page("http://s.example/post/7", b"<h1> T </h1>"))
    assert reading.records[0].fields == {"t": "T", "id": "7-en"}
    (row,) = site.rows(reading.records[0], {"url": "http://s.example/post/7"})
    assert (row.table, row.values) == ("s_post", {"t": "T", "id": "7-en", "url": "http://s.example/post/7"})
    assert [table.name for table in site.tables()] == ["s_post"]


def test_priorities_count_only_where_the_layer_is_ordered_by_them(site: CompiledSite) -> None:
    reading = site.read(
        "list", page("http://s.example/list/a/1", b"<a class=post href=/post/1></a><a class=search href=/search></a>")
    )
    assert [(link.layer, link.priority) for link in reading.links] == [("post", 7), ("search", 0)]
    assert site.link("http://s.example/list/a/2", priority=3).priority == 0


def test_a_layer_whose_pages_are_asked_for_by_a_form_is_asked_so_however_it_is_reached(site: CompiledSite) -> None:
    reading = site.read("list", page("http://s.example/list/a/1", b"<a class=search href=/search>"))
    given = site.link("http://s.example/search", inherited={"word": "x y"})
    assert (given.method, given.body) == ("POST", b"q=x+y&lang=en")
    assert given.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert given.fingerprint == fingerprint("http://s.example/search", "POST", b"q=x+y&lang=en")
    assert reading.links[0].body == b"q=%7Bword%7D&lang=en"
    own = site.link("http://s.example/search", method="PUT", body=b"own")
    assert (own.method, own.body) == ("PUT", b"own")


def test_links_go_to_the_layer_that_matches_or_else_the_first(site: CompiledSite) -> None:
    assert site.link("http://s.example/post/1").layer == "post"
    assert site.link("http://s.example/nothing").layer == "list"
    link = site.link("http://s.example/x", "own", depth=2, turn=1, cookies={"a": "b"}, dont_filter=True)
    assert link == PageRequest(
        "http://s.example/x",
        layer="own",
        fingerprint=fingerprint("http://s.example/x"),
        cookies={"a": "b"},
        depth=2,
        turn=1,
        dont_filter=True,
    )
    with pytest.raises(SiteError, match="has no layer nobody; there are list, post, search, own"):
        site.link("http://s.example/x", "nobody")


def test_what_rules_cannot_read_is_said(site: CompiledSite) -> None:
    for layer, why in (
        ("own", "is read by its handler"),
        ("nobody", "is not one of its layers"),
        ("_feed", "is not one of"),
    ):
        with pytest.raises(SiteError, match=why):
            site.read(layer, page("http://s.example/", b""))


def test_parameters_and_variables_may_be_given() -> None:
    (site,) = load_text(
        "site: s\nseeds: 'http://s.example/{f}/{g}'\nparams: {f: [a, b], g: [c]}\ndatabase: 'sqlite:///${F}'\nlayers: {a: {}}\n"
    )
    compiled = compile_site(site, {"f": "x", "g": ["y", "z"]}, {"F": "f.db"})
    assert [seed.url for seed in compiled.seeds()] == ["http://s.example/x/y", "http://s.example/x/z"]
    assert compiled.params == {"f": "x"}
    assert compiled.database == "sqlite:///f.db"
    with pytest.raises(MissingVariable, match="F is not set"):
        compile_site(site, environment={})
    (rows,) = load_text(
        "site: s\nseeds: 'http://s.example/{f}/{g}'\nparams: [{f: 1, g: 2}, {f: 3, g: 4}]\nlayers: {a: {}}\n"
    )
    assert [seed.url for seed in compile_site(rows, {"g": 5}).seeds()] == [
        "http://s.example/1/5",
        "http://s.example/3/5",
    ]


def test_names_beside_a_url_are_combined_too() -> None:
    (site,) = load_text(
        "site: s\nparams: {f: [a, b], g: [c, d], one: x}\nlayers: {a: {request: {headers: {L: '{one}'}}}}\n"
        "request: {cookies: {k: '{one}{{one}}'}}\n"
        "seeds: {url: 'http://s.example/{f}', form: {g: '{g}'}, pass: {f: '{f}', one: '{one}'}}\n"
    )
    compiled = compile_site(site)
    seeds = list(compiled.seeds())
    assert compiled.seed_count() == len(seeds) == 4
    assert [(seed.url[-1], seed.body, seed.inherited["f"]) for seed in seeds] == [
        ("a", b"g=c", "a"), ("a", b"g=d", "a"), ("b", b"g=c", "b"), ("b", b"g=d", "b")
    ]  # fmt: skip
    assert len({seed.fingerprint for seed in seeds}) == 4
    request = compiled.site.layers["a"].request
    assert request is not None
    assert request.headers == {"L": "x"}
    assert compiled.site.request.cookies == {"k": "x{one}"}


def test_a_name_in_doubled_braces_stands_for_itself_wherever_texts_are_filled() -> None:
    sites = load_text(
        "site: 's-{p}'\nparams: {p: [x, y]}\nseeds: 'http://s.example/{{p}}/{p}'\nlayers:\n"
        "  a: {match: ^/, fields: {t: h1, v: {value: '{{t}} {t} {p} {{p}}'}},\n"
        "      follow: [{url: '/{{t}}/{t}/{{p}}/{p}?a={t}', to: a, headers: {H: '{{t}}{t}'}, json: {a: {b: '{t}'}, '{{c}}': '{{t}}'}}]}\n"
    )
    site = compile_site(sites[0])
    assert [seed.url for seed in site.seeds()] == ["http://s.example/{p}/x"]
    reading = site.read("a", page("http://s.example/", b"<h1>T</h1>"))
    assert reading.records[0].fields["v"] == "{t} T x {p}"
    (link,) = reading.links
    assert link.url == "http://s.example/%7Bt%7D/T/%7Bp%7D/x?a=T"
    assert link.headers["H"] == "{t}T"
    assert link.body == b'{"a": {"b": "T"}, "{c}": "{t}"}'


def test_a_site_that_was_never_checked_says_what_is_wrong_with_its_rules() -> None:
    site = SiteSpec.model_validate({"site": "s", "layers": {"a": {"fields": {"t": "h1["}}}})
    with pytest.raises(SiteError, match="The site s cannot be used: "):
        compile_site(site)


def test_bodies_of_seeds_are_made_as_they_are_written() -> None:
    (site,) = load_text(
        "site: s\nparams: {n: 5, tags: ['x,y']}\nlayers: {a: {}}\nseeds:\n"
        "  - {url: 'http://s.example/f', form: {q: '{n}', many: [1, '{tags}']}}\n"
        "  - {url: 'http://s.example/g?a=1#f', method: GET, form: {q: a b}}\n"
        "  - {url: 'http://s.example/j', json: {n: '{n}', text: 'n={n}', list: ['{tags}'], '{n}': null}, cookies: {c: '{n}'}}\n"
        "  - {url: 'http://s.example/b', method: PUT, body: 'raw {n} {{n}}', headers: {content-type: text/plain}}\n"
    )
    form, query, json, raw = compile_site(site).seeds()
    assert (form.method, form.body) == ("POST", b"q=5&many=1&many=x%2Cy")
    assert (query.method, query.url, query.body) == ("GET", "http://s.example/g?a=1&q=a+b#f", b"")
    assert json.body == b'{"n": 5, "text": "n=5", "list": ["x,y"], "5": null}'
    assert (json.headers, json.cookies) == ({"Content-Type": "application/json"}, {"c": "5"})
    assert (raw.method, raw.body, raw.headers) == ("PUT", b"raw 5 {n}", {"content-type": "text/plain"})
    assert form.fingerprint == fingerprint("http://s.example/f", "POST", form.body)
