"""What reads strangers' texts takes time that grows with their length, not with its square: judged by the ratio of two lengths."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gossamer.model.page import Response
from gossamer.sites.extract.urls import PageUrls
from gossamer.sites.url import head
from gossamer.sites.xml import parsed

SMALL, FACTOR = 4_000, 8
QUICK = 0.02
"""Seconds of CPU time in which no text of SMALL * FACTOR bytes is read in quadratic time."""


def seconds(read: Callable[[bytes], object], body: bytes) -> float:
    """The CPU time of this thread, at best."""
    times = []
    for _ in range(3):
        begun = time.thread_time()
        read(body)
        times.append(time.thread_time() - begun)
    return min(times)


def is_linear(read: Callable[[bytes], object], piece: bytes, before: bytes = b"", after: bytes = b"") -> bool:
    """Whether FACTOR times the text takes about FACTOR times as long."""

    def body(size: int) -> bytes:
        return before + piece * (size // len(piece)) + after

    size = SMALL
    while (longer := seconds(read, body(size * FACTOR))) < QUICK and size < 16 * SMALL:
        size *= 2
    return longer < QUICK or longer < seconds(read, body(size)) * FACTOR * FACTOR / 3


def page(body: bytes, **headers: str) -> Response:
    return Response("http://site.example/", 200, headers, body)


absolute = PageUrls("http://site.example/", lambda: "utf-8").absolute


READERS: dict[str, Callable[[bytes], object]] = {
    "meta refresh": lambda body: head.meta_refresh_target(page(b"<meta http-equiv=refresh>" + body), absolute),
    "content of a meta refresh": lambda body: head.meta_refresh_target(
        page(b'<meta http-equiv="refresh" content="%s">' % body), absolute
    ),
    "the header Refresh": lambda body: head.meta_refresh_target(page(b"", refresh=body.decode("latin-1")), absolute),
    "canonical": lambda body: head.own_url(page(body + b"<link rel=canonical href=/a>"), absolute),
    "the header Link": lambda body: head.own_url(
        page(b"", link="<http://site.example/a>; rel=canonical" + body.decode("latin-1")), absolute
    ),
    "XML": lambda body: parsed(b"<a>" + body, huge=True),
}
PIECES = (
    b"<!--", b"<![CDATA[", b"<script", b"<script>", b"</title", b"<title>", b"<meta", b"<meta refresh", b"<link", b"<link canonical",
    b"<body", b"1", b"1.", b" ", b"\t;", b";", b"url=", b"&", b"&#", b"&a", b"<", b">", b"<a>", b";rel=", b"; rel= ", b';rel="', b"a=b;",
    b"canonical ", b'"', b"'", b"\x00", b"]]>", b"<?",
)  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_texts_of_strangers_are_read_in_linear_time(name: str) -> None:
    slow = [
        (piece, after)
        for piece in PIECES
        for after in (b"", b"x")
        if not is_linear(READERS[name], piece, b"0" if "refresh" in name.lower() else b"", after)
    ]
    assert slow == []


def test_quadratic_time_is_noticed() -> None:
    def read(body: bytes) -> int:
        return sum(body[place:].count(b"!") for place in range(len(body)))

    assert not is_linear(read, b"a")
