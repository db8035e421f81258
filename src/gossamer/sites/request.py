"""What a request carries, from what a site file says: method, headers, cookies, body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gossamer.model.page import NOTHING
from gossamer.sites.file.params import NAMED, filled, names_within, shown
from gossamer.sites.format import Body

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


class RequestParts(NamedTuple):
    """How a page is asked for; `query` is what a form that is sent by GET adds to the URL."""

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
    """Whether it is an ordinary GET, but for headers and cookies."""
    return rule.method in (None, "GET") and rule.form is None and rule.json_ is None and rule.body is None


def names_beside(rule: Body) -> list[str]:
    """The {names} of what a request carries beside its URL."""
    beside = [rule.headers, rule.cookies, rule.form, rule.json_, rule.body, getattr(rule, "inherited", None)]
    return names_within([one for one in beside if one])


def request_parts(rule: Body, values: Mapping[str, Any], *, only_body: bool = False) -> RequestParts:
    """What a rule says, with {names} filled. `only_body`: without headers and cookies of its own."""
    if is_plain(rule) and (only_body or not (rule.headers or rule.cookies)):
        return PLAIN
    method = rule.method or ("GET" if is_plain(rule) else "POST")
    headers = {} if only_body else {name: filled(text, values) for name, text in rule.headers.items()}
    cookies = {} if only_body else {name: filled(text, values) for name, text in rule.cookies.items()}
    body, kind, query = b"", "", ""
    if rule.form is not None:
        pairs = urlencode(
            {filled(name, values): _texts(value, values) for name, value in rule.form.items()}, doseq=True
        )
        if method in ("GET", "HEAD"):
            query = pairs
        else:
            body, kind = pairs.encode(), FORM
    elif rule.json_ is not None:
        body, kind = json.dumps(all_filled(rule.json_, values), ensure_ascii=False, default=str).encode(), JSON
    elif rule.body is not None:
        body = filled(rule.body, values).encode("utf-8", "replace")
    if kind and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = kind
    return RequestParts(method, headers or NOTHING, cookies or NOTHING, body, query)


def _texts(value: Any, values: Mapping[str, Any]) -> list[str]:
    return [shown(all_filled(one, values)) for one in (value if isinstance(value, list) else [value])]


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
