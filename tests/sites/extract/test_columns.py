"""Fields of JSON read as columns are what they are record by record, and so are notes and what is missing."""

from __future__ import annotations

import json
import struct
import sys
from math import isinf
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import URL, SmallSite

from gossamer.model.page import Response
from gossamer.sites.extract.layer import LayerReader, compile_layer
from gossamer.sites.extract.types import HALF, _whole, loads
from gossamer.sites.format import Layer
from gossamer.sites.page import Reading

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**70, 1.5, 2.0, float("nan"), float("inf")])
    | st.sampled_from(["", " ", " a b ", "7", "yes", '{"a": {"b": " x "}, "b": [" 1 "]}', "[]", "2024-05-17", "/path"])
)
TREES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
# Mostly of one kind, as the records of real pages are, so that whole columns have what is wanted.
RECORDS = st.one_of(
    st.lists(TREES, max_size=8),
    st.lists(st.fixed_dictionaries({"a": TREES, "b": st.lists(st.sampled_from([" x", "y "]), max_size=2)}), max_size=8),
    st.lists(
        st.fixed_dictionaries(
            {
                "a": st.fixed_dictionaries({"a": st.integers()}, optional={"b": TREES}),
                "b": st.sampled_from(["x ", "y", ""]),
            }
        ),
        max_size=8,
    ),
)
RULES = st.fixed_dictionaries(
    {"jmespath": st.sampled_from(["a", "b", "a.a", "a.b", "a.b.a"])},
    optional={
        "type": st.sampled_from(["text", "int", "bool", "json", "float", "decimal", "datetime", "url"]),
        "strip": st.booleans(),
        "all": st.just(True),
        "nth": st.sampled_from([0, 1, -1]),
        "clean": st.sampled_from(
            [["upper"], ["unique"], ["squeeze", "lower"], ["upper", {"take": "X"}], [{"take": "x"}]]
        ),
        "default": st.sampled_from(["d", 4, ["x"], {"y": 1}]),
    },
).filter(
    # A text as the default of a number or date that it is not cannot be compiled.
    lambda rule: (
        not ("all" in rule and "nth" in rule)
        and not (rule.get("default") == "d" and rule.get("type") in ("decimal", "datetime"))
    )
)
FIELDS = st.lists(RULES, min_size=1, max_size=5).map(
    lambda rules: {f"f{place}": rule for place, rule in enumerate(rules)}
)


def compiled(fields: dict[str, Any], **more: Any) -> LayerReader:
    layer = Layer.model_validate({"format": "json", "records": {"jmespath": "items"}, "fields": fields, **more})
    return compile_layer("here", layer, SmallSite())


def outcome(reader: LayerReader, data: Any) -> Reading:
    """`missing` is a set by nature: which field was missed first says nothing."""
    reading = reader.read(Response(URL, 200, {}, json.dumps(data).encode()))
    return reading._replace(missing=tuple(sorted(reading.missing)))


def usual(fields: dict[str, Any]) -> dict[str, Any]:
    """The same rules, so written that no short way is seen."""
    return {name: {**rule, "jmespath": f"{rule['jmespath']} | @"} for name, rule in fields.items()}


@given(FIELDS, RECORDS)
@settings(deadline=None, max_examples=150)
@example(
    {"t": {"jmespath": "a", "default": "d"}, "u": {"jmespath": "b"}}, [{"b": 1}, {"a": " x "}, {"a": None}, {"a": 2}]
)
@example({"t": {"jmespath": "b", "all": True}}, [{"b": ["x", None]}, {"b": []}, {"b": " y "}, {"b": [1]}])
@example({"t": {"jmespath": "a", "type": "int"}}, [{"a": 1}, {"a": True}, {"a": "2"}, {"a": 3.5}])
def test_the_same_reading_as_by_the_usual_way(fields: dict[str, Any], items: list[Any]) -> None:
    short, long = compiled(fields), compiled(usual(fields))
    data = {"items": items}
    # By repr: 1 is not true, and not a number is not itself.
    assert repr(outcome(short, data)) == repr(outcome(long, data))


