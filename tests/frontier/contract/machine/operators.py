"""Random calls of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.frontier.contract.machine.ground import DROPPED, GROUPS, HOSTS, LANES, NAMES, ROUND, UNIT
from tests.frontier.contract.machine.workers import Workers
from tests.support.auditor.remains import remains

from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Order, Request, SeenPolicy

OPERATIONS = (
    "renew",
    "gone",
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
    "settle_tasks", "call_out_of_turn", "ask_drained", "drop_group", "drop_group", "fork", "fill",
)  # fmt: skip


class Operators(Workers):
    """What may be changed while a crawl runs."""

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

    def change_seen(self, data: st.DataObject) -> None:
        """Another memory: an empty one, or that of other lanes."""
        name, seen = (
            data.draw(st.sampled_from(NAMES), "name"),
            data.draw(st.sampled_from((SeenPolicy(), ROUND)), "seen"),
        )
        group, _, lane = name.rpartition(".")
        self.define(group, {lane: replace(self.model.parts[0].lanes[name], seen=seen)})

    def drop_lane(self, data: st.DataObject) -> None:
        """Dropped, what it held is seen no more; made again, it is empty."""
        name = data.draw(st.sampled_from(NAMES), "name")
        if any(part.leased(name) for part in self.model.parts):
            return
        assert sum(self.frontier.drop_lane(name)) == self.model.drop_lane(name)
        group, _, lane = name.rpartition(".")
        self.define(group, {lane: LANES[group][lane]})

    def drop_group(self, data: st.DataObject) -> None:
        """Dropped, it leaves nothing; made again, it is as new."""
        if any(part.leased(lane) for part in self.model.parts for lane in part.lanes_of(DROPPED)):
            return  # its leases hold it, and nobody would end them meanwhile
        self.keyed_start()
        assert sum(self.frontier.drop_group(DROPPED)) == self.model.drop_group(DROPPED)
        left = remains(self.eye, DROPPED)
        assert not left, f"a dropped group left {left[:10]}"
        lanes = data.draw(st.sampled_from((LANES[DROPPED], dict(reversed(LANES[DROPPED].items())))), "lanes")
        self.define(DROPPED, lanes, GROUPS[DROPPED])
        self.keyed_start()

    @rule(data=st.data(), really=st.integers(0, 2))
    def drop_and_make_again(self, data: st.DataObject, really: int) -> None:
        if not really:
            self.drop_group(data)

    def keyed_start(self) -> None:
        """What a start adds, under the key that it has in every life of the group."""
        self.serial += 1
        requests = [Request(0, HOSTS[0], f"{DROPPED}.some", b"%d" % self.serial, dont_filter=True)]
        assert self.frontier.add(requests, key="start")[0] == self.model.add(requests, key="start")[0]

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

    @rule(data=st.data(), group=st.sampled_from(sorted(GROUPS)))
    def lease_while_paused(self, data: st.DataObject, group: str) -> None:
        """Nothing of a paused group goes out, not even what came while it was paused."""
        if ("group", group) in self.model.at(group).paused:
            return
        self.frontier.pause(group=group)
        self.model.pause("group", group, "paused")
        for _ in range(2):
            self.call(self.worker(data), add=self.requests(data, 3), want=4 * self.every)
        self.frontier.resume(group=group)
        self.model.pause("group", group, "")

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
        worker, group = self.worker(data), data.draw(st.sampled_from(("g", "g", "h", DROPPED)), "group")
        state, number = self.frontier.start(group, worker.token)
        assert state is self.model.start(group, worker.name)
        assert number == self.model.parts[0].rounds.get(group, 0)
        if data.draw(st.booleans(), "finish"):
            self.started(data)

    def started(self, data: st.DataObject) -> None:
        worker, group = self.worker(data), data.draw(st.sampled_from(("g", "g", "h", DROPPED)), "group")
        assert self.frontier.started(group, worker.token) == self.model.started(group, worker.name)

    def new_round(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(("g", "g", "h", DROPPED)), "group")
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
            model = self.model.parts[part]
            model.written[group] = max(kept, model.written[group])
            model.make_room(group, 0)
            assert self.frontier.keep_items(group, "store", {part: rows[kept - 1][0]}) == len(model.items[group])
