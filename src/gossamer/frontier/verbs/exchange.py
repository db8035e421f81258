"""The worker's verbs: exchange, add, renew, release, permit. Generators without I/O."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import ormsgpack

from gossamer.errors import GroupDropping, InvalidRequest
from gossamer.frontier.call import FunctionCall, Verb, function_call, own, read, text
from gossamer.frontier.recent_adds import Known, RecentAdds
from gossamer.frontier.server import keys
from gossamer.frontier.server.layout import SETTLEMENT
from gossamer.frontier.verbs import arguments, lists
from gossamer.frontier.verbs.batch import ADDED, REFUSED, Batch, Batches, RequestChecker, entry_of
from gossamer.frontier.verbs.outbox import (
    CALL_BYTES,
    CALL_ITEM_BYTES,
    CALL_ITEMS,
    CALL_REQUESTS,
    Delivery,
    Outbox,
    OutboxBuilder,
)
from gossamer.frontier.worker_leases import WorkerLeases
from gossamer.model import (
    AddOutcome,
    CounterChange,
    Ending,
    ExchangeReply,
    Fetched,
    Hints,
    Lease,
    PartitionState,
    Request,
    Selection,
    Sent,
    Settlement,
    SettleOutcome,
    Token,
    inherited,
)
from gossamer.model.reply import Added, Invalid

FIRST_ITEM = 4
"""Where the items begin among a function's arguments."""
PUSHED = SETTLEMENT.at("pushed")
"""Where a settlement says how much it pushes to lists."""
FIRST, ITEMS = SETTLEMENT.at("first_item"), SETTLEMENT.at("items")
SETTLED = {outcome.value: outcome for outcome in SettleOutcome}


class PartitionExchange:
    """What one exchange sends to one partition."""

    __slots__ = (
        "add",
        "children",
        "deliveries",
        "fetched",
        "items",
        "lists",
        "sent",
        "settle",
        "settled_at",
        "size",
        "spilt",
        "withheld",
    )  # fmt: skip

    def __init__(self) -> None:
        self.settle: list[list[Any]] = []
        self.settled_at: list[int] = []
        self.fetched: list[list[Any]] = []
        self.sent: list[list[Any]] = []
        self.items: list[bytes] = []
        self.lists: dict[str, None] = {}
        self.size = 0
        self.spilt = False
        self.deliveries: list[bytes] = []
        self.withheld: list[tuple[int, Callable[[], Sequence[Request]]]] = []
        self.children = Batch()
        self.add = Batch()


