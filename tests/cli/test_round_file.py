"""`gossamer crawl FILE.yaml -O out.json`: the records of the round, whatever is stored, interrupted or not sent again."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.example_sites import Place
from tests.support.fork_server import Program
from tests.support.site import Reply, Site

from gossamer.frontier import item_stream
from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(300)

PAGES = 6
FILE = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore, hosts: {HOST: {concurrency: 2}}}
request: {retries: 0}
seen: round
layers:
  list: {match: ^/list, request: {conditional: CONDITIONAL}, fields: {_shop: h1}, follow: [{css: a, to: item}]}
  item:
    match: ^/item/
    request: {conditional: CONDITIONAL}
    fields: {id: {from: url, regex: '(\\d+)$', type: int}, price: {css: b, type: int}}
"""
STORED = "store: {item: {table: items KEY}}\n"


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def write(place: Place, site: Site, store: bool = False, conditional: bool = False, key: str = "") -> None:
    text = FILE.replace("SITE", site.url).replace("HOST", site.host).replace("CONDITIONAL", str(conditional).lower())
    place.write(text + (STORED.replace("KEY", key) if store else ""))


def serve(site: Site, prices: dict[int, int], unchanged: frozenset[int] = frozenset()) -> None:
    site.visits.clear()
    listed = "".join(f'<a href="/item/{number}">{number}</a>' for number in prices)
    site.on("/list", Reply(body=f"<h1>Shop</h1>{listed}", headers={"ETag": '"list"'}))
    for number, price in prices.items():
        whole = Reply(body=f"<b>{price}</b>", headers={"ETag": f'"{number}-{price}"'})
        site.on(f"/item/{number}", Reply(304, body="") if number in unchanged else whole)


