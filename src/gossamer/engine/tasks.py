"""Tasks of sites: what producers push, a URL or a JSON object that names a page of a layer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode, urlsplit

from gossamer.engine.page.payload import pack
from gossamer.engine.sites import ServedSite
from gossamer.errors import BadTask
from gossamer.model import Request

KEYS = {
    "url": str, "layer": str, "method": str, "headers": dict, "cookies": dict, "body": str, "form": dict, "json": object,
    "priority": int, "pass": dict, "filter": bool,
}  # fmt: skip


def request_of(site: ServedSite, data: bytes, limit: int) -> Request:
    """The request that a task describes; BadTask says what is wrong with it. A task is always done, seen or not, unless it
    says `filter`."""
    task = _task(data)
    url = task["url"]
    layer = task.get("layer") or site.compiled.first_layer(url)
    if layer not in site.compiled.site.layers:
        raise BadTask(
            f"The task's layer is {layer!r:.100}; the site {site.name} has {', '.join(sorted(site.compiled.site.layers))}."
        )
    bodies = [key for key in ("body", "form", "json") if key in task]
    if len(bodies) > 1:
        raise BadTask(f"The task has {' and '.join(bodies)}; a request has only one body.")
    headers = {str(name): str(value) for name, value in task.get("headers", {}).items()}
    body = str(task.get("body", "")).encode()
    if "form" in task:
        body = urlencode(task["form"], doseq=True).encode()
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    elif "json" in task:
        body = json.dumps(task["json"]).encode()
        headers.setdefault("Content-Type", "application/json")
    link = site.compiled.link(
        url,
        layer,
        method=task.get("method", "POST" if bodies else "GET").upper(),
        headers=headers,
        cookies={str(name): str(value) for name, value in task.get("cookies", {}).items()},
        body=body,
        inherited=task.get("pass", {}),
        priority=task.get("priority", 0),
        dont_filter=not task.get("filter", False),
    )
    return pack(link._replace(always=link.dont_filter), f"{site.name}.{link.layer}", limit)


def _task(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise BadTask(f"The task is no text: {error}.") from None
    task: Any = {"url": text}
    if text.startswith(("{", "[", '"')):
        try:
            task = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadTask(f"The task is no JSON: {error}.") from None
    if isinstance(task, str):
        task = {"url": task}
    if not isinstance(task, dict):
        raise BadTask(f"The task is a JSON {type(task).__name__}; it must be an object with a url, or a URL.")
    unknown = sorted(set(task) - set(KEYS))
    if unknown:
        raise BadTask(f"The task has unknown keys: {', '.join(unknown)}. Known are {', '.join(sorted(KEYS))}.")
    for name, value in task.items():
        kind = KEYS[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadTask(f"The task's {name} is {value!r:.200}; it must be a JSON {kind.__name__}.")
    _check_url(task.get("url"))
    return task


def _check_url(url: Any) -> None:
    if not url:
        raise BadTask("The task has no url.")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - says whether it is a number
    except ValueError as error:
        raise BadTask(f"The task's url {url!r:.200} cannot be used: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadTask(
            f"The task's url {url!r:.200} cannot be fetched; it must begin with http:// or https:// and a host."
        )
