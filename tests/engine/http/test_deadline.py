"""A task that is cancelled ends, also when it is cancelled at the very moment at which what it waits for happens."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gossamer
from gossamer.engine.http.deadline import cancel_tasks, run_until_event, wait_for_event
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.rounds import SiteRounds
from gossamer.engine.rounds.start import RoundStart
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.model import Token

MOMENTS = range(8)
"""Turns of the loop between the two."""


async def _for_ever(event: asyncio.Event) -> None:
    while True:
        event.clear()
        await wait_for_event(event, 60)


def _rounds(event: asyncio.Event) -> Coroutine[Any, Any, None]:
    async def ask(verb: Any, /, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(groups=(), lanes=(), now=0.0, led=False, clocks={}, paused="")

    async def current() -> bool:
        return True

    async def define(site: ServedSite) -> None:
        raise AssertionError(site)

    record_sink: Any = SimpleNamespace(rounds={})
    request_adder: Any = None
    calls = RoundCalls(ask, Token.fresh(), 60)
    start = RoundStart(calls, record_sink, request_adder, 1000)
    rounds = SiteRounds(calls, SiteSet(), record_sink, start, current=current, schedule=lambda _: None, define=define)
    rounds.called = event
    return rounds.run()


@pytest.mark.parametrize("work", [_for_ever, _rounds])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_no_cancellation_is_lost(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]], moment: int) -> None:
    event = asyncio.Event()
    task = asyncio.ensure_future(work(event))
    for _ in range(20):
        await asyncio.sleep(0)
    event.set()
    for _ in range(moment):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=20)
    assert done, "it goes on as if nobody had cancelled it"
    assert task.cancelled()


async def test_what_does_not_end_is_left_behind() -> None:
    going_on = asyncio.Event()

    async def stubborn() -> None:
        while not going_on.is_set():
            try:
                await going_on.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await cancel_tasks([task], 0.01)
        assert not await run_until_event(asyncio.Event(), stubborn(), 0.01)
    going_on.set()
    await task


async def test_what_is_not_done_before_something_happens_is_given_up() -> None:
    stop, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def done() -> None:
        return

    async def wrong() -> None:
        raise ValueError("wrong")

    assert await run_until_event(stop, done())
    with pytest.raises(ValueError, match="wrong"):
        await run_until_event(stop, wrong())
    asyncio.get_running_loop().call_soon(stop.set)
    assert not await run_until_event(stop, work())
    assert ended.is_set()


def test_nothing_of_ours_uses_wait_for() -> None:
    """Before Python 3.12 it swallows a cancellation that comes together with what it waits for; `asyncio.timeout` does not."""
    found = []
    for path in sorted(Path(gossamer.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for") or (
                isinstance(node, ast.ImportFrom)
                and node.module == "asyncio"
                and "wait_for" in [name.name for name in node.names]
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []
