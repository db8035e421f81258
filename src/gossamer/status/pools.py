"""Which living workers serve what: groups, and lanes of them that a pool of their own takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gossamer.model import WorkerInfo
from gossamer.model.reply import Counts

UNSERVED = "no worker serves it"


class _Pool(NamedTuple):
    """What a worker takes of its groups."""

    stage: str | None
    lanes: frozenset[str]

    def takes(self, lane: str, stage: str) -> bool:
        return self.stage in (None, stage) and (not self.lanes or lane in self.lanes)


class ServedLanes:
    """What these workers serve, which are alive. One that has told nothing of itself may serve anything."""

    def __init__(self, workers: Iterable[WorkerInfo]) -> None:
        self._pools: dict[str, list[_Pool]] = {}
        self._outages: dict[str, str] = {}
        self._any = False
        for worker in workers:
            if "group" not in worker.info and "groups" not in worker.info:
                self._any = True
                continue
            pool, outages = _Pool(worker.stage, frozenset(worker.lanes)), worker.outages
            self._outages.update(outages)
            for group in worker.groups:
                if group not in outages:
                    self._pools.setdefault(group, []).append(pool)

    def obstacle(self, group: str) -> str:
        """Why no worker takes pages of a group; "" if one does."""
        if self._any or group in self._pools:
            return ""
        why = self._outages.get(group)
        return f"its workers wait for their database: {why}" if why else UNSERVED

    def lane_obstacle(self, lane: str, stage: str) -> str:
        """Why no worker takes pages of a lane, whose policy names that stage; "" if one does, or if none takes any of its group."""
        pools = () if self._any else self._pools.get(lane.rpartition(".")[0], ())
        if not pools or any(pool.takes(lane, stage) for pool in pools):
            return ""
        return f"no worker serves the stage {stage}" if stage else "no worker serves this layer"

    def unserved_lanes(self, counts: Counts) -> dict[str, str]:
        """The lanes in which pages wait that no worker takes, while others of their group are taken; and why."""
        waiting = [lane.lane for lane in counts.lanes if lane.waiting]
        return {lane: why for lane in waiting if (why := self.lane_obstacle(lane, stage_of(counts, lane)))}


def stage_of(counts: Counts, lane: str) -> str:
    """The stage that the policy of a lane names."""
    return str(counts.lane_policies[lane].get("stage") or "")
