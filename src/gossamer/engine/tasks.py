"""Tasks of sites: what producers push, a URL or a JSON object that names a page of a layer."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from gossamer.courier.task.format import BODIES, Kind, read_task
from gossamer.engine.page.payload import pack
from gossamer.engine.sites import ServedSite
from gossamer.errors import BadTask
from gossamer.model import Request

KEYS: dict[str, Kind] = {
    "url": str, "layer": str, "method": str, "headers": dict, "cookies": dict, "body": str, "form": dict, "json": object,
    "priority": int, "pass": dict, "filter": bool,
}  # fmt: skip


def request_of(site: ServedSite, data: bytes, limit: int) -> Request:
    """The request that a task describes; BadTask says what is wrong with it. A task is always done, seen or not, unless it
    says `filter`."""
    task = read_task(data, KEYS, ("http", "https"))
    url = task["url"]
    layer = task.get("layer") or site.compiled.first_layer(url)
    if layer not in site.compiled.site.layers:
        raise BadTask(
            f"The task's layer is {layer!r:.100}; the site {site.name} has {', '.join(sorted(site.compiled.site.layers))}."
        )
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
        method=task.get("method", "POST" if any(key in task for key in BODIES) else "GET").upper(),
        headers=headers,
        cookies={str(name): str(value) for name, value in task.get("cookies", {}).items()},
        body=body,
        inherited=task.get("pass", {}),
        priority=task.get("priority", 0),
        dont_filter=not task.get("filter", False),
    )
    return pack(link._replace(always=link.dont_filter), f"{site.name}.{link.layer}", limit)
