"""Whatever others do to a table of tasks meanwhile, every row comes to its end, and none is fetched more often than somebody opened it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.feeder.test_feeder import Fed

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Ending, Token
from gossamer.settings import load
from gossamer.testing.servers import Server

ROWS = 12


class Edit(NamedTuple):
    """Somebody writes the state and the number of tries of a row; `tries` is -1: that stays."""

    row: int
    state: str | None
    tries: int | None


EDITS = st.builds(
    Edit,
    st.integers(1, ROWS),
    st.sampled_from([None, "", "waiting", "running", "lost", "failed", "done"]),
    st.sampled_from([None, -1, 0, 1, 5]),
)
OFTEN = ["feed", "take", "fetch", "second feeder"]
STEPS = st.lists(
    st.one_of(EDITS, st.sampled_from([*OFTEN, *OFTEN, "fail", "die", "forget", "delete", "insert", "replay", "pause"])),
    min_size=5,
    max_size=25,
)


def edited(fed: Fed, edit: Edit) -> None:
    tries = "task_tries" if edit.tries == -1 else "?"
    values = [edit.state, *([] if edit.tries == -1 else [edit.tries]), edit.row]
    fed.database.execute(f"UPDATE pages SET task_state = ?, task_tries = {tries} WHERE id = ?", values)


def done(fed: Fed, step: str) -> None:
    if step == "feed":
        fed.feeder.step()
    elif step == "take":
        fed.take(3)
    elif step == "fetch":
        fed.fetch(3)
    elif step == "fail":
        fed.fetch(1, Ending.FAILED)
    elif step == "die":
        fed.new_feeder(max_waiting=4)
    elif step == "second feeder":
        first = fed.feeder
        fed.new_feeder(max_waiting=4).step()
        fed.feeder = first
    elif step == "delete":
        fed.database.execute("DELETE FROM pages WHERE id = (SELECT MAX(id) FROM pages)")
    elif step == "insert":
        fed.database.execute("INSERT OR IGNORE INTO pages (id) VALUES (?)", (ROWS,))
    elif step == "replay":
        for letter in fed.frontier.dead_letters("g")[:1]:
            fed.frontier.replay(letter.partition, [letter.id])
    elif step == "pause":
        fed.frontier.pause(group="g")
        fed.feeder.step()
        fed.frontier.resume(group="g")
    else:
        fed.fetch(1, silent=True)


@settings(max_examples=15)
@given(steps=STEPS)
def test_rows_come_to_their_end_whatever_others_write(valkey_server: Server, steps: list[Edit | str]) -> None:
    environ = {"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": Token.fresh().incarnation}
    with TemporaryDirectory() as folder, ValkeyFrontier.open(load(environ, {})) as frontier:
        fed = Fed(frontier, Path(folder))
        opened: Counter[int] = Counter(range(1, ROWS + 1))
        try:
            for step in steps:
                if isinstance(step, Edit):
                    edited(fed, step)
                    opened[step.row] += 1
                else:
                    before = Counter(fed.fetched)
                    done(fed, step)
                    if step == "forget":
                        opened += Counter(fed.fetched) - before
                    if step in ("insert", "replay"):
                        opened.update(range(1, ROWS + 1))
            fed.finish()
            assert set(fed.states()) <= {"done", "failed"}
            fetched = Counter(fed.fetched)
            assert not fetched - opened, "more often than it was opened"
            closed = {step.row for step in steps if isinstance(step, Edit) and step.state in ("done", "failed")}
            rows = {row for (row,) in fed.database.execute("SELECT id FROM pages")}
            assert set(fetched) | closed >= rows, "each once at least"
        finally:
            fed.store.close()
            fed.database.close()
