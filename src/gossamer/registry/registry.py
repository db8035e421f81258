"""Site files in the frontier. A file is kept as it was written, comments and all; the sites in it are found by reading it.

Workers hear of every change and read the files again. Here is what a worker should not have to know: that a file is checked before it
is kept, that no two files describe the same site, and that the group of a site that is gone gives out no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gossamer.errors import SiteError, UnknownDocument, UnknownGroup, VersionConflict
from gossamer.frontier.contract import Frontier
from gossamer.model import DocumentInfo
from gossamer.model.document import DRAINING
from gossamer.model.reply import REMOVED
from gossamer.registry.site_text import SiteText, names_in, sites_in
from gossamer.registry.versions import StoredFiles
from gossamer.sites.crossing import crossings
from gossamer.sites.file.load import LoadedSite, survey_text
from gossamer.sites.file.problems import Problem, SiteErrors, did_you_mean, errors_of
from gossamer.sites.tables.clash import FedTable, clashes, fed_tables

KIND = "site"
"""What site files are called among the crawl's documents."""


def draining(frontier: Frontier) -> frozenset[str]:
    """The site files that begin no rounds any more."""
    return frozenset(info.name for info in frontier.documents(DRAINING) if not info.deleted)


class StoredSiteFile(NamedTuple):
    """A site file of the crawl in its present version, and the sites in it. `problem` says why it cannot be read; `paused` has
    the sites that are paused, with the reason."""

    info: DocumentInfo
    sites: tuple[str, ...]
    problem: str
    paused: dict[str, str]


class PushResult(NamedTuple):
    """What became of a file: its version now, whether this push has made it, its sites or spiders, and the version before that one, if
    there was one and it is not that one still."""

    name: str
    version: int
    changed: bool
    groups: tuple[str, ...]
    former: DocumentInfo | None = None


