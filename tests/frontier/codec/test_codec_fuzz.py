"""Bytes from outside: what version 1 wrote decodes for ever, and garbage raises `DecodingError` and nothing else.

`FUZZ_CASES=100000` sets the number of random cases; the default keeps the run short.
"""

from __future__ import annotations

import os
import random
import time as clock
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ormsgpack import Ext, packb

from gossamer.errors import DecodingError
from gossamer.frontier.codec import decode, decode_request, encode, encode_request

CASES = int(os.environ.get("FUZZ_CASES", "4000"))

GOLDEN: list[tuple[str, Any]] = [
    ("01c0", None),
    ("01c3", True),
    (
        "019800ff7fcc80ce00010000d2ffff7fffcf8000000000000000d38000000000000000",
        [0, -1, 127, 128, 65536, -32769, 2**63, -(2**63)],
    ),
    ("0192c70901010000000000000000c70901ff7fffffffffffffff", [2**64, -(2**63) - 1]),
    (
        "0195cb0000000000000000cb8000000000000000cb3ff8000000000000cb7ff0000000000000cb7ff8000000000000",
        [0.0, -0.0, 1.5, float("inf"), float("nan")],
    ),
    (
        "0194a0a6c3a9f09f9880c70302eda080d92878787878787878787878787878787878787878787878787878787878787878787878787878787878",
        ["", "é😀", "\ud800", "x" * 40],
    ),
    ("0192c400c40200ff", [b"", b"\x00\xff"]),
    ("01c705039301a161c0", (1, "a", None)),
    ("01d7039201d60392029103", (1, (2, [3]))),
    ("01d5049107", {7}),
    ("01c70a0491c706039201d5039102", {(1, (2,))}),
    ("01d60591c4016b", frozenset({b"k"})),
    ("0182a16201a16181a16390", {"b": 1, "a": {"c": []}}),
    ("01c718069801a161c0a162c70303920102a163c4016b81a164d40390", {1: "a", None: "b", (1, 2): "c", b"k": {"d": ()}}),
    ("01c70e0797cd07ea0b0f0c1e3bce0001e240", datetime(2026, 11, 15, 12, 30, 59, 123456)),
    ("01c70d0799cd07ea0b0f00000000009100", datetime(2026, 11, 15, tzinfo=UTC)),
    (
        "01c7190799cd07ea0a19021e000001ad4575726f70652f4265726c696e",
        datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    ),
    (
        "01c7190799cd076c0101000000000092d3ffffffff296c5c05a34c4d54",
        datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=-1, microseconds=5), "LMT")),
    ),
    ("01c7060893cd07ea0b0f", date(2026, 11, 15)),
    ("01d80996173b3b010091cf00000004d1d0ef00", time(23, 59, 59, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))),
    ("01d60a93ff0507", timedelta(days=-1, seconds=5, microseconds=7)),
    (
        "0195d60b312e3530d50b2d30c7030b4e614ec7090b2d496e66696e697479c7060b31452b343030",
        [Decimal("1.50"), Decimal("-0"), Decimal("NaN"), Decimal("-Infinity"), Decimal("1E+400")],
    ),
    ("01d80c12345678123456781234567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    ("01d60d2f612f62", Path("/a/b")),
    ("01d80e3ff80000000000008000000000000000", complex(1.5, -0.0)),
]

GOLDEN_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("8190", {}),
    (
        "819600a9687474703a2f2f612f07a570617273650581a5646570746803",
        {"url": "http://a/", "callback": "parse", "meta": {"depth": 3}},
    ),
    (
        "819a00a9687474703a2f2f612f01a4504f53540294c4014192c40131c40132c40142c40003c403783d310481a173a131",
        {
            "url": "http://a/",
            "method": "POST",
            "headers": {b"A": [b"1", b"2"], b"B": [b""]},
            "body": b"x=1",
            "cookies": {"s": "1"},
        },
    ),
    (
        "819a0c81a141a1310681a16ec706039201d503910208a16509a66370313235320a91a166",
        {"headers": {"A": "1"}, "cb_kwargs": {"n": (1, (2,))}, "errback": "e", "encoding": "cp1252", "flags": ["f"]},
    ),
    ("81960bc3a87072696f726974790505d7069201c70302eda080", {"dont_filter": True, "priority": 5, "meta": {1: "\ud800"}}),
]


@pytest.mark.parametrize(("stored", "value"), GOLDEN)
def test_version_1_decodes_for_ever(stored: str, value: Any) -> None:
    back = decode(bytes.fromhex(stored))
    assert (type(back), repr(back)) == (type(value), repr(value))
    assert encode(value).hex() == stored


@pytest.mark.parametrize(("stored", "fields"), GOLDEN_REQUESTS)
def test_version_1_requests_decode_for_ever(stored: str, fields: dict[str, Any]) -> None:
    back = decode_request(bytes.fromhex(stored))
    assert {name: repr(back[name]) for name in fields} == {name: repr(value) for name, value in fields.items()}
    assert encode_request(fields).hex() == stored


