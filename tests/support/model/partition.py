"""One partition of the model: what is where, what may be leased, and what each call changes.

`tests.support.model.model` puts partitions together.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gossamer.model import (
    AddOutcome,
    CounterChange,
    CounterOp,
    Ending,
    Feedback,
    Fetched,
    GroupPolicy,
    HostPolicy,
    HostVerdict,
    LanePolicy,
    Lease,
    Order,
    Request,
    SeenScope,
    Settlement,
    SettleOutcome,
)
from gossamer.model.counter_names import ITEMS

Spot = tuple[str, int, str]
"""Lane, priority and host: the unit inside which order is exact."""
ANSWERS_KEPT_SECONDS = 600.0
"""How long the last answers of a host count after a refusal."""


@dataclass(eq=False, slots=True)
class ModelRequest:
    """One request on its way."""

    request: Request
    priority: int
    id: int = 0
    attempts: int = 0
    strikes: int = 0
    losses: int = 0

    @property
    def spot(self) -> Spot:
        return self.request.lane, self.priority, self.request.host


@dataclass(eq=False, slots=True)
class ModelLease:
    """One lease; without a job it is a permit. `mark`: 1 sent, 2 response arrived. `counted`: the group that was stricter than
    the host when it was leased."""

    job: ModelRequest | None
    host: str
    worker: str
    nonce: str
    deadline: float
    alone: bool = False
    mark: int = 0
    counted: str = ""


@dataclass(eq=False, slots=True)
class Host:
    """`last`: when its last request was sent; `gap`: the delay that the group of that one asks for; `awaits`: the lease that is
    not reported as sent, which it must be until `till`."""

    policy: HostPolicy | None = None
    last: float | None = None
    gap: float = 0.0
    awaits: ModelLease | None = None
    till: float = 0.0
    blocked: float = 0.0
    throttles: int = 0
    answers: list[bool] = field(default_factory=list)
    """Whether its last answers were refusals, as long as one of them was."""
    refused: float = 0.0
    crawl_delay: float = 0.0


@dataclass(eq=False, slots=True)
class ModelStart:
    state: str = "owed"
    holder: str = ""
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A request to add: `owner` is the settlement whose page made it, `key` under which it is added once."""

    request: Request
    owner: int | None = None
    key: str = ""


def group_of(lane: str) -> str:
    return lane.rpartition(".")[0]