def records(file: Path) -> Counter[tuple[int, int]]:
    """Number and price of each record."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as parquet  # type: ignore[import-untyped]

        rows = parquet.read_table(file).to_pylist()
    elif file.suffix == ".csv":
        rows = list(csv.DictReader(file.read_text().splitlines()))
    elif file.suffix == ".json":
        rows = json.loads(file.read_text())
    else:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(row["layer"] == "item" and row["url"].endswith(f"/item/{row['id']}") for row in rows)
    return Counter((int(row["id"]), int(row["price"])) for row in rows)


def left(place: Place) -> list[str]:
    return sorted(path.name for path in place.directory.glob("out.*"))


@pytest.mark.parametrize("store", [False, True], ids=["items", "stored"])
@pytest.mark.parametrize("name", ["out.json", "out.jsonl", "out.csv", "out.parquet"])
def test_each_round_begins_the_file_anew(place: Place, name: str, store: bool) -> None:
    out, prices = place.directory / name, {number: 100 + number for number in range(PAGES)}
    with Site() as site:
        write(place, site, store)
        for _ in range(2):
            serve(site, prices)
            place.run("crawl", "site.yaml", "-O", name)
            assert records(out) == Counter(prices.items())
            assert left(place) == [name]
            prices = {number: price + 1 for number, price in prices.items() if number > 1}
        serve(site, {})
        place.run("crawl", "site.yaml", "-O", name)
        assert records(out).total() == 0
    if store:
        assert len(place.rows("select id from items")) == PAGES


@pytest.mark.parametrize("key", ["", ", key: [id]"], ids=["by-url", "by-id"])
def test_records_of_pages_that_have_not_changed_are_written_too(place: Place, key: str) -> None:
    every, prices = frozenset(range(PAGES)), {number: 100 + number for number in range(PAGES)}
    out = place.directory / "out.jsonl"
    with Site() as site:
        write(place, site, True, True, key)
        for changed in (every, frozenset({3}), frozenset({1, 3})):
            prices |= {number: prices[number] + 1 for number in changed}
            # Rows that are not found by their page's URL need the page.
            serve(site, prices, every - changed if not key else frozenset())
            place.run("crawl", "site.yaml", "-O", "out.jsonl")

            assert records(out) == Counter(prices.items())
        sent = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path.startswith("/item/")]
        assert {tag is not None for tag in sent} == {not key}
        # A list has nothing that would be written.
        assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/list"] == ['"list"']
        # Later rounds without the file know what was read with it.
        serve(site, prices, every)
        place.run("crawl", "site.yaml")
        sent = [visit.headers.get("If-None-Match") for visit in site.visits if visit.path.startswith("/item/")]
        assert None not in sent
    assert dict(place.rows("select id, price from items")) == prices


def stored(place: Place, number: int) -> bool:
    with suppress(sqlite3.OperationalError):
        return len(place.rows("select id from items")) >= number
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_crawl_that_was_interrupted_goes_on_with_its_file(place: Place, how: signal.Signals) -> None:
    prices = {number: 100 + number for number in range(PAGES)}
    out = place.directory / "out.csv"
    with Site() as site:
        write(place, site, True)
        serve(site, prices)
        site.hold("/item/5")
        with place.start("crawl", "site.yaml", "-O", "out.csv", "-w", "1") as running:
            site.reached("/item/5")
            wait_until(lambda: stored(place, 3), "some rows", 60)
            running.send_signal(how)
            site.release("/item/5")
            running.wait(120)
        if how is signal.SIGINT:
            assert records(out) <= Counter(prices.items())
        place.run("crawl", "site.yaml", "-O", "out.csv", "--resume")
        assert records(out) == Counter(prices.items())
        assert left(place) == ["out.csv"]


def test_a_file_that_lacks_records_says_so(place: Place) -> None:
    prices = {number: 100 + number for number in range(PAGES)}
    out = place.directory / "out.jsonl"
    with Site() as site:
        write(place, site, True)
        serve(site, prices)
        site.hold("/item/1", "/item/2")
        with Program("gossamer", ["crawl", "site.yaml", "-w", "1"], place.environ, place.directory) as running:
            site.reached("/item/1")
            site.reached("/item/2")
            running.send_signal(signal.SIGINT)
            wait_until(lambda: "stopping" in running.errors(), "the workers to be told", 60)
            site.release("/item/1", "/item/2")
            running.wait(120)
        missing = len(place.rows("select id from items"))
        assert 0 < missing < PAGES
        place.run("crawl", "site.yaml", "-O", "out.jsonl", "--resume", code=4)
        assert records(out).total() == PAGES - missing
        place.run("crawl", "site.yaml", "-O", "out.jsonl")
        assert records(out) == Counter(prices.items())


def test_a_round_that_is_over_is_written_with_what_is_there(place: Place) -> None:
    with Site() as site:
        write(place, site, True)
        serve(site, {1: 1, 2: 2})
        place.run("crawl", "site.yaml")
        # Its records are rows alone.
        said = place.said("crawl", "site.yaml", "--resume", "-O", "out.json", code=4)[1]
        assert "lacks 2 of the records" in said
        assert left(place) == ["out.json"]


def test_a_file_lacks_pages_that_had_not_changed_before_it_was_asked_for(place: Place) -> None:
    with Site() as site:
        write(place, site, True, True)
        serve(site, {1: 1, 2: 2, 3: 3})
        place.run("crawl", "site.yaml", "-O", "out.json")
        serve(site, {1: 1, 2: 2, 3: 4}, frozenset({1, 2}))
        place.run("crawl", "site.yaml")
        said = place.said("crawl", "site.yaml", "--resume", "-O", "late.json", code=4)[1]
        assert "lacks 3 of the records" in said
        assert json.loads((place.directory / "late.json").read_text()) == []
        place.run("crawl", "site.yaml", "-O", "out.json")
        assert records(place.directory / "out.json") == Counter({(1, 1): 1, (2, 2): 1, (3, 4): 1})


@pytest.mark.parametrize("exported", [False, True])
def test_items_of_earlier_rounds_that_nobody_has_written_are_named(place: Place, exported: bool) -> None:
    """They go at the limit, as soon as the file has what comes after them."""
    with Site() as site:
        write(place, site)
        serve(site, {1: 1, 2: 2})
        place.run("crawl", "site.yaml")
        if exported:
            place.run("items", "export", "shop", "all.jsonl")
        said = place.said("crawl", "site.yaml", "-O", "out.json")[1]
        assert ("nobody has written the items of earlier rounds of shop" in said) is not exported
        assert "nobody has written" not in place.said("crawl", "site.yaml", "-O", "out.json")[1]
    assert records(place.directory / "out.json").total() == 2


def test_a_file_is_written_by_one_command_at_a_time(place: Place) -> None:
    prices = {number: 100 + number for number in range(PAGES)}
    with Site() as site:
        write(place, site)
        serve(site, prices)
        site.hold("/item/5")
        with place.start("crawl", "site.yaml", "-O", "out.json", "-w", "1") as running:
            site.reached("/item/5")
            # Also for another site, and between two looks of the first one.
            place.write((place.directory / "site.yaml").read_text().replace("site: shop", "site: other"), "other.yaml")
            assert "written by another command" in place.said("crawl", "other.yaml", "-O", "out.json", code=1)[1]
            site.release("/item/5")
            assert running.wait(120) == 0
    assert records(place.directory / "out.json") == Counter(prices.items())
    assert left(place) == ["out.json"]


def test_a_file_has_the_round_that_it_began_with(place: Place) -> None:
    prices = {number: 100 + number for number in range(PAGES)}
    with Site() as site:
        write(place, site)
        serve(site, prices)
        site.hold("/item/5")
        crawl = Program(
            "gossamer", ["crawl", "site.yaml", "-O", "out.jsonl", "-w", "1"], place.environ, place.directory
        )
        with crawl as running, place.frontier() as frontier:
            site.reached("/item/5")
            wait_until(lambda: frontier.counts("shop").groups[0].items >= PAGES - 1, "the other records", 60)
            # The fleet lives on for the next round, which a planner begins while the command is at its end.
            running.send_signal(signal.SIGSTOP)
            site.release("/item/5")
            wait_until(lambda: frontier.drained("shop").drained, "the end of the round", 60)
            serve(site, dict.fromkeys(range(PAGES), 1))
            frontier.new_round("shop", 1)
            place.run("work", "--sites", "shop", "--all-stages", "--drained", "-s", "GOSSAMER_ITEMS=stream")
            running.send_signal(signal.SIGCONT)
            assert running.wait(120) == 0, running.errors()
    assert records(place.directory / "out.jsonl") == Counter(prices.items())


TYPES = """
site: shop
seeds: [SITE/list]
politeness: {robots: ignore}
request: {conditional: true, retries: 0}
seen: round
layers:
  list: {match: ^/list, fields: {_shop: h1}, follow: [{css: a, to: item}]}
  item:
    match: ^/item/
    require: [price]
    lacking: drop
    fields:
      price: {css: b, type: decimal}
      berlin: {css: i, type: datetime, tz: Europe/Berlin}
      naive: {css: i, type: datetime}
      day: {css: i, type: date}
      words: {css: em, all: true}
      always: {value: 5}
      part: {fields: {price: b, at: {css: i, type: datetime}}}
