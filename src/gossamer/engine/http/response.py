"""The parts of a response: its headers, its body decoded and no larger than allowed, and both directions as bytes."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from multidict import CIMultiDictProxy

from gossamer.engine.http import encoding
from gossamer.engine.http.connection.connector import ConnectorResponse
from gossamer.model.fetch import TOO_LARGE, FetchError, FetchOptions

_SECRET = frozenset({"authorization", "proxy-authorization"})


async def read(
    response: aiohttp.ClientResponse | ConnectorResponse, headers: Mapping[str, str], options: FetchOptions
) -> tuple[bytes, bytes]:
    """The body decoded, and as received if that is wanted. Neither grows beyond the limit, nor does anything in between."""
    most, content = options.max_size, response.content
    announced = headers.get("content-length", "")
    if announced.isdigit() and int(announced[:18]) > most and not options.cut and response.method != "HEAD":
        raise FetchError(TOO_LARGE, f"the body has {announced} bytes, more than {most} (`request.max_size`)", False)
    undo = encoding.decoder(headers["content-encoding"]) if "content-encoding" in headers else None
    parts, wire = list[bytes](), list[bytes]()
    size = came = 0
    while True:
        data = content.read_nowait(-1) if content.is_eof() else await content.readany()
        if not data:
            break
        came += len(data)
        if options.raw:
            wire.append(data)
        if undo is not None:
            data = undo.feed(data, most - size)
        size += len(data)
        parts.append(data)
        if size > most or came > most:
            body = cut(b"".join(parts), options)
            response.close()
            return body, b"".join(wire)
    if undo is not None:
        undo.end()
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    return body, (b"".join(wire) if options.raw else b"")


def cut(body: bytes, options: FetchOptions) -> bytes:
    if not options.cut:
        raise FetchError(TOO_LARGE, f"the body has more than {options.max_size} bytes (`request.max_size`)", False)
    return body[: options.max_size]


def lowered(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    if len(lowered) != len(headers):
        for name in lowered:
            lowered[name] = ", ".join(headers.getall(name))
    if not "".join(lowered.values()).isascii():
        # aiohttp turns bytes that are not UTF-8 into lone surrogates, which cannot be stored.
        for name, value in lowered.items():
            lowered[name] = _whole(value)
    return lowered


def cookie_lines(headers: CIMultiDictProxy[str]) -> tuple[str, ...]:
    return tuple(_whole(line) for line in headers.getall("set-cookie"))


def _whole(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def received(response: aiohttp.ClientResponse, body: bytes) -> bytes:
    version = response.version or aiohttp.HttpVersion11
    first = f"HTTP/{version.major}.{version.minor} {response.status} {response.reason or ''}"
    # As received: aiohttp turns bytes that are not UTF-8 into lone surrogates.
    lines = [first.encode("utf-8", "surrogateescape")]
    for name, value in response.raw_headers:
        # The chunks have been joined: readers must not look for them.
        kept = b"X-Archive-Orig-" + name if name.lower() == b"transfer-encoding" else name
        lines.append(kept + b": " + value)
    return b"\r\n".join([*lines, b"", body])


def sent(response: aiohttp.ClientResponse, body: bytes) -> bytes:
    """The request as sent, without passwords."""
    info = response.request_info
    lines = [f"{info.method} {info.url.raw_path_qs} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in info.headers.items() if name.lower() not in _SECRET]
    return "\r\n".join([*lines, "", ""]).encode() + body
