"""Pages that send the visitor on: `<meta http-equiv="refresh">` and the header of the same name, as browsers read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import Response
from gossamer.sites.url.canonical import canonical

LATEST = 5.0
"""A page that waits longer is meant to be read."""
HEAD = 65_536
"""Bytes of a page that are searched."""
# What a browser that runs scripts does not take for markup.
_HIDDEN = re.compile(
    rb"<!--.*?-->|<(noscript|script|style|template|textarea|title)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE
)
_TAG = re.compile(rb"<meta\b(?=[^<>]*refresh)[^<>]*>", re.IGNORECASE)
_CONTENT = re.compile(
    r"\s*(?P<seconds>[0-9]+|(?=\.))[0-9.]*(?:\s*[;,]|(?=\s)|\Z)\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.*)",
    re.I | re.S,
)
_PARSER = etree.HTMLParser(encoding="utf-8", recover=True)


def may_refresh(page: Response) -> bool:
    """Whether a page may send the visitor on at all: most have not even the word."""
    head = page.body[:HEAD]
    return b"efresh" in head or b"EFRESH" in head or "refresh" in page.headers


def meta_refresh_target(page: Response, absolute: Callable[[str], str]) -> str | None:
    """Where a page of HTML sends the visitor within LATEST seconds; None if it does not, or only reloads itself. `absolute` makes a
    URL of an address on the page; ValueError if there is none."""
    for content in _contents(page):
        found = _CONTENT.match(content)
        if found is None:
            continue
        address = found["url"]
        if found["quote"]:
            address = address.partition(found["quote"])[0]
        if float(found["seconds"] or 0) > LATEST or not address.strip():
            return None  # The first one that is valid counts.
        try:
            url = absolute(address).partition("#")[0]
        except ValueError:
            return None
        is_page = url.startswith(("http://", "https://"))
        return url if is_page and canonical(url) != canonical(page.url) else None
    return None


def _contents(page: Response) -> Iterator[str]:
    if "refresh" in page.headers:
        yield page.headers["refresh"]
    for tag in _TAG.findall(_HIDDEN.sub(b"", page.body[:HEAD])):
        root = etree.fromstring(tag, _PARSER)
        for element in root.iter("meta") if root is not None else ():
            if (element.get("http-equiv") or "").strip().lower() == "refresh" and (content := element.get("content")):
                yield content
