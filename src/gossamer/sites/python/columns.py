"""The columns of a table from a Python type: a dataclass, a TypedDict, a pydantic model, a named tuple, or a mapping of names to types."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from gossamer.errors import SiteError

# A truth value is a whole number to Python, a datetime is a date: the nearest class comes first.
_KINDS: tuple[tuple[type, str], ...] = (
    (str, "text"), (bool, "bool"), (int, "int"), (float, "float"), (Decimal, "decimal"), (datetime, "datetime"),
    (date, "date"), (bytes, "bytes"),
)  # fmt: skip
_NUMBERS = (frozenset({"int", "float"}), frozenset({"int", "decimal"}))


def types_of(record: Any) -> dict[str, str]:
    """The type of each field, as `types` of a site file has it. SiteError for what cannot be a column."""
    if isinstance(record, Mapping):
        return {str(name): _kind(hint, f"{name!r}") for name, hint in record.items()}
    if not isinstance(record, type):
        raise SiteError(
            f"record is a {type(record).__name__}; it must be a class with annotations, or a mapping of names to types."
        )
    try:
        hints = get_type_hints(record, include_extras=True)
    except NameError as error:
        raise SiteError(f"The annotations of {record.__name__} cannot be read: {error}.") from None
    if dataclasses.is_dataclass(record):
        hints = {field.name: hints[field.name] for field in dataclasses.fields(record)}
    named = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar and name[0] != "_"}
    if not named:
        raise SiteError(f"{record.__name__} has no annotations that could be columns.")
    missing: frozenset[str] = getattr(record, "__optional_keys__", frozenset())
    found = {name: _kind(hint, f"{record.__name__}.{name}") for name, hint in named.items()}
    return {name: kind if name not in missing or kind[-1] == "?" else f"{kind}?" for name, kind in found.items()}


def _kind(hint: Any, where: str) -> str:
    """The type of one field, with ? at its end if it may be None."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Annotated, Required):
        return _kind(arguments[0], where)
    if origin is NotRequired:
        return _kind(arguments[0], where).rstrip("?") + "?"
    if isinstance(hint, NewType):
        return _kind(hint.__supertype__, where)
    if hint is Any:
        return "json?"
    if origin in (Union, types.UnionType):
        found = {_kind(one, where) for one in arguments if one is not type(None)}
        optional = type(None) in arguments or any(kind[-1] == "?" for kind in found)
        return _one({kind.rstrip("?") for kind in found}, where) + ("?" if optional else "")
    if origin is Literal:
        kinds = {_kind(type(one), where) for one in arguments if one is not None}
        return _one(kinds, where) + ("?" if None in arguments else "")
    if isinstance(hint, type):
        for kind, name in _KINDS:
            if issubclass(hint, kind):
                return name
    if isinstance(origin or hint, type) and (
        issubclass(origin or hint, Mapping | list | tuple | set | frozenset)
        or dataclasses.is_dataclass(hint)
        or hasattr(hint, "__annotations__")
    ):
        return "json"
    raise SiteError(f"{where} is {_named(hint)}, which is no type of a column. Use str, int, float, Decimal, bool, date, "
                    "datetime, bytes, or a list or mapping, which are stored as JSON.")  # fmt: skip


def _one(kinds: set[str], where: str) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if frozenset(kinds) in _NUMBERS:
        return next(iter(kinds - {"int"}))
    raise SiteError(f"{where} may be {' or '.join(sorted(kinds))}; a column has one type.")


def _named(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)
