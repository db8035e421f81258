"""The rules for pages that redirect, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

import pytest

from gossamer.engine.page import payload, redirects
from gossamer.engine.sites import ServedLayer, ServedSite
from gossamer.model import DeadLetter
from gossamer.model.page import NOT_ON_ITS_WAY, NOTHING, PageRequest, Way
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

SITE = ServedSite(
    compile_site(
        load_text("""
site: pages
seeds: [http://s.example/list]
layers:
  list: {match: ^/list, follow: [{css: a, to: page}, {url: '/list?p={turn}', to: list, pages: 0}]}
  page: {match: ^/page/, fields: {title: title}}
  api: {match: ^/api, format: json, follow: [{url: /api, headers: {X-Page: '{turn+1}'}, to: api, pages: 9}]}
  any: {fields: {title: title}}
""")[0]
    )
)
AT = "http://s.example"
FORM: dict[str, Any] = {"method": "POST", "body": b"q=1"}


def linked(layer: str, url: str, **more: Any) -> PageRequest:
    link = SITE.compiled.link(AT + url, layer, **{key: more.pop(key) for key in FORM if key in more})
    return link._replace(**more)


def led(layer: ServedLayer, page: PageRequest, *urls: str, session: int = 0) -> PageRequest:
    """The request of a page after these redirects, each of which makes a GET of a form."""
    for url in urls:
        page = redirects.followed(layer, page, page._replace(url=AT + url, method="GET", body=b""), session)
    return page


class Case(NamedTuple):
    said: str
    layer: str
    urls: list[str]
    filtered: bool
    itself: bool = False
    other: str | None = None
    """The layer that it is read in."""
    page: Mapping[str, Any] = NOTHING
    session: int = 0
    on_its_way: bool = False


CASES = [
    Case("within a layer", "page", ["/page/1", "/page/2"], True),
    Case("to a URL of no layer", "page", ["/page/1", "/about"], True),
    Case("a seed or task", "page", ["/page/1", "/page/2"], False, page={"always": True}),
    Case("to itself", "page", ["/page/1", "/page/1"], False, itself=True),
    Case("to another form of its URL", "page", ["/page/1?a=1&b=2", "/page/1?b=2&a=1"], False, itself=True),
    Case("to itself by way of another", "page", ["/page/1", "/cookie", "/page/1"], False, itself=True),
    Case("to one that it was on before", "page", ["/page/1", "/page/2", "/cookie", "/page/2"], False, itself=True),
    Case("to another layer", "page", ["/page/1", "/list/2"], True, other="list"),
    Case("to another layer and back", "page", ["/page/1", "/list/2", "/page/2"], True),
    Case("a layer that no URL decides about", "any", ["/", "/page/1"], True),
    Case("page 1 of those that are counted from 1", "list", ["/list?p=1", "/list"], False, True, page={"turn": 1}),
    Case("page 2 of them", "list", ["/list?p=2", "/list"], True, page={"turn": 2}),
    Case("a form", "page", ["/page/search", "/page/found"], True, page=FORM),
    Case("a form to its own URL", "page", ["/page/search", "/page/search"], True, page=FORM),
    Case("in a session", "page", ["/page/1", "/page/2"], False, session=3, on_its_way=True),
    Case("in a session, twice", "page", ["/page/1", "/a", "/b"], False, session=3, on_its_way=True),
    Case("a form in a session", "page", ["/page/s", "/page/f"], False, page=FORM, session=3, on_its_way=True),
]


@pytest.mark.parametrize("case", CASES, ids=[case.said for case in CASES])
def test_where_a_page_leads_to_is_filtered_unless(case: Case) -> None:
    layer, (first, *further) = SITE.layers[case.layer], case.urls
    page = led(layer, linked(case.layer, first, **case.page), *further, session=case.session)
    assert page.dont_filter is not case.filtered
    assert redirects.leads_to_itself(layer, page) is case.itself
    assert redirects.other_layer(layer, page, page.url) == case.other
    assert (page.way.session > 0) is case.on_its_way
    assert (page.first, page.mark) == (AT + first, linked(case.layer, first, **case.page).fingerprint)
    assert list(page.hops) == [AT + one for one in case.urls[:-1]]


def test_the_fingerprint_is_that_of_a_link_but_in_another_layer() -> None:
    layer = SITE.layers["page"]
    assert led(layer, linked("page", "/page/1"), "/page/2").fingerprint == linked("page", "/page/2").fingerprint
    away = led(layer, linked("page", "/page/1"), "/list/2")
    assert away.fingerprint != linked("list", "/list/2").fingerprint
    assert led(layer, linked("page", "/page/3"), "/list/2").fingerprint == away.fingerprint
    assert led(layer, away, "/page/2").fingerprint == linked("page", "/page/2").fingerprint


def test_pages_that_a_header_counts_remain_apart_at_every_url() -> None:
    layer, site = SITE.layers["api"], SITE.compiled
    turns = [
        linked("api", "/api", turn=turn)._replace(fingerprint=site.fingerprint("api", f"{AT}/api", body=b"%d" % turn))
        for turn in (1, 2)
    ]
    for urls in (["/api/"], ["/list/1"], ["/list/1", "/api/"], ["/api/", "/api"]):
        one, other = (led(layer, turn, *urls) for turn in turns)
        assert one.fingerprint != other.fingerprint
        apart = [turn.fingerprint ^ linked("api", "/api").fingerprint for turn in turns]
        if not urls[-1].startswith("/list"):
            plain = linked("api", urls[-1]).fingerprint
            assert [page.fingerprint ^ plain for page in (one, other)] == apart
            assert redirects.as_linked(layer, one) == one.fingerprint
    assert redirects.leads_to_itself(layer, led(layer, turns[1], "/cookie", "/api"))
    assert not redirects.leads_to_itself(layer, led(layer, turns[1], "/cookie", "/api/"))


@pytest.mark.parametrize("form", [{}, FORM], ids=["a link", "a form"])
def test_a_page_on_its_way_begins_again_as_it_set_out(form: Mapping[str, Any]) -> None:
    layer = SITE.layers["page"]
    page = linked("page", "/page/1", **form, headers={"X": "1"}, cookies={"c": "d"})
    gate = led(layer, page, "/hall", "/gate", session=3)._replace(headers={}, cookies={})
    again = redirects.begun_again(gate, counts=True)
    assert again == page._replace(hops=[], marks=[], dont_filter=True, way=Way(begun=1))
    assert redirects.begun_again(gate, counts=False).way == NOT_ON_ITS_WAY
    gate = led(layer, again, "/gate", session=4)
    assert gate.way == Way(4, 0, 1, {"X": "1"}, {"c": "d"}, **form)
    assert redirects.begun_again(gate, counts=True).way.begun == 2


def test_a_page_that_has_arrived_is_filtered_there_and_sets_out_from_there() -> None:
    layer = SITE.layers["page"]
    there = led(layer, linked("page", "/page/1"), "/hall", "/page/2", session=3)
    wanted = redirects.arrived(layer, there)
    assert wanted == there._replace(dont_filter=False, way=NOT_ON_ITS_WAY)
    gate = led(layer, wanted, "/gate", session=3)
    again = redirects.begun_again(gate, counts=True)
    assert (again.url, again.fingerprint) == (f"{AT}/page/2", linked("page", "/page/2").fingerprint)
    assert (again.first, again.mark) == (f"{AT}/page/1", linked("page", "/page/1").fingerprint)


def test_a_page_that_leads_back_to_where_it_was_on_its_way_is_filtered_there() -> None:
    """Another page may lead there, too, and neither was filtered."""
    layer = SITE.layers["page"]
    there = led(layer, linked("page", "/page/1"), "/page/2", "/cookie", "/page/2", session=3)
    wanted = redirects.arrived(layer, there)
    assert wanted is not None
    assert not wanted.dont_filter
    again = led(layer, wanted, "/cookie", "/page/2", session=3)
    assert redirects.arrived(layer, again) is None


@pytest.mark.parametrize(
    ("page", "urls"),
    [(linked("page", "/page/1", always=True), ["/page/2"]), (linked("page", "/page/1"), ["/cookie", "/page/1"])],
    ids=["a seed or task", "to itself"],
)
def test_a_page_that_is_not_filtered_is_read_where_it_has_arrived(page: PageRequest, urls: list[str]) -> None:
    layer = SITE.layers["page"]
    assert redirects.arrived(layer, led(layer, page, *urls, session=3)) is None


def test_the_frontier_keeps_how_far_a_page_is() -> None:
    form = linked("page", "/page/1", **FORM, cookies={"c": "d"})
    page = led(SITE.layers["page"], form, "/hall", "/gate", session=3)
    kept = payload.pack(page, "pages.page")
    letter = DeadLetter(0, 1, "pages", kept.lane, kept.host, 0, kept.fingerprint, 1, "", "", 0.0, kept.payload)
    came = payload.unpack(letter)
    assert (came.hops, came.marks, came.way) == (page.hops, page.marks, page.way)
    again = redirects.begun_again(came, counts=True)
    assert (again.method, again.body, again.cookies) == ("POST", b"q=1", {"c": "d"})


@pytest.mark.parametrize("layer", ["page", "api"])
def test_what_an_earlier_version_queued_without_marks_has_them(layer: str) -> None:
    served = SITE.layers[layer]
    page = led(served, linked(layer, f"/{layer}/1")._replace(turn=1), "/list/2", f"/{layer}/3")
    assert redirects.marked(served, page._replace(marks=())) == page


class Members:
    """A site with a login, a frontier and a worker in one. Some pages redirect, over any number of URLs or to themselves once; when a
    session is over, all of them lead to the login page by way of /gate, which leads to a hall otherwise. Sessions end at any moment."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._layer = chance, SITE.layers["page"]
        self._session, self._is_over = 1, False
        urls = [f"{AT}/page/{number}" for number in range(12)]
        self._to = {
            url: chance.choice(urls[place + 1 :]) for place, url in enumerate(urls[:-1]) if chance.random() < 0.5
        }
        self._cookies = {url for url in urls if chance.random() < 0.3}
        self._seen: set[int] = set()
        self._queue: list[PageRequest] = []
        self.linked = [url for url in urls if chance.random() < 0.7]
        self.read: list[str] = []
        for url in self.linked:
            self._add(linked("page", url.removeprefix(AT)))

    def end_of(self, url: str) -> str:
        return self.end_of(self._to[url]) if url in self._to else url

    def crawl(self) -> None:
        while self._queue:
            self._visit(self._queue.pop(self._chance.randrange(len(self._queue))))

    def _add(self, page: PageRequest) -> None:
        if page.dont_filter or page.fingerprint not in self._seen:
            if not page.dont_filter:
                self._seen.add(page.fingerprint)
            self._queue.append(page)

    def _visit(self, page: PageRequest) -> None:
        if (further := self._further(page)) is not None:
            self._add(further)
        else:
            self.read.append(page.url)

    def _further(self, page: PageRequest) -> PageRequest | None:
        """As the processor does; None: it is read."""
        if 0 < page.way.session < self._session:
            return redirects.begun_again(page, counts=False)
        self._is_over |= self._chance.random() < 0.1
        gate = f"{AT}/gate"
        if self._is_over and page.url == gate:
            self._session, self._is_over = self._session + 1, False
            return redirects.begun_again(page, counts=True)
        target = gate if self._is_over else f"{AT}/hall" if page.url == gate else self._to.get(page.url)
        if target is None and page.url in self._cookies and page.url not in page.hops:
            target = page.url
        if target is not None:
            return redirects.followed(self._layer, page, page._replace(url=target), self._session)
        return redirects.arrived(self._layer, page) if page.way.session else None


def test_every_page_is_read_once_whenever_sessions_end() -> None:
    for seed in range(300):
        members = Members(Random(seed))
        members.crawl()
        assert sorted(members.read) == sorted({members.end_of(url) for url in members.linked}), f"{seed=}"
