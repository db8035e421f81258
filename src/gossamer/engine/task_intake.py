"""The tasks that a worker takes for its sites, from the keys that their files name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gossamer.courier import TaskIntake, Transport
from gossamer.engine.counters import SiteCounters
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.engine.tasks import request_of
from gossamer.model.counter_names import TASKS, TASKS_BAD
from gossamer.settings import Settings


class SiteTasks:
    """An intake for each site and key."""

    def __init__(self, link: Transport, settings: Settings, site_set: SiteSet, site_counters: SiteCounters) -> None:
        self._link, self._settings, self._site_set, self._site_counters = link, settings, site_set, site_counters
        self._task_intakes: dict[tuple[str, str], TaskIntake] = {}

    def begin(self, site: ServedSite, failed: Callable[[BaseException], None]) -> None:
        """Take the tasks of a site in this version of its file; calls `failed` when that cannot go on."""
        limit = self._settings["GOSSAMER_PAYLOAD_MAX_BYTES"]
        self.keep(site.name, site.compiled.group().tasks)
        for key in site.compiled.group().tasks:
            if (site.name, key) in self._task_intakes:
                continue

            def requests(data: bytes, name: str = site.name) -> Sequence[Any]:
                return [request_of(self._site_set.sites[name], data, limit)]

            task_intake = TaskIntake(
                self._link,
                key,
                site.name,
                requests,
                batch=self._settings["GOSSAMER_TASKS_BATCH"],
                lease_seconds=self._settings["GOSSAMER_LEASE_SECONDS"],
                taken=partial(self._site_counters.of(site.name).add, TASKS),
                bad=partial(self._count_bad, site.name),
                failed=failed,
            )
            self._task_intakes[site.name, key] = task_intake
            task_intake.begin()

    def keep(self, name: str, keys: Sequence[str]) -> None:
        """Take tasks for a site from these keys only."""
        for group, key in [*self._task_intakes]:
            if group == name and key not in keys:
                self._task_intakes.pop((group, key)).stop(lambda: None)

    async def stop(self) -> None:
        """Take no more tasks; those already taken are on their way when this returns."""
        stopped = [asyncio.Event() for _ in self._task_intakes]
        for task_intake, event in zip(self._task_intakes.values(), stopped, strict=True):
            task_intake.stop(event.set)
        for event in stopped:
            await event.wait()

    def _count_bad(self, site: str, _: str) -> None:
        self._site_counters.of(site).add(TASKS_BAD)
