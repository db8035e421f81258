"""The files of a survey: each is read once, and completed by the files it extends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gossamer.sites.file.merge import merged
from gossamer.sites.file.messages import problem_at
from gossamer.sites.file.problems import Problem
from gossamer.sites.file.yaml import InvalidYaml, Spot, YamlDocument, decoded, read


class SourceFiles:
    """Adds what is wrong to `problems`, and the files that others extend to `parts`."""

    def __init__(self, problems: list[Problem], parts: set[str]) -> None:
        self.problems, self.parts = problems, parts
        self._documents: dict[Path, tuple[str, list[YamlDocument]] | InvalidYaml] = {}

    def open(self, path: Path) -> tuple[str, list[YamlDocument]]:
        """The text of a file and the documents in it. Raises Unreadable."""
        known = self._documents.get(path)
        if known is None:
            try:
                text = decoded(path.read_bytes(), str(path))
                known = text, list(read(text, str(path)))
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                known = InvalidYaml(Problem(str(path), 0, 0, "", f"the file cannot be read: {why}"))
            except InvalidYaml as error:
                known = error
            self._documents[path] = known
        if isinstance(known, InvalidYaml):
            raise known
        return known

    def extended(self, document: YamlDocument, folder: Path | None, above: tuple[Path, ...]) -> tuple[Any, Spot] | None:
        """A document with what it extends; None if that cannot be read."""
        data, spot = document.data, document.spot
        name = data.get("extends")
        if not isinstance(name, str):
            return data, spot  # Not a text: the models say so.
        where = ("extends",)
        if folder is None:
            self.problems.append(
                problem_at(spot, where, "a text that is not a file cannot extend a file", "write it to a file")
            )
            return None
        path = Path(os.path.normpath(folder / name))
        if path in map(_normal, above):
            circle = " → ".join(str(one) for one in (*above[_place(above, path) :], path))
            self.problems.append(
                problem_at(spot, where, f"files that extend each other: {circle}", "leave out one extends")
            )
            return None
        try:
            _, documents = self.open(path)
        except InvalidYaml as error:
            if error.problem.line:
                self.problems.append(error.problem)
            else:
                self.problems.append(
                    problem_at(spot, where, f"{name}: {error.problem.message}", "the name counts from this file")
                )
            return None
        self.parts.add(str(path))
        if len(documents) != 1 or not isinstance(documents[0].data, dict):
            self.problems.append(
                problem_at(spot, where, f"{name} is not one mapping", "a file that others extend has one document")
            )
            return None
        base = self.extended(documents[0], path.parent, (*above, path))
        if base is None:
            return None
        rest = {key: value for key, value in data.items() if key != "extends"}
        inherited = {key: value for key, value in base[0].items() if key != "extends"}
        return merged(inherited, base[1], rest, spot)


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _place(above: tuple[Path, ...], path: Path) -> int:
    return [_normal(one) for one in above].index(path)
