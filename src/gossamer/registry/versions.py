"""The versions of a crawl's files of one kind: pushed over the one that was changed, shown, compared."""

from __future__ import annotations

from gossamer.errors import UnknownDocument, VersionConflict
from gossamer.frontier.contract import Frontier
from gossamer.model import Document, DocumentInfo
from gossamer.registry.site_text import differences


class FileVersions:
    """Files of a kind: site or spider, which is also the noun of their commands."""

    def __init__(self, frontier: Frontier, kind: str) -> None:
        self._frontier, self._kind = frontier, kind

    def newest(self, name: str) -> DocumentInfo | None:
        return next((info for info in self._frontier.documents(self._kind) if info.name == name), None)

    def put(
        self,
        name: str,
        text: str,
        former: DocumentInfo | None,
        *,
        who: str,
        note: str = "",
        expected: int | None = None,
    ) -> int:
        """Keep a version after `former`. VersionConflict if there is another one by now, or `former` is not the version `expected` (0: none)
        that was changed."""
        there = former.version if former is not None else 0
        try:
            if expected not in (None, there):
                raise VersionConflict
            return self._frontier.put_document(self._kind, name, text, expected=there, who=who, note=note)
        except VersionConflict:
            raise self._conflict(name, there if expected is None else expected) from None

    def _conflict(self, name: str, expected: int) -> VersionConflict:
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
                f"there is no version {version} of {name} any more, or yet; `gossamer {self._kind} history {name}` lists those that are kept."
            ) from None

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