class WorkVerbs:
    """Builds and reads the worker's calls for one crawl."""

    def __init__(
        self, crawl: str, partitions: int, *, payload_max: int, lease_seconds: float, send_seconds: float, strikes: int,
        slots: bool = False,
    ) -> None:  # fmt: skip
        """With `slots` a list may lie in another slot, out of the reach of a partition's functions."""
        self.crawl, self.partitions, self.slots = crawl, partitions, slots
        self.lease_ms, self.send_seconds, self.strikes = round(lease_seconds * 1000), send_seconds, strikes
        self.checked = RequestChecker(payload_max)
        self.bases = [keys.base(crawl, p) for p in range(partitions)]
        self.worker_leases = WorkerLeases()
        self.recent = RecentAdds()
        self.outbox = Outbox(self.bases, self.lease_ms, self.recent)
        self._token, self._lock = Token.fresh(), threading.Lock()
        self.bring: Callable[[int, Collection[str]], Verb[Known]] = _nothing_to_bring
        """Brings a partition into step with the others, see `PartitionSync`."""

    def exchange(
        self,
        token: Token,
        *,
        settle: Sequence[Settlement] = (),
        fetched: Sequence[Fetched] = (),
        sent: Sequence[Lease | Sent] = (),
        add: Sequence[Request] = (),
        counters: Sequence[CounterChange] = (),
        want: int = 0,
        selection: Selection | None = None,
        info: Mapping[str, str] | None = None,
        relies: Mapping[int, PartitionState] | None = None,
        session: str = "",
        everywhere: bool = False,
    ) -> Verb[ExchangeReply]:
        own(token.incarnation)
        told = arguments.counters(counters)
        parts: dict[int, PartitionExchange] = {}
        boxes: dict[int, OutboxBuilder] = {}
        invalid: Invalid = {}
        children: list[list[AddOutcome]] = []
        group = settle[0].lease.lane.rpartition(".")[0] if settle else ""
        for index, settlement in enumerate(settle):
            outcomes = [ADDED] * len(settlement.add)
            children.append(outcomes)
            home = settlement.lease.partition
            if home not in boxes:
                boxes[home], parts[home] = OutboxBuilder(token, home), PartitionExchange()
            self._settle(parts[home], boxes[home], index, settlement, outcomes, invalid, group)
        owing = [(box, box.deliveries(group)) for box in boxes.values() if box.pages]
        added = [ADDED] * len(add)
        producers = Batches(CALL_REQUESTS, CALL_BYTES)
        together = None if _many(add) else parts
        for index, request in enumerate(add):
            # Remembered by a key: for longer than the answer is kept.
            self._put(together, producers, index, request, added, invalid, f"{token.incarnation}:{token.sequence}")
        for arrival in fetched:
            parts.setdefault(arrival.lease.partition, PartitionExchange()).fetched.append(
                [str(arrival.lease.id), arrival.lease.nonce, arguments.feedback(arrival.feedback)]
            )
        for one in sent:
            lease, age = one if isinstance(one, Sent) else (one, 0.0)
            row: list[Any] = [str(lease.id), lease.nonce]
            if lease.paced:
                row.append(max(0, arguments.milliseconds(age)))
            parts.setdefault(lease.partition, PartitionExchange()).sent.append(row)
        if owing:
            yield from self._checked_lists(owing)
        ahead = yield from self.outbox.ahead(owing)
        room = yield from self._produce(token, producers)
        settled = [SettleOutcome.SETTLED] * len(settle)
        if self.partitions > 1:
            self.worker_leases.forget(token.incarnation, [settlement.lease for settlement in settle])
        wants = self._wants(want, token)
        choice = selection or Selection()
        nonce = secrets.token_hex(8)
        asked: list[tuple[int, PartitionExchange, dict[str, Any]]] = []
        others = set(range(self.partitions)) if everywhere else {0} if told or not wants else set()
        for partition in sorted(set(wants) | set(parts) | others):
            part = parts.get(partition) or PartitionExchange()
            header = {
                "i": token.incarnation, "s": token.sequence, "n": nonce, "lease": self.lease_ms, "strikes": self.strikes,
                "send": round(self.send_seconds * 1000), "want": wants.get(partition, 0), "groups": choice.groups, "lanes": choice.lanes, "stage": choice.stage,
                "settle": part.settle, "group": group, "fetched": part.fetched, "sent": part.sent, "children": part.children.header,
                "add": part.add.header, "counters": told if partition == 0 else (),
                "peek": self.partitions > 1 and want > 0,
                "busy": self.partitions > 1 and self.worker_leases.busy(token.incarnation, partition),
                "info": ormsgpack.packb(dict(info)).hex() if info else None,
            }  # fmt: skip
            if session:
                header["session"] = session
            if part.lists:
                header["lists"] = list(part.lists)
            if part.withheld and relies and partition in relies:
                header["on"] = list(relies[partition])
            for box, owed in owing:
                if box.home == partition:
                    part.deliveries = [] if partition in ahead else [delivery.packed for delivery in owed]
                    header["out"] = {
                        "id": box.entry, "ahead": ahead.get(partition, 0), "pages": list(box.pages),
                        "children": list(box.children.values()), "count": len(part.deliveries),
                    }  # fmt: skip
            if delivered := self.outbox.delivered(partition):
                header["delivered"] = delivered
            for entry in part.settle:
                if len(entry) > 2:
                    entry[FIRST] += FIRST_ITEM
            asked.append((partition, part, header))
        replies = yield from self._told(asked)
        leases: list[Lease] = []
        states: dict[int, PartitionState] = {}
        hints: Hints | None = None
        left: list[tuple[int, str]] = []
        for (partition, part, _), reply in zip(asked, replies, strict=True):
            hints = self._read(token, partition, part, reply, leases, settled, states, hints, boxes, left)
        assert hints is not None
        epochs = {partition: state.epoch for partition, state in states.items()}
        if owing and (yield from self.outbox.deliver(owing, epochs)):
            hints = hints._replace(ready_in=0.0)
        for owed_at, name in left:
            yield from self.outbox.complete(owed_at, name)
        if self.partitions > 1:
            served = {*choice.groups, *(lane.rpartition(".")[0] for lane in choice.lanes)}
            for partition, epoch in epochs.items():
                yield from self._again(partition, epoch, served)
            leases = yield from self._alone(token, leases)
        if leases:
            hints = hints._replace(paused="")
        if room is not None:
            hints = hints._replace(room=room if hints.room is None else min(room, hints.room))
        return ExchangeReply(leases, settled, added, children, invalid, hints, states)

    def _told(self, parts: Sequence[tuple[int, PartitionExchange, dict[str, Any]]]) -> Verb[list[Any]]:
        """The partitions' answers. One that is in another state than was relied on refuses, and is sent all children."""
        replies = yield [self._asked(*part) for part in parts]
        refused = []
        for place, (partition, part, header) in enumerate(parts):
            if "on" not in header:
                continue
            settled, outcomes, *_ = read(replies[place][0])
            if settled is False:
                refused.append(place)
            elif sum(map(len, outcomes)) != part.children.count:
                # The call is repeated, and was told everything when it was answered.
                self._tell_all(partition, part)
        if refused:
            for place in refused:
                partition, part, header = parts[place]
                del header["on"]
                self._tell_all(partition, part)
                header["children"] = part.children.header
            again = yield [self._asked(*parts[place]) for place in refused]
            for place, reply in zip(refused, again, strict=True):
                replies[place] = reply
        return replies

    def _asked(self, partition: int, part: PartitionExchange, header: dict[str, Any]) -> FunctionCall:
        return function_call(
            "exchange",
            self.bases[partition],
            header,
            part.children.records,
            part.add.records,
            *part.items,
            *part.deliveries,
        )

    def _tell_all(self, partition: int, part: PartitionExchange) -> None:
        """Leave nothing out: what this partition was known to know it may know no more. Children of other partitions were
        sent there by those who found them, and are sent again by them."""
        for page, withheld in part.withheld:
            requests = withheld()
            outcomes = [ADDED] * len(requests)
            for ordinal, request in enumerate(requests):
                if keys.partition_of(request.host, self.partitions) != partition:
                    continue
                try:
                    place, record = self.checked.prepare(request)
                except InvalidRequest:
                    continue
                part.children.put(place, entry_of(request.fingerprint), record, (outcomes, ordinal), page)

    def _checked_lists(self, owing: Sequence[tuple[OutboxBuilder, list[Delivery]]]) -> Verb[None]:
        """What cannot be pushed is to be known before a page is settled that brings it."""
        named = {
            str(delivery.target): None for _, deliveries in owing for delivery in deliveries if delivery.verb == "push"
        }
        if named:
            yield [function_call("push", keys.list_keys(key), {"pages": []}) for key in named]

    def _alone(self, token: Token, leases: list[Lease]) -> Verb[list[Lease]]:
        """What the worker gets to hold: with a request that is to be tried alone, nothing else from any partition."""
        alone = next((lease for lease in leases if lease.alone), None)
        if alone is not None and len(leases) > 1:
            yield from self.release(token, [lease for lease in leases if lease is not alone])
            leases = [alone]
        self.worker_leases.take(token.incarnation, leases)
        return leases

    def _read(
        self, token: Token, partition: int, part: PartitionExchange, reply: Any, leases: list[Lease],
        settled: list[SettleOutcome], states: dict[int, PartitionState], hints: Hints | None, boxes: Mapping[int, OutboxBuilder], left: list[tuple[int, str]],
    ) -> Hints:  # fmt: skip
        (
            letters, child_outcomes, add_outcomes, heads, ready_in, opened, paused, version, now, room, nonce, quarantined,
            epoch, change, owes, due, *session,
        ) = read(reply[0])  # fmt: skip
        states[partition] = PartitionState(epoch, change)
        left += [(partition, text(entry)) for entry in due]
        if self.partitions > 1:
            self.worker_leases.quarantine(token.incarnation, partition, quarantined == 1)
        for index, letter in zip(part.settled_at, letters, strict=True):
            settled[index] = SETTLED[letter]
        if box := boxes.get(partition):
            box.owed = owes == 1
            box.lost = [page for page in box.pages if letters[page - 1] == SettleOutcome.LOST.value]
        part.children.settle(child_outcomes)
        part.add.settle(add_outcomes)
        if self.partitions > 1 and part.add.count:
            self.recent.note(partition, part.add, add_outcomes, time.monotonic(), now)
        seconds = now / 1000
        deadline, send_by = (now + self.lease_ms) / 1000, seconds + self.send_seconds
        incarnation = token.incarnation
        fields = iter(heads)
        columns = zip(fields, fields, fields, fields, fields, fields, reply[1:], strict=True)
        for number, lane, host, priority, attempt, flags, record in columns:
            leases.append(
                Lease(
                    partition, number, incarnation, nonce, lane, host, priority, int.from_bytes(record[1:9], "big"),
                    record[9:], attempt, flags % 2 == 1, deadline, send_by, flags >= 2,
                )
            )  # fmt: skip
        mine = Hints(
            None if ready_in < 0 else ready_in / 1000,
            opened,
            paused,
            version,
            seconds,
            None if room < 0 else room,
            session[0] if session else 0,
        )
        return mine if hints is None else _merge(hints, mine)

    def _settle(
        self,
        part: PartitionExchange,
        box: OutboxBuilder,
        index: int,
        settlement: Settlement,
        outcomes: list[AddOutcome],
        invalid: Invalid,
        group: str,
    ) -> None:
        lease = settlement.lease
        number = len(part.settle) + 1
        if problem := arguments.too_large(settlement):
            outcomes[:] = [AddOutcome.INVALID] * len(outcomes)
            invalid.update({(index, ordinal): problem for ordinal in range(len(outcomes))})
            settlement = Settlement(
                lease, Ending.FAILED, feedback=settlement.feedback, reason="too_large", detail=problem
            )
        prepare, here, home, partitions = self.checked.prepare, part.children, lease.partition, self.partitions
        for ordinal, request in enumerate(settlement.add):
            try:
                place, record = prepare(request)
            except InvalidRequest as problem:
                outcomes[ordinal] = AddOutcome.INVALID
                invalid[index, ordinal] = str(problem)
                continue
            entry = "" if request.dont_filter else entry_of(request.fingerprint)
            target = home if partitions == 1 else keys.partition_of(request.host, partitions)
            slot = (outcomes, ordinal)
            if target == home and not part.spilt:
                here.put(place, entry, record, slot, number)
                # What comes after these is owed, so that their order stays.
                part.spilt = here.count >= CALL_REQUESTS or here.size >= CALL_BYTES
            else:
                # Kept by a key where no fingerprint says that it is known.
                entry = entry or f"k{box.entry}:{number}:{ordinal}"
                box.child(number, lease, target, place, entry, record, slot)
        part.settled_at.append(index)
        if settlement.withheld is not None:
            part.withheld.append((number, settlement.withheld))
        own = lease.lane.rpartition(".")[0]
        push = settlement.push
        if (
            settlement[1] is Ending.DONE
            and not settlement.items
            and settlement.feedback is None
            and own == group
            and not push
            and not settlement.kept
            and settlement.visit is None
        ):
            part.settle.append([str(lease.id), lease.nonce])
            return
        row: list[Any] = [
            str(lease.id), lease.nonce, settlement.ending.value, self.checked.delay(settlement.delay),
            None if settlement.priority is None else self.checked.priority(settlement.priority),
            arguments.clean(settlement.reason) or settlement.ending.value, arguments.clean(settlement.detail), arguments.feedback(settlement.feedback),
            len(part.items), len(settlement.items), own,
        ]  # fmt: skip
        part.settle.append(row)
        if self._fits(part, settlement.items):
            part.items.extend(settlement.items)
        else:
            row[ITEMS] = 0
            box.items(number, lease, settlement.items)
        if push:
            found = lists.by_key(push)
            row.append(len(push))
            if self.slots or not self._fits(part, [data for _, data in push]):
                box.push(number, lease, found)
            else:
                row.append([word for key, data in found.items() for word in (key, len(data))])
                part.items.extend(datum for data in found.values() for datum in data)
                part.lists.update(dict.fromkeys(found))
        if settlement.kept or settlement.visit is not None:
            row += (0, False)[len(row) - PUSHED :]
            row.append(settlement.kept or False)
        if settlement.visit is not None:
            row.append(arguments.visit(settlement.visit))

    @staticmethod
    def _fits(part: PartitionExchange, data: Sequence[bytes]) -> bool:
        """Whether these may go with the settlements of the part; if so they are counted."""
        if not data:
            return True
        size = sum(map(len, data))
        if len(part.items) + len(data) > CALL_ITEMS or part.size + size > CALL_ITEM_BYTES:
            return False
        part.size += size
        return True

    def _put(
        self, parts: dict[int, PartitionExchange] | None, overflow: Batches, index: int, request: Request, outcomes: list[AddOutcome],
        invalid: Invalid, key: str | Sequence[str] = "",
    ) -> None:  # fmt: skip
        try:
            place, record = self.checked.prepare(request)
        except InvalidRequest as problem:
            outcomes[index] = AddOutcome.INVALID
            invalid[index] = str(problem)
            return
        if not request.dont_filter:
            entry = entry_of(request.fingerprint)
        elif not key:
            entry = ""
        else:
            entry = f"k{key}:{index}" if isinstance(key, str) else f"k{key[index]}"
        target = keys.partition_of(request.host, self.partitions)
        if parts is not None:
            parts.setdefault(target, PartitionExchange()).add.put(place, entry, record, (outcomes, index))
        else:
            overflow.put(target, place, entry, record, (outcomes, index))

    def _produce(self, token: Token, batches: Batches, *, bound: bool = True) -> Verb[int | None]:
        """Send whole batches, one call each; each has a caller's name of its own, so that a repeat answers the same."""
        room: int | None = None
        for partition, number, batch in batches:
            caller = f"{token.incarnation}:{token.sequence}:p{number}"
            header = {"i": caller, "s": 1, "add": batch.header, "bound": bound}
            [reply] = yield [function_call("add", self.bases[partition], header, batch.records)]
            outcomes, left, _, epoch, there = read(reply)
            batch.settle(outcomes)
            if self.partitions > 1:
                self.recent.note(partition, batch, outcomes, time.monotonic(), there)
                yield from self._again(partition, epoch)
            if left >= 0:
                room = left if room is None else min(room, left)
        return room

    def _again(self, partition: int, epoch: str, groups: Collection[str] = ()) -> Verb[None]:
        """Tell a partition of another epoch once more what it may have forgotten: `groups`, rounds, and what was added lately."""
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
            self._put(None, batches, index, request, outcomes, invalid, key)
        room = yield from self._produce(token, batches, bound=bound)
        return outcomes, invalid, room

    def _next(self) -> Token:
        """The next call of a producer that has no token of its own."""
        if inherited(self._token.incarnation):
            self._lock = threading.Lock()  # a thread that is not in this child may have held it
        with self._lock:
            self._token = self._token.next()
            return self._token

    def renew(self, token: Token, leases: Sequence[Lease]) -> Verb[list[Lease | None]]:
        renewed: list[Lease | None] = [None] * len(leases)
        # Without leases it says that the worker lives: in one place, which is enough.
        by_partition = _by_partition(leases) or {0: []}
        asks = [
            function_call(
                "renew",
                self.bases[p],
                {"i": token.incarnation, "lease": self.lease_ms, "leases": _ids(leases, indexes)},
            )
            for p, indexes in by_partition.items()
        ]
        replies = yield asks
        for indexes, reply in zip(by_partition.values(), replies, strict=True):
            letters, deadline = read(reply)
            for index, letter in zip(indexes, letters, strict=True):
                if letter == "r":
                    renewed[index] = leases[index]._replace(deadline=deadline / 1000)
        return renewed

    def release(self, token: Token, leases: Sequence[Lease | Sent]) -> Verb[list[bool]]:
        held = [one.lease if isinstance(one, Sent) else one for one in leases]
        released = [False] * len(held)
        self.worker_leases.forget(token.incarnation, held)
        by_partition = _by_partition(held)

        def rows(indexes: Sequence[int]) -> list[list[Any]]:
            found: list[list[Any]] = [*_ids(held, indexes)]
            for row, index in zip(found, indexes, strict=True):
                one = leases[index]
                if isinstance(one, Sent):
                    row.append(max(0, arguments.milliseconds(one.age)))
            return found

        asks = [
            function_call("release", self.bases[p], {"i": token.incarnation, "leases": rows(indexes)})
            for p, indexes in by_partition.items()
        ]
        if asks:
            replies = yield asks
            for indexes, reply in zip(by_partition.values(), replies, strict=True):
                for index, letter in zip(indexes, text(reply), strict=True):
                    released[index] = letter == "r"
        return released

    def permit(self, token: Token, host: str) -> Verb[tuple[Lease | None, float | None]]:
        own(token.incarnation)
        self.checked.host(host)
        partition = keys.partition_of(host, self.partitions)
        nonce = secrets.token_hex(8)
        header = {
            "i": token.incarnation,
            "s": token.sequence,
            "n": nonce,
            "lease": self.lease_ms,
            "host": host,
            "strikes": self.strikes,
        }
        [reply] = yield [function_call("permit", self.bases[partition], header)]
        number, wait, deadline, nonce = read(reply)
        if number == 0:
            return None, None if wait < 0 else wait / 1000
        end = deadline / 1000
        lease = Lease(partition, number, token.incarnation, nonce, "", host, 0, 0, b"", 1, False, end, end)
        return lease, None

    def _wants(self, want: int, token: Token) -> dict[int, int]:
        """Shares of `want` per partition; who gets the odd ones changes from token to token. A share of 0 still asks
        whether there is work."""
        if want <= 0:
            return {}
        if self.partitions == 1:
            return {0: want}
        quarantined = self.worker_leases.quarantined(token.incarnation)
        if quarantined is not None:
            return {quarantined: want}
        whole, odd = divmod(want, self.partitions)
        return {p: whole + ((p + token.sequence) % self.partitions < odd) for p in range(self.partitions)}


