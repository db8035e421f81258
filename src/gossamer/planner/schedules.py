"""What is to be planned: the schedules of a crawl's sites and spiders, read again when one of them has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gossamer.errors import SiteError
from gossamer.frontier.contract import Frontier
from gossamer.model import Document
from gossamer.model.document import DRAINING
from gossamer.planner.policy.rounds import RoundPolicy, round_policy
from gossamer.sites.file.load import load_kept
from gossamer.sites.format import SiteSpec
from gossamer.sites.format.spider import SpiderTasks
from gossamer.sites.spider import KIND, load_spiders
from gossamer.status.overview import WORKERS_READ, is_alive

logger = logging.getLogger(__name__)

SITE, SPIDER = "site", KIND
"""The kinds of site files and of spiders' schedules among the crawl's documents."""
SERVED_SECONDS = 5.0
"""How often it is looked up which groups workers serve."""


class PlannedGroup(NamedTuple):
    """A site or spider of the crawl, and when its rounds begin. `tasks` and `arguments` are those of a spider."""

    group: str
    policy: RoundPolicy
    file: str
    kind: str = SITE
    tasks: SpiderTasks | None = None
    arguments: Mapping[str, str] = MappingProxyType({})
    draining: bool = False
    """Whether it begins no more rounds, since its file is to be removed."""
    off: str = ""
    """Why its file lets nothing of it be crawled, or ""."""


class Schedules:
    """`groups` has all that is planned, by its name. A file that cannot be read counts as it was."""

    def __init__(self, frontier: Frontier, *, keep_sites: bool = False) -> None:
        self._frontier = frontier
        self.sites: dict[str, SiteSpec] | None = {} if keep_sites else None
        """What the site files say, where that is kept."""
        self._version, self._epoch = -1, ""
        self._files: dict[tuple[str, str], tuple[int, list[PlannedGroup]]] = {}
        """By kind and name."""
        self.groups: dict[str, PlannedGroup] = {}

    def update(self, version: int, between: Callable[[], object] = lambda: None, *, epoch: str = "") -> bool:
        """Read what has changed if the documents have another version than before; whether anything has. In another `epoch` of the server
        everything is read: it may have gone back, and have other texts under the same versions. `between` is called now and then while many
        are read."""
        doubted = epoch != self._epoch
        if version == self._version and not doubted:
            return False
        files = {
            (kind, info.name): info
            for kind in (SPIDER, SITE)
            for info in self._frontier.documents(kind)
            if not info.deleted
        }
        changed = [
            key
            for key, info in files.items()
            if doubted or key not in self._files or self._files[key][0] != info.version
        ]
        for kind in (SPIDER, SITE):
            names = [name for other, name in changed if other == kind]
            for document in self._frontier.read_documents(kind, names):
                between()
                if document.deleted:
                    continue
                _, before = self._files.get((kind, document.name), (0, []))
                self._files[kind, document.name] = document.version, self._read(kind, document, before)
        # One that was removed meanwhile was not read.
        self._files = {key: self._files[key] for key in files if key in self._files}
        draining = {info.name for info in self._frontier.documents(DRAINING) if not info.deleted}
        found = [
            _without_rounds(one) if one.kind == SITE and one.file in draining else one
            for _, groups in self._files.values()
            for one in groups
        ]
        # A site goes before a spider of its name, unless it is not crawled.
        self.groups = {one.group: one for one in sorted(found, key=lambda one: not one.off)}
        self._version, self._epoch = version, epoch
        return True

    def _read(self, kind: str, document: Document, before: list[PlannedGroup]) -> list[PlannedGroup]:
        try:
            return list(_groups(kind, document.name, document.text, self.sites))
        except SiteError as error:
            logger.error(
                "The %s file %s cannot be used; what it plans goes on as before: %s", kind, document.name, error
            )
            return before


class ServedGroups:
    """The planned groups that a living worker serves, looked up from time to time. The same object as long as they are the same."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier, self._next = frontier, 0.0
        self._served: frozenset[str] = frozenset()
        self._known: tuple[object, Mapping[str, PlannedGroup]] = None, {}

    def of(self, planned: Mapping[str, PlannedGroup], now: float) -> Mapping[str, PlannedGroup]:
        changed = self._known[0] is not planned
        if not self._next - SERVED_SECONDS <= now < self._next:
            self._next = now + SERVED_SECONDS
            workers = [worker for worker in self._frontier.workers(WORKERS_READ) if is_alive(worker, now)]
            served = frozenset(group for worker in workers for group in worker.groups)
            changed, self._served = changed or served != self._served, served
        if changed:
            self._known = planned, {name: group for name, group in planned.items() if name in self._served}
        return self._known[1]


def _without_rounds(group: PlannedGroup) -> PlannedGroup:
    return group._replace(policy=RoundPolicy(None), draining=True)


def _groups(kind: str, file: str, text: str, kept: dict[str, SiteSpec] | None) -> Iterator[PlannedGroup]:
    if kind == SPIDER:
        for plan in load_spiders(text, file).plans:
            yield PlannedGroup(plan.spider, round_policy(plan.schedule), file, SPIDER, plan.tasks, plan.arguments)
        return
    for site in load_kept(text, file):
        if kept is not None:
            kept[site.site] = site
        if site.is_served:
            yield PlannedGroup(site.site, round_policy(site.schedule), file)
        else:
            off = "its weight is 0" if site.active else "its file says active: false"
            yield PlannedGroup(site.site, RoundPolicy(None), file, off=off)
