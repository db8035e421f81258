"""Types: texts of a page (or values of its JSON) turned into numbers, dates, addresses. What cannot be turned raises ValueError,
whose message says why; it never guesses."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from pydantic_core import from_json

from gossamer.sites.extract.dates import in_last_year, in_words, order_of, without_year
from gossamer.sites.format import FieldRule, Kind

LONGEST_NUMBER = 400
SECONDS = 100_000_000_000
"""Unix time from here on is in smaller units."""
SPACES = "\u0020\u00a0\u2007\u2009\u202f'’_"
MINUS = str.maketrans({"\u2212": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-", "\uff0b": "+"})
TRUE = frozenset({"true", "yes", "y", "on", "1", "t"})
FALSE = frozenset({"false", "no", "n", "off", "0", "f"})
DIGITS = re.compile(r"[+-]?\d+").fullmatch
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+").fullmatch
GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?").fullmatch,
    ",": re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?").fullmatch,
}
PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?").fullmatch
ALIKE_ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[ T]+(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?)?").fullmatch
HALF = re.compile(r"\\u[dD][89a-fA-F]").search
MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE).search

NUMBERS = re.compile(r"\d{1,2}[./-]\s?\d{1,2}").search
_SHAPES = bytes(ord("0") if chr(code) in "0123456789+" else ord("e") if chr(code) in "eE" else 0 for code in range(256))
MANY_DIGITS = b"0" * 200
HALF_DAY = re.compile(r"\d\s*[ap]\.?\s?m\b", re.IGNORECASE).search


class UrlBase(Protocol):
    """Where a value was found, and when: what relative addresses and dates are relative to."""

    def absolute(self, address: str) -> str: ...

    def moment(self) -> float:
        """When the page was fetched, in Unix time."""
        ...


class _Nowhere:
    def absolute(self, address: str) -> str:
        return address

    def moment(self) -> float:
        return time.time()


NOWHERE: UrlBase = _Nowhere()
"""The place of values that were found on no page: defaults."""
Turn = Callable[[Any, UrlBase], Any]


def turn_into(rule: FieldRule) -> Turn:
    """How the values of a field are turned into its type."""
    decimal, form = rule.decimal, rule.format
    match rule.type:
        case Kind.TEXT:
            return lambda value, place: value if value.__class__ is str else as_text(value)
        case Kind.INT:
            return lambda value, place: value if value.__class__ is int else as_int(value, decimal)
        case Kind.FLOAT:
            return lambda value, place: as_float(value, decimal)
        case Kind.DECIMAL:
            return lambda value, place: (
                Decimal(repr(value)) if value.__class__ is float and value - value == 0 else as_decimal(value, decimal)
            )
        case Kind.BOOL:
            return lambda value, place: as_bool(value)
        case Kind.DATE | Kind.DATETIME:
            zone = ZoneInfo(rule.tz) if rule.tz else None
            if rule.languages or len(form) > 1 or any(map(without_year, form)):
                return _of_dates(rule, zone)
            if rule.type is Kind.DATETIME and not form and zone is None:
                return lambda value, place: (
                    datetime.fromtimestamp(value, UTC)
                    if value.__class__ is int and 0 <= value < SECONDS
                    else as_datetime(value)
                )
            if rule.type is Kind.DATETIME:
                return lambda value, place: as_datetime(value, form[0] if form else None, zone)
            return lambda value, place: as_date(value, form[0] if form else None, zone)
        case Kind.JSON:
            return lambda value, place: as_json(value)
        case Kind.URL:
            return lambda value, place: place.absolute(as_text(value))
        case Kind.BYTES:
            return lambda value, place: as_bytes(value)


def shown(value: Any) -> str:
    """A value as notes show it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"


def as_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return json.dumps(value, ensure_ascii=False, default=str)
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime() | date():
            return value.isoformat()
    return str(value)


def number(value: Any, decimal: str) -> str:
    """A number as Python writes it, of one with marks between thousands and with this mark before the fraction."""
    text = as_text(value).strip().translate(MINUS)
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"{shown(text)} is too long for a number")
    if decimal == "." and PLAIN(text):
        return text
    if GROUPED[decimal](text):
        return text.replace(",", "") if decimal == "." else text.replace(".", "").replace(",", ".")
    found = (_GROUPED_COMMA if decimal == "," else _GROUPED_POINT)(text)
    if found is None or not (found[2] or found["fraction"]):
        raise ValueError(f"{shown(value)} is not a number" + (" with decimal: ','" if decimal == "," else ""))
    whole = re.sub(r"\D", "", found[2] or "0")
    return f"{found[1]}{whole}" + (f".{found['fraction']}" if found["fraction"] else "")


def _group_pattern(decimal: str, thousands: str) -> Callable[[str], re.Match[str] | None]:
    mark = f"[{re.escape(thousands + SPACES)}]"
    # The marks between thousands are all the same, and three digits come after the last one.
    whole = rf"\d+|\d{{1,3}}(?P<mark>{mark})(?:\d{{2,3}}(?P=mark))*\d{{3}}"
    return re.compile(rf"([+-]?)\s*({whole})?(?:{re.escape(decimal)}(?P<fraction>\d*))?").fullmatch


def as_int(value: Any, decimal: str = ".") -> int:
    if value.__class__ is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value.__class__ is str and len(value) <= LONGEST_NUMBER:
        if DIGITS(value):
            return int(value)
        if decimal == "." and THOUSANDS(value):
            return int(value.replace(",", ""))
    text = number(value, decimal)
    if not DIGITS(text):
        raise ValueError(f"{shown(value)} is not a whole number")
    return int(text)


