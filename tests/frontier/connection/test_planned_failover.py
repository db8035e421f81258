"""A primary that was replaced in good order answers as before for some ten seconds: who calls it leaves it within one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from gossamer.errors import FrontierUnavailable
from gossamer.frontier.connection import connect, connect_async, router
from gossamer.frontier.connection.failure import NoReply
from gossamer.frontier.connection.router import Node, RoundTrip, RoutedCommand, SentinelRouter
from gossamer.settings import Settings, load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import SentinelPair, Server

PRIMARY, HEIR = Node("primary", 6379), Node("heir", 6379)
SENTINELS = [Node("s1", 26379, sentinel=True), Node("s2", 26379, sentinel=True)]
AWAY = NoReply("away", sent=False)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def answers(route: Any, reply: Callable[[RoundTrip], Any]) -> list[RoundTrip]:
    """Run a route; `reply` gives the answer to each command. Return the round trips."""
    made: list[RoundTrip] = []
    try:
        step = next(route)
        while True:
            made += step
            step = route.send([[reply(trip)] if trip.commands else [] for trip in step])
    except StopIteration:
        return made


class World:
    """What sentinels and servers answer. `primary` is what the sentinels name; those in `away` do not answer."""

    def __init__(self) -> None:
        self.primary, self.away, self.seconds = PRIMARY, set[Node](), 0.0
        self.clock = Clock()
        self.router = SentinelRouter(SENTINELS, "service", self.clock)

    def reply(self, trip: RoundTrip) -> Any:
        if trip.node.sentinel:
            if trip.node in self.away:
                self.clock.now += self.seconds
                return AWAY
            return [self.primary.host.encode(), str(self.primary.port).encode()]
        return [b"master"] if trip.commands == (("ROLE",),) else b"done"

    def call(self) -> list[Node]:
        """The nodes that one call talks to."""
        return [trip.node for trip in answers(self.router.run([RoutedCommand(("PING",))]), self.reply) if trip.commands]

    def closed_by_a_call(self) -> list[Node]:
        made = answers(self.router.run([RoutedCommand(("PING",))]), self.reply)
        return [trip.node for trip in made if not trip.commands]


def test_the_sentinels_are_asked_again_when_their_word_is_old() -> None:
    world = World()
    assert world.call() == [SENTINELS[0], PRIMARY, PRIMARY]
    assert world.call() == [PRIMARY]
    world.clock.now += router.LOOK_SECONDS - 0.01
    assert world.call() == [PRIMARY]
    world.clock.now += 0.01
    assert world.call() == [SENTINELS[0], PRIMARY]
    assert world.call() == [PRIMARY]
    assert router.LOOK_SECONDS < 1


def test_a_replaced_primary_is_left_and_its_connections_are_closed() -> None:
    world = World()
    world.call()
    world.primary = HEIR
    world.clock.now += router.LOOK_SECONDS
    assert world.closed_by_a_call() == [PRIMARY]
    assert world.call() == [HEIR]


def test_while_no_sentinel_answers_the_primary_goes_on_and_asking_takes_little_time() -> None:
    world = World()
    world.call()
    world.away, world.seconds = set(SENTINELS), 5.0
    world.clock.now += router.LOOK_SECONDS
    assert world.call() == [*SENTINELS, PRIMARY]
    world.clock.now += 99
    assert world.call() == [PRIMARY]
    world.clock.now += 1
    world.away, world.primary = {SENTINELS[0]}, HEIR
    assert world.call() == [SENTINELS[0], SENTINELS[1], SENTINELS[1], HEIR, HEIR]
    world.clock.now += router.LOOK_SECONDS
    assert world.call() == [SENTINELS[1], HEIR], "the one that answers is asked first"


def test_one_of_many_calls_at_once_asks() -> None:
    world = World()
    world.call()
    world.clock.now += router.LOOK_SECONDS
    first = world.router.run([RoutedCommand(("PING",))])
    asked = next(first)
    assert isinstance(asked, list)
    assert [trip.node for trip in asked] == [SENTINELS[0]]
    assert world.call() == [PRIMARY]


@pytest.fixture(scope="module")
def pair() -> Iterator[SentinelPair]:
    with SentinelPair(down_after=30_000) as pair:
        yield pair


def settings(pair: SentinelPair) -> Settings:
    return load({"GOSSAMER_URL": pair.url}, environ={})


def users(server: Server) -> str:
    """The ordinary clients of a server, without those of sentinels."""
    lines = str(server.call("CLIENT", "LIST", "TYPE", "normal")).splitlines()
    return "\n".join(line for line in lines if "cmd=set" in line.lower())


def check_left(pair: SentinelPair, set_number: Callable[[int], object]) -> None:
    """Calls come to the new primary while the old one still says that it is one, and nothing is open to that."""
    pair.wait_ok()
    set_number(0)
    assert users(pair.primary)
    heir = pair.failover(kill=False)
    calls = iter(range(1, 10**9))

    def arrived() -> bool:
        number = next(calls)
        set_number(number)
        return heir.call("GET", "number") == str(number)

    wait_until(arrived, "a call to come to the new primary")
    assert pair.replica.info("replication")["role"] == "master", "it was not noticed before the old primary knew"
    assert not users(pair.replica)


def test_a_blocking_client_leaves_a_replaced_primary_within_a_second(pair: SentinelPair) -> None:
    with connect(settings(pair)) as connection:
        check_left(pair, lambda number: connection.execute("SET", "number", number))


def test_an_asyncio_client_leaves_a_replaced_primary_within_a_second(pair: SentinelPair) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(connect_async(settings(pair)))
        try:
            execute = connection.commands.execute
            check_left(pair, lambda number: runner.run(connection.drive(execute("SET", "number", number))))
        finally:
            runner.run(connection.close())


def test_a_primary_that_lost_its_replicas_is_asked_about_at_once(
    pair: SentinelPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `min-replicas-to-write` it refuses what would be lost."""
    monkeypatch.setattr(router, "LOOK_SECONDS", 1e9)
    pair.wait_ok()
    with connect(settings(pair)) as connection:
        connection.execute("SET", "number", "1")
        pair.primary.call("CONFIG", "SET", "min-replicas-to-write", 1)
        try:
            heir = pair.failover(kill=False)

            def arrived() -> bool:
                with suppress(FrontierUnavailable):
                    connection.execute("SET", "number", "2")
                return heir.call("GET", "number") == "2"

            wait_until(arrived, "the call to come to the new primary")
            assert pair.replica.info("replication")["role"] == "master", "it had to become a replica first"
            assert pair.replica.call("GET", "number") == "1", "the old primary accepted it"
        finally:
            pair.replica.call("CONFIG", "SET", "min-replicas-to-write", 0)