store: {item: {table: items, add: [round]}}
"""


def test_records_from_the_store_are_as_they_were_and_a_page_without_any_is_no_failure(place: Place) -> None:
    body = "<b>12.50</b><i>2026-03-01 10:00:00.5</i><em>x</em><em>y</em>"
    with Site() as site:
        place.write(TYPES.replace("SITE", site.url))
        site.on("/list", Reply(body='<h1>Shop</h1><a href="/item/1">1</a><a href="/item/2">2</a>'))
        found = []
        for number in range(3):
            for path, text in (("/item/1", body), ("/item/2", "<i>2026-03-01 10:00:00</i>")):
                same, whole = Reply(304, body="", times=1), Reply(body=text, headers={"ETag": '"1"'})
                site.on(path, *([same] if number else []), whole)
            site.visits.clear()
            told = place.crawl("site.yaml", "-O", "out.json")
            found.append(json.loads((place.directory / "out.json").read_text()))
            assert told["sites"][0]["dead"] == told["sites"][0]["failed"] == 0
            # The page without a record is fetched whole.
            assert Counter(site.paths())["/item/1"] == 1
    assert len(found[0]) == 1
    assert found[1:] == found[:1] * 2


def test_what_cannot_be_written_is_refused_before_a_round_is_spent(place: Place) -> None:
    with Site() as site:
        write(place, site, conditional=True)
        serve(site, {1: 1})
        for words, why in (
            (("-O", "out.json"), "the layer item has `conditional: true` and no table"),
            (("-O", "out.txt"), "does not show the format"),
            (("-o", "out.json"), "-o is for spiders"),
            (("-O", "out.json", "-O", "more.json"), "one site to one file"),
            (("-O", "absent/out.json"), "cannot be written"),
            (("-O", "out.json", "--repeat"), "leave --repeat out"),
        ):
            assert why in place.said("crawl", "site.yaml", *words, code=2)[1]
        assert site.visits == []
    assert left(place) == []


GO_BACK = """
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end
for i = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'run', 'another')
"""


class Past:
    """What a server of one partition has now, which it can be brought back to, as by a failover that costs it its last second."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self._connection, self._meta = frontier.connection, keys.meta(frontier.crawl)
        self._pattern = keys.base(frontier.crawl, 0) + "*"
        rows = [(key, self._connection.execute("DUMP", key)) for key in self._connection.execute("KEYS", self._pattern)]
        self._dumped = [part for row in rows if row[1] is not None for part in row]

    def come_back(self) -> None:
        self._connection.execute("EVAL", GO_BACK, 1, self._meta, self._pattern, *self._dumped)


