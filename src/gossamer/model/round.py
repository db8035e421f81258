"""Rounds of a group: one pass each, from its start until drained."""

from __future__ import annotations

import enum
from typing import NamedTuple


class EndState(enum.Enum):
    """GRANTED: do what is to be done after the round, then say `ended`. BUSY: another worker does it. DONE: it was done in
    this round. OPEN: the group is not drained."""

    GRANTED = "granted"
    BUSY = "busy"
    DONE = "done"
    OPEN = "open"


class RoundInfo(NamedTuple):
    """One round of a group. Times are server time in seconds, None where unknown: `began`, `ended` when it was found
    drained, `closed` when all was done that comes after it. `state`: running, ending (what comes after it is under way), ended,
    or cut short (the next round began before). The counts are those of this round: `pages` with those that failed, `failed`
    those that a worker gave up, `dead` all requests that became dead letters in it, also those that were replayed since. `late`
    and `note` are as recorded by `round_note`."""

    group: str
    round: int
    state: str
    began: float | None
    ended: float | None
    closed: float | None
    trigger: str
    who: str
    pages: int
    items: int
    failed: int
    dead: int
    late: bool
    note: str
