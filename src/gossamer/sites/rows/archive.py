"""Bodies that are packed files: gzip, and a zip with one file. What a small one unfolds to is limited."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib

from gossamer.sites.page import LimitExceeded

MOST_BYTES = 64 * 2**20
"""Maximum size unpacked; a sitemap has at most 50 MB."""
ENTRIES = 100
"""Maximum number of entries of a zip, of which one is a file that counts."""
GZIP, ZIP, EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_ENTRY = b"PK\x01\x02"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those whose output Python limits while it unpacks."""
_ENCRYPTED = 1


class BadArchive(ValueError):
    """A packed file that cannot be read; the message says why."""


def is_packed(body: bytes) -> bool:
    return body.startswith((GZIP, ZIP, EMPTY_ZIP))


def gunzipped(body: bytes) -> bytes:
    """The content of a gzip file; raises BadArchive and LimitExceeded."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
            return bounded(packed.read(MOST_BYTES + 1))
    except (OSError, EOFError, zlib.error) as error:
        raise BadArchive(f"the gzip file is damaged: {error}") from None


def unzipped(body: bytes) -> bytes:
    """The content of the only file in a zip; raises BadArchive and LimitExceeded."""
    if body.count(_ENTRY) > ENTRIES:
        raise BadArchive("the zip has more than one file")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = [
                entry
                for entry in archive.infolist()
                if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
            ]
            if len(entries) != 1:
                raise BadArchive(f"the zip has {len(entries)} files; it must have one")
            [entry] = entries
            if entry.flag_bits & _ENCRYPTED:
                raise BadArchive("the zip is encrypted")
            if entry.compress_type not in _METHODS:
                raise BadArchive("the zip is packed by a method other than deflate")
            with archive.open(entry) as packed:
                return bounded(packed.read(MOST_BYTES + 1))
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        RuntimeError,
        NotImplementedError,
        UnicodeError,
    ) as error:
        raise BadArchive(f"the zip is damaged: {error}") from None


def bounded(body: bytes) -> bytes:
    if len(body) > MOST_BYTES:
        raise LimitExceeded(f"it has more than {MOST_BYTES >> 20} MiB unpacked")
    return body
