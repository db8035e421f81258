"""The command line of `gossamer task feed`; what it does with workers is in tests/feeder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from tests.support.command import Command

from gossamer.errors import StoreUnavailable
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Token
from gossamer.store.task_table import TaskTable


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--table", "#"), 2, "write --table as URL#TABLE"),
        (("--table", "pages"), 2, "set GOSSAMER_STORE_URL"),
        (("--table", "nonsense#pages"), 3, "is not the URL of a database"),
        (("--table", "FILE#pages", "--task", "url"), 2, "write NAME=COLUMN"),
        (("--table", "FILE#pages", "--task", "filter=x"), 2, "the primary key says what is done once"),
        (("--table", "FILE#pages", "--max-open", "0"), 2, "greater than or equal to 1"),
        (("--table", "FILE#missing"), 3, "there is no table missing"),
        (("--table", "FILE#pages", "--task", "url=link"), 3, "has no column link; it has id, url"),
        (("--table", "FILE#pages"), 3, "With --prepare they are added"),
        (("--table", "FILE#pages", "--prepare", "--where", "nonsense = 1"), 3, "nonsense"),
    ],
)
def test_misuse_is_named(
    command: Command, frontier: ValkeyFrontier, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "pages.db")) as made, made:
        made.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT)")
    given = [word.replace("FILE", f"sqlite:///{tmp_path}/pages.db") for word in words]
    assert said in command("task", "feed", "news:tasks", *given, code=code).err


def test_a_table_of_the_store_that_is_done(
    command: Command, frontier: ValkeyFrontier, crawl_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing to do: 0. Something failed: 1. Nothing is pushed in either case."""
    monkeypatch.setenv("GOSSAMER_STORE_URL", f"sqlite:///{tmp_path}/pages.db")
    with closing(sqlite3.connect(tmp_path / "pages.db")) as made:
        made.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT)")
        key = f"{crawl_name}:tasks"
        done = command("task", "feed", key, "--table", "pages", "--prepare")
        assert done.out == f"pages: no rows\n0 tasks were pushed to {key}\n"
        made.execute("INSERT INTO pages (id) VALUES (7)")
        made.commit()
        done = command("task", "feed", key, "--table", "pages", code=1)
        assert done.out.startswith("pages: 1 failed\n")
        assert made.execute("SELECT task_state, task_detail FROM pages").fetchall() == [
            ("failed", "no task: its URL is empty")
        ]
    assert frontier.lease_tasks(Token.fresh(), key, 5) == []


def test_a_database_that_is_away_when_all_is_done_is_waited_for(
    command: Command, frontier: ValkeyFrontier, crawl_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code says whether rows failed, so they are counted at last."""
    counts, calls = TaskTable.counts, count(1)

    def away_at_the_end(self: TaskTable) -> dict[str, int]:
        if next(calls) == 2:
            raise StoreUnavailable("it does not answer")
        return counts(self)

    monkeypatch.setattr(TaskTable, "counts", away_at_the_end)
    with closing(sqlite3.connect(tmp_path / "pages.db")) as made, made:
        made.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT)")
        made.execute("INSERT INTO pages (id) VALUES (7)")
    done = command(
        "task", "feed", f"{crawl_name}:tasks", "--table", f"sqlite:///{tmp_path}/pages.db#pages", "--prepare", code=1
    )
    assert "waiting: it does not answer" in done.err
    assert done.out.startswith("pages: 1 failed\n")
