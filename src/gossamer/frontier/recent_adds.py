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
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from gossamer.frontier.verbs.work.batch import TAKEN, Batch, Slot

SECONDS = 30.0
"""How long it is kept after it was added, as far as the partition has answered since."""
DOUBTED_MAX = 1000
"""The most lanes that are remembered because a partition lacked them."""
MARGIN = 60.0
"""Seconds by which a drop may have come before a call and be taken for a later one."""
BYTES = 16_000_000
"""The most that is kept for each partition, the latest."""


class Known(NamedTuple):
    """The lanes as a partition and the others know them now."""

    here: Collection[str] = ()
    """The lanes that the partition has."""
    made: Mapping[str, int] = MappingProxyType({})
    """When each lane that exists anywhere was made, in the time of the partition that made it first; 0: unknown."""
    dropped: float = 0.0
    """Seconds since a lane or group was dropped, whichever and wherever."""


NOTHING_KNOWN = Known()


class AddedBatch(NamedTuple):
    at: float
    """When it was sent last, by this client's clock."""
    batch: Batch
    outcomes: Sequence[str | bytes]
    there: int
    """The partition's time when it answered."""
    group: str
    since: float
    """When it was sent first."""
    doubt: bool = False
    """Send only what was refused again."""

    def again(self, known: Known) -> tuple[list[list[Any]], bytes, list[tuple[Slot, ...]]]:
        """The part to send again; see `Batch.accepted`."""
        same = self._same(known)
        taken = "" if self.doubt else TAKEN
        return self.batch.accepted(self.outcomes, same, same.intersection(known.here), taken)

    def resolved(self, known: Known) -> AddedBatch:
        """The batch after that part has been sent."""
        there = self._same(known).intersection(known.here)
        return self._replace(outcomes=self.batch.resolved(self.outcomes, there), doubt=False)

    def _same(self, known: Known) -> set[str]:
        """The lanes that it was sent to, as far as they still exist. A lane that is gone was dropped, and one that was made since
        then is another lane: what was sent to the old one ended with it. If nothing was dropped since then, all lanes are the
        same, whatever the clocks of the partitions say."""
        strict = known.dropped <= self.at - self.since + MARGIN
        return {lane for lane, made in known.made.items() if made <= self.there or not strict}


class RecentAdds:
    """For the partitions of one crawl, and any number of threads. Batches are kept as they are: what of them counts is looked up when it is
    needed."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._sent: dict[int, deque[AddedBatch]] = {}
        self._sizes: dict[int, int] = {}
        self._epochs: dict[int, str] = {}
        self._doubts: set[int] = set()
        self._doubted: dict[tuple[int, str], float] = {}
        self._lock, self._pid = threading.Lock(), os.getpid()

    def _held(self) -> threading.Lock:
        """The lock. A forked child begins with nothing: its parent repeats what was sent until then, and a thread that is not in
        the child may have held the lock."""
        if self._pid != os.getpid():
            self._begin()
        return self._lock

    def note(
        self, partition: int, batch: Batch, outcomes: Sequence[str | bytes], now: float, there: int, group: str = ""
    ) -> None:
        """Keep a batch that a partition has answered, at the time `there` of its own clock."""
        with self._held():
            if unknown := batch.unknown(outcomes):
                self._doubt(partition, unknown, now)
            sent = self._sent.setdefault(partition, deque())
            sent.append(AddedBatch(now, batch, outcomes, there, group, now))
            self._sizes[partition] = self._sizes.get(partition, 0) + batch.size
            while self._sizes[partition] > BYTES and len(sent) > 1:
                self._let_go(partition, sent)

    def _doubt(self, partition: int, lanes: Collection[str], now: float) -> None:
        """A partition lacks these lanes; perhaps it has lost them, whatever its epoch. Each lane is looked up once in a while."""
        if any(now - self._doubted.get((partition, lane), -inf) >= SECONDS for lane in lanes):
            self._doubts.add(partition)
            if len(self._doubted) > DOUBTED_MAX:
                self._doubted.clear()
            self._doubted.update(dict.fromkeys([(partition, lane) for lane in lanes], now))

    def heard(self, partition: int, epoch: str, now: float) -> list[AddedBatch] | None:
        """A partition has answered in this epoch. If the epoch is new, return what was sent lately and must be sent again; the
        same until `caught_up`: what cannot be added now is added with the next call."""
        with self._held():
            sent = self._sent.get(partition, deque())
            if self._epochs.setdefault(partition, epoch) == epoch:
                if partition in self._doubts:
                    return [one._replace(doubt=True) for one in sent]
                while sent and sent[0].at < now - SECONDS:
                    self._let_go(partition, sent)
                return None
            kept = [one._replace(at=now) for one in sent]
            sent.clear()
            sent.extend(kept)
        return kept

    def caught_up(
        self, partition: int, epoch: str, again: Sequence[AddedBatch] = (), known: Known = NOTHING_KNOWN
    ) -> None:
        """What `heard` returned in this epoch has been added, as far as its lanes are `known`. Another thread may have noted more
        since."""
        with self._held():
            self._epochs[partition] = epoch
            sent, done = self._sent.setdefault(partition, deque()), {id(one.batch) for one in again}
            told = [one.resolved(known) if id(one.batch) in done else one for one in sent]
            sent.clear()
            sent.extend(told)
            if not any(one.batch.unknown(one.outcomes) for one in sent if id(one.batch) not in done):
                self._doubts.discard(partition)

    def _let_go(self, partition: int, sent: deque[AddedBatch]) -> None:
        self._sizes[partition] -= sent.popleft().batch.size
