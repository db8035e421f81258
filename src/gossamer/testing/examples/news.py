"""The fifty papers of examples/sites/news.yaml: each a host of its own, with a feed, a sitemap or a page of links, in its own
character set and with its own way to write a date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from gossamer.testing.examples.server import NOT_FOUND, Example, ExampleRequest, ExampleResponse, html

ARTICLES = 3
"""Of each paper."""
BEGIN = datetime(2026, 3, 1, 6, 0)
WORDS = {
    "utf-8": "Überraschung im Hafen",
    "windows-1251": "Новости порта",
    "iso-8859-2": "Zpráva z přístavu žluťoučký",
    "windows-1252": "L’été à la fête: 10 €",
    "gb18030": "港口新闻",
    "shift_jis": "港のニュース",
    "euc-kr": "항구 소식",
    "iso-8859-7": "Νέα του λιμανιού",
}
SAID = ("header", "meta", "both")
"""Where a page says its character set."""
STARTS = ("url", "feed", "sitemap")
DATES = ("%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%B %d, %Y %H:%M")
ZONES = ("Europe/Berlin", "Asia/Tokyo", "America/New_York", "UTC")


class Paper(NamedTuple):
    """One source: where it begins and how it is written."""

    name: str
    title: str
    kind: str
    start: str
    headline: str
    date: str
    tz: str
    encoding: str
    said: str

    @classmethod
    def of(cls, place: int) -> Paper:
        kind, charsets = STARTS[place % 3], list(WORDS)
        return cls(
            name=f"paper-{place + 1:02d}",
            title=f"The Harbour Post {place + 1}",
            kind=kind,
            start={"url": "/", "feed": "/feed.xml", "sitemap": "/sitemap.xml"}[kind],
            headline="h1.headline" if place % 2 else "article > h2",
            date=DATES[place % len(DATES)],
            tz=ZONES[place % len(ZONES)],
            encoding=charsets[place % len(charsets)],
            said=SAID[place // 8 % len(SAID)],
        )

    def articles(self) -> list[dict[str, Any]]:
        """As a crawl should find them, but for the time zone."""
        return [
            {
                "path": f"/2026/{number}.html",
                "title": f"{WORDS[self.encoding]} {number} ({self.name})",
                "published": BEGIN + timedelta(hours=5 * number),
            }
            for number in range(1, ARTICLES + 1)
        ]


class NewsExample(Example):
    name = "news"
    port = 8110
    hosts = 50

    def papers(self) -> list[Paper]:
        return [Paper.of(place) for place in range(self.hosts)]

    def answer(self, asked: ExampleRequest) -> ExampleResponse:
        paper, home = Paper.of(asked.place), self.urls[asked.place]
        if asked.path == paper.start:
            return _start(paper, home)
        for article in paper.articles():
            if asked.path == article["path"]:
                return _article(paper, article)
        return NOT_FOUND


def _start(paper: Paper, home: str) -> ExampleResponse:
    articles = paper.articles()
    now = datetime.now(UTC)
    if paper.kind == "url":
        links = "".join(f'<a class="story" href="{x["path"]}">{x["title"]}</a>' for x in articles)
        return _page(paper, paper.title, links + '<a href="/about.html">About us</a>')
    if paper.kind == "feed":
        entries = "".join(f"<item><title>{x['title']}</title><link>{home}{x['path']}</link></item>" for x in articles)
        text = f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel>{entries}</channel></rss>'
    else:
        urls = "".join(f"<url><loc>{home}{x['path']}</loc><lastmod>{now:%Y-%m-%d}</lastmod></url>" for x in articles)
        about = f"<url><loc>{home}/about.html</loc></url>"
        text = (
            f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}{about}</urlset>'
        )
    return ExampleResponse(text.encode(), "application/xml")


def _article(paper: Paper, article: dict[str, Any]) -> ExampleResponse:
    tag = "h1" if paper.headline.startswith("h1") else "h2"
    when = article["published"].strftime(paper.date)
    body = (
        f'<article><{tag} class="headline">{article["title"]}</{tag}><span class="when"> {when}\n</span>'
        f"<p>{WORDS[paper.encoding]}.</p><p>More on page two.</p></article>"
    )
    return _page(paper, article["title"], body)


def _page(paper: Paper, title: str, body: str) -> ExampleResponse:
    head = f'<meta charset="{paper.encoding}">' if paper.said != "header" else ""
    kind = f"text/html; charset={paper.encoding}" if paper.said != "meta" else "text/html"
    return ExampleResponse(html(title, body, paper.encoding, head), kind)
