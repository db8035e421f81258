"""What pages owe beyond the call that settles them: kept by that call, delivered after it. Generators without I/O.

Children of other partitions, data for lists in other slots, and whatever one call does not hold are parcels. The call that
settles the pages keeps their parcels in the outbox of the pages' partition, for the pages that were really settled. Then they are
delivered, each once by its name, and the entry is removed. A worker that dies in between leaves an entry that is owed: another one
reads and delivers it. So a late worker sends nothing, and what a page sends is what the attempt found that was settled.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import ormsgpack

from gossamer.errors import FrontierError
from gossamer.frontier.call import Verb, function_call, read, text, translate
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.recent_adds import RecentAdds
from gossamer.frontier.server import keys
from gossamer.frontier.verbs import lists
from gossamer.frontier.verbs.work.batch import Batch, Batches, Place, Slot
from gossamer.model import Lease, Token

CALL_REQUESTS = 1000
CALL_BYTES = 4_000_000
CALL_ITEMS = 50_000
CALL_ITEM_BYTES = 64_000_000
"""The most items and entries for lists, and bytes of them, that are sent with their settlement."""


class Delivery(NamedTuple):
    """One call to be made elsewhere. `target`: a partition, or the key of a list."""

    verb: str
    target: int | str
    header: dict[str, Any]
    args: list[bytes]
    batch: Batch | None = None

    @property
    def packed(self) -> bytes:
        return ormsgpack.packb([self.verb, self.target, self.header, self.args])

    @classmethod
    def unpacked(cls, data: bytes) -> Delivery:
        return cls(*ormsgpack.unpackb(data))

    def ask(
        self, bases: Sequence[str], entry: str, number: int, lost: Sequence[int], owed: bool
    ) -> RoutedCommand | None:
        """The call, under the name of the parcel; None if there is nothing to send. Not `owed`: it was made before."""
        name = f"{entry}:{number}"
        if self.verb == "add":
            said = {**self.header, "i": name, "s": 1, "bound": False, "lost": list(lost), "kept": not owed}
            return function_call("add", bases[int(self.target)], said, *self.args)
        if not owed:
            return None
        if self.verb == "append":
            if self.header["page"] in lost:
                return None
            return function_call(
                "append", bases[int(self.target)], {"i": name, "group": self.header["group"]}, *self.args
            )
        rows, data, at = [], [], 0
        for page, first, count in self.header["pages"]:
            if page not in lost:
                rows.append((f"{entry}:{page}", first, count))
                data += self.args[at : at + count]
            at += count
        return (
            function_call("push", keys.list_keys(str(self.target)), {"pages": rows, "tell": True}, *data)
            if rows
            else None
        )


class OutboxBuilder:
    """What the pages of one partition owe that are settled in one call."""

    def __init__(self, token: Token, home: int) -> None:
        self.home, self.entry = home, f"{token.incarnation}:{token.sequence}:{home}"
        self.pages: dict[int, list[str]] = {}
        self.children: dict[int, int] = {}
        self.lost: list[int] = []
        self.owed = False
        self._batches = Batches(CALL_REQUESTS, CALL_BYTES)
        self._lists: dict[str, list[lists.Page]] = {}
        self._items: list[tuple[int, str, list[bytes]]] = []

    def child(self, page: int, lease: Lease, target: int, place: Place, entry: str, record: bytes, slot: Slot) -> None:
        self._of(page, lease)
        self.children[page] += 1
        self._batches.put(target, place, entry, record, slot, page)

    def push(self, page: int, lease: Lease, data: dict[str, list[bytes]]) -> None:
        self._of(page, lease)
        for key, texts in data.items():
            self._lists.setdefault(key, []).append((page, 0, texts))

    def items(self, page: int, lease: Lease, items: Sequence[bytes]) -> None:
        self._of(page, lease)
        group = lease.lane.rpartition(".")[0]
        for [(_, _, some)] in lists.calls([(page, 0, list(items))]):
            self._items.append((page, group, some))

    def _of(self, page: int, lease: Lease) -> None:
        if page not in self.pages:
            self.pages[page], self.children[page] = [str(lease.id), lease.nonce], 0

    def deliveries(self, group: str) -> list[Delivery]:
        found = [
            Delivery("add", partition, {"add": batch.header, "group": group}, [batch.records], batch)
            for partition, _, batch in self._batches
        ]
        found += [Delivery("append", self.home, {"page": page, "group": own}, some) for page, own, some in self._items]
        for key, pages in self._lists.items():
            for call in lists.calls(pages):
                rows = [(page, first, len(data)) for page, first, data in call]
                found.append(Delivery("push", key, {"pages": rows}, [datum for _, _, data in call for datum in data]))
        return found


class Outbox:
    """Keeps and delivers what pages owe, for the workers of one client."""

    def __init__(self, bases: Sequence[str], lease_ms: int, recent: RecentAdds) -> None:
        self.bases, self.lease_ms, self.recent = bases, lease_ms, recent
        self._delivered: dict[int, list[str]] = {}

    def ahead(self, boxes: Sequence[tuple[OutboxBuilder, list[Delivery]]]) -> Verb[dict[int, int]]:
        """Send the parcels that do not fit into one call ahead of it. Return how many, by partition."""
        went: dict[int, int] = {}
        for box, deliveries in boxes:
            size = sum(len(data) for delivery in deliveries for data in delivery.args)
            count = sum(delivery.batch.count if delivery.batch else len(delivery.args) for delivery in deliveries)
            if size <= CALL_BYTES and count <= CALL_REQUESTS:
                continue
            leases = list(box.pages.values())
            for number, delivery in enumerate(deliveries, 1):
                said = {"action": "stage", "id": box.entry, "n": number, "leases": leases, "lease": self.lease_ms}
                yield [function_call("owed", self.bases[box.home], said, delivery.packed)]
            went[box.home] = len(deliveries)
        return went

    def deliver(self, boxes: Sequence[tuple[OutboxBuilder, list[Delivery]]], epochs: dict[int, str]) -> Verb[bool]:
        """Deliver what is owed now, at the same time where it goes to different places. Return whether children were added;
        `epochs` gets those of the partitions where children went."""
        waiting: dict[int | str, list[tuple[RoutedCommand, Delivery]]] = {}
        for box, deliveries in boxes:
            if len(box.lost) == len(box.pages):
                for delivery in deliveries:
                    if delivery.batch is not None:
                        delivery.batch.refuse()
                continue
            for number, delivery in enumerate(deliveries, 1):
                said = delivery.ask(self.bases, box.entry, number, box.lost, box.owed)
                if said is not None:
                    waiting.setdefault(delivery.target, []).append((said, delivery))
        added = False
        while waiting:
            now = [calls[0] for calls in waiting.values()]
            replies = yield [said for said, _ in now]
            for (_, delivery), reply in zip(now, replies, strict=True):
                added = self._answered(delivery, reply, epochs) or added
            waiting = {target: calls[1:] for target, calls in waiting.items() if len(calls) > 1}
        owed = [(box, deliveries) for box, deliveries in boxes if box.owed]
        if owed:
            done = [function_call("owed", self.bases[box.home], {"action": "done", "id": box.entry}) for box, _ in owed]
            replies = yield done
            for (box, deliveries), [reply] in zip(owed, replies, strict=True):
                # Who was handed the entry may deliver it at any later time: its names are kept then.
                for number, delivery in enumerate(deliveries if read(reply) == 1 else (), 1):
                    if isinstance(delivery.target, int):
                        self._delivered.setdefault(delivery.target, []).append(f"{box.entry}:{number}")
        return added

    def _answered(self, delivery: Delivery, reply: Any, epochs: dict[int, str]) -> bool:
        if delivery.verb == "push" and not isinstance(reply, int):
            raise translate(FrontierError(text(reply)))
        if delivery.batch is None:
            return False
        outcomes, _, _, epochs[int(delivery.target)], there = read(reply)
        if outcomes:
            delivery.batch.settle(outcomes)
            if len(self.bases) > 1:
                group = delivery.header["group"]
                self.recent.note(int(delivery.target), delivery.batch, outcomes, time.monotonic(), there, group)
        return any("a" in text(letters) for letters in outcomes)

    def _note(self, delivery: Delivery, answer: Any) -> None:
        """Keep what was delivered for another worker, as if it were this worker's own."""
        if delivery.verb == "add" and len(self.bases) > 1:
            outcomes, _, _, _, there = read(answer)
            if outcomes:
                batch = Batch.of(delivery.header["add"], delivery.args[0])
                group = delivery.header["group"]
                self.recent.note(int(delivery.target), batch, outcomes, time.monotonic(), there, group)

    def delivered(self, partition: int) -> list[str]:
        """The names of deliveries that this partition may soon forget."""
        return self._delivered.pop(partition, [])

    def complete(self, home: int, entry: str, *, dropped: bool = False) -> Verb[None]:
        """Deliver an entry of another worker, parcel by parcel. If a list does not take its data it stays owed, unless its
        group is being dropped."""
        [reply] = yield [function_call("owed", self.bases[home], {"action": "read", "id": entry, "n": 0})]
        note = read(reply[0])
        if not note:
            return
        lost, count = note
        for number in range(1, count + 1):
            [reply] = yield [function_call("owed", self.bases[home], {"action": "read", "id": entry, "n": number})]
            if len(reply) < 2 or not reply[1]:
                return  # Its worker, or another one, has delivered all of it.
            delivery = Delivery.unpacked(reply[1])
            said = delivery.ask(self.bases, entry, number, lost, True)
            if said is not None:
                [answer] = yield [said]
                self._note(delivery, answer)
                if delivery.verb == "push" and not isinstance(answer, int) and not dropped:
                    return
        yield [function_call("owed", self.bases[home], {"action": "done", "id": entry})]

    def complete_all(
        self, group: str = "", partitions: Collection[int] | None = None, *, dropped: bool = False
    ) -> Verb[int]:
        """Deliver what pages of a group owe (of all groups without one) on these partitions (None: on all), up to a thousand entries of
        each; how many there were."""
        homes = range(len(self.bases)) if partitions is None else partitions
        said = {"action": "list", "id": "", "group": group}
        replies = yield [function_call("owed", self.bases[home], said) for home in homes]
        found = [(home, text(entry)) for home, reply in zip(homes, replies, strict=True) for entry in read(reply[0])]
        for home, entry in found:
            yield from self.complete(home, entry, dropped=dropped)
        return len(found)
