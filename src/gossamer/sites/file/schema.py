"""The JSON Schema of site files, for editors; and the reference of every key, from the same classes."""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
import types
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gossamer.sites.format import SiteSpec
from gossamer.sites.format.values import SiteModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEMPLATE = r"\{[A-Za-z_]\w*\}"
DURATION = r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)?\s*)+$"
SIZE = r"^\s*\d+(\.\d+)?\s*([kKmMgG]([iI]?[bB])?|[bB])?\s*$"

# Bounds of what is made a number first are written by pydantic as it calls them itself.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}

# How a mapping may be written shorter, by its class.
_TEXT = {"type": "string", "description": "A CSS selector."}
SHORTHANDS: dict[str, list[dict[str, Any]]] = {
    "Selected": [_TEXT],
    "FieldRule": [_TEXT],
    "Follow": [_TEXT],
    "Seed": [{"type": "string", "description": "A URL."}],
    "Seen": [{"enum": ["forever", "round", "never"]}],
    "Identity": [{"enum": ["none", "all"]}, {"type": "array", "items": {"type": "string"}, "description": "keep"}],
}


def schema() -> dict[str, Any]:
    """The JSON Schema of a site file. What is inherited (`extends`, `like`) cannot be seen by it, so that only `site` is required
    where the file extends no other."""
    made = SiteSpec.model_json_schema(by_alias=True)
    definitions = made.pop("$defs")
    for model in _all_models():
        properties = (made if model is SiteSpec else definitions[model.__name__])["properties"]
        for name, text in descriptions(model).items():
            properties[model.model_fields[name].alias or name]["description"] = text
    body = {"type": "object", **{key: value for key, value in made.items() if key not in ("type", "required")}}
    whole = {
        "$schema": DIALECT,
        "title": "Gossamer site file",
        **body,
        "anyOf": [{"required": ["extends"]}, {"required": made["required"]}],
        "$defs": {name: _with_shorthands(name, one) for name, one in definitions.items()},
    }
    _complete(whole)
    for mapping in (whole, whole["$defs"]["Layer"]):
        mapping["patternProperties"] = {"^x-": {"description": "Yours: a home for anchors. Gossamer does not read it."}}
    return whole


