"""Texts of site files: what sites they describe, where two of them differ. Pure."""

from __future__ import annotations

import difflib
import hashlib
from typing import NamedTuple

from gossamer.registry.standalone import others
from gossamer.sites.file.load import load_kept, load_text
from gossamer.sites.file.problems import SiteErrors


class SiteText(NamedTuple):
    """A site file to be kept: under which name, its text, and what messages call it. `sites` are those that it was found to
    describe; () if it was not read yet."""

    name: str
    text: str
    file: str
    sites: tuple[str, ...] = ()


def text_digest(text: str) -> str:
    """What the frontier notes of a document's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sites_in(text: str, file: str) -> tuple[str, ...]:
    """The names of the sites that a text describes; SiteErrors with all that is wrong."""
    if problems := list(others(text, file)):
        raise SiteErrors(problems)
    return tuple(site.site for site in load_text(text, file))


def names_in(text: str, file: str) -> tuple[str, ...]:
    """The names of the sites of a text that was checked before it was kept; SiteErrors where it cannot be read."""
    return tuple(site.site for site in load_kept(text, file))


def differences(before: str, after: str, old: str, new: str) -> str:
    """A unified diff; "" where nothing differs."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), fromfile=old, tofile=new
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
