"""Of which subjects the condition of each kind of rule holds."""

from __future__ import annotations

from typing import Any

from gossamer.frontier.server.info import ServerInfo
from gossamer.model import FieldCoverage, WorkerInfo
from gossamer.model.reply import HostInfo
from gossamer.planner.alerts.conditions import conditions, duration
from gossamer.planner.alerts.crawl_counts import CrawlReading, EndedRound, RunningRound
from gossamer.planner.alerts.history import SLOTS, CountHistory, SampledTotals
from gossamer.planner.alerts.rules import KINDS
from gossamer.status.tasks import TaskCounts

HOUR = 3600.0
NOTHING = CrawlReading(0, {}, {}, {}, {}, {}, (), (), ())


def found(kind: str, reading: CrawlReading, history: CountHistory | None = None, **rule: Any) -> dict[str, bool | None]:
    rows = conditions(KINDS[kind].model_validate(rule), reading, history or CountHistory())
    assert all(row.text for row in rows.values() if row.holds)
    return {name: row.holds for name, row in rows.items()}


def over(hours: float, *, window: float = HOUR, **rates: tuple[int, ...]) -> tuple[CrawlReading, CountHistory]:
    """What is read after so many hours, and the samples of that time, in which each group counted so many pages, items, dead letters,
    requests and tasks an hour. The samples went through the frontier in the middle."""
    history, now, entries = CountHistory(), 1e9, dict[str, bytes | None]()
    totals: dict[str, SampledTotals] = {}
    while now <= 1e9 + hours * HOUR:
        passed = (now - 1e9) / HOUR
        totals = {name: SampledTotals(*(int(n * passed) for n in row)) for name, row in rates.items()}
        entries.update(history.take([window], now, totals))
        now += 60
    history = CountHistory({name: value for name, value in entries.items() if value is not None})
    return NOTHING._replace(now=now - 60, totals=totals), history


def test_items_that_do_not_come() -> None:
    reading, history = over(3, a=(500, 20, 0, 0, 0), b=(500, 0, 0, 0, 0), c=(30, 0, 0, 0, 0))
    assert found("no_items", reading, history, window="1h") == {"a": False, "b": True, "c": False}
    assert found("no_items", reading, history, window="1h", only=["a", "c"]) == {"a": False, "c": False}
    assert found("no_items", reading, CountHistory()) == dict.fromkeys("abc"), "nothing is known yet"
    assert found("no_items", reading._replace(now=reading.now + 9 * HOUR), history, window="1h") == dict.fromkeys("abc")
    back = reading._replace(totals={**reading.totals, "b": SampledTotals(3, 0, 0, 0, 0)})
    assert found("no_items", back, history, window="1h")["b"] is None, "its counts began anew"
    new = reading._replace(totals={"new": SampledTotals(500, 0, 0, 0, 0)})
    assert found("no_items", new, history, window="1h") == {"new": True}


def test_items_that_come_slowly() -> None:
    reading, history = over(3, a=(500, 20, 0, 0, 0), b=(500, 90, 0, 0, 0), c=(5, 1, 0, 0, 0))
    assert found("item_rate", reading, history, below="50/h") == {"a": True, "b": False, "c": False}
    slow = {name: row._replace(items=row.items - int(row.items * 0.3)) for name, row in reading.totals.items()}
    slower = reading._replace(totals={**slow, "c": reading.totals["c"]})
    ring, known = over(6, window=6 * HOUR, a=(500, 20, 0, 0, 0))
    assert found("item_rate", reading, history, below="20%") == dict.fromkeys("abc"), "the usual rate is not known yet"
    for name, value in CountHistory().take([6 * HOUR], 1e9, {}).items():
        assert value is not None
        assert name.startswith("sample|")
    assert found("item_rate", ring, known, below="50%", window="6h", baseline="6h") == {"a": False}
    assert found("item_rate", slower, history, below="19/h")["a"] is True


