"""The reference of every key of a site file, from the classes of the format: for `docs/reference/site-file.md`."""

from __future__ import annotations

import enum
import inspect
import types
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gossamer.sites.file.schema import all_models, descriptions, mapping_name, one_line


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
            mapping_name(model),
            one_line(inspect.getdoc(model) or ""),
            tuple(sorted(places, key=lambda place: not place.startswith("Site."))),
            _keys(model),
            getattr(model, "OPERATING", frozenset()),
        )
        for model, places in all_models().items()
    ]


def _keys(model: type[BaseModel]) -> tuple[KeyReference, ...]:
    said = descriptions(model)
    return tuple(
        KeyReference(
            field.alias or name,
            _type(field.annotation, field.metadata, field.json_schema_extra),
            _default(field),
            one_line(said.get(name, "")),
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
    if way in ("duration", "size", "share"):
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
