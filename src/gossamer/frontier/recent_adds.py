"""What was added lately to partitions for something that is kept in another one. No I/O.

A child of another partition is added there once its page is settled in the page's own; the requests of a start or a task are added before
that is settled. Should the server of the one partition lose its last moments, the other does not know it. So whoever has added something keeps
it for a while, and adds it again to a partition whose state is not the one that it was added to: what is there is known there, by its
fingerprint or its key. Before that the partition is brought into step with the others (verbs/partition_sync.py).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gossamer.frontier.verbs.batch import Batch, Slot

SECONDS = 30.0
"""How long it is kept after it was added, as far as the partition has answered since."""
MARGIN = 60.0
"""Seconds by which a drop may have come before a call and be taken for a later one."""
BYTES = 16_000_000
"""The most that is kept for each partition, the latest."""


class Known(NamedTuple):
    """What a partition and the others know of lanes now."""

    here: Collection[str] = ()
    """The lanes that the partition has."""
    made: Mapping[str, int] = MappingProxyType({})
    """When each lane that there is anywhere was made, in the time of whoever has made it first; 0: that is not known."""
    dropped: float = 0.0
    """Seconds since a lane or group was dropped, whichever and wherever."""


class AddedBatch(NamedTuple):
    at: float
    """When it was said, or said again, on this client's clock."""
    batch: Batch
    outcomes: Sequence[str | bytes]
    there: int
    """The partition's time when it answered."""
    group: str
    since: float
    """When it was said first."""

    def again(self, known: Known) -> tuple[list[list[Any]], bytes, list[tuple[Slot, ...]]]:
        """What of it is to be said again, see `Batch.accepted`. A lane that is gone was dropped, and one that was made since then is
        another one: what was said to it ended with it. Where nothing was dropped since then, none is another one, whatever the clocks of
        the partitions say."""
        strict = known.dropped <= self.at - self.since + MARGIN
        same = {lane for lane, made in known.made.items() if made <= self.there or not strict}
        return self.batch.accepted(self.outcomes, same, same.intersection(known.here))


class RecentAdds:
    """For the partitions of one crawl, and any number of threads. Batches are kept as they are: what of them counts is looked up when it is
    needed."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._said: dict[int, deque[AddedBatch]] = {}
        self._sizes: dict[int, int] = {}
        self._epochs: dict[int, str] = {}
        self._lock, self._pid = threading.Lock(), os.getpid()

    def _held(self) -> threading.Lock:
        """The lock. A forked child begins anew: what was said until then its parent says again, and a thread that is not in the child may
        have held the lock."""
        if self._pid != os.getpid():
            self._begin()
        return self._lock

    def note(
        self, partition: int, batch: Batch, outcomes: Sequence[str | bytes], now: float, there: int, group: str = ""
    ) -> None:
        """A partition has answered for a batch; it was `there` by its own clock."""
        with self._held():
            said = self._said.setdefault(partition, deque())
            said.append(AddedBatch(now, batch, outcomes, there, group, now))
            self._sizes[partition] = self._sizes.get(partition, 0) + batch.size
            while self._sizes[partition] > BYTES and len(said) > 1:
                self._let_go(partition, said)

    def heard(self, partition: int, epoch: str, now: float) -> list[AddedBatch] | None:
        """A partition has answered in this epoch. If it is another one than before, answers what was said lately and is to be said again.
        It answers the same until `caught_up`: what could not be added now is added with the next call."""
        with self._held():
            said = self._said.get(partition, deque())
            if self._epochs.setdefault(partition, epoch) == epoch:
                while said and said[0].at < now - SECONDS:
                    self._let_go(partition, said)
                return None
            kept = [one._replace(at=now) for one in said]
            said.clear()
            said.extend(kept)
        return kept

    def caught_up(self, partition: int, epoch: str) -> None:
        """All that `heard` answered in this epoch has been added."""
        with self._held():
            self._epochs[partition] = epoch

    def _let_go(self, partition: int, said: deque[AddedBatch]) -> None:
        self._sizes[partition] -= said.popleft().batch.size
