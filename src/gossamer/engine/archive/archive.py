"""Pages that are kept as they came: one archive for each directory that sites name."""

from __future__ import annotations

from pathlib import Path

from gossamer.engine.archive.files import write_file
from gossamer.engine.archive.warc import WarcWriter
from gossamer.engine.sites import ServedSite
from gossamer.model.page import Response

FILES = "files"


class Archive:
    """`usual` is where the pages of sites go that name no directory, each into one of its own name."""

    def __init__(self, usual: Path) -> None:
        self._usual = usual
        self._writers: dict[Path, WarcWriter] = {}

    def keep(self, site: ServedSite, response: Response) -> None:
        place = self.place(site)
        writer = self._writers.get(place)
        if writer is None:
            writer = self._writers[place] = WarcWriter(place)
        writer.write(response)

    def keep_file(self, site: ServedSite, name: str, response: Response) -> None:
        """The body of a page as a file of its own, `files/NAME`."""
        write_file(self.place(site) / FILES, name, response.body)

    def place(self, site: ServedSite) -> Path:
        named = site.compiled.site.archive_pages
        return Path(named).expanduser() if named else self._usual / site.name

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
