"""Pages of CSV: each row as a mapping from the names of the header to texts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from gossamer.sites.page import RECORDS, LimitExceeded

COLUMNS = 1_000
"""Maximum number of columns."""
CELLS = 5_000_000
"""Maximum number of cells on a page."""
CELL_CHARACTERS = csv.field_size_limit()
"""Maximum number of characters in a cell: that of Python's reader."""
HEADER_CHARACTERS = 100_000
"""How much of the header is looked at to find its delimiter."""
DELIMITERS = ",;\t"
_NAMED = re.compile(r'\s*"?sep=([^"\r\n])"?(?:\r\n|\r|\n)', re.IGNORECASE).match
_END = "\ufdd0"
"""No character: a last row of it comes whole only if no quote is open before it."""


class BadRows(ValueError):
    """A text that is not CSV; the message says why."""


class CsvRows(NamedTuple):
    """The rows, and a note on those that have more or fewer cells than the header; "" if none has."""

    rows: list[dict[str, str]]
    note: str


def rows_of(text: str, delimiter: str | None = None) -> CsvRows:
    """The rows of a text; the first one that is not empty is the header. Without a delimiter, the one of DELIMITERS that the header has most of.
    Raises BadRows and LimitExceeded."""
    text = text.lstrip("\ufeff").replace("\0", "")
    if not text.strip():
        raise BadRows("it is empty")
    begin = text.lstrip()[:15].lower()
    if begin.startswith(("<!doctype html", "<html", "<?xml")):
        raise BadRows("it is HTML or XML")
    if (named := _NAMED(text)) is not None:
        # The line by which spreadsheets name the delimiter.
        delimiter, text = named[1], text[named.end() :]
    delimiter = delimiter or _delimiter(text)
    if text.count(delimiter) + text.count("\n") > CELLS:
        raise LimitExceeded(f"the page has more than {CELLS:,} cells")
    found = _read(io.StringIO(text, newline=""), delimiter)
    names = header([name for name, _ in zip(next(found, []), range(COLUMNS + 1), strict=False)])
    rows, short, long, first = [], 0, 0, 0
    for number, cells in enumerate(found, 1):
        if number > RECORDS:
            raise LimitExceeded(f"the page has more than {RECORDS:,} rows")
        if len(cells) != len(names) and (len(cells) < len(names) or any(cells[len(names) :])):
            short, long = short + (len(cells) < len(names)), long + (len(cells) > len(names))
            first = first or number
        rows.append(dict(zip(names, cells, strict=False)))
    return CsvRows(rows, _note(short, long, first))


def header(names: Iterable[str]) -> list[str]:
    """The names of columns: white space in them is squeezed, a column without one is column_N, and of equal ones the second is NAME_2.
    Raises LimitExceeded."""
    squeezed = [" ".join(name.split()) for name in names]
    if len(squeezed) > COLUMNS:
        raise LimitExceeded(f"the page has more than {COLUMNS:,} columns")
    taken, counts, result = {*squeezed}, dict[str, int](), list[str]()
    for place, name in enumerate(squeezed, 1):
        plain = name = name or f"column_{place}"
        if plain in counts:
            number = counts[plain] + 1
            while (name := f"{plain}_{number}") in taken:
                number += 1
            counts[plain] = number
        else:
            counts[plain] = 1
        taken.add(name)
        result.append(name)
    return result


def _delimiter(text: str) -> str:
    """What the header has most of outside quotes; of equal numbers the first in DELIMITERS."""
    line = ""
    for part in text.lstrip("\r\n ")[:HEADER_CHARACTERS].split('"')[::2]:
        lines = part.splitlines()
        line += lines[0] if lines else ""
        if len(lines) > 1 or part.endswith(("\r", "\n")):
            break
    return max(DELIMITERS, key=line.count)


def _read(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The rows that are not empty."""
    reader = csv.reader(chain(lines, (_END,)), delimiter=delimiter)
    row = 0
    try:
        for cells in reader:
            row += 1
            if cells == [_END]:
                return
            if cells and any(cells):
                yield cells
    except csv.Error as error:
        raise BadRows(f"{error}, in row {row + 1}: perhaps a quote does not end") from None
    raise BadRows(f"a quote in row {row} does not end")


def _note(short: int, long: int, first: int) -> str:
    if not first:
        return ""
    return f"csv: {short:,} rows have fewer cells than the header, {long:,} have more, which are left out; the first is row {first:,}"
