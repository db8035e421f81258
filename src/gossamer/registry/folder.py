"""Site files of a crawl as files in a folder, and back: byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import FilesExist
from gossamer.registry.registry import KIND, Registry
from gossamer.registry.site_text import SiteText
from gossamer.registry.standalone import standalone
from gossamer.sites.file.load import SUFFIXES, LoadedSite
from gossamer.sites.format import SiteSpec

__all__ = ["SUFFIXES", "dump", "texts_of"]


def dump(registry: Registry, folder: Path, *, force: bool = False) -> list[Path]:
    """Write every file of the crawl to a folder, which is made where it is missing. A file that is there and differs is
    written over only with `force`; without it, nothing is written then."""
    texts = {
        folder / f"{info.name}.yaml": registry.frontier.document(KIND, info.name).text.encode()
        for info in registry.frontier.documents(KIND)
        if not info.deleted
    }
    other = [path for path, data in texts.items() if path.exists() and path.read_bytes() != data]
    if other and not force:
        raise FilesExist(
            f"{other[0]}{f' and {len(other) - 1} more' if other[1:] else ''} would be written over. Choose another folder, or use --force."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in texts.items():
        path.write_bytes(data)
    return list(texts)


def texts_of(found: Iterable[LoadedSite], params: Mapping[str, Any] | None = None) -> list[SiteText]:
    """The text of each site file. Each stands alone: one that others describe in part (`extends`, a file of `params`), or that has other
    `params` than its own, is written out."""
    texts: dict[str, str] = {}
    sites: dict[str, list[SiteSpec]] = {}
    for loaded in found:
        texts[loaded.file] = loaded.text
        sites.setdefault(loaded.file, []).append(loaded.site)
    return [
        SiteText(
            Path(file).stem,
            standalone(text, file, sites[file], params or ()),
            file,
            tuple(site.site for site in sites[file]),
        )
        for file, text in texts.items()
    ]
