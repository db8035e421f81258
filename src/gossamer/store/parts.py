"""Rows that come in parts: a thread over several pages, or two layers that feed one table.

For each such row the table `PAGES` says which of its pages were read in this round, which are still to come, and which children they
brought. When all are read, the children that none of them has are gone. Until then children are only added.

The first page speaks for the row's columns; its further pages fill what is empty. The first page is the one of the lowest rank among
those that were linked as such: lists of threads often link the last page, too, which alone must not replace the whole thread, and
which may be read before the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, select

from gossamer.errors import StoreRefused
from gossamer.model.table import PAGES, ROUNDS, UNREAD, PagePart

if TYPE_CHECKING:
    from gossamer.store.batch import PreparedRow
    from gossamer.store.rows.identities import Identity
    from gossamer.store.statements import TableStatements

POSITIONS = 2**17
"""Positions that children without a key may have on one page."""


class Columns(Enum):
    """What a page does to the columns of its row: it says what they are; it says so, but where it has nothing another page of the
    round may have brought something; it fills what is empty; it has none."""

    SAYS = "says"
    JOINS = "joins"
    FILLS = "fills"
    LEAVES = "leaves"


class ChildSweep(NamedTuple):
    """What becomes of a row's stored children: those of `keep` stay (None: all), those of `drop` go. A `new` row's children with a
    plain position come from before it had parts: they go."""

    keep: frozenset[int] | None = None
    drop: frozenset[int] = frozenset()
    new: bool = False

    def removes(self, number: int) -> bool:
        return number in self.drop or (self.keep is not None and number not in self.keep)

    def then(self, later: ChildSweep) -> ChildSweep:
        """Both, one after the other."""
        kept = [one.keep for one in (self, later) if one.keep is not None]
        keep = frozenset.intersection(*kept) if kept else None
        return ChildSweep(keep, self.drop | later.drop, self.new or later.new)


class PartDecisions:
    """What to do with the parts of one transaction."""

    def __init__(self) -> None:
        self.columns: dict[int, Columns] = {}
        """By the `id` of a row."""
        self.sweeps: dict[str, dict[Identity, ChildSweep]] = {}
        """By child table and parent."""

    def sweep(self, one: PreparedRow, said: ChildSweep) -> None:
        for table in one.sets:
            sweeps, link = self.sweeps.setdefault(table, {}), one.links[table]
            sweeps[link] = sweeps[link].then(said) if link in sweeps else said


@dataclass
class _PageState:
    """A line of `PAGES`."""

    round: int | None = None
    first: int | None = None
    """Of the row itself: its first page. Of a page: 1 as long as only its rank says that it is to come."""
    rank: int | None = None
    """Of a page turn that is not read: the page that it redirects to."""
    read: bool = False
    children: frozenset[int] = field(default_factory=frozenset)


Thread = dict[tuple[int, int], _PageState]
"""By source and page; page 0 is the row itself. ~N is where its first page redirected to: the page N, which is the first page, too."""


def number_of(*parts: Any) -> int:
    """A number of 63 bits for a table and a key, the same for values as bound and as read from the database."""
    text = "\0".join(map(_text, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _text(value: Any) -> str:
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, Decimal):
        return str(value.normalize())
    return str(value).rstrip(" ")


def first_position(part: PagePart, count: int) -> int:
    """The number of the first of `count` children without a key: no other page of the row has the same. Ordered by page turns."""
    if count > POSITIONS:
        raise StoreRefused(f"A page has {count} children without a key, more than {POSITIONS}. Give them a key.")
    page = part.source ^ part.page if part.whole else part.page
    return (min(part.turn, 2**13 - 1) << 50) | (page % 2**33 << 17)


def decide(connection: Connection, tables: TableStatements, rows: Iterable[PreparedRow]) -> PartDecisions:
    """Note the pages that were read. The lines of a row are locked first, so that workers do this one after the other."""
    decisions = PartDecisions()
    parts = [(number_of(one.shape.name, *one.identity), one) for one in rows]
    if not parts:
        return decisions
    if PAGES.name not in tables.shapes:
        raise StoreRefused(f"The table {PAGES.name} is not prepared, and rows come in parts. Prepare it, too.")
    before = _read(connection, tables, sorted({thread for thread, _ in parts}))
    after = {thread: {key: _PageState(**vars(line)) for key, line in lines.items()} for thread, lines in before.items()}
    for thread, one in parts:
        assert one.part is not None
        children = frozenset(number_of(table, *child.identity) for table, rows in one.sets.items() for child in rows)
        decisions.columns[id(one)], said = apply(after[thread], one.part, children)
        if said is not None:
            decisions.sweep(one, said)
    _write(connection, tables, before, after)
    return decisions


def apply(thread: Thread, part: PagePart, children: frozenset[int]) -> tuple[Columns, ChildSweep | None]:
    """Note one page. What it does to the row's columns, and what becomes of the stored children, None for nothing."""
    if part.lists:
        _note_lists(thread, part)
        return Columns.SAYS, None
    if part.whole:
        # A layer may have several pages for a row, and nobody knows how many: each replaces what it brought itself.
        own = thread.setdefault((part.source, part.page), _PageState())
        gone = own.children - children
        own.round, own.read, own.children = part.round, True, children
        return Columns.SAYS, ChildSweep(drop=gone.difference(*(line.children for line in thread.values())))
    row = thread.setdefault((part.source, 0), _PageState())
    pages = {page: line for (source, page), line in thread.items() if source == part.source and page >= UNREAD and page}
    aliases, first = {~page for source, page in thread if source == part.source and page < UNREAD}, row.first
    redirected = part.alias
    if part.alias and part.alias == row.first and not part.turn:
        part = part._replace(page=part.alias, alias=part.page)  # The first page has another URL that leads to it.
    if part.absent and _is_awaited(row, pages, part):
        if part.round == row.round and (known := pages.get(part.page)) is not None and not known.read and part.turns:
            known.rank = part.turns[0]  # A page that was linked, too, and is still to be stored.
        return Columns.LEAVES, None
    if part.turn and row.first is None:
        return Columns.SAYS, None  # A row of its own that a page turn led to.
    new, changed, came = row.first is None, False, None
    if not part.turn:
        # A list may say in the middle of a round that the thread has changed; its first page comes first then.
        begins = part.round != row.round and (
            part.page == row.first or row.round is None or part.round % ROUNDS != row.round % ROUNDS
        )
        if new:
            row.round = part.round
        elif begins:
            if not part.shared:
                _follow_thread(row, pages)
            pages, row.round, row.read = {}, part.round, True
        else:
            row.read = row.read or part.page == row.first
            came = None if pages else part.round  # Whatever was to come did come.
        known = pages.get(row.first or 0)
        by_its_own = part.page in aliases and not redirected and not (known is not None and known.read)
        if by_its_own or _takes_over(row, pages, part, children, begins=begins):
            if (before := pages.get(row.first or 0)) is not None and before.first and not before.read:
                del pages[row.first or 0]  # Another page was taken for the first one: it need not come.
            changed = not new and part.page != row.first
            moving = row.rank is not None and row.rank < 0
            row.first, row.rank = part.page, _moving(part.rank) if moving else part.rank
        elif part.page == row.first:
            row.rank = part.rank
        pages.setdefault(row.first or 0, _PageState(came, first=1))
    columns = Columns.LEAVES if part.absent else Columns.FILLS
    if part.page == row.first:
        others = changed or any(line.read for page, line in pages.items() if page not in (part.page, part.alias))
        columns = Columns.JOINS if others else Columns.SAYS
        if not part.shared:
            row.children = children
    said = ChildSweep(new=True) if new else None
    if part.turn and part.round != row.round:
        # It comes late, after the next round has begun.
        if part.page in pages and not pages[part.page].read:
            pages[part.page].children |= children
    elif pages:
        linked = None if part.turn else part.rank
        pages[part.page] = _PageState(part.round, rank=linked, read=True, children=children)
        if part.alias not in (0, row.first) and not ((other := pages.get(part.alias)) and other.read):
            pages[part.alias] = _PageState(part.round, read=True, children=children)
        for page in () if part.absent else part.turns:
            pages.setdefault(page, _PageState()).first = None
        for line in pages.values():
            if not line.read and line.rank is not None and line.rank in (part.page, part.alias):
                line.read, line.rank, line.round = True, None, part.round
        if all(line.read for line in pages.values()):
            whole = frozenset().union(*(line.children for line in pages.values()))
            pages = {}
            if part.shared:
                said = ChildSweep(drop=row.children - whole - _others(thread, part.source), new=new)
                row.children = whole
            elif row.read:
                said = ChildSweep(keep=whole)
    for key in [key for key in thread if key[0] == part.source and key[1]]:
        del thread[key]
    thread.update({(part.source, page): line for page, line in pages.items()})
    if redirected and part.page == row.first and part.alias == redirected and not part.turn:
        aliases = {redirected}
    elif row.first != first:
        aliases = set()
    thread.update({(part.source, ~page): _PageState(read=True) for page in aliases})
    return columns, said


