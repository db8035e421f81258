"""Random calls, crashes, lost replies, repeated tokens, moving clocks and restarts, compared with a simple model step by step.

Durations are whole numbers of UNIT, so long that the real time which passes in an example does not count.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from gossamer.errors import FrontierError, TokenReused
from gossamer.frontier import schema
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    Answer,
    Counter,
    CounterOp,
    Ending,
    Feedback,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    Order,
    Request,
    SeenPolicy,
    SeenScope,
    Selection,
    Settlement,
    Task,
    Token,
    Verdict,
)
from gossamer.settings import load
from gossamer.testing import clock
from gossamer.testing.audit import audit
from gossamer.testing.faultproxy import FaultProxy
from gossamer.testing.model import Model
from gossamer.testing.partition import Partition
from gossamer.testing.servers import Cluster, Server
from gossamer.testing.stored import Picture

FACTOR = int(os.environ.get("MACHINE_FACTOR", "1"))
UNIT = 1000.0
LEASE = 3 * UNIT
HOSTS = ("x", "y", "z")
DEFAULT_HOST = HostPolicy(concurrency=2, block_base=UNIT, block_max=4 * UNIT)
ROUND = SeenPolicy(scope=SeenScope.ROUND)
NEVER = SeenPolicy(scope=SeenScope.NEVER)
LANES: dict[str, dict[str, LanePolicy]] = {
    "g": {
        "fifo": LanePolicy(max_queued=6),
        "lifo": LanePolicy(order=Order.LIFO, weight=3.0),
        "late": LanePolicy(tier=1, max_leased=2, seen=ROUND),
    },
    "h": {"only": LanePolicy(seen=NEVER)},
}
GROUPS = {
    "g": GroupPolicy(start=True, tasks=("{machine}:tasks",)),
    "h": GroupPolicy(max_queued=8, delay=UNIT, concurrency=1, max_items=4, max_dead=2),
}
NAMES = [f"{group}.{lane}" for group, lanes in LANES.items() for lane in lanes]
TASKS = GROUPS["g"].tasks[0]
SELECTIONS = (None, None, Selection(groups=("g",)), Selection(groups=("h",), lanes=("g.lifo",)))


@dataclass
class Ground:
    """Where examples run: one after the other, each on emptied servers."""

    servers: list[Server]
    url: str
    partitions: int = 1
    proxy: FaultProxy | None = None
    library: str | None = None
    strikes: int = 2

    def open(self, crawl: str = "") -> ValkeyFrontier:
        """A new crawl, or a second look at it that no fault disturbs."""
        if not crawl:
            for server in self.servers:
                server.call("FLUSHALL")
        given = {
            "GOSSAMER_URL": self.servers[0].url if crawl and self.proxy else self.url,
            "GOSSAMER_CRAWL": crawl or f"machine-{uuid.uuid4().hex[:8]}",
            "GOSSAMER_PARTITIONS": self.partitions,
            "GOSSAMER_LEASE_SECONDS": LEASE,
            "GOSSAMER_POISON_STRIKES": self.strikes,
        }
        return ValkeyFrontier.open(load(given, environ={}), host=DEFAULT_HOST, library=self.library)


@dataclass
class Worker:
    token: Token = field(default_factory=Token.fresh)
    leases: list[Lease] = field(default_factory=list)
    old: list[Lease] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    last: tuple[dict[str, Any], Answer] | None = None

    @property
    def name(self) -> str:
        return self.token.incarnation

    def next(self) -> Token:
        self.token = self.token.next()
        return self.token


def told(value: Any) -> str:
    """Calls and answers in few words, for the report of a failure."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {told(one)}" for name, one in value.items() if one)
    if isinstance(value, list):
        return f"[{'; '.join(told(one) for one in value)}]"
    if isinstance(value, Lease):
        return f"#{value.id} {value.lane}@{value.host} p{value.priority} {value.payload!r}{' alone' if value.alone else ''}"
    if isinstance(value, Request):
        kind = "+" if value.dont_filter else f"f{value.fingerprint}"
        return f"{value.lane}@{value.host} p{value.priority} {kind} {value.payload!r} in {value.delay / UNIT:g}"
    if isinstance(value, Settlement):
        return f"#{value.lease.id} {value.ending.value} {value.delay / UNIT:g} {value.feedback} {told(list(value.add))} {value.items}"
    if isinstance(value, Fetched):
        return f"#{value.lease.id} {value.feedback}"
    return str(value)


