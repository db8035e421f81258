"""Dates written in words, as people write them: month names, "3 hours ago", "gestern, 18:30". Read by dateparser, which is loaded when a
field names its `languages`: it takes half a second, and without a language it would try two hundred of them."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Any, NamedTuple

LONGEST = 100
"""Characters of a date."""
FAST, EASTERN = timedelta(hours=1), timedelta(hours=14)
"""How far a page's clock may be ahead: one that is fast, and one of another place."""
YEARS = "YyGcx"
"""The signs of strptime that say a year."""
LEAP_YEARS = 9
"""Of this many years in a row, one at least has a February 29th."""
# A number or a month alone is no date; one without a year is the last one that was.
_SETTINGS = {"REQUIRE_PARTS": ["day", "month"], "PREFER_DATES_FROM": "past"}
# What counts from a moment keeps this part of it; what names its own time does not.
_TRACE = timedelta(microseconds=271_829)
_SIGN = re.compile("%([A-Za-z])")
# A day and a month in digits: with a year, or without one where it can be no time of the day.
_DIGITS = re.compile(
    r"(?<![\d:./-])(\d{1,2})\s?([./-])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})(?![\d:])"
    r"|(?<![\d:./-])(\d{1,2})/(\d{1,2})(?![\d:/])"
)
_TIME = re.compile(r"(?<![\d.])\d{1,2}\.\d\d(?:\s?[Uu]hr)?$")
"""A time at the end of what counts from a moment, as in "gestern, 18.30", is not understood by the library, which leaves it out."""
_GROUPED = re.compile(r"(?<!\d)\d{1,3}(?:[.,' \u00a0\u2009\u202f]\d{3})+(?!\d)")
"""A number in groups, as in "1,200 minutes ago", which the library takes for 1.2, or leaves out."""
_LONG = re.compile(r"(?=(\d{4}))")
"""What may be a year in full, or a time zone, as +0200."""
CENTURY = 1969
"""The first of the hundred years that two digits stand for, as with %y."""
_lock = threading.Lock()  # Big pages are read in threads.


class _Read(NamedTuple):
    """What a text stands for on a day. `moving`: it counts from the moment at which it is read."""

    date: datetime
    moving: bool


def known_languages() -> frozenset[str]:
    """The languages and places that may be named."""
    from dateparser.data.languages_info import (  # type: ignore[import-untyped]
        language_locale_dict,
        language_order,
    )

    return frozenset(language_order) | {place for places in language_locale_dict.values() for place in places}


def in_words(
    text: str, languages: tuple[str, ...], forms: tuple[str, ...], moment: float, zone: tzinfo | None, order: str = ""
) -> datetime:
    """The date that a text says in words at a moment (Unix time). What names no zone is in `zone`; without one it has none, unless
    it is counted from the moment. Day and month in digits stand in this order, or in that of the first language. ValueError if it is
    no date."""
    if len(text) > LONGEST:
        raise ValueError
    now = datetime.fromtimestamp(moment, zone or UTC)
    day = datetime(now.year, now.month, now.day)
    order = order or order_of(languages, forms)
    found = _read(text, languages, forms, day, order)
    if found is None:
        raise ValueError
    date = found.date
    if found.moving:
        return _counted(now, date - day)
    latest = _latest(moment, zone)
    if (later := _a_year_later(date)) is not None and later.replace(tzinfo=None) <= latest:
        # To the library all of today is still to come, so that it takes the year before where none is named.
        again = _read(text, languages, forms, day + timedelta(days=2), order)
        date = again.date if again is not None and again.date == later else date
    if date.tzinfo is not None:
        offset = date.utcoffset() or timedelta()
        return date.replace(tzinfo=timezone(offset) if offset else UTC)
    return date if zone is None else date.replace(tzinfo=zone)


