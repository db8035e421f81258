"""How commands speak: tables for people, lines for pipes, JSON for programs.

On a terminal a table is drawn and fitted to its width. Elsewhere it is one line per row with tabs between
the cells, nothing cut or wrapped, so that `cut`, `awk` and `grep` can rely on it. Text that came from outside
(URLs, reasons, names) is shown with its control characters made visible: a crawled page cannot drive a terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from json import dumps
from typing import Any

from gossamer.model.plural import counted as counted
from gossamer.model.plural import counted_are as counted_are
from gossamer.model.plural import counted_were as counted_were

_NUMBER = re.compile(r"([≤≥] )?-?[\d,]+(\.\d+)?|")
FOLDED = 20
"""A longer text is folded rather than that another column is left out."""
_BACKSLASH = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(value: Any) -> str:
    """`value` as one printable line; None is empty."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    if character in _BACKSLASH:
        return _BACKSLASH[character]
    return character.encode("unicode_escape").decode("ascii")


def write_json(value: Any) -> None:
    """Write `value` to standard output as one JSON document in plain ASCII, whatever the terminal's encoding."""
    sys.stdout.write(dumps(value, indent=2, allow_nan=False) + "\n")


def write_line(text: str) -> None:
    """Write one line to standard output, control characters made visible."""
    _write(sys.stdout, visible(text))


def write_answer(json: bool, value: Any, line: str) -> None:
    """Write what a command did: `value` if JSON is wanted, else `line`."""
    if json:
        write_json(value)
    else:
        write_line(line)


def write_error(text: str) -> None:
    """Write one line `error: …` to standard error."""
    _write(sys.stderr, f"error: {visible(' '.join(text.split()))}")


def write_notice(text: str) -> None:
    """Write one line to standard error that is no error: progress, what was skipped, what to do next."""
    _write(sys.stderr, visible(text))


def mark(ok: bool | None, doubtful: str = "") -> str:
    """A tick for what is well, a cross for what is not, `doubtful` for neither; in plain letters where no tick can be written."""
    if ok is None:
        return doubtful
    encoding = sys.stdout.encoding or "ascii"
    try:
        "✓✗".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return "ok" if ok else "NO"
    return "✓" if ok else "✗"


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], optional: Sequence[str] = ()) -> None:
    """Write rows under `columns` to standard output, drawn on a terminal and tab-separated elsewhere. On a terminal that is too
    narrow, columns that say nothing are left out, and then those of `optional`, the first of them first."""
    cells = [[visible(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for line in ([column.upper() for column in columns], *cells):
            _write(sys.stdout, "\t".join(line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    idle = _idle(columns, cells, console.width)
    narrow = _narrow(columns, cells, console.width, idle, optional)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [index for index in range(len(columns)) if index not in idle and index not in narrow]
    for index in shown:
        numbers = all(_NUMBER.fullmatch(line[index]) for line in cells) and any(line[index] for line in cells)
        # What tells rows apart, and numbers, are not divided if anything else can be.
        whole = numbers or (index == 0 and _widest(columns, cells, 0) <= console.width // 2)
        table.add_column(columns[index], overflow="fold", justify="right" if numbers else "left", no_wrap=whole)
    for line in cells:
        # Text, not str: square brackets in a URL are no markup.
        table.add_row(*(Text(line[index]) for index in shown))
    console.print(table)
    if names := [columns[index] for index in sorted(idle) if columns[index]]:
        console.print(Text(f"empty or 0, and not shown: {', '.join(names)}", "dim"))
    if names := [columns[index] for index in sorted(narrow)]:
        console.print(Text(f"no room for: {', '.join(names)}; a wider terminal and --json have them", "dim"))


def _widest(columns: Sequence[str], cells: Sequence[Sequence[str]], index: int) -> int:
    return max(map(len, (columns[index], *(line[index] for line in cells))))


def _narrow(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int, idle: set[int], optional: Sequence[str]
) -> set[int]:
    """Columns of `optional` without which the others fit into a width, where long texts may be folded."""
    widths = {
        index: min(_widest(columns, cells, index), FOLDED if index else width) + 2
        for index in range(len(columns))
        if index not in idle
    }
    narrow: set[int] = set()
    for name in optional:
        index = columns.index(name)
        if sum(widths.values()) - 2 <= width:
            break
        if widths.pop(index, None) is not None:
            narrow.add(index)
    return narrow


def _idle(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> set[int]:
    """Columns, from the right, without which the others fit into a width: those that are empty, then those that are 0."""
    widths = [_widest(columns, cells, index) + 2 for index in range(len(columns))]
    idle: set[int] = set()
    for nothing in ({""}, {"", "0"}):
        for index in reversed(range(1, len(columns))):
            if sum(widths) - 2 - sum(widths[one] for one in idle) <= width:
                return idle
            if cells and index not in idle and {line[index] for line in cells} <= nothing:
                idle.add(index)
    return idle


def _write(stream: Any, line: str) -> None:
    try:
        stream.write(line + "\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
