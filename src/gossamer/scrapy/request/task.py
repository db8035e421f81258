"""What producers push: a URL, or a JSON object that describes a whole request."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from scrapy import FormRequest, Request, Spider

from gossamer.errors import BadTask

KEYS = frozenset(
    {
        "url", "method", "headers", "cookies", "body", "form", "json", "meta", "cb_kwargs", "callback", "errback",
        "priority", "lane", "dont_filter", "encoding", "flags",
    }
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
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise BadTask(f"The task is no text: {error}.") from None
    if not text.startswith(("{", "[", '"')):
        return Request(_url(text), dont_filter=True)
    try:
        task = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadTask(f"The task is no JSON: {error}.") from None
    if isinstance(task, str):
        return Request(_url(task), dont_filter=True)
    if not isinstance(task, dict):
        raise BadTask(f"The task is a JSON {type(task).__name__}; it must be an object with a url, or a URL.")
    return _request(spider, task)


def _request(spider: Spider, task: dict[str, Any]) -> Request:
    unknown = sorted(set(task) - KEYS)
    if unknown:
        raise BadTask(f"The task has unknown keys: {', '.join(unknown)}. Known are {', '.join(sorted(KEYS))}.")
    if "url" not in task:
        raise BadTask("The task has no url.")
    bodies = [key for key in ("body", "form", "json") if key in task]
    if len(bodies) > 1:
        raise BadTask(f"The task has {' and '.join(bodies)}; a request has only one body.")
    fields: dict[str, Any] = {"url": _url(task["url"]), "dont_filter": _kind(task, "dont_filter", bool, True)}
    for name, kind in (("headers", dict), ("meta", dict), ("cb_kwargs", dict), ("flags", list), ("encoding", str)):
        if name in task:
            fields[name] = _kind(task, name, kind, None)
    if "cookies" in task:
        fields["cookies"] = _kind(task, "cookies", (dict, list), None)
    fields["priority"] = _kind(task, "priority", int, 0)
    for name in ("callback", "errback"):
        if name in task:
            fields[name] = _method(spider, name, task[name])
    if "lane" in task:
        fields["meta"] = {**fields.get("meta", {}), "lane": _kind(task, "lane", str, None)}
    if "method" in task:
        fields["method"] = _kind(task, "method", str, "GET").upper()
    if "json" in task:
        fields["body"] = json.dumps(task["json"])
        fields["headers"] = {"Content-Type": "application/json", **fields.get("headers", {})}
        fields.setdefault("method", "POST")
    if "body" in task:
        fields["body"] = _kind(task, "body", str, "")
    try:
        codecs.lookup(fields.get("encoding", "utf-8"))
        return _made(task, fields)
    except BadTask:
        raise
    except Exception as error:
        raise BadTask(f"The task makes no request: {type(error).__name__}: {error}") from None


def _made(task: dict[str, Any], fields: dict[str, Any]) -> Request:
    if "form" in task:
        form = _kind(task, "form", dict, {})
        made = FormRequest(formdata={str(k): v if isinstance(v, list) else str(v) for k, v in form.items()}, **fields)
        fields = {**fields, "method": made.method, "body": made.body, "headers": made.headers, "url": made.url}
    return Request(**fields)


def _url(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadTask(f"The task's url is {value!r:.200}; it must be text.")
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - says whether it is a number
    except ValueError as error:
        raise BadTask(f"The task's url {value!r:.200} cannot be used: {error}.") from None
    if not parts.scheme:
        raise BadTask(f"The task's url {value!r:.200} has no scheme; write http:// or https:// before it.")
    if parts.scheme in ("http", "https") and not parts.hostname:
        raise BadTask(f"The task's url {value!r:.200} has no host.")
    return value


def _kind(task: dict[str, Any], name: str, kind: Any, default: Any) -> Any:
    value = task.get(name, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = kind.__name__ if isinstance(kind, type) else " or ".join(one.__name__ for one in kind)
        raise BadTask(f"The task's {name} is {value!r:.200}; it must be a JSON {wanted}.")
    return value


def _method(spider: Spider, field: str, name: Any) -> Any:
    method = getattr(spider, name, None) if isinstance(name, str) and not name.startswith("__") else None
    if not callable(method):
        raise BadTask(f"The task's {field} is {name!r:.200}; the spider {spider.name} has no such method.")
    return method
