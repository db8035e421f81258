"""The method, headers, cookies and body of a request, from what a site file says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gossamer.model.page import NOTHING
from gossamer.sites.extract.types import as_text
from gossamer.sites.file.params import NAMED, filled, names_within
from gossamer.sites.format import Body

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"

Fill = Callable[[Any], Any]
"""Data with the {names} in its texts replaced; a text that is nothing but a name becomes the value itself."""


class RequestParts(NamedTuple):
    """How to request a page; `query` is what a form that is sent by GET adds to the URL."""

    method: str = "GET"
    headers: Mapping[str, str] = NOTHING
    cookies: Mapping[str, str] = NOTHING
    body: bytes = b""
    query: str = ""

    def url(self, url: str) -> str:
        if not self.query:
            return url
        base, hash_, fragment = url.partition("#")
        return f"{base}{'&' if '?' in base else '?'}{self.query}{hash_}{fragment}"


PLAIN = RequestParts()


def is_plain(rule: Body) -> bool:
    """Whether it is an ordinary GET, apart from headers and cookies."""
    return rule.method in (None, "GET") and rule.form is None and rule.json_ is None and rule.body is None


def names_beside(rule: Body) -> list[str]:
    """The {names} in what a request has besides its URL."""
    beside = [rule.headers, rule.cookies, rule.form, rule.json_, rule.body, getattr(rule, "inherited", None)]
    return names_within([one for one in beside if one])


def request_parts(rule: Body, fill: Fill, *, only_body: bool = False) -> RequestParts:
    """What a rule says, its {names} replaced by `fill`. `only_body`: without headers and cookies of its own."""
    if is_plain(rule) and (only_body or not (rule.headers or rule.cookies)):
        return PLAIN
    method = rule.method or ("GET" if is_plain(rule) else "POST")
    headers = {} if only_body else {name: _text(fill(text)) for name, text in rule.headers.items()}
    cookies = {} if only_body else {name: _text(fill(text)) for name, text in rule.cookies.items()}
    body, kind, query = b"", "", ""
    if rule.form is not None:
        form = fill(rule.form).items()
        pairs = {name: [_text(one) for one in (value if isinstance(value, list) else [value])] for name, value in form}
        encoded = urlencode(pairs, doseq=True)
        if method in ("GET", "HEAD"):
            query = encoded
        else:
            body, kind = encoded.encode(), FORM
    elif rule.json_ is not None:
        body, kind = json.dumps(fill(rule.json_), ensure_ascii=False, default=as_text).encode(), JSON
    elif rule.body is not None:
        body = _text(fill(rule.body)).encode("utf-8", "replace")
    if kind and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = kind
    return RequestParts(method, headers or NOTHING, cookies or NOTHING, body, query)


def _text(value: Any) -> str:
    return "" if value is None else as_text(value)


def all_filled(data: Any, values: Mapping[str, Any]) -> Any:
    """Every text filled; one that is nothing but a name becomes the value itself."""
    if isinstance(data, str):
        whole = NAMED.fullmatch(data)
        return values[whole[2]] if whole and whole[2] in values else filled(data, values)
    if isinstance(data, list):
        return [all_filled(item, values) for item in data]
    if isinstance(data, dict):
        return {filled(key, values): all_filled(value, values) for key, value in data.items()}
    return data
