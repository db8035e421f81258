"""Python files as site files: the sites that they make, as documents with their places, and as the text that is pushed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gossamer.errors import SiteError
from gossamer.sites.file.dump import to_yaml
from gossamer.sites.file.problems import Problem
from gossamer.sites.file.yaml import YamlDocument
from gossamer.sites.python.module import InvalidPython, imported
from gossamer.sites.python.place import Home, renamed
from gossamer.sites.python.site import DefinitionError, SiteDefinition, sites_of

NONE = "there is no site in this file"
HINT = 'write: from gossamer import Site; shop = Site("shop", seeds=["https://…"])'


def read_python(path: Path) -> tuple[str, list[YamlDocument]]:
    """The sites of a Python file: the text that describes them to workers, and a document each. Imports the file, once in a process.
    InvalidPython says what is wrong."""
    name = imported(path)
    found = sites_of(Home(os.path.realpath(path), name))
    if not found:
        raise InvalidPython(Problem(str(path), 0, 0, "", NONE, HINT))
    return written(str(path), found)


def written(file: str, sites: Sequence[SiteDefinition]) -> tuple[str, list[YamlDocument]]:
    """Sites as documents, whose places are in `file`, and as a text."""
    real = os.path.realpath(file)
    documents = []
    for site in sites:
        try:
            data, spot = site.document()
        except DefinitionError as error:
            place = renamed(error.place.spot, real, file)
            raise InvalidPython(Problem(place.file, place.line, place.column, "", str(error).rstrip("."))) from None
        documents.append(YamlDocument(data, renamed(spot, real, file), []))
    head = f"# Made from {Path(file).name}, whose functions it names.\n"
    try:
        text = head + to_yaml(*(document.data for document in documents))
    except SiteError as error:
        raise InvalidPython(Problem(file, 0, 0, "", str(error))) from None
    return text, documents
