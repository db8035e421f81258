"""Random calls of workers and producers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.frontier.contract.machine.ground import (
    DEFAULT_HOST,
    GROUPS,
    HOSTS,
    LANES,
    LEASE,
    NAMES,
    SELECTIONS,
    SEND,
    TASKS,
    UNIT,
    Ground,
    HeldTask,
    Worker,
    told,
)
from tests.support.model.model import Model

from gossamer.errors import TokenReused
from gossamer.model import (
    AddOutcome,
    CounterChange,
    CounterOp,
    Ending,
    ExchangeReply,
    Feedback,
    Fetched,
    GroupPolicy,
    HostVerdict,
    LanePolicy,
    Lease,
    Request,
    Settlement,
    SettleOutcome,
    Task,
    Token,
)
from gossamer.testing import clock


class Workers(RuleBasedStateMachine):
    """Three workers, some producers, and a model that is told all they do."""

    ground: ClassVar[Ground]

    def __init__(self) -> None:
        super().__init__()
        self.serial = 0
        self.restarts = 0
        self.frontier = self.ground.open()
        self.eye = self.ground.open(self.frontier.crawl)
        self.every = self.frontier.partitions
        self.model = Model(self.every, DEFAULT_HOST, LEASE, self.ground.strikes, SEND)
        self.workers = [Worker() for _ in range(3)]
        self.waiting_tasks: list[bytes] = []
        self.held_tasks: dict[int, HeldTask] = {}
        for group, lanes in LANES.items():
            self.define(group, lanes, GROUPS[group])

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # a step that failed has said enough
                self.drain()
        finally:
            self.frontier.close()
            self.eye.close()

    def define(self, group: str, lanes: dict[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        self.frontier.define(group, lanes, policy)
        self.model.define(group, lanes, policy)

    @rule(units=st.integers(1, 4))
    def advance(self, units: int) -> None:
        clock.advance(self.frontier, units * UNIT, tasks=(TASKS,))
        self.model.advance(units * UNIT)

    def drain(self) -> None:
        """Whatever happened, everything comes out in the end."""
        raise NotImplementedError

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
                (
                    None,
                    None,
                    Feedback(),
                    Feedback(HostVerdict.THROTTLED),
                    Feedback(HostVerdict.THROTTLED, None, 2 * UNIT),
                    Feedback(HostVerdict.UNAVAILABLE),
                    Feedback(HostVerdict.STILL_UNAVAILABLE),
                )
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
        return Settlement(
            lease,
            ending,
            children,
            items,
            feedback,
            reason="tired" if ending is Ending.FAILED else "",
            kept=len(items) % 2,
        )

    # A worker's life.

    def call(self, worker: Worker, how: str = "plain", **given: Any) -> None:
        worker.next()
        if how == "lost" and self.ground.proxy:
            self.ground.proxy.lose_replies(1, match=b"_exchange")
        self.execute(worker, **given)
        if how == "repeat":
            self.repeated(worker)

    def execute(self, worker: Worker, **given: Any) -> None:
        """The worker's call, as far as the server knows its first."""
        answer = self.frontier.exchange(worker.token, **given)
        note(f"  {told(given)} -> {told(answer.leases)}")
        self.model.exchange(worker.name, answer, **given)
        whole_pages(given.get("settle", ()), answer)
        worker.last = given, answer
        ended = {(one.lease.id, one.lease.nonce) for one in given.get("settle", ())}
        worker.old += [lease for lease in worker.leases if (lease.id, lease.nonce) in ended]
        worker.leases = [lease for lease in worker.leases if (lease.id, lease.nonce) not in ended] + answer.leases

    def repeated(self, worker: Worker) -> None:
        assert worker.last
        given, first = worker.last
        again = self.frontier.exchange(worker.token, **given)
        assert again.leases == self.model.still_held(worker.name, first.leases)
        hints = again.hints._replace(config_version=first.hints.config_version)
        if first.leases and not again.leases:  # all given away: now it says why another partition gives none
            hints = hints._replace(paused=first.hints.paused)
        # Only the state of the server may have moved on since.
        assert again._replace(leases=[], hints=hints, states=first.states) == first._replace(leases=[])
        assert first.states.keys() == again.states.keys()

    @rule(data=st.data())
    def exchange(self, data: st.DataObject) -> None:
        worker = self.worker(data)
        given = {
            "settle": [self.settlement(data, lease) for lease in self.some_leases(data, worker)],
            "fetched": [
                Fetched(lease, data.draw(st.sampled_from((None, Feedback(HostVerdict.THROTTLED))), "feedback"))
                for lease in self.some_leases(data, worker, 2)
            ],
            "sent": self.some_leases(data, worker, 2),
            "add": self.requests(data, 2),
            "counters": [CounterChange("g", "seen", data.draw(st.integers(-3, 3)), op) for op in self.operators(data)],
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
    def settle_late(self, data: st.DataObject) -> None:
        """The same, and then it settles what it held before, not what it holds now."""
        worker = self.worker(data)
        self.call(worker, want=2 * self.every)
        before = worker.leases[-2:]
        self.advance(3)
        self.call(worker, want=4 * self.every)
        self.call(worker, settle=[self.settlement(data, lease) for lease in before])

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

    def gone(self, data: st.DataObject) -> None:
        """Somebody takes a worker for gone, rightly or not."""
        worker = self.worker(data)
        assert self.frontier.gone(worker.name, 0.0) == self.model.gone(worker.name)

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

    @rule(first=st.integers(0, 4))
    def offer_again(self, first: int) -> None:
        """More than a lane has room for; what is refused is offered again at once."""
        numbers = range(first, first + 8)
        for _ in range(2):
            self.serial += 1
            requests = [Request(n, HOSTS[n % len(HOSTS)], "g.fifo", b"%d\xff" % self.serial) for n in numbers]
            outcomes, _, room = self.frontier.add(requests)
            assert (outcomes, room) == self.model.add(requests)

    def push_tasks(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 3), "tasks")):
            self.serial += 1
            self.waiting_tasks.append(b"task %d" % self.serial)
            self.frontier.connection.execute("RPUSH", TASKS, self.waiting_tasks[-1], key=TASKS)

    def tasks_due(self, want: int, now: float) -> list[tuple[int, HeldTask]]:
        """Those that go out again, in their order: a suspect only alone."""
        due = sorted((n for n, held in self.held_tasks.items() if held.until <= now), key=self._turn)
        going: list[tuple[int, HeldTask]] = []
        for number in due[:want]:
            held = self.held_tasks[number]
            died = held.holder != ""
            deaths, state = held.deaths + died, held.state
            if state == 1:
                state = 2 if died else 0
            if state == 0 and deaths >= self.ground.strikes:
                state = 1
            if state != 1 or not going:
                going.append((number, held._replace(deaths=deaths, state=state)))
                if state == 1:
                    break
        return going

    def _turn(self, number: int) -> tuple[float, str]:
        return self.held_tasks[number].until, str(number)

    def hold_task(self, worker: Worker, task: Task, held: HeldTask, now: float) -> None:
        assert (task.data, task.attempt, task.poison) == (held.data, held.attempts + 1, held.state == 2)
        self.held_tasks[task.id] = held._replace(
            holder=f"{worker.name}/{task.nonce}", until=now + LEASE, attempts=held.attempts + 1
        )

    def lease_tasks(self, data: st.DataObject) -> None:
        worker, want = self.worker(data), data.draw(st.integers(1, 3), "want")
        token = worker.next()
        tasks = self.frontier.lease_tasks(token, TASKS, want)
        assert self.frontier.lease_tasks(token, TASKS, want) == tasks
        worker.last = None
        now = self.model.parts[0].now
        expected = self.tasks_due(want, now)
        alone = any(held.state == 1 for _, held in expected)
        fresh = 0 if alone else min(want - len(expected), len(self.waiting_tasks))
        assert len(tasks) == len(expected) + fresh
        for task, (number, held) in zip(tasks, expected, strict=False):
            assert (task.id, task.taken) == (number, held.taken)
            self.hold_task(worker, task, held, now)
        for task in tasks[len(expected) :]:
            assert (task.id in self.held_tasks, task.taken) == (False, task.nonce)
            self.hold_task(worker, task, HeldTask(self.waiting_tasks.pop(0), "", 0.0, 0, task.nonce), now)
        worker.tasks += tasks

    def settle_tasks(self, data: st.DataObject) -> None:
        worker, how = self.worker(data), data.draw(st.sampled_from(("done", "release", "renew")), "how")
        if not worker.tasks:
            return
        task = worker.tasks[data.draw(st.integers(0, len(worker.tasks) - 1), "task")]
        held = self.held_tasks.get(task.id)
        mine = held is not None and held.holder == f"{worker.name}/{task.nonce}"
        assert self.frontier.settle_tasks(worker.token, TASKS, **{how: [task]}) == [mine]
        if mine and held:
            now = self.model.parts[0].now
            if how == "done":
                del self.held_tasks[task.id]
            else:
                holder = held.holder if how == "renew" else ""
                self.held_tasks[task.id] = held._replace(holder=holder, until=now + LEASE if how == "renew" else now)


def whole_pages(settle: Sequence[Settlement], answer: ExchangeReply) -> None:
    """Whatever the model thinks: what a settled page found is added, what a late worker found is not. Every payload is new,
    so no unfiltered child was there before, though pages differ from attempt to attempt."""
    for one, how, outcomes in zip(settle, answer.settled, answer.children, strict=True):
        for child, outcome in zip(one.add, outcomes, strict=True):
            if child.dont_filter and outcome not in (AddOutcome.UNKNOWN_LANE, AddOutcome.CLOSED):
                expected = AddOutcome.ADDED if how is SettleOutcome.SETTLED else AddOutcome.LOST
                assert outcome is expected, f"{told(child)} of a page that is {how.value}: {outcome.value}"
