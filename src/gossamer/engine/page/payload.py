"""What a request of a site carries, on its way into a payload and out of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.errors import DecodingError
from gossamer.frontier import codec
from gossamer.model import Lease, Request, host_of
from gossamer.sites.page import PageLink

TRAIL = 16
"""So many parents of a page are remembered."""
NOTHING: Mapping[str, Any] = {}


class PageRequest(NamedTuple):
    """One page to be fetched. `trail` are the pages that led to it, the nearest last; `hops` the URLs that were redirected to
    it."""

    url: str
    method: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes
    inherited: Mapping[str, Any]
    turn: int
    depth: int
    trail: Sequence[str]
    hops: Sequence[str]
    round: int | None = None
    """The round that it belongs to; None where nobody said so."""
    again: str = ""
    """The layer whose links on this page are followed although they were seen; "" for none."""
    always: bool = False
    """Whether it is wanted although it was seen: a seed, a task. So is where it is redirected to."""

    @property
    def before(self) -> str:
        """The page that led to it, by a link or a redirect; "" for a seed or a task."""
        return self.hops[-1] if self.hops else self.trail[-1] if self.trail else ""

    @property
    def after(self) -> list[str]:
        """The trail of the pages that this one leads to."""
        return [*self.trail[1 - TRAIL :], self.url]


def pack(
    link: PageLink,
    lane: str,
    trail: Sequence[str] = (),
    hops: Sequence[str] = (),
    limit: int | None = None,
    round: int | None = None,
    again: str = "",
    always: bool = False,
) -> Request:
    """A link as the frontier keeps it; EncodingError where it cannot be kept, ValueError where it has no host."""
    meta: dict[str, Any] = {}
    if link.inherited:
        meta["inherited"] = link.inherited
    if link.depth:
        meta["depth"] = link.depth
    if link.turn:
        meta["turn"] = link.turn
    if trail:
        meta["trail"] = list(trail)
    if hops:
        meta["hops"] = list(hops)
    if round is not None:
        meta["round"] = round
    if again:
        meta["again"] = again
    if always:
        meta["always"] = True
    fields: dict[str, Any] = {"url": link.url}
    if meta:
        fields["meta"] = meta
    if link.method != "GET":
        fields["method"] = link.method
    if link.headers:
        fields["headers"] = dict(link.headers)
    if link.cookies:
        fields["cookies"] = dict(link.cookies)
    if link.body:
        fields["body"] = link.body
    payload = codec.encode_request(fields, limit=limit)
    return Request(link.fingerprint, host_of(link.url) or "-", lane, payload, link.priority, link.dont_filter)


def unpack(lease: Lease) -> PageRequest:
    """DecodingError for what is none: a dead letter, never a crash."""
    fields = codec.decode_request(lease.payload)
    meta = fields["meta"]
    url = fields.get("url")
    if not isinstance(url, str) or not isinstance(meta, dict):
        raise DecodingError("Not a request of a site: it has no url.")
    headers = fields["headers"]
    if headers and not all(isinstance(value, str) for value in headers.values()):
        headers = {
            _text(name): _text(value[-1] if isinstance(value, list) else value) for name, value in headers.items()
        }
    return PageRequest(
        url,
        fields["method"],
        headers,
        fields["cookies"] if isinstance(fields["cookies"], dict) else NOTHING,
        fields["body"],
        meta.get("inherited", NOTHING),
        meta.get("turn", 0),
        meta.get("depth", 0),
        meta.get("trail", ()),
        meta.get("hops", ()),
        meta.get("round"),
        meta.get("again", ""),
        meta.get("always", False),
    )


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
