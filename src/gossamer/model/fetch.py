"""How pages are fetched, and how that fails."""

from __future__ import annotations

from typing import NamedTuple

import gossamer
from gossamer.model.network import ANYWHERE, PRIVATE_ADDRESS, NetworkGuard

AGENT = f"gossamer/{gossamer.__version__}"

TIMEOUT = "timeout"
"""No connection, not the whole response in time, or a body that stands still."""
CONNECT = "connect"
DNS = "dns"
TLS = "tls"
RESET = "reset"
"""The connection broke before or within the response."""
TOO_LARGE = "too_large"
"""More bytes than allowed, as sent or as decoded."""
BAD_ENCODING = "bad_encoding"
BAD_LENGTH = "bad_length"
"""The server closed the connection before the announced end of the body."""
PROTOCOL = "protocol"
"""The response is not HTTP, or its head is too large."""
PROXY = "proxy"
REDIRECT_LOOP = "redirect_loop"
BAD_REQUEST = "bad_request"
"""Rejected before anything was sent: an invalid URL, method or header, or options that contradict each other."""

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
    """How to fetch the pages of a layer. Made once per layer: a fetcher prepares itself for each value and finds that again.
    `timeout` limits the whole response, from the connection to the last byte, and is the only limit for the first one;
    `stall_timeout` limits the wait for the next byte of a body; 0 is no limit."""

    timeout: float = 60.0
    connect_timeout: float = 20.0
    stall_timeout: float = 30.0
    max_size: int = 32 * 2**20
    """Bytes of a body, as sent and as decoded."""
    user_agent: str = AGENT
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request, in the case given here; those of a PageRequest go before them."""
    auth: tuple[str, str] | None = None
    """User and password, sent to `hosts` only."""
    hosts: frozenset[str] = frozenset()
    """The site's own hosts, lower case, as `host` or `host:port`; a name includes its subdomains."""
    session: bool = True
    """Keep the cookies of responses for the site and send them again."""
    proxy: str = ""
    """A group of the site's proxies, or a URL."""
    verify: bool | str = True
    """Check certificates; a text is a file of certificate authorities."""
    raw: bool = False
    """Keep request and response as they went over the wire, for an archive."""
    cut: bool = False
    """Cut a body at `max_size` instead of failing."""
    fetched_by_scrapy: str = ""
    """The layer's name where Scrapy fetches its pages (`ScrapyFetcher`)."""
    render: bool = False
    """A browser renders the page; only Scrapy can do that."""
    browser: bool = False
    """A browser renders some page of the site."""
    guard: NetworkGuard = ANYWHERE
    """Which addresses a connection may go to. A proxy may be anywhere, but is not sent where a page may not lead."""


DEFAULT = FetchOptions()


class FetchError(Exception):
    """No readable response. `reason` is one of `REASONS`; `after` says in how many seconds another try may succeed, where that is
    known."""

    def __init__(self, reason: str, detail: str, retriable: bool = True, after: float = 0.0) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.retriable, self.after = reason, detail, retriable, after

    def __reduce__(self) -> tuple[type[FetchError], tuple[str, str, bool, float]]:
        return (FetchError, (self.reason, self.detail, self.retriable, self.after))
