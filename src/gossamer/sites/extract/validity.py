"""Whether a page is the one that was asked for: signs of a wall, the rules of `valid`, and the fields of `require`.

A wall is a challenge or a captcha that comes instead of the page, or nothing at all. Only sure signs count, since an article may well be
about captchas: what a service documents as the mark of its challenges, what no page has, and the texts that a layer's `valid` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urljoin

from gossamer.model.page import Response
from gossamer.sites.extract.content import PageContent, WrongFormat
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.extract.regex import Pattern
from gossamer.sites.extract.turns import MARK
from gossamer.sites.extract.types import shown
from gossamer.sites.format import Format, Layer, Valid
from gossamer.sites.page import LimitExceeded

Check = Callable[[PageContent], str]
# Where a character never begins within another one, bytes can be searched instead of text.
SEARCHABLE = ("utf-8", "ascii", "cp125", "iso8859", "koi8", "latin")


def accepts(valid: Valid) -> Callable[[int], bool]:
    """What says whether pages of a status are read."""
    statuses = frozenset(valid.status)
    return (lambda status: status in statuses) if statuses else (lambda status: 200 <= status <= 299)


def compile_valid(valid: Valid) -> Check:
    """What says why a page is not the one asked for: "" if it is."""
    statuses, is_accepted = frozenset(valid.status), accepts(valid)
    content_type = Pattern(valid.content_type, ignore_case=True) if valid.content_type is not None else None
    rest = bool(valid.min_length or valid.min_characters or valid.contains or valid.lacks or content_type)

    def check(page: PageContent) -> str:
        document = page.document
        if not is_accepted(document.status):
            read = f"valid.status: {', '.join(map(str, sorted(statuses)))}" if statuses else "valid.status: 200 to 299"
            return f"status {document.status} ({read})"
        if not rest:
            return ""
        if len(document.body) < valid.min_length:
            return f"{len(document.body)} bytes are fewer than {valid.min_length} (valid.min_length)"
        # No character takes more than four bytes.
        least = valid.min_characters
        if least and len(document.body) < 4 * least and (count := len(page.text())) < least:
            return f"{count} characters are fewer than {least} (valid.min_characters)"
        if content_type is not None:
            given = document.headers.get("content-type", "")
            if not content_type.matches(given, page):
                return f"Content-Type {shown(given)} does not match {content_type.text!r} (valid.content_type)"
        for text in valid.contains:
            if not has(page, text):
                return f"lacks the text {shown(text)} (valid.contains)"
        return unwanted(page, valid)

    return check


def unwanted(page: PageContent, valid: Valid) -> str:
    """Which text is on a page that must not be there."""
    for text in valid.lacks:
        if has(page, text):
            return f"has the text {shown(text)} (valid.lacks)"
    return ""


def has(page: PageContent, text: str) -> bool:
    """Whether a text is on the page, without decoding it where that makes no difference."""
    if text.isascii() and page.codec().startswith(SEARCHABLE):
        return text.encode() in page.body()
    return text in page.text()


def compile_required(require: tuple[str | tuple[str, ...], ...]) -> Callable[[Mapping[str, Any]], str]:
    """What names the required fields that are empty in a record: "" if none is. 0 and false are not empty."""
    wanted = [(one,) if isinstance(one, str) else one for one in require]

    def lacking(fields: Mapping[str, Any]) -> str:
        return ", ".join(
            names[0] if len(names) == 1 else f"one of {' or '.join(names)}"
            for names in wanted
            if all(empty(fields.get(name)) for name in names)
        )

    return lacking


CONTAINERS = str, list, dict, bytes


def empty(value: Any) -> bool:
    return not value and (value is None or isinstance(value, CONTAINERS))


EMPTY_MAX_BYTES = 64
"""A longer body has more than white space."""


class Sign(NamedTuple):
    """A mark of a service's challenges, and the month in which it was noted here."""

    service: str
    noted: str
    header: str = ""
    values: frozenset[str] = frozenset()
    path: str = ""
    """Where its challenges are, on any host unless it begins with one."""


