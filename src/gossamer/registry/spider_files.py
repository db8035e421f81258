"""Spider files in the frontier: checked before they are kept, found by their name or that of a spider in them."""

from __future__ import annotations

from collections.abc import Mapping

from gossamer.errors import SiteError, UnknownDocument
from gossamer.frontier.contract import Frontier
from gossamer.model import DocumentInfo
from gossamer.registry.registry import PushResult, Registry
from gossamer.registry.versions import StoredFiles
from gossamer.sites.spider import KIND, LoadedSpiders, load_spiders


class SpiderFiles(StoredFiles):
    """The spider files of one crawl. Made for one command: what it has read it does not read again."""

    def __init__(self, frontier: Frontier) -> None:
        super().__init__(frontier, KIND)
        self._spiders: dict[str, tuple[str, ...]] | None = None

    def push_all(
        self, texts: Mapping[str, str], *, who: str, note: str = "", expected: int | None = None
    ) -> tuple[list[PushResult], dict[str, LoadedSpiders]]:
        """Keep files, by name. Return what became of each, and what they say. All are checked first: if anything is wrong with
        any of them, nothing is changed. A file that is kept already, word for word, gets no new version. VersionConflict as with
        sites."""
        loaded = {name: load_spiders(text, f"{name}.yaml") for name, text in texts.items()}
        spiders = {name: tuple(plan.spider for plan in found.plans) for name, found in loaded.items()}
        self._check_owners(spiders)
        pushed = []
        for name, text in texts.items():
            former = self._versions.newest(name)
            version, changed = self._versions.push(name, text, former, who=who, note=note, expected=expected)
            replaced = None if former is not None and former.version == version else former
            pushed.append(PushResult(name, version, changed, spiders[name], replaced))
        return pushed, loaded

    def rollback(self, name: str, version: int, *, who: str, note: str = "") -> PushResult:
        """Keep an older version again, as the newest; also of a file that was removed."""
        name = self.find(name, removed=True).name
        old = self._versions.show_old(name, version)
        [pushed], _ = self.push_all({name: old.text}, who=who, note=note or f"as version {version}")
        return pushed

    def remove(self, name: str, *, who: str, note: str = "") -> str:
        """Remove a file. Return its name."""
        found = self.find(name)
        self._versions.remove(found.name, found.version, who=who, note=note)
        return found.name

    def find(self, name: str, *, removed: bool = False) -> DocumentInfo:
        """The file of this name, or the file that plans the spider of this name."""
        infos = {info.name: info for info in self.frontier.documents(KIND)}
        if name in infos and (removed or not infos[name].deleted):
            return infos[name]
        for file, spiders in self._present().items():
            if name in spiders:
                return infos[file]
        if name in infos:
            raise UnknownDocument(f"the spider file {name!r} was removed. `gossamer spider rollback` brings it back.")
        raise UnknownDocument(
            f"the crawl has no spider file {name!r}, nor one that plans a spider of that name; `gossamer spider list` names them."
        )

    def _present(self) -> dict[str, tuple[str, ...]]:
        """The spiders of each file. One that cannot be read plans nothing new."""
        if self._spiders is None:
            self._spiders = {}
            names = [info.name for info in self.frontier.documents(KIND) if not info.deleted]
            for document in self.frontier.read_documents(KIND, names):
                try:
                    plans = load_spiders(document.text, document.name).plans
                except SiteError:
                    plans = []
                self._spiders[document.name] = tuple(plan.spider for plan in plans)
        return self._spiders

    def _check_owners(self, given: Mapping[str, tuple[str, ...]]) -> None:
        """SiteError if two files plan the same group, of those given and those that the crawl has."""
        owner = {
            **{site: f"the crawl's site file {file}" for site, file in Registry(self.frontier).owners().items()},
            **{
                spider: f"the crawl's spider file {file}"
                for file, spiders in self._present().items()
                if file not in given
                for spider in spiders
            },
        }
        for name, spiders in given.items():
            for spider in spiders:
                if (taken := owner.setdefault(spider, f"{name}.yaml")) != f"{name}.yaml":
                    raise SiteError(f"{name}.yaml: {spider} is planned by {taken} already. Remove it from one of them.")
