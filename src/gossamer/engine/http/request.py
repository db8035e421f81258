"""What is asked of the fetching half of the engine, what comes back, and how it fails. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import gossamer
from gossamer.sites.url.network import ANYWHERE, PRIVATE_ADDRESS, NetworkGuard

AGENT = f"gossamer/{gossamer.__version__}"
NOTHING: Mapping[str, str] = {}

TIMEOUT = "timeout"
"""No connection, no further byte, or not the whole answer in time."""
CONNECT = "connect"
DNS = "dns"
TLS = "tls"
RESET = "reset"
"""The connection ended before the answer had begun, or in the middle of it and not in good order."""
TOO_LARGE = "too_large"
"""More bytes than allowed, as sent or as decoded."""
BAD_ENCODING = "bad_encoding"
BAD_LENGTH = "bad_length"
"""The connection ended in good order before the announced end of the body."""
PROTOCOL = "protocol"
"""The answer is not HTTP, or its head is too large."""
PROXY = "proxy"
REDIRECT_LOOP = "redirect_loop"
BAD_REQUEST = "bad_request"
"""Refused before anything was sent: a URL, method or header that cannot be, or options that contradict each other."""

REASONS = (
    PRIVATE_ADDRESS,
    TIMEOUT,
    CONNECT,
    DNS,
    TLS,
    RESET,
    TOO_LARGE,
    BAD_ENCODING,
    BAD_LENGTH,
    PROTOCOL,
    PROXY,
    REDIRECT_LOOP,
    BAD_REQUEST,
)


class FetchOptions(NamedTuple):
    """How a layer's pages are asked for. Made once per layer: the fetcher prepares itself for each and finds it again by
    its value. `timeout` holds for the whole answer, `read_timeout` for the wait for the next byte; 0 is no limit."""

    timeout: float = 60.0
    connect_timeout: float = 15.0
    read_timeout: float = 30.0
    max_size: int = 32 * 2**20
    """Bytes of a body, as sent and as decoded."""
    user_agent: str = AGENT
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request, with their case as it is here; those of an Ask go before them."""
    auth: tuple[str, str] | None = None
    """User and password, sent to `hosts` only."""
    hosts: frozenset[str] = frozenset()
    """The site's own hosts, lower case, as `host` or `host:port`; a name stands for the names below it, too."""
    session: bool = True
    """Whether cookies of answers are kept for the site and sent again."""
    proxy: str = ""
    """A group of the site's proxies, or a URL."""
    verify: bool | str = True
    """Whether certificates are checked; a text is a file of certificate authorities."""
    raw: bool = False
    """Whether request and answer are wanted as they went over the wire, for an archive."""
    cut: bool = False
    """Whether a body over `max_size` is cut there instead of being a failure."""
    fetched_by_scrapy: str = ""
    """The layer's name where somebody else's downloader fetches its pages (`ScrapyFetcher`)."""
    render: bool = False
    """Whether a browser makes the page; only such a downloader can."""
    browser: bool = False
    """Whether any page of the site is made by one."""
    guard: NetworkGuard = ANYWHERE
    """Which addresses may be connected to. A proxy may be anywhere, but must not be sent where a page may not lead."""


DEFAULT = FetchOptions()


class FetchRequest(NamedTuple):
    """One request. `site` says whose cookies and proxies are used."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = NOTHING
    cookies: Mapping[str, str] = NOTHING
    body: bytes = b""
    site: str = ""
    options: FetchOptions = DEFAULT


class FetchResponse(NamedTuple):
    """One answer. `headers` by lower-case name, those that came several times joined by a comma; `cookies` are the lines of
    Set-Cookie, each for itself. `body` is decoded. `sent` and `raw` are the bytes of both directions where `FetchOptions.raw`
    asked for them; chunks of the transfer are put together in `raw`."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float = 0.0
    raw: bytes | None = None
    proxy: str = ""
    """The proxy's URL without its password."""
    cookies: tuple[str, ...] = ()
    sent: bytes | None = None
    size: int = 0
    """Bytes of the body as it came."""
    wrote: int = 0
    """Bytes of the request."""


class FetchError(Exception):
    """No answer that could be read. `reason` is one of `REASONS`; `after` says in how many seconds it can go otherwise, where
    that is known."""

    def __init__(self, reason: str, detail: str, retriable: bool = True, after: float = 0.0) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.retriable, self.after = reason, detail, retriable, after

    def __reduce__(self) -> tuple[type[FetchError], tuple[str, str, bool, float]]:
        return (FetchError, (self.reason, self.detail, self.retriable, self.after))
