"""Records into SQL: SQLite, PostgreSQL, MariaDB and MySQL."""

from typing import TYPE_CHECKING, Any

from gossamer.model.table import (
    GONE,
    PAGES,
    SOURCES,
    TYPES,
    UNREAD,
    Column,
    Gap,
    PageOutcome,
    PagePart,
    PageSource,
    Row,
    Table,
)
from gossamer.store.thread import in_thread

if TYPE_CHECKING:
    from gossamer.store.growth import TableGrowth
    from gossamer.store.store import Store
    from gossamer.store.writer import Writer

__all__ = [
    "GONE",
    "PAGES",
    "SOURCES",
    "TYPES",
    "UNREAD",
    "Column",
    "Gap",
    "PageOutcome",
    "PagePart",
    "PageSource",
    "Row",
    "Store",
    "Table",
    "TableGrowth",
    "Writer",
    "in_thread",
]


def __getattr__(name: str) -> Any:
    """Import `Store` and `Writer` when they are first used: SQLAlchemy is a third of what a worker imports, and few need it."""
    if name == "Store":
        from gossamer.store.store import Store

        return Store
    if name == "Writer":
        from gossamer.store.writer import Writer

        return Writer
    if name == "TableGrowth":
        from gossamer.store.growth import TableGrowth

        return TableGrowth
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
