"""How a worker is let into its group: its lanes and policies are defined, nobody else owns it, and a new round may begin."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gossamer.errors import GroupOwned
from gossamer.model import WorkerInfo
from gossamer.worker.join import Join

logger = logging.getLogger(__name__)

SILENT = 15.0
"""Seconds after which a worker that says nothing is no more, if its leases have run out too."""
CLOSED = "closed"
"""What a worker's description says when it has ended in good order."""

Ask = Callable[..., Awaitable[Any]]


async def enter(ask: Ask, join: Join) -> None:
    """GroupOwned where another spider works under this group's name; `ask` calls a verb of the frontier."""
    join.check_lanes()
    await _define(ask, join)
    _check_owner(join, await ask("workers"), (await ask("counts", join.group)).now)
    if join.new_round:
        await _new_round(ask, join.group)


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


async def _new_round(ask: Ask, group: str) -> None:
    # The round is read first: of several workers that find it drained, all ask for the same next one.
    counts = await ask("counts", group)
    row = next(row for row in counts.groups if row.group == group)
    if (await ask("drained", group)).drained:
        number = await ask("new_round", group, row.round + 1)
        logger.info("Round %d of %s begins.", number, group)


def _check_owner(join: Join, workers: Sequence[WorkerInfo], now: float) -> None:
    for worker in workers:
        other = worker.info.get("spider", "")
        # Who lives is heard of now and then; what a dead one holds runs out.
        recent = now - worker.seen < max(SILENT, join.settings["GOSSAMER_LEASE_SECONDS"])
        alive = recent and CLOSED not in worker.info
        if worker.info.get("group") == join.group and other and other != join.spider_class and alive:
            raise GroupOwned(
                f"The group {join.group} is worked on by {other} (worker {worker.incarnation} on "
                f"{worker.info.get('host', '?')}); this spider is {join.spider_class}. "
                "Give one of them another name, or set GOSSAMER_GROUP or GOSSAMER_CRAWL."
            )
