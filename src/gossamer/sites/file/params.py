"""Parameters of site files: rows of values, and texts with {names} in them.

A name in braces is replaced when it is a parameter; {{name}} stands for {name} itself. Anything else in braces, such as the \\d{2}
of a regular expression, JSON, or the ${NAME} of an environment variable, is left as it is.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gossamer.sites.file.yaml import InvalidYaml, decoded, read

NAMED = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|(?<!\$)\{([A-Za-z_]\w*)\}")
FORMATTED = frozenset(
    {"seeds", "url", "sitemap", "feed", "value", "headers", "cookies", "form", "json", "body", "pass"}
)
"""Keys whose texts are filled again when pages are read: there, doubled braces stay doubled."""
SEVERAL_MAX = 100_000
"""More rows than this are not read as parameters."""


class BadParams(Exception):
    """The parameters cannot be used. `hint` may say more."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def names_in(text: str) -> list[str]:
    """The {names} of a text, each once."""
    return list(dict.fromkeys(found[2] for found in NAMED.finditer(text) if found[2]))


def names_within(data: Any) -> list[str]:
    """The {names} of all texts in some data, each once."""
    if isinstance(data, str):
        return names_in(data)
    inner = [*data, *data.values()] if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ()
    return list(dict.fromkeys(name for one in inner for name in names_within(one)))


def shown(value: Any) -> str:
    """A value as it stands in a text."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def filled(text: str, values: Mapping[str, Any]) -> str:
    """The text with its {names} replaced by values, and {{names}} by {names}. Names without a value stay."""
    if "{" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        kept, name = found.groups()
        if kept is not None:
            return f"{{{kept}}}"
        return shown(values[name]) if name in values else found[0]

    return NAMED.sub(one, text)


class Parameters:
    """The parameters of one file: lists to be combined, or rows that belong together."""

    def __init__(self, lists: Mapping[str, list[Any]] | None = None, rows: list[dict[str, Any]] | None = None) -> None:
        self.lists = dict(lists or {})
        self.rows = rows
        self.names: tuple[str, ...] = tuple(self.lists if rows is None else (rows[0] if rows else {}))

    def single(self) -> dict[str, Any]:
        """The parameters that have one value."""
        if self.rows is not None:
            return dict(self.rows[0]) if len(self.rows) == 1 else {}
        return {name: values[0] for name, values in self.lists.items() if len(values) == 1}

    def count(self, names: Iterable[str]) -> int:
        """How many combinations of these names there are."""
        wanted = [name for name in names if name in self.names]
        if self.rows is not None:
            return len(self.rows) if wanted else 1
        total = 1
        for name in wanted:
            total *= len(self.lists[name])
        return total

    def combinations(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Every combination of values of these names; a row comes with all of its names."""
        wanted = [name for name in names if name in self.names]
        if self.rows is not None:
            yield from (self.rows if wanted else [{}])
            return
        for values in itertools.product(*(self.lists[name] for name in wanted)):
            yield dict(zip(wanted, values, strict=True))

    def changed(self, given: Mapping[str, Any]) -> Parameters:
        """The same with other values for those of these names that it has; in rows, one value for all of them. Raises BadParams."""
        mine = {name: value for name, value in given.items() if name in self.names}
        lists = parameters(mine).lists if mine else {}
        if self.rows is None:
            return Parameters(lists={**self.lists, **lists})
        for name, values in lists.items():
            if len(values) > 1:
                raise BadParams(f"parameter {name} stands in rows, where it has one value")
        same = {name: values[0] for name, values in lists.items()}
        return Parameters(rows=[{**row, **same} for row in self.rows])

    def without(self, names: Iterable[str]) -> dict[str, list[Any]]:
        taken = set(names)
        return {name: values for name, values in self.lists.items() if name not in taken}


