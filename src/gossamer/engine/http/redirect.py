"""Redirects, hop by hop: where a response leads, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urljoin, urlsplit

from w3lib.url import safe_url_string

from gossamer.engine.http.credentials import is_own_url, is_secret
from gossamer.model.fetch import PROTOCOL, REDIRECT_LOOP, FetchError
from gossamer.model.page import PageRequest, Response

STATUSES = frozenset({301, 302, 303, 307, 308})
AGAIN = 3
"""How often a URL may lead to itself while each response sets cookies: some sites begin a session that way."""
_PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
_OF_A_PAGE = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"})
"""Headers that concern one page only."""
_OF_A_BODY = frozenset(
    {"content-type", "content-length", "content-encoding", "content-language", "content-location", "digest"}
)
_PORTS = {"http": 80, "https": 443}


def location(response: Response) -> str | None:
    """Where a redirect leads, as an absolute URL without fragment; None for every other response, and for a redirect
    without a target."""
    if response.status not in STATUSES:
        return None
    said = response.headers.get("location", "").strip()
    return _resolved(response.url, said) if said else None


def follow(request: PageRequest, response: Response, trail: Sequence[str] = (), limit: int = 10) -> PageRequest | None:
    """The next request, or None if the response is not a redirect. `trail` are the URLs before this one; `limit` hops are
    followed, and 0 treats a redirect as an ordinary page."""
    target = location(response) if limit else None
    return next_hop(request, response, target, trail, limit) if target is not None else None


def next_hop(
    request: PageRequest, response: Response, target: str, trail: Sequence[str] = (), limit: int = 10
) -> PageRequest:
    """The request for `target`. It drops what only the former host may see if the host changes or the connection is no longer
    secure, and what looks like a secret if the host is not one of the site's own."""
    if urlsplit(target).scheme not in _PORTS:
        raise FetchError(PROTOCOL, f"a redirect leads to {target[:200]}, which is not a page", False)
    if len(trail) >= limit:
        raise FetchError(
            REDIRECT_LOOP,
            f"more than {limit} redirects in a row (`request.redirects`), the last to {target[:200]}",
            False,
        )
    before = [*trail, request.url]
    method = next_method(request.method, response.status)
    # A page may set a cookie and lead to itself, also by way of another page that looks for the cookie.
    often = AGAIN if response.cookies else 1 if target == request.url else 2
    if method == request.method and before.count(target) >= often:
        raise FetchError(REDIRECT_LOOP, f"{target[:200]} leads to itself again", False)
    keep = same_place(request.url, target)
    headers, body = _without(request.headers, _OF_A_PAGE), request.body
    if not keep:
        headers = _without(headers, _PRIVATE)
        if headers and not (request.options.hosts and is_own_url(target, request.options)):
            headers = {name: value for name, value in headers.items() if not is_secret(name)}
    if method != request.method:
        headers, body = _without(headers, _OF_A_BODY), b""
    return request._replace(
        url=target, method=method, headers=headers, cookies=request.cookies if keep else {}, body=body
    )


def next_method(method: str, status: int) -> str:
    """As browsers do: 303 and a page that sends on (meta refresh) turn into GET, 301 and 302 turn POST into GET, 307 and 308 change
    nothing."""
    if ((status == 303 or status not in STATUSES) and method != "HEAD") or (status in (301, 302) and method == "POST"):
        return "GET"
    return method


def same_place(one: str, other: str) -> bool:
    """Whether the host of `other` may see what the host of `one` may see: host and port are the same, or only a plain connection
    has become a secure one."""
    a, b = urlsplit(one), urlsplit(other)
    if a.hostname != b.hostname:
        return False
    ports = (a.port or _PORTS.get(a.scheme), b.port or _PORTS.get(b.scheme))
    return (a.scheme == b.scheme and ports[0] == ports[1]) or (a.scheme == "http" and ports == (80, 443))


def _resolved(base: str, said: str) -> str:
    try:
        # Servers send raw UTF-8 in headers, which arrives as latin-1 or surrogates; blanks and tabs are common.
        text = said.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return safe_url_string(urljoin(base, text).partition("#")[0])
    except ValueError as error:
        raise FetchError(
            PROTOCOL, f"a redirect leads to {said[:200]!r}, which is not a URL ({error})", False
        ) from error


def _without(headers: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names} if headers else headers