@lru_cache(256)
def order_of(languages: tuple[str, ...], forms: tuple[str, ...] = ()) -> str:
    """The order of day, month and year in digits in the first of these forms (of strptime) that says it, or else in the first of these
    languages: mdy, dmy or ymd."""
    for form in forms:
        signs = "".join(sign for sign in _SIGN.findall(form.replace("%%", "")) if sign in "dmyY")
        if signs.rstrip("yY") in ("dm", "md"):
            return f"{signs[:2]}y"
        if signs == "ymd":
            return signs
    from dateparser.languages.loader import default_loader  # type: ignore[import-untyped]

    return str(default_loader.get_locale(languages[0]).info.get("date_order") or "MDY").lower()


def _is_in_order(text: str, found: datetime, order: str) -> bool:
    """Whether a date in digits has day and month where they belong. The library changes places where that makes a date: 13/03 beside
    02/03 would be days of two orders."""
    digits = _DIGITS.search(text)
    if digits is None:
        return True
    parts = [digits[1], digits[3], digits[4]] if digits[1] else [digits[5], digits[6]]
    places = order if len(parts) == 3 and len(parts[2]) == 2 else order.replace("y", "")
    return (int(parts[places.index("d")]), int(parts[places.index("m")])) == (found.day, found.month)


def without_year(form: str) -> bool:
    """Whether a form (of strptime) says a day and no year."""
    signs = set(_SIGN.findall(form.replace("%%", "")))
    return not signs & set(YEARS) and ("j" in signs or ("d" in signs and bool(signs & set("mbB"))))


def in_last_year(text: str, form: str, moment: float, zone: tzinfo | None) -> datetime:
    """The date that a text says in a form without a year (of strptime): the last one that was. ValueError if it is no date."""
    latest = _latest(moment, zone)
    for year in range(latest.year, latest.year - LEAP_YEARS, -1):
        try:
            found = datetime.strptime(f"{year} {text}", f"%Y {form}")
        except ValueError:
            if year == latest.year - LEAP_YEARS + 1:
                raise
            continue  # A February 29th of another year.
        if found.replace(tzinfo=None) <= latest:
            return found
    raise ValueError


def _latest(moment: float, zone: tzinfo | None) -> datetime:
    """What is later than this on the clock of the page has not been yet. Without a zone, its clock may be that of any place."""
    return datetime.fromtimestamp(moment, zone or UTC).replace(tzinfo=None) + (FAST if zone is not None else EASTERN)


def _a_year_later(date: datetime) -> datetime | None:
    try:
        return date.replace(year=date.year + 1)
    except ValueError:
        return None


def _counted(now: datetime, delta: timedelta) -> datetime:
    """Days count on the clock, hours in time: between them, the clock may have been changed."""
    days = timedelta(days=int(delta / timedelta(days=1)))
    return ((now + days).astimezone(UTC) + (delta - days)).astimezone(now.tzinfo)


@lru_cache(16_384)
def _read(text: str, languages: tuple[str, ...], forms: tuple[str, ...], day: datetime, order: str) -> _Read | None:
    """By day, so that the texts of a page are read once."""
    with _lock:
        found = _parser(languages, day + _TRACE, order).get_date_data(text, list(forms) or None).date_obj
    if found is None or not _is_in_order(text, found, order):
        return None
    moving = found.tzinfo is None and found.microsecond == _TRACE.microseconds
    if moving and (_TIME.search(text) or _GROUPED.search(text)):
        return None
    if not moving and found.year < CENTURY and found.year not in map(int, _LONG.findall(text)):
        # Two digits of a year that is not over are a century ago to the library: today's posts would be.
        found = found.replace(year=found.year + 100)
    return _Read(found - _TRACE if moving else found, moving)


@lru_cache(64)
def _parser(languages: tuple[str, ...], base: datetime, order: str) -> Any:
    made = _parsers()
    settings = {**_SETTINGS, "RELATIVE_BASE": base, "DATE_ORDER": order.upper()}
    if any("-" in language for language in languages):
        return made(locales=list(languages), settings=settings)
    return made(languages=list(languages), settings=settings)


@cache
def _parsers() -> Any:
    from dateparser.date import DateDataParser  # type: ignore[import-untyped]

    return DateDataParser
