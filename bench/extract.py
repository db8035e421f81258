"""Reading pages by a site file beside a hand-written parsel callback that takes the same from them.

    python bench/extract.py [--runs 400] [--json]

Both read the saved pages of the tests: bytes and Content-Type in, fields and links out (whole URL, layer, identity). What they
give is compared first; a difference ends the run with 1. Then both are timed side by side, in turns. Figures are the first decile of
many short runs, since others on the machine only ever add, in microseconds of processor time per page. "parse" is what lxml
alone takes to make the tree, or the interpreter's decoder to read the JSON: nothing read by rules can be faster. Callbacks read
JSON with `json.loads`, as Scrapy's `response.json()` does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lxml.etree  # type: ignore[import-untyped]
import parsel
from bench.figures import decile
from lxml import etree
from parsel import Selector
from w3lib.encoding import html_to_unicode
from w3lib.html import get_base_url
from w3lib.url import safe_url_string

from gossamer.model.page import Response
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.extract.types import loads
from gossamer.sites.file.load import load_text

PAGES = Path(__file__).resolve().parents[1] / "tests" / "sites" / "extract" / "pages"
SITE = r"""
site: bench
seeds: http://bbs.example/list/python/1
layers:
  list:
    match: ^/list/(?P<forum>\w+)/(?P<page>\d+)
    records: {css: tr.thread}
    fields:
      subject: a.post
      author: td.author a
      replies: {css: td.replies, type: int}
      views: {css: td.views, type: int}
      last: {css: time, attr: datetime, type: datetime}
    follow: [{css: a.post, to: post}, {css: a.next, to: list, pages: 5}]
  post:
    match: ^/post/\d+
    fields:
      title: {css: h1, clean: squeeze}
      author: .by a.u
      posted: {css: .by time, attr: datetime, type: datetime}
      views: {css: .by, regex: 'views: (\d+)', type: int}
      tags: {css: .tags a, all: true}
      text: {css: .body, clean: squeeze}
      replies:
        each: {css: .reply}
        fields:
          author: .head .u
          at: {css: time, attr: datetime, type: datetime}
          score: {css: .score, type: int}
          text: {css: .t, clean: squeeze}
    follow: [{css: a.comments, to: api}]
  shop:
    match: ^/garden
    records: {css: li.product}
    fields:
      name: h3
      price: {css: .amount, type: decimal, decimal: ','}
      stock: .stock
      stars: {css: .stars, attr: title, regex: '^[\d.]+', type: float}
      url: {css: a, attr: href, type: url}
    follow: [{css: li.product > a, to: product}, {css: a.next, to: shop, pages: 0}]
  product: {match: ^/product}
  news:
    match: ^/2024
    fields:
      title: h1
      headline: {css: 'script[type="application/ld+json"]', jmespath: headline}
      authors: {css: 'script[type="application/ld+json"]', jmespath: 'author[].name', all: true}
      published: {css: 'meta[property="article:published_time"]', attr: content, type: datetime}
      text: {css: '.text p', all: true}
    follow: [{css: aside a, to: news}]
  feed:
    match: ^/feed
    format: xml
    records: {css: item}
    fields: {title: title, at: {css: pubDate}, by: {xpath: creator}}
    follow: [{css: item > link, to: news}]
  api:
    match: ^/post/\d+/comments|^/api
    format: json
    records: {jmespath: items}
    fields:
      id: {jmespath: id, type: int}
      body: {jmespath: body}
      author: {jmespath: author.name}
      tags: {jmespath: tags, all: true}
    follow: [{jmespath: meta.next, to: api, pages: 0}]
  typed:
    match: ^/typed
    format: json
    records: {jmespath: items}
    fields:
      id: {jmespath: id, type: int}
      at: {jmespath: created, type: datetime}
      karma: {jmespath: author.karma, type: decimal}
      edited: {jmespath: edited, type: bool}
      parent: {jmespath: parent, type: int}
      tag: {jmespath: 'tags[0]'}
      body: {jmespath: body, clean: squeeze}
    follow: [{jmespath: meta.next, to: api}]
