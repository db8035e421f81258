"""The validation errors of `format`'s models, in plain words and with their place in the file."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from gossamer.sites.file.problems import Path, Problem, did_you_mean, listed, written
from gossamer.sites.file.yaml import Spot
from gossamer.sites.format import SELECTORS, SiteSpec

KINDS = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "none_required": "nothing",
}
_SECTIONS = ("request", "politeness", "limits", "schedule", "valid", "identity")
_OTHER_WORDS = {
    "selector": "css", "jsonpath": "jmespath", "path": "xpath", "urls": "seeds", "start_urls": "seeds", "next": "follow", "pagination": "follow", "links": "follow",
    "str": "text", "string": "text", "integer": "int", "number": "decimal", "boolean": "bool", "timestamp": "datetime", "time": "datetime", "trim": "strip",
}  # fmt: skip
"""What other tools call a thing."""
_PATTERNS = {
    "layers": "the letters a to z and A to Z, digits, _, : and -, beginning with a letter, a digit or _",
    "from": "one of content, url, parent, headers, fields and status, as headers.etag",
    "hook": "module:function",
    "time": "a time of the day, as 06:00 or 22:30",
}


def problems_of(error: ValidationError, data: Any, spot: Spot) -> list[Problem]:
    """Every validation error, each once, with its place."""
    return [_problem(path, faults, data, spot) for path, faults in faults_of(error, data).items()]


def faults_of(error: ValidationError, data: Any) -> dict[Path, list[dict[str, Any]]]:
    """Validation errors by their path in the file."""
    told: dict[Path, list[dict[str, Any]]] = {}
    for fault in error.errors(include_url=False, include_context=True):
        told.setdefault(_within(fault["loc"], data, fault["type"]), []).append(fault)  # type: ignore[arg-type]
    # Where several forms are possible, each form has its own complaint: the one that got furthest is the one meant.
    shallow = {path for path in told for other in told if len(other) > len(path) and other[: len(path)] == path}
    return {path: faults for path, faults in told.items() if path not in shallow}


def problem_at(
    spot: Spot, path: Path, message: str, hint: str = "", *, key: bool = False, severity: str = "error"
) -> Problem:
    """A problem with the value at a path, or (`key`) with its key."""
    place, exact, path = spot.find(path)
    line, column = (place.key_line, place.key_column) if key and exact else (place.line, place.column)
    return Problem(place.file, line, column, written(path), message, hint, severity)


def _within(loc: tuple[Any, ...], data: Any, kind: str) -> Path:
    """The part of pydantic's path that is in the file: names of classes and forms are not."""
    path: list[str | int] = []
    for place, part in enumerate(loc):
        if part == "[key]":
            continue
        if isinstance(data, Mapping | list) and (
            part in data if isinstance(data, Mapping) else part in range(len(data))
        ):
            data = data[part]
        elif not (kind == "missing" and place == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _problem(path: Path, faults: list[dict[str, Any]], data: Any, spot: Spot) -> Problem:
    best = ("extra_forbidden", "value_error", "literal_error", "enum")
    first = min(faults, key=lambda fault: best.index(fault["type"]) if fault["type"] in best else len(best))
    kind = first["type"]
    value = _value_at(path, data)
    name = "this" if path and isinstance(path[-1], int) else path[-1] if path else "the file"
    if kind == "extra_forbidden":
        hint = _cut_off(str(name), value, _value_at(path[:-1], data)) or _elsewhere(path[:-1], str(name))
        hint = hint or did_you_mean(name, keys_at(path[:-1]))
        return problem_at(spot, path, f"unknown key {name}", hint, key=True)
    if kind == "missing":
        where = spot.find(path[:-1]).spot
        hint = "the file must say the site's name" if path == ("site",) else f"write {name}: …"
        return Problem(where.file, where.line, where.column, written(path), f"{name} is missing", hint)
    if "[key]" in first["loc"]:
        return problem_at(spot, path, f"{name!r} cannot be a name", f"use {_PATTERNS['layers']}", key=True)
    message, hint = _sentence(first, faults, value, str(name))
    if len(path) == 2 and path[0] == "store" and name in keys_at(("store", "")):
        hint = f"store has a mapping for each layer: store: {{LAYER: {{{name}: …}}}}"
    return problem_at(spot, path, message, hint)


def _elsewhere(path: Path, name: str) -> str:
    """A hint if a key is known at another place of the file, or by another name."""
    keys = keys_at(path)
    for section in _SECTIONS:
        if section in keys and name in keys_at((*path, section)):
            return f"it stands under {section}: {section}: {{{name}: …}}"
    if name in _OTHER_WORDS and _OTHER_WORDS[name] in keys:
        return f"it is called {_OTHER_WORDS[name]} here"
    in_layer = len(path) == 2 and path[0] == "layers"
    if in_layer and name in keys_at(("store", "")):
        return f"it stands under store: store: {{{path[1]}: {{{name}: …}}}}"
    if in_layer and name in keys_at(()):
        return "it stands at the top of the file: check the indentation"
    if not path and name in keys_at(("layers", "")):
        return "it stands in a layer, below layers: check the indentation"
    return ""


def _cut_off(name: str, value: Any, around: Any) -> str:
    """A hint if a key is what a comma cut off from the text before it: in { } a comma ends a text, as in {css: .a, .b}."""
    if value is not None or not isinstance(around, Mapping):
        return ""
    words = list(around)
    before = words[words.index(name) - 1] if name in words and words.index(name) else ""
    text = around.get(before)
    if before not in SELECTORS or not isinstance(text, str) or did_you_mean(name, SELECTORS).startswith("did"):
        return ""
    return f"inside {{ }} a comma ends a text: write {before}: '{text}, {name}'"


def _sentence(first: dict[str, Any], faults: list[dict[str, Any]], value: Any, name: str) -> tuple[str, str]:
    kind, context = first["type"], first.get("ctx") or {}
    if kind == "value_error":
        message, _, hint = str(context["error"]).partition("; ")
        return message, hint
    if kind in ("literal_error", "enum"):
        choices = _choices(faults)
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        if not hint.startswith("did") and (other := _OTHER_WORDS.get(str(value))) in choices:
            hint = f"did you mean {other}?"
        known = f"{name} is {_shown(value)}; it must be {listed(choices, 'or')}"
        return known, hint if hint.startswith("did") else ""
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        of = "time" if "24:00" in pattern else "from" if name == "from" else "hook" if "\\w" in pattern else "layers"
        form = _PATTERNS[of]
        return f"{_shown(value)} cannot stand here", f"use {form}"
    if kind.startswith(("greater_than", "less_than")):
        bound = next(v for k, v in context.items() if k in ("ge", "gt", "le", "lt"))
        word = {
            "greater_than_equal": "at least",
            "greater_than": "more than",
            "less_than_equal": "at most",
            "less_than": "less than",
        }[kind]
        return f"{name} is {_shown(value)}; it must be {word} {bound:g}", ""
    if kind in ("too_long", "too_short"):
        wanted = context.get("max_length", context.get("min_length"))
        return f"{name} has {context['actual_length']} values; it must have {wanted}", ""
    expected = list(dict.fromkeys(_EXPECTED[fault["type"]] for fault in faults if fault["type"] in _EXPECTED))
    if not expected:
        return f"{name} is {_shown(value)}, which cannot be used here: {first['msg'].lower()}", ""
    message = f"{name} is {_shown(value)}; it must be {listed(expected, 'or')}"
    if isinstance(value, bool | int | float) and "a text" in expected:
        return message, "put it in quotes"
    if isinstance(value, str) and "true or false" in expected and value.lower() in ("yes", "no", "on", "off"):
        return message, f"write {str(value.lower() in ('yes', 'on')).lower()}"
    return message, ""


def _choices(faults: Iterable[dict[str, Any]]) -> list[str]:
    words: list[str] = []
    for fault in faults:
        if fault["type"] in ("literal_error", "enum"):
            text = fault["ctx"]["expected"].replace(" or ", ", ")
            words += [word.strip().strip("'") for word in text.split(",")]
        elif fault["type"] in _EXPECTED:
            words.append(_EXPECTED[fault["type"]])
    return list(dict.fromkeys(words))


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "…")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value}"
    return KINDS.get(type(value), "something else")


