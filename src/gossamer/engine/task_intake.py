"""The tasks that a worker takes for its sites, from the keys that their files name: URLs, or JSON objects that name a page of a layer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from gossamer.courier import TaskIntake, Transport
from gossamer.courier.task.format import BODIES, Kind, read_task
from gossamer.engine.counters import SiteCounters
from gossamer.engine.page.payload import pack
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.errors import BadTask
from gossamer.model import Request
from gossamer.model.counter_names import TASKS, TASKS_BAD
from gossamer.settings import Settings

KEYS: dict[str, Kind] = {
    "url": str, "layer": str, "method": str, "headers": dict, "cookies": dict, "body": str, "form": dict, "json": object,
    "priority": int, "pass": dict, "filter": bool,
}  # fmt: skip


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


def request_of(site: ServedSite, data: bytes, limit: int) -> Request:
    """The request that a task describes; BadTask says what is wrong with it. A task is always done, seen or not, unless it
    says `filter`."""
    task = read_task(data, KEYS, ("http", "https"))
    url = task["url"]
    layer = task.get("layer") or site.compiled.first_layer(url)
    if layer not in site.compiled.site.layers:
        raise BadTask(
            f"The task's layer is {layer!r:.100}; the site {site.name} has {', '.join(sorted(site.compiled.site.layers))}."
        )
    headers = {str(name): str(value) for name, value in task.get("headers", {}).items()}
    body = str(task.get("body", "")).encode()
    if "form" in task:
        body = urlencode(task["form"], doseq=True).encode()
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    elif "json" in task:
        body = json.dumps(task["json"]).encode()
        headers.setdefault("Content-Type", "application/json")
    link = site.compiled.link(
        url,
        layer,
        method=task.get("method", "POST" if any(key in task for key in BODIES) else "GET").upper(),
        headers=headers,
        cookies={str(name): str(value) for name, value in task.get("cookies", {}).items()},
        body=body,
        inherited=task.get("pass", {}),
        priority=task.get("priority", 0),
        dont_filter=not task.get("filter", False),
    )
    return pack(link._replace(always=link.dont_filter), f"{site.name}.{link.layer}", limit)
