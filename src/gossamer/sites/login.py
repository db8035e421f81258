"""The login of a site: what to request, and what its responses mean. Pure; secrets are looked up here and go nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gossamer.errors import SiteError
from gossamer.model import host_of
from gossamer.model.page import PageRequest, Response
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.extract.fields import FieldOptions, compile_fields, fill
from gossamer.sites.extract.layer import compile_layer
from gossamer.sites.extract.validity import has
from gossamer.sites.file.environment import REFERENCE, revealed
from gossamer.sites.file.params import filled
from gossamer.sites.format import FieldRule, Format, Layer, LoginCheck, LoginRule, Valid
from gossamer.sites.page import PageVerdict
from gossamer.sites.request import all_filled, request_parts
from gossamer.sites.url.match import pattern_of

LOGIN = "_login"
"""Stands for the name of a layer."""
_FOUND = "found"
_PASSWORD = re.compile(rb"<input\s[^<>]*?\btype\s*=\s*[\"']?password\b", re.IGNORECASE)


class Login:
    """`secrets` are the environment variables that the site may read."""

    def __init__(self, rule: LoginRule, site: SiteContext, secrets: Mapping[str, str]) -> None:
        places = {"url": filled(rule.url, site.params), "page": rule.page and filled(rule.page, site.params)}
        self.rule = rule = rule.model_copy(update=places)
        self._site, self._secrets = site, secrets
        wrong: list[str] = []
        options = FieldOptions(
            Format.HTML, lambda path, message: wrong.append(f"{'.'.join(map(str, path))}: {message}")
        )
        self._fields = compile_fields(rule.fields, options)
        if wrong:
            raise SiteError(f"The login cannot be used: {'; '.join(wrong)}")
        check = rule.check
        valid = Valid(status=check.status, contains=check.contains, lacks=check.lacks)
        found = {} if check.css is None else {_FOUND: FieldRule(css=check.css)}
        seen = Layer.model_validate({"valid": valid, "fields": found, "require": tuple(found)})
        self._check = compile_layer(LOGIN, seen, site)
        self._statuses, self._texts = frozenset(rule.expires.status), rule.expires.contains
        self._redirect = pattern_of(rule.expires.redirect) if rule.expires.redirect is not None else None
        urls = [revealed(url, secrets) for url in (rule.url, rule.page) if url is not None]
        self.hosts = frozenset(host for url in urls if (host := host_of(url)))
        """The hosts that see what is sent."""
        self._page = _place(revealed(rule.page or rule.url, secrets))

    def page(self) -> PageRequest | None:
        """The page to read first, if there is one."""
        if not self.rule.fields and self.rule.page is None:
            return None
        return PageRequest(revealed(self.rule.page or self.rule.url, self._secrets), layer=LOGIN)

    def fields(self, response: Response) -> tuple[dict[str, Any], str]:
        """The values of the login page, and what it lacks ("" for nothing)."""
        if not 200 <= response.status <= 299:
            return {}, f"status {response.status}"
        page = PageContent(response, LOGIN, Format.HTML, None, self._site)
        values = fill(page, [None], self._fields)[0] if self.rule.fields else {}
        lacking = [name for name in self.rule.fields if values.get(name) in (None, "")]
        return values, f"lacks {', '.join(lacking)}" if lacking else ""

    def request(self, values: Mapping[str, Any]) -> PageRequest:
        """What is sent to log in."""
        known = {**self._site.params, **values}
        parts = request_parts(self.rule, lambda data: self._filled(data, known))
        url = parts.url(revealed(self.rule.url, self._secrets))
        return PageRequest(url, parts.method, parts.headers, parts.cookies, parts.body, LOGIN)

    def _filled(self, data: Any, values: Mapping[str, Any]) -> Any:
        """As `all_filled`, with variables looked up. What stands for a name is never searched for either: a page, or a password, may
        have anything in it."""
        if isinstance(data, str):
            if "${" not in data:
                return all_filled(data, values)
            parts = REFERENCE.split(data)
            return "".join(
                revealed(f"${{{part}}}", self._secrets) if place % 2 else str(all_filled(part, values))
                for place, part in enumerate(parts)
            )
        if isinstance(data, dict):
            return {name: self._filled(value, values) for name, value in data.items()}
        return [self._filled(value, values) for value in data] if isinstance(data, list) else data

    def refused(self, response: Response) -> str:
        """Why a login did not work, seen on the page that followed; "" if it did."""
        reading = self._check.read(response)
        if reading.verdict is PageVerdict.INVALID:
            return reading.reason.replace("valid.", "login.check.")
        if reading.verdict is PageVerdict.LACK:
            return f"nothing on the page is {self.rule.check.css} (login.check.css)"
        # Whoever says what to look for knows a page that has a form all the same.
        return self.over(response, form=self.rule.check == LoginCheck())

    def over(self, response: Response, target: str | None = None, *, form: bool = True) -> str:
        """What on a page shows that the session is over, "" for nothing. `target` is where it redirects to; `form`: a form to log in
        does, unless the file says otherwise."""
        if response.status in self._statuses:
            return f"status {response.status} (login.expires.status)"
        if target is not None:
            if _place(target) == self._page if self._redirect is None else self._redirect.search(target):
                return "it redirects to the login page (login.expires.redirect)"
            return ""
        if self._texts:
            page = PageContent(response, LOGIN, Format.HTML, None, self._site)
            for text in self._texts:
                if has(page, text):
                    return f"it has the text {text!r} (login.expires.contains)"
        if form and self.rule.expires.form and _is_html(response) and _PASSWORD.search(response.body):
            return "it has a field for a password (login.expires.form)"
        return ""


def _is_html(response: Response) -> bool:
    return "html" in response.headers.get("content-type", "html").lower()


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc.lower(), parts.path.rstrip("/")
