"""Content encodings, decoded while the body arrives and never beyond a limit: a small body may decode to a huge one."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from gossamer.model.fetch import BAD_ENCODING, TOO_LARGE, FetchError

brotli: Any
try:
    import brotli  # type: ignore[import-untyped, no-redef, unused-ignore]
except ImportError:  # pragma: no cover
    brotli = None

zstd: Any
try:
    from compression import zstd  # type: ignore[import-not-found, no-redef, unused-ignore]
except ImportError:
    try:
        from backports import zstd  # type: ignore[no-redef, unused-ignore]
    except ImportError:  # pragma: no cover
        zstd = None

ACCEPTED = ", ".join(["gzip", "deflate", *(["br"] if brotli else []), *(["zstd"] if zstd else [])])
"""The supported encodings, as the value of Accept-Encoding."""

MISSING = {"br": "brotli", "zstd": "backports.zstd"}
UNDECODABLE = ("compress", "x-compress", "dcb", "dcz", "pack200-gzip", "exi")
LARGEST_WINDOW = 23
"""Of zstd, as a power of two: what RFC 9659 allows servers to demand."""
LAYERS = 3
"""Maximum number of encodings on top of each other."""
BETWEEN = 2**20
"""Bytes that one decoder may pass to the next at a time, even if less is left for the last."""


class DecoderStep(Protocol):
    def feed(self, data: bytes, limit: int) -> bytes:
        """Decode `data`, but no more than `limit` + 1 bytes; a caller that gets these stops."""

    def end(self) -> None:
        """Raises if the data ended too soon."""


class Inflate:
    """gzip and both meanings of deflate. More gzip members may follow the first; anything else after the end is ignored."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._stream = zlib.decompressobj(31) if gzip else None
        self._begun = self._over = False
        self._head = b""

    def feed(self, data: bytes, limit: int) -> bytes:
        if self._over or not data:
            return b""
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data, self._head = self._head, b""
            self._stream = zlib.decompressobj(15 if _is_zlib(data) else -15)
        self._begun = True
        parts, left = [], limit + 1
        while data and left > 0:
            stream = self._stream
            parts.append(part := stream.decompress(data, left))
            left -= len(part)
            if not stream.eof:
                break
            data = stream.unused_data
            # Members may be split anywhere, so one byte is enough to expect another.
            if not self._gzip or not data.startswith(b"\x1f"):
                self._over = not (self._gzip and not data)
                break
            self._stream = zlib.decompressobj(31)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self) -> None:
        if self._begun and not self._over and self._stream is not None and not self._stream.eof:
            raise zlib.error("the data ends too soon")


def _is_zlib(data: bytes) -> bool:
    return data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0


class Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes, limit: int) -> bytes:
        if not data or self._stream.is_finished():
            return b""
        self._begun = True
        parts = [self._stream.process(data, output_buffer_limit=limit + 1)]
        size = len(parts[0])
        while size <= limit and not self._stream.is_finished() and not self._stream.can_accept_more_data():
            parts.append(part := self._stream.process(b"", output_buffer_limit=limit + 1 - size))
            size += len(part)
        # It keeps the limit only block by block.
        return b"".join(parts)[: limit + 1]

    def end(self) -> None:
        if self._begun and not self._stream.is_finished():
            raise ValueError("the data ends too soon")


class Zstd:
    def __init__(self) -> None:
        self._stream = self._new()
        self._begun = False

    def _new(self) -> Any:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW})

    def feed(self, data: bytes, limit: int) -> bytes:
        parts, left = [], limit + 1
        while data and left > 0:
            if self._stream.eof:
                self._stream = self._new()
            self._begun = True
            parts.append(part := self._stream.decompress(data, left))
            left -= len(part)
            data = self._stream.unused_data if self._stream.eof else b""
        return b"".join(parts)

    def end(self) -> None:
        if self._begun and not self._stream.eof:
            raise ValueError("the data ends too soon")


class Decoder:
    """The encodings of one body, the last one first. Raises FetchError for bad data."""

    def __init__(self, steps: list[DecoderStep], named: str) -> None:
        self._steps, self._named = steps, named

    def feed(self, data: bytes, limit: int) -> bytes:
        between = max(limit, BETWEEN)
        try:
            for step in self._steps[:-1]:
                data = step.feed(data, between)
                if len(data) > between:
                    raise FetchError(TOO_LARGE, f"what is in the first of {self._named} is too large already", False)
            return self._steps[-1].feed(data, limit)
        except FetchError:
            raise
        except Exception as error:
            raise self._bad(error) from error

    def end(self) -> None:
        try:
            for step in self._steps:
                step.end()
        except Exception as error:
            raise self._bad(error) from error

    def _bad(self, error: Exception) -> FetchError:
        # Caches and proxies break data for a while: it may be whole the next time.
        return FetchError(BAD_ENCODING, f"the body is not the {self._named} that it is said to be ({error})")


def decoder(encoding: str) -> Decoder | None:
    """The decoder for a Content-Encoding; None if nothing has to be decoded. Unknown words such as utf-8 or none are ignored, as
    browsers do."""
    steps: list[DecoderStep] = []
    for word in reversed(encoding.lower().split(",")):
        name = word.strip()
        if name in ("gzip", "x-gzip"):
            steps.append(Inflate(True))
        elif name == "deflate":
            steps.append(Inflate(False))
        elif name == "br" and brotli:
            steps.append(Brotli())
        elif name == "zstd" and zstd:
            steps.append(Zstd())
        elif name in MISSING:
            raise FetchError(BAD_ENCODING, f"the body is {name}: install the package {MISSING[name]}", False)
        elif name in UNDECODABLE:
            raise FetchError(BAD_ENCODING, f"the body is {name}, which was not accepted and cannot be decoded", False)
    if len(steps) > LAYERS:
        raise FetchError(BAD_ENCODING, f"the body is encoded {len(steps)} times", False)
    return Decoder(steps, encoding) if steps else None
