"""Requests and answers of the Scrapy engine as they go over the wire, for pages that are kept (`save: true`)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from scrapy import Request
from scrapy.http import Headers, Response

META = "gossamer_wire"
"""A list in a request's meta, to which the answer is appended as bytes: what was sent, and what came."""
_SECRET = frozenset({b"authorization", b"proxy-authorization"})


class WireMiddleware:
    """The last downloader middleware before the download itself."""

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        wire = request.meta.get(META)
        if isinstance(wire, list):
            wire[:] = [_sent(request), _came(response)]
        return response


def _sent(request: Request) -> bytes:
    """But for passwords, which have no place in an archive."""
    place = request.url.partition("//")[2].partition("#")[0]
    path = place[len(place.partition("/")[0].partition("?")[0]) :]
    target = path if path.startswith("/") else f"/{path}"
    head = f"{request.method} {target} HTTP/1.1".encode()
    return b"\r\n".join([head, *_lines(request.headers, _SECRET), b"", request.body])


def _came(response: Response) -> bytes:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    head = f"{response.protocol or 'HTTP/1.1'} {response.status} {phrase}".encode()
    return b"\r\n".join([head, *_lines(response.headers), b"", response.body])


def _lines(headers: Headers, without: frozenset[bytes] = frozenset()) -> list[bytes]:
    return [name + b": " + value for name in headers for value in headers.getlist(name) if name.lower() not in without]
