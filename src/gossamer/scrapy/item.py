"""Items as the stream stores them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from itemadapter import ItemAdapter

from gossamer.errors import PayloadTooLarge
from gossamer.frontier import codec
from gossamer.scrapy.feeds.item_class import name_of
from gossamer.scrapy.request.object_state import is_url


def encode_item(item: Any, limit: int) -> bytes:
    """An item's fields by name, with their types, and its class, which a feed of another worker may ask for. PayloadTooLarge where
    that takes more than `limit` bytes."""
    fields = plain(item)
    if isinstance(fields, dict) and not isinstance(item, dict):
        fields[codec.CLASS] = name_of(type(item))
    data = codec.encode(fields)
    if len(data) > limit:
        raise PayloadTooLarge(_too_large(item, fields, len(data), limit))
    return data


KEYS = (str, int, float, type(None))
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def plain(value: Any) -> Any:
    """Items inside lists and mappings as plain mappings too, members of an enum that are texts or numbers as these, and URLs of pydantic
    as text."""
    if type(value) in _SCALARS:
        return value
    if ItemAdapter.is_item(value):
        # Keys as JSON has them stay: 1 and "1" are two of them, and exporters write each in their way.
        return {name if isinstance(name, KEYS) else str(name): plain(part) for name, part in ItemAdapter(value).items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(part) for part in value) if type(value) in (list, tuple) else list(map(plain, value))
    if isinstance(value, Enum) and isinstance(value, str | int):
        return value.value
    return str(value) if is_url(type(value)) else value


def _too_large(item: Any, fields: Any, size: int, limit: int) -> str:
    parts = {name: len(codec.encode(part)) for name, part in fields.items()} if isinstance(fields, dict) else {}
    largest = max(parts, key=lambda name: parts[name], default="")
    of_it = f", of which {largest!r} has {parts[largest]:,}" if largest else ""
    return (
        f"{type(item).__qualname__} takes {size:,} bytes{of_it}; in the stream an item may take {limit:,}. Keep what is large in a file or "
        "a database and its name in the item, or raise GOSSAMER_PAYLOAD_MAX_BYTES for all workers."
    )
