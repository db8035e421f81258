"""What requests have in common, prepared once: for all with the same options, and for those of them to one origin."""

from __future__ import annotations

import ssl
from typing import NamedTuple

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict
from yarl import URL

from gossamer.engine.http import encoding
from gossamer.engine.http.connection.connector import key
from gossamer.engine.http.url import basic, check_headers
from gossamer.model.fetch import BAD_REQUEST, FetchError, FetchOptions

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
MOST_PLACES = 4096


class OriginHead(NamedTuple):
    """What all plain requests to one origin share: `rest` is their head after the first line."""

    url: URL
    key: ConnectionKey
    rest: bytes


class PreparedOptions(NamedTuple):
    """What all requests with the same options share."""

    headers: CIMultiDict[str]
    timeout: aiohttp.ClientTimeout
    login: str
    cookies: bool
    """The headers contain cookies."""
    referer: bool
    """The headers contain a Referer."""
    places: dict[str, OriginHead]
    """By origin."""

    def remember(self, origin: str, url: URL, secure: ssl.SSLContext | bool) -> None:
        """Note that there may be connections to the origin of `url` from now on."""
        if len(self.places) >= MOST_PLACES:
            self.places.clear()
        self.places[origin] = OriginHead(url, key(url, secure), head(url, self.headers))


def prepare(options: FetchOptions) -> PreparedOptions:
    check_headers([("User-Agent", options.user_agent), *options.headers])
    if options.auth and not options.hosts:
        why = (
            "`request.auth` has a user and a password, but the site has no host that may see them; give it a seed there"
        )
        raise FetchError(BAD_REQUEST, why, False)
    headers = CIMultiDict({"User-Agent": options.user_agent, "Accept": ACCEPT, "Accept-Encoding": encoding.ACCEPTED})
    for name, value in options.headers:
        headers.popall(name, None)
        headers[name] = value
    timeout = aiohttp.ClientTimeout(total=options.timeout or None, sock_connect=options.connect_timeout or None)
    login = basic(*options.auth) if options.auth else ""
    return PreparedOptions(headers, timeout, login, "Cookie" in headers, "Referer" in headers, {})


def head(url: URL, headers: CIMultiDict[str]) -> bytes:
    """Everything after the first line of a request, with the empty line at its end."""
    named = [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
    host = next((f"{name}: {value}" for name, value in headers.items() if name.lower() == "host"), "")
    return "\r\n".join([host or f"Host: {url.host_port_subcomponent}", *named, "", ""]).encode()
