"""What callers say of their tables and rows. Knows nothing of any database."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TYPES = ("text", "int", "float", "decimal", "bool", "date", "datetime", "json", "bytes")

NO_CHILDREN: Mapping[str, Sequence[Row]] = {}


class Column(NamedTuple):
    """A column; `type` is one of TYPES. With `counts` False another value alone is no change for a table with history, as
    with the time of the fetch."""

    name: str
    type: str
    counts: bool = True


class Table(NamedTuple):
    """A table, as the caller wants it.

    `key` names the columns that tell rows apart. A table with a `parent` holds children: it has the parent's key columns with
    `parent_` before their names, and `place` (the child's number, from 0) if it has no key of its own; they need not be among
    `columns`. `history`: a row for each change, with `valid_from`, instead of writing over. `archive`: the caller puts the table aside
    when a round begins; the store itself does so only when told. `existing`: somebody else's table, checked, never created
    or altered. `growing`: a column that the database has keeps its type, whatever is described. `gone`: a column `gone_at` says since
    when the source of a row is gone; a child that its parent does not have any more stays, too. `found_by` is a column by which rows are
    found besides the key.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    parent: str = ""
    history: bool = False
    archive: bool = False
    existing: bool = False
    growing: bool = False
    gone: bool = False
    found_by: str = ""


class PagePart(NamedTuple):
    """What one page says of a row that other pages speak of, too: the pages of a thread, or two layers with one table.

    `page` and `turns` are numbers from 1 that tell the pages of a row apart: this one, and those that it turns to. UNREAD among
    `turns` is a page that nobody will read. `turn` counts the page turns from the first page; of several pages without one, that of
    the lowest `rank` is the first. A `whole` part has no further pages; it replaces what the same page brought before. Where several sources bring children of one table (`shared`),
    each replaces its own only. `lists` is a number of the lists in the row's columns, 0 for none: a row that has them is refused where
    another page of the same thread has brought others, which it would replace. An `absent` part is of a page turn that leads to no
    page of its own: it is not there, or redirects to the page among `turns`, which the thread may have. `round` is a `pass_number`. `alias` is the number of the page that it redirected to, 0 for none: what turns to that one means this page.
    """

    page: int
    turn: int = 0
    turns: tuple[int, ...] = ()
    round: int = 0
    source: int = 0
    whole: bool = False
    shared: bool = False
    rank: int = 0
    lists: int = 0
    absent: bool = False
    alias: int = 0


ROUNDS = 2**32


def pass_number(round: int, changed: int) -> int:
    """The number of a pass over the pages of a thread: a round has one for each text (its digest; 0: none) that lists say of the thread."""
    return round % ROUNDS + changed % 2**30 * ROUNDS


LAST = 2**62
"""The ranks from here on are those of pages that turn to no other one."""
UNREAD = -1
"""A page that a thread has and that is not read: its pages are cut off there."""


class PageOutcome(enum.Enum):
    """What a page says of the rows that it brought before. READ: it has those that come with it, and no others. ADDED: it may still have
    the others, too. UNCHANGED: it has those that it had when it was read last. KEPT: nobody asked for it. EMPTY: it has less than before, and may have
    the others again. ABSENT: it does not exist. LED: it redirects, perhaps to a page that is read as itself."""

    READ = "read"
    ADDED = "added"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    EMPTY = "empty"
    ABSENT = "absent"
    LED = "led"


class PageThread(NamedTuple):
    """The pass over a thread that a page was read in: the numbers of its first page at each of its URLs, that of the pass, and the page turns
    that the page leads to (`UNREAD`: not to all). Rows of `children`, which are tables, are gone when the whole pass did not bring them."""

    firsts: frozenset[int]
    number: int
    is_first: bool
    turns: tuple[int, ...] = ()
    children: frozenset[str] = frozenset()


class PageSource(NamedTuple):
    """A page that brings rows. `site`, `layer` and `page` are numbers that tell pages apart, `round` is the round that it belongs to
    (None: none), `current` the one that is under way, `layer_name` its layer. A page with records has some, of whatever table. Rows of `children`, which are tables, are part of the page: they are gone as soon as
    no page has them, like nested records. `there` is the page that it redirected to, whose rows they are as well; 0: none.
    `thread`: of a page with page turns that are read again with it."""

    site: int
    layer: int
    page: int
    round: int | None
    current: int
    outcome: PageOutcome = PageOutcome.READ
    children: frozenset[str] = frozenset()
    layer_name: str = ""
    has_records: bool = False
    has_links: bool = False
    there: int = 0
    thread: PageThread | None = None


class Row(NamedTuple):
    """A row. A column that is not in `values` stays as it is in the database, and is NULL in a new row. `children`, by the
    child table's name, is the complete set: children that are not in it are deleted. A child table that is not named
    stays as it is. With a `part`, both are only what one page says: `PAGES` must be among the prepared tables. With a `source`, it is
    noted which page brought the row: `SOURCES` must be. A row of `SOURCES` without values notes a page that brings none."""

    table: str
    values: Mapping[str, Any]
    children: Mapping[str, Sequence[Row]] = NO_CHILDREN
    part: PagePart | None = None
    source: PageSource | None = None


PAGES = Table(
    "gossamer_pages",
    (
        Column("thread", "int"),
        Column("source", "int"),
        Column("page", "int"),
        Column("round", "int"),
        Column("first", "int"),
        Column("rank", "int"),
        Column("read", "bool"),
        Column("children", "bytes"),
    ),
    ("thread", "source", "page"),
)
"""Which pages of a row were read, for rows that come in parts. `page` 0 is the row itself: its `first` page with
its `rank`, the `round` it was last read in, whether it was `read` before, and the children of its first page, or of all its pages where several sources bring some.
The `page` ~N (below -1) is where the first page redirected to: the page N is the first one, too. `children` are numbers made of the children's keys. Of a row with `lists` there is that line only: `rank` is their number, `first` the page
that brought them, `children` the pages that it turns to."""

GONE = "gone_at"
"""The column that says since when the source of a row is gone."""

SOURCES = Table(
    "gossamer_sources",
    (
        Column("site", "int"),
        Column("layer", "int"),
        Column("page", "int"),
        Column("record", "int"),
        Column("round", "int"),
        Column("held", "int"),
        Column("gone", "int"),
        Column("target", "text"),
        Column("named", "text"),
    ),
    ("site", "layer", "page", "record"),
    found_by="record",
)
"""Which pages brought which rows of tables with `gone`. `record` 0 is the page itself, with the `round` in which it was last there (NULL: it
belongs to none); its `held` is 2 if it had records when it was read last, 1 if it only led to pages, 0 if neither; its `gone` is the round
since which it redirects, and was not read; of the first page of a thread, `named` is what is known of its page turns; its `target` says
whether it is to be read again (`store.rows.sources`). Any other is a row: its table is the `target`, its key is `named` there; `held` is 1 if
the page had it when it was read last, `gone` the round in which the page, or the row, was found to be gone."""

GAPS = Table(
    "gossamer_gaps",
    (
        Column("site", "int"),
        Column("round", "int"),
        Column("what", "int"),
        Column("kind", "text"),
        Column("layer", "text"),
        Column("detail", "text"),
    ),
    ("site", "round", "what"),
)
"""What is to be known of a round before it says which rows are gone. A `gap`: not all was fetched that the pages of a layer lead to ("": no
page), and why. `empty`: the same, and pages of the layer had no records either, which had some before. `start` and `rules`: by which version of the rules it began, and pages were read. `birth` (round -1): which group it is.
Of a table with `archive` (round -2), which is in the place of the layer: `filled`, the round that it has the rows of, and `group`, which group."""


class Gap(NamedTuple):
    """A line of `GAPS`."""

    kind: str
    layer: str
    detail: str
