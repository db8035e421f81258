"""Many tables in one store: to make one known costs the same, however many are known already."""

from __future__ import annotations

from typing import Any

import pytest

from gossamer.store import Column, Row, Store, Table
from gossamer.store.database.sqlite import Sqlite

TABLES = 60


def table(number: int) -> list[Table]:
    columns = (Column("id", "int"), Column("name", "text"))
    return [
        Table(f"many{number}", columns, ("id",)),
        Table(f"many{number}_parts", (Column("text", "text"),), parent=f"many{number}"),
    ]


def test_what_is_known_is_not_built_again_for_each_new_table(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built = 0
    before = Sqlite.table

    def counted(self: Sqlite, *arguments: Any) -> Any:
        nonlocal built
        built += 1
        return before(self, *arguments)

    monkeypatch.setattr(Sqlite, "table", counted)
    with Store.open(f"sqlite:///{tmp_path}/many.db") as store:
        for number in range(TABLES):
            store.prepare(table(number))
        # One and its parent to be created, the same to be written.
        assert built <= 6 * TABLES
        for number in range(TABLES):
            parts = [Row(f"many{number}_parts", {"text": "x"})]
            store.write([Row(f"many{number}", {"id": 1, "name": "one"}, {f"many{number}_parts": parts})])
        assert all(len(list(store.read(f"many{number}_parts"))) == 1 for number in range(TABLES))


def test_a_changed_parent_is_known_to_its_children(tmp_path: Any) -> None:
    [parent, child] = table(0)
    with Store.open(f"sqlite:///{tmp_path}/many.db") as store:
        store.prepare([parent, child])
        more = parent._replace(columns=(*parent.columns, Column("more", "text")))
        store.prepare([more])
        store.write(
            [Row("many0", {"id": 1, "name": "one", "more": "x"}, {"many0_parts": [Row("many0_parts", {"text": "y"})]})]
        )
        assert [row["more"] for row in store.read("many0")] == ["x"]
        assert len(list(store.read("many0_parts"))) == 1
