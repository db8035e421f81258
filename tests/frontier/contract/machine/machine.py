"""The world in which random calls are made, and what must be so after every step."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.frontier.contract.machine.ground import GROUPS, NAMES, UNIT, HeldTask, Worker, same_state
from tests.frontier.contract.machine.operators import Operators
from tests.support.auditor.audit import audit
from tests.support.model.model import Model

from gossamer.model import GroupPolicy, Settlement, Token
from gossamer.testing.servers import Server


@dataclass
class Saved:
    """A moment to go back to: the end of the server's log, and what was so then."""

    log: Path
    size: int
    model: Model
    waiting_tasks: list[bytes]
    held_tasks: dict[int, HeldTask]
    tokens: dict[str, Token]


class Machine(Operators):
    """Crashes, restarts, forks and a past that comes back."""

    saved: Saved | None = None

    # The world.

    def fork(self, data: st.DataObject) -> None:
        """Two processes go on with copies of one client, one after the other."""
        for _ in range(2):
            requests = self.requests(data)
            outcomes = in_fork(lambda requests=requests: [one.value for one in self.frontier.add(requests)[0]])  # type: ignore[misc]
            assert outcomes == [one.value for one in self.model.add(requests)[0]], "a forked client was answered"

    def fill(self, data: st.DataObject) -> None:
        """The memory limit is reached: whatever frees memory is possible, and so is joining. Then it is raised."""
        if not self.ground.goes_back:
            return
        [server] = self.ground.servers
        server.call("CONFIG", "SET", "maxmemory", 1)
        try:
            self.ground.open(self.frontier.crawl).close()
            self.change_group(data)
            self.renew(data)
            self.release(data)
            worker = self.worker(data)
            self.call(worker, settle=[Settlement(lease) for lease in worker.leases])
            self.drop_all_dead()
        finally:
            server.call("CONFIG", "SET", "maxmemory", 0)
        self.advance(1)  # the server looks at its memory now and then

    def drop_all_dead(self) -> None:
        for group in GROUPS:
            for letter in self.frontier.dead_letters(group):
                payload = self.frontier.dead_letter(letter.partition, letter.id).payload
                assert self.frontier.drop_dead(letter.partition, [letter.id]) == 1
                self.model.drop_dead(letter.partition, payload)

    @precondition(lambda self: self.ground.goes_back and self.saved is None and self.serial > 5)
    @rule()
    def save(self) -> None:
        log = log_file(self.ground.servers[0])
        tokens = {worker.name: worker.token for worker in self.workers}
        self.saved = Saved(
            log, log.stat().st_size, deepcopy(self.model), [*self.waiting_tasks], dict(self.held_tasks), tokens
        )

    @precondition(lambda self: self.saved is not None)
    @rule(data=st.data(), really=st.integers(0, 4))
    def go_back(self, data: st.DataObject, really: int) -> None:
        """The server forgets; the workers do not."""
        saved, [server] = self.saved, self.ground.servers
        if really or saved is None or log_file(server) != saved.log:
            return
        self.saved = None
        note(f"  back by {saved.log.stat().st_size - saved.size} bytes")
        server.kill()
        os.truncate(saved.log, saved.size)
        server.restart()
        self.model, self.waiting_tasks, self.held_tasks = saved.model, saved.waiting_tasks, saved.held_tasks
        for worker in self.workers:
            if worker.last and saved.tokens.get(worker.name) != worker.token:
                given, _ = worker.last
                worker.last = None
                if data.draw(st.booleans(), "sent again"):
                    # Its answer was on the way; now the call is as good as new.
                    self.execute(worker, **given)

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


def log_file(server: Server) -> Path:
    """Where the server appends to now."""
    folder = server.directory / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text().splitlines()
    return folder / next(line.split()[1] for line in reversed(manifest) if line.endswith("type i"))


def in_fork(work: Callable[[], Any]) -> Any:
    """What `work` answers in a copy of this process."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, in a process with threads
        pid = os.fork()
    if pid == 0:
        try:
            said = json.dumps(work())
        except BaseException as error:
            said = json.dumps(repr(error))
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        told = answer.read()
    os.waitpid(pid, 0)
    return json.loads(told)
