"""The state of objects whose class declares no fields: what their attributes are, in `__dict__` or in slots, and what they hold where
the class is made of a builtin.

A class that says itself how its objects are copied, made or ended (`__reduce__`, `__new__`, `__del__` and the like) is none of these:
past its methods, such an object would not be what it is.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator
from types import MemberDescriptorType
from typing import Any, Generic, Protocol

from gossamer.frontier.codec.types import base

BUILTINS: tuple[type, ...] = (str, bytes, int, float, list, dict)
"""What a class may be made of, with its objects still being data."""
GENERIC = "__orig_class__"
"""Of `Generic[...]`, not of the object."""
_NEUTRAL = frozenset({object, ABC, Generic, Protocol, *BUILTINS})
SPECIAL = frozenset(
    {
        "__copy__", "__deepcopy__", "__del__", "__getnewargs__", "__getnewargs_ex__", "__getstate__", "__new__", "__reduce__",
        "__reduce_ex__", "__setstate__",
    }
)  # fmt: skip


def own_bases(kind: type) -> list[type]:
    """The class and those it is made of, without what every class may be made of."""
    return [each for each in kind.__mro__ if each not in _NEUTRAL]


def is_plain(kind: type) -> bool:
    """Whether an object of the class is its attributes, and what it holds if the class is made of a builtin."""
    return bool(bases := own_bases(kind)) and not any(SPECIAL & vars(each).keys() for each in bases)


def dict_of(value: Any) -> dict[str, Any]:
    """The `__dict__` of an object, past its own `__getattr__`; empty where its class has slots only."""
    return object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}


def attributes_of(value: Any, but: Iterable[str] = ()) -> Iterator[tuple[str, Any]]:
    """The attributes that an object has itself."""
    for name, part in dict_of(value).items():
        if name not in but and name != GENERIC:
            yield name, part
    for each in type(value).__mro__:
        for name, slot in vars(each).items():
            if isinstance(slot, MemberDescriptorType) and name not in but and each not in _NEUTRAL:
                try:
                    yield name, slot.__get__(value)
                except AttributeError:
                    continue  # it was never set


def held(value: Any) -> Any:
    """What an object holds as the builtin that its class is made of; None: it is made of none."""
    return base(value) if isinstance(value, BUILTINS) else None


def holding(kind: type, value: Any) -> Any:
    """An object of the class that holds this, without attributes yet. No method of the class runs."""
    builtin: Any = next((one for one in BUILTINS if issubclass(kind, one)), object)
    made: Any
    if builtin is dict:
        made = dict.__new__(kind)
        dict.update(made, value)
    elif builtin is list:
        made = list.__new__(kind)
        list.extend(made, value)
    else:
        made = object.__new__(kind) if builtin is object else builtin.__new__(kind, value)
    return made
