"""The demo's workers: each its own incarnation, all on one frontier, until the group is drained."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter as Tally

from gossamer.demo import page
from gossamer.demo.client import Client
from gossamer.frontier.valkey_async import AsyncValkeyFrontier
from gossamer.model import (
    Ending,
    Feedback,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    Selection,
    Settlement,
    StartState,
    Token,
    Verdict,
)
from gossamer.testing.forum import Layout, Trouble

GROUP = "forum"
LAYOUT = Layout(
    boards=8,
    lists=7,
    posts=14,
    comments=3,
    seed=7,
    trouble=Trouble(slow=0.01, redirect=0.08, busy=0.001, unavailable=0.001, broken=0.05, missing=0.02),
)
POLITENESS = HostPolicy(concurrency=4, block_base=0.25, block_max=5.0)
LANES = {"list": LanePolicy(tier=0), "post": LanePolicy(tier=1), "comment": LanePolicy(tier=2)}
IN_PROGRESS = 16
IDLE_SECONDS = 0.2
"""How long a worker with nothing to do waits at most: what others add does not call it."""


async def prepare(frontier: AsyncValkeyFrontier) -> None:
    await frontier.set_host("", POLITENESS)
    await frontier.define(GROUP, LANES, GroupPolicy(start=True))


class Crawler:
    """One worker. `run` returns when the whole group is drained, whoever did the work."""

    def __init__(self, frontier: AsyncValkeyFrontier, seeds: list[str], name: str, group: str = GROUP) -> None:
        self.frontier, self.seeds, self.name, self.group = frontier, seeds, name, group
        self.statuses: Tally[int] = Tally()
        self._token = Token.fresh()
        self._client = Client()
        self._working: set[asyncio.Task[None]] = set()
        self._settled: list[Settlement] = []
        self._fetched: list[Fetched] = []
        self._unsent: list[Lease] = []
        self._news = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._start()
            await self._work()
        finally:
            for task in self._working:
                task.cancel()
            await asyncio.gather(*self._working, return_exceptions=True)
            self._client.close()

    async def _start(self) -> None:
        state, number = await self.frontier.start(self.group, self._token)
        if state is StartState.GRANTED:
            seeds = [page.request(self.group, url) for url in self.seeds]
            await self.frontier.add(seeds, key=f"start:{self.group}:{number}")
            await self.frontier.started(self.group, self._token)

    async def _work(self) -> None:
        info: dict[str, str] | None = {"name": self.name, "engine": "demo"}
        selection = Selection(groups=(self.group,))
        while True:
            self._news.clear()
            settle, self._settled = self._settled, []
            fetched, self._fetched = self._fetched, []
            unsent, self._unsent = self._unsent, []
            if unsent:
                await self.frontier.release(self._token, unsent)
            self._token = self._token.next()
            answer = await self.frontier.exchange(
                self._token,
                settle=settle,
                fetched=fetched,
                want=IN_PROGRESS - len(self._working),
                selection=selection,
                info=info,
            )
            info = None
            received = time.monotonic()
            for lease in answer.leases:
                task = asyncio.create_task(self._fetch(lease, received + lease.send_by - answer.hints.now))
                self._working.add(task)
                task.add_done_callback(self._working.discard)
            if not answer.leases and not self._working and not self._settled:
                if answer.hints.open == 0 and (await self.frontier.drained(self.group)).drained:
                    return
                await self._idle(answer.hints.ready_in)
            else:
                await self._idle(answer.hints.ready_in if len(self._working) < IN_PROGRESS else None)

    async def _idle(self, ready_in: float | None) -> None:
        """Until something can be said to the frontier, or something may have become ready there."""
        seconds = IDLE_SECONDS if ready_in is None else min(ready_in, IDLE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.001)):
                await self._news.wait()

    async def _fetch(self, lease: Lease, send_by: float) -> None:
        sent = time.monotonic()
        if sent > send_by:
            self._unsent.append(lease)
            self._news.set()
            return
        url = page.url_of(lease)
        try:
            response = await self._client.get(url)
        except (OSError, TimeoutError) as error:
            feedback = Feedback(Verdict.ERROR)
            ending = Ending.RETRY if lease.attempt < 3 else Ending.FAILED
            self._settled.append(
                Settlement(lease, ending, feedback=feedback, delay=0.5, reason="unreachable", detail=str(error))
            )
        else:
            self.statuses[response.status] += 1
            latency = time.monotonic() - sent
            self._settled.append(page.settlement(self.group, lease, url, response, latency))
        self._news.set()


async def crawl(frontier: AsyncValkeyFrontier, seeds: list[str], workers: int) -> list[Crawler]:
    """Prepare the group and crawl it with so many workers until it is drained; answers the workers."""
    await prepare(frontier)
    crawlers = [Crawler(frontier, seeds, f"demo-{number + 1}") for number in range(workers)]
    async with asyncio.TaskGroup() as tasks:
        for crawler in crawlers:
            tasks.create_task(crawler.run())
    return crawlers
