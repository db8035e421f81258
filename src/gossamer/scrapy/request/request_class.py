"""Requests of the project's own classes, taken apart and put together again by their state.

Not by their constructor: it may give the URL another form a second time, or need what is not among the `attributes` that Scrapy
asks such a class to name.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from scrapy import FormRequest, Request
from scrapy.http import JsonRequest, XmlRpcRequest

_OF_SCRAPY = frozenset(getattr(Request("data:,"), "__dict__", ()))
"""The attributes of every request, where Scrapy's class has no slots (before 2.15)."""
_NOT_ITS_OWN = _OF_SCRAPY | {"__orig_class__"}
"""The last is of `Generic[...]`, not of the request."""
_DECLARED_BY_SCRAPY = frozenset().union(
    *(kind.attributes for kind in (Request, FormRequest, JsonRequest, XmlRpcRequest))
)


def adds(request: Request) -> bool:
    """Whether a request may have more than Scrapy's class: it is of another, or somebody has set an attribute."""
    return type(request) is not Request or (bool(_OF_SCRAPY) and len(vars(request)) > len(_OF_SCRAPY))


def added(request: Request) -> dict[str, Any]:
    """The attributes that a request has besides those of Scrapy's class."""
    found = {name: value for name, value in getattr(request, "__dict__", {}).items() if name not in _NOT_ITS_OWN}
    for name, slot in _slots(type(request)).items():
        try:
            found[name] = slot.__get__(request)
        except AttributeError:
            continue  # it was never set
    return found


def declared(request: Request) -> dict[str, Any]:
    """What its class names in `attributes` besides Scrapy's: its constructor makes it again of these. Nothing, where Scrapy's classes
    alone name any."""
    if not any(name not in _DECLARED_BY_SCRAPY for name in request.attributes):
        return {}
    own = (name for name in request.attributes if name not in Request.attributes)
    return {name: getattr(request, name) for name in own if hasattr(request, name)}


def made_again(
    kind: type[Request], fields: dict[str, Any], attributes: dict[str, Any], named: dict[str, Any] | None = None
) -> Request:
    """The request, past the constructor and the setters of its class, or by its constructor first, with what it names. AttributeError
    where the class has no room for an attribute."""
    made = object.__new__(kind) if named is None else kind(**fields, **named)
    # Before Scrapy's too: methods of the class, which that calls, may need them.
    _set(made, attributes)
    Request.__init__(made, **fields)
    _set(made, attributes)
    # As they were: the class may have set them to something else than it was given.
    made._url, made._body = fields["url"], fields["body"] or b""
    return made


def is_made_again(made: Request, request: Request, name: str) -> bool:
    """Whether the constructor makes this attribute, too: one of the same kind, and no other function."""
    found, wanted = getattr(made, name, None), getattr(request, name)
    return type(found) is type(wanted) and (found is wanted or not callable(wanted))


def _set(request: Request, attributes: dict[str, Any]) -> None:
    slots = _slots(type(request))
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(request, value)
        else:
            request.__dict__[name] = value


def _slots(kind: type[Request]) -> dict[str, MemberDescriptorType]:
    return {
        name: part
        for each in reversed(kind.__mro__)
        if each not in Request.__mro__
        for name, part in vars(each).items()
        if isinstance(part, MemberDescriptorType)
    }
