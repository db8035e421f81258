"""URLs, methods and headers as they may go over the wire. Rejects what could smuggle in a second request before any connection is
opened."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from w3lib.url import safe_url_string
from yarl import URL

from gossamer.model.fetch import BAD_REQUEST, FetchError

_PLAIN = re.compile(r"(https?://[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::[0-9]{1,5})?)(/(?!\.)[!$%&'()*+,\-.0-9:;=?@A-Z_a-z~/]*)")
"""What nearly every URL looks like: sent unchanged."""
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS = frozenset({"content-length", "transfer-encoding"})
LONGEST = 65536


def parts(url: str) -> tuple[str, str] | None:
    """Origin and target of a URL that can be sent unchanged; None for others."""
    found = _PLAIN.fullmatch(url)
    if found is None or "/." in url or len(url) > LONGEST:
        return None
    return found[1], found[2]


def address(url: str) -> tuple[URL, str]:
    """The URL to fetch, without fragment, and the Authorization header that its user and password make."""
    made: URL | None = None
    login = ""
    if parts(url) is not None:
        made = URL(url, encoded=True)
    try:
        if made is None:
            made, login = _made(url)
        # yarl checks the port only when it is used, which is too late.
        if made.port == 0:
            raise ValueError("there is no port 0")
        return made, login
    except (ValueError, UnicodeError) as error:
        raise _refused(url, str(error)) from None


def _made(url: str) -> tuple[URL, str]:
    url = url.strip(" ")
    if len(url) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    if _FORBIDDEN.search(url):
        raise ValueError("it has control characters or lone surrogates")
    split = urlsplit(url)
    scheme = split.scheme.lower()
    if scheme not in ("http", "https"):
        raise ValueError("it does not begin with http:// or https://")
    if not split.hostname or any(sign in split.hostname for sign in " %\\<>\"'"):
        raise ValueError("it has no host")
    host = URL.build(scheme=scheme, host=split.hostname, port=split.port).host_port_subcomponent
    target = url.partition("#")[0].partition("//")[2]
    rest = target[len(split.netloc) :]
    rest = safe_url_string(f"http://h{rest if rest.startswith('/') else f'/{rest}'}").removeprefix("http://h")
    path, mark, query = rest.partition("?")
    if "/." in path:
        path = _without_dots(path)
    login = ""
    if split.username is not None:
        login = basic(unquote(split.username), unquote(split.password or ""))
    return URL(f"{scheme}://{host}{path}{mark}{query}", encoded=True), login


def _without_dots(path: str) -> str:
    """As browsers do; empty segments count."""
    kept: list[str] = []
    first, *names = path.split("/")
    for name in names:
        if name == "..":
            del kept[-1:]
        elif name != ".":
            kept.append(name)
    if names and names[-1] in (".", ".."):
        kept.append("")
    return f"{first}/{'/'.join(kept)}"


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def check_headers(headers: Iterable[tuple[str, str]]) -> None:
    for name, value in headers:
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise FetchError(BAD_REQUEST, f"{name!r} is not a valid header name", False)
        if not isinstance(value, str) or _FORBIDDEN.search(value.replace("\t", "")):
            raise FetchError(
                BAD_REQUEST, f"the header {name} has a value that is not text, or has control characters", False
            )
        if name.lower() in _OURS:
            raise FetchError(BAD_REQUEST, f"the header {name} is computed from the body; remove it", False)


def check_method(method: str) -> None:
    if not _TOKEN.fullmatch(method) or method == "CONNECT":
        raise FetchError(BAD_REQUEST, f"{method!r} is not a method to fetch a page with", False)


def is_own(url: URL, hosts: frozenset[str]) -> bool:
    """Whether a URL is of one of the hosts, or of a subdomain of one."""
    host = url.raw_host or ""
    if ":" in host:
        host = f"[{host}]"
    names = [host]
    if not host[-1:].isdigit():
        labels = host.split(".")
        names += [".".join(labels[number:]) for number in range(1, len(labels))]
    return any(name in hosts or f"{name}:{url.port}" in hosts for name in names)


def referer(before: str, url: str) -> str:
    """The Referer header of `url` for the page that led to it, as browsers send it by default: its URL within one origin, its origin
    alone across origins, nothing from https to http; without user, password and fragment. "" for none."""
    if not before:
        return ""
    one = _parts_of_referrer(before)
    if one is not None and url.startswith(one[0] + "/"):
        return before
    other = parts(url)
    if one is not None and other is not None:
        origin, plain, there = _origin(one[0]), before, _origin(other[0])
    else:
        try:
            link, target = address(before)[0], address(url)[0]
        except FetchError:
            return ""
        origin, plain, there = str(link.origin()), str(link), str(target.origin())
    if origin == there:
        return plain
    if origin.startswith("https:") and not there.startswith("https:"):
        return ""
    return f"{origin}/"


_parts_of_referrer = lru_cache(256)(parts)
"""A page that leads to another one mostly leads to many."""


def _origin(text: str) -> str:
    """An origin without the port that goes without saying."""
    return text.removesuffix(":443" if text.startswith("https:") else ":80")


def _refused(url: str, why: str) -> FetchError:
    return FetchError(BAD_REQUEST, f"{url[:200]!r} cannot be fetched: {why}", False)