def _nothing_to_bring(partition: int, groups: Collection[str]) -> Verb[Known]:
    yield from ()
    return Known()


def _merge(a: Hints, b: Hints) -> Hints:
    """Over partitions: what comes first, what is open in all, a reason of one that is paused."""
    waits = [wait for wait in (a.ready_in, b.ready_in) if wait is not None]
    rooms = [room for room in (a.room, b.room) if room is not None]
    return Hints(
        min(waits, default=None),
        a.open + b.open,
        a.paused or b.paused,
        f"{a.config_version},{b.config_version}",
        max(a.now, b.now),
        min(rooms, default=None),
        max(a.session, b.session),
    )


def _many(requests: Sequence[Request]) -> bool:
    """Whether these are more than one call holds."""
    if len(requests) > CALL_REQUESTS:
        return True
    return sum(len(request.payload) for request in requests if type(request.payload) is bytes) > CALL_BYTES


def _by_partition(leases: Sequence[Lease]) -> dict[int, list[int]]:
    by_partition: dict[int, list[int]] = {}
    for index, lease in enumerate(leases):
        by_partition.setdefault(lease.partition, []).append(index)
    return by_partition


def _ids(leases: Sequence[Lease], indexes: Sequence[int]) -> list[list[str]]:
    return [[str(leases[i].id), leases[i].nonce] for i in indexes]
