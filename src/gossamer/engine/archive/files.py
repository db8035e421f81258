"""Pages kept as plain files: the body of each, under a name of its own."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from gossamer.errors import ArchiveFailed


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
