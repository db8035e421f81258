"""The URL that a page says is its own: `<link rel="canonical">`, or the header of the same name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import Response
from gossamer.sites.url.match import own_host

HEAD = 512_000
"""Bytes of a page that are searched."""
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_TAG = re.compile(rb"<link\b(?=[^<>]*canonical)[^<>]*>", re.IGNORECASE)
_BODY = re.compile(rb"<body\b", re.IGNORECASE)
_HEADER = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w-]+\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]+))*)")
_PARSER = etree.HTMLParser(encoding="utf-8", recover=True)


def own_url(page: Response, absolute: Callable[[str], str]) -> str:
    """The URL by which a page wants to be known, if it is on the same host (with or without www.); otherwise the one it was fetched
    from. `absolute` makes a URL of an address on the page; ValueError if there is none."""
    for address in _addresses(page):
        try:
            url = absolute(address).partition("#")[0]
            if url.startswith(("http://", "https://")) and _host(url) == _host(page.url):
                return url
        except ValueError:
            continue
    return page.url


def _host(url: str) -> str:
    return own_host(urlsplit(url).netloc.lower())


def _addresses(page: Response) -> Iterator[str]:
    if "canonical" in (link := page.headers.get("link", "")).lower():
        for address, more in _HEADER.findall(link):
            if re.search(r";\s*rel\s*=\s*\"?(?:[^\";]*\s)?canonical(?:\s[^\";]*)?\"?\s*(?:;|$)", more, re.IGNORECASE):
                yield address.strip()
    head = page.body[:HEAD]
    if b"canonical" not in head.lower():
        return
    end = _BODY.search(head)
    for tag in _TAG.findall(_COMMENT.sub(b"", head[: end.start()] if end else head)):
        root = etree.fromstring(tag, _PARSER)
        for element in root.iter("link") if root is not None else ():
            if "canonical" in (element.get("rel") or "").lower().split() and (
                href := (element.get("href") or "").strip()
            ):
                yield href