@pytest.mark.parametrize(("known", "dropped"), [(0, False), (2, False), (2, True)])
def test_records_that_come_again_after_a_lost_second_are_in_the_file_once(
    place: Place, known: int, dropped: bool
) -> None:
    """Where nothing on the server shows any more which ones they are, the command says that they are twice."""
    prices = {number: 100 + number for number in range(PAGES)}
    spool, words = place.directory / "out.jsonl.items", ["crawl", "site.yaml", "-O", "out.jsonl", "-w", "1"]
    place.environ["GOSSAMER_LEASE_SECONDS"] = "5"
    with Site() as site, place.frontier() as frontier:
        write(place, site)
        serve(site, prices)
        site.hold(*(f"/item/{number}" for number in range(known, PAGES)))
        with Program("gossamer", words, place.environ, place.directory) as running:
            site.reached(f"/item/{known}")
            site.reached(f"/item/{known + 1}")
            wait_until(lambda: spool.exists() and spool.read_bytes().count(b"\n") == known, "the first records", 60)
            if dropped:
                frontier.drop_items("shop", item_stream.ends(frontier, "shop"))
            past = Past(frontier)
            site.release(f"/item/{known}", f"/item/{known + 1}")
            site.reached(f"/item/{known + 2}")
            site.reached(f"/item/{known + 3}")
            wait_until(lambda: spool.read_bytes().count(b"\n") == known + 2, "the next ones in the file", 60)
            past.come_back()
            site.release(*(f"/item/{number}" for number in range(known + 2, PAGES)))
            assert running.wait(120) == (4 if dropped else 0)
            assert ("has 2 records more than the round" in running.errors()) is dropped
        assert site.paths().count(f"/item/{known}") == 2
    found = records(place.directory / "out.jsonl")
    assert found.keys() == Counter(prices.items()).keys()
    assert found.total() == len(prices) + (2 if dropped else 0)
