"""How a worker joins its group: it defines lanes and policies, checks that no other spider owns the group, and may begin a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from gossamer.courier import is_gone
from gossamer.courier.outage import Sleep
from gossamer.courier.rounds import DEFINED_LATELY
from gossamer.courier.transport import Ask
from gossamer.errors import GroupOwned, OtherArguments
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.scrapy.config import WorkerConfig
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.reactor import in_thread

SILENT = 15.0
"""Seconds of silence after which a worker counts as dead, if its leases have run out too."""
LEAVING = 5.0
"""Seconds for which a worker that has ended in good order may still note the end of its round."""
MODE, FOREVER = "mode", "forever"
"""In a worker's info: when it ends."""
PATIENCE = 20.0
"""Seconds for which the workers of a round with other arguments are given time to end."""
AGAIN = 0.2


async def enter(ask: Ask, sleep: Sleep, worker_config: WorkerConfig) -> int:
    """GroupOwned where another spider works under this group's name; `ask` calls a verb of the frontier. Returns the round whose
    arguments are settled (see `rounds.take_part`)."""
    worker_config.check_lanes()
    await _define(ask, worker_config)
    began = rounds.started(worker_config.settings["GOSSAMER_CRAWL"], worker_config.group, worker_config.made)
    until = time.monotonic() + PATIENCE
    while True:
        workers, now = await ask(Frontier.workers), (await ask(Frontier.counts, worker_config.group)).now
        there = others(worker_config, workers, now)
        _check_owner(worker_config, there)
        try:
            return await rounds.take_part(
                ask,
                worker_config.group,
                worker_config.settings["GOSSAMER_ROUND"],
                mine=worker_config.arguments,
                same=worker_config.same_arguments,
                waits=worker_config.waits,
                other_workers=_other_workers(there, _leaving(worker_config, workers, now)),
                follows=worker_config.follows,
                began=began,
            )
        except rounds.RoundEnding as error:
            if time.monotonic() > until:
                raise OtherArguments(str(error)) from None
        await sleep(AGAIN)


async def _define(ask: Ask, worker_config: WorkerConfig) -> None:
    await ask(Frontier.define, worker_config.group, worker_config.lanes, worker_config.policy)
    await ask(Frontier.set_host, "", worker_config.host)
    for name, policy in worker_config.hosts.items():
        await ask(Frontier.set_host, name, policy)


async def repair(ask: Ask, worker_config: WorkerConfig) -> None:
    """After the frontier came back in what may be an older state: make what is missing there, and nothing else. What was said lately may be
    missing though group and lanes are there."""
    counts = await ask(Frontier.counts, worker_config.group)
    row = next((row for row in counts.groups if row.group == worker_config.group), None)
    lanes = {lane.lane for lane in counts.lanes}
    lately = time.monotonic() - worker_config.made < DEFINED_LATELY
    if lately or row is None or not lanes.issuperset(f"{worker_config.group}.{name}" for name in worker_config.lanes):
        await _define(ask, worker_config)
    if row is not None and row.round:
        # A partition may have gone back behind the beginning of the round that the others are in.
        await ask(Frontier.new_round, worker_config.group, row.round)


async def without_gone(ask: Ask, worker_config: WorkerConfig, beside: Callable[[], ValkeyFrontier]) -> WorkerConfig:
    """The same, knowing which workers of its group are gone though they are listed; `beside` opens a connection."""
    settings = worker_config.settings
    if not any(worker.info.get("group") == worker_config.group for worker in await ask(Frontier.workers)):
        return worker_config

    def look() -> frozenset[str]:
        with beside() as frontier:
            return is_gone(frontier, settings["GOSSAMER_GONE_SECONDS"], recent(worker_config))

    return replace(worker_config, gone=await in_thread(look))


def recent(worker_config: WorkerConfig) -> float:
    """For how many seconds a silent worker may still live."""
    return max(SILENT, float(worker_config.settings["GOSSAMER_LEASE_SECONDS"]))


def others(worker_config: WorkerConfig, workers: Sequence[WorkerInfo], now: float) -> list[WorkerInfo]:
    """Who works in the group: who lives is heard of now and then; what a dead one holds runs out."""
    return [
        worker
        for worker in workers
        if worker.info.get("group") == worker_config.group
        and not worker.closed
        and now - worker.seen < recent(worker_config)
        and worker.incarnation not in worker_config.gone
    ]


def _other_workers(there: Sequence[WorkerInfo], leaving: bool) -> rounds.OtherWorkers:
    if there and all(worker.info.get(MODE) == FOREVER for worker in there):
        return rounds.OtherWorkers.WAITING
    return rounds.OtherWorkers.ENDING if there or leaving else rounds.OtherWorkers.NOBODY


def _leaving(worker_config: WorkerConfig, workers: Sequence[WorkerInfo], now: float) -> bool:
    return any(
        worker.info.get("group") == worker_config.group and worker.closed and now - worker.seen < LEAVING
        for worker in workers
    )


def _check_owner(worker_config: WorkerConfig, workers: Sequence[WorkerInfo]) -> None:
    for worker in workers:
        other = worker.info.get("spider", "")
        if other and other != worker_config.spider_class:
            raise GroupOwned(
                f"The group {worker_config.group} is worked on by {other} (worker {worker.incarnation} on "
                f"{worker.info.get('host', '?')}); this spider is {worker_config.spider_class}. "
                "Give one of them another name, or set GOSSAMER_GROUP or GOSSAMER_CRAWL."
            )
