"""The world in which random calls are made, and what must be so after every step."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.contract.machine_ground import GROUPS, NAMES, UNIT, Worker, same_state
from tests.contract.machine_operators import Operators

from gossamer.model import GroupPolicy, Settlement
from gossamer.testing.audit import audit


class Machine(Operators):
    """Time, crashes and restarts."""

    # The world.

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
