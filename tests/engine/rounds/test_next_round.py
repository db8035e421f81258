"""Workers begin the next round by what the server says now, not by what they have heard of it before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from gossamer.engine.rounds.next_round import NextRounds
from gossamer.engine.sites import ServedSite
from gossamer.frontier.contract import Frontier
from gossamer.model import Counts, GroupCounts, RoundInfo
from gossamer.sites.format import Schedule


async def test_a_server_that_went_back_is_not_asked_for_a_round_after_those_that_it_lost() -> None:
    """They have heard of round 7; the server knows of 6 only: round 7 is the next one, and 8 is not begun."""
    asked: list[tuple[str, tuple[Any, ...]]] = []
    known, begins = 6, 7

    async def ask(verb: Any, *args: Any, **more: Any) -> Any:
        asked.append((verb.__name__, args))
        if verb.__name__ == Frontier.new_round.__name__:
            assert more["after"] == 0.0
            return begins
        return [RoundInfo("a", known, "ended", 0.0, 1.0, 1.0, "", "", 0, 0, 0, 0, False, "")]

    site = cast(ServedSite, SimpleNamespace(name="a"))
    row = cast(GroupCounts, SimpleNamespace(round=7, paused="", start="done"))
    rounds = NextRounds(cast(Any, ask), lambda _: Schedule(every=10))
    rounds.heard(cast(Counts, SimpleNamespace(now=5000.0, led=False, paused="", clocks={"a": 1000.0})))
    assert not await rounds.begun(site, row, over=True)
    assert [name for name, _ in asked] == [Frontier.rounds.__name__]
    known = 7
    rounds.heard(cast(Counts, SimpleNamespace(now=5000.0, led=False, paused="", clocks={"a": 9.0})))
    assert not await rounds.begun(site, row, over=True), "the clock that counts is not the latest one"
    rounds.heard(cast(Counts, SimpleNamespace(now=5000.0, led=False, paused="", clocks={"a": 1000.0})))
    assert not await rounds.begun(site, row, over=True), "the server has lost round 7 by now"
    begins = 8
    assert await rounds.begun(site, row, over=True), "it looks again at once"
    assert asked[-1] == ("new_round", ("a", 8))


async def test_a_round_that_waits_for_what_comes_after_the_last_one_was_not_missed() -> None:
    """Nothing was left of it before the next one was due, and its hook took two minutes longer."""

    async def ask(verb: Any, *args: Any, **more: Any) -> Any:
        if verb.__name__ == Frontier.new_round.__name__:
            return 1
        return [RoundInfo("a", 0, "ended", 0.0, 500.0, 720.0, "", "", 0, 0, 0, 0, False, "")]

    site = cast(ServedSite, SimpleNamespace(name="a"))
    row = cast(GroupCounts, SimpleNamespace(round=0, paused="", start="done"))
    rounds = NextRounds(cast(Any, ask), lambda _: Schedule(every=600, catch_up="none"))
    rounds.heard(cast(Counts, SimpleNamespace(now=721.0, led=False, paused="", clocks={"a": 721.0})))
    assert await rounds.begun(site, row, over=True)


async def test_no_round_begins_while_the_whole_crawl_is_paused() -> None:
    async def ask(verb: Any, *args: Any, **more: Any) -> Any:
        if verb.__name__ == Frontier.new_round.__name__:
            return 1
        return [RoundInfo("a", 0, "ended", 0.0, 1.0, 1.0, "", "", 0, 0, 0, 0, False, "")]

    site = cast(ServedSite, SimpleNamespace(name="a"))
    row = cast(GroupCounts, SimpleNamespace(round=0, paused="", start="done"))
    rounds = NextRounds(cast(Any, ask), lambda _: Schedule(every=10))
    rounds.heard(cast(Counts, SimpleNamespace(now=50.0, led=False, paused="for the night", clocks={"a": 50.0})))
    assert not await rounds.begun(site, row, over=True)
    assert rounds.concerns(site, 0), "it looks again soon: nobody says when it is resumed"
    rounds.heard(cast(Counts, SimpleNamespace(now=50.0, led=False, paused="", clocks={"a": 50.0})))
    assert await rounds.begun(site, row, over=True)
