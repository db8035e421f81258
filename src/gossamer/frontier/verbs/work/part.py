"""What one exchange sends to one partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gossamer.errors import InvalidRequest
from gossamer.frontier.server import keys
from gossamer.frontier.server.layout import SETTLEMENT
from gossamer.frontier.verbs import arguments, lists
from gossamer.frontier.verbs.work.batch import ADDED, Batch, RequestChecker, request_entry
from gossamer.frontier.verbs.work.outbox import CALL_BYTES, CALL_ITEM_BYTES, CALL_ITEMS, CALL_REQUESTS, OutboxBuilder
from gossamer.model import AddOutcome, Ending, PageVisit, Request, Settlement
from gossamer.model.reply import Invalid

PUSHED = SETTLEMENT.at("pushed")
"""Where a settlement says how much it pushes to lists."""
ITEMS = SETTLEMENT.at("items")


class PartitionExchange:
    """What one exchange sends to one partition."""

    __slots__ = (
        "add", "checked", "children", "deliveries", "fetched", "home", "items", "lists", "partitions", "sent", "settle", "settled_at",
        "signatures", "size", "slots", "spilt", "visits", "withheld",
    )  # fmt: skip

    def __init__(self, home: int, partitions: int, checked: RequestChecker, slots: bool) -> None:
        """With `slots` a list may lie in another slot, out of the reach of a partition's functions."""
        self.home, self.partitions, self.checked, self.slots = home, partitions, checked, slots
        self.settle: list[list[Any]] = []
        self.settled_at: list[int] = []
        self.visits: dict[int, PageVisit] = {}
        self.signatures = b""
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

    def put(
        self,
        box: OutboxBuilder,
        index: int,
        settlement: Settlement,
        outcomes: list[AddOutcome],
        invalid: Invalid,
        group: str,
    ) -> None:
        """Add a settlement; what does not go with this call goes into `box`."""
        lease = settlement.lease
        number = len(self.settle) + 1
        if problem := arguments.too_large(settlement):
            outcomes[:] = [AddOutcome.INVALID] * len(outcomes)
            invalid.update({(index, ordinal): problem for ordinal in range(len(outcomes))})
            settlement = Settlement(
                lease, Ending.FAILED, feedback=settlement.feedback, reason="too_large", detail=problem
            )
        self._put_children(box, index, number, settlement, outcomes, invalid)
        self.settled_at.append(index)
        if settlement.visit is not None:
            self.visits[number] = settlement.visit
        if settlement.withheld is not None:
            self.withheld.append((number, settlement.withheld))
        own = lease.lane.rpartition(".")[0]
        if (
            settlement[1] is Ending.DONE
            and not settlement.items
            and settlement.feedback is None
            and own == group
            and not settlement.push
            and not settlement.kept
        ):
            self.settle.append([str(lease.id), lease.nonce])
            return
        self._put_row(box, number, settlement, own)

    def _put_children(
        self,
        box: OutboxBuilder,
        index: int,
        number: int,
        settlement: Settlement,
        outcomes: list[AddOutcome],
        invalid: Invalid,
    ) -> None:
        prepare, here, home, partitions = self.checked.prepare, self.children, self.home, self.partitions
        for ordinal, request in enumerate(settlement.add):
            try:
                place, record = prepare(request)
            except InvalidRequest as problem:
                outcomes[ordinal] = AddOutcome.INVALID
                invalid[index, ordinal] = str(problem)
                continue
            entry = "" if request.dont_filter else request_entry(request)
            target = home if partitions == 1 else keys.partition_of(request.host, partitions)
            slot = (outcomes, ordinal)
            if target == home and not self.spilt:
                here.put(place, entry, record, slot, number)
                # What comes after these is owed, so that their order stays.
                self.spilt = here.count >= CALL_REQUESTS or here.size >= CALL_BYTES
            else:
                # Kept by a key where no fingerprint says that it is known.
                entry = entry or f"k{box.entry}:{number}:{ordinal}"
                box.child(number, settlement.lease, target, place, entry, record, slot)

    def _put_row(self, box: OutboxBuilder, number: int, settlement: Settlement, own: str) -> None:
        lease, push = settlement.lease, settlement.push
        row: list[Any] = [
            str(lease.id), lease.nonce, settlement.ending.value, self.checked.delay(settlement.delay),
            None if settlement.priority is None else self.checked.priority(settlement.priority),
            arguments.clean(settlement.reason) or settlement.ending.value, arguments.clean(settlement.detail), arguments.feedback(settlement.feedback),
            len(self.items), len(settlement.items), own,
        ]  # fmt: skip
        self.settle.append(row)
        if self._fits(settlement.items):
            self.items.extend(settlement.items)
        else:
            row[ITEMS] = 0
            box.items(number, lease, settlement.items)
        if push:
            found = lists.by_key(push)
            row.append(len(push))
            if self.slots or not self._fits([data for _, data in push]):
                box.push(number, lease, found)
            else:
                row.append([word for key, data in found.items() for word in (key, len(data))])
                self.items.extend(datum for data in found.values() for datum in data)
                self.lists.update(dict.fromkeys(found))
        if settlement.kept:
            row += (0, False)[len(row) - PUSHED :]
            row.append(settlement.kept)

    def _fits(self, data: Sequence[bytes]) -> bool:
        """Whether these may go with the settlements; if so they are counted."""
        if not data:
            return True
        size = sum(map(len, data))
        if len(self.items) + len(data) > CALL_ITEMS or self.size + size > CALL_ITEM_BYTES:
            return False
        self.size += size
        return True

    def tell_all(self) -> None:
        """Leave nothing out: the partition may have lost what it was known to have. Children of other partitions were sent there
        by the workers that found them, and these send them again."""
        for page, withheld in self.withheld:
            requests = withheld()
            outcomes = [ADDED] * len(requests)
            for ordinal, request in enumerate(requests):
                if keys.partition_of(request.host, self.partitions) != self.home:
                    continue
                try:
                    place, record = self.checked.prepare(request)
                except InvalidRequest:
                    continue
                self.children.put(place, request_entry(request), record, (outcomes, ordinal), page)
