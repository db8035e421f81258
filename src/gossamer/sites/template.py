"""{names} in the texts of a site file: fields, those of `page`, what the parent passed on, groups of `match`, parameters, in this
order. {{name}} stands for {name} itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.types import as_text
from gossamer.sites.page import LINKS, LimitExceeded

_WORDS = r"([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)"
NAME = re.compile(rf"\{{\{{{_WORDS}\}}\}}|(?<!\$)\{{{_WORDS}\}}")
"""The first group is a name that only stands for itself, the second one that stands for something."""


class UnknownName(Exception):
    """A name that stands for nothing on this page."""


def dig(value: Any, path: str) -> Any:
    """What is at a.b.c: keys of mappings; through a list, of each of its members. None where there is nothing."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for key in path.split("."):
        if isinstance(value, list):
            found = [one for member in value if isinstance(member, Mapping) and (one := member.get(key)) is not None]
            value = [one for part in found for one in (part if isinstance(part, list) else [part])]
        elif isinstance(value, Mapping):
            value = value.get(key)
        else:
            return None
    return value


def look_up(name: str, page: PageContent, fields: Mapping[str, Any]) -> Any:
    for scope in (fields, page.values, page.document.inherited):
        if (value := dig(scope, name)) is not None:
            return value
    if (group := page.groups().get(name)) is not None:
        return group
    return dig(page.site.params, name)