OPERATIONS = (
    "renew",
    "release",
    "permit",
    "crash",
    "pause",
    "set_host",
    "block",
    "change_lane",
    "keep_items",
    "dead_letters",
)
RARE_OPERATIONS = (
    "change_group", "crawl_delay", "drain_worker", "start", "start", "started", "new_round", "remember", "push_tasks", "lease_tasks",
    "settle_tasks", "call_out_of_turn", "ask_drained",
)  # fmt: skip


class Machine(RuleBasedStateMachine):
    ground: ClassVar[Ground]

    def __init__(self) -> None:
        super().__init__()
        self.serial = 0
        self.restarts = 0
        self.frontier = self.ground.open()
        self.eye = self.ground.open(self.frontier.crawl)
        self.every = self.frontier.partitions
        self.model = Model(self.every, DEFAULT_HOST, LEASE, self.ground.strikes)
        self.workers = [Worker() for _ in range(3)]
        self.waiting_tasks: list[bytes] = []
        self.held_tasks: dict[int, tuple[bytes, str, float, int]] = {}
        for group, lanes in LANES.items():
            self.define(group, lanes, GROUPS[group])

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # a step that failed has said enough
                self.drain()
        finally:
            self.frontier.close()
            self.eye.close()

    # What may be drawn.

    def requests(self, data: st.DataObject, most: int = 3, lanes: list[str] | None = None) -> list[Request]:
        made = []
        for _ in range(data.draw(st.integers(0, most), "requests")):
            number = data.draw(st.integers(0, 11), "fingerprint")
            self.serial += 1
            made.append(
                Request(
                    number,
                    HOSTS[number % len(HOSTS)],
                    data.draw(st.sampled_from(lanes or NAMES), "lane"),
                    b"%d\xff" % self.serial,
                    data.draw(st.sampled_from((0, 0, 5)), "priority"),
                    data.draw(st.sampled_from((False, False, False, True)), "dont_filter"),
                    data.draw(st.sampled_from((0.0, 0.0, 0.0, UNIT, 2 * UNIT)), "delay"),
                )
            )
        return made

    def worker(self, data: st.DataObject) -> Worker:
        return self.workers[data.draw(st.integers(0, len(self.workers) - 1), "worker")]

    def some_leases(self, data: st.DataObject, worker: Worker, most: int = 3) -> list[Lease]:
        """Mostly what the worker holds; now and then what it lost or never had."""
        foreign = [lease for other in self.workers if other is not worker for lease in other.leases[:1]]
        pool = [*worker.leases, *worker.old[-2:], *foreign]
        if not pool:
            return []
        return [pool[index] for index in data.draw(st.lists(st.integers(0, len(pool) - 1), max_size=most), "leases")]

    def settlement(self, data: st.DataObject, lease: Lease) -> Settlement:
        feedback = data.draw(
            st.sampled_from(
                (None, None, Feedback(), Feedback(Verdict.THROTTLED), Feedback(Verdict.THROTTLED, None, 2 * UNIT))
            ),
            "feedback",
        )
        if not lease.lane:
            return Settlement(lease, feedback=feedback)
        self.serial += 1
        ending = data.draw(st.sampled_from((Ending.DONE, *Ending)), "ending")
        items = [b"%d.%d" % (self.serial, k) for k in range(data.draw(st.integers(0, 2), "items"))]
        children = self.requests(data, 2, [*NAMES, "g.nowhere"])
        if ending is Ending.RETRY:
            return Settlement(
                lease, ending, children, items, feedback, data.draw(st.sampled_from((0.0, UNIT)), "after"),
                data.draw(st.sampled_from((None, 5)), "priority"),
            )  # fmt: skip
        return Settlement(lease, ending, children, items, feedback, reason="tired" if ending is Ending.FAILED else "")

    # A worker's life.

    def call(self, worker: Worker, how: str = "plain", **given: Any) -> None:
        token = worker.next()
        if how == "lost" and self.ground.proxy:
            self.ground.proxy.lose_replies(1, match=b"_exchange")
        answer = self.frontier.exchange(token, **given)
        note(f"  {told(given)} -> {told(answer.leases)}")
        self.model.exchange(worker.name, answer, **given)
        worker.last = given, answer
        if how == "repeat":
            self.repeated(worker)
        ended = {(one.lease.id, one.lease.nonce) for one in given.get("settle", ())}
        worker.old += [lease for lease in worker.leases if (lease.id, lease.nonce) in ended]
        worker.leases = [lease for lease in worker.leases if (lease.id, lease.nonce) not in ended] + answer.leases

    def repeated(self, worker: Worker) -> None:
        assert worker.last
        given, first = worker.last
        again = self.frontier.exchange(worker.token, **given)
        assert again.leases == self.model.still_held(worker.name, first.leases)
        hints = again.hints._replace(config_version=first.hints.config_version)
        assert again._replace(leases=[], hints=hints) == first._replace(leases=[])

    @rule(data=st.data())
    def exchange(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        given = {
            "settle": [self.settlement(data, lease) for lease in self.some_leases(data, worker)],
            "fetched": [
                Fetched(lease, data.draw(st.sampled_from((None, Feedback(Verdict.THROTTLED))), "feedback"))
                for lease in self.some_leases(data, worker, 2)
            ],
            "sent": self.some_leases(data, worker, 2),
            "add": self.requests(data, 2),
            "counters": [Counter("g", "seen", data.draw(st.integers(-3, 3)), op) for op in self.operators(data)],
            "want": self.every * data.draw(st.integers(0, 4), "want"),
            "selection": data.draw(st.sampled_from(SELECTIONS), "selection"),
        }
        self.call(worker, data.draw(st.sampled_from(("plain", "plain", "repeat", "lost")), "how"), **given)

    @staticmethod
    def operators(data: st.DataObject) -> list[CounterOp]:
        return data.draw(st.lists(st.sampled_from(CounterOp), max_size=1), "counters")

    @rule(data=st.data(), want=st.integers(1, 4))
    def lease(self, data: st.DataObject, want: int) -> None:
        self.call(self.worker(data), want=want * self.every)

    @rule(data=st.data(), want=st.integers(0, 3))
    def finish_pages(self, data: st.DataObject, want: int) -> None:
        worker = self.worker(data)
        self.call(
            worker, settle=[self.settlement(data, lease) for lease in worker.leases[:3]], want=want * self.every
        )  # fmt: skip

    @rule(data=st.data(), arrived=st.booleans())
    def report(self, data: st.DataObject, arrived: bool) -> None:
        worker = self.worker(data)
        leases = worker.leases + worker.old[-1:]
        self.call(worker, sent=leases, fetched=[Fetched(lease) for lease in leases[:2]] if arrived else ())

    @rule(data=st.data(), want=st.integers(1, 4))
    def stall(self, data: st.DataObject, want: int) -> None:
        """A worker that stood still comes back: its leases have run out, and it may be given the same requests again."""
        self.advance(3)
        self.call(self.worker(data), want=want * self.every)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        if worker.last:
            self.repeated(worker)

    def call_out_of_turn(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        if worker.last:
            before = Token(worker.token.incarnation, worker.token.sequence - 1)
            # A partition that the last call did not reach does not know of it; partition 0 is asked when none is.
            self.call(worker)
            with pytest.raises(TokenReused):
                self.frontier.exchange(before)

    def crash(self, data: st.DataObject) -> None:
        self.workers[data.draw(st.integers(0, len(self.workers) - 1))] = Worker()

    def renew(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        leases = self.some_leases(data, worker, 4)
        renewed = self.frontier.renew(worker.token, leases)
        assert [lease is not None for lease in renewed] == self.model.renew(worker.name, leases)

    def release(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        leases = self.some_leases(data, worker)
        assert self.frontier.release(worker.token, leases) == self.model.release(worker.name, leases)

    def permit(self, data: st.DataObject) -> None:
        worker, host = self.worker(data), data.draw(st.sampled_from(HOSTS), "host")
        token = worker.next()
        lease, _ = self.frontier.permit(token, host)
        again, _ = self.frontier.permit(token, host)
        assert again == lease
        self.model.permit(worker.name, host, lease)
        worker.last = None
        worker.leases += [lease] if lease else []

    # Producers.

    @rule(data=st.data(), how=st.sampled_from(("plain", "plain", "repeat", "lost", "keyed")))
    def add(self, data: st.DataObject, how: str) -> None:
        requests = self.requests(data, 5)
        key = data.draw(st.sampled_from(("k1", "k2")), "key") if how == "keyed" else ""
        if how == "lost" and self.ground.proxy:
            self.ground.proxy.lose_replies(1, match=b"_add")
        token = Token.fresh()
        note(f"  {told(requests)}")
        outcomes, invalid, room = self.frontier.add(requests, key=key, token=token)
        assert not invalid
        if how == "repeat":
            assert self.frontier.add(requests, key=key, token=token) == (outcomes, invalid, room)
        assert (outcomes, room) == self.model.add(requests, key=key)

    def push_tasks(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 3), "tasks")):
            self.serial += 1
            self.waiting_tasks.append(b"task %d" % self.serial)
            self.frontier.connection.execute("RPUSH", TASKS, self.waiting_tasks[-1], key=TASKS)

    def lease_tasks(self, data: st.DataObject) -> None:
        worker, want = self.worker(data), data.draw(st.integers(1, 3), "want")
        token = worker.next()
        tasks = self.frontier.lease_tasks(token, TASKS, want)
        assert self.frontier.lease_tasks(token, TASKS, want) == tasks
        worker.last = None
        now = self.model.parts[0].now
        due = {number for number, held in self.held_tasks.items() if held[2] <= now}
        back = min(want, len(due))
        assert len(tasks) == min(want, len(due) + len(self.waiting_tasks))
        for place, task in enumerate(tasks):
            if place < back:
                assert task.id in due
                data_, _, _, attempts = self.held_tasks[task.id]
            else:
                data_, attempts = self.waiting_tasks.pop(0), 0
            assert (task.data, task.attempt) == (data_, attempts + 1)
            self.held_tasks[task.id] = (data_, f"{worker.name}/{task.nonce}", now + LEASE, attempts + 1)
        worker.tasks += tasks

    def settle_tasks(self, data: st.DataObject) -> None:
        worker, how = self.worker(data), data.draw(st.sampled_from(("done", "release", "renew")), "how")
        if not worker.tasks:
            return
        task = worker.tasks[data.draw(st.integers(0, len(worker.tasks) - 1), "task")]
        held = self.held_tasks.get(task.id)
        mine = held is not None and held[1] == f"{worker.name}/{task.nonce}"
        assert self.frontier.settle_tasks(worker.token, TASKS, **{how: [task]}) == [mine]
        if mine and held:
            now = self.model.parts[0].now
            if how == "done":
                del self.held_tasks[task.id]
            else:
                holder = held[1] if how == "renew" else ""
                self.held_tasks[task.id] = (held[0], holder, now + LEASE if how == "renew" else now, held[3])

    # Operators.

    def define(self, group: str, lanes: dict[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        self.frontier.define(group, lanes, policy)
        self.model.define(group, lanes, policy)

    @rule(data=st.data(), what=st.sampled_from(OPERATIONS))
    def operate(self, data: st.DataObject, what: str) -> None:
        getattr(self, what)(data)

    @rule(data=st.data(), what=st.sampled_from(RARE_OPERATIONS))
    def operate_rarely(self, data: st.DataObject, what: str) -> None:
        getattr(self, what)(data)

    def change_lane(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(NAMES), "name")
        group, _, lane = name.rpartition(".")
        policy = LanePolicy(
            data.draw(st.sampled_from(Order), "order"),
            data.draw(st.integers(0, 1), "tier"),
            data.draw(st.sampled_from((1.0, 3.0)), "weight"),
            self.model.parts[0].lanes[name].seen,
            data.draw(st.sampled_from((0, 4)), "max_queued"),
            data.draw(st.sampled_from((0, 1)), "max_leased"),
        )
        self.define(group, {lane: policy})

    def change_group(self, data: st.DataObject) -> None:
        pages, items = data.draw(st.sampled_from((0, 0, 3)), "pages"), data.draw(st.sampled_from((0, 2, 4)), "items")
        dead = data.draw(st.sampled_from((0, 1, 2)), "dead")
        self.define("h", {}, GroupPolicy(8, pages, UNIT, 1, max_items=items, max_dead=dead))

    def pause(self, data: st.DataObject) -> None:
        scope = data.draw(st.sampled_from(("crawl", "group", "lane", "host")), "scope")
        names = {"crawl": [""], "group": list(GROUPS), "lane": NAMES, "host": list(HOSTS)}[scope]
        name = data.draw(st.sampled_from(names), "name")
        given = {} if scope == "crawl" else {scope: name}
        if (scope, name) in self.model.at(name).paused:
            self.frontier.resume(**given)
            self.model.pause(scope, name, "")
        else:
            self.frontier.pause(**given)
            self.model.pause(scope, name, "paused")

    def set_host(self, data: st.DataObject) -> None:
        host = data.draw(st.sampled_from(HOSTS), "host")
        delay, concurrency = (
            data.draw(st.sampled_from((0.0, UNIT)), "delay"),
            data.draw(st.sampled_from((0, 1, 3)), "most"),
        )
        policy = HostPolicy(delay, concurrency, block_base=UNIT, block_max=4 * UNIT)
        given = policy if data.draw(st.booleans(), "own") else None
        self.frontier.set_host(host, given)
        self.model.set_host(host, given)

    def crawl_delay(self, data: st.DataObject) -> None:
        host, seconds = data.draw(st.sampled_from(HOSTS), "host"), data.draw(st.sampled_from((0.0, UNIT)), "seconds")
        self.frontier.set_crawl_delay(host, seconds)
        part = self.model.at(host)
        part.hosts[host].crawl_delay = seconds
        part.settle_turns()

    def block(self, data: st.DataObject) -> None:
        host, seconds = data.draw(st.sampled_from(HOSTS), "host"), data.draw(st.sampled_from((0.0, UNIT)), "seconds")
        self.frontier.block(host, seconds)
        self.model.block(host, seconds)

    def drain_worker(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        draining = worker.name not in self.model.parts[0].draining
        self.frontier.drain_worker(worker.name, draining)
        for part in self.model.parts:
            (part.draining.add if draining else part.draining.discard)(worker.name)

    def start(self, data: st.DataObject) -> None:
        worker, group = self.worker(data), data.draw(st.sampled_from(("g", "g", "h")), "group")
        state, number = self.frontier.start(group, worker.token)
        assert state is self.model.start(group, worker.name)
        assert number == self.model.parts[0].rounds.get(group, 0)
        if data.draw(st.booleans(), "finish"):
            self.started(data)

    def started(self, data: st.DataObject) -> None:
        worker, group = self.worker(data), data.draw(st.sampled_from(("g", "g", "h")), "group")
        assert self.frontier.started(group, worker.token) == self.model.started(group, worker.name)

    def new_round(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(("g", "g", "h")), "group")
        number = self.model.parts[0].rounds.get(group, 0) + data.draw(st.integers(0, 1), "step")
        assert self.frontier.new_round(group, number) == self.model.new_round(group, number)

    def remember(self, data: st.DataObject) -> None:
        lane, number = data.draw(st.sampled_from(NAMES), "lane"), data.draw(st.integers(0, 11), "fingerprint")
        forget = data.draw(st.booleans(), "forget")
        verb: Callable[[str, list[int]], list[bool]] = self.frontier.forget if forget else self.frontier.seen
        assert verb(lane, [number]) == [self.model.known(lane, number, forget=forget)]

    def dead_letters(self, data: st.DataObject) -> None:
        letters = [letter for group in GROUPS for letter in self.frontier.dead_letters(group)]
        if not letters:
            return
        letter = letters[data.draw(st.integers(0, len(letters) - 1), "letter")]
        payload = self.frontier.dead_letter(letter.partition, letter.id).payload
        if data.draw(st.booleans(), "replay"):
            done = self.frontier.replay(letter.partition, [letter.id])
            assert done == self.model.replay(letter.partition, payload)
        else:
            assert self.frontier.drop_dead(letter.partition, [letter.id]) == 1
            self.model.drop_dead(letter.partition, payload)

    def keep_items(self, data: st.DataObject) -> None:
        group, part = data.draw(st.sampled_from(("g", "h")), "group"), data.draw(st.integers(0, self.every - 1), "part")
        rows = self.frontier.read_items(group, part)
        assert [item for _, item in rows] == self.model.parts[part].items[group]
        if rows:
            kept = data.draw(st.integers(1, len(rows)), "kept")
            del self.model.parts[part].items[group][:kept]
            assert self.frontier.keep_items(group, "store", {part: rows[kept - 1][0]}) == len(rows) - kept

    # The world.

    @rule(units=st.integers(1, 4))
    def advance(self, units: int) -> None:
        clock.advance(self.frontier, units * UNIT, tasks=(TASKS,))
        self.model.advance(units * UNIT)

    @precondition(lambda self: self.restarts < 1 and self.every == 1 and self.serial > 20)
    @rule(really=st.integers(0, 2))
    def restart(self, really: int) -> None:
        if really == 0:
            self.restarts += 1
            for server in self.ground.servers:
                server.kill()
                server.restart()

    # What must be so after every step.

    @invariant()
    def same(self) -> None:
        counts = self.eye.counts()
        for part, picture in zip(self.model.parts, audit(self.eye), strict=True):
            same_state(part, picture, counts.now * 1000)
        for lane in counts.lanes:
            parts = self.model.parts
            expected = [sum(getattr(part, what)(lane.lane) for part in parts) for what in ("queued", "later", "leased")]
            assert [lane.queued, lane.delayed, lane.leased] == expected
            for what in ("added", "duplicates", "done", "replaced", "retried", "failed", "expired", "overflow"):
                assert getattr(lane, what) == self.model.total(lane.lane, what), f"{lane.lane} {what}"
        for group in counts.groups:
            name = group.group
            assert group.open == sum(part.open(name) for part in self.model.parts)
            assert group.dead == sum(part.dead_of(name) for part in self.model.parts)
            assert group.items_waiting == sum(len(part.items[name]) for part in self.model.parts)
            assert group.counters == self.model.parts[0].counters[name]
            for what in ("pages", "items", "lost", "refused_items", "refused_children"):
                assert getattr(group, what) == self.model.total(name, what), f"{name} {what}"

    def ask_drained(self, _: object = None) -> None:
        for group in GROUPS:
            work = sum(part.open(group) for part in self.model.parts)
            tasks = len(self.waiting_tasks) + len(self.held_tasks) if group == "g" else 0
            assert self.frontier.drained(group) == (work + tasks == 0, work, tasks)

    def drain(self) -> None:
        """Whatever happened, everything comes out in the end."""
        for scope, name in [key for part in self.model.parts for key in part.paused]:
            self.frontier.resume(**({} if scope == "crawl" else {scope: name}))
            self.model.pause(scope, name, "")
        self.define("h", {}, GroupPolicy(delay=UNIT, concurrency=1))
        for _ in range(200):
            worker = Worker()
            self.call(worker, want=6 * self.every)
            self.same()
            if worker.leases:
                self.call(worker, settle=[Settlement(lease) for lease in worker.leases])
            elif any(
                part.queued(lane) + part.later(lane) + part.leased(lane) for part in self.model.parts for lane in NAMES
            ):
                self.advance(1)
            else:
                self.ask_drained()
                return
        raise AssertionError("requests are left that nobody can lease")


def same_state(part: Partition, picture: Picture, now: float) -> None:
    """The server has exactly what the model has, where it has it."""
    for mine, theirs in ((part.front, picture.fronts), (part.queue, picture.queues)):
        assert {spot: [job.request.payload for job in jobs] for spot, jobs in mine.items() if jobs} == {
            tuple(place): [record.payload for record in records] for place, records in theirs.items()
        }
    assert [job.request.payload for _, job in part.delayed] == [row.record.payload for row in picture.delayed]
    assert [(job.request.payload, job.strikes, job.attempts) for job in part.suspects] == [
        (row.record.payload, row.record.strikes, row.record.attempts) for row in picture.suspects
    ]
    expected = {
        number: (held.host, held.worker, held.nonce, held.alone, held.mark)
        + ((held.job.request.lane, held.job.request.payload, held.job.attempts, held.job.strikes) if held.job else ())
        for number, held in part.held.items()
    }
    assert expected == {
        number: (row.host, row.incarnation, row.nonce, row.alone, row.mark)
        + ((row.lane, row.record.payload, row.record.attempts, row.record.strikes) if row.lane else ())
        for number, row in picture.leases.items()
    }
    assert Tally(
        (group, reason, job.spot, job.attempts, job.request.payload) for group, reason, job in part.dead
    ) == Tally(
        (row.group, row.reason, (row.lane, row.priority, row.host), row.attempts, row.record.payload)
        for row in picture.dead.values()
    )
    for host, row in picture.hosts.items():
        assert row.in_flight == part.in_flight(host), f"in flight at {host}"
        assert (row.blocked_until > now) == (part.hosts[host].blocked > part.now), f"block of {host}"
    for group in part.groups:
        assert part.items[group] == [item for _, item in picture.items.get(group, [])]
    for (group, spec, number), known in part.seen.items():
        if number == -1 or number == part.rounds.get(group, 0):
            name = f"{group}|{spec}" + (f"|{number}" if number >= 0 else "")
            assert known == picture.seen.get(name, set()), f"memory {name}"


@contextmanager
def single(library: str | None = None) -> Iterator[Ground]:
    with ExitStack() as stack:
        server = stack.enter_context(Server("valkey").start(fsync="always"))
        proxy = stack.enter_context(FaultProxy(server.port))
        yield Ground([server], proxy.url, proxy=proxy, library=library)


def run(ground: Ground, examples: int, steps: int = 40) -> None:
    """MACHINE_FACTOR times as many examples, then random ones, and a failing one is made smaller."""
    machine = type("TestedMachine", (Machine,), {"ground": ground})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * FACTOR,
            stateful_step_count=steps,
            derandomize=FACTOR == 1,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink) if FACTOR > 1 else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )


@pytest.mark.timeout(300 * FACTOR)
def test_the_frontier_behaves_like_the_model() -> None:
    with single() as ground:
        run(ground, examples=50)


@pytest.mark.timeout(300 * FACTOR)
def test_a_crawl_on_a_cluster_behaves_like_the_model(cluster: Cluster) -> None:
    run(Ground(cluster.nodes, cluster.url, partitions=3, strikes=100), examples=15)


PLANTED = {
    "refused requests are marked seen": (
        "adding", "if #records >= limit then", "if #records >= limit and (not book or seen_add(book, entry)) then",
    ),
    "what comes back goes to the end": (
        "queue", "call('RPUSH', S.b .. K.front .. spot, record) == 1 and", "call('RPUSH', S.b .. K.queue .. spot, record) == 1 and",
    ),
    "an old lease settles the new one": ("lease", "if holder == incarnation and nonce == s[2] then", "if holder == incarnation then"),
    "a dead worker keeps its slots": ("lease", "put_down(S, v[1], v[2], v[6], v[8], mark)", "put_down(S, v[1], v[2], v[6], v[8], '2')"),
    "a repeated call is executed again": ("adding", "if kept[1] == sequence then return kept end", ""),
    "a delayed request is lost when due": ("queue", "Queue.push(S, lane, v[3], v[2], {v[4]})", ""),
    "delays are forgotten": ("host", "host.next = S.now + delay", "host.next = 0"),
    "low priorities go first": ("queue", "K.priorities .. lane.id, -priority, priority)", "K.priorities .. lane.id, priority, priority)"),
    "a paused group is served": ("lane", "if group.paused ~= '' then return group.paused end", ""),
    "unfiltered children of a lost page are added": ("adding", "if owner and lost[owner] then", "if false then"),
}  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    name, right, wrong = PLANTED[bug]
    source = schema.source(name)
    assert source.count(right) == 1, f"{name}.lua no longer has {right!r}: plant the bug anew"
    with (
        single(schema.library({name: source.replace(right, wrong)})) as ground,
        pytest.raises((AssertionError, FrontierError)),
    ):
        run(ground, examples=60)
