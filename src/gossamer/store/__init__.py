"""Records into SQL: SQLite, PostgreSQL, MariaDB and MySQL."""

from gossamer.store.aside import aside
from gossamer.store.description import TYPES, Column, Row, Table
from gossamer.store.store import Store
from gossamer.store.writer import Writer

__all__ = ["TYPES", "Column", "Row", "Store", "Table", "Writer", "aside"]
