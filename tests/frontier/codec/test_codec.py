"""The codec: what it carries comes back the same, what it refuses is named, what was stored stays readable."""

from __future__ import annotations

import enum
import io
import json
import math
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.errors import DecodingError, EncodingError, PayloadTooLarge
from gossamer.frontier.codec import VERSION, decode, decode_request, encode, encode_request, from_json, to_json
from gossamer.frontier.codec.types import MAX_DEPTH


def exact(value: Any) -> Any:
    """A value that is equal for two values only if they are the same in type, order, sign, zone and fold."""
    kind = type(value)
    if kind in (list, tuple):
        return kind.__name__, [exact(item) for item in value]
    if kind in (set, frozenset):
        return kind.__name__, sorted((exact(item) for item in value), key=repr)
    if kind is dict:
        return "dict", [(exact(key), exact(item)) for key, item in value.items()]
    if kind is float:
        return "float", "nan" if math.isnan(value) else value.hex()
    if kind is complex:
        return "complex", exact(value.real), exact(value.imag)
    if kind in (datetime, time):
        zone = value.tzinfo
        named = zone.__reduce__() if isinstance(zone, timezone) else str(zone)
        return kind.__name__, value.replace(tzinfo=None).isoformat(), value.fold, type(zone).__name__, named
    if kind is Decimal:
        return "Decimal", value.as_tuple()
    return kind.__name__, value


def through_json(value: Any) -> Any:
    text = json.dumps(to_json(value), ensure_ascii=False, allow_nan=False)
    return from_json(json.loads(text.encode("utf-8")))


def same(value: Any) -> None:
    assert exact(decode(encode(value))) == exact(value)
    assert exact(through_json(value)) == exact(value)


TEXT = st.text(st.characters(), max_size=12) | st.text('$ab\ud83d\ude00\\"é', max_size=6)
OFFSETS = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59))
ZONES: st.SearchStrategy[tzinfo | None] = st.one_of(
    st.none(),
    OFFSETS.map(timezone),
    st.builds(timezone, OFFSETS, st.text("ABC:", max_size=4)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Etc/GMT+5"]).map(ZoneInfo),
)
FOLD = st.integers(0, 1)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 1 << 3000]),
    st.floats(),
    st.complex_numbers(),
    TEXT,
    st.binary(max_size=20),
    st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), ZONES, FOLD),
    st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.times(), ZONES, FOLD),
    st.dates(),
    st.timedeltas(),
    st.decimals(),
    st.sampled_from(["-0", "1E+400", "0E-9", "-Infinity", "NaN77", "-sNaN", "1.50"]).map(Decimal),
    st.uuids(),
    TEXT.map(Path),
)


def hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


KEYS = st.recursive(
    LEAVES.filter(hashable),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(KEYS, max_size=3),
        st.frozensets(KEYS, max_size=3),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("microseconds", [1, -1, 999_999, -999_999, 1_000_001])
@pytest.mark.parametrize("name", [(), ("soon",)])
def test_a_zone_less_than_a_second_away_comes_back(microseconds: int, name: tuple[str, ...]) -> None:
    zone = timezone(timedelta(microseconds=microseconds), *name)
    same(datetime(2000, 1, 1, tzinfo=zone))
    same(time(1, 2, tzinfo=zone))


@settings(max_examples=500, deadline=None)
@given(VALUES)
def test_any_supported_value_comes_back_exactly_in_both_forms(value: Any) -> None:
    same(value)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=4), st.sampled_from(["meta", "cb_kwargs", "x", "headers", "cookies"]))
def test_any_supported_field_of_a_request_comes_back_exactly(value: dict[str, Any], name: str) -> None:
    assert exact(decode_request(encode_request({name: value}))[name]) == exact(value)


@pytest.mark.parametrize(
    "value",
    [
        {(1, "a"): 1, 2: [3], None: (), b"k": {}, True: False, frozenset({1}): 0.5, date(2020, 1, 1): 1},
        {"b": 1, "a": 2, "": 3},
        ("\ud800", {"\udfff": "\ud83d\ude00", "😀": "$"}),
        {"$bytes": 1, "$": {"$x": ()}},
        [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, -0j],
        {UUID(int=1): datetime(2020, 2, 3), Decimal("1.10"): Path("/x")},
        (1, (2, (3, [4, (5, {6})]))),
        datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=2, microseconds=3), "LMT")),
        time(1, 2, tzinfo=ZoneInfo("Europe/Berlin")),
        [2**64, -(2**63) - 1, (2**64,), {2**64}, 1 << 40000],
    ],
)
def test_awkward_values_come_back_exactly(value: Any) -> None:
    same(value)


