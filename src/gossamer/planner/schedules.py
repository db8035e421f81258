"""What is to be planned: the schedules of a crawl's sites and spiders, read again when one of them has changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from gossamer.errors import SiteError
from gossamer.frontier.contract import Frontier
from gossamer.planner.policy.rounds import RoundPolicy, round_policy
from gossamer.sites.file.load import load_text
from gossamer.sites.format.spider import SpiderTasks
from gossamer.sites.spider import load_spiders

logger = logging.getLogger(__name__)

SITE, SPIDER = "site", "spider"
"""The kinds of site files and of spiders' schedules among the crawl's documents."""


class PlannedGroup(NamedTuple):
    """A site or spider of the crawl, and when its rounds begin."""

    group: str
    policy: RoundPolicy
    file: str
    kind: str = SITE
    tasks: SpiderTasks | None = None


class Schedules:
    """`groups` has all that is planned, by its name. A file that cannot be read counts as it was."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._version = -1
        self._files: dict[tuple[str, str], tuple[int, list[PlannedGroup]]] = {}
        """By kind and name."""
        self.groups: dict[str, PlannedGroup] = {}

    def update(self, version: int) -> bool:
        """Read what has changed if the documents have another version than before; whether anything has."""
        if version == self._version:
            return False
        files = {
            (kind, info.name): info
            for kind in (SPIDER, SITE)
            for info in self._frontier.documents(kind)
            if not info.deleted
        }
        for key, info in files.items():
            known = self._files.get(key)
            if known is None or known[0] != info.version:
                before = [] if known is None else known[1]
                self._files[key] = info.version, self._read(*key, before)
        self._files = {key: self._files[key] for key in files}
        # A site goes before a spider of its name.
        self.groups = {one.group: one for _, groups in self._files.values() for one in groups}
        self._version = version
        return True

    def _read(self, kind: str, file: str, before: list[PlannedGroup]) -> list[PlannedGroup]:
        try:
            return list(_groups(kind, file, self._frontier.document(kind, file).text))
        except SiteError as error:
            logger.error("The %s file %s cannot be used; what it plans goes on as before: %s", kind, file, error)
            return before


def _groups(kind: str, file: str, text: str) -> Iterator[PlannedGroup]:
    if kind == SPIDER:
        for plan in load_spiders(text, file).plans:
            yield PlannedGroup(plan.spider, round_policy(plan.schedule), file, SPIDER, plan.tasks)
        return
    for site in load_text(text, file):
        if site.active:
            yield PlannedGroup(site.site, round_policy(site.schedule), file)
