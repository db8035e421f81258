"""What producers push: a URL, or a JSON object that describes a whole request."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from typing import Any

from scrapy import FormRequest, Request, Spider

from gossamer.courier.task.format import Kind, read_task
from gossamer.errors import BadTask

KEYS: dict[str, Kind] = {
    "url": str, "method": str, "headers": dict, "cookies": (dict, list), "body": str, "form": dict, "json": object, "meta": dict,
    "cb_kwargs": dict, "callback": object, "errback": object, "priority": int, "lane": str, "dont_filter": bool,
    "encoding": str, "flags": list,
}  # fmt: skip
_AS_THEY_ARE = (
    "dont_filter", "url", "headers", "cookies", "body", "meta", "cb_kwargs", "priority", "encoding", "flags",
)  # fmt: skip


def requests_of(spider: Spider, data: bytes) -> Iterable[Request]:
    """The requests of a task: what the spider's `make_requests(data)` says, if it has one, else those of `request_of`."""
    make = getattr(spider, "make_requests", None)
    if make is None:
        return [request_of(spider, data)]
    made = make(data)
    if made is None:
        return []
    return [made] if isinstance(made, Request) else made


def request_of(spider: Spider, data: bytes) -> Request:
    """The request that a task describes; BadTask says what is wrong with it."""
    task = read_task(data, KEYS)
    fields: dict[str, Any] = {"dont_filter": True, **{name: task[name] for name in _AS_THEY_ARE if name in task}}
    for name in ("callback", "errback"):
        if name in task:
            fields[name] = _method(spider, name, task[name])
    if "lane" in task:
        fields["meta"] = {**fields.get("meta", {}), "lane": task["lane"]}
    if "method" in task:
        fields["method"] = task["method"].upper()
    if "json" in task:
        fields["body"] = json.dumps(task["json"])
        fields["headers"] = {"Content-Type": "application/json", **fields.get("headers", {})}
        fields.setdefault("method", "POST")
    try:
        codecs.lookup(fields.get("encoding", "utf-8"))
        return _made(task, fields)
    except Exception as error:
        raise BadTask(f"The task makes no request: {type(error).__name__}: {error}") from None


def _made(task: dict[str, Any], fields: dict[str, Any]) -> Request:
    if "form" in task:
        form = {str(name): value if isinstance(value, list) else str(value) for name, value in task["form"].items()}
        made = FormRequest(formdata=form, **fields)
        fields = {**fields, "method": made.method, "body": made.body, "headers": made.headers, "url": made.url}
    return Request(**fields)


def _method(spider: Spider, field: str, name: Any) -> Any:
    method = getattr(spider, name, None) if isinstance(name, str) and not name.startswith("__") else None
    if not callable(method):
        raise BadTask(f"The task's {field} is {name!r:.200}; the spider {spider.name} has no such method.")
    return method
