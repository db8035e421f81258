"""What pages push to ordinary lists. No I/O.

On one server a page's data are appended in the call that settles it. On a cluster, where a list may lie in another slot, that call
keeps them in the outbox, and they are pushed from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.errors import InvalidRequest

CALL_DATA = 1000
CALL_BYTES = 4_000_000
DATA_MAX = 2**20 - 1
"""The most entries that one page pushes to one list: the book cannot count more."""

Page = tuple[int, int, list[bytes]]
"""The number of a page's settlement, the position of the first of these entries among the page's entries for the list, and the
entries."""


def by_key(push: Sequence[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    """The data of each list in their order; InvalidRequest says what cannot be pushed."""
    found: dict[str, list[bytes]] = {}
    for key, data in push:
        if type(key) is not str or not key or key.startswith("gossamer:") or not encodable(key):
            raise InvalidRequest(
                f"push: {key!r} is no key of a list. Name one in plain text that is not Gossamer's own."
            )
        if type(data) is not bytes:
            raise InvalidRequest(f"push: the data for {key!r} are {type(data).__name__}, not bytes.")
        found.setdefault(key, []).append(data)
    if any(len(data) > DATA_MAX for data in found.values()):
        raise InvalidRequest(f"push: a page has more than {DATA_MAX:,} data for one list.")
    return found


def calls(pages: Sequence[Page]) -> list[list[Page]]:
    """The pages in groups, each small enough for one call."""
    done: list[list[Page]] = [[]]
    count = size = 0
    for page, _, data in pages:
        first = 0
        for place, datum in enumerate(data):
            if count >= CALL_DATA or (count and size + len(datum) > CALL_BYTES):
                if place > first:
                    done[-1].append((page, first, data[first:place]))
                done.append([])
                count, size, first = 0, 0, place
            count, size = count + 1, size + len(datum)
        done[-1].append((page, first, data[first:]))
    return done


def encodable(text: str) -> bool:
    """Whether it can be sent: UTF-8 has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
