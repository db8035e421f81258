from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hard_server.wire import encoded

from gossamer.engine.http.encoding import ACCEPTED, decoder
from gossamer.model.fetch import FetchError

MUCH = 10**9


def raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    return made.compress(data) + made.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate ": raw_deflate,
    "br": lambda data: encoded("br", data),
    "zstd": lambda data: encoded("zstd", data),
    "gzip, br": lambda data: encoded("br", gzip.compress(data)),
    "identity, gzip": gzip.compress,
}


def unpacked(encoding: str, pieces: list[bytes], limit: int = MUCH) -> bytes:
    undo = decoder(encoding)
    assert undo is not None
    out = b""
    for piece in pieces:
        out += undo.feed(piece, limit - len(out))
        if len(out) > limit:
            return out
    undo.end()
    return out


@pytest.mark.parametrize("encoding", PACKERS)
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=2000), size=st.integers(1, 300))
def test_whatever_the_pieces_the_whole_is_the_same(encoding: str, data: bytes, size: int) -> None:
    packed = PACKERS[encoding](data)
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert unpacked(encoding, pieces) == data


@pytest.mark.parametrize("encoding", PACKERS)
def test_no_more_than_a_byte_over_the_limit(encoding: str) -> None:
    data = bytes(5_000_000)
    for limit in (0, 1, 1000, len(data) - 1):
        assert len(unpacked(encoding, [PACKERS[encoding](data)], limit)) == limit + 1
    assert len(unpacked(encoding, [PACKERS[encoding](data)], len(data))) == len(data)


@pytest.mark.parametrize("encoding", [name for name in PACKERS if "," not in name])
def test_an_end_that_comes_too_soon(encoding: str) -> None:
    packed = PACKERS[encoding](bytes(range(256)) * 20)
    for length in (len(packed) // 2, len(packed) - 1):
        with pytest.raises(FetchError) as caught:
            unpacked(encoding, [packed[:length]])
        assert (caught.value.reason, caught.value.retriable) == ("bad_encoding", True)


def test_a_bomb_within_a_bomb() -> None:
    bomb = encoded("br", gzip.compress(bytes(3 * 10**8), 1))
    undo = decoder("gzip, br")
    assert undo is not None
    with pytest.raises(FetchError, match="too large already") as caught:
        undo.feed(bomb, 1000)
    assert (caught.value.reason, caught.value.retriable) == ("too_large", False)


def test_several_members_and_what_comes_after_the_end() -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    for size in (1, 7, 1000):
        pieces = [members[start : start + size] for start in range(0, len(members), size)]
        assert unpacked("gzip", pieces) == b"one two"
    assert unpacked("gzip", [gzip.compress(b"one"), b"\0\0\0 garbage"]) == b"one"
    assert unpacked("deflate", [zlib.compress(b"one") + b"garbage"]) == b"one"
    assert unpacked("zstd", [encoded("zstd", b"one ") + encoded("zstd", b"two")]) == b"one two"
    assert unpacked("gzip", []) == b""


def test_encodings_that_are_none_or_that_cannot_be_undone() -> None:
    assert decoder("") is None
    assert decoder("identity") is None
    assert decoder("utf-8, none") is None
    for bad in ("compress", "gzip,gzip,gzip,gzip"):
        with pytest.raises(FetchError) as caught:
            decoder(bad)
        assert (caught.value.reason, caught.value.retriable) == ("bad_encoding", False)
    assert ACCEPTED == "gzip, deflate, br, zstd"


def test_a_window_that_would_take_too_much_memory_is_refused() -> None:
    from gossamer.engine.http import encoding as content_encoding

    large = content_encoding.zstd.compress(
        bytes(2**25), options={content_encoding.zstd.CompressionParameter.window_log: 27}
    )
    undo = decoder("zstd")
    assert undo is not None
    with pytest.raises(FetchError, match="zstd"):
        undo.feed(large, MUCH)
