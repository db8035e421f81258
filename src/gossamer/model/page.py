"""A page on its way through an engine: the request, the response, and the records read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.model.fetch import DEFAULT, FetchOptions

NOTHING: Mapping[str, Any] = {}
TRAIL = 16
"""How many of the pages that led to a page its trail keeps."""


class Way(NamedTuple):
    """How far a page is on its way over redirects, on a site with a login. The rules are those of `engine.page.redirects`."""

    session: int = 0
    """The number of the session in which it is on its way, 0 if it is not."""
    start: int = 0
    """How many of its hops come before the URL at which it begins again should the session be over."""
    begun: int = 0
    """How often it has begun again."""
    headers: Mapping[str, str] = NOTHING
    cookies: Mapping[str, str] = NOTHING
    method: str = "GET"
    body: bytes = b""
    """Its own, with which it begins again: on its way it loses what other hosts must not see, and a form becomes a GET."""


NOT_ON_ITS_WAY = Way()


class PageRequest(NamedTuple):
    """One page to fetch: a seed, a link of a page, a task, or a redirect of one of these.

    `fingerprint` is its identity for the seen memory; a `dont_filter` request is neither checked against it nor noted there.
    `inherited` holds what the parent page passed on, `depth` counts the steps from the seeds, `turn` the page turns from the
    first page of its list.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = NOTHING
    cookies: Mapping[str, str] = NOTHING
    body: bytes = b""
    layer: str = ""
    fingerprint: int = 0
    priority: int = 0
    inherited: Mapping[str, Any] = NOTHING
    turn: int = 0
    depth: int = 0
    dont_filter: bool = False
    trail: Sequence[str] = ()
    """The pages that led to it, the nearest last."""
    hops: Sequence[str] = ()
    """The URLs that redirected to it."""
    round: int | None = None
    """The round it belongs to, None if unknown."""
    again: str = ""
    """The layer whose links on this page are followed although they were seen, "" for none."""
    always: bool = False
    """Fetched although it was seen, as a seed or a task is. So is the page it redirects to."""
    site: str = ""
    """Whose cookies and proxies to use."""
    options: FetchOptions = DEFAULT
    referer: str = ""
    """The Referer header, unless `headers` have one."""
    secrets: Sequence[str] = ()
    """The environment variables that stand as ${NAME} in it and are looked up when it is sent."""
    task: Mapping[str, Any] = NOTHING
    """What is reported of it to the producer of its task; so is the page it redirects to."""
    row: Sequence[str] = ()
    """Of a page turn from a page that a function read: the digests of its record's key and of the lists in it."""
    thread: Mapping[str, Any] = NOTHING
    """Of a page turn of a thread that is one row: the key of the row."""
    marks: Sequence[int] = ()
    """Its fingerprints at these URLs: those of `hops`."""
    way: Way = NOT_ON_ITS_WAY
    changed: str = ""
    """What its list says of when it changed; it is fetched again where that is another text. Page turns have that of their first page."""
    passage: int = 0
    """1 and the round in which its list said so: page turns are fetched once in each pass over a thread, also where a text comes
    back that they had before. 0: unknown."""
    firsts: Sequence[int] = ()
    """Of a page turn whose first page has a text of `changed`: the fingerprints that the first page has at each of its URLs."""

    @property
    def mark(self) -> int:
        """The fingerprint of the page that was linked: a page that redirects remains that one."""
        return self.marks[0] if self.marks else self.fingerprint

    @property
    def first(self) -> str:
        """The URL of the page that was linked."""
        return self.hops[0] if self.hops else self.url

    @property
    def before(self) -> str:
        """The page that led to it, by a link or a redirect; "" for a seed or a task."""
        return self.hops[-1] if self.hops else self.trail[-1] if self.trail else ""

    @property
    def after(self) -> list[str]:
        """The trail of the pages that this one leads to."""
        return [*self.trail[1 - TRAIL :], self.url]

    def sent_with(self, cookies: Mapping[str, str], site: str, options: FetchOptions, referer: str) -> PageRequest:
        """As it is sent: as `_replace`, in a third of the time."""
        return PageRequest._make((*self[:3], cookies, *self[4:17], site, options, referer, *self[20:]))

    def on(self, trail: Sequence[str], round: int | None, dont_filter: bool) -> PageRequest:
        """A link with its place in the crawl: as `_replace`, in a third of the time, since a page may have many."""
        return PageRequest._make((*self[:11], dont_filter, trail, self.hops, round, *self[15:]))


class Response(NamedTuple):
    """What a server sent for a PageRequest, whose `inherited`, `turn` and `depth` it keeps.

    `headers` have lower-case names; a header that came several times is joined by commas. `body` is decoded. `cookies` are the
    Set-Cookie headers, one each. `size` and `wrote` count the bytes of the body as it came and of the request. `proxy` is the
    proxy's URL without its password. `raw` and `sent` are the bytes of both directions where `FetchOptions.raw` asks for them;
    the chunks of a transfer are joined in `raw`. `fetched` is when it came, in Unix time; 0: now.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    inherited: Mapping[str, Any] = NOTHING
    turn: int = 0
    depth: int = 0
    seconds: float = 0.0
    cookies: tuple[str, ...] = ()
    size: int = 0
    wrote: int = 0
    proxy: str = ""
    raw: bytes | None = None
    sent: bytes | None = None
    fetched: float = 0.0


class Record(NamedTuple):
    """What a page is about: the values of its layer's fields, in the file's order; nested records are lists of dicts."""

    layer: str
    fields: dict[str, Any]
