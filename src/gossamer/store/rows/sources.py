"""Which pages brought which rows of tables with `gone`, and so which rows have no source any more.

`SOURCES` has a line for each page and each row that it brought. What a page says is noted in the transaction that writes its rows. A row
is gone when a page that brought it does not exist any more, and no other page has brought it in the same round; or when a round is over
that fetched all pages of its layers anew, and none of them brought it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, distinct, exists, func, not_, or_, select, update
from sqlalchemy import Table as SqlTable

from gossamer.model.table import SOURCES, Gap, PageOutcome, PageSource
from gossamer.store.parts import number_of
from gossamer.store.query import behind
from gossamer.store.rows import gaps, gone, threads
from gossamer.store.rows.identities import Identity, among, chunks, plain

if TYPE_CHECKING:
    from gossamer.store.batch import PreparedRow
    from gossamer.store.statements import TableStatements

PAGE = ("site", "layer", "page")
LINE = (*PAGE, "record")
LineKey = tuple[int, int, int, int]
AT_ONCE = 500
"""How many lines of rows that a round did not bring are looked at in one transaction."""

RECORDS = 2
"""What `held` is in the line of a page with records."""
UNCHANGED, OUTDATED = "unchanged", "outdated"
"""The `target` in the line of a page: it had not changed when it was last there; a row of it may have what another page said, which has
lost it since, so it is to be read again, changed or not."""
KEPT = "pages that are not well-formed, or lack required fields, keep the rows that they had"
EMPTY = "pages have none of the records or links that they had before"
LED = "page turns with records or links redirect to other pages now"

_Page = tuple[int, int, int]
Visits = Mapping[PageSource, Sequence["PreparedRow"]]
"""The rows of tables with `gone` that pages bring."""


@dataclass(frozen=True)
class _Line:
    """A line of `SOURCES`, without its key."""

    round: int | None
    held: int = 0
    gone: int | None = None
    target: str = ""
    named: str = ""


def visits_of(rows: Iterable[PreparedRow]) -> Visits:
    """The pages that rows come from: the one that was linked, and the one that it redirected to, which may be linked itself the next time."""
    visits: dict[PageSource, list[PreparedRow]] = {}
    for one in rows:
        if one.source is not None:
            brought = visits.setdefault(one.source, [])
            if one.shape.table.gone and one.values:
                brought.append(one)
    for source, brought in [*visits.items()]:
        if source.there:
            visits.setdefault(source._replace(page=source.there, there=0, thread=None), []).extend(brought)
    return visits


def note(connection: Connection, tables: TableStatements, visits: Visits, now: Callable[[], datetime]) -> None:
    """Note what pages say of their rows. Comes after the rows are written."""
    left = list(visits)
    while left:
        # Two outcomes of one page, as of one that was fetched twice, come one after the other.
        first: dict[_Page, PageSource] = {}
        for source in left:
            first.setdefault(_page(source), source)
        left = [source for source in left if first[_page(source)] is not source]
        _note(connection, tables, {page: (source, visits[source]) for page, source in first.items()}, now)


def _note(
    connection: Connection,
    tables: TableStatements,
    visits: Mapping[_Page, tuple[PageSource, Sequence[PreparedRow]]],
    now: Callable[[], datetime],
) -> None:
    table = tables.of[SOURCES.name]
    # First pages before the others: all pages of a thread come one after the other.
    firsts = {first for source, _ in visits.values() for first in _firsts(source)}
    known = _lines(connection, table, sorted(firsts)) | _lines(connection, table, sorted(visits.keys() - firsts))
    changed: dict[LineKey, _Line] = {}
    back: dict[int, _Line] = {}
    lost: list[tuple[PageSource, Mapping[int, _Line]]] = []
    whole: dict[_Page, PageSource] = {}
    states: dict[_Page, threads.PassState] = {}
    for page, (source, rows) in sorted(visits.items()):
        lines = known.get(page, {})
        if source.outcome is PageOutcome.LED:
            # If it is read by another URL, that comes later.
            if (line := lines.get(0)) is not None and line.gone is None and line.round != source.current:
                changed[*page, 0] = replace(line, gone=source.current)
            continue
        if not (lines or rows or source.has_links or source.thread is not None):
            continue
        source = source._replace(has_records=source.has_records or bool(rows))
        source = _judged(connection, tables, source, lines)
        change = _changes(source, rows, lines)
        for first in _firsts(source):
            if first not in states:
                states[first] = threads.known(known.get(first, {}).get(0, _Line(None)).named)
            if _comes(states[first], source):
                whole[first] = source
        if source.outcome is PageOutcome.ADDED and source.round is not None and _keeps_others(rows, lines):
            gaps.note(connection, tables, source.site, source.round, Gap("kept", source.layer_name, KEPT))
        changed |= {(*page, record): line for record, line in change.items()}
        missing: Mapping[int, _Line] = {}
        if source.outcome is PageOutcome.UNCHANGED:
            back |= {record: line for record, line in change.items() if record}
        elif source.outcome is PageOutcome.ABSENT:
            missing = {record: line for record, line in change.items() if record}
        elif source.outcome is PageOutcome.READ:
            missing = {
                record: line for record, line in change.items() if not line.held and line.target in source.children
            }
        if missing:
            lost.append((source, missing))
    for first, state in states.items():
        line = changed.get((*first, 0)) or known.get(first, {}).get(0)
        if line is None:
            # A URL between two redirects is no page. The others of the first page are.
            whole.pop(first, None)
            continue
        changed[*first, 0] = replace(line, named=threads.written(state))
    _write(connection, tables, changed)
    for target, rows_of in _by_target(tables, back).items():
        gone.revive(connection, tables, tables.shapes[target], rows_of, now)
    for source, missing in lost:
        since = source.current if source.outcome is PageOutcome.ABSENT else None
        own = source.site
        _mark(connection, tables, missing, lambda records: _held(connection, table, records, own, since), source, now)  # noqa: B023
    for first, source in sorted(whole.items()):
        # With a later page of the transaction another pass may have begun.
        if not states[first].awaited:
            _settle_thread(connection, tables, first, source, now)


def _firsts(source: PageSource) -> list[_Page]:
    """The first page of the thread of a page, by each of its numbers."""
    return [] if source.thread is None else [(source.site, source.layer, one) for one in sorted(source.thread.firsts)]


def _comes(state: threads.PassState, source: PageSource) -> bool:
    """Note a page in its thread. Answers whether that is whole now."""
    assert source.thread is not None
    is_read = source.outcome in (PageOutcome.READ, PageOutcome.UNCHANGED)
    # Nobody knows what page turns came after one that does not exist.
    is_read = is_read or (source.outcome is PageOutcome.ABSENT and source.thread.is_first)
    return threads.come(state, source.thread, {source.page, source.there} - {0}, is_read=is_read)


def _settle_thread(
    connection: Connection,
    tables: TableStatements,
    first: _Page,
    source: PageSource,
    now: Callable[[], datetime],
) -> None:
    """A whole pass over a thread has come: note as gone what none of its pages brought. A page that the thread has no more is as one that does
    not exist."""
    table = tables.of[SOURCES.name]
    assert source.thread is not None
    line = _lines(connection, table, [first])[first][0]
    state = threads.known(line.named)
    left = state.left
    found = _lines(connection, table, [(*first[:2], page) for page in sorted(state.read | left)])
    changed: dict[LineKey, _Line] = {}
    missing: dict[int, _Line] = {}
    for page, lines in sorted(found.items()):
        for record, one in lines.items():
            if not record or one.gone is not None or one.target not in source.thread.children:
                continue
            if one.held and page[2] in left:
                changed[*page, record] = replace(one, gone=source.current)
            if not one.held or page[2] in left:
                missing[record] = one
    threads.settled(state)
    changed[*first, 0] = replace(line, named=threads.written(state))
    _write(connection, tables, changed)
    marked = _mark(
        connection, tables, missing, lambda records: _held(connection, table, records, source.site, None), source, now
    )
    outdated = [
        (*page, record)
        for page, lines in sorted(found.items())
        for record, one in lines.items()
        if record in missing and not one.held and record not in marked
    ]
    # Their pages have them no more, and another one has.
    for some in chunks(outdated):
        connection.execute(delete(table).where(among(table, LINE, some)))


def _changes(source: PageSource, rows: Sequence[PreparedRow], known: Mapping[int, _Line]) -> dict[int, _Line]:
    """The lines of a page that are others from now on."""
    before = known.get(0, _Line(None))
    brought = {
        number_of(one.shape.name, *one.identity): _Line(None, 1, None, one.shape.name, _named(one.identity))
        for one in rows
    }
    changed = {record: line for record, line in brought.items() if known.get(record) != line}
    # Another worker may have had the page in a later round meanwhile.
    is_late = source.round is not None and before.round is not None and source.round < before.round
    for record, line in known.items():
        if is_late or not (record and line.held) or record in brought:
            continue
        if source.outcome is PageOutcome.READ:
            changed[record] = replace(line, held=0)
        elif source.outcome is PageOutcome.ABSENT and line.gone is None:
            changed[record] = replace(line, gone=source.current)
        elif source.outcome is PageOutcome.UNCHANGED and line.gone is not None:
            changed[record] = replace(line, gone=None)
    round = before.round if is_late else _round_of(source, before.round)
    held = before.held
    if not is_late and (source.outcome is PageOutcome.EMPTY or _level(source) > held):
        held = _level(source)
    is_read = source.outcome in (PageOutcome.READ, PageOutcome.ADDED)
    target = "" if is_read else before.target
    if source.outcome is PageOutcome.UNCHANGED and target != OUTDATED:
        target = UNCHANGED
    page = _Line(round, held, target=target, named=before.named)
    if known.get(0) != page:
        changed[0] = page
    return changed


def _judged(
    connection: Connection, tables: TableStatements, source: PageSource, known: Mapping[int, _Line]
) -> PageSource:
    """A page that had records, or led to pages, and has less of it now may be another one than the page that was asked for, or the end of a
    list that was cut off: it keeps its rows, and its round says nothing of those below, until a later round has the same."""
    page = known.get(0)
    if page is None:
        return source
    is_again = page.round == (source.current if source.round is None else source.round)
    if source.outcome is PageOutcome.READ and (_level(source) < page.held or (is_again and not source.has_records)):
        if _level(source) < page.held and source.round is not None:
            gaps.note(connection, tables, source.site, source.round, Gap("empty", source.layer_name, EMPTY))
        return source._replace(outcome=PageOutcome.EMPTY)
    if source.outcome is PageOutcome.UNCHANGED and page.held < RECORDS and not is_again:
        return source._replace(outcome=PageOutcome.READ)
    return source


def _keeps_others(rows: Sequence[PreparedRow], known: Mapping[int, _Line]) -> bool:
    """Whether a page brought rows before that do not come with it."""
    held = {record for record, line in known.items() if record and line.held}
    return bool(held) and not held <= {number_of(one.shape.name, *one.identity) for one in rows}


def _level(source: PageSource) -> int:
    return RECORDS if source.has_records else int(source.has_links)


def _page(source: PageSource) -> _Page:
    return source.site, source.layer, source.page


def _lines(connection: Connection, table: SqlTable, pages: Sequence[_Page]) -> dict[_Page, dict[int, _Line]]:
    """The lines of pages. Nobody else changes them until the transaction ends."""
    names = (*LINE, "round", "held", "gone", "target", "named")
    found: dict[_Page, dict[int, _Line]] = {}
    for some in chunks(pages):
        query = select(*(table.c[name] for name in names)).where(among(table, PAGE, some))
        for site, layer, page, record, round, held, since, target, named in connection.execute(query.with_for_update()):
            line = _Line(round, held or 0, since, target or "", named or "")
            found.setdefault((site, layer, page), {})[record] = line
    return found


def _round_of(source: PageSource, before: int | None) -> int | None:
    """The round in which a page was last there. One that comes besides, for a task or from another site, says nothing of rounds, unless the
    present one has brought it, too."""
    if source.round is not None:
        return source.round
    return before if before is not None and before >= source.current else None


def _held(connection: Connection, table: SqlTable, records: Sequence[int], site: int, since: int | None) -> set[int]:
    """The rows that some page has; with `since`, of the pages of this site only those that were there in this round or later. Other sites
    have rounds of their own."""
    query = select(table.c.record).where(table.c.record.in_(records), table.c.held == 1, table.c.gone.is_(None))
    if since is not None:
        page = table.alias("page_line")
        query = query.join(page, and_(*(page.c[name] == table.c[name] for name in PAGE), page.c.record == 0))
        query = query.where(or_(table.c.site != site, page.c.round >= since))
    return set(connection.execute(query.with_for_update(of=table)).scalars())


def _mark(
    connection: Connection,
    tables: TableStatements,
    lines: Mapping[int, _Line],
    held: Callable[[Sequence[int]], set[int]],
    source: PageSource,
    now: Callable[[], datetime],
) -> set[int]:
    """Note rows as gone that no page holds, and return those that are. The pages that hold the others are outdated."""
    table = tables.of[SOURCES.name]
    marked: set[int] = set()
    others: set[int] = set()
    for target, records in _by_target(tables, lines).items():
        shape = tables.shapes[target]
        # Locked first: a page that brings the row at this moment comes before, and holds it, or after.
        there = gone.locked(connection, tables, shape, records)
        for identities in chunks(sorted(there)):
            kept = held([records[one] for one in identities])
            missing = [one for one in identities if records[one] not in kept]
            gone.mark(connection, tables, shape, missing, now)
            marked.update(records[one] for one in missing)
            others |= kept
    _outdate(connection, table, others, source)
    for some in chunks(sorted(marked)):
        where = and_(table.c.site == source.site, table.c.record.in_(some), table.c.gone.is_(None))
        connection.execute(update(table).where(where).values(gone=source.current))
    return marked


def _outdate(connection: Connection, table: SqlTable, records: Iterable[int], source: PageSource) -> None:
    """Note that rows may have what a page said that has lost them, if the pages that have them were not read since."""
    pages: set[_Page] = set()
    for some in chunks(sorted(records)):
        query = select(*(table.c[name] for name in PAGE)).where(
            table.c.record.in_(some), table.c.held == 1, table.c.gone.is_(None)
        )
        pages.update((site, layer, page) for site, layer, page in connection.execute(query))
    # Other sites have rounds of their own.
    unread = or_(table.c.site != source.site, table.c.target == UNCHANGED, table.c.round < source.current)
    for listed in chunks(sorted(pages)):
        where = and_(among(table, PAGE, listed), table.c.record == 0, table.c.held != 0, unread)
        connection.execute(update(table).where(where).values(target=OUTDATED))


def outdated_pages(connection: Connection, tables: TableStatements, site: int) -> set[tuple[int, int]]:
    """The pages of a site that are to be read again, changed or not, by layer."""
    table = tables.of[SOURCES.name]
    query = select(table.c.layer, table.c.page).where(
        table.c.site == site, table.c.record == 0, table.c.target == OUTDATED
    )
    return {(layer, page) for layer, page in connection.execute(query)}


def _by_target(tables: TableStatements, lines: Mapping[int, _Line]) -> dict[str, dict[Identity, int]]:
    """The rows of lines by their tables, in the order in which all lock them; without those of tables that say nothing of gone rows now."""
    found: dict[str, dict[Identity, int]] = {}
    for record, line in lines.items():
        shape = tables.shapes.get(line.target)
        if shape is not None and shape.table.gone:
            found.setdefault(line.target, {})[_identity(line.named)] = record
    return dict(sorted(found.items()))


def settle(
    connection: Connection,
    tables: TableStatements,
    site: int,
    layers: Sequence[int],
    number: int,
    after: LineKey | None,
    now: Callable[[], datetime],
) -> LineKey | None:
    """Note as gone some of the rows that pages of these layers brought in earlier rounds, and none in this one or later: those of the lines
    `after` one. Returns the last line that was looked at; None: it is done."""
    table = tables.of[SOURCES.name]
    page = table.alias("page_line")
    own = and_(table.c.site == site, table.c.layer.in_(layers))
    same_page = and_(*(page.c[name] == table.c[name] for name in PAGE), page.c.record == 0)
    # A page that belongs to no round says nothing of its rows.
    query = (
        select(*(table.c[name] for name in (*LINE, "held", "target", "named")))
        .join(page, same_page)
        .where(own, table.c.record != 0, table.c.gone.is_(None), table.c.target.in_(_targets(tables)))
        .where(or_(table.c.held == 0, page.c.round < number))
        .order_by(*(table.c[name] for name in LINE))
        .limit(AT_ONCE)
    )
    found = connection.execute(query if after is None else query.where(behind(table, LINE, after))).all()
    lines = {record: _Line(None, 1, None, target, named) for _, _, _, record, _, target, named in found}

    def held(records: Sequence[int]) -> set[int]:
        query = select(table.c.record).join(page, same_page)
        query = query.where(table.c.record.in_(records), table.c.held == 1, table.c.gone.is_(None))
        query = query.where(or_(not_(own), page.c.round >= number, page.c.round.is_(None)))
        return set(connection.execute(query.with_for_update(of=table)).scalars())

    source = PageSource(site, 0, 0, number, number)
    marked = _mark(connection, tables, lines, held, source, now)
    # Their pages have them no more, and another one has.
    names = [f"gossamer_is_{name}" for name in LINE]
    where = and_(*(table.c[name] == bindparam(of) for name, of in zip(LINE, names, strict=True)))
    if outdated := [dict(zip(names, line[:4], strict=True)) for line in found if line[3] not in marked and not line[4]]:
        connection.execute(delete(table).where(where), outdated)
    if passed := [line for line in found if line[3] not in marked and line[4]]:
        # That may be one of another site, for which these must not stand when it loses the row, too.
        kept = set().union(*(held(some) for some in chunks(sorted({line[3] for line in passed}))))
        lost = [dict(zip(names, line[:4], strict=True)) for line in passed if line[3] in kept]
        if lost:
            connection.execute(update(table).where(where).values(gone=number), lost)
    return (found[-1][0], found[-1][1], found[-1][2], found[-1][3]) if len(found) == AT_ONCE else None


def _targets(tables: TableStatements) -> list[str]:
    return [name for name, shape in tables.shapes.items() if shape.table.gone]


def note_led(
    connection: Connection, tables: TableStatements, site: int, number: int, layers: Mapping[int, str]
) -> None:
    """A round is over: page turns that had records or links, and redirect to pages that were read anyway since it, may have cut off their
    lists, as a page does that is empty. If a later round finds them so again, that counts."""
    table = tables.of[SOURCES.name]
    where = and_(table.c.site == site, table.c.record == 0, table.c.gone == number, table.c.held > 0)
    for layer in connection.execute(select(table.c.layer).distinct().where(where)).scalars().all():
        if layer in layers:
            gaps.note(connection, tables, site, number, Gap("empty", layers[layer], LED))


def count(connection: Connection, tables: TableStatements, site: int, number: int) -> int:
    """How many rows were found to be gone in a round, and have not come back."""
    table = tables.of[SOURCES.name]
    other = table.alias("other_line")
    there = exists().where(other.c.record == table.c.record, other.c.held == 1, other.c.gone.is_(None))
    found = and_(table.c.site == site, table.c.record != 0, table.c.gone == number)
    query = select(func.count(distinct(table.c.record))).where(found, ~there)
    return int(connection.execute(query).scalar_one())


def _write(connection: Connection, tables: TableStatements, lines: Mapping[LineKey, _Line]) -> None:
    if not lines:
        return
    statement = tables.upsert(
        tables.shapes[SOURCES.name], ("gone", "held", "layer", "named", "page", "record", "round", "site", "target")
    )
    rows = [
        {
            **dict(zip(LINE, key, strict=True)),
            "round": line.round,
            "held": line.held,
            "gone": line.gone,
            "target": line.target or None,
            "named": line.named or None,
        }
        for key, line in sorted(lines.items())
    ]
    connection.execute(statement, rows)  # type: ignore[call-overload]


def _named(identity: Identity) -> str:
    return json.dumps([_plain(value) for value in identity])


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray() | memoryview():
            return {"bytes": bytes(value).hex()}
        case datetime():
            return {"datetime": value.isoformat()}
        case date():
            return {"date": value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
    return value


_READ: Mapping[str, Callable[[str], Any]] = {
    "bytes": bytes.fromhex,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "decimal": Decimal,
}


def _identity(named: str) -> Identity:
    return plain(
        _READ[next(iter(value))](next(iter(value.values()))) if isinstance(value, dict) else value
        for value in json.loads(named)
    )
