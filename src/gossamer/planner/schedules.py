"""What is to be planned: the schedules of a crawl's sites, read again when one of them has changed."""

from __future__ import annotations

import logging
from typing import NamedTuple

from gossamer.errors import SiteError
from gossamer.frontier.contract import Frontier
from gossamer.planner.policy.rounds import RoundPolicy, round_policy
from gossamer.sites.file.load import load_text

logger = logging.getLogger(__name__)

SITE = "site"
"""The kind of site files among the crawl's documents."""


class PlannedGroup(NamedTuple):
    """A site of the crawl, and when its rounds begin."""

    group: str
    policy: RoundPolicy
    file: str


class Schedules:
    """`groups` has all that is planned, by its name. A file that cannot be read counts as it was."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._version = -1
        self._files: dict[str, tuple[int, list[PlannedGroup]]] = {}
        self.groups: dict[str, PlannedGroup] = {}

    def update(self, version: int) -> bool:
        """Read what has changed if the documents have another version than before; whether anything has."""
        if version == self._version:
            return False
        files = {info.name: info for info in self._frontier.documents(SITE) if not info.deleted}
        for name, info in files.items():
            known = self._files.get(name)
            if known is None or known[0] != info.version:
                before = [] if known is None else known[1]
                self._files[name] = info.version, self._read(name, before)
        self._files = {name: known for name, known in self._files.items() if name in files}
        self.groups = {one.group: one for _, groups in self._files.values() for one in groups}
        self._version = version
        return True

    def _read(self, file: str, before: list[PlannedGroup]) -> list[PlannedGroup]:
        try:
            sites = load_text(self._frontier.document(SITE, file).text, file)
        except SiteError as error:
            logger.error("The site file %s cannot be used; its sites are planned as before: %s", file, error)
            return before
        return [PlannedGroup(one.site, round_policy(one.schedule), file) for one in sites if one.active]