def test_fields_keep_the_order_of_the_file_and_notes_that_of_the_page() -> None:
    reader = compiled(
        {
            "n": {"jmespath": "n", "type": "int"},
            "t": {"jmespath": "t"},
            "at": {"jmespath": "at", "type": "date"},
            "id": {"jmespath": "id", "type": "int"},
        }
    )
    items: list[Any] = [{"n": 1, "t": "a", "at": "2024-05-17", "id": place} for place in range(5)]
    items[1] |= {"at": "never", "n": "much"}
    items[2] |= {"n": "many", "t": None}
    reading = outcome(reader, {"items": items})
    assert [list(record.fields) for record in reading.records] == [["n", "t", "at", "id"]] * 5
    assert [record.fields["id"] for record in reading.records] == [0, 1, 2, 3, 4]
    assert reading.missing == ("t",)
    assert [note.split()[1] for note in reading.notes] == ["'much'", "'never'", "'many'"]


@pytest.mark.parametrize(
    "looking", [{"from": "fields.t", "regex": ".+"}, {"value": "{t}"}, {"fields": {"of": {"from": "fields.t"}}}]
)
def test_a_field_sees_those_before_it(looking: dict[str, Any]) -> None:
    reader = compiled({"t": {"jmespath": "t"}, "again": looking})
    reading = outcome(reader, {"items": [{"t": f"t{place}"} for place in range(6)]})
    found = [record.fields["again"] for record in reading.records]
    assert [one["of"] if isinstance(one, dict) else one for one in found] == [f"t{place}" for place in range(6)]


def test_defaults_are_not_shared() -> None:
    reader = compiled({"t": {"jmespath": "t", "type": "json", "default": []}, "l": {"jmespath": "l", "all": True}})
    one, other = (record.fields for record in outcome(reader, {"items": [{}, {"l": []}]}).records)
    assert one == other == {"t": [], "l": []}
    assert one["t"] is not other["t"]
    assert one["l"] is not other["l"]


NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "1e400", "-1e400", "NaN", "-NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1"]),
)
TEXTS = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [
            '"\\ud800"',
            '"\\udc00x"',
            '"\\ud83d\\ude00"',
            '"\\ud800\\ud83d\\ude00"',
            '"\t"',
            '"\\x"',
            '"\\u00"',
            '"\ud800"',
        ]
    ),
)
JSON = st.recursive(
    NUMBERS | TEXTS | st.sampled_from(["null", "true", "false", "nul", ""]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda ones: f"[{' , '.join(ones)}]"),
        st.lists(st.tuples(TEXTS, inner), max_size=4).map(
            lambda pairs: f"{{{','.join(f'{key}:{one}' for key, one in pairs)}}}"
        ),
    ),
    max_leaves=12,
)


def by_python(text: str) -> Any:
    data = json.loads(
        text, parse_constant=lambda name: None, parse_float=lambda text: None if isinf(float(text)) else float(text)
    )
    return _whole(data) if "\\u" in text and HALF(text) else data


def exact(data: Any) -> Any:
    """Something that is equal only for the same: types, order of keys, every bit of a number."""
    match data:
        case float():
            return ("float", struct.pack("d", data) if data == data else "nan")
        case list():
            return [exact(one) for one in data]
        case dict():
            return ("dict", [(key, exact(one)) for key, one in data.items()])
    return (type(data).__name__, data)


def tried(call: Any, text: str) -> Any:
    try:
        return exact(call(text))
    except (ValueError, RecursionError) as error:
        return type(error), str(error)


@given(JSON)
@settings(deadline=None, max_examples=300)
@example('{"a": 1, "b": 2, "a": 3}')
@example("9" * 4300)
@example("9" * 4301)
@example("9" * 250 + "e99")
@example("[-1e308, 1e309]")
@example("[" * 199 + "]" * 199)
@example("[" * 300 + "]" * 300)
@example("[1, 2")
@example("1 2")
@example("\ufeff1")
@example("\xa01")
@example(" \n\r\t[ ] ")
def test_json_is_what_python_reads(text: str) -> None:
    assert tried(loads, text) == tried(by_python, text)


@given(JSON, st.integers(0, 200), st.sampled_from(list('{}[]",:\\u0-eEN \x0b\x00')))
@settings(deadline=None, max_examples=150)
def test_broken_json_is_what_python_says_of_it(text: str, place: int, sign: str) -> None:
    broken = text[:place] + sign + text[place + 1 :]
    assert tried(loads, broken) == tried(by_python, broken)


def test_json_nested_too_deeply_is_told() -> None:
    with pytest.raises(RecursionError):
        loads("[" * sys.getrecursionlimit() * 100)
