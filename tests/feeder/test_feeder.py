"""Rows of a table as tasks: nothing is lost and nothing doubled, whoever is killed and whatever goes back to an older state."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gossamer.courier.task.report import carrying, reported, split_report
from gossamer.errors import PolicyError
from gossamer.feeder import RowTask, TableFeeder
from gossamer.frontier import codec
from gossamer.frontier.server import keys
from gossamer.frontier.task_reports import TaskReports
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter, Ending, GroupPolicy, LanePolicy, Lease, Request, Settlement, Token, fingerprint
from gossamer.settings import load
from gossamer.store import Store
from gossamer.store.task_table import TaskEnding, TaskTable
from gossamer.testing.servers import Cluster

ROWS = 12


class Fed:
    """A table of rows, a feeder that looks at everything at every step, and a worker that does what workers do."""

    def __init__(self, frontier: ValkeyFrontier, folder: Path) -> None:
        self.frontier, self.key = frontier, f"{frontier.crawl}:tasks"
        self.database = sqlite3.connect(folder / "pages.db", isolation_level=None)
        self.database.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY)")
        self.database.executemany("INSERT INTO pages (id) VALUES (?)", [(n,) for n in range(1, ROWS + 1)])
        self.store = Store.open(f"sqlite:///{folder}/pages.db")
        self.table = TaskTable(self.store, "pages", ["id"])
        self.table.check(prepare=True)
        frontier.define("g", {"a": LanePolicy()}, GroupPolicy(tasks=(self.key,)))
        self.feeder = self.new_feeder()
        self.fetched: list[int] = []
        self.token = Token.fresh()

    def new_feeder(self, **more: Any) -> TableFeeder:
        """As after the death of the one before."""
        row_task = RowTask({"pass.id": "id"}, "http://h/{id}")
        self.feeder = TableFeeder(self.frontier, self.table, self.key, row_task, self.reports(), every=0.0, **more)
        return self.feeder

    def reports(self) -> TaskReports:
        return TaskReports(self.frontier, self.key, "pages", "sqlite:///pages.db")

    def states(self) -> dict[str, int]:
        return dict(self.database.execute("SELECT COALESCE(task_state, 'new'), COUNT(*) FROM pages GROUP BY 1"))

    def take(self, want: int = 100) -> None:
        """Tasks become requests."""
        tasks = self.frontier.lease_tasks(self.token, self.key, want)
        for task in tasks:
            data, report = split_report(task.data)
            url = json.loads(data)["url"]
            payload = codec.encode_request({"url": url})
            request = Request(fingerprint(url), url, "g.a", payload, dont_filter=True)
            assert report is not None
            self.frontier.add([carrying(request, report)], key=f"t{task.identity}")
        if tasks:
            self.frontier.settle_tasks(self.token, self.key, done=tasks)
        self.token = self.token.next()

    def fetch(self, want: int = 100, ending: Ending = Ending.DONE, *, silent: bool = False) -> int:
        """Pages are fetched and settled; `silent`: without a report, as if what was reported had been lost."""
        leases: list[Lease] = []
        for _ in range(self.frontier.partitions):
            leases += self.frontier.exchange(self.token, want=want - len(leases)).leases
            self.token = self.token.next()
        settled = [Settlement(lease, ending, reason="bad") for lease in leases]
        for lease in leases:
            self.fetched.append(int(codec.decode_request(lease.payload)["url"].rpartition("/")[2]))
        self.frontier.exchange(self.token, settle=settled if silent else [reported(each) for each in settled])
        self.token = self.token.next()
        return len(leases)

    def finish(self) -> None:
        for _ in range(20):
            self.feeder.step()
            self.take()
            self.fetch()
            if not self.table.left():
                return
        raise AssertionError(self.states())


@pytest.fixture
def fed(frontier: ValkeyFrontier, tmp_path: Path) -> Iterator[Fed]:
    made = Fed(frontier, tmp_path)
    yield made
    made.store.close()
    made.database.close()


ALL = list(range(1, ROWS + 1))


def test_a_key_that_nobody_takes_tasks_from_is_named(fed: Fed, caplog: pytest.LogCaptureFixture) -> None:
    """A key that was mistyped, or a site that was never pushed: the feeder waited for ever, without a word."""
    right, fed.key = fed.key, "mistyped:tasks"
    fed.new_feeder()
    for _ in range(4):
        fed.feeder.step()
    [said] = [one.getMessage() for one in caplog.records]
    assert said.endswith(f"from the key mistyped:tasks (others do from {right}). The rows wait until one does.")
    fed.frontier.define("late", {"a": LanePolicy()}, GroupPolicy(tasks=("mistyped:tasks",)))
    fed.feeder.step()
    assert len(caplog.records) == 1
    assert fed.states() == {"waiting": ROWS}


def test_rows_that_wait_for_somebody_to_resume_say_so(fed: Fed, caplog: pytest.LogCaptureFixture) -> None:
    fed.frontier.pause(group="g", reason="pages_full")
    for _ in range(3):
        fed.feeder.step()
    fed.frontier.pause(reason="maintenance")
    fed.feeder.step()
    assert [one.getMessage() for one in caplog.records] == [
        "The rows wait: g is paused: pages_full.",
        "The rows wait: the crawl is paused: maintenance.",
    ]
    fed.frontier.resume()
    fed.frontier.resume(group="g")
    fed.finish()
    assert len(caplog.records) == 2


def test_rows_become_tasks_and_take_their_state_back(fed: Fed) -> None:
    fed.new_feeder(max_waiting=5, max_open=8)
    fed.feeder.step()
    assert fed.states() == {"waiting": 5, "new": 7}
    fed.take()
    fed.feeder.step()
    assert fed.states() == {"waiting": 3, "running": 5, "new": 4}, "no more than eight are open"
    fed.fetch(2)
    fed.fetch(1, Ending.FAILED)
    fed.feeder.step()
    assert fed.states()["done"] == 2
    assert fed.states()["failed"] == 1
    fed.finish()
    assert fed.states() == {"done": ROWS - 1, "failed": 1}
    assert sorted(fed.fetched) == ALL
    assert fed.database.execute("SELECT task_detail FROM pages WHERE task_state = 'failed'").fetchall() == [("bad",)]
    assert fed.feeder.counts == (ROWS, ROWS - 1, 1, 0, 0)
    # A dead letter that is replayed changes its row.
    [letter] = fed.frontier.dead_letters("g")
    fed.frontier.replay(letter.partition, [letter.id])
    assert fed.fetch() == 1
    fed.feeder.step()
    assert fed.states() == {"done": ROWS}
    left = [
        key.decode() for key in fed.frontier.connection.execute("KEYS", "*", key=fed.key) if fed.key in key.decode()
    ]
    assert [key for key in left if key.endswith((":w", ":u", ":h", ":x")) or "ended" in key] == [], "nothing is left"


def test_on_a_cluster_too(cluster: Cluster, crawl_name: str, tmp_path: Path) -> None:
    """Where the pages, their tasks and their reports may lie on different servers."""
    given = {"GOSSAMER_URL": cluster.url, "GOSSAMER_CRAWL": crawl_name, "GOSSAMER_PARTITIONS": 3}
    with ValkeyFrontier.open(load(given, environ={})) as frontier:
        fed = Fed(frontier, tmp_path)
        with closing(fed.database), fed.store:
            fed.finish()
            assert sorted(fed.fetched) == ALL
            assert fed.feeder.counts == (ROWS, ROWS, 0, 0, 0)


def test_a_feeder_that_dies_loses_and_doubles_nothing(fed: Fed) -> None:
    # After rows were claimed, before their tasks were pushed.
    fed.table.claim(4)
    fed.new_feeder().step()
    assert fed.frontier.task_counts([fed.key])[0].waiting == ROWS
    # While tasks wait, while they run, and after they were reported.
    fed.new_feeder().step()
    fed.take(6)
    fed.new_feeder().step()
    fed.fetch(3)
    fed.new_feeder().step()
    assert fed.states() == {"done": 3, "running": 3, "waiting": 6}
    # After the table has a report, before it has left the list.
    fed.fetch(1)
    [report] = fed.frontier.connection.execute("LRANGE", fed.reports().name, 0, -1, key=fed.key)
    fed.database.execute("UPDATE pages SET task_state = 'done' WHERE id = ?", (json.loads(json.loads(report)["key"]),))
    fed.new_feeder()
    fed.finish()
    assert sorted(fed.fetched) == ALL
    assert fed.states() == {"done": ROWS}


def test_what_a_server_lost_that_went_back_is_pushed_again(fed: Fed) -> None:
    fed.feeder.step()
    fed.take(6)
    fed.fetch(2)
    fed.feeder.step()
    gone = [*keys.task_keys(fed.key), *(keys.task_keys(fed.key)[1] + end for end in (":w", ":h"))]
    for key in gone:
        fed.frontier.connection.execute("DEL", key, key=key)
    fed.finish()
    assert set(fed.fetched) == set(ALL)
    assert fed.states() == {"done": ROWS}
    assert fed.feeder.counts.pushed_again == ROWS - 2


def test_what_is_reported_twice_is_counted_once(fed: Fed) -> None:
    """It told that 434 of 400 rows had ended, after the server went back."""
    fed.feeder.step()
    fed.take()
    fed.fetch()
    reports = fed.frontier.connection.execute("LRANGE", fed.reports().name, 0, -1, key=fed.key)
    fed.feeder.step()
    ended = fed.database.execute("SELECT id, task_at FROM pages").fetchall()
    fed.frontier.connection.execute("RPUSH", fed.reports().name, *reports, key=fed.key)
    fed.feeder.step()
    assert (fed.feeder.counts.done, fed.states()) == (ROWS, {"done": ROWS})
    assert fed.database.execute("SELECT id, task_at FROM pages").fetchall() == ended


def test_a_table_that_went_back_doubles_nothing(fed: Fed) -> None:
    fed.feeder.step()
    fed.take(6)
    fed.database.execute("UPDATE pages SET task_state = NULL, task_tries = NULL")
    fed.finish()
    assert sorted(fed.fetched) == ALL
    assert fed.states() == {"done": ROWS}


def test_what_nobody_has_is_given_out_again_and_not_for_ever(fed: Fed) -> None:
    fed.new_feeder(tries=2)
    fed.feeder.step()
    fed.take()
    fed.fetch(4, silent=True)
    fed.fetch(100)
    fed.feeder.step()
    assert fed.states() == {"done": ROWS - 4, "lost": 4}
    fed.feeder.step()
    assert fed.states() == {"done": ROWS - 4, "waiting": 4}
    fed.take()
    assert fed.fetch(3) == 3
    assert fed.fetch(1, silent=True) == 1
    fed.feeder.step()
    assert fed.states() == {"done": ROWS - 1, "failed": 1}
    assert fed.database.execute("SELECT task_detail FROM pages WHERE task_state = 'failed'").fetchall() == [
        ("lost, 2 times",)
    ]


@pytest.mark.parametrize(
    ("state", "tries"), [("waiting", None), ("running", 0), ("waiting", -1), ("", None), ("lost", None)]
)
def test_a_row_that_somebody_has_opened_comes_to_its_end_once(fed: Fed, state: str, tries: int | None) -> None:
    """It was fetched in every round of the feeder: what became of a try without a number was not noted."""
    fed.database.execute("UPDATE pages SET task_state = ?, task_tries = ? WHERE id IN (3, 4)", (state, tries))
    fed.feeder.step()
    fed.take()
    fed.fetch(1, Ending.FAILED)
    fed.finish()
    assert (sorted(fed.fetched), fed.states()) == (ALL, {"done": ROWS - 1, "failed": 1})


def test_a_row_in_a_state_that_is_none_is_counted(fed: Fed) -> None:
    fed.database.execute("UPDATE pages SET task_state = 'pending' WHERE id = 3")
    fed.finish()
    assert fed.table.counts() == {"new": 0, "waiting": 0, "running": 0, "done": 11, "failed": 0, "lost": 0, "other": 1}


def test_feeders_of_two_keys_leave_each_other_their_rows(fed: Fed) -> None:
    """Each offered the open rows of the other to its own workers, and took them for lost."""
    keys_of = fed.key, f"{fed.key}:others"
    fed.frontier.define("others", {"a": LanePolicy()}, GroupPolicy(tasks=keys_of[1:]))
    tables = [
        TaskTable(fed.store, "pages", ["id"], where, key)
        for where, key in zip(("id <= 5", "id > 5"), keys_of, strict=True)
    ]
    feeders = []
    for table, key in zip(tables, keys_of, strict=True):
        table.check(prepare=False)
        reports = TaskReports(fed.frontier, key, "pages", "sqlite:///pages.db")
        feeders.append(TableFeeder(fed.frontier, table, key, RowTask({}, "http://h/{id}"), reports, every=0.0))
    for _ in range(3):
        for feeder in feeders:
            feeder.step()
    assert [feeder.counts.pushed for feeder in feeders] == [5, 7]
    assert [table.open_count() for table in tables] == [5, 7]
    assert [feeder.counts.lost for feeder in feeders] == [0, 0]
    changed = TaskTable(fed.store, "pages", ["id"], "", keys_of[0])
    changed.check(prepare=False)
    assert changed.given_elsewhere() == {keys_of[1]: 7}


def test_two_feeders_take_each_report_once(fed: Fed) -> None:
    fed.feeder.step()
    fed.take()
    fed.fetch(1)
    name = fed.reports().name
    [report] = fed.frontier.connection.execute("LRANGE", name, 0, -1, key=name)
    fed.feeder.step()
    fed.fetch(1)
    # The other one has read the first report, too, and is slower.
    fed.feeder._end([TaskEnding(json.loads(report)["key"], 1, "done")], [report])
    fed.finish()
    assert sorted(fed.fetched) == ALL


def test_a_row_that_was_never_given_out_is_not_ended_by_a_report(fed: Fed) -> None:
    """As where a table is made anew and dead letters of the one before it are replayed."""
    fed.feeder.step()
    fed.take()
    fed.fetch(2)
    fed.fetch(2, Ending.FAILED)
    fed.database.execute("DELETE FROM pages")
    fed.database.executemany("INSERT INTO pages (id) VALUES (?)", [(n,) for n in fed.fetched])
    fed.fetched.clear()
    fed.finish()
    assert len(fed.fetched) == ROWS


def test_what_waits_again_is_not_forgotten(fed: Fed) -> None:
    """As where another feeder was faster."""
    fed.feeder.step()
    reports = fed.reports()
    assert reports.end(lost=["1", "2"]) == "ww"
    fed.take()
    assert reports.end(lost=["1", "2"]) == "ff"


def test_dead_letters_that_no_worker_could_report_are_found(fed: Fed) -> None:
    fed.feeder.step()
    [bad, killer] = fed.frontier.lease_tasks(fed.token, fed.key, 2)
    fed.frontier.bury("g", bad.data, reason="bad_task", key="1")
    _, report = split_report(killer.data)
    assert report is not None
    request = carrying(Request(1, "h", "g.a", codec.encode_request({"url": "http://h"})), report)
    fed.frontier.bury("g", request.payload, reason="poison", key="2")
    fed.frontier.settle_tasks(fed.token, fed.key, done=[bad, killer])
    fed.token = fed.token.next()
    fed.feeder.step()
    assert fed.states() == {"failed": 2, "waiting": ROWS - 2}
    told = fed.database.execute("SELECT task_detail FROM pages WHERE task_state = 'failed' ORDER BY id").fetchall()
    assert told == [("dead letter: bad_task",), ("dead letter: poison",)]
    # Given out again, the letters of the try before say nothing of them.
    assert fed.table.renew_failed() == 2
    fed.new_feeder()
    fed.finish()
    assert fed.states() == {"done": ROWS}


def test_dead_letters_are_read_once_however_many_there_are(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was read by a call of its own, in every look: with fifty thousand of them a look took half a minute."""
    read: list[int] = []
    for number in range(200):
        fed.frontier.bury("g", b"nothing of ours", reason="bad", key=f"other {number}")

    def counted(frontier: ValkeyFrontier, partition: int, numbers: Sequence[int]) -> list[DeadLetter]:
        read.append(len(numbers))
        found: list[DeadLetter] = read_dead(frontier, partition, numbers)
        return found

    read_dead = ValkeyFrontier.read_dead
    monkeypatch.setattr(ValkeyFrontier, "read_dead", counted)
    fed.feeder.step()
    assert read == [200]
    read.clear()
    for number in range(3):
        fed.frontier.bury("g", b"nothing of ours", reason="bad", key=f"another {number}")
        fed.feeder.step()
    assert sum(read) == 3
    fed.take()
    fed.fetch(1, Ending.FAILED, silent=True)
    fed.finish()
    assert fed.states() == {"done": ROWS - 1, "failed": 1}


