"""Serves the sites of a crawl as its files say, also while these change, and as soon as what they need can be reached."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

from gossamer.engine.job import NativeJob
from gossamer.engine.records import RecordSink
from gossamer.engine.rounds.rounds import SiteRounds
from gossamer.engine.sites import ServedSite, SiteSet
from gossamer.engine.sites.files import SiteChanges, SiteFiles
from gossamer.engine.sites.groups import SiteGroups
from gossamer.engine.sql_records import store_address
from gossamer.errors import FrontierUnavailable, GossamerError, GroupDropping, MemoryLimitReached, StoreUnavailable
from gossamer.model.database_url import NO_STORE
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite

logger = logging.getLogger(__name__)

UNAVAILABLE = (StoreUnavailable, FrontierUnavailable, MemoryLimitReached, GroupDropping)
"""Failures that pass by themselves: the site is served afterwards."""
AGAIN = 3.0
"""Seconds between two attempts to serve sites whose database is unavailable."""


class SiteUpdates:
    """`serve` takes a site into service, `drop` out of it."""

    def __init__(
        self,
        files: SiteFiles,
        groups: SiteGroups,
        site_set: SiteSet,
        record_sink: RecordSink,
        rounds: SiteRounds,
        settings: Settings,
        job: NativeJob,
        serve: Callable[[ServedSite], Awaitable[None]],
        drop: Callable[[str], None],
    ) -> None:
        self._files, self._groups, self._site_set, self._record_sink = files, groups, site_set, record_sink
        self._rounds, self._settings, self._job = rounds, settings, job
        self._serve_site, self._drop_site = serve, drop
        self.waiting: dict[str, tuple[CompiledSite, GossamerError]] = {}
        """Sites to serve as soon as their database, or the frontier, can be reached."""
        self._former: set[str] = set()
        """Sites whose new version could not be served, and that are served as before."""
        self.behind = False
        """The frontier may lack what is served here."""
        self._behind_since = 0.0
        self._outdated = False
        """A site file has changed since the files were read."""
        self._version = ""
        """The version of the crawl's configuration that the sites were served by last."""
        self._trying: asyncio.Task[None] | None = None
        self._changing: asyncio.Task[bool] | None = None
        self._serving = asyncio.Lock()
        """One at a time: an older version of a file must not come after a newer one."""

    async def begin(self) -> None:
        """Serve all sites for the first time. A worker that has nothing else to do, and would end by itself, fails at once when their
        database cannot be reached."""
        await self._serve(first=True)

    async def current(self) -> bool:
        """Whether the sites are served as the crawl's files say now. If not, they soon are, and the rounds are checked again."""
        if self._serving.locked():
            return False
        self._outdated = await self._files.is_outdated()
        return not self._outdated

    async def is_behind(self, site: str) -> bool:
        """Whether a site is served by an older version of its file than the crawl has: the new one was not read yet, or cannot be used
        here."""
        if self._is_former(site):
            return True
        try:
            return not await self.current()
        except FrontierUnavailable:
            return True

    def _is_former(self, site: str) -> bool:
        """Whether the version of a site's file that was read last is not the one that is served."""
        return site in self.waiting or site in self._former or self._files.is_held(site)

    def rolled_back(self) -> None:
        """The frontier may have an older state: check its files and groups again."""
        self._files.doubt()
        self.behind, self._behind_since = True, asyncio.get_running_loop().time()

    def look(self, version: str | None) -> None:
        """Serve what has changed, and try again what failed. `version` is that of the crawl's configuration, None if it is not known."""
        if self._changing is not None and self._changing.done():
            # Try once more if it failed.
            self._version = self._version if self._changing.result() else ""
            self._changing = None
        changed = self.behind or self._outdated or version != self._version
        if version is not None and self._changing is None and changed:
            # Not awaited: a database that does not answer must not keep this worker from stopping.
            self._version, behind, self.behind, self._outdated = version, self.behind, False, False
            self._changing = asyncio.ensure_future(self._serve_again(define=behind))
        if self.waiting and (self._trying is None or self._trying.done()):
            self._trying = asyncio.ensure_future(self._try_again())

    @property
    def busy(self) -> bool:
        return self.behind or self._changing is not None

    @property
    def tasks(self) -> list[asyncio.Task[None] | asyncio.Task[bool]]:
        """What is under way."""
        return [task for task in (self._trying, self._changing) if task is not None]

    @property
    def changing(self) -> asyncio.Task[bool] | None:
        """Serves changed files; None if none has changed."""
        return self._changing

    async def _serve(self, first: bool = False) -> None:
        """Read the crawl's site files, and serve those that are new or changed. A site whose database cannot be reached is served later."""
        async with self._serving:
            found = await self._files.changed()
            if found is not None:
                await self._serve_found(found, first)

    async def _serve_found(self, found: SiteChanges, first: bool) -> None:
        for name in [name for name in self._site_set.sites if name not in found.names]:
            logger.info("The site %s is not served any more.", name)
            self._drop_site(name)
        self.waiting = {name: one for name, one in self.waiting.items() if name in found.names}
        problems: list[GossamerError] = list(found.problems)
        sites, unavailable = await self._prepare(found.changed)
        for compiled in found.changed:
            self.waiting.pop(compiled.name, None)
            self._former.discard(compiled.name)
            try:
                await self._serve_one(compiled, sites, unavailable)
            except UNAVAILABLE as error:
                logger.warning("The site %s is served later: %s", compiled.name, error)
                self.waiting[compiled.name] = compiled, error
            except GossamerError as error:
                if self._job.sites and first:
                    raise
                # One site of many: the others go on, and this one in its former version.
                logger.error("The site %s is not served: %s", compiled.name, error)
                self._former.add(compiled.name)
                problems.append(error)
        if not self._site_set and not self._job.forever:
            problems += [error for _, error in self.waiting.values()]
        if problems and not self._site_set and (first or not self.waiting):
            raise problems[0]

    async def _prepare(
        self, every: Iterable[CompiledSite]
    ) -> tuple[dict[str, ServedSite], dict[str, StoreUnavailable]]:
        """Prepare their tables all at once: one by one takes much longer, and each would wait for a database that does not answer."""
        sites: dict[str, ServedSite] = {}
        for compiled in every:
            with suppress(GossamerError):
                sites[compiled.name] = self._served(compiled)
        return sites, await self._record_sink.prepare_together(sites.values())

    async def _serve_one(
        self, compiled: CompiledSite, sites: Mapping[str, ServedSite], unavailable: Mapping[str, StoreUnavailable]
    ) -> None:
        # A site that failed there fails here with its reason.
        site = sites.get(compiled.name) or self._served(compiled)
        if (error := unavailable.get(site.name)) is not None:
            raise error
        await self._serve_site(site)

    def _served(self, compiled: CompiledSite) -> ServedSite:
        has_rows = compiled.site.store or compiled.site.refresh
        return ServedSite(compiled, store_address(compiled, self._settings) if has_rows else NO_STORE)

    async def _try_again(self) -> None:
        """Try until the databases of all sites can be reached."""
        while self.waiting:
            await asyncio.sleep(AGAIN)
            async with self._serving:
                sites, unavailable = await self._prepare([compiled for compiled, _ in self.waiting.values()])
                for name, (compiled, _) in list(self.waiting.items()):
                    await self._try_one(name, compiled, sites, unavailable)
            self._rounds.look()

    async def _try_one(
        self,
        name: str,
        compiled: CompiledSite,
        sites: Mapping[str, ServedSite],
        unavailable: Mapping[str, StoreUnavailable],
    ) -> None:
        try:
            await self._serve_one(compiled, sites, unavailable)
        except UNAVAILABLE as error:
            self.waiting[name] = compiled, error
            return
        except GossamerError as error:
            logger.error("The site %s is not served: %s", name, error)
            self._former.add(name)
        else:
            logger.info("The site %s is served now.", name)
        del self.waiting[name]

    async def _serve_again(self, define: bool) -> bool:
        """Serve changed files; False if that has to be tried again. `define`: also define the groups of unchanged sites, afterwards: what
        a file said before must not count again, not even for a moment."""
        done = await self._reached(self._serve())
        if done and define:
            done = await self._reached(self._repair())
        if done:
            self._rounds.look()
        else:
            self.behind = self.behind or define
        return done

    async def _repair(self) -> None:
        # No site is taken into service meanwhile: it would look as if all were behind.
        async with self._serving:
            self._outdated = await self._files.is_outdated()
            former = {site.name for site in self._site_set if self._outdated or self._is_former(site.name)}
            if not await self._groups.repair(list(self._site_set), self._behind_since, former):
                self.behind = True
        self._rounds.rolled_back()

    async def _reached(self, work: Awaitable[None]) -> bool:
        """Whether the frontier was there."""
        try:
            await work
        except GossamerError as error:
            logger.error("The site files of the crawl could not be read again: %s", error)
            return not isinstance(error, FrontierUnavailable)
        return True
