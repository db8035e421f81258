"""Rounds: their log, their counts, and the one worker that does what comes after them; on every place (see conftest)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gossamer.courier.rounds import start_key
from gossamer.errors import PolicyError, UnknownGroup
from gossamer.frontier.call import function_call, read
from gossamer.frontier.connection.router import Conversation, RoutedCommand
from gossamer.frontier.server import keys
from gossamer.frontier.server.library import function
from gossamer.frontier.snapshot.export import Export
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    AddOutcome,
    Drained,
    Ending,
    EndState,
    GroupPolicy,
    LanePolicy,
    RoundInfo,
    Settlement,
    StartState,
    Token,
)
from gossamer.testing.contract import Crawl
from gossamer.testing.contract.earlier_state import another_process, go_back, picture
from gossamer.testing.fault_proxy import FaultProxy
from gossamer.testing.servers import Server

Opened = Callable[..., Crawl]
OWED = GroupPolicy(start=True)


def run_round(crawl: Crawl, *pages: str, failing: int = 0) -> None:
    """The start of the present round with these pages over all partitions, and all of them done."""
    worker = crawl.worker()
    state, _ = crawl.frontier.start("g", worker.token)
    assert state is StartState.GRANTED
    hosts = crawl.spread(max(1, len(pages)))
    crawl.frontier.add([crawl.request(name, host) for name, host in zip(pages, hosts, strict=False)])
    assert crawl.frontier.started("g", worker.token)
    for number, lease in enumerate(worker.lease(len(pages)) if pages else []):
        ending = Ending.FAILED if number < failing else Ending.DONE
        worker.exchange(settle=[Settlement(lease, ending, items=[b"i", b"j"] if ending is Ending.DONE else ())])


def newest(crawl: Crawl) -> RoundInfo:
    return crawl.frontier.rounds("g", 1)[0]


class TestEnding:
    """One worker does what comes after a round, whatever the number of workers."""

    def test_one_worker_ends_it(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "one")
        workers = [crawl.worker() for _ in range(4)]
        states = [crawl.frontier.end_round("g", worker.token) for worker in workers]
        assert states == [(EndState.GRANTED, 0)] + [(EndState.BUSY, 0)] * 3
        assert crawl.frontier.end_round("g", workers[0].token) == (EndState.GRANTED, 0), "asked again"
        assert not crawl.frontier.ended("g", workers[1].token)
        assert crawl.frontier.ended("g", workers[0].token)
        assert crawl.frontier.ended("g", workers[0].token), "said again"
        assert [crawl.frontier.end_round("g", worker.token) for worker in workers] == [(EndState.DONE, 0)] * 4
        assert crawl.frontier.drained("g").drained

    def test_another_ends_it_at_once_if_that_one_is_gone(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "one")
        dead, other = Token.fresh(), Token.fresh()
        assert crawl.frontier.end_round("g", dead) == (EndState.GRANTED, 0)
        assert crawl.frontier.end_round("g", other) == (EndState.BUSY, 0)
        assert [crawl.frontier.gone(dead.incarnation, 8, ["g"]) for _ in range(2)] == [1, 0]
        assert crawl.frontier.end_round("g", other) == (EndState.GRANTED, 0)
        assert not crawl.frontier.ended("g", dead)

    def test_not_before_the_group_is_drained(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        worker = crawl.worker()
        assert crawl.frontier.end_round("g", worker.token) == (EndState.OPEN, 0), "its start is owed"
        crawl.frontier.start("g", worker.token)
        crawl.add("one", host=crawl.hosts(1, crawl.frontier.partitions - 1)[0])
        crawl.frontier.started("g", worker.token)
        assert crawl.frontier.end_round("g", worker.token) == (EndState.OPEN, 0), "a page is queued"
        lease = worker.one()
        assert crawl.frontier.end_round("g", worker.token) == (EndState.OPEN, 0), "a page is in progress"
        worker.settle(lease)
        assert crawl.frontier.end_round("g", worker.token) == (EndState.GRANTED, 0)

    def test_not_while_a_task_waits(self, crawl: Crawl) -> None:
        source = f"{crawl.frontier.crawl}:tasks"
        crawl.define(policy=GroupPolicy(tasks=(source,)))
        worker = crawl.worker()
        crawl.command(("RPUSH", source, "a task"), source)
        assert crawl.frontier.end_round("g", worker.token)[0] is EndState.OPEN
        [task] = crawl.frontier.lease_tasks(worker.token, source, 1)
        assert crawl.frontier.end_round("g", worker.token)[0] is EndState.OPEN
        crawl.frontier.settle_tasks(worker.token, source, done=[task])
        assert crawl.frontier.end_round("g", worker.token)[0] is EndState.GRANTED

    def test_it_is_taken_over_when_its_worker_dies(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "one")
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.end_round("g", first.token)
        found = newest(crawl).ended
        crawl.advance(crawl.lease_seconds - 1)
        assert crawl.frontier.end_round("g", second.token)[0] is EndState.BUSY
        crawl.advance(2)
        assert crawl.frontier.end_round("g", second.token)[0] is EndState.GRANTED
        assert not crawl.frontier.renew_end("g", first.token)
        assert not crawl.frontier.release_end("g", first.token)
        assert not crawl.frontier.ended("g", first.token)
        assert newest(crawl).state == "ending"
        assert crawl.frontier.ended("g", second.token)
        assert newest(crawl).ended == found, "it ended when it was found drained, not when it was taken over"

    def test_renewing_keeps_the_right(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl)
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.end_round("g", first.token)
        for _ in range(3):
            crawl.advance(crawl.lease_seconds - 5)
            assert crawl.frontier.renew_end("g", first.token)
        assert crawl.frontier.end_round("g", second.token)[0] is EndState.BUSY

    def test_given_back_the_round_goes_on(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "one")
        first, second = crawl.worker(), crawl.worker()
        crawl.frontier.end_round("g", first.token)
        assert crawl.add("what was missing") != []
        assert not crawl.frontier.release_end("g", second.token)
        assert crawl.frontier.release_end("g", first.token)
        assert (newest(crawl).state, newest(crawl).ended) == ("running", None)
        assert crawl.frontier.end_round("g", second.token)[0] is EndState.OPEN
        crawl.advance(30)
        crawl.finish()
        assert crawl.frontier.end_round("g", second.token)[0] is EndState.GRANTED
        assert newest(crawl).pages == 2
        assert crawl.frontier.ended("g", second.token)
        info = newest(crawl)
        assert info.began is not None
        assert info.ended is not None
        assert info.ended - info.began >= 30

    def test_a_round_begun_takes_the_old_ones_right(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "one")
        worker, other = crawl.worker(), crawl.worker()
        crawl.frontier.end_round("g", worker.token)
        crawl.frontier.new_round("g", 1)
        assert not crawl.frontier.renew_end("g", worker.token)
        assert not crawl.frontier.ended("g", worker.token)
        run_round(crawl, "two")
        assert crawl.frontier.end_round("g", other.token) == (EndState.GRANTED, 1)
        assert not crawl.frontier.ended("g", worker.token)
        assert crawl.frontier.ended("g", other.token)
        assert [info.state for info in crawl.frontier.rounds("g")] == ["ended", "ended"]

    def test_every_round_is_ended_once(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        workers = [crawl.worker() for _ in range(2)]
        for number in range(3):
            run_round(crawl, f"page {number}")
            answers = [crawl.frontier.end_round("g", worker.token) for worker in workers]
            assert answers == [(EndState.GRANTED, number), (EndState.BUSY, number)]
            crawl.frontier.ended("g", workers[0].token)
            crawl.frontier.new_round("g", number + 1)

    def test_an_unknown_group_is_an_error(self, crawl: Crawl) -> None:
        token = crawl.worker().token
        for ask in (
            crawl.frontier.end_round,
            crawl.frontier.renew_end,
            crawl.frontier.release_end,
            crawl.frontier.ended,
        ):
            with pytest.raises(UnknownGroup):
                ask("unknown", token)
        with pytest.raises(UnknownGroup):
            crawl.frontier.rounds("unknown")
        with pytest.raises(UnknownGroup):
            crawl.frontier.round_note("unknown", 0, {"late": True})


class TestLog:
    """What is kept of rounds."""

    def test_a_round_from_its_start_to_its_end(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        assert crawl.frontier.rounds("g") == []
        before = crawl.frontier.counts().now
        run_round(crawl, "a", "b", "c", failing=1)
        crawl.advance(100)
        running = newest(crawl)
        assert (running.state, running.pages, running.items, running.failed, running.dead) == ("running", 3, 4, 1, 1)
        worker = crawl.worker()
        crawl.frontier.end_round("g", worker.token)
        assert newest(crawl).state == "ending"
        crawl.advance(20)
        assert crawl.frontier.ended("g", worker.token, {"late": True, "note": "hook said 3"})
        info = newest(crawl)
        assert info.began is not None
        assert info.ended is not None
        assert info.closed is not None
        assert before <= info.began <= before + 30
        assert 100 <= info.ended - info.began < 130
        assert 20 <= info.closed - info.ended < 50
        assert info == RoundInfo(
            "g", 0, "ended", info.began, info.ended, info.closed, "", "", 3, 4, 1, 1, True, "hook said 3"
        )

    def test_counts_are_those_of_the_round(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "a", "b", "c", failing=1)
        assert crawl.frontier.new_round("g", 1, trigger="schedule", who="planner") == 1
        assert crawl.frontier.new_round("g", 1, trigger="late", who="another") == 1
        run_round(crawl, "d", "e", "f", "g", "h", failing=2)
        worker = crawl.worker()
        crawl.frontier.end_round("g", worker.token)
        crawl.frontier.ended("g", worker.token, {"items": 77})
        # What comes in later belongs to it too, until the next one begins.
        crawl.add("late")
        crawl.finish()
        present, first = crawl.frontier.rounds("g")
        assert (present.trigger, present.who, present.state) == ("schedule", "planner", "ended")
        assert (present.pages, present.items, present.failed, present.dead) == (6, 77, 2, 2)
        assert (first.state, first.ended, first.closed) == ("cut short", None, None)
        assert (first.pages, first.items, first.failed, first.dead) == (3, 4, 1, 1)
        letter = crawl.frontier.dead_letters("g")[-1]
        assert crawl.frontier.replay(letter.partition, [letter.id]) == 1
        crawl.finish()
        replayed = newest(crawl)
        assert (replayed.pages, replayed.items, replayed.failed, replayed.dead) == (7, 77, 2, 2), "it did die"
        crawl.frontier.new_round("g", 2)
        assert crawl.frontier.rounds("g")[1:] == [replayed, first]

    def test_what_is_noted_first_stays(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        crawl.frontier.start("g", crawl.worker().token)
        began = newest(crawl).began
        assert crawl.frontier.round_note("g", 0, {"began": 5, "trigger": "by hand", "pages": 3, "note": "first"})
        assert crawl.frontier.round_note("g", 0, {"trigger": "other", "who": "ann", "note": "second"})
        assert crawl.frontier.round_note("g", 0, {"ended": 7.5})
        assert crawl.frontier.round_note("g", 0, {"ended": 9, "late": True})
        info = newest(crawl)
        assert (info.began, info.ended, info.late) == (began, 7.5, True)
        assert (info.trigger, info.who, info.note) == ("by hand", "ann", "second")

    def test_what_cannot_be_noted(self, crawl: Crawl) -> None:
        crawl.define()
        assert not crawl.frontier.round_note("g", 1, {"late": True}), "it has not begun"
        with pytest.raises(PolicyError, match="'colour' cannot be noted; these can: began"):
            crawl.frontier.round_note("g", 0, {"colour": "blue"})
        with pytest.raises(PolicyError, match="pages is 'many'"):
            crawl.frontier.round_note("g", 0, {"pages": "many"})
        with pytest.raises(PolicyError, match="note has 3,000"):
            crawl.frontier.round_note("g", 0, {"note": "n" * 3000})
        assert crawl.frontier.rounds("g") == []

    def test_the_last_are_kept(self, crawl: Crawl) -> None:
        crawl.define()
        base = keys.base(crawl.frontier.crawl, keys.home_of("g", crawl.frontier.partitions))
        log = f"{base}{keys.SUFFIXES['round_log']}g"
        crawl.frontier.new_round("g", 2000)
        row = crawl.command(("ZRANGE", log, 0, 0), base)[0]
        rows = [word for number in range(1001, 2000) for word in (number, row + b"\xc0%d" % number)]
        crawl.command(("ZADD", log, *rows), base)
        assert crawl.command(("ZCARD", log), base) == 1000
        crawl.frontier.new_round("g", 2001)
        assert crawl.command(("ZCARD", log), base) == 1000
        assert crawl.command(("ZRANGE", log, 0, 0, "WITHSCORES"), base)[1] in (b"1002", 1002.0)
        assert not crawl.frontier.round_note("g", 5, {"late": True}), "too long ago"
        assert [info.round for info in crawl.frontier.rounds("g", 1)] == [2001]
        assert len(crawl.frontier.rounds("g", 7)) == 7

    def test_a_dropped_lane_takes_no_more_than_its_own(self, crawl: Crawl) -> None:
        crawl.define({"a": LanePolicy(), "b": LanePolicy()}, OWED)
        run_round(crawl, "a", failing=1)
        crawl.frontier.new_round("g", 1)
        list(crawl.frontier.drop_lane("g.a"))
        assert newest(crawl).failed == 0

    def test_a_dropped_group_has_no_past(self, crawl: Crawl) -> None:
        crawl.define(policy=OWED)
        run_round(crawl, "a")
        crawl.frontier.new_round("g", 1)
        run_round(crawl, "b")
        token = crawl.worker().token
        crawl.frontier.end_round("g", token)
        crawl.frontier.ended("g", token)
        list(crawl.frontier.drop_group("g"))
        crawl.define(policy=OWED)
        assert crawl.frontier.rounds("g") == []
        run_round(crawl, "c")
        assert (newest(crawl).round, newest(crawl).pages) == (0, 1)
        assert crawl.frontier.end_round("g", token) == (EndState.GRANTED, 0)

    def test_none_begins_after_another_round_than_the_caller_knows(self, crawl: Crawl) -> None:
        """The server went back to an older state, and what it had lost has begun again."""
        crawl.define(policy=OWED)
        run_round(crawl)
        began = newest(crawl).began
        assert began is not None
        assert crawl.frontier.new_round("g", 2, after=began) == 0, "there is no round 1"
        assert crawl.frontier.new_round("g", 1, after=began + 1) == 0, "round 0 is another one"
        assert newest(crawl).round == 0
        assert crawl.frontier.new_round("g", 1, after=began) == 1
        assert crawl.frontier.new_round("g", 1, after=began) == 1, "said again"
        assert newest(crawl).round == 1

    def test_workers_hear_of_a_new_round(self, crawl: Crawl) -> None:
        crawl.define()
        worker, want = crawl.worker(), crawl.frontier.partitions
        before = worker.exchange(want=want).hints.config_version
        crawl.frontier.new_round("g", 1)
        after = worker.exchange(want=want).hints.config_version
        assert all(old != new for old, new in zip(before.split(","), after.split(","), strict=True))
        crawl.frontier.new_round("g", 1)
        assert worker.exchange(want=want).hints.config_version == after


@pytest.mark.parametrize("lose", ["lose_replies", "lose_requests"])
@pytest.mark.parametrize("client", ["blocking", "async"])
def test_lost_answers_change_nothing(
    fault_proxy: FaultProxy, valkey_server: Server, opened: Opened, client: str, lose: str
) -> None:
    behind = opened(fault_proxy.url, asynchronous=client == "async", GOSSAMER_PARTITIONS=3)
    behind.define(policy=OWED)
    run_round(behind, "a", "b", "c")
    token = Token.fresh()
    getattr(fault_proxy, lose)(1, match=b"gossamer_1_new_round")
    assert behind.frontier.new_round("g", 1, trigger="t") == 1
    run_round(behind, "d")
    for verb in (behind.frontier.end_round, behind.frontier.renew_end, behind.frontier.ended):
        getattr(fault_proxy, lose)(1, match=b"gossamer_1_end_round")
        assert verb("g", token) in ((EndState.GRANTED, 1), True)
    assert fault_proxy.counters.lost == 4
    fault_proxy.heal()
    rounds = opened(valkey_server.url, behind.frontier.crawl).frontier.rounds("g")
    assert [(info.round, info.state, info.pages) for info in rounds] == [(1, "ended", 1), (0, "cut short", 3)]


def test_of_many_at_once_one_ends_it(valkey_server: Server, opened: Opened) -> None:
    crawl = opened(valkey_server.url)
    crawl.define(policy=OWED)
    for number in range(5):
        run_round(crawl, f"page {number}")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: crawl.frontier.end_round("g", Token.fresh()), range(16)))
        assert sorted(state.value for state, _ in answers) == ["busy"] * 15 + ["granted"]
        crawl.frontier.new_round("g", number + 1)


def taken_after(crawl: Crawl, act: Callable[[], object]) -> object:
    """What taking the next round comes to when somebody acts after it was asked whether the last is drained."""
    frontier = crawl.frontier
    assert isinstance(frontier, ValkeyFrontier)
    talk = frontier.verbs.rounds.end_round("g", Token.fresh())
    asks = next(talk)
    while asks[0].command[1] != function("end_round"):
        asks = talk.send(frontier.ask(asks))
    act()
    with pytest.raises(StopIteration) as stopped:
        talk.send(frontier.ask(asks))
    return stopped.value.value


def test_a_round_that_began_while_drained_was_asked_is_not_ended(valkey_server: Server, opened: Opened) -> None:
    crawl = opened(valkey_server.url)
    crawl.define()
    assert taken_after(crawl, lambda: crawl.frontier.new_round("g", 1)) == (EndState.OPEN, 1)
    assert crawl.frontier.end_round("g", Token.fresh()) == (EndState.GRANTED, 1)


def test_work_that_came_after_drained_was_asked_keeps_the_round_open(valkey_server: Server, opened: Opened) -> None:
    crawl = opened(valkey_server.url)
    crawl.define()
    assert taken_after(crawl, lambda: crawl.add("late")) == (EndState.OPEN, 0)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_snapshot_carries_rounds(valkey_server: Server, opened: Opened, tmp_path: Path, partitions: int) -> None:
    crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=partitions)
    crawl.define(policy=OWED)
    run_round(crawl, "a", "b", "c", failing=1)
    token = Token.fresh()
    crawl.frontier.end_round("g", token)
    crawl.frontier.ended("g", token, {"note": "fine"})
    crawl.frontier.new_round("g", 1, trigger="schedule", who="planner")
    run_round(crawl, "d", "e", "f", "h", failing=1)
    crawl.frontier.define("other", {"a": LanePolicy()})
    crawl.frontier.end_round("other", token)
    crawl.frontier.ended("other", token)
    original = crawl.frontier
    copied = opened(valkey_server.url, f"{crawl.frontier.crawl}-copy", GOSSAMER_PARTITIONS=4 - partitions)
    copy, file = copied.frontier, tmp_path / "crawl.jsonl"
    assert isinstance(original, ValkeyFrontier)
    assert isinstance(copy, ValkeyFrontier)
    with file.open("w", encoding="utf-8") as out:
        Export(original, out).run()
    for _ in range(2):
        with file.open("rb") as lines:
            Restore(copy, SnapshotFile("file", lines)).run()
        assert copy.rounds("g") == original.rounds("g")
        assert copy.rounds("other") == original.rounds("other")
    copied.add("more")
    copied.finish()
    assert newest(copied).pages == newest(crawl).pages + 1
    assert copy.end_round("other", Token.fresh())[0] is EndState.DONE
    assert copy.end_round("g", Token.fresh()) == (EndState.GRANTED, 1)


def test_rounds_survive_a_restart(opened: Opened) -> None:
    with Server().start(fsync="always") as server:
        crawl = opened(server.url)
        crawl.define(policy=OWED)
        run_round(crawl, "a")
        crawl.frontier.new_round("g", 1)
        run_round(crawl, "b", "c")
        token = Token.fresh()
        crawl.frontier.end_round("g", token)
        before = crawl.frontier.rounds("g")
        server.kill()
        server.restart()
        assert crawl.frontier.rounds("g") == before
        assert crawl.frontier.end_round("g", Token.fresh())[0] is EndState.BUSY
        assert crawl.frontier.ended("g", token)


def test_what_a_start_adds_to_a_round_that_the_server_has_lost_is_added_when_the_round_begins_again(
    crawl: Crawl,
) -> None:
    """Who ran the start when the server went back goes on for a moment, or sends it again: it would be of another round, and the start
    that comes would find it to be there."""
    crawl.define(policy=OWED)
    hosts = crawl.spread(4)
    seeds = [crawl.request(f"seed {n}", host, dont_filter=True) for n, host in enumerate(hosts)]

    def add(number: int) -> set[AddOutcome]:
        keyed = [start_key("g", number, place) for place in range(len(seeds))]
        return set(crawl.frontier.add(seeds, key=keyed)[0])

    assert add(1) == {AddOutcome.DUPLICATE}
    assert add(0) == {AddOutcome.ADDED}
    crawl.frontier.new_round("g", 1)
    assert add(1) == {AddOutcome.ADDED}
    assert add(1) == {AddOutcome.DUPLICATE}


class Interrupting:
    """A client that is stopped before its call of this number: meanwhile `then` happens. A question to several partitions is several calls."""

    def __init__(self, frontier: ValkeyFrontier, number: int, then: Callable[[], None]) -> None:
        self._ask, self._number, self._then = frontier.calls.ask, number, then
        self.made = 0
        frontier.calls.ask = self.ask  # type: ignore[method-assign]

    def ask(self, calls: Sequence[RoutedCommand]) -> Conversation[list[Any]]:
        answers = []
        for one in calls:
            if self.made == self._number:
                self._then()
            self.made += 1
            answers += yield from self._ask([one])
        return answers


@pytest.mark.parametrize("asked", ["the next round", "no other round", "the start"])
def test_a_call_that_goes_on_when_the_server_went_back_begins_no_round_after_those_it_lost(
    valkey_server: Server, opened: Opened, asked: str
) -> None:
    """At whichever moment of the call: each of its partitions is in the round that it went back to, and the next one comes after that."""
    crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=2)
    frontier = crawl.frontier
    crawl.define(policy=OWED)
    run_round(crawl, "a")
    earlier = [picture(crawl, p) for p in range(2)]
    for number in (1, 2):
        frontier.new_round("g", number)
    later, began = [picture(crawl, p) for p in range(2)], newest(crawl).began

    def states(states: list[dict[str, bytes]]) -> None:
        for p in range(2):
            go_back(crawl, states[p], p)
            another_process(crawl, p)

    bases = [keys.base(frontier.crawl, p) for p in range(2)]
    for moment in count():
        states(later)
        client = opened(valkey_server.url, GOSSAMER_PARTITIONS=2).frontier
        assert isinstance(client, ValkeyFrontier)
        interrupting = Interrupting(client, moment, lambda: states(earlier))
        if asked == "the start":
            client.start("g", Token.fresh())
        else:
            client.new_round("g", 3 if asked == "the next round" else None, after=began)
        if interrupting.made <= moment:
            break
        heard = client.ask([function_call("round_counts", base, {"group": "g"}) for base in bases])
        assert [read(reply)[0] for reply in heard] == [0, 0], f"it went back before call {moment + 1}"
        assert [info.round for info in frontier.rounds("g")] == [0]
    assert moment >= 3


def test_a_round_has_not_ended_that_was_found_drained_before_the_server_went_back(
    valkey_server: Server, opened: Opened
) -> None:
    """At whichever moment of the question: what it brought back is fetched first."""
    crawl = opened(valkey_server.url, GOSSAMER_PARTITIONS=2)
    crawl.define(policy=OWED)
    worker = crawl.worker()
    crawl.frontier.start("g", worker.token)
    [host] = [host for host in crawl.spread(2) if keys.partition_of(host, 2) != keys.home_of("g", 2)]
    crawl.frontier.add([crawl.request("page", host)])
    crawl.frontier.started("g", worker.token)
    earlier = [picture(crawl, p) for p in range(2)]
    for lease in worker.lease(1):
        worker.exchange(settle=[Settlement(lease)])
    later = [picture(crawl, p) for p in range(2)]

    def states(states: list[dict[str, bytes]]) -> None:
        for p in range(2):
            go_back(crawl, states[p], p)
            another_process(crawl, p)

    for moment in count():
        states(later)
        client = opened(valkey_server.url, GOSSAMER_PARTITIONS=2).frontier
        assert isinstance(client, ValkeyFrontier)
        interrupting = Interrupting(client, moment, lambda: states(earlier))
        client.end_round("g", Token.fresh())
        if interrupting.made <= moment:
            break
        assert newest(crawl).state == "running", f"it went back before call {moment + 1}"
    assert moment >= 3
    states(later)
    assert crawl.frontier.end_round("g", worker.token)[0] is EndState.GRANTED


def asked(crawl: Crawl, meanwhile: Callable[[], object]) -> Drained:
    """Whether `g` is drained, with something that happens between the two looks by which that is known, and after them."""
    frontier = crawl.frontier
    assert isinstance(frontier, ValkeyFrontier)
    verb = frontier.verbs.read.drained("g")
    try:
        asks = next(verb)
        while True:
            answers = frontier.ask(asks)
            meanwhile()
            asks = verb.send(answers)
    except StopIteration as stop:
        answer: Drained = stop.value
        return answer


@pytest.fixture(params=["partitions", "tasks"])
def looked_at_twice(request: pytest.FixtureRequest, opened: Opened, valkey_server: Server, crawl_name: str) -> Crawl:
    """A crawl with a group that has nothing, over partitions or with a producer's key, and another group."""
    partitions, tasks = (3, ()) if request.param == "partitions" else (1, (f"{crawl_name}:tasks",))
    crawl = opened(valkey_server.url, crawl_name, GOSSAMER_PARTITIONS=partitions)
    crawl.frontier.define("g", {"a": LanePolicy()}, GroupPolicy(tasks=tasks))
    crawl.frontier.define("other", {"a": LanePolicy()})
    return crawl


def test_other_groups_at_work_keep_no_group_from_being_drained(looked_at_twice: Crawl) -> None:
    crawl, worker = looked_at_twice, looked_at_twice.worker()
    pages = count()

    def work() -> None:
        crawl.add(*(f"page {next(pages)}" for _ in range(9)), lane="other.a")
        worker.settle(*worker.lease(9))

    crawl.add("one")
    worker.settle(worker.one())
    assert asked(crawl, work) == (True, 0, 0)


def test_a_page_that_comes_and_goes_between_the_two_looks_is_seen(looked_at_twice: Crawl) -> None:
    crawl, worker = looked_at_twice, looked_at_twice.worker()
    pages = count()

    def work() -> None:
        crawl.add(f"page {next(pages)}")
        worker.settle(worker.one())

    assert asked(crawl, work) == (False, 0, 0)
    assert crawl.frontier.drained("g").drained
