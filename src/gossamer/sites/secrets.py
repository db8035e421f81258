"""Environment variables in single requests: ${NAME} stays in them until they are sent, and comes back right after.

So no queue, dead letter, log, row or export has a value in it, and a page is the same page with another key. Only names that a rule
of the file puts into a request are looked up in it: what a page says is never taken for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from gossamer.model.fetch import BAD_REQUEST, FetchError
from gossamer.model.page import PageRequest, Response
from gossamer.sites.file.environment import REFERENCE
from gossamer.sites.request import FORM, JSON

WRITTEN = re.compile(r"(?:\$|%24)(?:\{|%7[Bb])([A-Za-z_][A-Za-z0-9_]*)(?:\}|%7[Dd])")
"""A variable as it stands in a URL or a form: encoded, or not."""
SHORTEST = 6
"""Shorter values are not looked for in what a server sends: they may be anything."""


def names_of(*values: Any) -> tuple[str, ...]:
    """The variables that some texts name."""
    found: dict[str, None] = {}

    def look(value: Any) -> None:
        if isinstance(value, str):
            found.update(dict.fromkeys(REFERENCE.findall(value)))
        elif isinstance(value, Mapping):
            for one in value.values():
                look(one)
        elif isinstance(value, list | tuple):
            for one in value:
                look(one)

    look(values)
    return tuple(found)


class Secrets:
    """The values of a site's variables, by name."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        long = {name: value for name, value in values.items() if len(value) >= SHORTEST}
        shown = {
            form: name for name, value in long.items() for form in (quote(value, safe=""), quote_plus(value), value)
        }
        self._named_by = shown
        self._shown = sorted(shown.items(), key=lambda one: -len(one[0]))
        forms = "|".join(re.escape(form) for form, _ in self._shown)
        self._arguments = re.compile(rf"(?<==)(?:{forms})(?=[&#]|$)") if forms else None

    def revealed(self, request: PageRequest, own: bool) -> PageRequest:
        """The request as it is sent. `own`: it goes to a host of the site; others get no header or cookie with a variable in it, and a
        URL or body with one is a FetchError."""
        names = request.secrets
        if not names:
            return request
        if unknown := [name for name in names if name not in self._values]:
            raise FetchError(BAD_REQUEST, f"${{{unknown[0]}}} is not a variable of this site", False)
        headers, cookies = (self._named(given, names, own) for given in (request.headers, request.cookies))
        url = self._written(request.url, names, lambda value: quote(value, safe=""))
        body = self._body(request, names)
        if not own and (url != request.url or body != request.body):
            why = f"its URL or body has ${{{names[0]}}}, which only the site's own hosts may see; name its host in politeness.hosts"
            raise FetchError(BAD_REQUEST, why, False)
        return request._replace(url=url, headers=headers, cookies=cookies, body=body)

    def _named(self, given: Mapping[str, str], names: Iterable[str], own: bool) -> Mapping[str, str]:
        allowed = set(names)
        made = {}
        for name, text in given.items():
            if allowed.isdisjoint(REFERENCE.findall(text)):
                made[name] = text
            elif own:
                made[name] = REFERENCE.sub(
                    lambda found: self._values[found[1]] if found[1] in allowed else found[0], text
                )
        return made

    def _written(self, text: str, names: Iterable[str], encode: Callable[[str], str]) -> str:
        allowed = set(names)
        return WRITTEN.sub(lambda found: encode(self._values[found[1]]) if found[1] in allowed else found[0], text)

    def _body(self, request: PageRequest, names: Iterable[str]) -> bytes:
        if b"$" not in request.body and b"%24" not in request.body:
            return request.body
        kind = next((value for name, value in request.headers.items() if name.lower() == "content-type"), "")
        text = request.body.decode("utf-8", "surrogateescape")
        encode: Callable[[str], str] = str
        if kind.startswith(FORM):
            encode = quote_plus
        elif kind.startswith(JSON):
            encode = _in_json
        return self._written(text, names, encode).encode("utf-8", "surrogateescape")

    def hidden(self, text: str) -> str:
        """A text with names instead of values."""
        return self.named(text)[0]

    def named(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The same, and which names these are."""
        found: dict[str, None] = {}
        for form, name in self._shown:
            if form in text:
                text = text.replace(form, f"${{{name}}}")
                found[name] = None
        return text, tuple(found)

    def in_urls(self, value: Any) -> Any:
        """A value of a record, with names instead of values where these are arguments of a URL: some servers repeat a key in their
        links. Elsewhere a value may be a word like another."""
        if isinstance(value, str):
            if self._arguments is None or not value.startswith(("http://", "https://")):
                return value
            return self._arguments.sub(lambda found: f"${{{self._named_by[found[0]]}}}", value)
        if isinstance(value, dict):
            return {name: self.in_urls(one) for name, one in value.items()}
        return [self.in_urls(one) for one in value] if isinstance(value, list) else value

    def response(self, response: Response, request: PageRequest) -> Response:
        """What came back for a request, without the values that were sent with it."""
        if not request.secrets:
            return response
        sent = response.sent
        if sent is not None:
            sent = self.hidden(sent.decode("latin-1")).encode("latin-1", "replace")
        headers = response.headers
        if "location" in headers:
            headers = {**headers, "location": self.hidden(headers["location"])}
        return response._replace(url=request.url, headers=headers, sent=sent)


def _in_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]