def _scope(name: str, page: PageContent, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where `look_up` finds it."""
    for scope in (fields, page.values, page.document.inherited):
        if dig(scope, name) is not None:
            return scope
    groups = page.groups()
    return groups if groups.get(name) is not None else page.site.params


def named(value: Any) -> bool:
    """Whether there are {names} anywhere in it."""
    match value:
        case str():
            return NAME.search(value) is not None
        case list() | tuple():
            return any(map(named, value))
        case dict():
            return any(named(key) or named(one) for key, one in value.items())
    return False


def filled(value: Any, page: PageContent, fields: Mapping[str, Any]) -> Any:
    """A value with all names in its texts replaced; a text that is nothing but a name becomes what that stands for, with its type."""
    match value:
        case str():
            if (whole := NAME.fullmatch(value)) and whole[2]:
                return _known(whole[2], page, fields)
            return NAME.sub(
                lambda found: f"{{{found[1]}}}" if found[1] else as_text(_known(found[2], page, fields)), value
            )
        case list() | tuple():
            return [filled(one, page, fields) for one in value]
        case dict():
            return {as_text(filled(key, page, fields)): filled(one, page, fields) for key, one in value.items()}
    return value


def urls(template: str, page: PageContent, fields: Mapping[str, Any]) -> Iterator[str]:
    """The URLs of a text; a name that stands for a list gives one for each member. Names of the same list ({posts.id},
    {posts.slug}) go together, member by member; different lists are combined. What a name stands for cannot end the argument of the
    query that it is in, nor begin a fragment, unless the whole URL begins with it."""
    return (url for url, _ in urls_with_texts(template, "", page, fields))


def urls_with_texts(
    template: str, beside: str, page: PageContent, fields: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """The same, each with what the text `beside` becomes for it ("": all its names are empty): names of a list that gives the URLs go
    together with these, any other value is the same for all."""
    literals, names = _divided(template)
    text_literals, text_names = _divided(beside)
    values = [_known(name, page, fields) for name in names]
    if any(isinstance(value, list) for value in values):
        unfolding = _Unfolding(template, len(names))
        rows: Iterable[Row] = unfolding.rows([(_scope(name, page, fields), name) for name in (*names, *text_names)])
        if unfolding.empty:
            page.empty_values += unfolding.empty
            page.note(f"{template}: {unfolding.empty} values are empty and give no URL")
    else:
        rows = [dict(enumerate([*values, *(look_up(name, page, fields) for name in text_names)]))]
    for row in rows:
        url = literals[0]
        for place, literal in enumerate(literals[1:]):
            url += _fitting(as_text(row[place]), url) + literal
        yield url, _text([row.get(len(names) + place) for place in range(len(text_names))], text_literals)


def text_of(template: str, page: PageContent, fields: Mapping[str, Any]) -> str:
    """What a text becomes whose names may be empty; "" if all of them are."""
    literals, names = _divided(template)
    return _text([look_up(name, page, fields) for name in names], literals)


def _text(values: Sequence[Any], literals: Sequence[str]) -> str:
    texts = ["" if value in (None, [], {}) else as_text(value) for value in values]
    if not any(texts):
        return ""
    return literals[0] + "".join(text + literal for text, literal in zip(texts, literals[1:], strict=True))


Row = dict[int, Any]
"""What each name of a template stands for in one URL, by the name's place."""


class _Unfolding:
    """The combinations of what the names of one template stand for. The names from number `needed` on may be empty, and give no further
    combinations."""

    def __init__(self, template: str, needed: int) -> None:
        self.empty = 0
        """How many values found nothing."""
        self._template, self._needed = template, needed

    def rows(self, names: Sequence[tuple[Mapping[str, Any], str]]) -> list[Row]:
        """`names` are those of the template, each with the mapping that has it."""
        groups: dict[tuple[int, str], tuple[Any, list[tuple[int, list[str]]]]] = {}
        for place, (scope, name) in enumerate(names):
            first, *rest = [name] if name in scope else name.split(".")
            groups.setdefault((id(scope), first), (scope.get(first), []))[1].append((place, rest))
        parts = []
        for value, wanted in groups.values():
            if self._may_be_empty(wanted):
                found = {place: dig(value, ".".join(rest)) if rest else value for place, rest in wanted}
                parts.append([found])
            else:
                parts.append(self._of(value, wanted))
        return self._combined(parts)

    def _may_be_empty(self, wanted: Iterable[tuple[int, Sequence[str]]]) -> bool:
        return all(place >= self._needed for place, _ in wanted)

    def _of(self, value: Any, wanted: list[tuple[int, list[str]]]) -> list[Row]:
        if isinstance(value, list):
            return self._bounded([row for member in value for row in self._of(member, wanted)])
        parts = []
        if here := [place for place, rest in wanted if not rest]:
            is_missing = (value is None or value == "") and any(place < self._needed for place in here)
            self.empty += is_missing
            parts.append([] if is_missing else [dict.fromkeys(here, value)])
        inside: dict[str, list[tuple[int, list[str]]]] = {}
        for place, rest in wanted:
            if rest:
                inside.setdefault(rest[0], []).append((place, rest[1:]))
        for key, further in inside.items():
            member = value.get(key) if isinstance(value, Mapping) else None
            if self._may_be_empty(further):
                parts.append([{place: dig(member, ".".join(rest)) if rest else member for place, rest in further}])
            else:
                parts.append(self._of(member, further))
        return self._combined(parts)

    def _combined(self, parts: list[list[Row]]) -> list[Row]:
        if len(parts) == 1:
            return parts[0]
        if prod(map(len, parts)) > LINKS:
            raise self._too_many()
        return [{place: value for part in chosen for place, value in part.items()} for chosen in product(*parts)]

    def _bounded(self, rows: list[Row]) -> list[Row]:
        if len(rows) > LINKS:
            raise self._too_many()
        return rows

    def _too_many(self) -> LimitExceeded:
        return LimitExceeded(f"{self._template} gives more than {LINKS:,} URLs; a page may have {LINKS:,} links")


def _divided(template: str) -> tuple[list[str], list[str]]:
    """What stands before, between and after the names of a text; and the names."""
    literals, names, end = [""], [], 0
    for found in NAME.finditer(template):
        literals[-1] += template[end : found.start()]
        end = found.end()
        if found[1]:
            literals[-1] += f"{{{found[1]}}}"
        else:
            names.append(found[2])
            literals.append("")
    literals[-1] += template[end:]
    return literals, names


def _fitting(text: str, before: str) -> str:
    """What a name stands for, as it may stand after this part of a URL."""
    if "?" in before:
        return _in_query(text)
    return text.replace("#", "%23") if before else text


def _in_query(text: str) -> str:
    text = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return text.replace("&", "%26").replace("#", "%23").replace("+", "%2B").replace(" ", "%20")


def _known(name: str, page: PageContent, fields: Mapping[str, Any]) -> Any:
    value = look_up(name, page, fields)
    if value is None or value == "":
        raise UnknownName(f"{{{name}}} stands for nothing on this page")
    return value
