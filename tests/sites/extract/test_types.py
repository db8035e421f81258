"""Types: what a text becomes, and that what it cannot become is null and noted."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import fields, read

from gossamer.sites.extract.types import as_datetime, as_decimal, as_float, as_int

CET = timezone(timedelta(hours=1))


def one(text: str, **rule: Any) -> Any:
    return fields(yaml.safe_dump({"fields": {"value": {"from": "parent.text", **rule}}}), inherited={"text": text})[
        "value"
    ]


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("12", {"type": "int"}, 12),
        (" -7\n", {"type": "int"}, -7),
        ("+3", {"type": "int"}, 3),
        ("\u22125", {"type": "int"}, -5),
        ("1,234,567", {"type": "int"}, 1234567),
        ("12,34,567", {"type": "int"}, 1234567),
        ("1.234.567", {"type": "int", "decimal": ","}, 1234567),
        ("1 234", {"type": "int"}, 1234),
        ("1\u202f234\u202f567", {"type": "int"}, 1234567),
        ("1'234", {"type": "int"}, 1234),
        ("٣٤", {"type": "int"}, 34),
        ("1,234.5", {"type": "float"}, 1234.5),
        ("1.234,5", {"type": "float", "decimal": ","}, 1234.5),
        ("1 234,50", {"type": "float", "decimal": ","}, 1234.5),
        (".5", {"type": "float"}, 0.5),
        ("-1e3", {"type": "float"}, -1000.0),
        ("1,5", {"type": "decimal", "decimal": ","}, Decimal("1.5")),
        ("1,234.50", {"type": "decimal"}, Decimal("1234.50")),
        ("0.10", {"type": "decimal"}, Decimal("0.10")),
        ("Yes", {"type": "bool"}, True),
        ("on", {"type": "bool"}, True),
        ("0", {"type": "bool"}, False),
        ("FALSE", {"type": "bool"}, False),
        ('{"a": [1, 2.5, null]}', {"type": "json"}, {"a": [1, 2.5, None]}),
        ("../x y?q=1#f", {"type": "url"}, "http://bbs.example/list/x%20y?q=1#f"),
        ("Zoë", {"type": "bytes"}, b"Zo\xc3\xab"),
        ("2024-02-29", {"type": "date"}, date(2024, 2, 29)),
        ("2024-02-29T23:30:00+01:00", {"type": "date"}, date(2024, 2, 29)),
        ("20240229", {"type": "date"}, date(2024, 2, 29)),
        ("29.02.2024", {"type": "date", "format": "%d.%m.%Y"}, date(2024, 2, 29)),
        ("2024-02-29T23:59:59", {"type": "datetime"}, datetime(2024, 2, 29, 23, 59, 59)),
        ("2024-02-29T23:59:59Z", {"type": "datetime"}, datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("2024-02-29 23:59:59.123 +0100", {"type": "datetime"}, datetime(2024, 2, 29, 23, 59, 59, 123000, CET)),
        ("2024-02-29 23:59 UTC", {"type": "datetime"}, datetime(2024, 2, 29, 23, 59, tzinfo=UTC)),
        ("2024-2-9 3:04", {"type": "datetime"}, datetime(2024, 2, 9, 3, 4)),
        ("2024/02/09", {"type": "datetime"}, datetime(2024, 2, 9)),
        ("20240209030405", {"type": "datetime"}, datetime(2024, 2, 9, 3, 4, 5)),
        ("Fri, 17 May 2024 06:00:00 +0100", {"type": "datetime"}, datetime(2024, 5, 17, 6, tzinfo=CET)),
        ("17 May 2024 06:00:00 -0000", {"type": "datetime"}, datetime(2024, 5, 17, 6, tzinfo=UTC)),
        ("1700000000", {"type": "datetime"}, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("1700000000000", {"type": "datetime"}, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("1700000000.5", {"type": "datetime"}, datetime(2023, 11, 14, 22, 13, 20, 500000, UTC)),
        ("2024-07-01 12:00", {"type": "datetime", "tz": "Europe/Berlin"}, datetime(2024, 7, 1, 10, tzinfo=UTC)),
        ("1.7.2024 12:00", {"type": "datetime", "tz": "Asia/Tokyo", "format": "%d.%m.%Y %H:%M"}, datetime(2024, 7, 1, 3, tzinfo=UTC)),
        ("2024-07-01T12:00:00Z", {"type": "date", "tz": "Pacific/Auckland"}, date(2024, 7, 2)),
    ],
)  # fmt: skip
def test_a_text_becomes_its_type(text: str, rule: dict[str, Any], value: Any) -> None:
    found = one(text, **rule)
    assert found == value
    assert type(found) is type(value)
    if isinstance(found, datetime):
        assert (found.tzinfo is None) == (value.tzinfo is None)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("12 views", {"type": "int"}),
        ("1.5", {"type": "int"}),
        ("1,23", {"type": "int"}),
        ("1,234 567", {"type": "int"}),
        ("--1", {"type": "int"}),
        ("1.234,5", {"type": "float"}),
        ("1,234.5", {"type": "float", "decimal": ","}),
        ("nan", {"type": "float"}),
        ("1e999", {"type": "float"}),
        ("inf", {"type": "decimal"}),
        (".", {"type": "decimal"}),
        ("9" * 5000, {"type": "int"}),
        ("maybe", {"type": "bool"}),
        ("{", {"type": "json"}),
        ("[" * 100_000, {"type": "json"}),
        ("http://[::1/", {"type": "url"}),
        ("yesterday", {"type": "datetime"}),
        ("2024-13-01", {"type": "date"}),
        ("2023-02-29", {"type": "date"}),
        ("12", {"type": "datetime"}),
        ("9" * 12, {"type": "datetime", "format": "%Y"}),
        ("99999999999999999", {"type": "datetime"}),
        ("May", {"type": "datetime"}),
    ],
)
def test_what_cannot_become_its_type_is_null_and_noted(text: str, rule: dict[str, Any]) -> None:
    reading = read(
        yaml.safe_dump({"fields": {"value": {"from": "parent.text", "default": 7, **rule}}}), inherited={"text": text}
    )
    assert reading.records[0].fields == {"value": None}
    (note,) = reading.notes
    assert note.startswith("value: ")
    assert len(note) < 300
    assert reading.missing == ()


def test_values_of_json_keep_what_they_are() -> None:
    found = fields(
        """
        format: json
        fields:
          int: {jmespath: whole, type: int}
          same: {jmespath: half, type: decimal}
          text: {jmespath: whole}
          sure: {jmespath: sure}
          flag: {jmespath: sure, type: bool}
          none: {jmespath: none, type: int, default: 4}
          map: {jmespath: map}
          list: {jmespath: list, type: json}
          at: {jmespath: at, type: datetime}
          float: {jmespath: whole, type: float}
        """,
        '{"whole": 5.0, "half": 0.1, "sure": true, "none": null, "map": {"a": "é"}, "list": [1, null], "at": 1700000000}',
    )
    assert found == {
        "int": 5,
        "same": Decimal("0.1"),
        "text": "5.0",
        "sure": "true",
        "flag": True,
        "none": 4,
        "map": '{"a": "é"}',
        "list": [1, None],
        "at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "float": 5.0,
    }


def test_a_count_by_xpath_is_a_whole_number() -> None:
    assert fields("fields: {n: {xpath: count(//p), type: int}}", "<p>1<p>2") == {"n": 2}


def test_an_empty_text_is_nothing_for_types_other_than_text() -> None:
    reading = read("fields: {n: {css: b, type: int, default: 0}, t: {css: b}}", "<b> </b>")
    assert reading.records[0].fields == {"n": 0, "t": ""}
    assert reading.missing == ("n",)
    assert reading.notes == ()


@given(st.integers(-(10**15), 10**15))
@settings(deadline=None)
def test_whole_numbers_come_back_however_they_are_grouped(number: int) -> None:
    assert (
        as_int(f"{number:,}")
        == as_int(f"{number:,}".replace(",", "."), ",")
        == as_int(f"{number:_}")
        == as_int(str(number))
        == number
    )


@given(st.decimals(-(10**9), 10**9, places=3))
@settings(deadline=None)
def test_decimals_come_back_with_either_mark(number: Decimal) -> None:
    text = f"{number:,f}"
    assert as_decimal(text) == number
    assert as_decimal(text.translate(str.maketrans(",.", ".,")), ",") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_floats_come_back(number: float) -> None:
    assert as_float(repr(number)) == number


@given(st.datetimes(min_value=datetime(1000, 1, 1)))
@settings(deadline=None)
def test_iso_dates_come_back_and_take_the_zone(at: datetime) -> None:
    assert as_datetime(at.isoformat()) == at
    assert as_datetime(at.isoformat(" "), None, ZoneInfo("Europe/Berlin")).tzinfo == ZoneInfo("Europe/Berlin")


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text_is_turned_or_refused(text: str) -> None:
    for turn in (as_int, as_float, as_decimal, as_datetime):
        with suppress(ValueError):
            turn(text)


def test_numbers_that_are_none_in_json_are_null() -> None:
    """What some servers write for no value must not be stored as the text nan."""
    body = '{"a": NaN, "b": -Infinity, "d": {"e": NaN, "f": 1}, "g": [1, NaN]}'
    for large in ("1e999", "-1.5E+400", f"{10**310}.5", f"{10**250}e99"):
        told = read("format: json\nfields: {a: {jmespath: a}, b: {jmespath: b}}", f'{{"a":{large},"b":"1e999"}}')
        assert told.records[0].fields == {"a": None, "b": "1e999"}
        assert set(told.missing) == {"a"}
    rules = (
        "format: json\nfields: {a: {jmespath: a}, b: {jmespath: b}, e: {jmespath: d.e, type: int}, d: {jmespath: d, type: json}, "
        "g: {jmespath: g, type: json}}"
    )
    reading = read(rules, body, content_type="application/json")
    found = {"a": None, "b": None, "e": None, "d": {"e": None, "f": 1}, "g": [1, None]}
    assert reading.records[0].fields == found
    assert set(reading.missing) == {"a", "b", "e"}
