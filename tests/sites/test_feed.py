"""Sitemaps and feeds as servers send them, well-formed or not."""

from __future__ import annotations

import pytest

from gossamer.sites.feed import FeedUrls, read_feed, read_sitemap
from gossamer.sites.xml import parsed

BASE = "http://shop.example/"
URLS = ["http://shop.example/1", "http://shop.example/2?a=1&b=2", "http://shop.example/3"]
SITEMAP = "<urlset>" + "".join(f"<url><loc>{url.replace('&', '&amp;')}</loc></url>" for url in URLS) + "</urlset>"


def urls(found: FeedUrls | None) -> list[str]:
    assert found is not None
    return [entry.url for entry in found.pages]


@pytest.mark.parametrize(
    "body",
    [
        SITEMAP.encode(),
        SITEMAP.replace("&amp;", "&").encode(),
        SITEMAP.replace("<loc>", "<loc><![CDATA[").replace("</loc>", "]]></loc>").replace("&amp;", "&").encode(),
        SITEMAP.replace("/3", "/<!-- moved -->3").encode(),
        SITEMAP.replace("<url>", "<url>\x0b").encode(),
        SITEMAP.replace("</url>", "<x:link href='/de'/></url>").encode(),
        b"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?>" + SITEMAP.encode(),
        ("<?xml version='1.0' encoding='utf-16'?>" + SITEMAP).encode("utf-16"),
    ],
    ids=["plain", "bare &", "sections", "comment", "control sign", "no prefix", "mark", "utf-16"],
)
def test_a_sitemap_is_read_whole(body: bytes) -> None:
    found = read_sitemap(body, BASE)
    assert urls(found) == URLS
    assert found is not None
    assert found.fault == ""


@pytest.mark.parametrize("cut", [len("</urlset>"), len("</loc></url></urlset>"), len("3</loc></url></urlset>")])
def test_a_sitemap_that_is_cut_short_says_so(cut: int) -> None:
    found = read_sitemap(SITEMAP[:-cut].encode(), BASE)
    assert urls(found)[:2] == URLS[:2]
    assert found is not None
    assert "line 1" in found.fault


def test_characters_after_a_fault_are_kept() -> None:
    """The parser itself drops those that are written by name as soon as it has met a fault."""
    found = read_sitemap(SITEMAP.replace("<url>", "<url><b></c>", 1).encode(), BASE)
    assert URLS[1] in urls(found)
    assert found is not None
    assert found.fault


def test_a_feed_is_read_whole() -> None:
    items = "<item><title>Caf&eacute; & more</title><link>http://shop.example/2?a=1&b=2&copy=3</link></item>"
    found = read_feed(f"<rss><channel>{items}</channel></rss>".encode(), BASE)
    assert urls(found) == ["http://shop.example/2?a=1&b=2&copy=3"]
    assert found is not None
    assert (found.fault, found.pages[0].title) == ("", "Café & more")


def test_what_is_no_xml() -> None:
    assert parsed(b"no") == (None, "")
    assert read_sitemap(b"<html><p>Not found</html>", BASE) is None


def test_addresses_in_a_feed_are_relative_to_its_base() -> None:
    feed = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/">'
        '<entry><link href="1"/></entry><entry xml:base="2026/"><link href="2"/></entry>'
        '<entry><link xml:base="http://other.example/x/" href="3"/></entry><entry><link href="http://shop.example/4"/></entry></feed>'
    )
    assert urls(read_feed(feed.encode(), BASE)) == [
        "http://shop.example/blog/1",
        "http://shop.example/blog/2026/2",
        "http://other.example/x/3",
        "http://shop.example/4",
    ]
    rss = "<rss xml:base='http://shop.example/b/'><channel><item><link>5</link></item><item><guid>6</guid></item></channel></rss>"
    assert urls(read_feed(rss.encode(), BASE)) == ["http://shop.example/b/5", "http://shop.example/b/6"]
