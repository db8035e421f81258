"""The site files of a crawl, as workers see them: read again when one has changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gossamer.courier.transport import Ask
from gossamer.errors import SiteError
from gossamer.frontier.contract import Frontier
from gossamer.model.document import DRAINING
from gossamer.settings import Settings
from gossamer.sites.check.grant import check_grant
from gossamer.sites.check.hooks import check_hooks
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.crossing import ANY, has_functions, split, target_sites, targets
from gossamer.sites.file.grant import Grant, grant_of
from gossamer.sites.file.load import LoadedSite, sound, survey_text
from gossamer.sites.file.problems import SiteErrors, did_you_mean
from gossamer.sites.format import Schedule, SiteSpec
from gossamer.sites.python.code import LoadedCode
from gossamer.sites.tables.clash import FedTable, clashes, fed_tables

logger = logging.getLogger(__name__)

KIND = "site"
"""The kind of site files among the crawl's documents."""


class SiteChanges(NamedTuple):
    """The names of all sites to serve, those that are new or have changed, and what is wrong with files that cannot be used."""

    names: frozenset[str]
    changed: list[CompiledSite]
    problems: list[SiteError]


class SiteFiles:
    """`names` are the sites to serve, empty for all; `engines` those that this worker has. `grant` says what a file may do, by its
    text."""

    def __init__(
        self,
        ask: Ask,
        names: Sequence[str],
        engines: Sequence[str] = ("native",),
        grant: Callable[[str], Grant] = lambda text: Grant(),
    ) -> None:
        self._ask, self._wanted, self._engines, self._grant = ask, frozenset(names), frozenset(engines), grant
        self._version = -1
        self._files: dict[str, int] = {}
        self._sites: dict[str, list[str]] = {}
        self._compiled: dict[str, CompiledSite] = {}
        """The sites to serve, as they were read last."""
        self._owners: dict[str, str] = {}
        """The file of every site of the crawl."""
        self._others: dict[str, tuple[int, CompiledSite]] = {}
        """Sites that links lead to and that this worker does not serve, with the version of their file."""
        self._held: dict[str, CompiledSite] = {}
        """Sites whose links lead to a site that the crawl does not have."""
        self._unusable: set[str] = set()
        """Files whose present version cannot be used here."""
        self._texts: dict[str, str] = {}
        """Of the files whose sites are served as they say, so without those that are drained."""
        self._draining: set[str] = set()
        """Files whose sites begin no rounds any more."""
        self._schedules: dict[str, Schedule | None] = {}
        """What the newest files say of their sites, also those that cannot be used here."""
        self._feeds: dict[str, list[FedTable]] = {}
        """The tables of the sites to serve that another one may feed, too."""
        self._clashes: set[str] = set()
        self._doubted = False
        self._code = LoadedCode()

    def look_at_code(self) -> None:
        """Report Python files that have changed since they were loaded."""
        for file in self._code.changes():
            logger.warning(
                "%s has changed since this worker loaded it, and counts as it was. Restart the worker to use it.", file
            )

    async def is_outdated(self) -> bool:
        """Whether a file has changed since all were read last."""
        return bool(await self._ask(Frontier.documents_version) != self._version)

    def doubt(self) -> None:
        """The texts may differ under the same version: read all of them again."""
        self._version, self._doubted, self._files = -1, True, {}

    async def changed(self) -> SiteChanges | None:
        """None if nothing has changed. A file that cannot be read stays as it was, and is reported."""
        version = await self._ask(Frontier.documents_version)
        if version == self._version:
            return None
        infos = await self._ask(Frontier.documents, KIND)
        self._draining = {info.name for info in await self._ask(Frontier.documents, DRAINING) if not info.deleted}
        changed: list[CompiledSite] = []
        problems: list[SiteError] = []
        files = {}
        for info in infos:
            if info.deleted:
                continue
            # A file that is drained is another one.
            files[info.name] = -info.version if info.name in self._draining else info.version
            if self._files.get(info.name) != files[info.name]:
                self._unusable.discard(info.name)
                try:
                    changed += await self._read(info.name)
                except SiteError as error:
                    self._unusable.add(info.name)
                    self._texts.pop(info.name, None)
                    logger.error(
                        "The site file %s cannot be used; its sites are served as before: %s", info.name, error
                    )
                    problems.append(error)
        self._files = files
        self._owners = {site: file for site, file in self._owners.items() if file in files}
        self._sites = {file: sites for file, sites in self._sites.items() if file in files}
        self._texts = {file: text for file, text in self._texts.items() if file in files}
        names = frozenset(name for sites in self._sites.values() for name in sites)
        self._compiled = {name: site for name, site in self._compiled.items() if name in names}
        self._report_clashes()
        await self._read_targets()
        changed = self._settled(changed, problems)
        self._version, self._doubted = version, False
        return SiteChanges(names, changed, problems)

    def is_held(self, site: str) -> bool:
        """Whether the present version of a site's file cannot be used here, or not yet."""
        return site in self._held or self._owners.get(site) in self._unusable

    def schedule(self, site: str) -> Schedule | None:
        """When rounds of a site begin, as the crawl's file says now: also where this worker serves it by an older one."""
        return self._schedules.get(site)

    def _report_clashes(self) -> None:
        """Report tables whose rows two sites overwrite, each once."""
        self._feeds = {name: feeds for name, feeds in self._feeds.items() if name in self._compiled}
        for problem in clashes(fed for feeds in self._feeds.values() for fed in feeds):
            if problem.message not in self._clashes:
                self._clashes.add(problem.message)
                logger.warning("%s", problem)

    def other_site(self, name: str) -> CompiledSite | None:
        """Another site of the crawl that links may lead to, whether this worker serves it or not."""
        found = self._compiled.get(name)
        if found is None and name in self._others:
            found = self._others[name][1]
        return found

    async def _read_targets(self) -> None:
        """Read the sites that links lead to and that this worker does not serve. One whose file is gone stays as it was: what leads to
        it waits in its queue."""
        wanted = {name for site in self._compiled.values() for name in target_sites(site.site)}
        if any(has_functions(site.site) for site in self._compiled.values()):
            wanted.update(self._owners)
        self._others = {name: one for name, one in self._others.items() if name in wanted}
        for name in sorted(wanted - self._compiled.keys()):
            file = self._owners.get(name)
            if file is None or (name in self._others and self._others[name][0] == self._files[file]):
                continue
            document = await self._ask(Frontier.document, KIND, file)
            with suppress(SiteError):
                for one in await asyncio.to_thread(self._sound, document.text, file):
                    if one.site.site == name:
                        # Its variables are for those who fetch its pages.
                        self._others[name] = self._files[file], CompiledSite(one.site)

    def _settled(self, changed: list[CompiledSite], problems: list[SiteError]) -> list[CompiledSite]:
        """The changed sites, with those that waited for another one and without those that have to."""
        waited = [one for name, one in self._held.items() if self._compiled.get(name) is one]
        self._held = {}
        ready = []
        for site in [*waited, *changed]:
            if missing := self._missing(site):
                self._held[site.name] = site
                problems.append(SiteError(missing))
                logger.error("The site %s is not served: %s", site.name, missing)
            elif site not in ready:
                ready.append(site)
        return ready

    def _missing(self, site: CompiledSite) -> str:
        for _, to in targets(site.site):
            name, layer = split(to)
            other = self.other_site(name)
            if other is None:
                return (
                    f"Links of {site.name} lead to {to}, and this crawl has no site {name}. "
                    "Push its file with `gossamer site push`."
                )
            if layer != ANY and layer not in other.layers:
                hint = did_you_mean(layer, other.layers)
                return f"Links of {site.name} lead to {to}, and the site {name} has no layer {layer} ({hint})."
        return ""

    async def _read(self, file: str) -> list[CompiledSite]:
        document = await self._ask(Frontier.document, KIND, file)
        drained = file in self._draining
        if document.deleted:
            return []  # Meanwhile: the next look finds it gone.
        if self._doubted and not drained and self._texts.get(file) == document.text:
            return []
        grant = self._grant(document.text)
        sites = await asyncio.to_thread(self._sound, document.text, file)
        self._owners = {name: owner for name, owner in self._owners.items() if owner != file}
        self._owners.update((one.site.site, file) for one in sites)
        self._schedules.update((one.site.site, None if drained else one.site.schedule) for one in sites)
        wanted = [one for one in sites if self._serves(one.site)]
        if wrong := [problem for one in wanted for problem in check_grant(one.site, one.spot, grant)]:
            raise SiteErrors(wrong)
        # Here, not in the thread: this runs their modules, which may count on being in the main one.
        if wrong := [problem for one in wanted for problem in check_hooks(one.site, one.spot, grant)]:
            raise SiteErrors(wrong)
        for each in wanted:
            self._code.note(each.site)
            for path in self._code.differences(each.site):
                logger.warning(
                    "The site %s was pushed with other code than this worker has loaded from %s, and goes on with that. Put the same "
                    "file there, and restart the worker.",
                    each.site.site,
                    path,
                )
        found = [compile_site(one.site, grant=grant) for one in wanted]
        for one in found:
            one.other_site = self.other_site
            self._compiled[one.name] = one
        self._feeds.update((each.site.site, fed_tables(each.site, each.spot)) for each in wanted)
        self._sites[file] = [one.name for one in found]
        self._texts[file] = "" if drained else document.text
        return found

    def _sound(self, text: str, file: str) -> list[LoadedSite]:
        return sound(survey_text(text, file))

    def _serves(self, site: SiteSpec) -> bool:
        return site.is_served and site.engine in self._engines and (not self._wanted or site.site in self._wanted)


def granted(settings: Settings, local: Collection[str], code: Collection[Path], text: str) -> Grant:
    """What a file of the crawl may do: by its text, since a name says nothing about who wrote it. `local` are the digests of
    files that the user of this process named, `code` the folders of those in Python."""
    return grant_of(settings, local=digest(text) in local, code=code)


def digest(text: str) -> str:
    """The digest of a site file's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
