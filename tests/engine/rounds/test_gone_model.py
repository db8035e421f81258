"""`gone_at` against a model: random sites that change from round to round, and of which walls come instead of pages, on three databases,
with kills. MACHINE_FACTOR: so many times as many sites."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as statement
from tests.support import fork_server
from tests.support.native_crawl import Crawl, until
from tests.support.servers.databases import MariaDBServer, PostgreSQLServer
from tests.support.site import Reply, Site, Visit

from gossamer.store.database.url import database_of
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

LISTS, ITEMS, OFFERS, ROUNDS = 3, 9, 4, 5
SEEDS = range(1 + int(os.environ.get("MACHINE_FACTOR", "1")))
FAILS = 500
WALL = {"Retry-After": "1", "ETag": '"wall"'}
CHALLENGE = WALL | {"cf-mitigated": "challenge"}
WALLS = {
    "challenge": Reply(body="<title>Just a moment...</title>", headers=CHALLENGE),
    "challenge with values": Reply(body="<p>n77</p><b>77</b><i>s77</i>", headers=CHALLENGE),
    "redirect": Reply(302, headers={"Location": "/cdn-cgi/challenge-platform/x", **WALL}),
    "empty": Reply(body="", headers=WALL),
    "without values": Reply(body="<p>Please wait.</p>", headers=WALL),
}
RULES = """
    site: shop
    seeds: ['SITE/list/[0-2]']
    database: DATABASE
    politeness: {robots: ignore, hosts: {HOST: {concurrency: 4}}}
    request: {retries: 0, conditional: true}
    layers:
      list:
        match: ^/list/
        seen: round
        records: p
        fields: {name: {xpath: .}}
        follow: [{css: a, to: item}]
      item:
        match: ^/item/
        seen: round
        fields: {id: {from: url, regex: '(\\d+)$', type: int}, price: {css: b, type: int}, offers: {each: i, fields: {seller: {xpath: .}}}}
    store:
      list: {table: listed, gone: true, key: [name]}
      item: {table: items, gone: true, key: [id], children: {offers: {table: offers, key: [seller]}}}
