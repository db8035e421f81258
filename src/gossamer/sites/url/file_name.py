"""The name of the file that a page is kept in: readable, the same for the same page, and of no other page."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from urllib.parse import unquote, urlsplit

LONGEST = 80
"""Characters of the readable part of a name."""
_UNSAFE = re.compile(r"[^\w.-]+")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
# The first of several that Python's table has may be odd.
_USUAL = {"text/html": ".html", "application/xhtml+xml": ".html", "image/jpeg": ".jpg", "text/plain": ".txt"}


def file_name(url: str, content_type: str = "", sent: bytes = b"") -> str:
    """HOST/NAME-DIGEST.END for the canonical URL of a page, and for what was sent to it. The end is that of the URL, or what the type
    of the content suggests."""
    parts = urlsplit(url)
    host = _UNSAFE.sub("_", parts.netloc.rpartition("@")[2].lower()).strip(".") or "_"
    path = unquote(parts.path).strip("/")
    found = _ENDING.search(path)
    kind = content_type.partition(";")[0].strip().lower()
    end = found[0].lower() if found else _USUAL.get(kind) or mimetypes.guess_extension(kind, strict=False) or ""
    stem = _UNSAFE.sub("_", path[: -len(found[0])] if found else path).strip("._-")[-LONGEST:] or "index"
    digest = hashlib.sha256(url.encode("utf-8", "replace") + (b"\n" + sent if sent else b""))
    return f"{host}/{stem}-{digest.hexdigest()[:10]}{end}"
