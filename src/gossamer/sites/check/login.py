"""Whether the login of a site can be used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gossamer.sites.check import expressions
from gossamer.sites.check.layer import check_fields, check_method
from gossamer.sites.file.environment import REFERENCE
from gossamer.sites.file.params import filled, names_in
from gossamer.sites.file.problems import Path, did_you_mean
from gossamer.sites.format import Format, RequestRule

if TYPE_CHECKING:
    from gossamer.sites.check.site import Checker

_PASSWORD = re.compile(r"pass|pwd|secret", re.IGNORECASE)


def check_login(checker: Checker) -> None:
    rule = checker.site.login
    if rule is None:
        return
    path: Path = ("login",)
    single = checker.params.single()
    for key, url in (("url", rule.url), ("page", rule.page)):
        if url is None:
            continue
        if unknown := [name for name in names_in(url) if name not in single]:
            hint = did_you_mean(unknown[0], sorted(single)) or "name it in params"
            checker.add((*path, key), f"{{{unknown[0]}}} is not a parameter with one value", hint)
        elif not re.match(r"https?://[^/?#\s]", REFERENCE.sub("x", filled(url, single)), re.IGNORECASE):
            checker.add((*path, key), f"{url!r} is not a URL", "as https://example.com/login")
    if rule.form is None and rule.json_ is None and rule.body is None and rule.method is None:
        checker.add(path, "nothing says what is sent to log in", "write form, json or body")
    check_method(checker, rule, path)
    check_fields(checker, rule.fields, (*path, "fields"), Format.HTML)
    checker.must(expressions.css, rule.check.css, (*path, "check", "css"))
    checker.must(expressions.regex, rule.expires.redirect, (*path, "expires", "redirect"))
    requests: list[tuple[Path, RequestRule | None]] = [((), checker.site.request)]
    requests += [(("layers", name), layer.request) for name, layer in checker.site.layers.items()]
    for at, request in requests:
        if request is not None and request.session == "none":
            said = "without a session there is nothing to log in to"
            checker.add((*at, "request", "session"), said, "leave session out")
    known = {*rule.fields, *single}
    for where, text in _texts(rule):
        for name in names_in(text):
            if name not in known:
                hint = did_you_mean(name, sorted(known)) or "name it in login.fields"
                checker.add((*path, *where), f"{{{name}}} is not a field of the login page, nor a parameter", hint)
        if _PASSWORD.search(str(where[-1])) and text and "$" not in text and "{" not in text:
            checker.warn(
                (*path, *where),
                "this looks like a password, and everybody who reads the file can see it",
                "write ${SITE_PASSWORD}",
            )


def _texts(rule: Any) -> Iterator[tuple[Path, str]]:
    for key in ("headers", "cookies", "form"):
        for name, value in (getattr(rule, key) or {}).items():
            if isinstance(value, str):
                yield (key, name), value
    if isinstance(rule.json_, dict):
        yield from ((("json", name), value) for name, value in rule.json_.items() if isinstance(value, str))
    if rule.body is not None:
        yield ("body",), rule.body
