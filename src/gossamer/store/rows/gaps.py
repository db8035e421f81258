"""What a round of a site did not fetch, and by which rules it was read: a round with gaps says nothing of rows that it did not bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, select, update

from gossamer.model.table import GAPS, SOURCES, Gap
from gossamer.store.parts import number_of

if TYPE_CHECKING:
    from gossamer.store.statements import TableStatements

BEFORE = -1
"""Stands for all rounds of a group that was dropped, and for the line with its birth."""


def begin(connection: Connection, tables: TableStatements, site: int, number: int, birth: str, rules: str) -> None:
    """A round begins. If the group is another one than before, the rounds of the former one are past."""
    table, sources = tables.of[GAPS.name], tables.of[SOURCES.name]
    born = select(table.c.detail).where(table.c.site == site, table.c.round == BEFORE)
    before = connection.execute(born.with_for_update()).scalar()
    if before is not None and before != birth:
        pages = and_(sources.c.site == site, sources.c.record == 0, sources.c.round.is_not(None))
        connection.execute(update(sources).where(pages).values(round=BEFORE))
        gone = and_(sources.c.site == site, sources.c.gone.is_not(None))
        connection.execute(update(sources).where(gone).values(gone=BEFORE))
        connection.execute(delete(table).where(table.c.site == site, table.c.round >= BEFORE))
        if number:
            note(
                connection,
                tables,
                site,
                number,
                Gap("gap", "", "the group is not the one that the round before was of"),
            )
    connection.execute(delete(table).where(table.c.site == site, table.c.round < number - 1, table.c.round > BEFORE))
    if before != birth:
        note(connection, tables, site, BEFORE, Gap("birth", "", birth))
    note(connection, tables, site, number, Gap("start", "", rules))


def note(connection: Connection, tables: TableStatements, site: int, number: int, gap: Gap) -> None:
    """Note one line; twice is as good as once."""
    shape = tables.shapes[GAPS.name]
    what = number_of(*gap) if gap.kind != "gap" else number_of(gap.kind, gap.layer)
    row = {"site": site, "round": number, "what": what, **gap._asdict()}
    connection.execute(tables.upsert(shape, tuple(sorted(row))), [row])  # type: ignore[call-overload]


def known(connection: Connection, tables: TableStatements, site: int, number: int) -> list[Gap]:
    """What was noted of a round, and the birth of the group."""
    table = tables.of[GAPS.name]
    query = select(table.c.kind, table.c.layer, table.c.detail).where(
        table.c.site == site, table.c.round.in_([number, BEFORE])
    )
    return [Gap(kind, layer or "", detail or "") for kind, layer, detail in connection.execute(query)]
