"""Many callers, few transactions: each caller knows that its rows are committed, or why they are not."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.store.conftest import Sql
from tests.store.tables import FORUM, POSTS, SHOPS, bodies, post, reply, shop, titles
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer

from gossamer.errors import StoreError, StoreRefused, StoreUnavailable
from gossamer.store import Row, Store, Writer


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[Writer]:
    writer = Writer(Store.open(url))
    try:
        await writer.prepare([*FORUM, SHOPS])
        yield writer
    finally:
        await writer.close(5)


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_rows_are_committed_when_write_returns(url: str, store: Store) -> None:
    async with writing(url) as writer:
        store.prepare(FORUM)
        await writer.write([post("a", "x", [reply("0")])])
        assert titles(store) == {"a": "x"}
        assert bodies(store) == {("a", 0): "0"}
        await writer.write([])
        assert writer.outage == ""
        assert writer.waiting == 0


async def test_what_comes_together_is_committed_together(url: str, store: Store) -> None:
    async with writing(url) as writer:
        await asyncio.gather(*(writer.write([post(f"u{n}", str(n))]) for n in range(300)))
        assert writer.transactions <= 20
        for n in range(5):
            await writer.write([post("lone", str(n))])
        store.prepare(FORUM)
        assert titles(store) == {**{f"u{n}": str(n) for n in range(300)}, "lone": "4"}


async def test_a_transaction_has_no_more_rows_than_it_may(url: str) -> None:
    writer = Writer(Store.open(url), rows=10)
    await writer.prepare(FORUM)
    await asyncio.gather(*(writer.write([post(f"u{n}", replies=[reply("x")] * 4)]) for n in range(12)))
    assert writer.transactions >= 6
    await writer.write([post("big", replies=[reply("x")] * 50)])
    await writer.close()


async def test_later_writes_win_in_the_order_of_the_calls(url: str, store: Store) -> None:
    async with writing(url) as writer:
        await asyncio.gather(*(writer.write([post("a", str(n), [reply("r")] * (n % 3))]) for n in range(50)))
    store.prepare(FORUM)
    assert titles(store) == {"a": "49"}
    assert len(bodies(store)) == 49 % 3


async def test_a_refused_row_fails_only_its_own_caller(url: str, store: Store, sql: Sql) -> None:
    sql("CREATE TABLE narrow (id INT PRIMARY KEY, name VARCHAR(9) NOT NULL CHECK (name <> 'bad'))")
    narrow = SHOPS._replace(name="narrow", existing=True)
    async with writing(url) as writer:
        await writer.prepare([narrow])

        def row(n: int) -> list[Row]:
            if n % 10 == 3:
                return [post(f"u{n}"), Row("narrow", {"id": n, "name": "bad"})]  # The database refuses it.
            if n % 10 == 7:
                return [post(f"u{n}"), Row("narrow", {"id": "n", "name": "x"})]  # It is refused before.
            return [post(f"u{n}"), Row("narrow", {"id": n, "name": "good"})]

        ends = await asyncio.gather(*(writer.write(row(n)) for n in range(60)), return_exceptions=True)
        refused = {n for n, end in enumerate(ends) if isinstance(end, StoreRefused)}
        assert refused == {n for n in range(60) if n % 10 in (3, 7)}
        assert [end for n, end in enumerate(ends) if n not in refused] == [None] * 48
        assert writer.outage == ""
    store.prepare([POSTS])
    assert set(titles(store)) == {f"u{n}" for n in range(60) if n not in refused}
    assert sorted(row[0] for row in sql("SELECT id FROM narrow")) == [n for n in range(60) if n not in refused]


async def test_a_table_that_is_wrong_stops_nobody_else(url: str, store: Store, sql: Sql) -> None:
    async with writing(url) as writer:
        await writer.write([post("a"), shop(1)])
        sql("ALTER TABLE shops DROP COLUMN name")
        sql("ALTER TABLE shops ADD COLUMN name DATE")
        writes = [writer.write([post(f"u{n}")]) for n in range(5)]
        wrong = writer.write([Row("shops", {"id": 2**33, "name": "x"}), Row("nowhere", {})])
        ends = await asyncio.gather(wrong, *writes, return_exceptions=True)
        assert isinstance(ends[0], StoreRefused)
        assert ends[1:] == [None] * 5
        sql("DROP TABLE votes")
        await writer.write([post("b", replies=[reply("x", ann=1)])])


async def test_prepare_and_archive_go_between_transactions(url: str, store: Store, sql: Sql) -> None:
    async with writing(url) as writer:
        first = [asyncio.ensure_future(writer.write([post(f"u{n}")])) for n in range(20)]
        await asyncio.sleep(0)
        aside = asyncio.ensure_future(writer.archive(["posts"], "r1"))
        await asyncio.sleep(0)
        then = [asyncio.ensure_future(writer.write([post(f"v{n}")])) for n in range(20)]
        await asyncio.gather(*first, aside, *then)
        with pytest.raises(StoreError, match="no table nowhere"):
            await writer.archive(["nowhere"], "r1")
    store.prepare([POSTS])
    assert set(titles(store)) == {f"v{n}" for n in range(20)}
    assert sql("SELECT count(*) FROM posts_r1") == [(20,)]


@pytest.mark.parametrize("server_type", [PostgreSQLServer, MariaDBServer])
async def test_a_database_that_is_away_is_waited_for(server_type: type[DatabaseServer]) -> None:
    with server_type() as server:
        async with writing(server.url()) as writer:
            await writer.write([post("before")])
            server.kill()
            waiting = [asyncio.ensure_future(writer.write([post(f"u{n}", "x")])) for n in range(20)]
            await until(lambda: writer.outage)
            assert "secret" not in writer.outage
            assert "\n" not in writer.outage
            with pytest.raises(StoreUnavailable):
                Store.open(server.url())
            assert not any(one.done() for one in waiting)
            server.restart()
            await asyncio.wait_for(asyncio.gather(*waiting), 60)
            assert writer.outage == ""
        with Store.open(server.url()) as store:
            store.prepare(FORUM)
            assert len(titles(store)) == 21


async def test_a_paused_server_is_no_reason_to_fail(postgresql: PostgreSQLServer) -> None:
    url = postgresql.create()
    async with writing(url) as writer:
        await writer.write([post("a")])
        postgresql.pause()
        try:
            waiting = asyncio.ensure_future(writer.write([post("b")]))
            done, _ = await asyncio.wait([waiting], timeout=0.3)
            assert not done
        finally:
            postgresql.resume()
        await asyncio.wait_for(waiting, 60)


async def test_a_locked_file_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.store.database.sqlite.BUSY_SECONDS", 0.01)
    monkeypatch.setattr("gossamer.store.store.TRIES", 2)
    url = f"sqlite:///{tmp_path}/x.db"
    async with writing(url) as writer:
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(writer.write([post("a")]))
        await until(lambda: writer.outage)
        assert "Another process keeps it locked" in writer.outage
        other.execute("COMMIT")
        other.close()
        await asyncio.wait_for(waiting, 60)
        assert writer.outage == ""


async def test_close_waits_for_what_is_queued(url: str, store: Store) -> None:
    writer = Writer(Store.open(url))
    await writer.prepare(FORUM)
    waiting = [asyncio.ensure_future(writer.write([post(f"u{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await writer.close()
    await asyncio.gather(*waiting)
    with pytest.raises(StoreError, match="closed"):
        await writer.write([post("late")])
    await writer.close()
    store.prepare(FORUM)
    assert len(titles(store)) == 50


async def test_close_gives_up_on_a_database_that_stays_away() -> None:
    with PostgreSQLServer() as server:
        writer = Writer(Store.open(server.url()))
        await writer.prepare(FORUM)
        server.kill()
        waiting = [asyncio.ensure_future(writer.write([post(f"u{n}")])) for n in range(3)]
        await until(lambda: writer.outage)
        waiting.append(asyncio.ensure_future(writer.write([post("more")])))
        await asyncio.sleep(0)
        await writer.close(0.2)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(end, StoreUnavailable) and "closed before" in str(end) for end in ends)
    # One that was just about to connect ends a moment later.
    await until(lambda: not any(thread.name == "gossamer-writer" for thread in threading.enumerate()))


async def test_a_caller_that_gives_up_disturbs_nobody(url: str, store: Store) -> None:
    async with writing(url) as writer:
        given_up = asyncio.ensure_future(writer.write([post("a")]))
        others = [asyncio.ensure_future(writer.write([post(f"u{n}")])) for n in range(5)]
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(*others)
        with pytest.raises(asyncio.CancelledError):
            await given_up
    store.prepare(FORUM)
    assert {f"u{n}" for n in range(5)} <= set(titles(store))
