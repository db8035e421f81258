"""Requests of the project's own classes, taken apart and put together again by their state.

Not by their constructor: it may give the URL another form a second time, or need what is not among the `attributes` that Scrapy
asks such a class to name.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from scrapy import Request

_OF_SCRAPY = frozenset(getattr(Request("data:,"), "__dict__", ()))
"""The attributes of every request, where Scrapy's class has no slots (before 2.15)."""


def adds(request: Request) -> bool:
    """Whether a request may have more than Scrapy's class: it is of another, or somebody has set an attribute."""
    return type(request) is not Request or (bool(_OF_SCRAPY) and len(vars(request)) > len(_OF_SCRAPY))


def added(request: Request) -> dict[str, Any]:
    """The attributes that a request has besides those of Scrapy's class."""
    found = {name: value for name, value in getattr(request, "__dict__", {}).items() if name not in _OF_SCRAPY}
    for name, slot in _slots(type(request)).items():
        try:
            found[name] = slot.__get__(request)
        except AttributeError:
            continue  # it was never set
    return found


def declared(request: Request) -> dict[str, Any]:
    """What its class names in `attributes` besides Scrapy's: its constructor makes it again of these."""
    return {name: getattr(request, name) for name in request.attributes if name not in Request.attributes}


def made_again(kind: type[Request], fields: dict[str, Any], attributes: dict[str, Any]) -> Request:
    """The request, past the constructor and the setters of its class. AttributeError where the class has no room for an attribute."""
    made = object.__new__(kind)
    Request.__init__(made, **fields)
    slots = _slots(kind)
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(made, value)
        else:
            made.__dict__[name] = value
    return made


def _slots(kind: type[Request]) -> dict[str, MemberDescriptorType]:
    return {
        name: part
        for each in kind.__mro__
        if each not in Request.__mro__
        for name, part in vars(each).items()
        if isinstance(part, MemberDescriptorType)
    }
