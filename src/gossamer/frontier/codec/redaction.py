"""Secrets in what people look at or keep in files: taken out of readable JSON, and known again when it comes back. Pure.

What counts is a name: of a header, a cookie, a key of meta. All cookies count; so do user and password in a URL, and fields of a form
that are called like a secret.
"""

from __future__ import annotations

import re
from typing import Any

MARK = "***"
"""Stands in the place of a secret."""
_SECRET = re.compile(
    r"auth|cookie|token|secret|session|api-?_?key|password|passwd|signature|credential", re.IGNORECASE
).search
_LOGIN = re.compile(r"(?<=://)[^/?#@\s'\"<>]+@")
_FIELD = re.compile(
    r"((?:^|[?&\s\"'])[^=&?\s\"']*(?:password|passwd|secret|token|api_?key|session)[^=&\s\"']*=)[^&\s\"']+",
    re.IGNORECASE,
)
_BODIES = frozenset({"body", "form", "data"})
_ALL_OF = frozenset({"cookies"})


def is_secret(name: str) -> bool:
    """Whether a value of this name is a secret."""
    return _SECRET(name) is not None


def concealed(text: str) -> str:
    """A text without users and passwords of the URLs in it."""
    return _LOGIN.sub(f"{MARK}@", text) if "@" in text else text


def redacted(value: Any) -> tuple[Any, list[str]]:
    """Readable JSON (`codec.to_json`) without secrets, and the paths of what was taken out."""
    paths: list[str] = []
    return _redacted(value, "", paths), paths


def without(value: Any) -> Any:
    """What `redacted` returned, without the places of what was taken out: usable as it is."""
    if isinstance(value, str):
        return value.replace(f"{MARK}@", "")
    if isinstance(value, list):
        return [without(one) for one in value if not _is_mark(one)]
    if isinstance(value, dict):
        if set(value) == {"$dict"}:
            return {"$dict": [[key, without(one)] for key, one in value["$dict"] if not _is_mark(one)]}
        return {key: without(one) for key, one in value.items() if not _is_mark(one)}
    return value


def _is_mark(value: Any) -> bool:
    return value == MARK or (isinstance(value, list) and len(value) > 0 and all(one == MARK for one in value))


def _redacted(value: Any, path: str, paths: list[str], name: str = "") -> Any:
    if isinstance(value, dict):
        if set(value) == {"$dict"} and isinstance(value["$dict"], list):
            pairs = [(_text(key), key, one) for key, one in value["$dict"]]
            return {"$dict": [[key, _entry(text, one, path, paths, name)] for text, key, one in pairs]}
        if len(value) == 1 and (inner := value.get("$bytes")) is not None:
            return {"$bytes": _plain(inner, path, paths, name)}
        return {key: _entry(key, one, path, paths, name) for key, one in value.items()}
    if isinstance(value, list):
        return [_redacted(one, f"{path}[{number}]", paths, name) for number, one in enumerate(value)]
    return _plain(value, path, paths, name) if isinstance(value, str) else value


def _entry(key: str, value: Any, path: str, paths: list[str], above: str) -> Any:
    here = f"{path}.{key}" if path else key
    # What holds many things is looked into: the name of the whole says nothing about each of them.
    whole = not isinstance(value, dict) or set(value) <= {"$bytes", "$base64", "$str"}
    if value not in (None, "", [], {}) and ((above in _ALL_OF and whole) or (whole and is_secret(key))):
        if isinstance(value, bool | int | float):
            return value  # A flag or a count that is named after a secret.
        if not (isinstance(value, list) and any(isinstance(one, dict) and not _is_bytes(one) for one in value)):
            paths.append(here)
            return MARK
    return _redacted(value, here, paths, key)


def _is_bytes(value: dict[str, Any]) -> bool:
    return set(value) <= {"$bytes", "$base64"}


def _plain(text: str, path: str, paths: list[str], name: str) -> str:
    shown = concealed(text)
    if name in _BODIES:
        shown = _FIELD.sub(rf"\1{MARK}", shown)
    if shown != text:
        paths.append(path)
    return shown


def _text(key: Any) -> str:
    if isinstance(key, dict) and len(key) == 1:
        return str(next(iter(key.values())))
    return str(key)
