"""JSON-LD of a page: what its `application/ld+json` scripts say, by type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from gossamer.sites.extract.types import loads

SCRIPTS = etree.XPath("//script[@type]", smart_strings=False)
KIND = "application/ld+json"
DEEPEST = 50
_WRAPPED = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("//<![CDATA[", "//]]>"))


class JsonLd:
    """Everything that has a type, in the order of the page: things at the top, in lists and in `@graph`, and the things inside them
    after that."""

    def __init__(self, root: Any) -> None:
        self._broken: list[str] = []
        tops: list[Any] = []
        for script in SCRIPTS(root):
            if script.get("type").partition(";")[0].strip().lower() == KIND:
                try:
                    tops.append(loads(_unwrapped("".join(script.itertext()))))
                except (ValueError, RecursionError) as error:
                    self._broken.append(str(error))
        things = [thing for top in tops for thing in _things(top, 0)]
        self._things = things + [inner for thing in things for inner in _inside(thing, 0)]

    def first(self, type: str) -> dict[str, Any] | None:
        return next((thing for thing in self._things if _is(thing, type)), None)

    def every(self, type: str | None) -> list[dict[str, Any]]:
        return [thing for thing in self._things if type is None or _is(thing, type)]

    def missing(self, type: str) -> str:
        """Why nothing of a type was found."""
        types = list(dict.fromkeys(name for thing in self._things for name in _types(thing)))
        said = f"no JSON-LD of type {type}"
        if types:
            said += f"; it has {', '.join(types)}"
        if self._broken:
            said += f"; {len(self._broken)} of its scripts cannot be read: {self._broken[0]}"
        return said


def _things(data: Any, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(data, list) and depth < DEEPEST:
        for one in data:
            yield from _things(one, depth + 1)
    elif isinstance(data, dict):
        if _types(data):
            yield data
        if isinstance(data.get("@graph"), list | dict) and depth < DEEPEST:
            yield from _things(data["@graph"], depth + 1)


def _inside(thing: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    for key, value in thing.items():
        if key == "@graph" or depth >= DEEPEST:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                if _types(one):
                    yield one
                yield from _inside(one, depth + 1)


def _types(thing: dict[str, Any]) -> list[str]:
    named = thing.get("@type")
    return [
        one.rstrip("/").rpartition("/")[2].rpartition("#")[2]
        for one in (named if isinstance(named, list) else [named])
        if isinstance(one, str)
    ]


def _is(thing: dict[str, Any], type: str) -> bool:
    return type in _types(thing)


def _unwrapped(text: str) -> str:
    """Without the comment or CDATA marks that some pages put around it."""
    text = text.strip()
    for begin, end in _WRAPPED:
        if text.startswith(begin) and text.endswith(end):
            return text[len(begin) : -len(end)].strip()
    return text