def test_queues_that_grow_and_those_that_shrink() -> None:
    reading, history = over(3, a=(0, 0, 0, 20_000, 0), b=(0, 0, 0, 100, 0), c=(0, 0, 0, 20_000, 9_000))
    assert found("queue_growth", reading, history, window="1h", growth=1.7) == {"a": False, "c": False}
    assert found("queue_growth", reading, history, window="1h", growth=1.4) == {"a": True, "c": True}
    assert found("task_backlog", reading, history, growth=1.4) == {"c": True}
    less = reading._replace(totals={"a": reading.totals["a"]._replace(waiting=30_000)})
    assert found("queue_growth", less, history, window="1h", growth=1) == {"a": False}, "it shrinks"
    assert found("queue_growth", reading, CountHistory()) == {"a": None, "c": None}


def test_dead_letters() -> None:
    reading, history = over(0.3, a=(0, 0, 300, 0, 0), b=(0, 0, 60, 0, 0))
    assert found("dead_letters", reading, history) == {"a": True}, "also before the window is over"
    assert found("dead_letters", reading, history, total=10) == {"a": True, "b": True}
    assert found("dead_letters", reading, CountHistory()) == {}


def test_tasks_rounds_pauses_and_workers() -> None:
    tasks = {"a": TaskCounts("a", 10, 0, None), "b": TaskCounts("b", 9, 1, 90_000.0), "c": TaskCounts("c", 0, 0, 0.0)}
    assert found("task_drain", NOTHING._replace(tasks=tasks)) == {"a": True, "b": True}
    rounds = {"a": RunningRound(3, 700, 600), "b": RunningRound(3, 500, 600), "c": RunningRound(1, 9e9, None)}
    late = NOTHING._replace(rounds=rounds)
    assert (found("late_round", late), found("late_round", late, after="1h")) == ({"a": True}, {"a": True, "c": True})
    assert found("paused", NOTHING._replace(paused={"a": "login failed"})) == {"a": True}
    held = NOTHING._replace(held_rounds={"a": "tasks.csv: No such file"})
    assert found("held_round", held) == {"a": True}
    ended = {"a": EndedRound(3, 1, 1), "b": EndedRound(3, 9, 8), "c": EndedRound(0, 0, 0), "d": None}
    assert found("failed_round", NOTHING._replace(last_rounds=ended)) == {"a": True, "d": None}
    assert found("no_workers", NOTHING._replace(unserved={"a": "3 requests open, and no worker serves it"})) == {
        "a": True
    }
    lost = [WorkerInfo("i", {"name": "w1"}, 10.0, 4, False), WorkerInfo("j", {"name": "w2"}, 60.0, 0, False)]
    assert found("worker_lost", NOTHING._replace(now=100.0, lost=lost)) == {"w1": True}
    host = HostInfo("h:80", 0, 0, 200.0, "429", "", 0, 1, 0, False, 100.0, {})
    assert found("host_blocked", NOTHING._replace(now=100.0, blocked=[host])) == {"h:80": True}
    server = ServerInfo("s:1", "valkey", "8", "standalone", "master", True, None, 90, 100, None, False, 0)
    assert found("server_memory", NOTHING._replace(servers=[server])) == {"s:1": True}
    assert found("server_memory", NOTHING._replace(servers=[server]), above="95%") == {}


def test_samples_take_the_same_room_however_long_it_goes_on() -> None:
    history, entries = CountHistory(), set[str]()
    for minute in range(3000):
        entries |= set(history.take([HOUR, 6 * HOUR], 1e9 + 60 * minute, {"a": SampledTotals(1, 1, 1, 1, 1)}))
    assert len(entries) == 2 * SLOTS
    dropped = history.take([HOUR], 1e9 + 60 * 3000, {})
    assert sum(value is None for value in dropped.values()) == SLOTS


def test_durations() -> None:
    assert [duration(s) for s in (3, 61, 3600, 5400, 90_000)] == ["3 s", "1 min", "1 h", "1 h 30 min", "1 d 1 h"]