def _value_at(path: Path, data: Any) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


@lru_cache(1024)
def keys_at(path: Path) -> tuple[str, ...]:
    """The keys that the mapping at a path may have."""
    forms: list[Any] = [SiteSpec]
    for part in path:
        forms = [inner for form in forms for inner in _inside(form, part)]
    return tuple(dict.fromkeys(key for form in forms for key in _keys(form)))


def _keys(form: Any) -> Iterator[str]:
    if isinstance(form, type) and issubclass(form, BaseModel):
        for name, field in form.model_fields.items():
            yield field.alias or name


def _inside(form: Any, part: str | int) -> Iterator[Any]:
    """What may stand at a key of something of this form."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        for name, field in form.model_fields.items():
            if (field.alias or name) == part:
                yield from plain_forms(field.annotation)
    elif get_origin(form) in (dict, list, tuple):
        arguments = [argument for argument in get_args(form) if argument is not Ellipsis]
        yield from plain_forms(arguments[-1])


def plain_forms(annotation: Any) -> Iterator[Any]:
    """The classes and generics that an annotation allows; of a tuple, its items too, since one may stand for a list."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from plain_forms(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from plain_forms(argument)
    elif annotation is not type(None):
        yield annotation
        if origin is tuple:
            yield from plain_forms(get_args(annotation)[0])
