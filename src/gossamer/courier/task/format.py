"""The form of a task: a URL, or a JSON object with a `url`. Both engines read it here; each names the keys that it takes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from gossamer.errors import BadTask

Kind = type | tuple[type, ...]
BODIES = ("body", "form", "json")
_JSON_NAMES = {str: "string", dict: "object", list: "array", int: "integer", bool: "boolean"}


def read_task(data: bytes, keys: Mapping[str, Kind], schemes: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a task; BadTask names what is wrong with it. `keys` are those it may have, with their types; `schemes` those
    that its URL may have, all if none are given."""
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise BadTask(f"The task is not UTF-8 text: {error}.") from None
    task: Any = text
    if text.startswith(("{", "[", '"')):
        try:
            task = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadTask(f"The task is not valid JSON: {error}.") from None
    if isinstance(task, str):
        task = {"url": task}
    if not isinstance(task, dict):
        raise BadTask(f"The task is a JSON {_json_name(type(task))}; it must be an object with a url, or a URL.")
    _check_fields(task, keys)
    _check_url(task["url"], schemes)
    return task


def _check_fields(task: Mapping[str, Any], keys: Mapping[str, Kind]) -> None:
    unknown = sorted(set(task) - set(keys))
    if unknown:
        raise BadTask(f"The task has unknown keys: {', '.join(unknown)}. Known are {', '.join(sorted(keys))}.")
    if "url" not in task:
        raise BadTask("The task has no url.")
    bodies = [key for key in BODIES if key in task]
    if len(bodies) > 1:
        raise BadTask(f"The task has {' and '.join(bodies)}; a request has only one body.")
    for name, value in task.items():
        kind = keys[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = " or ".join(map(_json_name, kind if isinstance(kind, tuple) else (kind,)))
            raise BadTask(f"The task's {name} is {value!r:.200}; it must be a JSON {wanted}.")


def _check_url(url: str, schemes: Collection[str]) -> None:
    if not url:
        raise BadTask("The task's url is empty.")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError as error:
        raise BadTask(f"The task's url {url!r:.200} cannot be used: {error}.") from None
    if not parts.scheme:
        raise BadTask(f"The task's url {url!r:.200} has no scheme; write http:// or https:// before it.")
    if schemes and parts.scheme not in schemes:
        raise BadTask(
            f"The task's url {url!r:.200} cannot be fetched; it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}."
        )
    if parts.scheme in ("http", "https") and not parts.hostname:
        raise BadTask(f"The task's url {url!r:.200} has no host.")


def _json_name(kind: type) -> str:
    return _JSON_NAMES.get(kind, kind.__name__)
