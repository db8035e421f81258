"""XML as it comes: what is well-formed is read as it is, and of the rest as much as can be, with the reason."""

from __future__ import annotations

import re
from functools import cache
from html.entities import html5
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

_LOOSE = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|&(#[0-9]+;|#x[0-9a-fA-F]+;|[A-Za-z][A-Za-z0-9]*;)?|[\x00-\x08\x0b\x0c\x0e-\x1f]",
    re.DOTALL,
)
"""Ampersands, with what they begin if that may be a character; signs that XML does not have; and sections in which & stands for itself, to
the end of the document if they have none."""
_SAFE = {"resolve_entities": False, "no_network": True, "load_dtd": False}
WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 begins."""


@cache
def _strict(huge: bool, encoding: str | None) -> Any:
    return etree.XMLParser(huge_tree=huge, encoding=encoding, **_SAFE)


def parsed(data: bytes, *, huge: bool = False, encoding: str | None = None) -> tuple[Any, str]:
    """The root of a document, None if it has none; and why it is not well-formed, "" if it is, or can be read without a loss: a & that stands
    for itself, as in many URLs, the names of HTML's characters, and prefixes that nobody declares."""
    try:
        return etree.fromstring(data, _strict(huge, encoding)), ""
    except (etree.XMLSyntaxError, ValueError):
        parser = etree.XMLParser(recover=True, huge_tree=huge, encoding=encoding, **_SAFE)
    try:
        root = etree.fromstring(data if data.startswith(WIDE) else _LOOSE.sub(_meant, data), parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    if root is None:
        return None, ""
    faults = [one for one in parser.error_log if one.domain != etree.ErrorDomains.NAMESPACE]
    return root, f"line {faults[0].line}: {faults[0].message}" if faults else ""


def _meant(found: re.Match[bytes]) -> bytes:
    """Characters by their numbers: after a fault, the parser drops those that are written by name, &amp; too."""
    text = found[0]
    if text.startswith((b"<", b"&#")):
        return text
    if not text.startswith(b"&"):
        return b""
    signs = html5.get((found[1] or b"").decode("ascii"))
    return b"&#38;" + text[1:] if signs is None else b"".join(b"&#%d;" % ord(sign) for sign in signs)
