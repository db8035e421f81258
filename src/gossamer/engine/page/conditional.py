"""Requests for pages only if they have changed, and the links of one that has not: a 304 brings no body to find them in. Pure.

What a link has from its page's place in the crawl (round, trail, depth) is not kept: it has that of the page that is asked for now.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gossamer.errors import DecodingError
from gossamer.frontier import codec
from gossamer.model.page import PageRequest
from gossamer.sites.compile import CompiledSite

NOT_MODIFIED = 304
_LONGEST = 512
_COMPRESSED = re.compile("[-;]+(gzip|br|deflate|zstd|df)$")

LINKS_BYTES = 65536
"""A page whose links take more is fetched whole each time."""
_MOST_UNPACKED = 64 * 2**20
_OF_THE_PAGE = frozenset({"url", "fingerprint", "depth", "trail", "round", "again", "site", "options", "referer"})
"""What is kept of each link by itself, or not at all."""
_KEPT = [
    (place, name, PageRequest._field_defaults[name])
    for place, name in enumerate(PageRequest._fields)
    if name not in _OF_THE_PAGE
]


class Validators(NamedTuple):
    """What identifies a version of a page, as the server says."""

    etag: str = ""
    modified: str = ""


def validators(headers: Mapping[str, str]) -> Validators:
    """The validators of a response, `headers` by lower-case name; empty if there are none that can be kept."""
    return Validators(_kept(headers.get("etag", "")), _kept(headers.get("last-modified", "")))


def conditions(known: Validators) -> dict[str, str]:
    """The headers that make a request conditional."""
    asked = {}
    if known.etag:
        asked["If-None-Match"] = known.etag
    if known.modified:
        asked["If-Modified-Since"] = known.modified
    return asked


def is_conditional(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers may be answered with 304. A server that answers so to another one has said nothing."""
    return any(name.lower() in ("if-none-match", "if-modified-since") for name in headers)


def is_same_version(known: Validators, told: Validators) -> bool:
    """Whether what a 304 says of itself fits the version that was asked about. Nothing said fits; so does the same tag as a weak one, or
    with the mark that servers add to it for compressed pages."""
    return not known.etag or not told.etag or _bare(known.etag) == _bare(told.etag)


class RememberedLinks(NamedTuple):
    """Of each link its URL and the number of its kind; a kind has what links may have in common."""

    kinds: list[dict[str, Any]]
    links: list[Any]

    def of(self, site: CompiledSite, depth: int) -> list[PageRequest]:
        """The links of a page of this depth, as if it had been read again."""
        made = []
        for number, url in zip(self.links[::2], self.links[1::2], strict=True):
            kind = dict(self.kinds[number])
            deeper, fingerprint = kind.pop("deeper", 1), kind.pop("fingerprint", None)
            link = PageRequest(url, **kind)
            if fingerprint is None:
                fingerprint = site.fingerprint(link.layer, url, link.method, link.body)
            made.append(link._replace(depth=depth + deeper, fingerprint=fingerprint))
        return made


def pack_links(links: Sequence[PageRequest], site: CompiledSite, depth: int) -> bytes | None:
    """The links of a page of this depth, b"" for none; None if they take more than `LINKS_BYTES`."""
    if not links:
        return b""
    numbers: dict[bytes, int] = {}
    kinds, flat = list[dict[str, Any]](), list[Any]()
    for link in links:
        kind = {name: link[place] for place, name, usual in _KEPT if link[place] != usual}
        if (deeper := link.depth - depth) != 1:
            kind["deeper"] = deeper
        if link.fingerprint != site.fingerprint(link.layer, link.url, link.method, link.body):
            kind["fingerprint"] = link.fingerprint
        number = numbers.setdefault(codec.encode(kind), len(kinds))
        if number == len(kinds):
            kinds.append(kind)
        flat += (number, link.url)
    packed = zlib.compress(codec.encode([kinds, flat]))
    return packed if len(packed) <= LINKS_BYTES else None


def unpack_links(packed: bytes) -> RememberedLinks:
    """What `pack_links` has packed; DecodingError for anything else."""
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, _MOST_UNPACKED)
    except zlib.error as error:
        raise DecodingError(f"Not the links of a page: {error}.") from error
    if not unpacking.eof:
        raise DecodingError("Not the links of a page: they have no end.")
    kept = codec.decode(data)
    if not isinstance(kept, list) or len(kept) != 2:
        raise DecodingError("Not the links of a page.")
    return RememberedLinks(*kept)


def _bare(etag: str) -> str:
    return _COMPRESSED.sub("", etag.removeprefix("W/").strip('"'))


def _kept(value: str) -> str:
    value = value.strip()
    return value if len(value) <= _LONGEST and value.isprintable() and value.isascii() else ""
