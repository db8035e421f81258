"""Requests as scrapy-redis stores them, read into the fields of a frontier's payload."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping
from typing import Any

from gossamer.errors import DecodingError
from gossamer.frontier import codec
from gossamer.frontier.codec.types import StoredObject
from gossamer.scrapy.request.codec import CLASS
from gossamer.scrapy.request.objects import ObjectCodec, scalar_of
from gossamer.scrapy_redis import picklecompat

_KINDS: dict[str, Any] = {
    "url": str, "method": str, "meta": Mapping, "cb_kwargs": Mapping, "callback": str, "errback": str, "encoding": str,
    "dont_filter": bool, "flags": list, "cookies": (Mapping, list), "priority": int,
}  # fmt: skip
_NO_CLASSES = ObjectCodec(())
"""Stores what every worker makes again, such as a `defaultdict`."""


class StoredRequestReader:
    """Reads JSON, and pickles if asked to: of these only plain data, and objects by the name of their class and their state, of
    which nothing is made here."""

    def __init__(self, allow_pickle: bool = False) -> None:
        self._allow_pickle = allow_pickle

    def admits(self, data: bytes) -> bool:
        """Whether data of this form are read at all."""
        return self._allow_pickle or _is_json(data)

    def fields(self, data: bytes) -> dict[str, Any]:
        """The fields of one request; `DecodingError` says why it is not a request."""
        stored = self._load(data)
        if not isinstance(stored, Mapping) or not isinstance(stored.get("url"), str):
            raise DecodingError("Not a request: it has no url.")
        fields = {str(name): value for name, value in stored.items() if value is not None and name != "_turn"}
        if "_encoding" in fields:
            # What older versions of Scrapy called it.
            fields["encoding"] = fields.pop("_encoding")
        if "_class" in fields:
            fields[CLASS] = str(fields.pop("_class"))
        for name, kind in _KINDS.items():
            if name in fields and not isinstance(fields[name], kind):
                raise DecodingError(f"Not a request: its {name} is {fields[name]!r:.80}.")
        encoding = fields.get("encoding", "utf-8")
        if isinstance(fields.get("body"), str):
            fields["body"] = fields["body"].encode(encoding)
        if isinstance(fields.get("headers"), Mapping):
            fields["headers"] = {
                _bytes(name, encoding): [_bytes(value, encoding) for value in values]
                for name, values in ((n, v if isinstance(v, list) else [v]) for n, v in fields["headers"].items())
            }
        return fields

    def url(self, data: bytes) -> str:
        """The URL of a request whatever else it holds, as far as it is allowed to be read; "" if there is none."""
        try:
            stored = (
                json.loads(data) if _is_json(data) else _Sketch(io.BytesIO(data)).load() if self._allow_pickle else None
            )
        except Exception:
            # What is broken in it was reported before.
            return ""
        url = stored.get("url") if isinstance(stored, Mapping) else None
        return url.decode(errors="replace") if isinstance(url, bytes) else url if isinstance(url, str) else ""

    def _load(self, data: bytes) -> Any:
        if _is_json(data):
            try:
                return json.loads(data)
            except ValueError as error:
                raise DecodingError(f"Not a request: {error}.") from None
        if not self._allow_pickle:
            raise DecodingError(
                "The stored request is a pickle, which is read only with --allow-pickle. Nothing that it names is run."
            )
        return picklecompat.loads(data, _kept)


def payload_of(fields: Mapping[str, Any]) -> bytes:
    """The payload of a request's fields."""
    return codec.encode_request(fields, store=_NO_CLASSES.store)


def _kept(stored: StoredObject) -> Any:
    # A link's text of lxml is in every request of a CrawlSpider.
    scalar = scalar_of(stored)
    return stored if scalar is None else scalar


class _Blank:
    """Stands for an object of a class that is not made."""

    def __new__(cls, *args: Any, **named: Any) -> _Blank:
        return super().__new__(cls)

    def __init__(self, *args: Any, **named: Any) -> None: ...

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, value: Any) -> None: ...

    def extend(self, values: Any) -> None: ...


class _Sketch(pickle.Unpickler):
    """Makes nothing of what a pickle names, and the rest of it all the same."""

    def find_class(self, module: str, name: str) -> Any:
        return _Blank

    def persistent_load(self, pid: Any) -> Any:
        return _Blank()


def _is_json(data: bytes) -> bool:
    return data.lstrip()[:1] == b"{"


def _bytes(value: Any, encoding: str) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(encoding)