class Registry(StoredFiles):
    """The site files of one crawl. Made for one command or one question: what it has read it does not read again."""

    def __init__(self, frontier: Frontier) -> None:
        super().__init__(frontier, KIND)
        self._read: dict[tuple[str, int], tuple[str, ...]] = {}
        self._texts: dict[tuple[str, int], str] = {}

    def push(self, text: str, name: str, *, who: str, note: str = "", file: str = "") -> PushResult:
        """Keep a file under a name; `SiteErrors` has all that is wrong with it. `file` is what messages call it."""
        return self.push_all([SiteText(name, text, file or name)], who=who, note=note)[0]

    def push_all(
        self,
        texts: Sequence[SiteText],
        *,
        who: str,
        note: str = "",
        expected: int | None = None,
        noted: Callable[[PushResult], None] = lambda _: None,
    ) -> list[PushResult]:
        """Keep several files. All are checked first: if anything is wrong with any of them, nothing is changed. A file that
        is kept already, word for word, gets no new version. VersionConflict if another has pushed a file meanwhile, or since the version
        `expected` (0: none), or has pushed another file with one of these sites. `noted` is called with each file as soon as it is there."""
        known = {info.name: info for info in self.frontier.documents(KIND)}
        sites = self._checked(texts)
        before = [site for text in texts if text.name in known for site in self.last_sites(known[text.name])]
        pushed: list[PushResult] = []
        try:
            for text in texts:
                pushed.append(self._put(text, known.get(text.name), sites[text.name], who, note, expected))
                noted(pushed[-1])
            self._check_others(pushed, known, {text.name: text.text for text in texts}, who)
            return pushed
        except VersionConflict as error:
            there = [one.name for one in pushed if one.changed and self._is_newest(one)]
            if not there:
                raise
            raise VersionConflict(f"{error} These files are pushed: {', '.join(there)}.") from None
        finally:
            # Also for those that were put before one could not be, or did not stay.
            self._follow([*before, *(site for one in pushed for site in one.groups)])

    def _put(
        self,
        text: SiteText,
        old: DocumentInfo | None,
        sites: tuple[str, ...],
        who: str,
        note: str,
        expected: int | None,
    ) -> PushResult:
        # A file that is being drained gets a version also if it is the same: whoever removes the one before is told.
        again = text.name in draining(self.frontier)
        version, changed = self._versions.push(
            text.name, text.text, old, who=who, note=note, expected=expected, again=again
        )
        self._serve_again(text.name, who)
        self._read[text.name, version] = sites
        return PushResult(text.name, version, changed, sites, None if old and old.version == version else old)

    def _check_others(
        self, pushed: Sequence[PushResult], known: Mapping[str, DocumentInfo], texts: Mapping[str, str], who: str
    ) -> None:
        """VersionConflict if somebody has pushed another file with one of these sites at the same moment. Of two such files the first one
        stays; the other is as it was before."""
        # Also what somebody else has pushed word for word meanwhile: it stays or goes with his.
        mine = {one.name: one for one in pushed if one.version != (known[one.name].version if one.name in known else 0)}
        infos = {info.name: info for info in self.frontier.documents(KIND) if not info.deleted}
        problems = []
        for name, one in mine.items():
            if name not in infos or infos[name].version != one.version:
                if not one.changed and not self._versions.has(name, texts[name]):
                    raise self._versions.conflict(name, one.former.version if one.former else 0)
                continue
            for other in infos.values():
                same = set(one.groups).intersection(self._sites(other)[0] if other.name not in mine else ())
                # If they came in the same millisecond, none may know which was first: then none stays.
                if same and other.at <= infos[name].at:
                    note = f"{other.who or 'somebody'} was faster with {other.name}"
                    self._versions.withdraw(name, one.version, one.former, who=who, note=note)
                    problems.append(
                        f"{name} was not pushed: {other.who or 'somebody'} pushed {other.name} at the same moment, which also has the site "
                        f"{min(same)}. Remove the site from one of them, and push again."
                    )
                    break
        if problems:
            raise VersionConflict(" ".join(problems))

    def _is_newest(self, pushed: PushResult) -> bool:
        newest = self._versions.newest(pushed.name)
        return newest is not None and newest.version == pushed.version

    def _serve_again(self, name: str, who: str) -> None:
        """The file is pushed: its sites begin rounds again."""
        if name in draining(self.frontier):
            self.frontier.drop_document(DRAINING, name, who=who)

    def drain(self, name: str, *, who: str, note: str = "") -> None:
        """Begin no more rounds of a file's sites, until it is pushed again; what is queued is fetched."""
        if name not in draining(self.frontier):
            self.frontier.put_document(DRAINING, name, "", who=who, note=note)

    def _checked(self, texts: Sequence[SiteText]) -> dict[str, tuple[str, ...]]:
        """The sites of these files, by name; SiteErrors with the problems of all."""
        problems: list[Problem] = []
        found: dict[str, tuple[str, ...]] = {}
        for text in texts:
            if text.name in found:
                problems.append(
                    Problem(text.file, 0, 0, "", f"there is another file called {text.name}", "rename one of them")
                )
                continue
            found[text.name] = ()
            try:
                found[text.name] = text.sites or sites_in(text.text, text.file)
            except SiteErrors as error:
                problems += error.problems
        owner = {site: f"the crawl's file {file}" for site, file in self.owners().items() if file not in found}
        for text in texts:
            for site in found[text.name]:
                taken = owner.setdefault(site, text.file)
                if taken != text.file:
                    said = f"there is another site {site}, in {taken}"
                    problems.append(Problem(text.file, 0, 0, "site", said, "rename one of them, or remove that file"))
        if problems:
            raise SiteErrors(problems)
        return found

    def owners(self) -> dict[str, str]:
        """The file that describes each site of the crawl."""
        present = [info for info in self.frontier.documents(KIND) if not info.deleted]
        return {site: info.name for info in present for site in self._sites(info)[0]}

    def unknown_targets(self, given: Sequence[LoadedSite]) -> list[Problem]:
        """Links of these sites that lead to a site which is neither among them nor in the crawl."""
        leading = [crossing for one in given for crossing in crossings(one.site, one.spot)]
        names = {one.site.site for one in given}
        if names.issuperset(crossing.site for crossing in leading):
            return []
        names.update(
            site for info in self.frontier.documents(KIND) if not info.deleted for site in self._sites(info)[0]
        )
        return [
            crossing.place._replace(
                message=f"there is no site {crossing.site}, in these files or in the crawl",
                hint=did_you_mean(crossing.site, sorted(names)) or "push its file, too",
            )
            for crossing in leading
            if crossing.site not in names
        ]

    def clashes(self, given: Sequence[LoadedSite]) -> list[Problem]:
        """Tables that these sites and others, among them or in the crawl, feed so that they overwrite each other's rows."""
        feeds = [fed for one in given for fed in fed_tables(one.site, one.spot)]
        names, tables = {one.site.site for one in given}, {fed.table.lower() for fed in feeds}
        others: list[FedTable] = []
        for info in self.frontier.documents(KIND) if tables else ():
            if info.deleted or names.issuperset(self._sites(info)[0]):
                continue
            text = self.frontier.document(KIND, info.name).text
            if any(table in text.lower() for table in tables):
                found = survey_text(text, info.name)
                sites = [] if errors_of(found.problems) else found.sites
                others += [fed for one in sites if one.site.site not in names for fed in fed_tables(one.site, one.spot)]
        return list(clashes([*(fed for fed in others if fed.table.lower() in tables), *feeds]))

    def files(self, *, removed: bool = False) -> list[StoredSiteFile]:
        """All files by name; with `removed` also those that are gone."""
        paused = {row.group: row.paused for row in self.frontier.counts().groups if row.paused}
        filed = []
        for info in self.frontier.documents(KIND):
            if info.deleted and not removed:
                continue
            sites, problem = self._sites(info)
            filed.append(StoredSiteFile(info, sites, problem, {site: paused[site] for site in sites if site in paused}))
        return filed

    def find(self, name: str, *, removed: bool = False) -> DocumentInfo:
        """The file of this name, or the file that describes the site of this name."""
        infos = self.frontier.documents(KIND)
        present = {info.name: info for info in infos if removed or not info.deleted}
        if name in present:
            return present[name]
        owners = {site: info for info in present.values() if not info.deleted for site in self._sites(info)[0]}
        if name in owners:
            return owners[name]
        if any(info.name == name for info in infos):
            raise UnknownDocument(f"the site file {name!r} was removed. `gossamer site rollback` brings it back.")
        hint = did_you_mean(name, [*present, *owners])
        raise UnknownDocument(
            f"the crawl has no site file {name!r}, nor a site of that name{f' ({hint})' if hint else ''}."
        )

    def rollback(self, name: str, version: int, *, who: str, note: str = "") -> PushResult:
        """Keep an older version again, as the newest; also of a file that was removed."""
        info = self.find(name, removed=True)
        old = self._versions.show_old(info.name, version)
        return self.push(old.text, info.name, who=who, note=note or f"as version {version}")

    def remove(self, name: str, *, who: str, note: str = "", expected: int | None = None) -> tuple[str, ...]:
        """Remove a file. Nothing more is leased from its sites' groups; what they hold stays until `drop`, or until the file is
        pushed again. Return the sites. If it breaks off, call it again to finish."""
        info = self.find(name, removed=True)
        sites = self.last_sites(info)
        self._versions.remove(info.name, info.version if expected is None else expected, who=who, note=note)
        self._serve_again(info.name, who)
        self._follow(sites)
        return sites

    def has_site(self, name: str) -> bool:
        """Whether a file of the crawl describes this site."""
        return any(name in self._sites(info)[0] for info in self.frontier.documents(KIND))

    def drop(self, site: str) -> Iterator[int]:
        """Delete everything that the frontier keeps of a site, in bounded steps, as `Frontier.drop_group` does."""
        try:
            yield from self.frontier.drop_group(site)
        except UnknownGroup:
            return  # It has never run.

    def pause(self, name: str, reason: str) -> tuple[str, ...]:
        """Lease nothing from a site, or from all sites of a file, even if they have never run. Return the sites."""
        sites = self._named(name)
        known = {row.group for row in self.frontier.counts().groups}
        for site in sites:
            if site not in known:
                self.frontier.define(site, {})
            self.frontier.pause(group=site, reason=reason)
        return sites

    def resume(self, name: str) -> dict[str, str]:
        """Undo a pause. Returns the sites, with the reason of those that still wait."""
        sites = self._named(name)
        known = {row.group for row in self.frontier.counts().groups}
        for site in sites:
            if site in known:
                self.frontier.resume(group=site)
        waiting = {row.group: row.paused for row in self.frontier.counts().groups}
        return {site: waiting.get(site, "") for site in sites}

    def _named(self, name: str) -> tuple[str, ...]:
        """The site of this name, or else the sites of the file of this name."""
        sites, problem = self._sites(info := self.find(name))
        if name in sites:
            return (name,)
        if problem:
            raise SiteError(f"the file {info.name} cannot be read: {problem}")
        return sites

    def _sites(self, info: DocumentInfo) -> tuple[tuple[str, ...], str]:
        """The sites of a file in one version, and why it cannot be read."""
        if info.deleted:
            return (), ""
        key = info.name, info.version
        if key not in self._read:
            try:
                self._read[key] = names_in(self._text(info), info.name)
            except SiteErrors as error:
                return (), str(error)
        return self._read[key], ""

    def _text(self, info: DocumentInfo) -> str:
        """The text of a version. The first of a present version is read with all others."""
        key = info.name, info.version
        if key not in self._texts and not self._texts:
            names = [one.name for one in self.frontier.documents(KIND) if not one.deleted]
            for document in self.frontier.read_documents(KIND, names):
                self._texts[document.name, document.version] = document.text
        if key not in self._texts:
            self._texts[key] = self.frontier.document(KIND, *key).text
        return self._texts[key]

    def last_sites(self, info: DocumentInfo) -> tuple[str, ...]:
        """The sites that a file described when it was there last, without those that another one describes now."""
        if not info.deleted:
            return self._sites(info)[0]
        versions, taken = self.frontier.document_history(KIND, info.name), self.owners()
        last = next((self._sites(one)[0] for one in versions if not one.deleted), ())
        return tuple(site for site in last if site not in taken)

    def _follow(self, before: Sequence[str]) -> None:
        """Pause the groups of those sites that are gone, and resume all that are back."""
        present = {site for info in self.frontier.documents(KIND) for site in self._sites(info)[0]}
        paused = {row.group: row.paused for row in self.frontier.counts().groups}
        gone = [site for site in before if site not in present and paused.get(site) == ""]
        for site in gone:
            self.frontier.pause(group=site, reason=REMOVED)
        if gone:
            # Who pushed one of them meanwhile did not see that it is paused.
            present = {site for info in self.frontier.documents(KIND) for site in self._sites(info)[0]}
        for site in (*gone, *(site for site, reason in paused.items() if reason == REMOVED)):
            if site in present:
                self.frontier.resume(group=site)
