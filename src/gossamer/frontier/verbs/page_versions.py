"""Which version of its pages a group read last, and what these led to, for all workers and runs. Generators without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.model import PageName

AT_ONCE = 100
"""The most that one call puts or reads: each may have some ten thousand bytes."""


class PageVersionVerbs:
    """Each partition has the versions of the pages that it queues: where it goes back to an older state, they go back with it."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.partitions = partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def page_versions(self, group: str, pages: Sequence[PageName]) -> Verb[tuple[str, dict[PageName, bytes]]]:
        born, found = "", dict[PageName, bytes]()
        for partition, some in self._chunks(pages):
            header = {"group": group, "names": [name for _, name in some]}
            [reply] = yield [function_call("page_versions", self.bases[partition], header)]
            born = read(reply[0])[0]
            found.update((page, version) for page, version in zip(some, reply[3:], strict=True) if version)
        return born, found

    def put_page_versions(self, group: str, born: str, versions: Mapping[PageName, bytes], *, most: int) -> Verb[None]:
        others = None
        if self.partitions > 1 and versions:
            states = yield [function_call("page_versions", base, {"group": group, "names": []}) for base in self.bases]
            others = [read(reply[0])[1] for reply in states]
        share = -(-most // self.partitions)
        for partition, some in self._chunks(list(versions)):
            names = [name for _, name in some]
            header = {"group": group, "born": born, "names": names, "most": share, "others": others}
            yield [
                function_call("put_page_versions", self.bases[partition], header, *(versions[page] for page in some))
            ]

    def forget_page_versions(self, group: str) -> Verb[None]:
        yield from self._forget(group, None)

    def check_page_versions(self, group: str, edition: str = "") -> Verb[bool]:
        replies = yield [function_call("page_versions", base, {"group": group, "names": []}) for base in self.bases]
        changes = [read(reply[0])[1] for reply in replies]
        for _, others, read_by, *_ in replies:
            went_back = others and any(known > now for known, now in zip(read(others), changes, strict=True))
            if went_back or read_by.decode() != edition:
                yield from self._forget(group, edition)
                return False
        return True

    def _forget(self, group: str, edition: str | None) -> Verb[None]:
        """`edition`: by what rules pages are read from now on; None: by the same as before."""
        header = {"group": group, "born": "", "names": [], "most": 0, "edition": edition}
        yield [function_call("put_page_versions", base, header) for base in self.bases]

    def _chunks(self, pages: Sequence[PageName]) -> list[tuple[int, list[PageName]]]:
        by_partition: dict[int, list[PageName]] = {}
        for page in pages:
            by_partition.setdefault(keys.partition_of(page[0], self.partitions), []).append(page)
        return [
            (partition, named[start : start + AT_ONCE])
            for partition, named in by_partition.items()
            for start in range(0, len(named), AT_ONCE)
        ]