def test_fields_that_are_found_on_fewer_pages() -> None:
    def rounds(group: str, *prices: int, pages: int = 100) -> list[FieldCoverage]:
        rows = [FieldCoverage(group, number, "item", "", pages, pages) for number in range(len(prices))]
        rows += [FieldCoverage(group, number, "item", "price", pages, price) for number, price in enumerate(prices)]
        return rows

    coverage = {
        "well": rounds("well", 90, 92),
        "sparse": rounds("sparse", 5, 4),
        "fell": rounds("fell", 95, 96, 66),
        "hardly": rounds("hardly", 95, 66),
        "first": rounds("first", 0),
        "few": rounds("few", 10, 0, pages=19),
    }
    reading = NOTHING._replace(coverage=coverage)
    assert found("field_coverage", reading) == {"fell": True}
    assert found("field_coverage", reading, fallen="29%") == {"fell": True, "hardly": True}
    assert found("field_coverage", reading, below="50%") == {"sparse": True, "fell": True, "first": True}
    assert found("field_coverage", reading, pages=10) == {"fell": True, "few": True}


def test_what_a_round_showed_stands_until_the_next_has_read_enough_pages() -> None:
    """An alert that would end with the first page of the next round would say that all is well."""

    def shop(number: int, pages: int, prices: int, walls: int = 0) -> list[FieldCoverage]:
        return [
            FieldCoverage("shop", number, "item", "", pages, pages, walls),
            FieldCoverage("shop", number, "item", "price", pages, prices),
        ]

    before = [*shop(3, 100, 95), *shop(4, 100, 3, 40)]
    for pages, prices, runs, fields, walls in (
        (2, 0, True, {"shop": None}, {"shop": None}),
        (25, 0, True, {"shop": True}, {}),
        (25, 25, True, {}, {}),
        (2, 2, False, {}, {}),
    ):
        running = {"shop": RunningRound(5, 10.0, None)} if runs else {}
        reading = NOTHING._replace(coverage={"shop": [*before, *shop(5, pages, prices)]}, rounds=running)
        assert found("field_coverage", reading, below="50%") == fields
        assert found("blocked", reading) == walls
    lists = [FieldCoverage("shop", 5, "list", "", 200, 200)]
    reading = NOTHING._replace(coverage={"shop": [*before, *lists]}, rounds={"shop": RunningRound(5, 10.0, None)})
    assert found("field_coverage", reading, below="50%") == {"shop": None}, "only other layers were read so far"


def test_lists_that_have_no_records_any_more() -> None:
    """No record of them lacks anything."""

    def lists(*found: int) -> list[FieldCoverage]:
        rows = [FieldCoverage("shop", number, "list", "", 100, having) for number, having in enumerate(found)]
        return rows + [FieldCoverage("shop", number, "list", "name", 9 * n, 9 * n) for number, n in enumerate(found)]

    for found, fires in (((95, 96, 0), True), ((95, 96, 65), True), ((50, 48), False), ((0, 0), False), ((0,), False)):
        reading = NOTHING._replace(coverage={"shop": lists(*found)})
        rows = conditions(KINDS["field_coverage"](), reading, CountHistory())
        assert list(rows) == ["shop"] * fires
    reading = NOTHING._replace(coverage={"shop": lists(95, 0)})
    said = conditions(KINDS["field_coverage"](), reading, CountHistory())["shop"].text
    assert said == "0.0% of the pages of list have records or links in round 1, 95.0% in round 0"


def test_fields_of_records_that_functions_yield_for_other_layers() -> None:
    rows = [FieldCoverage("shop", number, "thread", "", 30, 30) for number in range(2)]
    rows += [FieldCoverage("shop", number, "post", "text", 90, found) for number, found in enumerate((90, 3))]
    assert found("field_coverage", NOTHING._replace(coverage={"shop": rows})) == {"shop": True}


def test_walls_instead_of_pages() -> None:
    def layers(group: str, *counts: tuple[int, int, int]) -> list[FieldCoverage]:
        return [FieldCoverage(group, number, "item", "", pages, pages, walls) for number, pages, walls in counts]

    coverage = {
        "walled": layers("walled", (0, 90, 0), (1, 20, 5)),
        "all": layers("all", (3, 0, 30)),
        "few": layers("few", (0, 2, 17)),
        "over": layers("over", (0, 50, 50), (1, 50, 5)),
    }
    reading = NOTHING._replace(coverage=coverage)
    assert found("blocked", reading) == {"walled": True, "all": True}
    assert found("blocked", reading, above="50%") == {"all": True}
