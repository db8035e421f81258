"""`gossamer worker`: who works, who takes nothing more, who is struck from the list."""

from __future__ import annotations

import pytest
from tests.support.command import Command

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import CounterChange, LanePolicy, Request, Token
from gossamer.model.reply import groups_text
from gossamer.testing import clock


@pytest.fixture
def workers(frontier: ValkeyFrontier) -> list[Token]:
    """Three workers: the first holds two leases, two have the same name."""
    frontier.define("g", {"a": LanePolicy()})
    frontier.add([Request(n, f"h{n}", "g.a", b"x") for n in range(8)])
    tokens = [Token(f"{letter * 4}{n:012}", 1) for n, letter in enumerate("abc")]
    for token, name in zip(tokens, ("one", "two", "two"), strict=True):
        frontier.exchange(token, want=2 if name == "one" else 0, info={"name": name, "machine": f"m-{name}"})
    return tokens


def test_they_are_listed_with_what_they_tell_of_themselves(command: Command, workers: list[Token]) -> None:
    listed = {row["incarnation"]: row for row in command("worker", "list", "--json").json}
    first = listed[workers[0].incarnation]
    assert (first["held"], first["draining"], first["info"]) == (2, False, {"name": "one", "machine": "m-one"})
    assert 0 <= first["silent"] < 60
    said = command("worker", "list")
    assert said.out.startswith("WORKER\tINCARNATION\tSERVES\tHOLDS\tLAST SEEN\tSTATE\n")
    assert ["one", workers[0].incarnation, "", "2"] in [row[:4] for row in said.rows]


def test_a_worker_has_the_same_name_in_every_command(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    many = groups_text(f"site-{number}" for number in range(400))
    assert len(many) < 2000
    frontier.exchange(Token("e" * 16, 1), info={"host": "crawler-7", "pid": "42", "groups": many})
    frontier.exchange(Token("f" * 16, 1), info={"host": "crawler-7", "pid": "43", "group": "g"})
    for rows in (command("worker", "list").rows, command("status").rows):
        named = {row[0]: row for row in rows if row[0].startswith("crawler")}
        assert set(named) == {"crawler-7:42", "crawler-7:43"}
        assert "400 sites" in named["crawler-7:42"]
        assert "g" in named["crawler-7:43"]
    assert command("worker", "drain", "crawler-7:42").out == "worker crawler-7:42 takes nothing more\n"
    [drained] = [worker for worker in frontier.workers() if worker.draining]
    assert (drained.name, len(drained.groups)) == ("crawler-7:42", 400)


def test_workers_that_ended_are_not_counted(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.exchange(Token("e" * 16, 1), info={"name": "here", "group": "g"})
    frontier.exchange(Token("f" * 16, 1), info={"name": "ended", "group": "g", "closed": "1"})
    assert ", 1 worker," in command("top", "--count", "1").out
    shown = command("status").out
    assert "here\t" in shown
    assert "ended" not in shown
    frontier.leave("f" * 16)
    assert [row[0] for row in command("worker", "list").rows] == ["here"]


def test_status_leaves_counters_to_those_who_ask(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.define("g", {"a": LanePolicy()})
    frontier.exchange(Token("e" * 16, 1), counters=[CounterChange("g", "gossamer/requests", 3)])
    assert "gossamer/requests" not in command("status").out
    assert "g\tgossamer/requests\t3\n" in command("status", "--counters").out
    assert command("status", "--json").json["groups"][0]["counters"] == {"gossamer/requests": 3}


def test_the_table_leaves_a_workers_stats_to_the_json(command: Command, frontier: ValkeyFrontier) -> None:
    frontier.exchange(Token("d" * 16, 1), info={"name": "four", "stats": '{"item_scraped_count": 1}'})
    assert command("worker", "list").out.startswith("WORKER\tINCARNATION\tSERVES\tHOLDS\tLAST SEEN\tSTATE\n")
    assert "item_scraped_count" in command("worker", "list", "--json").json[0]["info"]["stats"]


@pytest.mark.parametrize("name", ["one", "aaaa", "aaaa000000000000"])
def test_a_drained_worker_takes_nothing_until_undrained(
    command: Command, frontier: ValkeyFrontier, workers: list[Token], name: str
) -> None:
    assert command("worker", "drain", name).out == "worker one takes nothing more; it holds 2 leases\n"
    token = workers[0].next()
    answer = frontier.exchange(token, want=4)
    assert (answer.leases, answer.hints.paused) == ([], "draining")
    assert [row[-1] for row in command("worker", "list").rows if row[0] == "one"] == ["draining"]
    assert command("worker", "undrain", name).out == "worker one takes work again\n"
    assert frontier.exchange(token.next(), want=4).leases


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", "error: there is no worker 'nobody' in this crawl; `gossamer worker list` names them.\n"),
        ("two", "error: 'two' is the name of several workers: "),
        ("", "error: there is no worker '' in this crawl"),
    ],
)
def test_a_name_that_is_not_one_worker_changes_nothing(
    command: Command, frontier: ValkeyFrontier, workers: list[Token], name: str, said: str
) -> None:
    assert command("worker", "drain", "one", name, code=2).err.startswith(said)
    assert not any(worker.draining for worker in frontier.workers())


def test_those_silent_for_long_are_forgotten_if_they_hold_nothing(
    command: Command, frontier: ValkeyFrontier, workers: list[Token]
) -> None:
    assert command("worker", "forget", "--yes").out == "0 workers forgotten, 3 left\n"
    clock.advance(frontier, 7200)
    assert command("worker", "forget", "--silent", "90m", code=1, given="n\n").err.startswith("Forget 2 of 3 workers?")
    assert len(frontier.workers()) == 3
    assert command("worker", "forget", "--silent", "90m", "--yes", "--json").json == {"forgotten": 2, "left": 1}


def test_many_are_forgotten(command: Command, frontier: ValkeyFrontier) -> None:
    for number in range(230):
        frontier.exchange(Token(f"{number:016}", 1))
    clock.advance(frontier, 3600)
    assert command("worker", "forget", "--silent", "1h", given="y\n").out == "230 workers forgotten, 0 left\n"


def test_a_duration_is_checked(command: Command) -> None:
    said = command("worker", "forget", "--silent", "soon", code=2)
    assert "'soon' is not a duration; write 0.5s, 10m, 1h30m or 7d" in said.err
