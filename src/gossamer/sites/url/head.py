"""What the head of a page says about its URL, in a tag or in the HTTP header of the same name: where it sends the visitor
(`<meta http-equiv="refresh">`, as browsers read it), and under which URL it wants to be known (`<link rel="canonical">`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import Response
from gossamer.sites.url.canonical import canonical
from gossamer.sites.url.match import own_host

LATEST = 5.0
"""Seconds. A page that waits longer before it sends the visitor on is meant to be read."""
REFRESH_BYTES, CANONICAL_BYTES = 65_536, 512_000
"""How much of a page is searched."""
# What a browser that runs scripts does not take for markup. What has no end goes on to the end of the page, as there.
_HIDDEN = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))|<(noscript|script|style|template|textarea|title)\b.*?(?:</\1\s*>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_META = re.compile(rb"<meta\b(?=[^<>]*refresh)[^<>]*>", re.IGNORECASE)
_CONTENT = re.compile(
    r"\s*+(?P<seconds>[0-9]++|(?=\.))[0-9.]*+(?:\s*+[;,]|(?=\s)|\Z)\s*+(?:url\s*+=\s*+)?(?P<quote>[\"']?)(?P<url>.*)",
    re.I | re.S,
)
_COMMENT = re.compile(rb"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)
_LINK = re.compile(rb"<link\b(?=[^<>]*canonical)[^<>]*>", re.IGNORECASE)
_BODY = re.compile(rb"<body\b", re.IGNORECASE)
_HEADER = re.compile(r"<([^<>]*)>((?:\s*+;\s*+[\w-]++\s*+=\s*+(?:\"[^\"]*\"|[^\s;,\"]++))*+)")
_PARAMETER = re.compile(r";\s*+([\w-]++)\s*+=\s*+(?:\"([^\"]*)\"|([^\s;,\"]++))")
_PARSER = etree.HTMLParser(encoding="utf-8", recover=True)


def may_refresh(page: Response) -> bool:
    """Whether a page may send the visitor on at all: most have not even the word."""
    head = page.body[:REFRESH_BYTES]
    return b"efresh" in head or b"EFRESH" in head or "refresh" in page.headers


def meta_refresh_target(page: Response, absolute: Callable[[str], str]) -> str | None:
    """Where a page of HTML sends the visitor within LATEST seconds; None if it does not, or only reloads itself. `absolute` makes a
    URL of an address on the page; ValueError if there is none."""
    for content in _refreshes(page):
        found = _CONTENT.match(content)
        if found is None:
            continue
        address = found["url"]
        if found["quote"]:
            address = address.partition(found["quote"])[0]
        if float(found["seconds"][:20] or 0) > LATEST or not address.strip():
            return None  # The first one that is valid counts.
        try:
            url = absolute(address).partition("#")[0]
        except ValueError:
            return None
        is_page = url.startswith(("http://", "https://"))
        return url if is_page and canonical(url) != canonical(page.url) else None
    return None


def _refreshes(page: Response) -> Iterator[str]:
    if "refresh" in page.headers:
        yield page.headers["refresh"]
    for element in _elements(_META.findall(_HIDDEN.sub(b"", page.body[:REFRESH_BYTES])), "meta"):
        if (element.get("http-equiv") or "").strip().lower() == "refresh" and (content := element.get("content")):
            yield content


def own_url(page: Response, absolute: Callable[[str], str]) -> str:
    """The URL by which a page wants to be known, if it is on the same host (with or without www.); otherwise the one it was fetched
    from. `absolute` makes a URL of an address on the page; ValueError if there is none."""
    for address in _canonicals(page):
        try:
            url = absolute(address).partition("#")[0]
            if url.startswith(("http://", "https://")) and _host(url) == _host(page.url):
                return url
        except ValueError:
            continue
    return page.url


def _host(url: str) -> str:
    return own_host(urlsplit(url).netloc.lower())


def _canonicals(page: Response) -> Iterator[str]:
    if "canonical" in (link := page.headers.get("link", "")).lower():
        for address, more in _HEADER.findall(link):
            if any(
                name.lower() == "rel" and "canonical" in (quoted or plain).lower().split()
                for name, quoted, plain in _PARAMETER.findall(more)
            ):
                yield address.strip()
    head = page.body[:CANONICAL_BYTES]
    if b"canonical" not in head.lower():
        return
    end = _BODY.search(head)
    for element in _elements(_LINK.findall(_COMMENT.sub(b"", head[: end.start()] if end else head)), "link"):
        named = "canonical" in (element.get("rel") or "").lower().split()
        if named and (href := (element.get("href") or "").strip()):
            yield href


def _elements(tags: list[bytes], name: str) -> Iterator[Any]:
    """The elements that tags stand for, each read by itself."""
    for tag in tags:
        root = etree.fromstring(tag, _PARSER)
        if root is not None:
            yield from root.iter(name)
