"""The class of an item in the stream, by a name: feeds may ask for it, and its fields may have serializers."""

from __future__ import annotations

import secrets
import sys
from importlib import import_module
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from itemadapter import ItemAdapter

from gossamer.scrapy.request.object_state import FIELDS, ITEM, MODEL, assemble, form_of

_HERE = secrets.token_hex(4)
_numbers = count()
_names: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_made_here: WeakValueDictionary[str, type] = WeakValueDictionary()


def name_of(kind: type) -> str:
    """One that cannot be found by its name, since a function has made it, has one that only this process knows."""
    name = _names.get(kind)
    if name is None:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if _found(name) is not kind:
            name = f"{name}#{_HERE}.{next(_numbers)}"
            _made_here[name] = kind
        _names[kind] = name
    return name


def kind_of(name: str, module: str) -> type | None:
    """The class of that name, if it is one of the package of `module` or one that is loaded already."""
    if (made := _made_here.get(name)) is not None:
        return made
    package = name.partition(":")[0]
    if package not in sys.modules:
        if package.partition(".")[0] != module.partition(".")[0]:
            return None
        try:
            import_module(package)
        except ImportError:
            return None
    found = _found(name)
    return found if isinstance(found, type) and ItemAdapter.is_item_class(found) else None


def _found(name: str) -> Any:
    package, _, rest = name.partition(":")
    found: Any = sys.modules.get(package)
    for part in rest.split("."):
        found = getattr(found, part, None)
    return found


def item_from(kind: type, fields: dict[str, Any]) -> Any:
    """An item with these fields, as they were: its class does not work on them a second time."""
    form = form_of(kind)
    if form in (ITEM, FIELDS):
        return assemble(kind, form, (fields,))
    if form == MODEL:
        return assemble(kind, form, (fields, {"__pydantic_fields_set__": set(fields)}))
    return kind(**fields)