def _is_awaited(row: _PageState, pages: dict[int, _PageState], part: PagePart) -> bool:
    """Whether the thread is not of this round, or has something of the page already, or still gets it: it redirects to a page that no
    other page of the thread turns to."""
    known = pages.get(part.page)
    return part.round != row.round or known is None or known.read or not pages.keys() >= {*part.turns}


def _note_lists(thread: Thread, part: PagePart) -> None:
    """StoreRefused for a page of a thread whose lists would replace those of another one."""
    row = thread.setdefault((part.source, 0), _PageState())
    other = row.first not in (None, part.page) and row.rank != part.lists
    if other and (row.first in part.turns or part.page in row.children):
        raise StoreRefused(
            "This page and another one of the same thread, one of which turns to the other, have records with the same key and other "
            "lists: one would replace the other. Yield what the lists hold as records of a layer of their own, and this record on the "
            "first page only. Both were linked as first pages (page.turn is 0): tell them apart by their URL."
        )
    row.first, row.rank, row.read, row.children = part.page, part.lists, True, frozenset(part.turns) - {UNREAD}


def _follow_thread(row: _PageState, pages: dict[int, _PageState]) -> None:
    """A thread whose first page did not come in the whole last round may have a new URL, as where titles are part of URLs: its first
    page is the one that came with children of the old one. A last page that was linked, too, has others. Its URL may change again: its
    rank is a moving one until the same page has come twice."""
    known = pages.get(row.first or 0)
    if known is None or known.read or not known.first or known.round is not None:
        return
    came = [
        (line.rank, page, line.children)
        for page, line in pages.items()
        if line.read and line.rank is not None and (line.children & row.children or not row.children)
    ]
    if came:
        rank, row.first, row.children = min(came, key=lambda one: one[:2])
        row.rank = _moving(rank)


