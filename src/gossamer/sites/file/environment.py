"""Environment variables in site files: ${NAME}, looked up only when the value is used, never stored with the site."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gossamer.errors import MissingVariable
from gossamer.sites.file.grant import OURS
from gossamer.sites.file.problems import Path, listed
from gossamer.sites.format import Body, RequestRule, SiteSpec

_Rule = TypeVar("_Rule", bound=Body)

BODIES = frozenset({"form", "json_", "body"})
LOGIN_TEXTS = {"url", "page", "headers", "cookies", "form", "json_", "body"}
"""The keys of `login` whose texts may name variables."""
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def revealed(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with every ${NAME} replaced. Raises MissingVariable, which names it."""
    if "${" not in text:
        return text
    known = os.environ if environment is None else environment

    def one(found: re.Match[str]) -> str:
        if found[1] not in known or found[1].upper().startswith(OURS):
            raise MissingVariable(
                f"The environment variable {found[1]} is not set, and the site needs it. Set it, or take ${{{found[1]}}} out."
            )
        return known[found[1]]

    return REFERENCE.sub(one, text)


def places(site: SiteSpec) -> Iterator[tuple[Path, str]]:
    """Every text of a site in which ${NAME} stands for a variable: database, proxies, auth, headers, cookies."""
    if site.database is not None:
        yield ("database",), site.database
    for name, group in site.proxies.items():
        for place, url in enumerate(group.urls):
            yield ("proxies", name, "urls", place), url
    yield from _of_request(site.request, ("request",))
    if site.login is not None:
        yield from texts_within(
            site.login.model_dump(include=LOGIN_TEXTS, by_alias=True, exclude_none=True), ("login",)
        )
    for path, rule in single_requests(site):
        yield from texts_within(_said(rule), path)
    for name, layer in site.layers.items():
        if layer.request is not None:
            yield from _of_request(layer.request, ("layers", name, "request"))


def single_requests(site: SiteSpec) -> Iterator[tuple[Path, Body]]:
    """The rules of seeds and links: their variables are looked up when a request is sent."""
    for place, seed in enumerate(site.seeds):
        yield ("seeds", place), seed
    for name, layer in site.layers.items():
        for place, follow in enumerate(layer.follow):
            yield ("layers", name, "follow", place), follow


def sent_late(site: SiteSpec) -> list[str]:
    """The variables that stand in single requests: those of seeds, of links, and of what all pages of a layer are requested with."""
    rules = [rule for _, rule in single_requests(site)]
    texts = [text for rule in rules for _, text in texts_within(_said(rule), ())]
    requests = [site.request, *(layer.request for layer in site.layers.values() if layer.request is not None)]
    texts += [text for rule in requests for _, text in texts_within(_said(rule, BODIES), ())]
    return list(dict.fromkeys(name for text in texts for name in REFERENCE.findall(text)))


def _said(rule: Body, keys: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What a rule says in the keys whose texts may name variables, as the file writes them."""
    keys = keys or frozenset({"url", "sitemap", "feed", "headers", "cookies"}) | BODIES
    return {
        type(rule).model_fields[name].alias or name: value
        for name in rule.model_fields_set
        if name in keys and (value := getattr(rule, name)) is not None
    }


def _of_request(request: RequestRule, path: Path) -> Iterator[tuple[Path, str]]:
    yield from _of_body(request, path)
    yield from texts_within(_said(request, BODIES), path)
    for place, text in enumerate(request.auth or ()):
        yield (*path, "auth", place), text
    if request.proxy is not None:
        yield (*path, "proxy"), request.proxy


def _of_body(body: Body, path: Path) -> Iterator[tuple[Path, str]]:
    for key in ("headers", "cookies"):
        for name, text in getattr(body, key).items():
            yield (*path, key, name), text


def texts_within(data: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text in some data."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, Mapping):
        for name, value in data.items():
            yield from texts_within(value, (*path, name))
    elif isinstance(data, list | tuple):
        for place, value in enumerate(data):
            yield from texts_within(value, (*path, place))


def variables(site: SiteSpec) -> dict[str, list[Path]]:
    """The variables that a site needs, and where."""
    found: dict[str, list[Path]] = {}
    for path, text in places(site):
        for name in REFERENCE.findall(text):
            found.setdefault(name, []).append(path)
    return found


def missing(site: SiteSpec, environment: Mapping[str, str] | None = None) -> list[str]:
    """The variables that a site needs and that are not set."""
    known = os.environ if environment is None else environment
    return [name for name in variables(site) if name not in known]


def wrong_references(site: SiteSpec) -> Iterator[tuple[Path, str, str]]:
    """Where ${ begins no name of a variable, or the name of one that is never read: path, message, hint."""
    for path, text in places(site):
        if "${" in REFERENCE.sub("", text):
            yield path, "${ begins a variable here, and it has no name or no }", "as ${SITE_PASSWORD}"
        if (
            path[0] != "login"
            and path[-1] in ("url", "sitemap", "feed")
            and "${" in text.partition("//")[2].split("/")[0]
        ):
            yield path, "the host of a URL cannot be a variable", "write it out, or name it in params"
        for name in REFERENCE.findall(text):
            if name.upper().startswith(OURS):
                yield path, f"{name} is a setting of Gossamer, which no site file may read", "use a variable of its own"


def revealed_site(site: SiteSpec, environment: Mapping[str, str] | None = None) -> SiteSpec:
    """The site with ${NAME} looked up, but for single requests (`sent_late`): for use, never to be stored. Raises MissingVariable."""
    if not variables(site):
        return site
    if lacking := missing(site, environment):
        names = f"variable {lacking[0]} is" if len(lacking) == 1 else f"variables {listed(lacking)} are"
        raise MissingVariable(
            f"The environment {names} not set, and the site {site.site} needs it. Set it, or take it out of the site file."
        )

    def text(value: str) -> str:
        return revealed(value, environment)

    def body(rule: _Rule) -> _Rule:
        changed: dict[str, Any] = {
            key: {name: text(value) for name, value in getattr(rule, key).items()}
            for key in ("headers", "cookies")
            if key in rule.model_fields_set
        }
        if isinstance(rule, RequestRule):
            if rule.auth is not None:
                changed["auth"] = tuple(map(text, rule.auth))
            if rule.proxy is not None:
                changed["proxy"] = text(rule.proxy)
        return rule.model_copy(update=changed)

    layers = {
        name: layer if layer.request is None else layer.model_copy(update={"request": body(layer.request)})
        for name, layer in site.layers.items()
    }
    return site.model_copy(
        update={
            "layers": layers,
            "request": body(site.request),
            "proxies": {
                name: group.model_copy(update={"urls": tuple(map(text, group.urls))})
                for name, group in site.proxies.items()
            },
            "database": None if site.database is None else text(site.database),
        }
    )