def test_what_a_row_cannot_be_is_said(fed: Fed) -> None:
    for members, form in (({"url": "a"}, "http://h/{b}"), ({"filter": "a"}, ""), ({}, "http://h/{")):
        with pytest.raises(PolicyError):
            RowTask(members, form)
    row_task = RowTask({"meta.day": "day", "url": "link"})
    assert row_task.columns == ["day", "link"]
    assert row_task.task({"day": None, "link": "http://h"}) == {"url": "http://h"}
    with pytest.raises(ValueError, match="URL is empty"):
        row_task.task({"day": 1, "link": None})
    assert RowTask({}, "http://h/{a}?q={b}").task({"a": "x/y", "b": "ü"})["url"] == "http://h/x%2Fy?q=%C3%BC"


def test_rows_whose_keys_are_long_urls(fed: Fed, tmp_path: Path) -> None:
    """They were lost five times each, since no worker could use their reports."""
    fed.database.execute("CREATE TABLE links (url TEXT PRIMARY KEY)")
    urls = [f"http://h/{number}?q={'x' * length}" for number, length in ((1, 600), (2, 2000), (3, 5000))]
    fed.database.executemany("INSERT INTO links VALUES (?)", [(url,) for url in urls])
    table = TaskTable(fed.store, "links", ["url"])
    table.check(prepare=True)
    reports = TaskReports(fed.frontier, fed.key, "links", "sqlite:///pages.db")
    feeder = TableFeeder(fed.frontier, table, fed.key, RowTask({}), reports, every=0.0)
    feeder.step()
    tasks = fed.frontier.lease_tasks(fed.token, fed.key, 10)
    assert sorted(len(json.loads(split_report(task.data)[0])["url"]) for task in tasks) == sorted(map(len, urls[:2]))
    [(state, detail)] = fed.database.execute("SELECT task_state, task_detail FROM links WHERE url = ?", (urls[2],))
    assert (state, detail) == ("failed", "no task: its primary key has more than 4,000 characters")
