"""The page that a function of a layer gets, and what becomes of what the function yields."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from parsel import Selector
from pydantic import BaseModel

from gossamer.errors import SiteError
from gossamer.model.page import Record, Response
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.file.load import load_text
from gossamer.sites.page import PageVerdict, Reading
from gossamer.sites.python.page import Page
from gossamer.sites.python.reader import FunctionReader, Output

SITE = """
site: shop
seeds: http://shop.example/c/lamps
params: {currency: EUR}
limits: {depth: 2}
layers:
  list: {match: '^/c/(?P<kind>[a-z]+)', handler: 'm:f'}
  item: {match: '^/p/', handler: 'm:f', valid: {lacks: captcha}, require: [sku], lacking: LACKING}
  anchor: {match: '^/a/', handler: 'm:f', identity: {fragment: true}}
  feed: {match: '^/feed', handler: 'm:f', format: xml}
"""
HTML = {"content-type": "text/html"}


@pytest.fixture
def site() -> CompiledSite:
    return made()


def made(lacking: str = "fail") -> CompiledSite:
    [site] = load_text(SITE.replace("LACKING", lacking))
    return compile_site(site)


async def read(site: CompiledSite, function: Any, body: str, layer: str = "list", **more: Any) -> Reading:
    url = {"list": "http://shop.example/c/lamps", "feed": "http://shop.example/feed"}.get(
        layer, "http://shop.example/p/1"
    )
    given: dict[str, Any] = {"status": 200, "headers": HTML, **more}
    return await FunctionReader(function, site, layer).read(Response(url, body=body.encode(), **given), 7)


async def page_of(site: CompiledSite, body: str, layer: str = "list", **more: Any) -> Page:
    found: list[Page] = []
    await read(site, found.append, body, layer, **more)
    return found[0]


class TestPage:
    async def test_what_it_has(self, site: CompiledSite) -> None:
        page = await page_of(site, "<h1>Übersicht</h1>", inherited={"a": 1}, turn=2, depth=1)
        assert (page.layer, page.url, page.status) == ("list", "http://shop.example/c/lamps", 200)
        assert (page.text, page.body[:4], page.headers) == ("<h1>Übersicht</h1>", b"<h1>", HTML)
        assert (page.inherited, page.turn, page.depth, page.round) == ({"a": 1}, 2, 1, 7)
        assert (page.params["currency"], page.groups["kind"]) == ("EUR", "lamps")
        assert page.css("h1::text").get() == page.xpath("//h1/text()").get() == "Übersicht"
        assert repr(page) == "<Page 200 http://shop.example/c/lamps (list)>"

    async def test_how_its_tables_call_it(self, site: CompiledSite) -> None:
        page = await page_of(site, "<h1>x</h1>", "item")
        assert (page.site, page.identity, page.parent) == ("shop", "http://shop.example/p/1", None)
        seen: list[tuple[str, str | None]] = []
        document = Response("http://shop.example/p/1?utm_source=x#top", 200, HTML, b"<h1>x</h1>")
        reader = FunctionReader(lambda page: seen.append((page.identity, page.parent)), site, "item")
        reading = await reader.read(document, 7, "http://SHOP.example/c/lamps?b=2&a=1")
        assert seen == [(site.canonical("item", document.url), "http://shop.example/c/lamps?a=1&b=2")]
        assert reading.asked_parent
        assert not (await read(site, lambda page: [{"of": page.identity}], "", "item")).asked_parent

    async def test_xml_has_its_own_names(self, site: CompiledSite) -> None:
        body = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><pubDate>x</pubDate></entry></feed>"
        assert (await page_of(site, body, "feed")).css("entry pubDate::text").getall() == ["x"]

    async def test_json_is_read_once_and_what_is_none_is_not_valid(self, site: CompiledSite) -> None:
        page = await page_of(site, '{"a": [1]}')
        assert page.json() is page.json()
        reading = await read(site, lambda page: page.json(), "<html>")
        assert reading.verdict is PageVerdict.INVALID
        assert reading.reason.startswith("the page is not JSON")

    @pytest.mark.parametrize(
        "script",
        [
            '{"@type": "Product", "sku": "1"}',
            '[{"@type": "Organization"}, {"@type": ["Thing", "Product"], "sku": "1"}]',
            '{"@context": "x", "@graph": [{"@type": "WebSite"}, {"@type": "https://schema.org/Product", "sku": "1"}]}',
            '<!-- {"@type": "Product", "sku": "1"} -->',
            '{"@type": "WebPage", "mainEntity": {"@type": "Product", "sku": "1"}}',
        ],
    )
    async def test_json_ld_is_found_wherever_pages_put_it(self, site: CompiledSite, script: str) -> None:
        broken = '<script type="application/ld+json">{oops</script><script>var a</script>'
        page = await page_of(site, f'{broken}<script type="application/ld+json">{script}</script>')
        assert page.json_ld("Product")["sku"] == "1"
        assert [one["sku"] for one in page.json_ld_all("Product")] == ["1"]
        assert len(page.json_ld_all()) >= 1

    async def test_json_ld_that_is_not_there_is_named_with_what_is(self, site: CompiledSite) -> None:
        page = await page_of(site, '<script type="application/ld+json">{"@type": "Organization"}</script>')
        with pytest.raises(LookupError, match="lamps has no JSON-LD of type Product; it has Organization"):
            page.json_ld("Product")
        assert page.json_ld("Product", None) is None
        broken = await page_of(site, '<script type="application/ld+json">{oops</script>')
        with pytest.raises(LookupError, match="1 of its scripts cannot be read"):
            broken.json_ld("Product")


class TestFollow:
    BODY = """<base href="/deep/"><a href="../p/1#top">x</a><a name="none">y</a><a href="mailto:a@b.c">z</a>
    <a href="#here">w</a><a href="http://[">v</a><a href="/nowhere">u</a>"""

    async def test_a_selector_an_attribute_and_a_text(self, site: CompiledSite) -> None:
        page = await page_of(site, self.BODY)
        links = [page.follow(one) for one in (page.css("a")[0], page.css("a::attr(href)")[0], "/p/1")]
        assert [(link.url, link.layer) for link in links if link] == [("http://shop.example/p/1", "item")] * 3
        assert len({link.fingerprint for link in links if link}) == 1
        assert page.urljoin("x") == "http://shop.example/deep/x"

    async def test_what_no_crawler_follows_is_nothing(self, site: CompiledSite) -> None:
        page = await page_of(site, self.BODY)
        assert [page.follow(one) for one in page.css("a")[1:]] == [None] * 5
        assert [page.follow(one, to="item") for one in page.css("a")[1:5]] == [None] * 4
        deep = await page_of(site, self.BODY, depth=2)
        assert deep.follow("/p/1") is None, "limits.depth"
        reading = await read(site, lambda page: map(page.follow, page.css("a")), self.BODY)
        assert [link.url for link in reading.links] == ["http://shop.example/p/1"]
        assert len(reading.notes) == 1

    async def test_an_unknown_layer_and_a_selector_of_something_else_are_mistakes(self, site: CompiledSite) -> None:
        page = await page_of(site, self.BODY)
        with pytest.raises(SiteError, match="no layer itme; there are list, item"):
            page.follow("/p/1", to="itme")
        with pytest.raises(TypeError, match="not one of float"):
            page.follow(page.xpath("count(//a)")[0])

    async def test_turns_keep_depth_and_inheritance(self, site: CompiledSite) -> None:
        page = await page_of(site, "", inherited={"a": 1}, turn=1, depth=1)
        turn, item = page.follow("/c/lamps?page=2", inherited={"b": 2}), page.follow("/p/1", inherited={"b": 2})
        assert turn is not None
        assert item is not None
        assert (turn.turn, turn.depth, turn.inherited) == (2, 1, {"a": 1, "b": 2})
        assert (item.turn, item.depth, item.inherited) == (0, 2, {"b": 2})

    async def test_bodies_and_fragments(self, site: CompiledSite) -> None:
        page = await page_of(site, "")
        sent = [
            page.follow("/p/1", json={"a": 1}),
            page.follow("/p/1", form={"a": [1, 2]}),
            page.follow("/p/1", form={"a": 1}, method="GET"),
            page.follow("/p/1", body=b"x", again=True, headers={"A": "b"}),
            page.follow("/a/1#two"),
        ]
        assert [(one.method, one.url, one.body, dict(one.headers), one.dont_filter) for one in sent if one] == [
            ("POST", "http://shop.example/p/1", b'{"a": 1}', {"Content-Type": "application/json"}, False),
            ("POST", "http://shop.example/p/1", b"a=1&a=2", {"Content-Type": "application/x-www-form-urlencoded"}, False),
            ("GET", "http://shop.example/p/1?a=1", b"", {}, False),
            ("POST", "http://shop.example/p/1", b"x", {"A": "b"}, True),
            ("GET", "http://shop.example/a/1#two", b"", {}, False),
        ]  # fmt: skip


@dataclass
class Lamp:
    sku: str
    price: Decimal | None = None


class LampModel(BaseModel):
    sku: str


async def generator(page: Page) -> AsyncIterator[Output]:
    yield {"sku": "1"}
    yield page.follow("/p/2")
    yield page.follow("/p/2")
    yield None


def plain_generator(page: Page) -> Iterator[Output]:
    yield Lamp("1", Decimal(2))
    yield LampModel(sku="2")
    yield Record("list", {"a": 1})


async def returns_list(page: Page) -> list[Output]:
    return [{"sku": "1"}, page.follow("/p/2")]


async def returns_one(page: Page) -> Output:
    return {"sku": "1"}


def returns_model(page: Page) -> Output:
    return LampModel(sku="1")


class TestReader:
    @pytest.mark.parametrize(
        ("function", "records", "links"),
        [
            (generator, [{"sku": "1"}], 1),
            (plain_generator, [{"sku": "1", "price": Decimal(2)}, {"sku": "2"}, {"a": 1}], 0),
            (returns_list, [{"sku": "1"}], 1),
            (returns_one, [{"sku": "1"}], 0),
            (returns_model, [{"sku": "1"}], 0),
            (lambda page: None, [], 0),
        ],
    )
    async def test_every_kind_of_function(
        self, site: CompiledSite, function: Any, records: list[dict[str, Any]], links: int
    ) -> None:
        reading = await read(site, function, "<p>", "item")
        assert reading.verdict is PageVerdict.OK
        assert [record.fields for record in reading.records] == records
        assert len(reading.links) == links

    @pytest.mark.parametrize("output", ["text", 1, Selector("<p>"), Lamp])
    async def test_what_is_no_record_is_said(self, site: CompiledSite, output: Any) -> None:
        with pytest.raises(SiteError, match=r"The function of item yielded \w+; it may yield records"):
            await read(site, lambda page: [output], "", "item")

    async def test_a_record_of_a_layer_that_is_not_there(self, site: CompiledSite) -> None:
        with pytest.raises(SiteError, match="a record of layer other; there are list, item"):
            await read(site, lambda page: Record("other", {}), "", "item")

    @pytest.mark.parametrize(
        ("body", "more", "reason"),
        [
            ("captcha", {}, "has the text 'captcha' (valid.lacks)"),
            ("", {"status": 403}, "status 403 (valid.status: 200 to 299)"),
        ],
    )
    async def test_a_page_that_is_not_valid_never_comes_to_the_function(
        self, site: CompiledSite, body: str, more: dict[str, Any], reason: str
    ) -> None:
        reading = await read(site, pytest.fail, body, "item", **more)
        assert (reading.verdict, reading.reason) == (PageVerdict.INVALID, reason)

    @pytest.mark.parametrize(("lacking", "kept", "links"), [("fail", 0, 0), ("keep", 2, 1), ("drop", 1, 1)])
    async def test_required_fields(self, lacking: str, kept: int, links: int) -> None:
        def function(page: Page) -> Iterator[Output]:
            yield {"sku": "1"}
            yield {"sku": None}
            yield page.follow("/p/2")

        reading = await read(made(lacking), function, "", "item")
        assert (reading.verdict, reading.reason) == (PageVerdict.LACK, "1 of 2 records lack sku")
        assert (len(reading.records), len(reading.links)) == (kept, links)
