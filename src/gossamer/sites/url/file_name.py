"""The name of the file that a page is kept in: readable, the same for the same page, and of no other page."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from urllib.parse import unquote, urlsplit

LONGEST = 80
"""Characters of the readable part of a name."""
LONGEST_BYTES = 200
"""Bytes of it: with the rest, no more than file systems allow."""
DISPOSITION = 4_000
"""Characters of a Content-Disposition that are looked at."""
_PARAMETER = re.compile(
    r";\s*(?P<name>filename\*?)\s*=\s*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"?|(?P<plain>[^;\"\s]*))", re.IGNORECASE
)
# What makes the page, which says nothing of what it is.
_PROGRAMS = frozenset(
    {
        ".action",
        ".ashx",
        ".asp",
        ".aspx",
        ".cgi",
        ".do",
        ".htm",
        ".html",
        ".jsp",
        ".php",
        ".php3",
        ".php5",
        ".pl",
        ".py",
    }
)
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream", "text/plain"})
_UNSAFE = re.compile(r"[^\w.-]+")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
# The first of several that Python's table has may be odd.
_USUAL = {"text/html": ".html", "application/xhtml+xml": ".html", "image/jpeg": ".jpg", "text/plain": ".txt"}


def file_name(url: str, content_type: str = "", sent: bytes = b"", disposition: str = "") -> str:
    """HOST/NAME-DIGEST.END for the canonical URL of a page, and for what was sent to it. The name and its end are those of the header
    Content-Disposition, or else of the URL; where that has no end, or the end of a program, the type of the content suggests one."""
    parts = urlsplit(url)
    host = _UNSAFE.sub("_", parts.netloc.rpartition("@")[2].lower()).strip(".") or "_"
    kind = content_type.partition(";")[0].strip().lower()
    usual = _USUAL.get(kind) or mimetypes.guess_extension(kind, strict=False) or ""
    name = given_name(disposition) or unquote(parts.path)
    name = name.strip("/")
    found = _ENDING.search(name)
    end = found[0].lower() if found else ""
    if not end or (end in _PROGRAMS and kind not in _VAGUE and usual):
        end = usual or end
    stem = _UNSAFE.sub("_", name[: -len(found[0])] if found else name).strip("._-")[-LONGEST:]
    stem = stem.encode("utf-8", "replace")[-LONGEST_BYTES:].decode("utf-8", "ignore").strip("._-") or "index"
    digest = hashlib.sha256(url.encode("utf-8", "replace") + (b"\n" + sent if sent else b""))
    return f"{host}/{stem}-{digest.hexdigest()[:10]}{end}"


def given_name(disposition: str) -> str:
    """The name that a Content-Disposition gives, without folders; "" if it gives none. `filename*` goes before `filename`."""
    names: dict[str, str] = {}
    for found in _PARAMETER.finditer(disposition[:DISPOSITION]):
        quoted, plain = found["quoted"], found["plain"]
        names.setdefault(found["name"].lower(), plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
    charset, mark, text = names.get("filename*", "").partition("'")
    name = ""
    if mark and charset.lower() in ("utf-8", "iso-8859-1"):
        name = unquote(text.partition("'")[2], charset, "replace")
    if not name:
        # Many servers send bytes of UTF-8 as they are, or %C3%A9, and browsers read both.
        name = unquote(names.get("filename", "").encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return re.split(r"[/\\]", name)[-1].strip()
