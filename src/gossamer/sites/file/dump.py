"""A site file whole in itself: as it is written, or, where it leans on other files, with what they say written into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from gossamer.errors import SiteError
from gossamer.sites.file.extend import SourceFiles
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.params import BadParams, rows_of_file
from gossamer.sites.file.problems import Problem, SiteErrors
from gossamer.sites.file.yaml import _FLOAT, _INT, InvalidYaml


class _SiteDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Puts quotes around a text that YAML 1.1 or 1.2 would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    # Line ends of other alphabets are only themselves between double quotes.
    odd = any(sign in text for sign in "\x85\u2028\u2029\r")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if odd else None)


_SiteDumper.add_representer(str, _text)
for _pattern, _first in ((_INT, "-+0123456789"), (_FLOAT, "-+.0123456789")):
    _SiteDumper.add_implicit_resolver("tag:gossamer,1.2:number", _pattern, list(_first))


def to_yaml(data: Any) -> str:
    """Data as YAML that reads back as the same data, keys in their order. SiteError for data that contain themselves."""
    _refuse_circles(data, ())
    text: str = yaml.dump(data, Dumper=_SiteDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _refuse_circles(data: Any, above: tuple[int, ...]) -> None:
    if isinstance(data, dict | list):
        if id(data) in above:
            raise SiteError("A value of this site contains itself, which no file can say. Put a copy there.")
        for value in data.values() if isinstance(data, dict) else data:
            _refuse_circles(value, (*above, id(data)))


def self_contained(path: str | os.PathLike[str]) -> str:
    """The text of a site file that needs no other file. One that extends none and has its rows itself stays as it is, comments
    and all; of another, every document is written anew with what it inherits and the rows of its parameters. Raises SiteErrors."""
    problems: list[Problem] = []
    files, file = SourceFiles(problems, set()), Path(path)
    try:
        text, documents = files.open(file)
    except InvalidYaml as error:
        raise SiteErrors([error.problem]) from None
    documents = [document for document in documents if isinstance(document.data, dict)]
    if not any(isinstance(document.data.get(key), str) for document in documents for key in ("extends", "params")):
        return text
    parts = []
    for document in documents:
        problems += document.problems
        found = files.extended(document, file.parent, (file,))
        if found is None:
            continue
        data, spot = found
        if isinstance(name := data.get("params"), str):
            where = spot.find(("params",)).spot
            try:
                data = {**data, "params": rows_of_file(name, Path(where.file).parent)}
            except BadParams as error:
                problems.append(problem_at(spot, ("params",), str(error), error.hint))
        parts.append(to_yaml({"site": data.get("site"), **data} if "site" in data else data))
    if problems:
        raise SiteErrors(problems)
    return f"# Written together from {file.name} and the files it names.\n" + "---\n".join(parts)
