"""Scrapy's requests on their way into the frontier and out of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MethodType
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.utils.misc import load_object

from gossamer.errors import DecodingError, EncodingError, PayloadTooLarge, UnknownCallback
from gossamer.frontier import codec
from gossamer.frontier.checks import PRIORITY_MAX, RequestChecker
from gossamer.model import Lease, host_of
from gossamer.model import Request as FrontierRequest
from gossamer.scrapy.download.slots import APART
from gossamer.scrapy.lanes import ATTRIBUTE, MAIN, META
from gossamer.scrapy.request.objects import ObjectCodec, method_name
from gossamer.scrapy.request.request_class import added, adds, declared, is_made_again, made_again

logger = logging.getLogger(__name__)

SLOT = "download_slot"
CLASS, ATTRIBUTES, NAMED = "class", "attributes", "named"
"""Of a request of a class of the project's own: its path, what it has besides Scrapy's attributes, and what its constructor needs."""
CARRIED = "gossamer:items"
"""The address of what is no request: it brings items into the stream."""


class ItemsLease(Exception):
    """A lease that brings items instead of a request."""

    def __init__(self, items: list[bytes]) -> None:
        super().__init__("items")
        self.items = items


class RequestCodec:
    """Turns requests of one spider into requests of the frontier and leases back into requests."""

    def __init__(
        self,
        spider: Spider,
        group: str,
        lanes: Mapping[str, Any],
        number: Callable[[Request], int],
        payload_max: int,
        objects: ObjectCodec | None = None,
        slots: Collection[str] = (),
    ) -> None:
        """`slots` are the names in DOWNLOAD_SLOTS."""
        self._spider, self._group, self._lanes = spider, group, lanes
        self._objects = objects or ObjectCodec.of(spider)
        self._number, self._payload_max, self._slots = number, payload_max, frozenset(slots)
        self._names: dict[Any, str] = {}
        self._noted_priority = False
        self._checked = RequestChecker(payload_max)
        self._classes: dict[str, type[Request]] = {}
        self._paths: dict[type[Request], str] = {}
        self._full = {name: f"{group}.{name}" for name in lanes}
        # A request without a callback goes to the spider's parse.
        self._default = getattr(getattr(spider, "parse", None), ATTRIBUTE, MAIN)

    def lane_of(self, request: Request) -> str:
        """The full name of the request's lane."""
        name = request.meta.get(META)
        if name is None:
            callback = request.callback
            if type(callback) is partial:
                callback = callback.func
            name = self._default if callback is None else getattr(callback, ATTRIBUTE, MAIN)
        full = self._full.get(name) if isinstance(name, str) else None
        if full is not None:
            return full
        if isinstance(name, str) and "." in name:
            return name
        raise EncodingError(
            f"meta['lane']: the spider {self._spider.name} has no lane {name!r}; it has {', '.join(sorted(self._lanes))}. "
            "Declare it in the spider's `lanes`."
        )

    def number(self, request: Request) -> int:
        return self._number(request)

    def encode(self, request: Request, lane: str, number: int, inherited_slot: str | None = None) -> FrontierRequest:
        """The request as the frontier keeps it. `inherited_slot` is a download slot that Scrapy itself wrote into
        the parent's meta: a child that has it copied it by accident, as one that has the slot of an inline download."""
        meta = dict(request.meta)
        meta.pop(META, None)
        slot = meta.get(SLOT)
        if slot is not None and (slot == inherited_slot or str(slot).startswith(APART)):
            del meta[SLOT]
            slot = None
        fields: dict[str, Any] = {"url": request.url, "meta": meta}
        if request.method != "GET":
            fields["method"] = request.method
        if request.headers:
            fields["headers"] = request.headers
        if request.body:
            fields["body"] = request.body
        if request.cookies:
            fields["cookies"] = request.cookies
        if request.callback is not None:
            fields["callback"] = self._name_of(request.callback, "callback")
        if request.errback is not None:
            fields["errback"] = self._name_of(request.errback, "errback")
        if request.cb_kwargs:
            fields["cb_kwargs"] = request.cb_kwargs
        if request.encoding != "utf-8":
            fields["encoding"] = request.encoding
        if request.flags:
            fields["flags"] = list(request.flags)
        if request.dont_filter:
            fields["dont_filter"] = True
        payload = self._encode_own(request, fields) if adds(request) else self._encode(fields)
        if abs(request.priority) > PRIORITY_MAX and not self._noted_priority:
            self._noted_priority = True
            logger.warning(
                "%s has the priority %d: priorities beyond ±%d count as that, so such requests have no order among themselves. Use "
                "smaller ones, such as seconds instead of milliseconds.", request, request.priority, PRIORITY_MAX,
            )  # fmt: skip
        try:
            host = str(slot) if slot is not None else self._host_of(request.url)
        except ValueError as error:
            raise EncodingError(f"url: {request.url!r:.200} has no host that could be asked: {error}.") from None
        return FrontierRequest(
            number, self._checked.host(host or "-"), lane, payload, request.priority, request.dont_filter
        )

    def _host_of(self, url: str) -> str:
        """The host that politeness counts it for. Scrapy names slots without a port, so DOWNLOAD_SLOTS may mean all ports of a host."""
        host = host_of(url)
        if self._slots and host not in self._slots and (name := urlsplit(url).hostname) in self._slots:
            return str(name)
        return host

    def _encode(self, fields: dict[str, Any]) -> bytes:
        return codec.encode_request(fields, limit=self._payload_max, store=self._objects.store)

    def _encode_own(self, request: Request, fields: dict[str, Any]) -> bytes:
        """With what a class of the project's own adds, by its state. What of it cannot be stored, the constructor must make again of what
        the class declares."""
        if type(request) is not Request:
            fields[CLASS] = self._path_of(type(request))
        # Past properties of the class, which will be asked again.
        fields["url"], fields["body"] = request._url, request._body
        attributes = added(request)
        try:
            return self._encode({**fields, ATTRIBUTES: attributes})
        except PayloadTooLarge:
            raise
        except EncodingError:
            payload = self._encode_by_constructor(request, fields, attributes)
            if payload is None:
                raise
            return payload

    def _encode_by_constructor(
        self, request: Request, fields: dict[str, Any], attributes: dict[str, Any]
    ) -> bytes | None:
        """With what can be stored; the constructor must make the rest, else EncodingError. None where it cannot be called."""
        named = declared(request)
        if not named:
            return None
        kept = {name: value for name, value in attributes.items() if self.can_store(value)}
        try:
            payload = self._encode({**fields, ATTRIBUTES: kept, NAMED: named})
            made = self._make(codec.decode_request(payload, build=self._objects.make), request.priority)
        except (EncodingError, DecodingError):
            return None
        for name, value in attributes.items():
            if name not in kept and not is_made_again(made, request, name):
                self._encode({"url": "", ATTRIBUTES: {name: value}})  # raises
        return payload

    def can_store(self, value: Any) -> bool:
        """Whether a request may carry this value."""
        try:
            self._encode({"url": "", "meta": {"": value}})
        except EncodingError:
            return False
        return True

    def _path_of(self, kind: type[Request]) -> str:
        path = self._paths.get(kind)
        if path is None:
            path = f"{kind.__module__}.{kind.__qualname__}"
            try:
                found: Any = self._class(path)
            except DecodingError:
                found = None
            if found is not kind:
                raise EncodingError(
                    f"class: {path} cannot be found by its name, so another worker could not make it; define it at the top of a module."
                )
            self._paths[kind] = path
        return path

    def _name_of(self, callback: Any, field: str) -> Any:
        if type(callback) is partial:
            self._name_of(callback.func, field)
            return callback
        function = getattr(callback, "__func__", callback)
        name = self._names.get(function)
        if name is not None and getattr(callback, "__self__", None) is self._spider:
            return name
        name = method_name(self._spider, callback)
        if name is not None:
            self._names[function] = name
            return name
        if getattr(callback, "__module__", None) == "scrapy.http.request" and callback.__name__ == "NO_CALLBACK":
            return "NO_CALLBACK"
        raise EncodingError(
            f"{field}: {callback!r} is not a method of the spider {self._spider.name}; another worker could not call it. "
            "Use a method or a functools.partial of one, and cb_kwargs for what it needs."
        )

    def address(self, request: Request) -> bytes:
        """What a dead letter shows of a request that cannot be stored."""
        return codec.encode_request({"url": request.url, "method": request.method})

    def carry(self, item: bytes, key: str) -> FrontierRequest:
        """A request that brings an item: it asks no host, so it need not wait for any."""
        payload = codec.encode_request({"url": CARRIED, "items": [item]})
        return FrontierRequest(0, f"-{key}", self._full[MAIN], payload, 0, True)

    def decode(self, lease: Lease) -> Request:
        """The request of a lease; DecodingError or UnknownCallback where this worker cannot make it, ItemsLease where it brings items
        instead."""
        fields = codec.decode_request(lease.payload, build=self._objects.make)
        if fields.get("url") == CARRIED:
            raise ItemsLease(fields.get("items", []))
        return self._make(fields, lease.priority)

    def _make(self, fields: dict[str, Any], priority: int) -> Request:
        fields["callback"] = self._method(fields["callback"], "callback")
        fields["errback"] = self._method(fields["errback"], "errback")
        kind, attributes = self._class(fields.pop(CLASS, None)), fields.pop(ATTRIBUTES, None)
        named = None if attributes is None else fields.pop(NAMED, None)  # without them, one of the class's own
        fields["priority"] = priority
        try:
            return kind(**fields) if attributes is None else made_again(kind, fields, attributes, named)
        except Exception as error:
            raise DecodingError(f"The stored request cannot be made again: {error}") from error

    def _method(self, name: Any, field: str) -> Any:
        if name is None:
            return None
        if name == "NO_CALLBACK":
            from scrapy.http.request import NO_CALLBACK

            return NO_CALLBACK
        if type(name) is partial or type(name) is MethodType:
            return name  # one of the spider's, or it would not have been made
        method = getattr(self._spider, name, None) if isinstance(name, str) and not name.startswith("__") else None
        if not callable(method):
            raise UnknownCallback(
                f"{field} {name!r}: the spider {self._spider.name} has no such method. "
                "Run the code that has it, then `gossamer dead replay`."
            )
        return method

    def _class(self, path: Any) -> type[Request]:
        """A request class by name. What is stored must not make us import just anything: only classes that are loaded, or
        that lie in Scrapy or beside the spider."""
        if path is None:
            return Request
        known = self._classes.get(path) if isinstance(path, str) else None
        if known is not None:
            return known
        module = str(path).rpartition(".")[0]
        root = module.partition(".")[0]
        if module not in sys.modules and root not in {"scrapy", type(self._spider).__module__.partition(".")[0]}:
            raise DecodingError(f"The stored request is of class {path}, which this worker has not loaded.")
        try:
            kind = load_object(path)
        except Exception as error:
            raise DecodingError(f"The stored request is of class {path}, which cannot be loaded: {error}") from None
        if not (isinstance(kind, type) and issubclass(kind, Request)):
            raise DecodingError(f"The stored request names {path}, which is not a request class.")
        self._classes[path] = kind
        return kind
