"""Pages that are kept as they came: one archive for each directory that sites name."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from gossamer.engine.archive.warc import WarcWriter
from gossamer.engine.sites import ServedSite
from gossamer.errors import ArchiveFailed
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


def write_file(directory: Path, name: str, body: bytes) -> Path:
    """Write a file as a whole or not at all, for its owner only; one of the same name is replaced. Raises ArchiveFailed."""
    path = directory / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made with mode 0600.
        number, half = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(body)
            os.replace(half, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(half)
            raise
    except OSError as error:
        raise ArchiveFailed(
            f"Pages cannot be kept in {directory}: {error}. Make room, or name another `archive_pages`."
        ) from error
    return path
