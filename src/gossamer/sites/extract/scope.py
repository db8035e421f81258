"""Which names a rule of `follow` uses, and so whether it is for the whole page or for each of its records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jmespath  # type: ignore[import-untyped]
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

from gossamer.sites.format import Follow, Layer
from gossamer.sites.template import NAME

# What stands first in such an expression is looked for in the fields; the rest in what that finds.
_FIRST_ONLY = frozenset(
    {"subexpression", "index_expression", "pipe", "projection", "value_projection", "filter_projection", "flatten"}
)


@lru_cache(4096)
def roots(expression: str) -> tuple[str, ...]:
    """The names that a JMESPath expression looks for in what it is given, each once. Raises JMESPathError."""
    return tuple(dict.fromkeys(_roots(jmespath.compile(expression).parsed)))


def _roots(node: dict[str, Any]) -> Iterator[str]:
    kind = node["type"]
    if kind == "field":
        yield node["value"]
    elif kind != "expref":
        for inner in node["children"][:1] if kind in _FIRST_ONLY else node["children"]:
            yield from _roots(inner)


def names_used(follow: Follow) -> set[str]:
    """The fields that a rule may use: in `from`, `when`, `pass`, `changed` and {names}."""
    found = set(follow.carry) if not isinstance(follow.carry, dict) else set()
    first, _, rest = follow.source.partition(".")
    if first == "fields" and rest:
        found.add(rest.split(".")[0])
    for expression in (follow.when, *(follow.carry.values() if isinstance(follow.carry, dict) else ())):
        if expression is not None:
            try:
                found.update(roots(expression))
            except JMESPathError:
                continue
    for text in _texts(
        (follow.url, follow.changed, follow.headers, follow.cookies, follow.form, follow.json_, follow.body)
    ):
        found.update(name[2].split(".")[0] for name in NAME.finditer(text) if name[2])
    return found


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from _texts([*data, *data.values()])
    elif isinstance(data, list | tuple):
        for one in data:
            yield from _texts(one)


def of_page(layer: Layer, follow: Follow) -> bool:
    """Whether a rule of a layer with `records` is for the page as a whole: it turns pages, or uses no value of its records and is a
    selector, or has values of the page. Otherwise it is for each record."""
    if follow.pages is not None:
        return True
    used = names_used(follow)
    if used & layer.fields.keys() - layer.page.keys():
        return False
    return follow.url is None or bool(used & layer.page.keys())