"""
HISTORY = RULES.replace("gone: true, key: [name]", "gone: true, history: true, key: [name]")


class Shop:
    """What the site has at present, and what the tables should say of it."""

    def __init__(self, seed: int, site: Site) -> None:
        self.dice, self.site = random.Random(seed), site
        self.lists: list[set[int]] = [set() for _ in range(LISTS)]
        self.offers: dict[int, set[int]] = {n: set() for n in range(ITEMS)}
        self.status: dict[str, int] = {}
        self.walls: dict[str, str] = {}
        """What comes instead of these pages."""
        self.rows: dict[tuple[str, Any], bool] = {}
        """Whether each row that was ever stored is gone."""
        self.has: dict[int, set[str]] = {n: set() for n in range(LISTS)}
        """What each list had when it was read last."""
        self.gone_now = 0
        site.answer(self._answer)

    def _answer(self, visit: Visit) -> Reply | None:
        kind, _, number = visit.path.strip("/").partition("/")
        if (wall := self.walls.get(visit.path)) is not None:
            return WALLS[wall]
        if (status := self.status.get(visit.path)) is not None:
            return Reply(status)
        if kind == "list":
            links = "".join(f"<p>n{n}</p><a href=/item/{n}>x</a>" for n in sorted(self.lists[int(number)]))
            return Reply(body=f"<html>list {links}</html>")
        body = f"<b>{number}</b>" + "".join(f"<i>s{one}</i>" for one in sorted(self.offers[int(number)]))
        tag = f'"{hash(body)}"'
        # Who remembers a wall as a version of the page learns nothing of it any more.
        unchanged = visit.headers.get("If-None-Match") in (tag, WALL["ETag"])
        return Reply(304, body="") if unchanged else Reply(body=body, headers={"ETag": tag})

    def change(self) -> None:
        dice = self.dice
        for one in self.lists:
            for n in range(ITEMS):
                if dice.random() < 0.3:
                    one.symmetric_difference_update({n})
        for offers in self.offers.values():
            if dice.random() < 0.4:
                offers.symmetric_difference_update({dice.randrange(OFFERS)})
        self.status = {f"/item/{n}": dice.choice([404, 410]) for n in range(ITEMS) if dice.random() < 0.15}
        if dice.random() < 0.3:
            self.status[f"/item/{dice.randrange(ITEMS)}"] = 500
        if dice.random() < 0.3:
            self.status[f"/list/{dice.randrange(LISTS)}"] = dice.choice([404, 500])
        self.walls = {}
        if dice.random() < 0.4:
            self.walls |= {f"/item/{dice.randrange(ITEMS)}": dice.choice([*WALLS]) for _ in range(2)}
        if dice.random() < 0.2:
            # Without records, a list is one that has none.
            self.walls[f"/list/{dice.randrange(LISTS)}"] = dice.choice(
                [one for one in WALLS if one != "without values"]
            )
        self.status = {path: code for path, code in self.status.items() if path not in self.walls} | dict.fromkeys(
            self.walls, FAILS
        )

    def crawled(self) -> None:
        """A round is over."""
        before = dict(self.rows)
        status = {n: self.status.get(f"/list/{n}", 200) for n in range(LISTS)}
        linked: set[int] = set().union(*(self.lists[n] for n, code in status.items() if code == 200))
        asked = {n: self.status.get(f"/item/{n}", 200) for n in linked}
        dead = FAILS in (*status.values(), *asked.values())
        # The lists: rows of their own.
        brought: set[str] = {f"n{n}" for n in linked}
        for n, code in status.items():
            if code == 200:
                self.has[n] = {f"n{one}" for one in self.lists[n]}
        for name in brought:
            self.rows["listed", name] = False
        for n, code in status.items():
            if code == 404:
                for name in self.has[n] - brought:
                    self.rows["listed", name] = True
        if not dead:
            self._lose("listed", brought)
        # The items.
        for n, code in asked.items():
            if code == 200:
                self.rows["items", n] = False
                sold = {(n, f"s{one}") for one in self.offers[n]}
                self._lose("offers", sold, n)
                self.rows |= {("offers", one): False for one in sold}
            elif code in (404, 410) and ("items", n) in self.rows:
                self.rows["items", n] = True
                self._lose("offers", set(), n)
        # A seed that does not exist may have led to any of them.
        if not dead and 404 not in status.values():
            for n in {n for table, n in self.rows if table == "items"} - asked.keys():
                self.rows["items", n] = True
                self._lose("offers", set(), n)
        self.newly = {row for row, gone in self.rows.items() if gone and not before.get(row, False)}

    def _lose(self, table: str, kept: set[Any], parent: int | None = None) -> None:
        for other, key in self.rows:
            if other == table and key not in kept and (parent is None or key[0] == parent):
                self.rows[table, key] = True


class Tables:
    """What the database says."""

    def __init__(self, url: str) -> None:
        self.engine = database_of(url).engine()

    def rows(self) -> dict[tuple[str, Any], Any]:
        """When each row was gone, the last of each in a history."""
        found: dict[tuple[str, Any], Any] = {}
        with self.engine.connect() as connection:
            for table, key in (("listed", "name"), ("items", "id"), ("offers", "parent_id, seller")):
                order = ", valid_from" if table == "listed" and self.has_history else ""
                for *name, at in connection.execute(
                    statement(f"select {key}, gone_at from {table} order by {key}{order}")
                ):
                    found[table, name[0] if len(name) == 1 else tuple(name)] = at
        return found

    def has_walls(self) -> bool:
        """Whether a row has what only a wall can have brought, or nothing: the price of an item is its number."""
        with self.engine.connect() as connection:
            prices = connection.execute(statement("select id, price from items"))
            names = connection.execute(statement("select name from listed where name = 'n77'"))
            return any(price != number for number, price in prices) or names.first() is not None

    has_history = False


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQLServer]:
    with PostgreSQLServer().start("-c", "fsync=off") as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDBServer]:
    with MariaDBServer().start("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0") as server:
        yield server


EMPTY = {
    "postgresql": ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"],
    "mysql": ["DROP DATABASE gossamer", "CREATE DATABASE gossamer"],
}


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    server = request.getfixturevalue("postgresql" if request.param == "postgresql" else "mariadb")
    engine = database_of(server.url()).engine()
    with engine.begin() as connection:
        for line in EMPTY[request.param]:
            connection.execute(statement(line))
    engine.dispose()
    return str(server.url())


async def killed(crawl: Crawl, site: Site, pages: int) -> None:
    """A worker is killed after some pages, and time goes by until others get what it held."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    environ |= {name: str(value) for name, value in crawl.given.items()}
    before = len(site.visits)
    worker = fork_server.start(
        "gossamer",
        ["work", "--drained"],
        environ=environ,
        directory=crawl.folder,
        stdout=Path(os.devnull),
        options=["-P"],
    )
    try:
        await until(lambda: len(site.visits) >= before + pages or worker.poll() is not None)
    finally:
        worker.kill()
        worker.wait(60)
    with crawl.frontier() as frontier:
        advance(frontier, 60)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rules", [RULES, HISTORY], ids=["rows", "history"])
async def test_random_sites(
    rules: str, seed: int, url: str, valkey_server: Server, crawl_name: str, tmp_path: Path, site: Site
) -> None:
    crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
    crawl.push(rules.replace("DATABASE", url))
    shop, tables = Shop(seed, site), Tables(url)
    tables.has_history = rules is HISTORY
    before: dict[tuple[str, Any], Any] = {}
    try:
        for number in range(ROUNDS):
            shop.change()
            if number:
                with crawl.frontier() as frontier:
                    frontier.new_round("shop", number)
            if number % 3 == 2:
                await killed(crawl, site, shop.dice.randrange(1, 6))
            await crawl.run()
            shop.crawled()
            rows = tables.rows()
            assert not tables.has_walls(), (number, shop.walls)
            assert {row: at is not None for row, at in rows.items()} == shop.rows, (number, shop.status)
            assert all(
                rows[row] == at
                for row, at in before.items()
                if at is not None and shop.rows[row] and row not in shop.newly
            )
            with crawl.frontier() as frontier:
                [info] = frontier.rounds("shop", 1)
            assert info.gone == sum(table != "offers" for table, _ in shop.newly), (number, shop.status)
            before = rows
    finally:
        tables.engine.dispose()
