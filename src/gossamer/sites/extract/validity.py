"""Whether a page is the one that was asked for: the rules of `valid`, and the fields of `require`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.regex import Pattern
from gossamer.sites.extract.types import shown
from gossamer.sites.format import Valid

Check = Callable[[PageContent], str]
# Where a character never begins within another one, bytes can be searched instead of text.
SEARCHABLE = ("utf-8", "ascii", "cp125", "iso8859", "koi8", "latin")


def compile_valid(valid: Valid) -> Check:
    """What says why a page is not the one asked for: "" if it is."""
    statuses = frozenset(valid.status)
    content_type = Pattern(valid.content_type, ignore_case=True) if valid.content_type is not None else None
    rest = bool(valid.min_length or valid.min_characters or valid.contains or valid.lacks or content_type)

    def check(page: PageContent) -> str:
        document = page.document
        if not (document.status in statuses if statuses else 200 <= document.status <= 299):
            read = f"valid.status: {', '.join(map(str, sorted(statuses)))}" if statuses else "valid.status: 200 to 299"
            return f"status {document.status} ({read})"
        if not rest:
            return ""
        if len(document.body) < valid.min_length:
            return f"{len(document.body)} bytes are fewer than {valid.min_length} (valid.min_length)"
        # No character takes more than four bytes.
        least = valid.min_characters
        if least and len(document.body) < 4 * least and (count := len(page.text())) < least:
            return f"{count} characters are fewer than {least} (valid.min_characters)"
        if content_type is not None:
            given = document.headers.get("content-type", "")
            if not content_type.matches(given, page):
                return f"Content-Type {shown(given)} does not match {content_type.text!r} (valid.content_type)"
        for text in valid.contains:
            if not has(page, text):
                return f"lacks the text {shown(text)} (valid.contains)"
        for text in valid.lacks:
            if has(page, text):
                return f"has the text {shown(text)} (valid.lacks)"
        return ""

    return check


def has(page: PageContent, text: str) -> bool:
    """Whether a text is on the page, without decoding it where that makes no difference."""
    if text.isascii() and page.codec().startswith(SEARCHABLE):
        return text.encode() in page.document.body
    return text in page.text()


def compile_required(require: tuple[str | tuple[str, ...], ...]) -> Callable[[Mapping[str, Any]], str]:
    """What names the required fields that are empty in a record: "" if none is. 0 and false are not empty."""
    wanted = [(one,) if isinstance(one, str) else one for one in require]

    def lacking(fields: Mapping[str, Any]) -> str:
        return ", ".join(
            names[0] if len(names) == 1 else f"one of {' or '.join(names)}"
            for names in wanted
            if all(empty(fields.get(name)) for name in names)
        )

    return lacking


def empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict | bytes) and not value)
