"""{names} in the texts of a site file: fields, what the parent passed on, groups of `match`, parameters, in this order. {{name}}
stands for {name} itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.types import as_text

_WORDS = r"([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)"
NAME = re.compile(rf"\{{\{{{_WORDS}\}}\}}|(?<!\$)\{{{_WORDS}\}}")
"""The first group is a name that only stands for itself, the second one that stands for something."""
MOST = 10_000
"""URLs that one text with lists in it may give."""


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
    for scope in (fields, page.document.inherited):
        if (value := dig(scope, name)) is not None:
            return value
    if (group := page.groups().get(name)) is not None:
        return group
    return dig(page.site.params, name)


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
    """The URLs of a text; a name that stands for a list gives one for each member. What a name stands for cannot end the argument
    of the query that it is in, nor begin a fragment, unless the whole URL begins with it."""
    literals, names = _divided(template)
    values = []
    query = ""
    for literal, name in zip(literals, names, strict=False):
        query += literal
        value = _known(name, page, fields)
        members = value if isinstance(value, list) else [value]
        texts = [as_text(member) for member in members if member is not None]
        if "?" in query:
            texts = [_in_query(text) for text in texts]
        elif query:
            texts = [text.replace("#", "%23") for text in texts]
        values.append(texts)
    for chosen in islice(product(*values), MOST):
        yield literals[0] + "".join(value + literal for value, literal in zip(chosen, literals[1:], strict=True))


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


def _in_query(text: str) -> str:
    text = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return text.replace("&", "%26").replace("#", "%23").replace("+", "%2B").replace(" ", "%20")


def _known(name: str, page: PageContent, fields: Mapping[str, Any]) -> Any:
    value = look_up(name, page, fields)
    if value is None or value == "":
        raise UnknownName(f"{{{name}}} stands for nothing on this page")
    return value