@dataclass(eq=False)
class Partition:
    """One partition's share of the crawl."""

    default: HostPolicy
    lease_seconds: float
    strikes_max: int
    send_seconds: float = 5.0
    now: float = 0.0
    lanes: dict[str, LanePolicy] = field(default_factory=dict)
    groups: dict[str, GroupPolicy] = field(default_factory=dict)
    paused: dict[tuple[str, str], str] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    hosts: dict[str, Host] = field(default_factory=lambda: defaultdict(Host))
    front: dict[Spot, list[ModelRequest]] = field(default_factory=lambda: defaultdict(list))
    queue: dict[Spot, list[ModelRequest]] = field(default_factory=lambda: defaultdict(list))
    delayed: list[tuple[float, ModelRequest]] = field(default_factory=list)
    held: dict[int, ModelLease] = field(default_factory=dict)
    suspects: list[ModelRequest] = field(default_factory=list)
    dead: list[tuple[str, str, ModelRequest]] = field(default_factory=list)
    items: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    written: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many of them, the oldest, a consumer has written."""
    seen: dict[tuple[str, str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    keyed: set[tuple[str, str]] = field(default_factory=set)
    rounds: dict[str, int] = field(default_factory=dict)
    base: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    starts: dict[str, ModelStart] = field(default_factory=dict)
    tally: Tally[tuple[str, str]] = field(default_factory=Tally)
    counters: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    owed: dict[tuple[str, int], dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    unfed: dict[str, int] = field(default_factory=dict)

    # What is where.

    def waiting(self, spot: Spot) -> list[ModelRequest]:
        """The jobs of a spot in the order in which they must go out."""
        queue = self.queue[spot]
        return self.front[spot] + (queue[::-1] if self.lanes[spot[0]].order is Order.LIFO else queue)

    def spots(self, lane: str) -> list[Spot]:
        return [spot for spot in {**self.front, **self.queue} if spot[0] == lane and self.waiting(spot)]

    def queued(self, lane: str) -> int:
        return sum(len(self.waiting(spot)) for spot in self.spots(lane)) + sum(
            job.request.lane == lane for job in self.suspects
        )

    def later(self, lane: str) -> int:
        return sum(job.request.lane == lane for _, job in self.delayed)

    def leased(self, lane: str) -> int:
        return sum(held.job is not None and held.job.request.lane == lane for held in self.held.values())

    def lanes_of(self, group: str) -> list[str]:
        return [lane for lane in self.lanes if group_of(lane) == group]

    def open(self, group: str) -> int:
        work = sum(self.queued(lane) + self.later(lane) + self.leased(lane) for lane in self.lanes_of(group))
        return work + (group in self.starts and self.starts[group].state != "done")

    def dead_of(self, group: str) -> int:
        return sum(one == group for one, _, _ in self.dead)

    def in_flight(self, host: str) -> int:
        return sum(held.host == host and held.mark != 2 for held in self.held.values())

    def pages(self, group: str) -> int:
        """Of the present round."""
        return self.tally[group, "pages"] - self.base[group]

    # What may be leased.

    def full(self, group: str) -> bool:
        policy = self.groups[group]
        return any(
            0 < limit <= value
            for limit, value in (
                (policy.max_pages, self.pages(group) + sum(map(self.leased, self.lanes_of(group)))),
                (policy.max_dead, self.dead_of(group)),
            )
        ) or (self.over(group) and not self.written[group])

    def over(self, group: str) -> bool:
        policy, items = self.groups[group], self.items[group]
        return 0 < policy.max_items <= len(items) or 0 < policy.max_item_bytes <= sum(map(len, items))

    def make_room(self, group: str, come: int) -> None:
        """At the limit the oldest written items go, a tenth of all at a time, or as many as have come."""
        for _ in range(10):
            if not self.over(group) or not self.written[group]:
                return
            gone = min(self.written[group], max(-(-len(self.items[group]) // 10), come))
            del self.items[group][:gone]
            self.written[group] -= gone

    def serves(self, lane: str) -> bool:
        group = group_of(lane)
        stopped = {("crawl", ""), ("group", group), ("lane", lane)} & self.paused.keys()
        room = self.lanes[lane].max_leased == 0 or self.leased(lane) < self.lanes[lane].max_leased
        return not stopped and not self.full(group) and room

    def delay(self, host: str, group: str = "") -> float:
        policy = self.hosts[host].policy or self.default
        own = self.groups[group].delay if group else 0.0
        heeds = policy.crawl_delay and (not group or self.groups[group].crawl_delay)
        return max(policy.delay, self.hosts[host].crawl_delay if heeds else 0.0, own)

    def wait(self, name: str) -> float:
        host = self.hosts[name]
        if host.awaits and host.till <= self.now:
            host.last, host.awaits = host.till, None
        sent = host.till if host.awaits else host.last
        return host.blocked if sent is None else max(host.blocked, sent + max(self.delay(name), host.gap))

    def occupied(self, held: ModelLease, group: str) -> None:
        """A request was leased: if there is a delay, it is waited for."""
        if self.delay(held.host, group) > 0:
            host = self.hosts[held.host]
            host.awaits, host.till, host.gap = held, self.now + self.send_seconds, self.groups[group].delay

    def on_its_way(self, held: ModelLease, at: float) -> None:
        """A lease was sent at this time."""
        host = self.hosts[held.host]
        self.wait(held.host)
        if host.awaits is held:
            host.awaits = None
        host.last = at if host.last is None else max(host.last, at)

    def let_go(self, held: ModelLease, *, unsent: bool = False) -> None:
        """A lease ends: if its host waited for it, it does so no more."""
        host = self.hosts[held.host]
        self.wait(held.host)
        if host.awaits is held and held.mark != 2:
            if unsent:
                host.awaits = None
            else:
                self.on_its_way(held, self.now)

    def stricter(self, host: str, group: str) -> bool:
        limit, own = (self.hosts[host].policy or self.default).concurrency, self.groups[group].concurrency
        return own > 0 and (limit == 0 or own < limit)

    def own_in_flight(self, host: str, group: str) -> int:
        return sum(held.host == host and held.mark != 2 and held.counted == group for held in self.held.values())

    def free(self, host: str, group: str = "") -> bool:
        """Whether one more request may go to the host now."""
        return self.wait(host) <= self.now and self.has_slot(host, group)

    def has_slot(self, host: str, group: str = "") -> bool:
        """Whether time alone keeps the host from being asked, if anything does."""
        if ("host", host) in self.paused:
            return False
        limit = (self.hosts[host].policy or self.default).concurrency
        if limit and self.in_flight(host) >= limit:
            return False
        if not group or not self.stricter(host, group):
            return True
        return self.own_in_flight(host, group) < self.groups[group].concurrency

    def ready(self, lane: str) -> list[Spot]:
        """The spots of a lane that may be leased from now, whatever the lane itself says."""
        return [spot for spot in self.spots(lane) if self.free(spot[2], group_of(lane))]

    def surely_ready(self, lane: str) -> list[Spot]:
        """Those whose host is not kept for a while for another group, whose turn it is."""
        group = group_of(lane)
        others = {spot[2] for one in self.lanes if group_of(one) != group for spot in self.spots(one)}
        return [spot for spot in self.ready(lane) if spot[2] not in others]

    def soonest(self, lanes: Iterable[str]) -> float | None:
        """When something that is not ready now will be, without anybody doing anything."""
        times = [held.deadline for held in self.held.values()]
        for lane in lanes:
            if self.serves(lane):
                times += [due for due, job in self.delayed if job.request.lane == lane]
                hosts = {spot[2] for spot in self.spots(lane)}
                hosts |= {job.request.host for job in self.suspects if job.request.lane == lane}
                hosts = {host for host in hosts if self.has_slot(host, group_of(lane))}
                times += [self.wait(host) for host in hosts if self.wait(host) > self.now]
        return min(times, default=None)

    # Adding.

    def memory(self, lane: str) -> set[int] | None:
        policy = self.lanes[lane].seen
        if policy.scope is SeenScope.NEVER:
            return None
        group = group_of(lane)
        number = self.rounds.get(group, 0) if policy.scope is SeenScope.ROUND else -1
        return self.seen[group, policy.spec, number]

    def room(self, lane: str) -> int | None:
        group, rooms = group_of(lane), []
        if self.lanes[lane].max_queued:
            rooms.append(self.lanes[lane].max_queued - self.queued(lane) - self.later(lane))
        if self.groups[group].max_queued:
            taken = sum(self.queued(one) + self.later(one) for one in self.lanes_of(group))
            rooms.append(self.groups[group].max_queued - taken)
        return min(rooms, default=None)

    def add(
        self,
        entries: Sequence[Entry],
        *,
        bound: bool,
        lost: set[int] = frozenset(),  # type: ignore[assignment]
    ) -> tuple[list[AddOutcome], int | None]:
        """Requests of one place are taken together, places in the order in which they are first named."""
        places: dict[tuple[str, str, int, float], list[int]] = {}
        for index, entry in enumerate(entries):
            request = entry.request
            places.setdefault((request.lane, request.host, request.priority, request.delay), []).append(index)
        outcomes = [AddOutcome.ADDED] * len(entries)
        least: int | None = None
        for (lane, _, priority, _), indexes in places.items():
            if lane not in self.lanes:
                for index in indexes:
                    late = entries[index].owner in lost
                    outcomes[index] = AddOutcome.LOST if late else AddOutcome.UNKNOWN_LANE
                    if not bound and not late:
                        self.bury(group_of(lane), "unknown_lane", ModelRequest(entries[index].request, priority))
                continue
            room = self.room(lane)
            added = 0
            for index in indexes:
                full = bound and room is not None and added >= room
                outcomes[index] = AddOutcome.FULL if full else self.admit(entries[index], lost)
                if outcomes[index] is AddOutcome.ADDED:
                    added += 1
                    self.put(ModelRequest(entries[index].request, priority), entries[index].request.delay)
            self.tally[lane, "added"] += added
            if room is not None:
                least = min(max(0, room - added), room if least is None else least)
                if not bound and added > room:
                    self.tally[lane, "overflow"] += added - max(0, room)
        return outcomes, None if least is None else max(0, least)

    def admit(self, entry: Entry, lost: set[int]) -> AddOutcome:
        request = entry.request
        if entry.owner in lost:
            self.tally[group_of(request.lane), "refused_children"] += 1
            return AddOutcome.LOST
        if request.dont_filter:
            key = (group_of(request.lane), entry.key)
            if key in self.keyed:
                return AddOutcome.DUPLICATE
            if entry.key:
                self.keyed.add(key)
            return AddOutcome.ADDED
        memory = self.memory(request.lane)
        if memory is not None:
            if request.fingerprint in memory:
                self.tally[request.lane, "duplicates"] += 1
                return AddOutcome.DUPLICATE
            memory.add(request.fingerprint)
        return AddOutcome.ADDED

    def put(self, job: ModelRequest, delay: float = 0.0) -> None:
        if delay > 0:
            self.delayed.append((self.now + delay, job))
            self.delayed.sort(key=lambda one: one[0])  # stable: equal times in the order of arrival
        else:
            self.queue[job.spot].append(job)

    def bury(self, group: str, reason: str, job: ModelRequest) -> None:
        self.dead.append((group, reason, job))

    def leave_memories(self, group: str) -> None:
        """A memory that no lane of the group uses is gone."""
        used = {self.lanes[lane].seen.spec for lane in self.lanes_of(group)}
        for memory in [memory for memory in self.seen if memory[0] == group and memory[1] not in used]:
            del self.seen[memory]

    def drop_lane(self, lane: str) -> int:
        """What it held is forgotten; what was seen for good is known to the lanes that share its memory."""
        jobs = [
            job
            for places in (self.front, self.queue)
            for spot, jobs in places.items()
            if spot[0] == lane
            for job in jobs
        ]
        jobs += [job for _, job in self.delayed if job.request.lane == lane]
        jobs += [job for job in self.suspects if job.request.lane == lane]
        memory = self.memory(lane)
        if memory is not None:
            memory -= {job.request.fingerprint for job in jobs if not job.request.dont_filter}
        for places in (self.front, self.queue):
            for spot in [spot for spot in places if spot[0] == lane]:
                del places[spot]
        self.delayed = [one for one in self.delayed if one[1].request.lane != lane]
        self.suspects = [job for job in self.suspects if job.request.lane != lane]
        self.paused.pop(("lane", lane), None)
        for turn in [turn for turn in self.owed if turn[0] == lane]:
            del self.owed[turn]
        for one in [one for one in self.tally if one[0] == lane]:
            del self.tally[one]
        del self.lanes[lane]
        self.leave_memories(group_of(lane))
        return len(jobs)

    def drop_group(self, group: str) -> int:
        """Nothing of it is left."""
        gone = self.dead_of(group) + sum(self.drop_lane(lane) for lane in self.lanes_of(group))
        self.dead = [one for one in self.dead if one[0] != group]
        self.paused.pop(("group", group), None)
        for tables in (self.items, self.written, self.rounds, self.base, self.starts, self.groups, self.counters):
            tables.pop(group, None)
        for memory in [memory for memory in self.seen if memory[0] == group]:
            del self.seen[memory]
        self.keyed = {one for one in self.keyed if one[0] != group}
        for one in [one for one in self.tally if one[0] == group]:
            del self.tally[one]
        return gone

    # Ending.

    def learn(self, name: str, feedback: Feedback | None) -> None:
        if feedback is None:
            return
        host = self.hosts[name]
        policy = host.policy or self.default
        refuses = feedback.verdict in (HostVerdict.THROTTLED, HostVerdict.UNAVAILABLE)
        if host.refused + ANSWERS_KEPT_SECONDS <= self.now:
            host.answers.clear()
        again = feedback.verdict is HostVerdict.STILL_UNAVAILABLE
        if (refuses or any(host.answers)) and not again:
            host.answers = [*host.answers, refuses][-10:]
        if refuses:
            host.refused = self.now
        if feedback.verdict is HostVerdict.THROTTLED or ((refuses or again) and sum(host.answers) >= 5):
            host.throttles += host.blocked <= self.now  # refusals of one moment count as one
            wait = feedback.retry_after
            wait = policy.block_base * 2 ** max(host.throttles - 1, 0) if wait is None else wait
            host.blocked = max(host.blocked, self.now + min(wait, policy.block_max))
        elif feedback.verdict is HostVerdict.OK and host.blocked <= self.now:
            host.throttles = 0

    def holds(self, worker: str, lease: Lease) -> ModelLease | None:
        held = self.held.get(lease.id)
        return held if held and held.worker == worker and held.nonce == lease.nonce else None

    def settle(self, worker: str, one: Settlement) -> SettleOutcome:
        held = self.holds(worker, one.lease)
        group = group_of(one.lease.lane)
        if held is None:
            self.tally[group, "lost"] += 1
            self.tally[group, "refused_items"] += len(one.items)
            return SettleOutcome.LOST
        self.learn(held.host, one.feedback)
        self.let_go(held)
        del self.held[one.lease.id]
        job = held.job
        if job is None:
            return SettleOutcome.SETTLED
        lane = job.request.lane
        self.tally[lane, {Ending.RETRY: "retried"}.get(one.ending, one.ending.value)] += 1
        if one.ending is Ending.RETRY:
            job.priority = job.priority if one.priority is None else one.priority
            job.id = 0  # what the next attempt adds is its own
            job.strikes = 0 if held.alone else job.strikes
            job.losses = 0
            self.put(job, one.delay)
        elif one.ending is Ending.FAILED:
            self.bury(group, one.reason or "failed", job)
        if one.ending in (Ending.DONE, Ending.FAILED):
            self.tally[group, "pages"] += 1
        if one.items:
            self.items[group] += one.items
            self.make_room(group, len(one.items))
        self.tally[group, "items"] += len(one.items) + one.kept
        return SettleOutcome.SETTLED

    def reclaim(self) -> None:
        """Leases that ran out come back ahead of others, in the order in which they were first leased."""
        for number in sorted(number for number, held in self.held.items() if held.deadline <= self.now):
            held = self.held[number]
            self.let_go(held)
            del self.held[number]
            if held.job is None:
                continue
            job = held.job
            lane = job.request.lane
            self.tally[lane, "expired"] += 1
            job.strikes += held.mark > 0
            job.losses += held.mark == 0
            silent = job.losses >= 4 * self.strikes_max
            if held.alone and (held.mark or silent):
                self.tally[lane, "failed"] += 1
                self.bury(group_of(lane), "poison", job)
            elif job.strikes >= self.strikes_max or silent:
                self.suspects.append(job)
            else:
                self.front[job.spot].append(job)

    def release(self, worker: str, lease: Lease) -> bool:
        held = self.holds(worker, lease)
        if held is None:
            return False
        self.let_go(held, unsent=True)
        del self.held[lease.id]
        if held.job is not None:
            held.job.attempts -= 1
            if held.alone:
                self.suspects.append(held.job)
            else:
                self.front[held.job.spot].append(held.job)
        return True

    # Leasing.

    def exchange(
        self, worker: str, settle: Sequence[Settlement], fetched: Sequence[Fetched], sent: Sequence[Lease],
        children: Sequence[Entry], add: Sequence[Entry], counters: Sequence[CounterChange],
    ) -> tuple[list[SettleOutcome], list[AddOutcome], list[AddOutcome], int | None]:  # fmt: skip
        """All of an exchange but its leases."""
        for lease in sent:
            held = self.held.get(lease.id)
            if held and held.nonce == lease.nonce:
                held.mark = held.mark or 1
                if lease.paced:
                    self.on_its_way(held, self.now)
        settled = [self.settle(worker, one) for one in settle]
        for arrival in fetched:
            held = self.holds(worker, arrival.lease)
            if held and held.mark != 2:
                self.let_go(held)
                held.mark = 2
                self.learn(held.host, arrival.feedback)
        self.reclaim()
        while self.delayed and self.delayed[0][0] <= self.now:
            job = self.delayed.pop(0)[1]
            self.queue[job.spot].append(job)
        lost = {index for index, outcome in enumerate(settled) if outcome is SettleOutcome.LOST}
        child_outcomes, _ = self.add(children, bound=False, lost=lost)
        add_outcomes, room = self.add(add, bound=True)
        for counter in counters:
            self.count(counter)
        self.settle_turns()
        return settled, child_outcomes, add_outcomes, room

    def count(self, counter: CounterChange) -> None:
        if counter.name == ITEMS:
            self.tally[counter.group, "items"] += int(counter.value)
            return
        table = self.counters[counter.group]
        old = table.get(counter.name)
        if counter.op is CounterOp.ADD:
            table[counter.name] = (old or 0.0) + counter.value
        elif old is None or counter.op is CounterOp.SET:
            table[counter.name] = counter.value
        else:
            table[counter.name] = (max if counter.op is CounterOp.MAX else min)(old, counter.value)

    def lease(self, worker: str, leases: Sequence[Lease], want: int, lanes: Sequence[str]) -> None:
        """Check what the server leased, one after the other, and that it kept nothing back."""
        assert len(leases) <= want
        assert not leases or worker not in self.draining, "a draining worker was given work"
        held = [one for one in self.held.values() if one.worker == worker]
        assert not leases or not any(one.alone for one in held), "leased to a worker that tries a request alone"
        for lease in leases:
            assert lease.lane in lanes, f"{lease.lane} was not asked for"
            assert self.serves(lease.lane), f"{lease.lane} may not be leased from"
            group = group_of(lease.lane)
            assert self.free(lease.host, group), f"host {lease.host} may not be asked now"
            job = self.alone(lease, leases, held) if lease.alone else self.next_job(worker, lease, lanes)
            assert job.request.payload == lease.payload, f"{lease.payload!r} was leased before {job.request.payload!r}"
            job.attempts += 1
            self.check_lease(lease, job)
            assert lease.paced == (self.delay(lease.host, group) > 0)
            counted = group if self.stricter(lease.host, group) else ""
            deadline = self.now + self.lease_seconds
            taken = ModelLease(job, lease.host, worker, lease.nonce, deadline, lease.alone, counted=counted)
            self.held[lease.id] = taken
            self.occupied(taken, group)
            self.settle_turns()
        if len(leases) < want and worker not in self.draining and not self.kept_empty(worker):
            kept = [spot for lane in lanes if self.serves(lane) for spot in self.surely_ready(lane)]
            kept = [spot for spot in kept if not self.left_to_others(worker, spot)]
            assert not kept, f"{kept} may be leased and were not"
        if want > 0:
            self.unfed.pop(worker, None)
        if len(leases) < want:
            self.unfed[worker] = self.in_hands(worker)

    def in_hands(self, worker: str) -> int:
        return sum(held.worker == worker for held in self.held.values())

    def left_to_others(self, worker: str, spot: Spot) -> bool:
        """Whether the slots may be kept for a worker that lately asked for them in vain."""
        _, _, host = spot
        if (self.hosts[host].policy or self.default).concurrency == 0 and not self.groups[
            group_of(spot[0])
        ].concurrency:
            return False
        return any(other != worker for other in self.unfed)

    def kept_empty(self, worker: str) -> bool:
        """A worker that tries a request alone gets nothing else, nor may one that shall do so next."""
        return bool(self.suspects) or any(one.alone and one.worker == worker for one in self.held.values())

    def alone(self, lease: Lease, leases: Sequence[Lease], held: Sequence[ModelLease]) -> ModelRequest:
        assert len(leases) == 1, "a suspect was leased together with others"
        assert not held, "a suspect was leased to a worker that holds something else"
        job = next((one for one in self.suspects if one.request.payload == lease.payload), None)
        assert job, f"{lease.payload!r} is not a suspect"
        self.suspects.remove(job)
        return job

    def next_job(self, worker: str, lease: Lease, lanes: Sequence[str]) -> ModelRequest:
        tier = self.lanes[lease.lane].tier
        for lane in self.lanes_of(group_of(lease.lane)):
            if lane in lanes and self.lanes[lane].tier < tier and self.serves(lane):
                sure = [one for one in self.surely_ready(lane) if not self.left_to_others(worker, one)]
                assert not sure, f"{lease.lane} was served before {lane} of a lower tier"
        spot = (lease.lane, lease.priority, lease.host)
        sure = [one for one in self.surely_ready(lease.lane) if not self.left_to_others(worker, one)]
        first = max((one[1] for one in sure), default=lease.priority)
        assert first <= lease.priority, f"priority {lease.priority} was leased, {first} is ready"
        owed = self.owed[lease.lane, lease.priority]
        claims = owed.get(lease.host, set()) & {one[2] for one in sure}
        assert not claims, f"{lease.host} had its turn before {claims}"
        waiting = self.waiting(spot)
        assert waiting, f"nothing waits in {spot}"
        job = waiting[0]
        (self.front if job in self.front[spot] else self.queue)[spot].remove(job)
        for others in owed.values():
            others.discard(lease.host)
        owed[lease.host] = {one[2] for one in self.ready(lease.lane) if one[1] == lease.priority} - {lease.host}
        return job

    def check_lease(self, lease: Lease, job: ModelRequest) -> None:
        assert lease.id not in self.held
        assert job.id in (0, lease.id), f"request {job.id} is leased as {lease.id}"
        job.id = lease.id
        assert (lease.lane, lease.priority, lease.host) == job.spot
        assert (lease.fingerprint, lease.attempt) == (job.request.fingerprint, job.attempts)

    def settle_turns(self) -> None:
        """A host that is not ready loses its claim to a turn; it gets a new one when it is ready again."""
        for (lane, priority), turns in self.owed.items():
            ready = {spot[2] for spot in self.ready(lane) if spot[1] == priority}
            for others in turns.values():
                others &= ready
