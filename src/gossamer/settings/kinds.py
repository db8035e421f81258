"""The kinds of settings: each reads a value, or says in a ValueError what it expects."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

from gossamer.settings.setting import host_only


def text_or_empty(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text")
    return value


def text(value: Any) -> str:
    if not text_or_empty(value).strip():
        raise ValueError("must not be empty; leave it unset for the default")
    return str(value)


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return words[str(value).strip().lower()]
    except KeyError:
        raise ValueError("expected true or false") from None


def count(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise ValueError("expected a whole number")
    try:
        found = int(value)
    except (TypeError, ValueError):
        raise ValueError("expected a whole number") from None
    if found < 0:
        raise ValueError("must not be negative")
    return found


def at_least_one(value: Any) -> int:
    found = count(value)
    if found < 1:
        raise ValueError("must be 1 or more")
    return found


def seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("expected a number of seconds")
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError("expected a number of seconds") from None
    if not 0 <= found < float("inf"):
        raise ValueError("must be a finite number, 0 or more")
    return found


def number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError("expected a number") from None
    if not abs(found) < float("inf"):
        raise ValueError("must be finite")
    return found


def addresses(value: Any) -> str:
    given = text(value).strip()
    if given not in ("auto", "always", "never"):
        for word in given.split(","):
            try:
                ip_network(word.strip(), strict=False)
            except ValueError:
                raise ValueError(
                    f"{word.strip()!r} is neither auto, always or never, nor a network such as 10.1.0.0/16"
                ) from None
    return given


def web_address(value: Any) -> str:
    given = text_or_empty(value).strip()
    if given and (host_only(given) == "***" or any(sign.isspace() or not sign.isprintable() for sign in given)):
        raise ValueError("expected an address that begins with https:// or http://")
    return given


def one_of(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in words:
            raise ValueError("expected one of " + ", ".join(words))
        return str(value)

    return parse


def memory(value: Any) -> str:
    given = str(value).strip().lower()
    match = re.fullmatch(r"(\d+)(%|[kmg]b)?", given)
    if not match or (match[2] == "%" and not 0 < int(match[1]) <= 100):
        raise ValueError("expected a share such as 50%, a size such as 512mb or 2gb, or 0 for no limit")
    return given
