"""A query in somebody's own SQL, which may only read."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, text

from gossamer.errors import StoreError
from gossamer.model.plan.query import single_query
from gossamer.store.database.database import Database

Rows = list[dict[str, Any]]


def run(connection: Connection, database: Database, sql: str, most: int) -> Rows:
    """The rows of a query, by the names of its columns. StoreError if it has more than `most`, or two columns of one name."""
    try:
        query = single_query(sql)
    except ValueError as error:
        raise StoreError(f"{sql[:100]!r}: {error}.") from None
    # Some databases end it for a change of tables, which a query is not.
    database.only_read(connection)
    # A colon would name a parameter.
    result = connection.execute(text(re.sub(r"(?<!:):(?!:)", r"\\:", query)))
    names = list(result.keys())
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StoreError(f"The query has two columns called {', '.join(twice)}. Give them names of their own with AS.")
    rows = result.fetchmany(most + 1)
    if len(rows) > most:
        raise StoreError(f"The query has more than {most:,} rows. Let it find fewer.")
    return [dict(zip(names, row, strict=True)) for row in rows]
