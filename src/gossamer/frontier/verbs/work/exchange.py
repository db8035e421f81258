"""The verb of workers: exchange. A generator without I/O."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import ormsgpack

from gossamer.frontier.call import Verb, function_call, own, read, text
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server import keys
from gossamer.frontier.server.layout import SETTLEMENT
from gossamer.frontier.verbs import arguments
from gossamer.frontier.verbs.work.add import AddVerbs
from gossamer.frontier.verbs.work.batch import ADDED, VISIT, Batches, RequestChecker
from gossamer.frontier.verbs.work.leases import LeaseVerbs
from gossamer.frontier.verbs.work.outbox import CALL_BYTES, CALL_REQUESTS, Delivery, Outbox, OutboxBuilder
from gossamer.frontier.verbs.work.part import PartitionExchange
from gossamer.model import (
    AddOutcome,
    CounterChange,
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
)
from gossamer.model.reply import Invalid

FIRST_ITEM = 5
"""Where the items begin among a function's arguments."""
FIRST = SETTLEMENT.at("first_item")
SETTLED = {outcome.value: outcome for outcome in SettleOutcome}
NAMES_TOLD = 64
"""Names of groups and lanes that each call has with it; of more, a digest that the server knows after the first call."""


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
        self.adds = AddVerbs(self.bases, self.checked)
        self.leases = LeaseVerbs(self.bases, self.checked, self.lease_ms, strikes)
        self.worker_leases = self.leases.worker_leases
        self.outbox = Outbox(self.bases, self.lease_ms, self.adds.recent)
        self._last_selected = _Selected(Selection())

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
                boxes[home] = OutboxBuilder(token, home)
            self._part(parts, home).put(boxes[home], index, settlement, outcomes, invalid, group)
        owing = [(box, box.deliveries(group)) for box in boxes.values() if box.pages]
        added = [ADDED] * len(add)
        producers = Batches(CALL_REQUESTS, CALL_BYTES)
        many = _many(add)
        for index, request in enumerate(add):
            # Remembered by a key: for longer than the answer is kept.
            key = f"{token.incarnation}:{token.sequence}"
            if (found := self.adds.prepare(request, index, added, invalid, key)) is None:
                continue
            if many:
                producers.put(*found, (added, index))
            else:
                self._part(parts, found[0]).add.put(*found[1:], (added, index))
        for arrival in fetched:
            self._part(parts, arrival.lease.partition).fetched.append(
                [str(arrival.lease.id), arrival.lease.nonce, arguments.feedback(arrival.feedback)]
            )
        for one in sent:
            lease, age = one if isinstance(one, Sent) else (one, 0.0)
            row: list[Any] = [str(lease.id), lease.nonce]
            if lease.paced:
                row.append(max(0, arguments.milliseconds(age)))
            self._part(parts, lease.partition).sent.append(row)
        if owing:
            yield from self._checked_lists(owing)
        ahead = yield from self.outbox.ahead(owing)
        room = yield from self.adds.produce(token, producers)
        settled = [SettleOutcome.SETTLED] * len(settle)
        if self.partitions > 1:
            self.worker_leases.forget(token.incarnation, [settlement.lease for settlement in settle])
        wants = self._wants(want, token)
        selected = self._selected(selection or Selection())
        nonce = secrets.token_hex(8)
        asked: list[tuple[int, PartitionExchange, dict[str, Any]]] = []
        others = set(range(self.partitions)) if everywhere else {0} if told or not wants else set()
        for partition in sorted({*wants, *parts, *others}):
            part = self._part(parts, partition)
            header = {
                "i": token.incarnation, "s": token.sequence, "n": nonce, "lease": self.lease_ms, "strikes": self.strikes,
                "send": round(self.send_seconds * 1000), "want": wants.get(partition, 0), **selected.short,
                "settle": part.settle, "group": group, "fetched": part.fetched, "sent": part.sent, "children": part.children.header,
                "add": part.add.header, "counters": told if partition == 0 else (),
                "peek": self.partitions > 1 and want > 0,
                "busy": self.partitions > 1 and self.worker_leases.busy(token.incarnation, partition),
                "info": ormsgpack.packb(dict(info)).hex() if info else None, "knows_texts": 1,
            }  # fmt: skip
            if session:
                header["session"] = session
            statuses, part.signatures = arguments.visits(part.visits, len(part.settle))
            if statuses:
                header["statuses"] = statuses
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
        replies = yield from self._told(asked, selected)
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
            for partition, epoch in epochs.items():
                yield from self.adds.catch_up(partition, epoch, selected.served)
            leases = yield from self._alone(token, leases)
        if leases:
            hints = hints._replace(paused="")
        if room is not None:
            hints = hints._replace(room=room if hints.room is None else min(room, hints.room))
        return ExchangeReply(leases, settled, added, children, invalid, hints, states)

    def _part(self, parts: dict[int, PartitionExchange], partition: int) -> PartitionExchange:
        part = parts.get(partition)
        if part is None:
            part = parts[partition] = PartitionExchange(partition, self.partitions, self.checked, self.slots)
        return part

    def _selected(self, selection: Selection) -> _Selected:
        if self._last_selected.selection is not selection:
            self._last_selected = _Selected(selection)
        return self._last_selected

    def _told(
        self, parts: Sequence[tuple[int, PartitionExchange, dict[str, Any]]], selected: _Selected
    ) -> Verb[list[Any]]:
        """The partitions' replies. A partition in another state than the caller relied on refuses, and so does one that does not know
        what the worker serves: it is sent all children, and all names."""
        replies = yield [self._asked(*part) for part in parts]
        refused = []
        for place, (_, part, header) in enumerate(parts):
            if "on" not in header and not selected.is_short:
                continue
            settled, outcomes, *_ = read(replies[place][0])
            if settled is False:
                refused.append(place)
            elif "on" in header and sum(map(len, outcomes)) != part.children.count:
                # The call is repeated, and was told everything when it was answered.
                part.tell_all()
        if refused:
            for place in refused:
                _, part, header = parts[place]
                if header.pop("on", None) is not None:
                    part.tell_all()
                header.update(selected.whole)
                header["children"] = part.children.header
            again = yield [self._asked(*parts[place]) for place in refused]
            for place, reply in zip(refused, again, strict=True):
                replies[place] = reply
        return replies

    def _asked(self, partition: int, part: PartitionExchange, header: dict[str, Any]) -> RoutedCommand:
        return function_call(
            "exchange",
            self.bases[partition],
            header,
            part.children.records,
            part.add.records,
            part.signatures,
            *part.items,
            *part.deliveries,
        )

    def _checked_lists(self, owing: Sequence[tuple[OutboxBuilder, list[Delivery]]]) -> Verb[None]:
        """Check the entries for lists before their pages are settled."""
        named = {
            str(delivery.target): None for _, deliveries in owing for delivery in deliveries if delivery.verb == "push"
        }
        if named:
            yield [function_call("push", keys.list_keys(key), {"pages": []}) for key in named]

    def _alone(self, token: Token, leases: list[Lease]) -> Verb[list[Lease]]:
        """The leases that the worker keeps: with a request that must be tried alone, no other from any partition."""
        alone = next((lease for lease in leases if lease.alone), None)
        if alone is not None and len(leases) > 1:
            yield from self.leases.release(token, [lease for lease in leases if lease is not alone])
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
            self.adds.recent.note(partition, part.add, add_outcomes, time.monotonic(), now)
        seconds = now / 1000
        deadline, send_by = (now + self.lease_ms) / 1000, seconds + self.send_seconds
        incarnation = token.incarnation
        fields = iter(heads)
        columns = zip(fields, fields, fields, fields, fields, fields, reply[1:], strict=True)
        for number, lane, host, priority, attempt, flags, record in columns:
            leases.append(
                Lease(
                    partition, number, incarnation, nonce, lane, host, priority, int.from_bytes(record[1:9], "big"),
                    record[9:], attempt, flags % 2 == 1, deadline, send_by, flags >= 2, record[0] == VISIT,
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


class _Selected:
    """A selection as exchanges say it: `whole`, or `short` where it has many names, for servers that were told before. `served`: its
    groups."""

    def __init__(self, selection: Selection) -> None:
        groups, lanes, stage = self.selection = selection
        self.whole: dict[str, Any] = {"groups": groups, "lanes": lanes, "stage": stage}
        self.short, self.is_short = self.whole, len(groups) + len(lanes) > NAMES_TOLD
        if self.is_short:
            named = blake2b(ormsgpack.packb((groups, lanes, stage)), digest_size=16).hexdigest()
            self.short = {"named": named, "stage": stage}
            self.whole["named"] = named
        self.served = frozenset((*groups, *(lane.rpartition(".")[0] for lane in lanes)))


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