def as_float(value: Any, decimal: str = ".") -> float:
    result = (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else float(number(value, decimal))
    )
    if result != result or result in (float("inf"), float("-inf")):
        raise ValueError(f"{shown(value)} is too large for a number with a fraction")
    return result


def as_decimal(value: Any, decimal: str = ".") -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value, decimal = repr(value), "."
    try:
        return Decimal(number(value, decimal))
    except InvalidOperation:
        raise ValueError(f"{shown(value)} is not a number") from None


def as_bool(value: Any) -> bool:
    word = as_text(value).strip().lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise ValueError(f"{shown(value)} is neither true nor false")


def as_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{shown(value)} is not JSON: {str(error) or 'too deep'}") from None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


def _may_be_infinite(text: str) -> bool:
    """Whether a JSON text has something like a number that is too large for a float: with an exponent of three digits, or very many
    digits. By the shapes of its characters, in a fortieth of the time of a regular expression."""
    shapes = text.encode("utf-8", "surrogatepass").translate(_SHAPES)
    return b"0e000" in shapes or MANY_DIGITS in shapes


def loads(text: str) -> Any:
    """JSON, without the halves of characters that it may have and nothing else can keep. ValueError or RecursionError if it is none."""
    try:
        if _may_be_infinite(text):
            raise ValueError
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, TypeError):
        # What this one, the faster, does not take, Python's may: halves of characters, and what is nested deeply. NaN is no JSON, but
        # written for values that are not there; so is 1e999, which would be infinite.
        data = json.loads(text, parse_constant=lambda name: None, parse_float=_finite)
        return _whole(data) if "\\u" in text and HALF(text) else data


def _whole(data: Any) -> Any:
    match data:
        case str():
            return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_whole(one) for one in data]
        case dict():
            return {_whole(key): _whole(one) for key, one in data.items()}
    return data


def as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else as_text(value).encode("utf-8", "replace")


def as_datetime(
    value: Any, form: str | None = None, zone: tzinfo | None = None, moment: float | None = None
) -> datetime:
    """A point in time. Without a zone of its own it is in `zone`, or has none; Unix time is in `zone` or UTC. A `form` without a year
    is of the last one before `moment`."""
    text = as_text(value).strip()
    try:
        if form and moment is not None and without_year(form):
            found = in_last_year(text, form, moment, zone)
        else:
            found = datetime.strptime(text, form) if form else _read(text, value)
        if found.tzinfo is None:
            return found if zone is None else found.replace(tzinfo=zone)
        return found if zone is None or found.tzinfo is not UTC else found.astimezone(zone)
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        raise ValueError(f"{shown(value)} is not a date" + (f" as {form!r}" if form else "")) from None


def _of_dates(rule: FieldRule, zone: tzinfo | None) -> Turn:
    """Dates in several ways: by each format, then as without one, then in words."""
    ways: list[str | None] = [*rule.format] if rule.format and not rule.languages else [*rule.format, None]

    def turn(value: Any, place: UrlBase) -> Any:
        for form in ways:
            with suppress(ValueError):
                found = as_datetime(value, form, zone, place.moment())
                break
        else:
            try:
                if not rule.languages:
                    raise ValueError
                found = in_words(
                    as_text(value).strip(), rule.languages, rule.format, place.moment(), zone, rule.order or ""
                )
            except (ValueError, OverflowError):
                said = " nor ".join(map(repr, rule.format)) if rule.format else ""
                words = f" in the words of {', '.join(rule.languages)}" if rule.languages else ""
                if words and NUMBERS(as_text(value)):
                    words += f", in digits {rule.order or order_of(rule.languages, rule.format)} (`order`)"
                raise ValueError(f"{shown(value)} is not a date{f' as {said}' if said else ''}{words}") from None
        return found if rule.type is Kind.DATETIME else found.date()

    return turn


def as_date(value: Any, form: str | None = None, zone: tzinfo | None = None) -> date:
    return as_datetime(value, form, zone).date()


def _read(text: str, value: Any) -> datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _of_unix(float(value))
    if text[4:5] == "-":
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    digits = len(text) if text.isascii() and text.isdigit() else 0
    if digits == 14:
        return datetime.strptime(text, "%Y%m%d%H%M%S")
    if 9 <= digits <= 13 or digits == 16 or re.fullmatch(r"-?\d{9,12}\.\d+|-\d{9,13}", text):
        return _of_unix(float(text))
    if digits not in (0, 8) or len(text) > 100:
        raise ValueError
    iso = re.sub(r"\s*(?:UTC|GMT|Z)$", "+00:00", re.sub(r"\s+(?=[+-]\d\d)", "", text))
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        if found := ALIKE_ISO(text):
            return datetime(*(int(part) for part in found.groups() if part is not None))  # type: ignore[arg-type]
        # That reader would pass over "pm" and be half a day wrong.
        if not MONTH(text) or HALF_DAY(text):
            raise
    mail = parsedate_to_datetime(text)
    # "-0000" says UTC without saying where the sender was.
    return mail.replace(tzinfo=UTC) if text.endswith("-0000") else mail


def _of_unix(seconds: float) -> datetime:
    """Seconds, or the milliseconds and microseconds that scripts write: no such number of seconds is within a thousand years."""
    size = abs(seconds)
    return datetime.fromtimestamp(seconds / (1_000_000 if size >= 1e14 else 1_000 if size >= SECONDS else 1), UTC)


_GROUPED_POINT = _group_pattern(".", ",")
_GROUPED_COMMA = _group_pattern(",", ".")
