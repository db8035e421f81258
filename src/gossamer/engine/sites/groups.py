"""The groups and lanes of sites in the frontier."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from gossamer.courier.rounds import DEFINED_LATELY
from gossamer.courier.transport import Ask
from gossamer.engine.sites.files import SiteFiles
from gossamer.engine.sites.sites import ServedSite
from gossamer.errors import GroupDropping
from gossamer.frontier.contract import Frontier
from gossamer.frontier.snapshot import line
from gossamer.model import RevisitRules
from gossamer.model.plan.page_record import YEARS
from gossamer.model.reply import Counts
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite

logger = logging.getLogger(__name__)

DROPPED = "dropped"
"""Why a group is paused that is being dropped."""

ONCE_MORE = RevisitRules(YEARS, YEARS, YEARS)
"""Visits of a layer that is gone: what is due comes when it was to come, and then not for as long as can be said."""


class SiteGroups:
    """Defines a group for each site and a lane for each layer."""

    def __init__(self, ask: Ask, files: SiteFiles, settings: Settings) -> None:
        self._ask, self._files, self._settings = ask, files, settings
        self._defined: dict[str, float] = {}
        """When each site was defined last."""
        self._dropping: set[str] = set()
        """Sites that `repair` could not define, because their group was being dropped."""

    async def define(self, site: ServedSite) -> None:
        """Define the group of a site and its hosts."""
        await self._define_group(site.compiled)
        if not await self._files.is_outdated():
            # The newer file may have the layers that this one lacks.
            await self._retire(site.compiled)
        for name, policy in site.compiled.hosts().items():
            await self._ask(Frontier.set_host, name, policy)

    async def define_targets(self, site: ServedSite) -> None:
        """Define the groups of other sites that its links lead to, if nobody has served them yet: what leads there waits there."""
        others = [other for name in sorted(site.target_sites) if (other := self._files.other_site(name)) is not None]
        if others:
            there = _lanes(await self._ask(Frontier.counts))
        for other in others:
            if not _has_lanes(there, other):
                await self._define_group(other)

    async def repair(self, sites: Iterable[ServedSite], since: float, former: Collection[str] = ()) -> bool:
        """Define the groups and lanes that the frontier has lost, and those whose last definition, before `since` by the loop's clock, it may
        have lost; of `former` sites, served by an older file than the crawl has, only what is not there. False: a group is being
        dropped, and it has to be looked at again; one that is gone then was dropped by an operator."""
        counts = await self._ask(Frontier.counts)
        there, going = _lanes(counts), {row.group for row in counts.groups if row.paused == DROPPED}
        lately = since - DEFINED_LATELY
        dropping, self._dropping = self._dropping, set()
        for site in sites:
            if site.name in dropping and not any(f"{site.name}.{layer}" in there for layer in site.lanes()):
                continue
            if site.name in going:
                # Not found out by trying: the drop may end meanwhile, and the group would come back.
                self._look_later(site.name, dropping)
                continue
            try:
                if site.name in former:
                    await self._define_missing(site.compiled, there)
                elif lately < self._defined.get(site.name, lately) < since or not _has_lanes(there, site.compiled):
                    await self.define(site)
                await self.define_targets(site)
            except GroupDropping:
                self._look_later(site.name, dropping)
        return not self._dropping

    def _look_later(self, site: str, known: Collection[str]) -> None:
        self._dropping.add(site)
        if site not in known:
            logger.warning(
                "The site %s is looked at again later: its group is being dropped. If the drop was interrupted, finish it with "
                "`gossamer group drop`.",
                site,
            )

    async def _define_group(self, compiled: CompiledSite) -> None:
        bounded = replace(
            compiled.group(),
            max_items=self._settings["GOSSAMER_ITEMS_MAX"],
            max_item_bytes=self._settings["GOSSAMER_ITEMS_MAX_BYTES"],
            max_item_age=self._settings["GOSSAMER_ITEMS_MAX_AGE"],
            max_dead=self._settings["GOSSAMER_DEAD_MAX"],
        )
        self._defined[compiled.name] = asyncio.get_running_loop().time()
        await self._ask(Frontier.define, compiled.name, compiled.lanes(), bounded)

    async def _define_missing(self, compiled: CompiledSite, there: set[str]) -> None:
        """What a newer file says of the rest stays as it is."""
        missing = {name: policy for name, policy in compiled.lanes().items() if f"{compiled.name}.{name}" not in there}
        if all(lane.rpartition(".")[0] != compiled.name for lane in there):
            await self._define_group(compiled)
        elif missing:
            await self._ask(Frontier.define, compiled.name, missing)

    async def _retire(self, compiled: CompiledSite) -> None:
        """Pages of layers that are gone from the file go over to the layer that matches them now: what is queued is given to a pool of
        workers that the file names, and what has a record is due once more."""
        there, own = (await self._ask(Frontier.counts, compiled.name)).lane_policies, compiled.lanes()
        stages = [policy.stage for policy in own.values()]
        retired = {}
        for lane, table in there.items():
            name = lane.removeprefix(f"{compiled.name}.")
            if name in own:
                continue
            policy = found = line.lane_policy_from(line.lane_policy(table))
            if policy.stage not in stages:
                policy = replace(policy, stage=stages[0])
            if policy.records is not None and policy.records.revisit is not None:
                policy = replace(policy, records=replace(policy.records, revisit=ONCE_MORE))
            if policy != found:
                retired[name] = policy
        if retired:
            await self._ask(Frontier.define, compiled.name, retired)


def _lanes(counts: Counts) -> set[str]:
    """The lanes that the frontier has."""
    return {lane.lane for lane in counts.lanes}


def _has_lanes(there: set[str], compiled: CompiledSite) -> bool:
    return there.issuperset(f"{compiled.name}.{layer}" for layer in compiled.lanes())