def _with_shorthands(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    definition = dict(definition)
    if definition.get("description"):
        definition["description"] = _one_line(definition["description"])
    if name not in SHORTHANDS:
        return definition
    said = definition.pop("description", "")
    return {"description": said, "anyOf": [*SHORTHANDS[name], definition]}


def _complete(node: Any) -> None:
    """Turn the marks of `format` into the other ways in which a value may be written. A text with a {parameter} may stand
    for any plain value, and an empty key takes an inherited one away."""
    if isinstance(node, list):
        for item in node:
            _complete(item)
        return
    if not isinstance(node, dict):
        return
    for key, value in list(node.items()):
        if key in ("properties", "patternProperties", "$defs"):  # What is called "title" in there is a name.
            _complete(list(value.values()))
        elif key != "default":
            _complete(value)
        if key == "properties":
            node[key] = {name: _nullable(one) for name, one in value.items()}
    for ours, theirs in _BOUNDS.items():
        if ours in node:
            node[theirs] = node.pop(ours)
    if "patternProperties" in node:
        ((name, inner),) = node["patternProperties"].items()
        node["patternProperties"] = {name: _nullable(inner), TEMPLATE: _nullable(inner)}
        node["additionalProperties"] = False
    way = node.pop("written", None)
    kept = {key: node.pop(key) for key in ("description", "title", "default") if key in node}
    kept.pop("title", None)
    plain = dict(node)
    if way is not None or plain.get("type") in ("integer", "number", "boolean"):
        node.clear()
        forms = [plain] if "anyOf" not in plain else list(plain["anyOf"])
        if way == "listed":
            forms += [one["items"] for one in forms if isinstance(one.get("items"), dict)]
        elif way is not None:
            forms.append({"type": "string", "pattern": DURATION if way == "duration" else SIZE})
        forms.append({"type": "string", "pattern": TEMPLATE})
        node["anyOf"] = forms
    node.update(kept)


def _nullable(property: Any) -> Any:
    if not isinstance(property, dict) or {"type": "null"} in property.get("anyOf", ()):
        return property
    outer = {key: property[key] for key in ("description", "default") if key in property}
    inner = {key: value for key, value in property.items() if key not in outer}
    return {"anyOf": [inner, {"type": "null"}], **outer} if inner else property


class KeyReference(NamedTuple):
    """One key of a mapping: how it is written, what it is when it is not, what it means."""

    name: str
    type: str
    default: str
    meaning: str


class MappingReference(NamedTuple):
    """One mapping of a site file. `where` are the keys at which it stands; `operating`, of its keys, those that are for operators."""

    name: str
    meaning: str
    where: tuple[str, ...]
    keys: tuple[KeyReference, ...]
    operating: frozenset[str] = frozenset()


def reference() -> list[MappingReference]:
    """Every mapping of the format with all of its keys: the site first, and each before those that stand in it."""
    return [
        MappingReference(
            _name(model),
            _one_line(inspect.getdoc(model) or ""),
            tuple(sorted(places, key=lambda place: not place.startswith("Site."))),
            _keys(model),
            getattr(model, "OPERATING", frozenset()),
        )
        for model, places in _all_models().items()
    ]


def _all_models() -> dict[type[BaseModel], list[str]]:
    """The mappings of the format, each with the keys at which it stands."""
    where: dict[type[BaseModel], list[str]] = {SiteSpec: []}

    def visit(model: type[BaseModel]) -> None:
        operating: frozenset[str] = getattr(model, "OPERATING", frozenset())
        # Those of its first table first.
        for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] in operating):
            for inner in _models(field.annotation):
                known = inner in where
                where.setdefault(inner, []).append(f"{_name(model)}.{field.alias or name}")
                if not known:
                    visit(inner)

    visit(SiteSpec)
    return where


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings below the fields of a class say. Read only here: if pydantic did it, it would read the source of every class
    whenever the class is imported."""
    return {
        name: text
        for parent in reversed(model.__mro__)
        if issubclass(parent, SiteModel)
        for name, text in _docstrings(parent)
        if name in model.model_fields
    }


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(declared, ast.ClassDef)
    for field, text in pairwise(declared.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(found))):
                yield name, inspect.cleandoc(found)


def _keys(model: type[BaseModel]) -> tuple[KeyReference, ...]:
    said = descriptions(model)
    return tuple(
        KeyReference(
            field.alias or name,
            _type(field.annotation, field.metadata, field.json_schema_extra),
            _default(field),
            _one_line(said.get(name, "")),
        )
        for name, field in model.model_fields.items()
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ((), {}, ""):
        return ""
    if isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(annotation: Any, metadata: Any = (), extra: Any = None) -> str:
    origin = get_origin(annotation)
    marks = [extra, *(getattr(one, "json_schema_extra", None) for one in metadata)]
    way = next((mark["written"] for mark in marks if isinstance(mark, dict) and "written" in mark), None)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _type(inner, more)
    if way in ("duration", "size"):
        return str(way)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(one) for one in get_args(annotation) if one is not type(None)))
    if origin is Literal:
        return " or ".join(map(str, get_args(annotation)))
    if origin is dict:
        return f"mapping of {_type(get_args(annotation)[1])}"
    if origin in (tuple, list):
        items = [one for one in get_args(annotation) if one is not Ellipsis]
        if origin is tuple and len(items) > 1:
            return f"[{', '.join(map(_type, items))}]"
        one = _type(items[0])
        return f"{one}, or list of them" if way == "listed" else f"list of {one}"
    return _plain(annotation)


def _plain(annotation: Any) -> str:
    known = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
    if annotation in known:
        return known[annotation]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(str(member.value) for member in annotation)
    return str(annotation)


def _name(model: type[BaseModel]) -> str:
    """What the reference calls a mapping: the whole file is the site."""
    return "Site" if model is SiteSpec else model.__name__


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _one_line(text: str) -> str:
    return " ".join(text.split())
