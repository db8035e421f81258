"""Parts of a settlement as arguments of the server's functions, and what is checked before they are sent. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from struct import Struct
from typing import Any

from gossamer.errors import InvalidRequest
from gossamer.frontier.verbs import lists
from gossamer.model import CounterChange, Feedback, PageVisit, Settlement

ITEM_MAX = 256_000_000
"""Bytes of one item, or of one entry for a list; a server refuses an argument of twice as many."""
NOT_TOLD = PageVisit()


def too_large(settlement: Settlement) -> str:
    """Why a server would not take what the page brings; empty if it does."""
    if not settlement.items and not settlement.push:
        return ""
    brought = (*settlement.items, *(data for _, data in settlement.push))
    largest = max((len(data) for data in brought if type(data) is bytes), default=0)
    if largest > ITEM_MAX:
        return f"the page has an item of {largest:,} bytes; the most is {ITEM_MAX:,}. Store large files elsewhere."
    if len(settlement.push) > lists.DATA_MAX:
        return f"the page pushes {len(settlement.push):,} data to lists; the most is {lists.DATA_MAX:,}."
    return ""


def feedback(feedback: Feedback | None) -> list[Any] | bool:
    if feedback is None:
        return False
    return [feedback.verdict.value, milliseconds(feedback.latency), milliseconds(feedback.retry_after)]


def visits(told: Mapping[int, PageVisit], pages: int) -> tuple[list[int], bytes]:
    """What the first pages of a call were like, by their numbers from 1 on: their statuses (one, how many pages in a row have it, and so
    on), and their signatures one after the other. Both are empty if nothing is known of any."""
    if not told:
        return [], b""
    all_visits = [told.get(number, NOT_TOLD) for number in range(1, pages + 1)]
    statuses = groupby(visit.status if 0 <= visit.status < 65536 else 0 for visit in all_visits)
    runs = [number for status, run in statuses for number in (status, sum(1 for _ in run))]
    return runs, Struct(f">{pages}Q").pack(*(visit.signature % 2**64 for visit in all_visits))


def milliseconds(seconds: float | None) -> int:
    """-1 for what is unknown or makes no sense; a host may send anything as Retry-After."""
    if seconds is None or not 0 <= seconds < 1e9:
        return -1
    return round(seconds * 1000)


def counters(counters: Sequence[CounterChange]) -> list[list[Any]]:
    for counter in counters:
        if not -1e300 < counter.value < 1e300:
            raise InvalidRequest(
                f"counter {counter.name!r} of {counter.group!r} is {counter.value!r}, not a finite number."
            )
    return [[c.group, c.name, c.value, c.op.value] for c in counters]


def clean(detail: str) -> str:
    """Text that can be carried: a traceback may hold lone surrogates."""
    return detail.encode("utf-8", "replace").decode()