class Text(str):
    pass


class Upper(dict[Any, Any]):
    """Answers differently from what it stores, as Scrapy's Headers do."""

    def __getitem__(self, key: Any) -> Any:
        return "overridden"

    def items(self) -> Any:
        return []


class Odd(list[Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1

    def __iter__(self) -> Any:
        return iter(["overridden"])


class Stamp(datetime):
    pass


class Day(date):
    pass


@Integral.register
class Whole:
    """As the numbers of numpy."""

    def __index__(self) -> int:
        return 7


@Real.register
class Single:
    def __float__(self) -> float:
        return 0.5

    def __eq__(self, other: object) -> bool:
        return other == 0.5

    __hash__ = None  # type: ignore[assignment]


class Elsewhere(tzinfo):
    """As the zones of pytz: each has one offset, and the key of the whole."""

    def __init__(self, hours: int, name: str | None, zone: str | None = "Europe/Berlin") -> None:
        self.hours, self.name, self.zone = hours, name, zone

    def utcoffset(self, at: datetime | None, /) -> timedelta:
        return timedelta(hours=self.hours)

    def dst(self, at: datetime | None, /) -> None:
        return None

    def tzname(self, at: datetime | None, /) -> str | None:
        return self.name


AUTUMN, BERLIN = datetime(2024, 10, 27, 2, 30), ZoneInfo("Europe/Berlin")


def moved() -> OrderedDict[str, int]:
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    return value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        (Text("a"), "a"),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (Upper({1: 2}), {1: 2}),
        (Odd([1, (2, (3,))]), [1, (2, (3,))]),
        (moved(), {"b": 2, "a": 1}),
        (PurePosixPath("/a/b"), Path("/a/b")),
        (Stamp(2020, 1, 2, 3, 4, 5, 6, UTC, fold=1), datetime(2020, 1, 2, 3, 4, 5, 6, UTC, fold=1)),
        (Day(2020, 1, 2), date(2020, 1, 2)),
        (Whole(), 7),
        (Single(), 0.5),
        (AUTUMN.replace(tzinfo=Elsewhere(2, "CEST")), AUTUMN.replace(tzinfo=BERLIN)),
        (AUTUMN.replace(tzinfo=Elsewhere(1, "CET")), AUTUMN.replace(tzinfo=BERLIN, fold=1)),
        (AUTUMN.replace(tzinfo=Elsewhere(3, "LMT")), AUTUMN.replace(tzinfo=timezone(timedelta(hours=3), "LMT"))),
        (AUTUMN.replace(tzinfo=Elsewhere(3, None, "x/y")), AUTUMN.replace(tzinfo=timezone(timedelta(hours=3)))),
        (time(1, 2, tzinfo=Elsewhere(0, "UTC", None)), time(1, 2, tzinfo=UTC)),
    ],
)
def test_a_relative_of_a_builtin_comes_back_as_the_builtin(value: Any, plain: Any) -> None:
    assert exact(decode(encode(value))) == exact(plain)
    assert exact(decode(encode([(value, (1, (2,)))]))[0][0]) == exact(plain)
    assert exact(through_json(value)) == exact(plain)


class Colour(enum.IntEnum):
    RED = 1


class Bad:
    pass


@dataclass
class Row:
    x: int = 1


