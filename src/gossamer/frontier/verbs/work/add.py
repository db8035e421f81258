"""The verb of producers: add. A generator without I/O."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence

from gossamer.errors import GroupDropping, InvalidRequest
from gossamer.frontier.call import Verb, function_call, own, read, text
from gossamer.frontier.recent_adds import Known, RecentAdds
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.work.batch import ADDED, REFUSED, Batches, Place, RequestChecker, request_entry
from gossamer.frontier.verbs.work.outbox import CALL_BYTES, CALL_REQUESTS
from gossamer.model import AddOutcome, Request, Token, inherited
from gossamer.model.reply import Added, Invalid
from gossamer.model.request import stored_key


class AddVerbs:
    """Builds and reads the calls that add requests to one crawl, and those that send a partition again what it has lost."""

    def __init__(self, bases: Sequence[str], checked: RequestChecker) -> None:
        self.bases, self.partitions, self.checked = bases, len(bases), checked
        self.recent = RecentAdds()
        self._token, self._lock = Token.fresh(), threading.Lock()
        self.bring: Callable[[int, Collection[str]], Verb[Known]] = _nothing_to_bring
        """Brings a partition into step with the others, see `PartitionSync`."""

    def add(
        self,
        requests: Sequence[Request],
        *,
        bound: bool = True,
        key: str | Sequence[str] = "",
        token: Token | None = None,
    ) -> Verb[Added]:
        """`key` names a source (a start, a task) under which unfiltered requests are added once."""
        token = token or self._next()
        own(token.incarnation)
        outcomes = [ADDED] * len(requests)
        invalid: Invalid = {}
        batches = Batches(CALL_REQUESTS, CALL_BYTES)
        for index, request in enumerate(requests):
            if (found := self.prepare(request, index, outcomes, invalid, key)) is not None:
                batches.put(*found, (outcomes, index))
        room = yield from self.produce(token, batches, bound=bound)
        return outcomes, invalid, room

    def prepare(
        self, request: Request, index: int, outcomes: list[AddOutcome], invalid: Invalid, key: str | Sequence[str]
    ) -> tuple[int, Place, str, bytes] | None:
        """The partition, place, entry and record of a request; None if it is invalid, which is noted."""
        try:
            place, record = self.checked.prepare(request)
        except InvalidRequest as problem:
            outcomes[index] = AddOutcome.INVALID
            invalid[index] = str(problem)
            return None
        if not request.dont_filter:
            entry = request_entry(request)
        elif not key:
            entry = ""
        else:
            entry = f"k{stored_key(key)}:{index}" if isinstance(key, str) else f"k{stored_key(key[index])}"
        return keys.partition_of(request.host, self.partitions), place, entry, record

    def produce(self, token: Token, batches: Batches, *, bound: bool = True) -> Verb[int | None]:
        """Send whole batches, one call each. Each call has a caller's name of its own, so that repeating it returns the same."""
        room: int | None = None
        for partition, number, batch in batches:
            caller = f"{token.incarnation}:{token.sequence}:p{number}"
            header = {"i": caller, "s": 1, "add": batch.header, "bound": bound}
            [reply] = yield [function_call("add", self.bases[partition], header, batch.records)]
            outcomes, left, _, epoch, there = read(reply)
            batch.settle(outcomes)
            if self.partitions > 1:
                self.recent.note(partition, batch, outcomes, time.monotonic(), there)
                yield from self.catch_up(partition, epoch)
            if left >= 0:
                room = left if room is None else min(room, left)
        return room

    def catch_up(self, partition: int, epoch: str, groups: Collection[str] = ()) -> Verb[None]:
        """Send a partition in a new epoch again what it may have lost: `groups`, rounds, and what was added lately."""
        said = self.recent.heard(partition, epoch, time.monotonic())
        if said is None:
            return
        named = {lane.rpartition(".")[0] for one in said for lane in one.batch.lanes}
        try:
            known = yield from self.bring(partition, named.union(groups))
        except GroupDropping:
            return  # A drop that it has forgotten is made up for: the next call goes on with it.
        for one in said:
            header, records, refused = one.again(known)
            if header:
                told = {"i": secrets.token_hex(8), "s": 1, "add": header, "bound": False, "group": one.group}
                [reply] = yield [function_call("add", self.bases[partition], told, records)]
                for slots, letters in zip(refused, read(reply)[0], strict=True):
                    for target, index in slots if not set(REFUSED).intersection(text(letters)) else ():
                        target[index] = ADDED
        self.recent.caught_up(partition, epoch, said, known)

    def _next(self) -> Token:
        """The next call of a producer that has no token of its own."""
        if inherited(self._token.incarnation):
            self._lock = threading.Lock()  # a thread that is not in this child may have held it
        with self._lock:
            self._token = self._token.next()
            return self._token


def _nothing_to_bring(partition: int, groups: Collection[str]) -> Verb[Known]:
    yield from ()
    return Known()
