"""Addresses on a page as absolute URLs, as a browser makes them from an `href`."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, urljoin, urlsplit

from w3lib.url import safe_url_string

LONGEST = 8_000
"""Maximum characters of a URL; longer ones are skipped."""
# What comes out as it went in, whatever the base: no escapes, no dots or slashes that could be taken away, no fragment.
_SEGMENT = r"[A-Za-z0-9\-_~!$&'()*+,:@=][A-Za-z0-9\-._~!$&'()*+,:@=]*"
_QUERY = r"(?:\?[A-Za-z0-9\-._~!$()*+,:@=/?&]+)?"
_HOST = (
    r"(?:[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]*[a-z][a-z0-9-]*)+|localhost|(?:[1-9][0-9]?[0-9]?)(?:\.(?:0|[1-9][0-9]?)){3})"
)
_WHOLE = re.compile(
    rf"https?://{_HOST}(?::(?:[1-9][0-9]{{1,3}}|[1-5][0-9]{{4}}|6[0-4][0-9]{{3}}))?(?=/)(?:/{_SEGMENT})*/?{_QUERY}"
).fullmatch
_ROOTED = re.compile(rf"(?:/{_SEGMENT})+/?{_QUERY}").fullmatch
_BESIDE = re.compile(rf"[A-Za-z0-9_~][A-Za-z0-9\-._~!$&'()*+,@=]*(?:/{_SEGMENT})*/?{_QUERY}").fullmatch
_ASKING = re.compile(_QUERY).fullmatch
_ENDS = "".join(map(chr, range(33)))
_INSIDE = str.maketrans("", "", "\t\n\r")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_HOSTLESS = re.compile(r"(?:https?:)?//(?:[/?#:@]|$)", re.IGNORECASE).match
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match


class TooLong(ValueError):
    """An address that is longer than URLs may be."""


class PageUrls:
    """The addresses of one page. `find_codec` finds its character set, in which browsers write a query; it is called once at most."""

    __slots__ = ("_base", "_codec", "_directory", "_find_codec", "_origin", "_path")

    def __init__(self, base: str, find_codec: Callable[[], str]) -> None:
        self._base = base
        self._codec, self._find_codec = "", find_codec
        plain = _WHOLE(base)
        self._origin = self._directory = self._path = ""
        if plain:
            self._path = path = base.partition("?")[0]
            self._origin = path[: path.index("/", 8)]
            self._directory = path[: path.rindex("/") + 1]

    def absolute(self, address: str) -> str:
        """The absolute URL with its fragment, unchanged for other schemes than http. ValueError says why there is none."""
        if self._origin and len(address) <= LONGEST:
            if _ROOTED(address):
                return self._origin + address
            if _BESIDE(address):
                return self._directory + address
            if _WHOLE(address):
                return address
            if address and _ASKING(address):
                return self._path + address
        return self._long_way(address)

    def _long_way(self, address: str) -> str:
        address = address.strip(_ENDS).translate(_INSIDE)
        if len(address) > LONGEST:
            raise TooLong(f"an address of {len(address)} characters is longer than {LONGEST}: {address[:100]!r} …")
        scheme = _SCHEME(address)
        if scheme and scheme[0].lower() not in ("http:", "https:"):
            return address
        path, mark, query = address.partition("?")
        path = path.replace("\\", "/")
        url = urljoin(self._base, path + mark + query)
        parts = urlsplit(url)
        if _HOSTLESS(path) or not parts.hostname:
            raise ValueError(f"{address[:100]!r} has no host")
        if "/." in parts.path:
            url = urljoin(url, parts._replace(scheme="", netloc="").geturl())
        url = self._escaped(url)
        if not url.isascii():
            raise ValueError(f"{address[:100]!r} has a host that cannot be")
        if len(url) > LONGEST:
            raise TooLong(f"an address of {len(url)} characters is longer than {LONGEST}: {url[:100]!r} …")
        return url

    def _escaped(self, url: str) -> str:
        if url.isascii():
            return safe_url_string(url)
        self._codec = codec = self._codec or self._find_codec()
        if codec.startswith(("utf", "ascii")):
            return safe_url_string(url.encode("utf-8", "replace").decode())
        # What the page's own character set does not have, browsers write as a character reference.
        before, mark, query = url.partition("?")
        query, hash, fragment = query.partition("#")
        query = "".join(
            letter if letter.isascii() else quote(letter.encode(codec, "xmlcharrefreplace"), safe="")
            for letter in query
        )
        return safe_url_string((before + mark + query + hash + fragment).encode("utf-8", "replace").decode())
