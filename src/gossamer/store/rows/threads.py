"""Passes over the pages of threads that lists say have changed: a first page and its page turns, each of which brings rows of its own.

The line of a first page in `SOURCES` holds its pass, the pages that were read in it, those that are still to come, and those of the passes
before. When none is to come, the thread has the pages that were read, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from gossamer.model.table import UNREAD, PageThread


@dataclass
class PassState:
    """What is known of a thread."""

    number: int = 0
    read: set[int] = field(default_factory=set)
    awaited: set[int] = field(default_factory=set)
    past: set[int] = field(default_factory=set)

    @property
    def left(self) -> set[int]:
        """The pages that the thread had, and has no more."""
        return self.past - self.read


def known(named: str) -> PassState:
    if not named:
        return PassState()
    number, *pages = json.loads(named)
    return PassState(number, *map(set, pages))


def written(state: PassState) -> str:
    return json.dumps([state.number, *(sorted(pages) for pages in (state.read, state.awaited, state.past))])


def come(state: PassState, thread: PageThread, pages: Iterable[int], *, is_read: bool) -> bool:
    """A page of a thread has come, by each of its numbers. Answers whether the thread is whole now. A page of another pass than that of the
    first page says nothing of the thread."""
    if thread.is_first and thread.number != state.number:
        state.past |= state.read | (state.awaited - {UNREAD})
        state.number, state.read, state.awaited = thread.number, set(), set()
    if thread.number != state.number:
        return False
    if is_read:
        state.read.update(pages)
    else:
        state.awaited.update(pages)
    state.awaited = {*state.awaited, *thread.turns} - state.read
    return not state.awaited


def settled(state: PassState) -> None:
    """What the thread has lost is noted."""
    state.past = set()