class Zone(tzinfo):
    def utcoffset(self, at: datetime | None, /) -> timedelta | None:
        return None

    def dst(self, at: datetime | None, /) -> None:
        return None

    def tzname(self, at: datetime | None, /) -> None:
        return None


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("culprit", "told"),
    [
        (Bad(), f"{__name__}.Bad cannot be stored; send plain data"),
        (Colour.RED, f"{__name__}.Colour cannot be stored; send its .value"),
        (Point(1, 2), f"{__name__}.Point cannot be stored; send tuple(value)"),
        (Row(), f"{__name__}.Row cannot be stored; send dataclasses.asdict"),
        (lambda: 1, "function cannot be stored; send the name of a spider's method"),
        (io.BytesIO(), "_io.BytesIO cannot be stored; send its path or its content"),
        (iter([]), "list_iterator cannot be stored; send list(value)"),
        (datetime(2020, 1, 1, tzinfo=Zone()), f"tzinfo {__name__}.Zone cannot be stored; use zoneinfo.ZoneInfo"),
        (PureWindowsPath("a"), "pathlib.PureWindowsPath cannot be stored"),
    ],
)
def test_a_culprit_is_named_by_path_and_type(culprit: Any, told: str) -> None:
    meta = {"a": {"b": [culprit]}}
    for write, root in ((encode_request, ""), (encode, "value"), (to_json, "value")):
        with pytest.raises(EncodingError) as caught:
            write({"url": "u", "meta": meta} if write is encode_request else meta)
        assert str(caught.value).startswith(f"{'meta' if write is encode_request else root}['a']['b'][0]: {told}")


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({1: ({2: Bad()},)}, "value[1][0][2]: "),
        ({"a": {(0, Bad()): 1}}, "value['a'] (a key)[1]: "),
        ({"a": {Bad()}}, "value['a'] (a member): "),
        ({"x" * 200: Bad()}, "value['" + "x" * 78 + "…]: "),
        ({1 << 40000: Bad()}, "value[…]: "),
        ({(Odd([1]),): 1}, "value (a key)[0]: a list or dict cannot be stored inside a key"),
    ],
)
def test_a_path_leads_through_every_container(value: Any, path: str) -> None:
    for write in (encode, to_json):
        with pytest.raises(EncodingError) as caught:
            write(value)
        assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: {"a": v}, lambda v: (v,), lambda v: {1: v}, lambda v: OrderedDict(a=v)],
    ids=["list", "dict", "tuple", "keyed", "subclass"],
)
def test_depth_is_carried_to_the_limit_and_refused_past_it(wrap: Callable[[Any], Any]) -> None:
    value: Any = [1]
    for _ in range(MAX_DEPTH - 1):
        value = wrap(value)
    back = decode(encode(value))
    assert encode(back) == encode(value)
    assert encode(through_json(value)) == encode(value)
    for write in (encode, to_json):
        with pytest.raises(EncodingError, match=r"^value\[.*…: nested deeper than 128 levels; it may contain itself"):
            write(wrap(value))


def test_many_containers_side_by_side_are_not_deep() -> None:
    same([[[index], {"a": {}}] for index in range(200)])
    same({"a": bytes(range(256)) * 10})


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append((cycle,))
    for write in (encode, to_json):
        with pytest.raises(EncodingError, match="may contain itself"):
            write(cycle)
    with pytest.raises(EncodingError, match=r"^meta\[0\]\[0\].*may contain itself"):
        encode_request({"meta": cycle})


def test_a_payload_over_the_limit_is_refused_with_both_sizes() -> None:
    assert len(encode(b"x" * 10, limit=13)) == 13
    with pytest.raises(PayloadTooLarge, match="takes 13 bytes, the limit is 12"):
        encode(b"x" * 10, limit=12)
    with pytest.raises(PayloadTooLarge, match="GOSSAMER_PAYLOAD_MAX_BYTES"):
        encode_request({"url": "http://a/", "body": b"x" * 100}, limit=100)


DEFAULTS: dict[str, Any] = {
    "method": "GET",
    "headers": {},
    "body": b"",
    "cookies": {},
    "meta": {},
    "cb_kwargs": {},
    "callback": None,
    "errback": None,
    "encoding": "utf-8",
    "flags": [],
    "dont_filter": False,
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"url": "http://a/", "method": "POST", "body": b"a=1", "headers": {b"A": [b"1", b"2"], b"B": [], b"C": [b""]}},
        {"url": "http://a/\ud800", "meta": {(1,): {2}}, "headers": {b"A": [b"1"]}},
        {"headers": {"A": "1"}, "cookies": [{"name": "a"}], "priority": 5, "x\udfff": None},
        {"headers": {b"A": ["1"]}, "cookies": [], "body": "", "dont_filter": 0, "flags": (), "method": "get"},
        {"headers": None, "meta": None, "cb_kwargs": None, "encoding": "cp1252", "dont_filter": True},
        {"callback": "parse", "errback": "failed", "flags": ["cached"], "cb_kwargs": {"n": 1}},
    ],
)
def test_a_request_comes_back_with_its_defaults_restored(fields: dict[str, Any]) -> None:
    back = decode_request(encode_request(fields))
    expected = DEFAULTS | fields
    assert {name: exact(value) for name, value in back.items()} == {n: exact(value) for n, value in expected.items()}


