"""Small conversions that spiders import from here. The module keeps the name it has in scrapy-redis."""

from __future__ import annotations

import json
from typing import Any


class TextColor:
    """Escape sequences that colour a line on a terminal."""

    HEADER = "\033[95m"
    OKBLUE = "\033[94m"
    OKCYAN = "\033[96m"
    OKGREEN = "\033[92m"
    WARNING = "\033[93m"
    FAIL = "\033[91m"
    ENDC = "\033[0m"
    BOLD = "\033[1m"
    UNDERLINE = "\033[4m"


def bytes_to_str(s: Any, encoding: str = "utf-8") -> Any:
    """`s` as text if it is bytes, else `s` itself."""
    return s.decode(encoding) if isinstance(s, bytes) else s


def is_dict(string_content: str | bytes) -> bool:
    """Whether the text is JSON of any kind, despite the name: a number or a list is, too."""
    try:
        json.loads(string_content)
    except json.JSONDecodeError:
        return False
    return True


def convert_bytes_to_str(data: Any, encoding: str = "utf-8") -> Any:
    """`data` with bytes turned into text, in the keys and values of dicts and in tuples as well."""
    if isinstance(data, bytes):
        return data.decode(encoding)
    if isinstance(data, dict):
        return {
            convert_bytes_to_str(key, encoding): convert_bytes_to_str(value, encoding) for key, value in data.items()
        }
    if isinstance(data, tuple):
        return tuple(convert_bytes_to_str(part, encoding) for part in data)
    return data
