"""Objects taken apart into plain values and put together again, as `copy` and `pickle` do it: by their state, past `__init__`.

No constructor, `__post_init__`, validator, converter or property setter runs: what is put together is what was taken apart. Only a
field that the class has got since has its default, for which a default factory is called.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, Flag
from inspect import getattr_static
from types import MemberDescriptorType
from typing import Any

from itemloaders import ItemLoader
from scrapy import Item
from scrapy.http.headers import Headers

from gossamer.frontier.codec.types import NotEncodable, name_of
from gossamer.scrapy.request.plain_state import attributes_of, held, holding, is_plain

ITEM, FIELDS, MODEL, VALUES, MEMBER, LOADER = "item", "fields", "model", "values", "member", "loader"
CONTAINER, OBJECT, TEXT = "container", "object", "text"
CONTAINERS: tuple[type, ...] = (OrderedDict, defaultdict, Counter, deque, Headers)
"""Those of the standard library and of Scrapy that are kept as what they are."""
_FACTORIES: dict[str, type] = {one.__name__: one for one in (list, dict, set, tuple, str, bytes, int, float, bool)}
_HASH = "_attrs_cached_hash"
_LOADERS_OWN = frozenset({"selector", "context", "parent", "stats", "_local_item", "_local_values"})
_OF_THE_PAGE = frozenset({"item", "selector", "response"})


def form_of(kind: type) -> str | None:
    """How objects of a class are kept; None: they are not."""
    if issubclass(kind, Item):
        return ITEM
    if issubclass(kind, ItemLoader):
        return LOADER
    if issubclass(kind, Enum):
        return MEMBER
    if kind in CONTAINERS:
        return CONTAINER
    if issubclass(kind, tuple):
        return VALUES if isinstance(getattr(kind, "_fields", None), tuple) else None
    if not issubclass(kind, str | bytes | int | float | list | dict):
        if _is_model(kind):
            return MODEL
        if hasattr(kind, "__attrs_attrs__") or dataclasses.is_dataclass(kind):
            return FIELDS
        if is_url(kind):
            return TEXT
    return OBJECT if is_plain(kind) else None


def disassemble(value: Any, form: str) -> tuple[Any, ...]:
    """The state of an object as the values of a `StoredObject`; what they hold may be objects again."""
    if form == ITEM:
        return _with_rest(dict(value._values), _rest(value, {"_values"}))
    if form == MEMBER:
        # Of flags, several may be set, or none: they are known by their value.
        return (value.value if isinstance(value, Flag) else value.name,)
    if form == CONTAINER:
        return _apart_container(value)
    if form == VALUES:
        return (list(tuple.__iter__(value)),)
    if form == MODEL:
        state = {name: getattr(value, name, None) for name in _MODEL_STATE}
        return (state.pop("__dict__"), {name: part for name, part in state.items() if part})
    if form == LOADER:
        return _apart_loader(value)
    if form == OBJECT:
        return (dict(attributes_of(value)), held(value))
    if form == TEXT:
        return (str(value),)
    names = fields_of(type(value))
    found = {name: object.__getattribute__(value, name) for name in names if _is_set(value, name)}
    return _with_rest(found, _rest(value, names))


def assemble(kind: type, form: str, values: tuple[Any, ...]) -> Any:
    """The object again. `NotEncodable` says why it cannot be: its class is not what it was."""
    if form == MEMBER:
        return _member(kind, values[0])
    if form == CONTAINER:
        return _container(kind, *values)
    if form == VALUES:
        return _tuple(kind, values[0])
    if form == MODEL:
        return _model(kind, dict(values[0]), dict(values[1]))
    if form == LOADER:
        return _loader(kind, *values)
    if form == OBJECT:
        return _plain(kind, *values)
    if form == TEXT:
        return kind(values[0])
    fields, rest = dict(values[0]), dict(values[1]) if len(values) > 1 else {}
    return _item(kind, fields, rest) if form == ITEM else _object(kind, fields, rest)


def from_pickle(kind: type, form: str, args: tuple[Any, ...], state: Any, contents: Any = None) -> Any:
    """An object by what its pickle says of it: the arguments of `__new__`, the state for `__setstate__`, and what it holds where its
    class is made of dict or list."""
    if form == CONTAINER and kind is Headers and not args and isinstance(contents, dict | None):
        return _container(kind, contents or {}, dict(state or {}).get("encoding", "utf-8"))
    if form == TEXT:
        # A class of pydantic's holds an object of its core's class, which is its text.
        text = args[0] if args else dict(state or {}).get("_url")
        return kind(str(text))
    if contents is not None and (form != OBJECT or not issubclass(kind, dict | list)):
        raise NotEncodable(f"{name_of(kind)} was not pickled as its class says; send plain data")
    if form == MEMBER and issubclass(kind, Flag) and len(args) == 1:
        return _member(kind, args[0])
    if form == CONTAINER:
        raise NotEncodable(f"{name_of(kind)} was not pickled as its class says; send plain data")
    if form == MEMBER:
        found = [one for one in kind if (one.value,) == args]  # type: ignore[attr-defined]
        if not found:
            raise NotEncodable(f"{name_of(kind)} has no member of the value {args!r:.80}")
        return found[0]
    if form == VALUES:
        return _tuple(kind, list(args))
    if form == LOADER or args:
        raise NotEncodable(f"{name_of(kind)} was not pickled as its class says; send plain data")
    if isinstance(state, list):
        state = dict(zip(fields_of(kind), state, strict=False))  # a frozen dataclass with slots
    elif isinstance(state, tuple):
        state = {name: value for part in state if isinstance(part, Mapping) for name, value in part.items()}
    state = dict(state or {})
    if form == OBJECT:
        return _plain(kind, state, contents if contents is not None else () if issubclass(kind, dict | list) else None)
    if form == MODEL:
        return _model(kind, state.pop("__dict__", {}), state)
    if form == ITEM:
        return _item(kind, state.pop("_values", {}), state)
    names = fields_of(kind)
    rest = {name: _restable(name, value) for name, value in state.items() if name not in names}
    return _object(kind, {name: value for name, value in state.items() if name in names}, rest)


def fields_of(kind: type) -> dict[str, Callable[[], Any] | None]:
    """The fields of a dataclass or attrs class, each with what makes its default; None: it has none."""
    if hasattr(kind, "__attrs_attrs__"):
        return {one.name: _attrs_default(one) for one in kind.__attrs_attrs__}
    return {one.name: _default(one) for one in dataclasses.fields(kind)}


def _default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is dataclasses.MISSING:
        return None
    default = field.default
    return lambda: default


def _attrs_default(field: Any) -> Callable[[], Any] | None:
    default = field.default
    if repr(default) == "NOTHING" or getattr(default, "takes_self", False):
        return None
    factory: Callable[[], Any] | None = getattr(default, "factory", None)
    return factory or (lambda: default)


def _is_set(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _rest(value: Any, but: Iterable[str]) -> dict[str, Any]:
    """Attributes that are no fields: what `__post_init__` has set, or a cached property."""
    return {name: _restable(name, part) for name, part in attributes_of(value, but)}


def _restable(name: str, value: Any) -> Any:
    # A hash is another one in every process.
    return None if name == _HASH else value


def _with_rest(fields: dict[str, Any], rest: dict[str, Any]) -> tuple[Any, ...]:
    return (fields, rest) if rest else (fields,)


def _check_fields(kind: type, found: Iterable[str], known: Iterable[str]) -> None:
    if gone := [name for name in found if name not in known]:
        raise NotEncodable(
            f"{name_of(kind)} has no field {gone[0]!r} any more. Run the code that has it, or put the field back"
        )


def _item(kind: Any, fields: dict[str, Any], rest: dict[str, Any]) -> Item:
    _check_fields(kind, fields, kind.fields)
    item: Item = Item.__new__(kind)
    item.__dict__["_values"] = fields
    _with_attributes(item, rest)
    return item


def _object(kind: type, fields: dict[str, Any], rest: dict[str, Any]) -> Any:
    known = fields_of(kind)
    _check_fields(kind, fields, known)
    made: Any = object.__new__(kind)
    for name, default in known.items():
        if name in fields:
            _set(made, name, fields[name])
        elif default is not None:
            _set(made, name, default())
        elif _is_needed(kind, name):
            raise NotEncodable(f"{name_of(kind)} now has a field {name!r} without a default. Give it one")
    _with_attributes(made, rest)
    if isinstance(getattr_static(kind, _HASH, None), MemberDescriptorType):
        object.__setattr__(made, _HASH, None)
    return made


def _plain(kind: type, attributes: dict[str, Any], value: Any = None) -> Any:
    return _with_attributes(holding(kind, value), attributes)


def _with_attributes(made: Any, attributes: dict[str, Any]) -> Any:
    for name, value in attributes.items():
        _set(made, name, value)
    return made


def _is_needed(kind: type, name: str) -> bool:
    """Whether every object has it: a field that the constructor does not take may never have been set."""
    fields = getattr(kind, "__attrs_attrs__", None) or dataclasses.fields(kind)
    return any(one.name == name and one.init for one in fields)


def _set(made: Any, name: str, value: Any) -> None:
    if isinstance(getattr_static(type(made), name, None), MemberDescriptorType):
        object.__setattr__(made, name, value)
    elif type(made).__dictoffset__:
        object.__getattribute__(made, "__dict__")[name] = value
    else:
        raise NotEncodable(f"{name_of(type(made))} has no room for {name!r}: it has other slots than before")


_MODEL_STATE = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")


def _is_model(kind: type) -> bool:
    models = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return models is not None and issubclass(kind, models) and hasattr(kind, "__pydantic_fields__")


def is_url(kind: type) -> bool:
    """Whether it is pydantic's class of URLs, or made of it: they are their text."""
    found = sys.modules.get("pydantic.networks"), sys.modules.get("pydantic_core")
    names = ("_BaseUrl", "_BaseMultiHostUrl"), ("Url", "MultiHostUrl")
    kinds = (getattr(module, name, None) for module, each in zip(found, names, strict=True) for name in each)
    return issubclass(kind, tuple(one for one in kinds if isinstance(one, type)))


