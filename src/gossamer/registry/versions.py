"""The versions of a crawl's files of one kind: pushed over the one that was changed, shown, compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

from gossamer.errors import SiteError, UnknownDocument, VersionConflict
from gossamer.frontier.contract import Frontier
from gossamer.model import Document, DocumentInfo
from gossamer.registry.site_text import differences, text_digest


class FileVersions:
    """Files of a kind: site or spider, which is also the noun of their commands."""

    def __init__(self, frontier: Frontier, kind: str) -> None:
        self._frontier, self._kind = frontier, kind

    def newest(self, name: str) -> DocumentInfo | None:
        return next((info for info in self._frontier.documents(self._kind) if info.name == name), None)

    def has(self, name: str, text: str) -> bool:
        """Whether the crawl has the file now, word for word."""
        newest = self.newest(name)
        return newest is not None and _same(newest, text)

    def push(
        self,
        name: str,
        text: str,
        former: DocumentInfo | None,
        *,
        who: str,
        note: str = "",
        expected: int | None = None,
        again: bool = False,
    ) -> tuple[int, bool]:
        """Keep a version after `former`, unless that is the same word for word, or somebody has pushed the same meanwhile. Return the
        present version, and whether this push has made it. VersionConflict if there is another one by now, or if `former` is not the
        version `expected` (0: none) that was changed."""
        if former is not None and not again and _same(former, text):
            return former.version, False
        there = former.version if former is not None else 0
        if expected is not None and expected != there:
            raise self.conflict(name, expected)
        try:
            return self._frontier.put_document(self._kind, name, text, expected=there, who=who, note=note), True
        except VersionConflict:
            newest = self.newest(name)
            if newest is not None and _same(newest, text):
                return newest.version, False
            raise self.conflict(name, there) from None

    def remove(self, name: str, expected: int, *, who: str, note: str = "") -> None:
        """Mark a file as removed. VersionConflict if it is there in another version than `expected`."""
        try:
            self._frontier.drop_document(self._kind, name, expected=expected, who=who, note=note)
        except VersionConflict:
            newest = self.newest(name)
            by = f", version {newest.version} of {newest.who or 'somebody'}" if newest is not None else ""
            raise VersionConflict(
                f"{name} is not removed: somebody pushed it meanwhile{by}. If it is to go all the same, give the command again."
            ) from None

    def withdraw(self, name: str, version: int, former: DocumentInfo | None, *, who: str, note: str) -> None:
        """Undo a push, unless somebody has pushed the file since: it is as `former` says, or removed if there was none."""
        with suppress(VersionConflict):
            if former is None or former.deleted:
                self._frontier.drop_document(self._kind, name, expected=version, who=who, note=note)
            else:
                text = self.show(name, former.version).text
                self._frontier.put_document(self._kind, name, text, expected=version, who=who, note=note)

    def conflict(self, name: str, expected: int) -> VersionConflict:
        """The error of a push that was made of version `expected`, and is not what the crawl has now."""
        newest = self.newest(name)
        if newest is None:
            return VersionConflict(f"{name} was not pushed: the crawl has no version of it, and you expect {expected}.")
        did = "removed it" if newest.deleted else f"pushed version {newest.version}"
        return VersionConflict(
            f"{name} was not pushed: {newest.who or 'somebody'} {did}, and yours is made of version {expected}. See what is different with "
            f"`gossamer {self._kind} diff {name}`, put your change into that, and push again."
        )

    def show(self, name: str, version: int | None = None) -> Document:
        """A file as it was written, now or in another version that is kept."""
        try:
            return self._frontier.document(self._kind, name, version)
        except UnknownDocument:
            if version is None:
                raise UnknownDocument(f"the crawl has no {self._kind} file {name!r}.") from None
            raise UnknownDocument(
                f"there is no version {version} of {name}; `gossamer {self._kind} history {name}` lists those that are kept."
            ) from None

    def show_old(self, name: str, version: int) -> Document:
        """A version that is to count again; SiteError if it says that the file was removed."""
        old = self.show(name, version)
        if old.deleted:
            raise SiteError(
                f"version {version} of {name} says that it was removed; use `gossamer {self._kind} remove`."
            )
        return old

    def history(self, name: str) -> list[DocumentInfo]:
        """The versions that are kept, newest first."""
        return self._frontier.document_history(self._kind, name)

    def diff(self, name: str, old: int | None = None, new: int | None = None) -> str:
        """What the version `new` (the present one) has that `old` (the one before it) has not, as a unified diff."""
        versions = self.history(name)
        newer = versions[0].version if new is None else new
        older = next((info.version for info in versions if info.version < newer), None) if old is None else old
        before = "" if older is None else self.show(name, older).text
        return differences(
            before, self.show(name, newer).text, f"{name} version {older or 0}", f"{name} version {newer}"
        )


def _same(info: DocumentInfo, text: str) -> bool:
    return not info.deleted and info.digest == text_digest(text)


class StoredFiles(ABC):
    """What files of every kind have in common: each is found by its name, or by that of a site or spider in it, and its versions are
    shown and compared."""

    def __init__(self, frontier: Frontier, kind: str) -> None:
        self.frontier = frontier
        self._versions = FileVersions(frontier, kind)

    @abstractmethod
    def find(self, name: str, *, removed: bool = False) -> DocumentInfo:
        """The file of this name, or the file with the site or spider of this name; UnknownDocument if there is none."""

    def show(self, name: str, version: int | None = None) -> Document:
        """A file as it was written, now or in another version that is kept."""
        return self._versions.show(self.find(name, removed=version is not None).name, version)

    def history(self, name: str) -> list[DocumentInfo]:
        """The versions of a file that are kept, newest first."""
        return self._versions.history(self.find(name, removed=True).name)

    def diff(self, name: str, old: int | None = None, new: int | None = None) -> str:
        """What the version `new` (the present one) has that `old` (the one before it) has not, as a unified diff."""
        return self._versions.diff(self.find(name, removed=True).name, old, new)
