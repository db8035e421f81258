"""The JSON Schema of site files, for editors, and what the classes of the format say of every key."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

from gossamer.sites.format import SiteSpec
from gossamer.sites.format.values import SiteModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEMPLATE = r"\{[A-Za-z_]\w*\}"
DURATION = r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d|w)?\s*)+$"
SIZE = r"^\s*\d+(\.\d+)?\s*([kKmMgG]([iI]?[bB])?|[bB])?\s*$"
SHARE = r"^\s*\d+(\.\d+)?\s*%$"

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
    for model in all_models():
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
        definition["description"] = one_line(definition["description"])
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
            forms.append({"type": "string", "pattern": {"duration": DURATION, "share": SHARE}.get(way, SIZE)})
        forms.append({"type": "string", "pattern": TEMPLATE})
        node["anyOf"] = forms
    node.update(kept)


def _nullable(property: Any) -> Any:
    if not isinstance(property, dict) or {"type": "null"} in property.get("anyOf", ()):
        return property
    outer = {key: property[key] for key in ("description", "default") if key in property}
    inner = {key: value for key, value in property.items() if key not in outer}
    return {"anyOf": [inner, {"type": "null"}], **outer} if inner else property


def all_models() -> dict[type[BaseModel], list[str]]:
    """The mappings of the format, each with the keys at which it stands."""
    where: dict[type[BaseModel], list[str]] = {SiteSpec: []}

    def visit(model: type[BaseModel]) -> None:
        operating: frozenset[str] = getattr(model, "OPERATING", frozenset())
        # Those of its first table first.
        for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] in operating):
            for inner in _models(field.annotation):
                known = inner in where
                where.setdefault(inner, []).append(f"{mapping_name(model)}.{field.alias or name}")
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


def mapping_name(model: type[BaseModel]) -> str:
    """What the reference calls a mapping: the whole file is the site."""
    return "Site" if model is SiteSpec else model.__name__


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def one_line(text: str) -> str:
    return " ".join(text.split())
