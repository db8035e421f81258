"""Converts Python's values to a database's and back. Rejects what a database would lose or change, with the reason.

`canonical` is alike for every database: it checks types and brings datetimes to UTC. Each database then binds the canonical value in
its own form and reads it back.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Take = Callable[[Any], Any]
"""Converts a value; raises ValueError with the reason if that fails."""

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def _refuse_type(wanted: str, value: Any) -> ValueError:
    return ValueError(f"{wanted} is wanted, {type(value).__name__} was given")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _refuse_type("text", value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text has half of a surrogate pair at {error.start}, which no database takes") from None
    return str(value)


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse_type("a whole number", value)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("the number does not fit into 64 bits; make the column decimal or text")
    return int(value)


def _float(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _refuse_type("a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("the number is too large for a float; make the column decimal or text") from None
    if math.isnan(number):
        raise ValueError("NaN is not a number; leave the value out")
    return number


def _decimal(value: Any) -> Decimal:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise _refuse_type("a decimal", value)
    if not value.is_finite():
        raise ValueError(f"{value} is not a number that a decimal column takes; leave the value out")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse_type("true or false", value)
    return value


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _refuse_type("a date", value)
    return value


def _datetime(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise _refuse_type("a datetime", value)
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC, fold=0)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC the datetime is before the year 1 or after 9999") from None


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _refuse_type("bytes", value)
    return bytes(value)


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value contains itself, or is nested too deeply") from None
    except TypeError as error:
        raise ValueError(str(error)) from None
    return _text(text)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a value that JSON has")


CANONICAL: dict[str, Take] = {
    "text": _text,
    "int": _int,
    "float": _float,
    "decimal": _decimal,
    "bool": _bool,
    "date": _date,
    "datetime": _datetime,
    "json": _json,
    "bytes": _bytes,
}


def plain_decimal(value: Decimal) -> Decimal:
    """As NUMERIC gives it back: without a positive exponent, and a zero without sign and fraction."""
    return Decimal(f"{value:f}") if value else Decimal(0)


def shortest_decimal(value: Decimal) -> Decimal:
    """Without a positive exponent and without zeros at the end of the fraction, which has one length in all rows of a column."""
    text = f"{value:f}" if value else "0"
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def in_order(value: Any) -> Any:
    """JSON whose names are in alphabetical order and in which no zero has a sign, where databases have an order of their own."""
    return json.loads(json.dumps(value, sort_keys=True), parse_float=lambda text: float(text) + 0.0)


def same(value: Any) -> Any:
    return value


def kind_of(value: Any) -> str:
    """The type of a column for a value, if the column's type is unknown."""
    # A truth value is a whole number to Python, a datetime is a date.
    for kind, types in (
        ("text", str),
        ("bool", bool),
        ("int", int),
        ("float", float),
        ("decimal", Decimal),
        ("datetime", datetime),
        ("date", date),
        ("bytes", bytes | bytearray | memoryview),
    ):
        if isinstance(value, types):
            return kind
    return "json"


def finite(value: float) -> float:
    if math.isinf(value):
        raise ValueError("this database has no infinite numbers; leave the value out")
    return value


def decimal_within(whole: int, fraction: int) -> Take:
    """Rejects decimals with more digits before or after the point."""

    def check(value: Decimal) -> Decimal:
        if not value:
            return Decimal(0)
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        # Zeros at the end of the fraction say nothing.
        while exponent < -fraction and digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        if exponent < -fraction or value.adjusted() >= whole:
            raise ValueError(
                f"the decimal has more than {whole} digits before the point or {fraction} behind it; make the column text"
            )
        return value

    return check


def json_numbers_within_64_bits(text: str) -> str:
    """Rejects JSON with whole numbers that MySQL would turn into floats."""

    def check(digits: str) -> int:
        number = int(digits)
        if not INT_MIN <= number <= INT_MAX:
            raise ValueError("a number in the value does not fit into 64 bits; give it as text")
        return number

    json.loads(text, parse_int=check)
    return text
