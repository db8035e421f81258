"""Pages that misbehave on purpose, written byte by byte. Each has a path and a stated outcome: a status, or the reason word of
the failure that a careful client reports."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from urllib.parse import parse_qs, unquote

from tests.support.hard_server.wire import (
    BLOCK,
    CASES,
    PAGE,
    PAUSE,
    Case,
    Hit,
    Writer,
    answer,
    bombs,
    chunk,
    encoded,
    fixed,
    page,
    reset,
)


def _raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    return made.compress(data) + made.flush()


CHUNKED = "Transfer-Encoding: chunked"
ZIPPED = gzip.compress(PAGE, mtime=0)
GZIP = "Content-Encoding: gzip"
fixed("/ok", answer(200), 200)
fixed("/empty", answer(200, b""), 200)
fixed("/http10", answer(200, length=-1, version="1.0"), 200, keep=False)
fixed("/http10-kept", answer(200, PAGE, "Connection: keep-alive", version="1.0"), 200)
fixed("/closed", answer(200, PAGE, "Connection: close", length=-1), 200, keep=False)
fixed("/chunked", answer(200, chunk(PAGE[:9]) + chunk(PAGE[9:]) + b"0\r\n\r\n", CHUNKED, length=-1), 200)
fixed(
    "/trailers",
    answer(200, chunk(PAGE) + b"0\r\nX-Sum: 1\r\nX-End: yes\r\n\r\n", CHUNKED, "Trailer: X-Sum", length=-1),
    200,
)
fixed("/short", answer(200, PAGE, length=len(PAGE) + 1000), "bad_length", keep=False)
fixed("/short-chunks", answer(200, chunk(PAGE) + b"ffff\r\nabc", CHUNKED, length=-1), "bad_length", keep=False)
fixed("/long", answer(200, PAGE + b"and more", length=len(PAGE)), "protocol", keep=False)
fixed("/bad-chunk", answer(200, b"zz\r\nabc\r\n0\r\n\r\n", CHUNKED, length=-1), "protocol", keep=False)
fixed("/two-lengths", answer(200, PAGE, "Content-Length: 3"), "protocol", keep=False)
fixed("/bad-status", b"HTP/1.1 OK\r\nContent-Length: 0\r\n\r\n", "protocol", keep=False)
fixed("/no-http", b"\x00\x01\x02\xff\xfe garbage \r\n\r\n" * 20, "protocol", keep=False)
fixed("/silent-close", b"", "reset", keep=False)
fixed("/half-head", b"HTTP/1.1 200 OK\r\nContent-Ty", "reset", keep=False)
fixed("/continue", b"HTTP/1.1 100 Continue\r\n\r\n" + answer(200), 200)
fixed("/early", b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 3 + answer(200), 200)
fixed("/switch", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "protocol", keep=False)
fixed("/gzip", answer(200, ZIPPED, GZIP), 200)
fixed("/gzip-members", answer(200, gzip.compress(PAGE[:50]) + gzip.compress(PAGE[50:]), GZIP), 200)
fixed("/gzip-tail", answer(200, ZIPPED + b"\0\0\0garbage", GZIP), 200)
fixed("/gzip-twice", answer(200, gzip.compress(ZIPPED), "Content-Encoding: gzip, gzip"), 200)
fixed("/deflate", answer(200, zlib.compress(PAGE), "Content-Encoding: deflate"), 200)
fixed("/deflate-raw", answer(200, _raw_deflate(PAGE), "Content-Encoding: deflate"), 200)
fixed("/odd-encoding", answer(200, PAGE, "Content-Encoding: utf-8"), 200)
fixed("/bad-gzip", answer(200, ZIPPED[:20] + b"\xff" * 40 + ZIPPED[60:], GZIP), "bad_encoding")
fixed("/cut-gzip", answer(200, ZIPPED[:-30], GZIP), "bad_encoding")
fixed("/not-gzip", answer(200, PAGE, GZIP), "bad_encoding")
fixed("/bad-br", answer(200, PAGE, "Content-Encoding: br"), "bad_encoding")
fixed("/bad-zstd", answer(200, PAGE, "Content-Encoding: zstd"), "bad_encoding")
fixed("/compress", answer(200, PAGE, "Content-Encoding: compress"), "bad_encoding")
fixed("/odd-header", answer(200, PAGE, "X-Odd: caf\xe9", "X-Two: a", "x-two: b"), 200)
fixed("/nothing", b"HTTP/1.1 204 No Content\r\n\r\n", 204)
fixed("/loop", answer(302, b"", "Location: /loop"), 302)
fixed("/nowhere", answer(302, b"", "Location: mailto:a@b.example"), 302)


@page("/echo", Case("/echo", 200))
async def echo(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, hit.head + b"\r\n\r\n" + hit.body))
    return True


@page("/size/", Case("/size/300000", 200))
async def size(hit: Hit, writer: Writer) -> bool:
    left = int(hit.last)
    writer.write(answer(200, b"", length=left))
    while left and hit.method != "HEAD":
        writer.write(BLOCK[: min(left, len(BLOCK))])
        await writer.drain()
        left -= min(left, len(BLOCK))
    return True


@page("/status/", Case("/status/404", 404), Case("/status/500", 500), Case("/status/429", 429))
async def status(hit: Hit, writer: Writer) -> bool:
    more = [f"Retry-After: {hit.query('after')}"] if hit.query("after") else []
    writer.write(answer(int(hit.last), PAGE, *more))
    return True


@page("/hops/", Case("/hops/3", 302))
async def hops(hit: Hit, writer: Writer) -> bool:
    left = int(hit.last)
    writer.write(answer(302, b"", f"Location: ../hops/{left - 1}#there") if left else answer(200))
    return True


@page("/to/", Case("/to/303?to=/ok", 303))
async def to(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(int(hit.last), b"", f"Location: {unquote(hit.query('to'))}"))
    return True


@page("/set", Case("/set?c=a%3D1", 200))
async def set_cookies(hit: Hit, writer: Writer) -> bool:
    lines = parse_qs(hit.target.partition("?")[2], encoding="latin-1").get("c", [])
    writer.write(answer(200, PAGE, *(f"Set-Cookie: {line}" for line in lines)))
    return True


@page("/version", Case("/version", 200))
async def version(hit: Hit, writer: Writer) -> bool:
    """A page with validators."""
    tags = ('ETag: "v1"', "Last-Modified: Mon, 02 Jan 2023 00:00:00 GMT")
    if hit.headers.get("if-none-match") == '"v1"':
        writer.write("\r\n".join(["HTTP/1.1 304 Not Modified", *tags, "Content-Length: 5000", "", ""]).encode())
    else:
        writer.write(answer(200, PAGE, *tags))
    return True


@page("/once", Case("/once", 200))
async def once(hit: Hit, writer: Writer) -> bool:
    """Promises to keep the connection, and closes it as soon as somebody relies on that."""
    if hit.number > 1:
        return False
    writer.write(answer(200, b"" if hit.method == "HEAD" else PAGE, "Connection: keep-alive"))
    return True


@page("/reset", Case("/reset", "reset"))
async def reset_at_once(hit: Hit, writer: Writer) -> bool:
    return reset(writer)


@page("/reset-body", Case("/reset-body", "reset"))
async def reset_body(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, PAGE, length=10 * len(PAGE)))
    await writer.drain()
    # Without a moment in between the RST would overtake what was sent.
    await asyncio.sleep(PAUSE)
    return reset(writer)


@page("/late-bad-chunk", Case("/late-bad-chunk", "protocol"))
async def late_bad_chunk(hit: Hit, writer: Writer) -> bool:
    """The head and a good chunk are read before the bad one comes; the connection stays open."""
    writer.write(answer(200, chunk(PAGE), CHUNKED, length=-1))
    await writer.drain()
    await asyncio.sleep(PAUSE)
    writer.write(b"zz\r\nabc\r\n0\r\n\r\n")
    return True


@page("/huge", Case("/huge", "too_large"))
async def huge(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, b"", length=200_000_000))
    return await _pour(writer, BLOCK, 200_000_000 // len(BLOCK))


@page("/endless", Case("/endless", "too_large"))
async def endless(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, b"", CHUNKED, length=-1))
    return await _pour(writer, chunk(BLOCK), 1 << 40)


@page("/endless-plain", Case("/endless-plain", "too_large"))
async def endless_plain(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, b"", "Connection: close", length=-1))
    return await _pour(writer, BLOCK, 1 << 40)


@page("/bomb", Case("/bomb", "too_large"))
async def bomb(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, bombs("gzip"), GZIP))
    return True


@page("/bomb-br", Case("/bomb-br", "too_large"))
async def bomb_br(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, bombs("br"), "Content-Encoding: br"))
    return True


@page("/bomb-zstd", Case("/bomb-zstd", "too_large"))
async def bomb_zstd(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, bombs("zstd"), "Content-Encoding: zstd"))
    return True


@page("/br", Case("/br", 200))
async def br(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, encoded("br", PAGE), "Content-Encoding: br"))
    return True


@page("/zstd", Case("/zstd", 200))
async def zstd(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, encoded("zstd", PAGE), "Content-Encoding: zstd"))
    return True


@page("/header/", Case("/header/100000", "protocol"), Case("/header/8000", 200))
async def header(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, PAGE, f"X-Large: {'h' * int(hit.last)}"))
    return True


@page("/headers/", Case("/headers/2000", "protocol"))
async def headers(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, PAGE, *(f"X-Many-{number}: {number}" for number in range(int(hit.last)))))
    return True


@page("/loris-head", Case("/loris-head", "timeout", False))
async def loris_head(hit: Hit, writer: Writer) -> bool:
    return await _trickle(writer, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)


@page("/loris-body", Case("/loris-body", "timeout", False))
async def loris_body(hit: Hit, writer: Writer) -> bool:
    writer.write(answer(200, b"", length=100_000))
    return await _trickle(writer, b"x" * 100_000)


@page("/silence", Case("/silence", "timeout", False))
async def silence(hit: Hit, writer: Writer) -> bool:
    await asyncio.Event().wait()
    return False


@page("/stops", Case("/stops", "timeout", False))
async def stops(hit: Hit, writer: Writer) -> bool:
    """Half a body, and then nothing."""
    writer.write(answer(200, PAGE, length=2 * len(PAGE)))
    await asyncio.Event().wait()
    return False


async def _pour(writer: Writer, data: bytes, times: int) -> bool:
    for _ in range(times):
        if writer.is_closing():
            return False
        writer.write(data)
        await writer.drain()
        # A broken connection over TLS takes everything at once and without a word, until it is told of its end.
        await asyncio.sleep(0)
    return True


async def _trickle(writer: Writer, data: bytes) -> bool:
    for number in range(len(data)):
        if writer.is_closing():
            break
        writer.write(data[number : number + 1])
        await writer.drain()
        await asyncio.sleep(PAUSE)
    return False


MIXED: tuple[str, ...] = tuple(case.path for case in CASES)
"""Every path here, good and bad."""
