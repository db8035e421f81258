"""Whether items go into their group's stream: all workers of a group say the same, or a file of the fleet would lack some.

With `GOSSAMER_ITEMS=auto` a worker that has a feed streams its items, and one that has none but pipelines does not. So each of them
says what it means to do before it looks at what the others do: of two that come at once, at least one sees the other. One that has
no feed streams for those who have: for a worker that lives, and for a file that nobody writes now but that waits for its items.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from gossamer.courier.transport import Ask
from gossamer.errors import SettingError
from gossamer.frontier.contract import Frontier
from gossamer.model import Token, WorkerInfo
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.process.admission import SILENT, others

logger = logging.getLogger(__name__)

ITEMS = "items"
"""What a worker's description says of its items: one of these."""
FEED, STREAM, KEPT, ASKING = "feed", "stream", "kept", "asking"
PATIENCE = 10.0
"""Seconds for which one that has just come is given time to say what it does."""
AGAIN = 0.1

Sleep = Callable[[float], Awaitable[None]]
Waiting = Callable[[], Awaitable[Sequence[str]]]
"""The consumers that keep items for files of this round (see `position.waiting`)."""


def item_destination(worker_config: WorkerConfig) -> str:
    """What becomes of the worker's items."""
    if not worker_config.streams:
        return KEPT
    return FEED if worker_config.feeds else STREAM


async def agree(
    ask: Ask, sleep: Sleep, worker_config: WorkerConfig, info: Mapping[str, str], waiting: Waiting
) -> tuple[WorkerConfig, Token | None]:
    """How this worker joins after all, and the token it has called by, if any. SettingError where its items and those of the
    workers that are there would not go the same way, and a file would lack some."""
    mine = item_destination(worker_config)
    if mine == STREAM:
        return worker_config, None
    token = Token.fresh()
    await ask(Frontier.exchange, token, info={**info, ITEMS: ASKING if mine == KEPT else FEED})
    try:
        if mine == FEED:
            await _check(ask, sleep, worker_config, token)
        else:
            worker_config = await _follow(ask, worker_config, token, waiting)
    except BaseException:
        await ask(Frontier.leave, token.incarnation)
        raise
    return worker_config, token


async def _check(ask: Ask, sleep: Sleep, worker_config: WorkerConfig, token: Token) -> None:
    """Wait for those who have not decided yet; refuse to be the one whose file lacks the items of another."""
    until = time.monotonic() + PATIENCE
    while True:
        there = await _others(ask, worker_config, token)
        for worker in there:
            if worker.info.get(ITEMS) == KEPT:
                raise SettingError(
                    f"The feed would lack items: worker {worker.incarnation} on {worker.info.get('host', '?')} leaves its items to ITEM_PIPELINES or "
                    "a feed of its own. Stop it and run it with the same -O, -o or FEEDS, or set "
                    'GOSSAMER_ITEMS = "stream" for all workers; or run this one without a feed.'
                )
        if not any(worker.info.get(ITEMS) == ASKING for worker in there) or time.monotonic() > until:
            return
        await sleep(AGAIN)


async def _follow(ask: Ask, worker_config: WorkerConfig, token: Token, waiting: Waiting) -> WorkerConfig:
    """Stream, if somebody has a file that is written from the stream."""
    there, now = await _others(ask, worker_config, token), (await ask(Frontier.counts, worker_config.group)).now
    feed = next((one for one in there if one.info.get(ITEMS) == FEED and now - one.seen < SILENT), None)
    if feed is not None:
        why, remedy = f"worker {feed.incarnation} on {feed.info.get('host', '?')} has a feed", ""
    elif files := await waiting():
        why = f"a file that no worker writes now ({', '.join(files)}) waits for the items of this round"
        remedy = (
            "Run a worker with that feed again. To give the file up, forget it and start this worker again: "
            + ", ".join(f"`gossamer items forget {worker_config.group} {name}`" for name in files)
        )
    else:
        return worker_config
    if worker_config.settings["GOSSAMER_ITEMS"] == "off":
        raise SettingError(
            f"GOSSAMER_ITEMS is off, but {why}, which would lack this worker's items. {remedy or 'Leave it unset'}."
        )
    if remedy:
        logger.warning("Items go into the stream besides ITEM_PIPELINES: %s. %s.", why, remedy)
    else:
        logger.info("Items go into the stream besides ITEM_PIPELINES: %s.", why)
    return replace(worker_config, streams=True, for_others=True)


async def _others(ask: Ask, worker_config: WorkerConfig, token: Token) -> Sequence[WorkerInfo]:
    workers, now = await ask(Frontier.workers), (await ask(Frontier.counts, worker_config.group)).now
    return [worker for worker in others(worker_config, workers, now) if worker.incarnation != token.incarnation]