SIGNS = (
    Sign("Cloudflare", "2026-11", header="cf-mitigated", values=frozenset({"challenge"})),
    Sign("AWS WAF", "2026-11", header="x-amzn-waf-action", values=frozenset({"challenge", "captcha"})),
    Sign("Vercel", "2026-11", header="x-vercel-mitigated", values=frozenset({"challenge"})),
    Sign("Cloudflare", "2026-11", path="/cdn-cgi/challenge-platform"),
    Sign("Cloudflare", "2026-11", path="/cdn-cgi/l/chk_jschl"),
    Sign("Cloudflare", "2026-11", path="/cdn-cgi/l/chk_captcha"),
    Sign("Imperva", "2026-11", path="/_Incapsula_Resource"),
    Sign("DataDome", "2026-11", path="geo.captcha-delivery.com/"),
    Sign("Google", "2026-11", path="www.google.com/sorry"),
    Sign("Amazon", "2026-11", path="/errors/validateCaptcha"),
    Sign("Yandex", "2026-11", path="/showcaptcha"),
    Sign("Anubis", "2026-11", path="/.within.website/x/cmd/anubis"),
)
_HEADERS = tuple((sign.header, sign.values, sign.service) for sign in SIGNS if sign.header)
_PATHS = {sign.path: sign.service for sign in SIGNS if sign.path}
_PATH = re.compile(
    r"https?://(?:[^/?#]*(?=/))?({})(?:[/?#]|$|(?<=/))".format(
        "|".join(re.escape(path) for path in _PATHS),
    )
)


def sign_of(response: Response, target: str | None = None) -> str:
    """The sign that a response is a wall, whatever its layer; "" for none. `target` is where it redirects to, if that is known."""
    headers = response.headers
    for name, values, service in _HEADERS:
        value = headers.get(name)
        if value is not None and value.strip().lower() in values:
            return f"the header {name}: {value.strip().lower()} of {service}"
    if target is None and 300 <= response.status < 400 and (location := headers.get("location")):
        try:
            target = urljoin(response.url, location.strip())
        except ValueError:
            target = None
    if target is not None and (service := challenge_path(target)):
        return f"it redirects to a challenge of {service}: {shown(target)}"
    if service := challenge_path(response.url):
        return f"its URL is that of a challenge of {service}"
    return ""


def challenge_path(url: str) -> str:
    """The service whose challenge is at this URL; "" for none."""
    found = _PATH.match(url)
    return _PATHS[found[1]] if found is not None else ""


def compile_blocked(name: str, layer: Layer, site: SiteContext) -> Callable[[Response], str]:
    """What says by which sign a response is a wall instead of a page of this layer: "" if it shows none."""
    is_accepted = accepts(layer.valid)
    is_never_empty = layer.format in (Format.HTML, Format.XML, Format.JSON) and _reads_content(layer)

    def blocked(response: Response) -> str:
        if sign := sign_of(response):
            return sign
        if is_never_empty and response.status == 200 and _is_empty(response):
            return "status 200 with an empty body"
        if layer.valid.lacks and is_accepted(response.status):
            with suppress(WrongFormat, LimitExceeded):  # Which is said when it is read.
                return unwanted(PageContent(response, name, layer.format, layer.encoding, site), layer.valid)
        return ""

    return blocked


def _reads_content(layer: Layer) -> bool:
    """Whether anything of its pages is looked at."""
    if layer.handler is not None or layer.records is not None:
        return True
    return any(follow.url is None and follow.source == "content" for follow in layer.follow) or any(
        field.source == "content" and "value" not in field.model_fields_set
        for field in (*layer.fields.values(), *layer.page.values())
    )


def _is_empty(response: Response) -> bool:
    """Whether nothing came: no answer to HEAD, which says how long the page would be, and no page turn that a rule counts, since these may
    end so."""
    if len(response.body) > EMPTY_MAX_BYTES or response.body.strip() or MARK in response.inherited:
        return False
    announced = response.headers.get("content-length", "0")
    return announced.strip() in ("", "0") or bool(response.body) or "content-encoding" in response.headers
