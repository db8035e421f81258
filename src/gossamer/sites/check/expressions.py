"""Checks of the small languages in site files: CSS, XPath, regular expressions, JMESPath, cron, time zones, character sets. Each
function returns a message and a hint, or None, and checks the same text once."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

import jmespath  # type: ignore[import-untyped]
from cronsim import CronSim, CronSimError
from jmespath.exceptions import ArityError, JMESPathError, ParseError, UnknownFunctionError  # type: ignore[import-untyped]

from gossamer.sites.extract.charset.labels import known
from gossamer.sites.extract.dates import YEARS, known_languages, without_year
from gossamer.sites.extract.selector.selector import compiled, translated
from gossamer.sites.url.match import pattern_of

Complaint = tuple[str, str] | None
_ESCAPED = re.compile(r"[\x00\x07\x08\x0b\x1b]")
_PREFIX = "pages are read without the prefixes of XML: write title, not dc:title"
# What "\0", "\a", "\b", "\v" and "\e" are in YAML.


@lru_cache(16_384)
def css(text: str) -> Complaint:
    if not text.strip():
        return "the CSS selector is empty", ""
    try:
        path = translated(text)
    except ValueError as error:
        hint = "write ::text or ::attr(name) only at the end" if "::" in text else ""
        return f"this is not a CSS selector: {_small(error.__cause__ or error)}", hint or (
            "this looks like XPath" if text.startswith("/") else ""
        )
    except RecursionError:
        return "this CSS selector is too long", ""
    if "|" in text and xpath(path) is not None:
        return "this CSS selector has a name with a prefix", _PREFIX
    return None


@lru_cache(16_384)
def xpath(text: str) -> Complaint:
    try:
        compiled(text)
    except ValueError as error:
        said = _small(str(error.__cause__ or error).partition(" in ")[0].removeprefix("XPath error: "))
        looks = re.match(r"[.#]?[\w-]+([.#][\w-]+|\s*>\s*\w)", text)
        hint = _PREFIX if "namespace prefix" in said else "this looks like CSS" if looks else ""
        return f"this is not an XPath expression: {said}", hint
    return None


_DIRECTIVE = re.compile("%([A-Za-z])")
_DATES = {
    "YYYY": "%Y",
    "yyyy": "%Y",
    "MM": "%m",
    "DD": "%d",
    "dd": "%d",
    "HH": "%H",
    "hh": "%H",
    "mm": "%M",
    "ss": "%S",
}


@lru_cache(1024)
def date_format(text: str) -> Complaint:
    """The letters of strptime."""
    if "%" in text and (complaint := _bad_directives(text)) is not None:
        return complaint
    signs = set(_DIRECTIVE.findall(text.replace("%%", "")))
    if signs and not signs & set(YEARS) and not without_year(text):
        return "this format says neither a year nor a day", "as %d.%m.%Y; write type: text for a time alone"
    if "%" in text:
        return None
    meant = re.sub("|".join(_DATES), lambda found: _DATES[found[0]], text)
    return (
        "no date is written like this: % begins what stands for a part of it",
        f"as {meant if '%' in meant else '%d.%m.%Y'}",
    )


def _bad_directives(text: str) -> Complaint:
    try:
        datetime.strptime("", text if set(_DIRECTIVE.findall(text.replace("%%", ""))) & set(YEARS) else f"%Y {text}")
    except re.error:
        twice = next((one for one, many in Counter(_DIRECTIVE.findall(text.replace("%%", ""))).items() if many > 1), "")
        return f"this format names the same part twice{f': %{twice}' if twice else ''}", "as %d.%m.%Y"
    except (ValueError, IndexError) as error:
        if "directive in format" in str(error) or "stray %" in str(error):
            bad = next((one for one in re.findall("%.?", text.replace("%%", "")) if not _stands(one)), "%")
            return f"no part of a date is written {bad}", "as %d.%m.%Y, %H:%M; %% stands for % itself"
    return None


def _stands(directive: str) -> bool:
    try:
        datetime.strptime("", directive)
    except (ValueError, IndexError) as error:
        return "directive in format" not in str(error) and "stray %" not in str(error)
    return True


@lru_cache(16_384)
def regex(text: str) -> Complaint:
    try:
        pattern_of(text)
    except re.error as error:
        hints = {
            "unterminated subpattern": "a ( has no ); write \\( for the sign itself",
            "unbalanced parenthesis": "a ) has no (; write \\) for the sign itself",
            "nothing to repeat": "write \\*, \\+ or \\? for the sign itself",
            "unterminated character set": "a [ has no ]; write \\[ for the sign itself",
            "multiple repeat": "write \\*, \\+ or \\? for the sign itself",
            "bad escape": "write \\\\ for a backslash, and single quotes around the expression",
        }
        hint = next((hint for begin, hint in hints.items() if begin in error.msg), "")
        at = f" at character {error.pos + 1}" if error.pos is not None else ""
        return f"this is not a regular expression: {error.msg}{at}", hint
    except (RecursionError, OverflowError):
        return "this regular expression is too large", ""
    if found := _ESCAPED.search(text):
        said = f"here stands the control character {ascii(found[0])[1:-1]}, which pages do not have"
        return said, "in double quotes YAML reads \\b as such a character: write single quotes"
    return None


@lru_cache(16_384)
def query(text: str) -> Complaint:
    """A JMESPath expression."""
    try:
        jmespath.compile(text).search({})
    except (UnknownFunctionError, ArityError) as error:
        return f"this JMESPath expression cannot be used: {_small(error)}", ""
    except ParseError as error:
        where = f" at character {error.lex_position + 1}" if isinstance(error.lex_position, int) else ""
        return (
            f"this is not a JMESPath expression{where}",
            'a name with other signs than letters, digits and _ needs quotes: "a-b"',
        )
    except JMESPathError as error:
        if type(error).__name__ in ("LexerError", "IncompleteExpressionError", "EmptyExpressionError"):
            return f"this is not a JMESPath expression: {_small(error)}", ""
    except RecursionError:
        return "this JMESPath expression is too long", ""
    return None


_CRON = "minute hour day month weekday, as */10 * * * *"


def _is_cron(text: str) -> bool:
    try:
        CronSim(text, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


@lru_cache(4096)
def cron(text: str) -> Complaint:
    fields = text.split()
    if len(fields) in (6, 7):
        # The library takes six, the last for seconds; others put seconds first, and years last.
        meant = " ".join(fields[1:6]).replace("?", "*")
        hint = f"seconds and years are not named; write {meant}" if _is_cron(meant) else _CRON
        return f"this cron expression has {len(fields)} fields, not five", hint
    try:
        next(CronSim(text, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return f"this is not a cron expression: {_small(error)}", _CRON
    except StopIteration:
        return "this cron expression never comes", ""
    return None


@lru_cache(4096)
def zone(name: str) -> Complaint:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return f"there is no time zone {name}", _nearest(
            name, zoneinfo.available_timezones(), "as Europe/Berlin or UTC"
        )
    return None


@lru_cache(4096)
def language(name: str) -> Complaint:
    known = known_languages()
    if name not in known:
        return f"there is no language {name}", _nearest(name, known, "as en, de, zh or en-GB")
    return None


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


@lru_cache(4096)
def charset(name: str) -> Complaint:
    return None if known(name) else (f"there is no character set {name}", "as utf-8, windows-1251 or gb18030")


def _small(error: object) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
