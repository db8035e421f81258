"""What pages push to ordinary lists, ahead of their settlement where a list may lie in another slot. No I/O.

On one server a page's data are appended in the call that settles it. On a cluster they go ahead, once the leases are renewed, so that a
worker that lost one pushes nothing; and by the page's identity, so that whoever takes the page up again, or asks again because an
answer was lost, appends nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gossamer.errors import InvalidRequest
from gossamer.frontier import keys
from gossamer.frontier.ask import Verb, ask
from gossamer.model import Lease, Settlement

CALL_DATA = 1000
CALL_BYTES = 4_000_000
DATA_MAX = 2**20 - 1
"""As many data of one page for one list as the book can count."""

Page = tuple[str, int, list[bytes]]
"""The identity of a page, the place of its first datum here among those for the list, and the data."""


def by_key(push: Sequence[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    """The data of each list in their order; InvalidRequest says what cannot be pushed."""
    found: dict[str, list[bytes]] = {}
    for key, data in push:
        if type(key) is not str or not key or key.startswith("gossamer:") or not _sound(key):
            raise InvalidRequest(
                f"push: {key!r} is no key of a list. Name one in plain text that is not Gossamer's own."
            )
        if type(data) is not bytes:
            raise InvalidRequest(f"push: the data for {key!r} are {type(data).__name__}, not bytes.")
        found.setdefault(key, []).append(data)
    if any(len(data) > DATA_MAX for data in found.values()):
        raise InvalidRequest(f"push: a page has more than {DATA_MAX:,} data for one list.")
    return found


def ahead(pages: Sequence[Settlement], held: Callable[[Sequence[Lease]], Verb[list[bool]]]) -> Verb[None]:
    """Push what these pages bring, as far as they are held. Parts of one list follow each other, lists go side by side."""
    if not pages:
        return
    ours = yield from held([page.lease for page in pages])
    waiting: dict[str, list[Page]] = {}
    for page, mine in zip(pages, ours, strict=True):
        for key, data in by_key(page.push).items() if mine else ():
            waiting.setdefault(key, []).append((page.lease.identity, 0, data))
    calls = {key: _calls(rows) for key, rows in waiting.items()}
    while calls:
        yield [
            ask(
                "push",
                keys.list_keys(key),
                {"pages": [(identity, first, len(data)) for identity, first, data in parts[0]]},
                *(datum for _, _, data in parts[0] for datum in data),
            )
            for key, parts in calls.items()
        ]
        calls = {key: parts[1:] for key, parts in calls.items() if len(parts) > 1}


def _calls(pages: Sequence[Page]) -> list[list[Page]]:
    """Divided so that no call carries too much."""
    calls: list[list[Page]] = [[]]
    count = size = 0
    for identity, _, data in pages:
        first = 0
        for place, datum in enumerate(data):
            if count >= CALL_DATA or (count and size + len(datum) > CALL_BYTES):
                if place > first:
                    calls[-1].append((identity, first, data[first:place]))
                calls.append([])
                count, size, first = 0, 0, place
            count, size = count + 1, size + len(datum)
        calls[-1].append((identity, first, data[first:]))
    return calls


def _sound(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