def parameters(given: Any, folder: Path | None = None) -> Parameters:
    """What `params` says. Raises BadParams."""
    if isinstance(given, str):
        if folder is None:
            raise BadParams("a text that is not a file cannot name a file of rows", "write the rows here")
        given = rows_of_file(given, folder)
    if isinstance(given, Mapping):
        lists = {}
        for name, value in given.items():
            values = value if isinstance(value, list | tuple) else [value]
            if isinstance(value, Mapping) or any(isinstance(one, Mapping | list) for one in values):
                raise BadParams(
                    f"parameter {name} has values that are not texts or numbers", "rows are a list of mappings"
                )
            if not values:
                raise BadParams(f"parameter {name} has no value")
            lists[name] = list(values)
        _check_names(lists)
        return Parameters(lists=lists)
    if not isinstance(given, list | tuple):
        raise BadParams("parameters are a mapping of lists, a list of rows, or the name of a file")
    if not given:
        raise BadParams("there are no rows")
    if len(given) > SEVERAL_MAX:
        raise BadParams(f"there are {len(given):,} rows; at most {SEVERAL_MAX:,} are read")
    for number, row in enumerate(given, 1):
        if not isinstance(row, Mapping):
            raise BadParams(f"row {number} is not a mapping")
        if set(row) != set(given[0]):
            odd = sorted(map(str, set(row) ^ set(given[0])))
            raise BadParams(f"row {number} has other names than row 1: {', '.join(odd)}")
    _check_names(given[0])
    return Parameters(rows=[dict(row) for row in given])


def _check_names(names: Iterable[Any]) -> None:
    for name in names:
        if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name)):
            raise BadParams(f"{name!r} cannot be the name of a parameter", "use letters, digits and _")


def rows_of_file(name: str, folder: Path) -> list[Any]:
    """The rows of a CSV, JSON or YAML file. A name that is not absolute is looked for beside the site file."""
    path = folder / name
    readers: dict[str, Callable[[str], Any]] = {
        ".csv": _csv,
        ".json": json.loads,
        ".yaml": lambda text: next(read(text, str(path))).data,
        ".yml": lambda text: next(read(text, str(path))).data,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise BadParams(f"{name} is not a file of rows", "its name must end in .csv, .json, .yaml or .yml")
    try:
        rows = reader(decoded(path.read_bytes(), str(path)))
    except OSError as error:
        raise BadParams(
            f"{name} cannot be read: {(error.strerror or str(error)).lower()}", "the name counts from the site file"
        ) from None
    except InvalidYaml as error:
        raise BadParams(str(error)) from None
    except StopIteration:
        raise BadParams(f"{name} is empty") from None
    except ValueError as error:
        raise BadParams(f"{name} cannot be read: {error}") from None
    if not isinstance(rows, list):
        raise BadParams(f"{name} holds no list of rows")
    return rows


def _csv(text: str) -> list[dict[str, Any]]:
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ValueError(f"row {number} does not have as many cells as the first row")
    return rows


def fill_all(data: Any, values: Mapping[str, Any], later: bool = False) -> Any:
    """The same data with {names} replaced in every text and key. A text that is nothing but one name becomes the value itself
    if that is a truth value, a list, a mapping or nothing. With `later`, the text is filled again when pages are read: braces
    stay doubled, and those of values are doubled."""
    if isinstance(data, str):
        return _fill_one(data, values, later)
    if isinstance(data, list):
        return [fill_all(item, values, later) for item in data]
    if isinstance(data, dict):
        return {
            _fill_one(key, values, False) if "{" in key else key: fill_all(value, values, later or key in FORMATTED)
            for key, value in data.items()
        }
    return data


def _fill_one(text: str, values: Mapping[str, Any], later: bool) -> Any:
    if "{" not in text:
        return text
    whole = NAMED.fullmatch(text)
    if whole and whole[2] in values and (values[whole[2]] is None or isinstance(values[whole[2]], bool | list | dict)):
        return values[whole[2]]

    def one(found: re.Match[str]) -> str:
        kept, name = found.groups()
        if kept in values and not later:
            return f"{{{kept}}}"
        if name not in values:
            return found[0]
        value = shown(values[name])
        return NAMED.sub(lambda inner: f"{{{inner[0]}}}" if inner[2] else inner[0], value) if later else value

    return NAMED.sub(one, text)