def _moving(rank: int) -> int:
    """The rank of a first page whose URL has changed, and may change again: below 0. And back."""
    return -1 - rank


def _takes_over(
    row: _PageState, pages: dict[int, _PageState], part: PagePart, children: frozenset[int], *, begins: bool
) -> bool:
    """Whether a page is the first one of its thread from now on. `begins`: it is the first that comes in its round."""
    if row.first is None or row.rank is None:
        return True
    if row.rank >= 0:
        return part.rank < row.rank
    if part.rank < _moving(row.rank):
        return True
    known = pages.get(row.first)
    if part.page == row.first or not (begins or (known is not None and not known.read)):
        return False
    return bool(children & row.children if row.children else part.turns or not children)


def _others(thread: Thread, source: int) -> frozenset[int]:
    return frozenset().union(*(line.children for (other, _), line in thread.items() if other != source))


def _read(connection: Connection, tables: TableStatements, threads: list[int]) -> dict[int, Thread]:
    shape, table = tables.shapes[PAGES.name], tables.of[PAGES.name]
    take, give = tables.database.takers(shape), tables.database.givers(shape)
    lock = {"source": 0, "page": 0, "read": take["read"](False)}
    connection.execute(  # type: ignore[call-overload]
        tables.upsert(shape, ("page", "read", "source", "thread"), fill=True),
        [{"thread": thread, **lock} for thread in threads],
    )
    found: dict[int, Thread] = {thread: {} for thread in threads}
    names = ("thread", "source", "page", "round", "first", "rank", "read", "children")
    for start in range(0, len(threads), 200):
        wanted = table.c.thread.in_(threads[start : start + 200])
        query = select(*(table.c[name] for name in names)).where(wanted).with_for_update()
        for thread, source, page, round, first, rank, read, children in connection.execute(query):
            numbers = bytes(children or b"")
            found[thread][source, page] = _PageState(
                round, first, rank, read is not None and give["read"](read), frozenset(_numbers(numbers))
            )
    return found


def _numbers(packed: bytes) -> Iterable[int]:
    return (int.from_bytes(packed[at : at + 8], "big") for at in range(0, len(packed), 8))


def _write(
    connection: Connection, tables: TableStatements, before: dict[int, Thread], after: dict[int, Thread]
) -> None:
    shape, table = tables.shapes[PAGES.name], tables.of[PAGES.name]
    take = tables.database.takers(shape)["read"]
    changed, gone = [], []
    for thread, lines in sorted(after.items()):
        for (source, page), line in sorted(lines.items()):
            if before[thread].get((source, page)) != line:
                packed = b"".join(number.to_bytes(8, "big") for number in sorted(line.children))
                changed.append(
                    {
                        "thread": thread,
                        "source": source,
                        "page": page,
                        "round": line.round,
                        "first": line.first,
                        "rank": line.rank,
                        "read": take(line.read),
                        "children": packed,
                    }
                )
        for source, page in before[thread].keys() - lines.keys():
            gone.append({"gone_thread": thread, "gone_source": source, "gone_page": page})
    if changed:
        connection.execute(tables.upsert(shape, tuple(sorted(changed[0]))), changed)  # type: ignore[call-overload]
    if gone:
        where = and_(*(table.c[name] == bindparam(f"gone_{name}") for name in shape.identity))
        connection.execute(delete(table).where(where), gone)