def _model(kind: Any, fields: dict[str, Any], state: dict[str, Any]) -> Any:
    known = kind.__pydantic_fields__
    allowed = set(known) | set(getattr(kind, "__pydantic_computed_fields__", ()))
    # What is no field is a cached property, which is an attribute of the class.
    _check_fields(kind, fields, allowed | {name for name in fields if hasattr(kind, name)})
    for name, field in known.items():
        if name not in fields:
            if field.is_required():
                raise NotEncodable(f"{name_of(kind)} now has a field {name!r} without a default. Give it one")
            fields[name] = field.get_default(call_default_factory=not field.default_factory_takes_validated_data)
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_extra__", state.get("__pydantic_extra__"))
    object.__setattr__(made, "__pydantic_fields_set__", set(state.get("__pydantic_fields_set__") or ()))
    object.__setattr__(made, "__pydantic_private__", state.get("__pydantic_private__"))
    return made


def _member(kind: Any, name: Any) -> Any:
    try:
        return kind(name) if issubclass(kind, Flag) and not isinstance(name, str) else kind.__members__[name]
    except (KeyError, TypeError, ValueError):
        raise NotEncodable(f"{name_of(kind)} has no member {name!r:.80} any more. Put it back") from None


def _apart_container(value: Any) -> tuple[Any, ...]:
    if isinstance(value, deque):
        return (list(value), value.maxlen)
    if isinstance(value, Headers):
        return (dict(dict.items(value)), value.encoding)
    # An OrderedDict keeps its order beside the dict's own.
    items = dict(OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value))
    if not isinstance(value, defaultdict):
        return (items,)
    factory: Any = value.default_factory
    return (items, factory.__name__ if factory is not None else None)


