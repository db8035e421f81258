"""JMESPath, compiled once. Plain expressions (names, places in lists, projections, pipes) become functions that look into
the data themselves and find what the library finds, many times sooner; all others are the library's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jmespath  # type: ignore[import-untyped]
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

Ask = Callable[[Any], Any]
Node = dict[str, Any]
CHAINS = frozenset({"subexpression", "index_expression", "pipe"})


@lru_cache(maxsize=4096)
def search(expression: str) -> Ask:
    """What finds an expression's value in data, or raises JMESPathError or RecursionError; ValueError here if it is none."""
    parsed = _parsed(expression)
    try:
        direct = _direct(parsed.parsed)
    except RecursionError:
        direct = None
    return _by_library(parsed) if direct is None else direct


def keys_of(expression: str) -> tuple[str, ...]:
    """The names of an expression that is nothing but names, of objects within objects; otherwise none."""
    try:
        return tuple(_names(_parsed(expression).parsed) or ())
    except RecursionError:
        return ()


def _parsed(expression: str) -> Any:
    try:
        return jmespath.compile(expression)
    except (JMESPathError, RecursionError) as error:
        raise ValueError(f"{expression!r} is no JMESPath: {error}") from None


def _by_library(parsed: Any) -> Ask:
    def ask(data: Any) -> Any:
        try:
            return parsed.search(data)
        except JMESPathError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # The library lets some through: a text compared with a number, no number rounded.
            raise JMESPathError(str(error)) from error

    return ask


def _names(node: Node) -> list[str] | None:
    if node["type"] == "field":
        return [node["value"]]
    if node["type"] != "subexpression":
        return None
    names: list[str] = []
    for child in node["children"]:
        found = _names(child)
        if found is None:
            return None
        names += found
    return names


def _direct(node: Node) -> Ask | None:
    """A node of the library's tree as a function; None if it is not plain."""
    kind = node["type"]
    if names := _names(node):
        return _field(names[0]) if len(names) == 1 else _path(names)
    if kind in ("identity", "current"):
        return _itself
    if kind == "index":
        return _index(node["value"])
    if kind == "slice" and node["children"][2] != 0:
        return _slice(slice(*node["children"]))
    if kind not in CHAINS and kind not in SPREAD:
        return None
    steps = [_direct(child) for child in node["children"]]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    return _chain(known) if kind in CHAINS else SPREAD[kind](*known)


def _itself(data: Any) -> Any:
    return data


def _field(name: str) -> Ask:
    return lambda data: data.get(name) if isinstance(data, dict) else None


def _path(names: list[str]) -> Ask:
    def path(data: Any) -> Any:
        for name in names:
            if not isinstance(data, dict):
                return None
            data = data.get(name)
        return data

    return path


def _index(place: int) -> Ask:
    def index(data: Any) -> Any:
        return data[place] if isinstance(data, list) and -len(data) <= place < len(data) else None

    return index


def _slice(places: slice) -> Ask:
    return lambda data: data[places] if isinstance(data, list) else None


def _chain(steps: list[Ask]) -> Ask:
    if len(steps) == 2:
        one, other = steps
        return lambda data: other(one(data))

    def chain(data: Any) -> Any:
        for step in steps:
            data = step(data)
        return data

    return chain


def _projection(base: Ask, each: Ask) -> Ask:
    def projection(data: Any) -> Any:
        found = base(data)
        if not isinstance(found, list):
            return None
        if each is _itself:
            return [one for one in found if one is not None]
        return [value for one in found if (value := each(one)) is not None]

    return projection


def _value_projection(base: Ask, each: Ask) -> Ask:
    def projection(data: Any) -> Any:
        found = base(data)
        if not isinstance(found, dict):
            return None
        return [value for one in found.values() if (value := each(one)) is not None]

    return projection


def _flatten(base: Ask) -> Ask:
    def flatten(data: Any) -> Any:
        found = base(data)
        if not isinstance(found, list):
            return None
        merged: list[Any] = []
        for one in found:
            if isinstance(one, list):
                merged += one
            else:
                merged.append(one)
        return merged

    return flatten


SPREAD: dict[str, Callable[..., Ask]] = {
    "projection": _projection,
    "value_projection": _value_projection,
    "flatten": _flatten,
}
