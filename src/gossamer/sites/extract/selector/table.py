"""Tables as rows, each a mapping from the names of the header to texts, with the spans of cells resolved as browsers do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from gossamer.sites.extract.content import PageContent
from gossamer.sites.page import LimitExceeded
from gossamer.sites.rows.csv_text import CELLS, COLUMNS, header

GROUPS = frozenset({"thead", "tbody", "tfoot"})
CELL_TAGS = frozenset({"td", "th"})
OTHERS = frozenset({"table", "caption", "colgroup"})
"""What a table may have in it whose content is not its own."""
HREF = "_href"
"""What comes after a column's name for the address of the first link in its cell."""
_NUMBER = re.compile(r"[ \t\n\f\r]*\+?(\d{1,9})").match


class Cell(NamedTuple):
    """A cell, in each of the places that it spans."""

    text: str
    href: str | None
    is_head: bool


Row = dict[int, Cell]
"""The cells by column."""


class RowGroup(NamedTuple):
    """The rows of a thead, tbody or tfoot: no cell spans more than one group."""

    tag: str
    rows: list[Any]


def rows_of_table(page: PageContent, table: Any) -> list[dict[str, str]]:
    """The rows of a table but those of its header: of thead, and those of nothing but th. Raises LimitExceeded."""
    head, above, body = list[Row](), list[Row](), list[Row]()
    for group in _groups(page, table):
        for row in _grid(page, group.rows):
            if group.tag == "thead":
                head.append(row)
            elif not all(cell.is_head for cell in row.values()):
                body.append(row)
            elif not body:
                above.append(row)
    width = 1 + max((max(row) for row in (*head, *above, *body)), default=-1)
    names = header([_name([row.get(place) for row in head or above]) for place in range(width)])
    links = [name + HREF for name in names]
    taken = {*names}
    result = []
    for row in body:
        places = sorted(row)
        cells = {names[place]: row[place].text for place in places}
        for place in places:
            href = row[place].href
            if href is not None and links[place] not in taken:
                cells[links[place]] = href
        result.append(cells)
    return result


def _name(cells: list[Cell | None]) -> str:
    """The name of a column: the texts of its header from top to bottom, that of a cell which spans rows once."""
    texts: list[str] = []
    before = None
    for cell in cells:
        if cell is not None and cell is not before:
            texts.append(cell.text)
        before = cell
    return " ".join(texts)


def _groups(page: PageContent, table: Any) -> list[RowGroup]:
    """Rows outside of any group are one of their own, as are those between two groups."""
    groups: list[RowGroup] = []
    for element in _inside(page, table, GROUPS | {"tr"}):
        if element.tag != "tr":
            groups.append(RowGroup(element.tag, list(_inside(page, element, {"tr"}))))
        elif groups and groups[-1].tag == "":
            groups[-1].rows.append(element)
        else:
            groups.append(RowGroup("", [element]))
    return groups


def _inside(page: PageContent, element: Any, tags: Collection[str]) -> Iterator[Any]:
    """The elements with these tags, also within others that should not be there (form), but not those of inner tables and cells."""
    open_elements = [iter(element)]
    while open_elements:
        child = next(open_elements[-1], None)
        _spend(page)
        if child is None:
            open_elements.pop()
        elif child.tag in tags:
            yield child
        elif isinstance(child.tag, str) and child.tag not in OTHERS and child.tag not in CELL_TAGS:
            open_elements.append(iter(child))


def _grid(page: PageContent, rows: list[Any]) -> Iterator[Row]:
    """The rows of a group that have cells of their own, with those that hang down into them."""
    hanging: dict[int, tuple[Cell, int]] = {}
    for number, element in enumerate(rows):
        hanging = {place: span for place, span in hanging.items() if span[1] >= number}
        row = {place: cell for place, (cell, _) in hanging.items()}
        place, has_own = 0, False
        for one in _inside(page, element, CELL_TAGS):
            has_own = True
            while place in row:
                place += 1
            if place >= COLUMNS:
                raise LimitExceeded(f"a table on the page has more than {COLUMNS:,} columns")
            cell = _cell(page, one)
            down = _span(one, "rowspan")
            last = len(rows) - 1 if down == 0 else min(number + down, len(rows)) - 1
            for across in range(place, min(place + (_span(one, "colspan") or 1), COLUMNS)):
                if across in row:
                    break
                row[across] = cell
                if last > number:
                    hanging[across] = cell, last
        _spend(page, len(row))
        if has_own:
            yield row


def _span(cell: Any, name: str) -> int:
    number = _NUMBER(cell.get(name, ""))
    return int(number[1]) if number is not None else 1


def _cell(page: PageContent, cell: Any) -> Cell:
    """The text of a cell, with a line for each <br>, and its first link; without those of tables in it."""
    texts, href = [cell.text or ""], None
    open_elements = [iter(cell)]
    closed: list[Any] = []
    while open_elements:
        child = next(open_elements[-1], None)
        _spend(page)
        if child is None:
            open_elements.pop()
            if closed:
                texts.append(closed.pop().tail or "")
            continue
        if child.tag == "br":
            texts.append("\n")
        if not isinstance(child.tag, str) or child.tag == "table":
            texts.append(child.tail or "")
            continue
        if href is None and child.tag == "a":
            href = child.get("href")
        texts.append(child.text or "")
        closed.append(child)
        open_elements.append(iter(child))
    return Cell("".join(texts), href, cell.tag == "th")


def _spend(page: PageContent, count: int = 1) -> None:
    """Count the cells and elements that are looked at."""
    page.cells_left -= count
    if page.cells_left < 0:
        raise LimitExceeded(f"the tables of the page have more than {CELLS:,} cells and elements")