def _container(kind: type, contents: Any, more: Any = None) -> Any:
    if kind is deque:
        return deque(contents, more)
    if kind is Headers:
        headers = Headers(encoding=more)
        dict.update(headers, contents)
        return headers
    return defaultdict(None if more is None else _FACTORIES[more], contents) if kind is defaultdict else kind(contents)


def is_container(value: Any) -> bool:
    """Whether an object of one of the `CONTAINERS` can be kept as such: what makes the defaults of a `defaultdict` must have a
    name that all know. Otherwise it is a plain dict."""
    if type(value) is not defaultdict:
        return True
    factory: Any = value.default_factory
    return factory is None or factory in _FACTORIES.values()


def _tuple(kind: Any, values: list[Any]) -> Any:
    if len(values) != len(kind._fields):
        raise NotEncodable(f"{name_of(kind)} has {len(kind._fields)} fields, what was stored has {len(values)}")
    return tuple.__new__(kind, values)


def _apart_loader(loader: Any) -> tuple[Any, ...]:
    if loader.parent is not None:
        raise NotEncodable(f"{name_of(type(loader))} is nested in another loader; send the outer one")
    context = {name: value for name, value in loader.context.items() if name not in _OF_THE_PAGE}
    return (loader.item, dict(loader._local_values), context, _rest(loader, _LOADERS_OWN))


def _loader(kind: Any, item: Any, values: dict[str, Any], context: dict[str, Any], rest: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    context = {**context, "item": item, "selector": None, "response": None}
    made.__dict__.update(
        selector=None, parent=None, stats=None, context=context, _local_item=item, _local_values=values
    )
    return _with_attributes(made, rest)