def test_default_fields_take_no_bytes_and_are_fresh_each_time() -> None:
    data = encode_request({"url": "http://a/", **DEFAULTS})
    assert data == encode_request({"url": "http://a/"})
    decode_request(data)["meta"]["x"] = 1
    assert decode_request(data)["meta"] == {}


def test_a_typical_request_takes_little_more_than_its_url() -> None:
    fields = DEFAULTS | {"url": "u" * 80, "callback": "parse_post", "meta": {"depth": 3}}
    assert len(encode_request(fields)) <= 80 + 26


def test_scrapy_headers_keep_all_their_values() -> None:
    http = pytest.importorskip("scrapy.http")
    headers = http.Headers({"Accept": ["a", "b"], "x": "1"})
    assert decode_request(encode_request({"headers": headers}))["headers"] == {b"Accept": [b"a", b"b"], b"X": [b"1"]}
    assert encode_request({"headers": http.Headers()}) == encode_request({})


def test_a_field_is_named_by_text() -> None:
    with pytest.raises(EncodingError, match="must be text"):
        encode_request({5: 1})  # type: ignore[dict-item]


def test_the_two_binary_forms_and_other_versions_are_told_apart() -> None:
    with pytest.raises(DecodingError, match="Not a value but a request"):
        decode(encode_request({}))
    with pytest.raises(DecodingError, match="Not a request but a value"):
        decode_request(encode({}))
    with pytest.raises(DecodingError, match=f"version {VERSION + 1} is newer"):
        decode(bytes([VERSION + 1]) + encode(1)[1:])


def test_a_zone_that_this_machine_lacks_is_named() -> None:
    data = encode(datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Rome")))
    with pytest.raises(DecodingError, match="time zone 'Europe/Ruhm' is not known here; install the package tzdata"):
        decode(data.replace(b"Rome", b"Ruhm"))


@pytest.mark.parametrize(
    ("value", "readable"),
    [
        ({"url": "http://a/", "n": [1, 2.5, None, True]}, {"url": "http://a/", "n": [1, 2.5, None, True]}),
        (b"text/html", {"$bytes": "text/html"}),
        (b"\x00\xff", {"$base64": "AP8="}),
        ((1, {2}), {"$tuple": [1, {"$set": [2]}]}),
        (2**60, {"$int": "1152921504606846976"}),
        ({1: "a"}, {"$dict": [[1, "a"]]}),
        ({"$a": 1}, {"$dict": [["$a", 1]]}),
        ("a\ud800b", {"$str": ["a", 0xD800, "b"]}),
        (datetime(2020, 1, 2, tzinfo=UTC), {"$datetime": "2020-01-02T00:00:00+00:00"}),
        (datetime(2020, 1, 2, tzinfo=ZoneInfo("UTC")), {"$datetime": {"at": "2020-01-02T00:00:00", "zone": "UTC"}}),
    ],
)
def test_the_readable_form_reads_well(value: Any, readable: Any) -> None:
    assert to_json(value) == readable
    assert exact(from_json(readable)) == exact(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$nope": 1},
        {"$bytes": 5},
        {"$bytes": "é"},
        {"$base64": "?"},
        {"$tuple": "ab"},
        {"$set": [[]]},
        {"$int": "x"},
        {"$int": 5},
        {"$float": "1.5"},
        {"$str": [1 << 30]},
        {"$dict": [[1]]},
        {"$dict": 5},
        {"$datetime": "never"},
        {"$datetime": {"at": "2020-01-01T00:00:00", "zone": "../x"}},
        {"$datetime": {"at": "2020-01-01T00:00:00", "name": "X"}},
        {"$datetime": {"at": "2020-01-01T00:00:00", "else": 1}},
        {"$datetime": {}},
        {"$time": None},
        {"$date": 1},
        {"$timedelta": [10**12]},
        {"$decimal": "x"},
        {"$uuid": "x"},
        {"$path": {"$tuple": []}},
        {"$complex": ["x"]},
        {"$tuple": [], "a": 1},
    ],
)
def test_a_wrong_tag_is_named(value: dict[str, Any]) -> None:
    with pytest.raises(DecodingError) as caught:
        from_json([{"a": value}])
    assert next(iter(value)) in str(caught.value)


def test_json_nested_past_python_s_stack_is_refused() -> None:
    value: Any = 1
    for _ in range(5000):
        value = {"$tuple": [value]}
    with pytest.raises(DecodingError, match="nested too deep"):
        from_json(value)
    with pytest.raises(DecodingError, match="not text"):
        from_json({1: 2})
