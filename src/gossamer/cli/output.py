"""How commands speak: tables for people, lines for pipes, JSON for programs.

On a terminal a table is drawn and fitted to its width. Elsewhere it is one line per row with tabs between
the cells, nothing cut or wrapped, so that `cut`, `awk` and `grep` can rely on it. Text that came from outside
(URLs, reasons, names) is shown with its control characters made visible: a crawled page cannot drive a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from json import dumps
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from gossamer.cli.columns import ColumnLayout
from gossamer.model.plural import counted as counted
from gossamer.model.plural import counted_are as counted_are
from gossamer.model.plural import counted_were as counted_were

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


def write_wrapped(text: str, hanging: int = 4) -> None:
    """Write one line. On a narrower terminal it is broken between words, and the next lines are indented by `hanging`."""
    if not sys.stdout.isatty():
        write_line(text)
        return
    said = visible(text)
    width, inner = get_terminal_size().columns, " " * hanging
    for line in wrap(said, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False) or [""]:
        _write(sys.stdout, line)


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
    layout = ColumnLayout(columns, cells, console.width)
    idle = layout.idle()
    narrow = layout.narrow(idle, optional)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [index for index in range(len(columns)) if index not in idle and index not in narrow]
    for index, width in zip(shown, layout.widths(shown), strict=True):
        number = index in layout.numbers
        table.add_column(columns[index], overflow="fold", justify="right" if number else "left", width=width)
    for line in cells:
        # Text, not str: square brackets in a URL are no markup.
        table.add_row(*(Text(line[index]) for index in shown))
    console.print(table)
    if names := [columns[index] for index in sorted(idle) if columns[index]]:
        console.print(Text(f"empty or 0, and not shown: {', '.join(names)}", "dim"))
    if names := [columns[index] for index in sorted(narrow)]:
        console.print(Text(f"no room for: {', '.join(names)}; a wider terminal and --json have them", "dim"))


def _write(stream: Any, line: str) -> None:
    try:
        stream.write(line + "\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
