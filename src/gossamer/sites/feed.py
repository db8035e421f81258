"""Sitemaps and feeds: pages that only name other pages.

Not Scrapy's Sitemap: the native engine runs without Scrapy. Not feedparser: it reads no sitemaps, and feeds take thirty lines.
"""

from __future__ import annotations

import codecs
import html
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

from gossamer.sites.page import LINKS, LimitExceeded
from gossamer.sites.rows import archive
from gossamer.sites.xml import WIDE, parsed

LONGEST_TITLE = 1_000
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")


TITLE, DATE = "title", "date"
"""What a page inherits from its entry in a feed."""


class FeedEntry(NamedTuple):
    """A URL, and when its page changed last, if known; in a feed, also the `title` of the entry and its `date`, when it was published."""

    url: str
    changed: datetime | None
    title: str = ""
    date: datetime | None = None


class FeedUrls(NamedTuple):
    """The `pages` it lists, and the `further` sitemaps if it is an index. `fault`: why it is not well-formed; entries may be missing then.
    `nowhere` counts the entries without an address."""

    pages: list[FeedEntry]
    further: list[FeedEntry]
    fault: str = ""
    nowhere: int = 0


def read_sitemap(body: bytes, base: str) -> FeedUrls | None:
    """What a sitemap names, in XML (also an index of others) or as plain text, compressed or not; None for anything else. Raises
    LimitExceeded for one that is too large."""
    body = _unpacked(body)
    root, fault = _tree(body)
    if root is None:
        lines = [line.strip() for line in body.decode("utf-8-sig", "replace").splitlines()]
        pages = [FeedEntry(line, None) for line in lines if line.startswith(("http://", "https://"))]
        return _bounded(FeedUrls(pages, [])) if pages else None
    kind = _name(root)
    if kind not in ("urlset", "sitemapindex"):
        return None
    entries = [entry for entry in root if _name(entry) in ("url", "sitemap")]
    found = [
        FeedEntry(urljoin(base, loc), _time(_text(entry, "lastmod")))
        for entry in entries
        if (loc := _text(entry, "loc"))
    ]
    pages, further = ([], found) if kind == "sitemapindex" else (found, [])
    return _bounded(FeedUrls(pages, further, fault, len(entries) - len(found)))


def read_feed(body: bytes, base: str) -> FeedUrls | None:
    """The entries of an RSS (also 1.0) or Atom feed; None for anything else."""
    root, fault = _tree(_unpacked(body))
    if root is None or _name(root) not in ("rss", "rdf", "feed"):
        return None
    found, nowhere = [], 0
    for entry in root.iter():
        if _name(entry) in ("item", "entry"):
            if not (link := _link(entry, base)):
                nowhere += 1
                continue
            updated = _text(entry, "updated")
            published = _text(entry, "published") or _text(entry, "pubdate") or _text(entry, "date") or updated
            found.append(FeedEntry(link, _time(updated or published), _title(entry), _time(published)))
    return _bounded(FeedUrls(found, [], fault, nowhere))


def _bounded(urls: FeedUrls) -> FeedUrls:
    number = len(urls.pages) + len(urls.further)
    if number > LINKS:
        raise LimitExceeded(f"it names {number:,} URLs; at most {LINKS:,} are read of one (a sitemap may have 50,000)")
    return urls


def _link(entry: Any, base: str) -> str:
    """The address of an entry. It may be relative to the xml:base around it."""
    best = ""
    for child in entry:
        if _name(child) != "link":
            continue
        href = (child.get("href") or child.text or "").strip()
        relation = child.get("rel", "alternate")
        if href and (relation == "alternate" or not best):
            best = _joined(base, child, href)
            if relation == "alternate":
                break
    if not best:
        # An RSS entry's guid is its address unless it says otherwise.
        for child in entry:
            if _name(child) == "guid" and child.get("isPermaLink", "true") == "true":
                text = (child.text or "").strip()
                best = _joined(base, child, text) if text else ""
    return best


def _joined(base: str, element: Any, address: str) -> str:
    around: str = element.base or ""
    return urljoin(urljoin(base, around), address)


def _tree(body: bytes) -> tuple[Any, str]:
    """The root, and why the text is not well-formed; None for what is no XML."""
    body = body.removeprefix(codecs.BOM_UTF8).strip()
    return parsed(body) if body.startswith((b"<", *WIDE)) else (None, "")


def _unpacked(body: bytes) -> bytes:
    try:
        return archive.gunzipped(body) if body.startswith(archive.GZIP) else archive.bounded(body)
    except archive.BadArchive:
        return b""


def _name(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _text(entry: Any, name: str) -> str:
    for child in entry:
        if _name(child) == name:
            return "".join(child.itertext() if len(child) else (child.text or "",)).strip()
    return ""


def _title(entry: Any) -> str:
    """As text: Atom may have markup in it, or escaped in its text."""
    for child in entry:
        if _name(child) == "title":
            text = " ".join("".join(child.itertext()).split())
            if child.get("type") == "html" or ("<" in text and ">" in text):
                text = " ".join(html.unescape(_MARKUP.sub("", text)).split())
            return text[:LONGEST_TITLE]
    return ""


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