"""
Found = tuple[list[dict[str, Any]], list[tuple[str, str, int]]]


def text_of(node: Any) -> str:
    return str(node.xpath("string()").get(default="")).strip()


def squeezed(node: Any) -> str:
    return " ".join(text_of(node).split())


class Callback:
    """What somebody would have written for these pages, with the same care."""

    def __init__(self, site: CompiledSite) -> None:
        self._site = site

    def read(self, layer: str, document: Response) -> Found:
        _, text = html_to_unicode(document.headers.get("content-type"), document.body)
        if layer in ("api", "typed"):
            data = json.loads(text)
            url = safe_url_string(urljoin(document.url, data["meta"]["next"]))
            return list(getattr(self, f"_{layer}")(data)), [(url, "api", self._site.fingerprint("api", url))]
        selector = Selector(text=text, type="xml" if layer == "feed" else "html")
        links: list[tuple[str, str, int]] = []
        known: set[tuple[str, int]] = set()
        base = document.url if layer == "feed" else get_base_url(text, document.url)
        records = list(getattr(self, f"_{layer}")(selector, base))
        for href, to in getattr(self, f"_{layer}_links")(selector):
            url = safe_url_string(urljoin(base, href)).partition("#")[0]
            number = self._site.fingerprint(to, url)
            if (to, number) not in known:
                known.add((to, number))
                links.append((url, to, number))
        return records, links

    def _list(self, page: Selector, base: str) -> Iterator[dict[str, Any]]:
        for row in page.css("tr.thread"):
            yield {
                "subject": text_of(row.css("a.post")),
                "author": text_of(row.css("td.author a")),
                "replies": int(text_of(row.css("td.replies")).replace(",", "")),
                "views": int(text_of(row.css("td.views")).replace(",", "")),
                "last": datetime.fromisoformat(row.css("time::attr(datetime)").get(default="")),
            }

    def _list_links(self, page: Selector) -> Iterator[tuple[str, str]]:
        yield from ((href, "post") for href in page.css("a.post::attr(href)").getall())
        yield from ((href, "list") for href in page.css("a.next::attr(href)").getall())

    def _post(self, page: Selector, base: str) -> Iterator[dict[str, Any]]:
        yield {
            "title": squeezed(page.css("h1")),
            "author": text_of(page.css(".by a.u")),
            "posted": datetime.fromisoformat(page.css(".by time::attr(datetime)").get(default="")),
            "views": int(page.css(".by").xpath("string()").re_first(r"views: (\d+)", default="")),
            "tags": [text_of(tag) for tag in page.css(".tags a")],
            "text": squeezed(page.css(".body")),
            "replies": [
                {
                    "author": text_of(reply.css(".head .u")),
                    "at": datetime.fromisoformat(reply.css("time::attr(datetime)").get(default="")),
                    "score": int(text_of(reply.css(".score"))),
                    "text": squeezed(reply.css(".t")),
                }
                for reply in page.css(".reply")
            ],
        }

    def _post_links(self, page: Selector) -> Iterator[tuple[str, str]]:
        yield from ((href, "api") for href in page.css("a.comments::attr(href)").getall())

    def _shop(self, page: Selector, base: str) -> Iterator[dict[str, Any]]:
        for product in page.css("li.product"):
            yield {
                "name": text_of(product.css("h3")),
                "price": Decimal(text_of(product.css(".amount")).replace(".", "").replace(",", ".")),
                "stock": text_of(product.css(".stock")),
                "stars": float(product.css(".stars::attr(title)").re_first(r"^[\d.]+", default="")),
                "url": safe_url_string(urljoin(base, product.css("a::attr(href)").get(default=""))),
            }

    def _shop_links(self, page: Selector) -> Iterator[tuple[str, str]]:
        yield from ((href, "product") for href in page.css("li.product > a::attr(href)").getall())
        yield from ((href, "shop") for href in page.css("a.next::attr(href)").getall())

    def _news(self, page: Selector, base: str) -> Iterator[dict[str, Any]]:
        data = json.loads(page.css('script[type="application/ld+json"]::text').get(default=""))
        yield {
            "title": text_of(page.css("h1")),
            "headline": data["headline"],
            "authors": [author["name"] for author in data["author"]],
            "published": datetime.fromisoformat(
                page.css('meta[property="article:published_time"]::attr(content)').get(default="")
            ),
            "text": [text_of(paragraph) for paragraph in page.css(".text p")],
        }

    def _news_links(self, page: Selector) -> Iterator[tuple[str, str]]:
        yield from ((href, "news") for href in page.css("aside a::attr(href)").getall())

    def _feed(self, page: Selector, base: str) -> Iterator[dict[str, Any]]:
        page.remove_namespaces()
        for item in page.css("item"):
            yield {
                "title": text_of(item.css("title")),
                "at": text_of(item.css("pubDate")),
                "by": text_of(item.xpath("creator")),
            }

    def _feed_links(self, page: Selector) -> Iterator[tuple[str, str]]:
        yield from ((url, "news") for url in page.css("item > link::text").getall())

    def _api(self, data: Any) -> Iterator[dict[str, Any]]:
        for item in data["items"]:
            yield {
                "id": int(item["id"]),
                "body": item["body"].strip(),
                "author": item["author"]["name"].strip(),
                "tags": [tag.strip() for tag in item["tags"]],
            }

    def _typed(self, data: Any) -> Iterator[dict[str, Any]]:
        for item in data["items"]:
            yield {
                "id": int(item["id"]),
                "at": datetime.fromtimestamp(item["created"], UTC),
                "karma": Decimal(str(item["author"]["karma"])),
                "edited": bool(item["edited"]),
                "parent": item["parent"] if item["parent"] is None else int(item["parent"]),
                "tag": item["tags"][0].strip() if item["tags"] else None,
                "body": " ".join(item["body"].split()),
            }


def parse(document: Response, layer: str) -> None:
    """What cannot be done without, as the interpreter does it."""
    if layer in ("api", "typed"):
        loads(document.body.decode())
    else:
        kind = etree.XMLParser if layer == "feed" else etree.HTMLParser
        etree.fromstring(document.body, kind(encoding="utf-8", recover=True, huge_tree=True))


CASES = {
    "list": ("forum-list.html", "http://bbs.example/list/python/3"),
    "post": ("post.html", "http://bbs.example/post/48217"),
    "shop": ("shop.html", "http://bbs.example/garden/"),
    "news": ("news.html", "http://bbs.example/2024/05/17/valley-bridge"),
    "feed": ("feed.xml", "http://bbs.example/feed"),
    "api": ("api.json", "http://bbs.example/api/comments?page=2"),
    "typed": ("api.json", "http://bbs.example/typed/comments?page=2"),
}


def documents() -> dict[str, Response]:
    return {
        layer: Response(url, 200, {"content-type": "text/html; charset=utf-8"}, (PAGES / name).read_bytes())
        for layer, (name, url) in CASES.items()
    }


def by_rules(site: CompiledSite, layer: str, document: Response) -> Found:
    reading = site.read(layer, document)
    if reading.verdict.value != "ok" or reading.notes:
        raise AssertionError(f"{layer}: {reading.verdict} {reading.reason} {reading.notes}")
    return [record.fields for record in reading.records], [
        (link.url, link.layer, link.fingerprint) for link in reading.links
    ]


def differences(site: CompiledSite, callback: Callback) -> Iterator[str]:
    for layer, document in documents().items():
        ours, theirs = by_rules(site, layer, document), callback.read(layer, document)
        pairs: list[tuple[str, list[Any], list[Any]]] = [("records", ours[0], theirs[0]), ("links", ours[1], theirs[1])]
        for what, one, other in pairs:
            if one != other:
                first = next(
                    (pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), (len(one), len(other))
                )
                yield f"{layer}: {what} differ: {first[0]!r} by rules, {first[1]!r} by hand"


def timed(call: Callable[[], Any]) -> float:
    # Of the processor, so that others on the machine do not count.
    begin = time.process_time()
    call()
    return time.process_time() - begin


def speed(site: CompiledSite, callback: Callback, runs: int) -> list[dict[str, Any]]:
    rows = []
    for layer, document in documents().items():
        contenders: dict[str, Callable[[], Any]] = {
            "parse": lambda document=document, layer=layer: parse(document, layer),  # type: ignore[misc]
            "by hand": lambda document=document, layer=layer: callback.read(layer, document),  # type: ignore[misc]
            "by rules": lambda document=document, layer=layer: site.read(layer, document),  # type: ignore[misc]
        }
        costs: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(runs):
            for name, call in contenders.items():
                costs[name].append(timed(call) * 1e6)
        records, links = by_rules(site, layer, document)
        row: dict[str, Any] = {"page": layer, "bytes": len(document.body), "records": len(records), "links": len(links)}
        rows.append(row | {name: round(decile(values), 1) for name, values in costs.items()})
    total: dict[str, Any] = {
        "page": "all",
        **{key: round(sum(row[key] for row in rows), 1) for key in rows[0] if key != "page"},
    }
    rows.append(total)
    for row in rows:
        row["rules over hand"] = f"{(row['by rules'] / row['by hand'] - 1) * 100:+.0f} %"
        row["pages/s by rules"] = round(1e6 * (len(CASES) if row is total else 1) / row["by rules"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Reading pages by a site file beside a hand-written parsel callback.")
    parser.add_argument("--runs", type=int, default=400, help="how often each page is read by each")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    site = compile_site(load_text(SITE)[0])
    callback = Callback(site)
    found = list(differences(site, callback))
    if found:
        print("\n".join(found))
        return 1
    rows = speed(site, callback, options.runs)
    if options.json:
        versions = {"python": sys.version.split()[0], "parsel": parsel.__version__, "lxml": lxml.etree.__version__}
        print(json.dumps({**versions, "rows": rows}, indent=2))
        return 0
    print("| " + " | ".join(rows[0]) + " |\n|" + " --- |" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
