"""What a worker of the native engine is to do, and how it ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gossamer.engine.sites import SiteSet
from gossamer.sites.file.problems import did_you_mean


@dataclass(frozen=True, slots=True)
class NativeJob:
    """What a worker is to do. `sites` are the names it serves, none: all of the crawl. `stage` narrows them to the layers of one
    pool: "" those that name none, None all. `layer` is the only one that is crawled, "" for all. `forever`: go on when nothing is
    left. `repeat`: begin rounds when they are due. `local` has the digests of site files that the user of this process named: what
    they may do is not what a file may that anybody pushed."""

    sites: tuple[str, ...] = ()
    stage: str | None = ""
    layer: str = ""
    forever: bool = False
    repeat: bool = False
    local: frozenset[str] = frozenset()
    code: tuple[Path, ...] = ()
    """The folders from which the files of `local` may import functions, besides the project's own."""

    @property
    def nothing_to_serve(self) -> str:
        """The error if the crawl has none of its sites."""
        if self.sites:
            return f"This crawl has no site {', '.join(self.sites)}. Push its file with `gossamer site push`; `gossamer site list` shows what there is."
        return "This crawl has no sites. Push their files with `gossamer site push FILE`, or crawl one with `gossamer crawl FILE`."

    def misnamed(self, sites: SiteSet) -> str:
        """The error if no site has its layer or stage."""
        layers = {name for site in sites for name in site.compiled.site.layers}
        stages = {layer.stage for site in sites for layer in site.compiled.site.layers.values() if layer.stage}
        if self.layer and self.layer not in layers:
            return _unknown("layer", self.layer, layers)
        if self.stage and self.stage not in stages:
            return _unknown("stage", self.stage, stages)
        return ""


@dataclass(frozen=True, slots=True)
class NativeEnd:
    """Why a worker ended, and the signal that asked for it, 0 if none did."""

    reason: str
    signal: int = 0


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    hint = did_you_mean(name, sorted(known)) or f"see {what} in the site files"
    return f"No site of this crawl has the {what} {name}; {hint}."
