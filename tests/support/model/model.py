"""The frontier once more, in plain lists and dictionaries: slow, small, and meant to be right at a glance.

A test tells it every call together with the server's answer; it raises AssertionError where the answer is not one that the
contract allows. Where the contract leaves a choice (which lane of a tier is served, which worker tries a suspect alone) it
checks that the choice was a lawful one and follows it. Its time moves only by `advance`: a test uses durations so long that
the real time that passes meanwhile does not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from tests.support.model.partition import Entry, ModelLease, ModelRequest, ModelStart, Partition, group_of

from gossamer.frontier.server import keys
from gossamer.model import (
    AddOutcome,
    CounterChange,
    ExchangeReply,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    Request,
    Selection,
    Settlement,
    SettleOutcome,
    StartState,
)


class Model:
    """A whole crawl: what concerns hosts goes to their partition, the rest to all.

    With several partitions a worker that tries a request alone gives back what others leased to it; that is not modelled, so
    `strikes` must be out of reach then.
    """

    def __init__(
        self, partitions: int, default: HostPolicy, lease_seconds: float, strikes: int, send_seconds: float = 5.0
    ) -> None:
        self.parts = [Partition(default, lease_seconds, strikes, send_seconds) for _ in range(partitions)]
        self.lease_seconds = lease_seconds

    def at(self, host: str) -> Partition:
        return self.parts[keys.partition_of(host, len(self.parts))]

    def home(self, group: str) -> Partition:
        return self.parts[keys.home_of(group, len(self.parts))]

    def advance(self, seconds: float) -> None:
        for part in self.parts:
            part.now += seconds
            part.unfed.clear()
            part.settle_turns()

    def define(self, group: str, lanes: dict[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        for part in self.parts:
            part.groups[group] = policy or part.groups.get(group) or GroupPolicy()
            part.lanes.update({f"{group}.{name}": lane for name, lane in lanes.items()})
            part.leave_memories(group)
        if policy and policy.start and group not in self.home(group).starts:
            self.home(group).starts[group] = ModelStart()

    def drop_lane(self, lane: str) -> int:
        """Of which nothing is leased; answers how many requests went with it."""
        return sum(part.drop_lane(lane) for part in self.parts)

    def drop_group(self, group: str) -> int:
        """Of which nothing is leased; answers how many requests and dead letters went with it."""
        return sum(part.drop_group(group) for part in self.parts)

    def add(self, requests: Sequence[Request], *, key: str = "") -> tuple[list[AddOutcome], int | None]:
        outcomes = [AddOutcome.ADDED] * len(requests)
        rooms = []
        for part in self.parts:
            mine = [index for index, request in enumerate(requests) if self.at(request.host) is part]
            if mine:
                entries = [Entry(requests[i], key=f"{key}:{i}" if key else "") for i in mine]
                found, room = part.add(entries, bound=True)
                rooms += [] if room is None else [room]
                for index, outcome in zip(mine, found, strict=True):
                    outcomes[index] = outcome
        return outcomes, min(rooms, default=None)

    def exchange(
        self,
        worker: str,
        answer: ExchangeReply,
        *,
        settle: Sequence[Settlement] = (),
        fetched: Sequence[Fetched] = (),
        sent: Sequence[Lease] = (),
        add: Sequence[Request] = (),
        counters: Sequence[CounterChange] = (),
        want: int = 0,
        selection: Selection | None = None,
    ) -> None:
        """Apply an exchange; `want` is a multiple of the number of partitions."""
        every = len(self.parts)
        here: dict[tuple[int, int], AddOutcome] = {}
        owed: dict[int, dict[int, list[tuple[tuple[int, int], Entry]]]] = defaultdict(lambda: defaultdict(list))
        children: dict[int, list[tuple[tuple[int, int], Entry]]] = defaultdict(list)
        of_part = [[i for i, one in enumerate(settle) if one.lease.partition == p] for p in range(every)]
        for index, one in enumerate(settle):
            for ordinal, request in enumerate(one.add):
                target, home = keys.partition_of(request.host, every), one.lease.partition
                told = ((index, ordinal), Entry(request, of_part[home].index(index)))
                (children[home] if target == home else owed[home][target]).append(told)
        settled = [SettleOutcome.SETTLED] * len(settle)
        added = [AddOutcome.ADDED] * len(add)
        rooms, opened, waits = [], 0, []
        for number, part in enumerate(self.parts):
            mine = [i for i, request in enumerate(add) if self.at(request.host) is part]
            arrivals = [one for one in fetched if one.lease.partition == number]
            on_way = [lease for lease in sent if lease.partition == number]
            asked = want > 0 or of_part[number] or mine or arrivals or on_way
            if not asked and number != 0:
                continue
            outcomes, child_outcomes, add_outcomes, room = part.exchange(
                worker, [settle[i] for i in of_part[number]], arrivals, on_way,
                [entry for _, entry in children[number]], [Entry(add[i]) for i in mine], counters if number == 0 else (),
            )  # fmt: skip
            for i, outcome in zip(of_part[number], outcomes, strict=True):
                settled[i] = outcome
            for i, child in zip(mine, add_outcomes, strict=True):
                added[i] = child
            here.update(zip([place for place, _ in children[number]], child_outcomes, strict=True))
            rooms += [] if room is None else [room]
            lanes = self.chosen(part, selection)
            leases = [lease for lease in answer.leases if lease.partition == number]
            part.lease(worker, leases, want // every, lanes)
            soonest = part.soonest(lanes)
            closed = ("crawl", "") in part.paused or worker in part.draining or part.kept_empty(worker)
            if len(leases) < want // every and soonest is not None and not closed:
                waits.append(soonest - part.now)
            groups = {group_of(lane) for lane in lanes}
            opened += sum(part.open(group) for group in groups)
            owing = {
                group_of(settle[i].lease.lane) for (i, _), _ in chain(*owed[number].values()) if _settled(settled[i])
            }
            opened += len(owing & groups)
        for number, boxes in owed.items():
            self.deliver(boxes, settle, [settled[i] for i in of_part[number]], here)
        assert answer.settled == settled
        assert answer.added == added
        assert answer.children == [[here[i, k] for k in range(len(one.add))] for i, one in enumerate(settle)]
        assert answer.hints.open == opened, f"{answer.hints.open} are said to be open, {opened} are"
        assert answer.hints.room == min(rooms, default=None)
        if waits:
            assert answer.hints.ready_in is not None, f"nothing is said to come, {waits} will"
            assert 0 <= answer.hints.ready_in <= max(0.0, min(waits)), f"{answer.hints.ready_in} is longer than {waits}"

    def deliver(
        self,
        boxes: dict[int, list[tuple[tuple[int, int], Entry]]],
        settle: Sequence[Settlement],
        settled: Sequence[SettleOutcome],
        here: dict[tuple[int, int], AddOutcome],
    ) -> None:
        """What pages of one partition owe to others arrives, if one of them was settled; that of lost ones is refused."""
        lost = {index for index, outcome in enumerate(settled) if not _settled(outcome)}
        everything = list(chain(*boxes.values()))
        none = all(entry.owner in lost for _, entry in everything)
        for target, entries in boxes.items():
            part = self.parts[target]
            if none:
                found = [AddOutcome.LOST] * len(entries)
                for (index, _), _ in entries:
                    part.tally[group_of(settle[index].lease.lane), "refused_children"] += 1
            else:
                found, _ = part.add([entry for _, entry in entries], bound=False, lost=lost)
                part.settle_turns()
            here.update(zip([place for place, _ in entries], found, strict=True))

    @staticmethod
    def chosen(part: Partition, selection: Selection | None) -> list[str]:
        if selection is None or not (selection.groups or selection.lanes):
            return list(part.lanes)
        return [lane for lane in part.lanes if group_of(lane) in selection.groups or lane in selection.lanes]

    def still_held(self, worker: str, leases: Sequence[Lease]) -> list[Lease]:
        return [lease for lease in leases if self.parts[lease.partition].holds(worker, lease)]

    def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        kept = []
        for lease in leases:
            part = self.parts[lease.partition]
            held = part.holds(worker, lease)
            if held:
                held.deadline = part.now + self.lease_seconds
            kept.append(held is not None)
        return kept

    def gone(self, worker: str) -> int:
        """What it holds runs out now. It has not called for long enough."""
        held = [(part, one) for part in self.parts for one in part.held.values() if one.worker == worker]
        for part, one in held:
            one.deadline = min(one.deadline, part.now)
        return len(held)

    def release(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        done = [self.parts[lease.partition].release(worker, lease) for lease in leases]
        for part in self.parts:
            part.settle_turns()
        return done

    def permit(self, worker: str, host: str, lease: Lease | None) -> None:
        part = self.at(host)
        part.reclaim()
        assert (lease is not None) == part.free(host), f"host {host}: {part.free(host)}, permit {lease}"
        if lease is not None:
            if part.delay(host) > 0:
                part.hosts[host].last, part.hosts[host].gap = part.now, 0.0
            part.held[lease.id] = ModelLease(None, host, worker, lease.nonce, part.now + self.lease_seconds)
        part.settle_turns()

    def pause(self, scope: str, name: str, reason: str) -> None:
        for part in [self.at(name)] if scope == "host" else self.parts:
            if reason:
                part.paused[scope, name] = reason
            else:
                part.paused.pop((scope, name), None)
            part.settle_turns()

    def set_host(self, name: str, policy: HostPolicy | None) -> None:
        part = self.at(name)
        part.hosts[name].policy = policy
        part.settle_turns()

    def block(self, name: str, seconds: float) -> None:
        part = self.at(name)
        part.hosts[name].blocked = part.now + seconds if seconds else 0.0
        part.hosts[name].throttles = 0
        part.hosts[name].answers.clear()
        part.settle_turns()

    def start(self, group: str, worker: str) -> StartState:
        start, now = self.home(group).starts.get(group), self.home(group).now
        if start is None or start.state == "done":
            return StartState.DONE
        if start.state == "leased" and start.holder != worker and start.deadline > now:
            return StartState.BUSY
        start.state, start.holder, start.deadline = "leased", worker, now + self.lease_seconds
        return StartState.GRANTED

    def started(self, group: str, worker: str) -> bool:
        start = self.home(group).starts.get(group)
        if start is None or start.state == "owed" or start.holder != worker:
            return False
        start.state = "done"
        return True

    def new_round(self, group: str, number: int) -> int:
        for part in self.parts:
            if number > part.rounds.get(group, 0):
                part.rounds[group] = number
                part.base[group] = part.tally[group, "pages"]
                if group in part.starts:
                    part.starts[group] = ModelStart()
        return self.parts[0].rounds.get(group, 0)

    def known(self, lane: str, fingerprint: int, *, forget: bool = False) -> bool:
        found = False
        for part in self.parts:
            memory = part.memory(lane)
            if memory is not None and fingerprint in memory:
                found = True
                if forget:
                    memory.remove(fingerprint)
        return found

    def replay(self, partition: int, payload: bytes) -> bool:
        part = self.parts[partition]
        entry = next(one for one in part.dead if one[2].request.payload == payload)
        job = entry[2]
        if job.request.lane not in part.lanes:
            return False
        part.dead.remove(entry)
        memory = part.memory(job.request.lane)
        if memory is not None and not job.request.dont_filter:
            memory.add(job.request.fingerprint)
        part.put(ModelRequest(job.request, job.priority))
        part.settle_turns()
        return True

    def drop_dead(self, partition: int, payload: bytes) -> None:
        part = self.parts[partition]
        part.dead.remove(next(one for one in part.dead if one[2].request.payload == payload))

    def total(self, name: str, what: str) -> int:
        return sum(part.tally[name, what] for part in self.parts)


def _settled(outcome: SettleOutcome) -> bool:
    return outcome is SettleOutcome.SETTLED
