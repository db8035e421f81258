"""The links to a crawl, against a real server."""

from __future__ import annotations

import asyncio

from gossamer.courier import AsyncTransport
from gossamer.frontier.contract import Frontier
from gossamer.settings import load
from gossamer.testing.servers import Server


def test_calls_of_a_link_that_was_closed_are_dropped(valkey_server: Server, crawl_name: str) -> None:
    """A timer of a crawl that has ended may make one, in a process that goes on."""

    async def use() -> list[object]:
        link = AsyncTransport(load({"GOSSAMER_URL": valkey_server.url, "GOSSAMER_CRAWL": crawl_name}))
        opened, answers = asyncio.Event(), list[object]()
        link.open(lambda _frontier, _error: opened.set())
        await opened.wait()
        link.close()
        link.call(Frontier.drained, lambda *answer: answers.append(answer), "any")
        await link.closed()
        return answers

    assert asyncio.run(use()) == []
