"""How a worker is let into its group: its lanes and policies are defined, nobody else owns it, and a new round may begin."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from gossamer.courier import gone
from gossamer.errors import GroupOwned, OtherArguments
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import WorkerInfo
from gossamer.scrapy.config import Join
from gossamer.scrapy.process import rounds
from gossamer.scrapy.process.reactor import in_thread

SILENT = 15.0
"""Seconds after which a worker that says nothing is no more, if its leases have run out too."""
LEAVING = 5.0
"""Seconds for which a worker that has ended in good order may still note the end of its round."""
CLOSED = "closed"
"""What a worker's description says when it has ended in good order."""
MODE, FOREVER = "mode", "forever"
"""What it says of when the worker ends."""
PATIENCE = 20.0
"""Seconds for which the workers of a round with other arguments are given time to end."""
AGAIN = 0.2

Ask = Callable[..., Awaitable[Any]]
Sleep = Callable[[float], Awaitable[None]]


async def enter(ask: Ask, sleep: Sleep, join: Join) -> int:
    """GroupOwned where another spider works under this group's name; `ask` calls a verb of the frontier. Returns the round whose
    arguments are settled (see `rounds.take_part`)."""
    join.check_lanes()
    await _define(ask, join)
    began = rounds.started(join.settings["GOSSAMER_CRAWL"], join.group, join.made)
    until = time.monotonic() + PATIENCE
    while True:
        workers, now = await ask("workers"), (await ask("counts", join.group)).now
        there = others(join, workers, now)
        _check_owner(join, there)
        try:
            return await rounds.take_part(
                ask,
                join.group,
                join.settings["GOSSAMER_ROUND"],
                mine=join.arguments,
                same=join.same_arguments,
                waits=join.waits,
                company=_company(there, _leaving(join, workers, now)),
                follows=join.follows,
                began=began,
            )
        except rounds.StillEnding as error:
            if time.monotonic() > until:
                raise OtherArguments(str(error)) from None
        await sleep(AGAIN)


async def _define(ask: Ask, join: Join) -> None:
    await ask("define", join.group, join.lanes, join.policy)
    await ask("set_host", "", join.host)
    for name, policy in join.hosts.items():
        await ask("set_host", name, policy)


async def mend(ask: Ask, join: Join) -> None:
    """After the frontier came back in what may be an older state: make what is missing there, and nothing else."""
    counts = await ask("counts", join.group)
    row = next((row for row in counts.groups if row.group == join.group), None)
    lanes = {lane.lane for lane in counts.lanes}
    if row is None or not lanes.issuperset(f"{join.group}.{name}" for name in join.lanes):
        await _define(ask, join)
    elif row.round:
        # A partition may have gone back behind the beginning of the round that the others are in.
        await ask("new_round", join.group, row.round)


async def without_gone(ask: Ask, join: Join, beside: Callable[[], ValkeyFrontier]) -> Join:
    """The same, knowing which workers of its group are gone though they are listed; `beside` opens a connection."""
    settings = join.settings
    if not any(worker.info.get("group") == join.group for worker in await ask("workers")):
        return join

    def look() -> frozenset[str]:
        with beside() as frontier:
            return gone(frontier, settings["GOSSAMER_GONE_SECONDS"], recent(join))

    return replace(join, gone=await in_thread(look))


def recent(join: Join) -> float:
    """For how many seconds one that says nothing may still live."""
    return max(SILENT, float(join.settings["GOSSAMER_LEASE_SECONDS"]))


def others(join: Join, workers: Sequence[WorkerInfo], now: float) -> list[WorkerInfo]:
    """Who works in the group: who lives is heard of now and then; what a dead one holds runs out."""
    return [
        worker
        for worker in workers
        if worker.info.get("group") == join.group
        and CLOSED not in worker.info
        and now - worker.seen < recent(join)
        and worker.incarnation not in join.gone
    ]


def _company(there: Sequence[WorkerInfo], leaving: bool) -> rounds.Company:
    if there and all(worker.info.get(MODE) == FOREVER for worker in there):
        return rounds.Company.WAITING
    return rounds.Company.ENDING if there or leaving else rounds.Company.NOBODY


def _leaving(join: Join, workers: Sequence[WorkerInfo], now: float) -> bool:
    return any(
        worker.info.get("group") == join.group and CLOSED in worker.info and now - worker.seen < LEAVING
        for worker in workers
    )


def _check_owner(join: Join, workers: Sequence[WorkerInfo]) -> None:
    for worker in workers:
        other = worker.info.get("spider", "")
        if other and other != join.spider_class:
            raise GroupOwned(
                f"The group {join.group} is worked on by {other} (worker {worker.incarnation} on "
                f"{worker.info.get('host', '?')}); this spider is {join.spider_class}. "
                "Give one of them another name, or set GOSSAMER_GROUP or GOSSAMER_CRAWL."
            )
