"""The character set of a page, found as browsers find it: a byte order mark, the Content-Type, what the page says of itself, and
otherwise UTF-8 where it is UTF-8. No bytes are an error: what does not fit becomes U+FFFD, and the page says so."""

from __future__ import annotations

import codecs
from functools import lru_cache
from typing import NamedTuple

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

from gossamer.model.page import Response

# Codecs of Python that are no character sets of pages; some of them are dangerous to run on what strangers send.
NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7", "palmos", "mbcs", "oem"}
)
UNDECLARED = "cp1252"


class Charset(NamedTuple):
    """A codec's name, how many bytes of a byte order mark come before the text, and whether anything but a guess says so."""

    name: str
    mark: int = 0
    declared: bool = True


@lru_cache(maxsize=512)
def known(label: str) -> str | None:
    """The codec for a label as pages write it, with the supersets that browsers use (gb2312 is gb18030); None if there is none."""
    try:
        name = resolve_encoding(label.strip())
        if name is None or name.replace("-", "_") in NO_CHARSETS or not codecs.lookup(name)._is_text_encoding:
            return None
    except (LookupError, ValueError):
        return None
    return {"utf-8-sig": "utf-8"}.get(name, name)


@lru_cache(maxsize=512)
def of_header(content_type: str) -> str | None:
    name = http_content_type_encoding(content_type)
    name = known(name) if name else None
    return f"{name}-be" if name in ("utf-16", "utf-32") else name


def find(body: bytes, content_type: str = "", encoding: str | None = None) -> Charset:
    """The character set of a page. `encoding`, of the site file, goes before all that the page says."""
    if encoding is not None and (name := known(encoding)) is not None:
        marked, mark = read_bom(body)
        if marked is not None and mark is not None and name.replace("-", "").startswith(marked.replace("-", "")[:5]):
            return Charset(marked, len(mark))
        return Charset(f"{name}-le" if name in ("utf-16", "utf-32") else name)
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return Charset(marked, len(mark))
    if (name := of_header(content_type)) is not None:
        # JSON is UTF-8 to browsers, whatever they are told, and some servers add ISO-8859-1 to everything.
        json = name == UNDECLARED and "json" in content_type.lower() and guess(body) == "utf-8"
        return Charset("utf-8" if json else name)
    if body[:1] == b"\0" or body[1:2] == b"\0":
        # Half of the bytes of UTF-16 markup are zero, and it can say nothing of itself that would be read.
        if body[:1] == b"\0" != body[1:2] and body[2:3] == b"\0":
            return Charset("utf-16-be", declared=False)
        if body[:1] != b"\0" and body[3:4] == b"\0":
            return Charset("utf-16-le", declared=False)
    if (said := html_body_declared_encoding(body)) is not None and (name := known(said)) is not None:
        # Bytes in which this could be read are not UTF-16, whatever they say: browsers take UTF-8.
        return Charset("utf-8" if name.startswith(("utf-16", "utf-32")) else name)
    return Charset(guess(body), declared=False)


def name_of(page: Response, encoding: str | None = None) -> str:
    """The name of a page's character set."""
    return find(page.body, page.headers.get("content-type", ""), encoding).name


def guess(body: bytes) -> str:
    """UTF-8 if it is that, but for a few damaged bytes; otherwise what most undeclared pages are in."""
    try:
        body.decode()
    except UnicodeDecodeError:
        text = body.decode(errors="replace")
        damaged = text.count("\ufffd")
        sound = sum(map(text.count, {character for character in text if character > "\x7f"})) - damaged
        return "utf-8" if damaged * 4 < sound else UNDECLARED
    return "utf-8"


def decode(body: bytes, charset: Charset) -> tuple[str, str]:
    """The text, and a note where not all bytes fit or nothing said what they are ("" otherwise)."""
    if charset.mark:
        body = body[charset.mark :]
    try:
        text = body.decode(charset.name)
    except (UnicodeError, LookupError):
        text = to_unicode(body, charset.name)
        return (
            text,
            f"charset: the page is not all {charset.name}; what did not fit was replaced (encoding: in the layer sets another)",
        )
    if not charset.declared and charset.name == UNDECLARED:
        return (
            text,
            f"charset: the page says none and is not UTF-8; it was read as {charset.name} (encoding: in the layer sets another)",
        )
    return text, ""
