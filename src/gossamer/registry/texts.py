"""Texts of site files: what sites they describe, where two of them differ. Pure."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from gossamer.sites.load import load_text
from gossamer.sites.problems import Problem, SiteErrors
from gossamer.sites.yaml import Unreadable, read


class SiteText(NamedTuple):
    """A site file to be kept: under which name, its text, and what messages call it."""

    name: str
    text: str
    file: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


def sites_in(text: str, file: str) -> tuple[str, ...]:
    """The names of the sites that a text describes; SiteErrors with all that is wrong."""
    if problems := list(_elsewhere(text, file)):
        raise SiteErrors(problems)
    return tuple(site.site for site in load_text(text, file))


def _elsewhere(text: str, file: str) -> Iterator[Problem]:
    """A file that is kept in the crawl is read on other machines, where the files beside it are not."""
    if "extends" not in text and "params" not in text:
        return  # As most do; reading a text twice takes its time.
    try:
        for document in read(text, file):
            data, spot = document.data, document.spot
            for key in ("extends", "params"):
                if isinstance(data, dict) and isinstance(data.get(key), str):
                    place = spot.find((key,))[0]
                    said = f"{data[key]} is another file, which workers elsewhere do not have"
                    hint = "write its rows here" if key == "params" else "write its keys here"
                    yield Problem(file, place.line, place.column, key, said, hint)
    except Unreadable:
        return  # That is said when the sites are read.


def differences(before: str, after: str, old: str, new: str) -> str:
    """A unified diff; "" where nothing differs."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), fromfile=old, tofile=new
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