def harmless(data: bytes) -> None:
    """Either reading works or it raises `DecodingError`; what was read can be stored again."""
    for read, write in ((decode, encode), (decode_request, encode_request)):
        try:
            value: Any = read(data)
        except DecodingError:
            continue
        assert isinstance(write(value), bytes)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([b"", b"\x01", b"\x81"]), st.binary(max_size=80))
def test_any_bytes_are_harmless(head: bytes, data: bytes) -> None:
    harmless(head + data)


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 127), st.binary(max_size=24) | st.lists(st.integers(-3, 3000), max_size=9).map(packb))
def test_any_extension_with_garbage_is_harmless(tag: int, data: bytes) -> None:
    body = packb(Ext(tag % 16 if tag > 20 else tag, data))
    for wrap in (body, b"\x91" + body, packb(Ext(3, b"\x91" + body)), packb(Ext(6, b"\x92" + body + body))):
        harmless(b"\x01" + wrap)
    harmless(b"\x81\x92\x05" + body)
    harmless(b"\x01\xd4" + bytes([tag + 128]) + data[:1])  # the negative tags, which the packer does not write


def payloads() -> list[bytes]:
    return [bytes.fromhex(stored) for stored, _ in [*GOLDEN, *GOLDEN_REQUESTS]]


def test_every_truncation_is_refused_and_so_are_bytes_left_over() -> None:
    for data in payloads():
        read: Callable[[bytes], Any] = decode_request if data[0] & 0x80 else decode
        for size in range(len(data)):
            with pytest.raises(DecodingError):
                read(data[:size])
        for more in (b"\x00", b"\xc0\xc0", data):
            with pytest.raises(DecodingError):
                read(data + more)
    with pytest.raises(DecodingError, match="bytes are left over"):
        decode(encode(1) + b"\x00")


def test_mutated_payloads_are_harmless() -> None:
    rng = random.Random(1)
    stock = payloads()
    for _ in range(CASES):
        data = bytearray(rng.choice(stock))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    data[at] ^= 1 << rng.randrange(8)
                case 2:
                    data[at:at] = rng.choice(stock)[1:]
                case _:
                    del data[at : at + rng.randint(1, 3)]
            data = data or bytearray(1)
        harmless(bytes(data))


def test_random_bytes_are_harmless() -> None:
    rng = random.Random(2)
    for _ in range(CASES):
        harmless(rng.choice((b"\x01", b"\x81")) + rng.randbytes(rng.randint(0, 60)))


def nested(level: Callable[[bytes], bytes], times: int) -> bytes:
    body = b"\x01"
    for _ in range(times):
        body = level(body)
    return b"\x01" + body


@pytest.mark.parametrize(
    "data",
    [
        *(b"\x01" + head + b"\xff\xff\xff\xff" for head in (b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9")),
        b"\x01\xdd\x7f\xff\xff\xff" + b"\xc0" * 1000,
        b"\x01" + b"\xdd\xff\xff\xff\xff" * 900,
        b"\x01" + b"\x91" * 1_000_000 + b"\x01",
        nested(lambda body: b"\x91" + body, 500),
        nested(lambda body: b"\x81\xa1a" + body, 500),
        nested(lambda body: packb(Ext(3, b"\x91" + body)), 3000),
        nested(lambda body: packb(Ext(6, b"\x92\x01" + body)), 3000),
        nested(lambda body: packb(Ext(3, b"\x91" * 900 + body)), 300),
        nested(lambda body: b"\x91" * 900 + packb(Ext(3, body)), 300),
        b"\x01" + packb(Ext(11, b"1e" + b"9" * 5000)),
        b"\x01" + packb(Ext(10, packb([1 << 62]))),
        b"\x01" + packb(Ext(7, packb([2020, 1, 1, 0, 0, 0, 0, 0, "../../etc/passwd"]))),
        b"\x01" + packb(Ext(7, packb([2020, 1, 1, 0, 0, 0, 0, 0, [1 << 62]]))),
        b"\x01" + packb(Ext(4, b"\x91\x90")),
        b"\x01" + packb(Ext(6, b"\x92\x90\x01")),
        b"\x01" + packb(Ext(6, b"\x91\x01")),
        b"\x01" + packb(Ext(99, b"")),
        b"\x01\x81\x01\x01",
        b"",
    ],
    ids=range(24),
)
def test_hostile_bytes_are_refused_at_once_and_in_little_memory(data: bytes) -> None:
    tracemalloc.start()
    started = clock.process_time()
    try:
        with pytest.raises(DecodingError):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert clock.process_time() - started < 5


@pytest.mark.parametrize(
    "body", ["05", "91c0", "92c005", "92cc6305", "920205", "92029105", "920292a161c0", "920292c40161a162", "9290c0"]
)
def test_a_request_of_the_wrong_shape_is_refused(body: str) -> None:
    with pytest.raises(DecodingError, match="Not a request"):
        decode_request(b"\x81" + bytes.fromhex(body))
