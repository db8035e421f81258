"""Planners on a real server whose clock the tests move: what they begin, and that a change of the leader changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.planned_crawl import LEAD, PAGES, PlannedCrawl

from gossamer.frontier.call import function_call
from gossamer.frontier.server import keys
from gossamer.model import GroupPolicy, Token
from gossamer.planner.decider import Decision
from gossamer.planner.overview import overview
from gossamer.planner.policy.rounds import Action
from gossamer.testing.servers import Server

MINUTE = 60.0


def test_a_round_begins_when_it_is_due_and_no_sooner(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.push("b", "{every: 1d}")
    assert planner.cycle().done == [], "nobody has run the first start"
    for group in "ab":
        crawl.run_round(group)
    assert planner.cycle().done == []
    crawl.advance(10 * MINUTE - 5)
    assert planner.cycle().done == []
    crawl.advance(5)
    assert [(one.group, one.round, one.action) for one in planner.cycle().done] == [("a", 0, Action.BEGIN)]
    assert planner.cycle().done == [], "it runs"
    [info] = crawl.frontier.rounds("a", 1)
    assert (info.round, info.trigger, info.who) == (1, "schedule", "one")
    crawl.advance(20 * MINUTE)
    assert planner.cycle().done == [], "it still runs"
    crawl.run_round("a")
    assert [one.group for one in planner.cycle().done] == ["a"], "at once, and once for two that were due"
    crawl.run_round("a")
    assert planner.cycle().done == []


def test_a_file_that_is_pushed_or_removed_counts_in_the_next_cycle(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 1d}")
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    assert planner.cycle().done == []
    crawl.push("a", "{every: 10m}")
    assert [one.group for one in planner.cycle().done] == ["a"]
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    crawl.frontier.put_document("site", "a", "site: a\nlayers: [page]\n")
    assert [one.group for one in planner.cycle().done] == ["a"], "a file that cannot be read counts as it was"
    crawl.run_round("a")
    crawl.advance(11 * MINUTE)
    crawl.frontier.drop_document("site", "a")
    assert planner.cycle().done == []


@pytest.mark.parametrize("action", [Action.BEGIN, Action.REPLACE, Action.RESEED])
def test_what_was_decided_of_a_round_that_the_server_has_lost_is_not_done(crawl: PlannedCrawl, action: Action) -> None:
    """The server went back while the call waited for it, and a worker has begun that round again."""
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, overlap: replace}")
    crawl.run_round("a")
    planner.cycle()
    crawl.frontier.new_round("a", 1)
    crawl.seed("a", 3)
    [info] = crawl.frontier.rounds("a", 1)
    assert info.began is not None
    decision = Decision("a", 1, action, "due", began=info.began - 5)
    assert not planner._done(decision, "")
    assert crawl.rounds("a")[-1] == (1, "running")
    state = crawl.frontier.plan_state(lanes=True).groups["a"]
    assert sum(lane.queued for lane in state.lanes) == 3, "nothing was dropped"
    assert planner._done(decision._replace(began=info.began), "")
    assert crawl.rounds("a")[-1] == (2, "running")


def test_a_paused_site_waits(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.frontier.pause(group="a", reason="by hand")
    crawl.advance(20 * MINUTE)
    assert planner.cycle().done == []
    crawl.frontier.resume(group="a")
    assert [one.group for one in planner.cycle().done] == ["a"]


def test_while_the_whole_crawl_is_paused_all_sites_wait(crawl: PlannedCrawl) -> None:
    """What waits for the last round is not dropped for the next, and seeds do not pile up."""
    planner, overlaps = crawl.planner("one"), ("queue", "replace", "reseed")
    for overlap in overlaps:
        crawl.push(overlap, f"{{every: 10m, overlap: {overlap}}}")
        crawl.seed(overlap, 3)
    assert planner.cycle().done == []
    crawl.frontier.pause(reason="for the night")
    crawl.advance(20 * MINUTE)
    assert planner.cycle().done == []
    rows = overview(crawl.frontier)[1]
    assert {(row.state, row.paused, row.waiting) for row in rows} == {("paused", "the whole crawl: for the night", 3)}
    crawl.frontier.resume()
    assert [one.group for one in planner.cycle().done] == ["replace", "reseed"]


@pytest.mark.parametrize(("late", "begins", "then"), [(30.0, ["a"], []), (120.0, [], ["a"])])
def test_a_time_that_passes_while_a_site_is_paused_is_missed(
    crawl: PlannedCrawl, late: float, begins: list[str], then: list[str]
) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, catch_up: none}")
    crawl.run_round("a")
    crawl.frontier.pause(group="a", reason="by hand")
    crawl.advance(10 * MINUTE + late)
    assert planner.cycle().done == []
    crawl.frontier.resume(group="a")
    assert [one.group for one in planner.cycle().done] == begins
    crawl.advance(10 * MINUTE - late)
    assert [one.group for one in planner.cycle().done] == then


def test_what_overlaps(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    for overlap in ("queue", "skip", "reseed"):
        crawl.push(overlap, f"{{every: 10m, overlap: {overlap}}}")
        crawl.seed(overlap, 3)
    crawl.advance(10 * MINUTE + 1)
    assert [(one.group, one.action) for one in planner.cycle().done] == [("reseed", Action.RESEED)]
    assert crawl.rounds("reseed") == [(0, "seeded again"), (1, "running")]
    crawl.advance(11 * MINUTE)
    assert planner.cycle().done == [], "the seeds of the last time are not there yet"
    crawl.seed("reseed", 2)
    [done] = planner.cycle().done
    assert done.group == "reseed"
    crawl.seed("reseed", 2)
    state = crawl.frontier.plan_state(lanes=True).groups["reseed"]
    assert sum(lane.queued for lane in state.lanes) == 3 + 2 + 2, "nothing was dropped"
    for overlap in ("queue", "skip"):
        crawl.fetch(overlap)
    assert [one.group for one in planner.cycle().done] == ["queue"]
    crawl.advance(10 * MINUTE)
    assert "skip" in [one.group for one in planner.cycle().done]


def test_what_comes_after_a_round_belongs_to_it(crawl: PlannedCrawl) -> None:
    """A hook that takes long: the round that waits for it was not missed, comes at no other times than the schedule names if these alone
    count, and the one before it is not late."""
    planner = crawl.planner("one")
    for overlap in ("queue", "skip"):
        crawl.push(overlap, f"{{every: 10m, deadline: 9m, catch_up: none, overlap: {overlap}}}")
        crawl.seed(overlap)
    crawl.advance(8 * MINUTE)
    for overlap in ("queue", "skip"):
        crawl.fetch(overlap, end=False)
        crawl.frontier.end_round(overlap, crawl.token)
    for _ in range(8):
        crawl.advance(MINUTE / 2)
        assert planner.cycle().done == []
        assert all(crawl.frontier.renew_end(overlap, crawl.token) for overlap in ("queue", "skip"))
    assert not any(row.late for row in overview(crawl.frontier)[1])
    for overlap in ("queue", "skip"):
        crawl.frontier.ended(overlap, crawl.token)
    assert [one.group for one in planner.cycle().done] == ["queue"]
    crawl.advance(8 * MINUTE + 1)
    assert "skip" in [one.group for one in planner.cycle().done]


def test_rounds_of_spiders_begin_by_their_schedule_and_end_when_nothing_is_left(crawl: PlannedCrawl) -> None:
    """Workers that stay note no end; and a task that waits keeps a round from ending."""
    planner = crawl.planner("one")
    crawl.frontier.put_document("spider", "all", "spider: quotes\nschedule: {every: 10m, deadline: 5m}\n")
    key = f"{crawl.frontier.crawl}:tasks"
    crawl.frontier.define("quotes", {"page": PAGES}, GroupPolicy(start=True, tasks=(key,)))
    crawl.seed("quotes", 3)
    assert planner.cycle().done == []
    crawl.frontier.connection.execute("RPUSH", key, "one", key=key)
    crawl.fetch("quotes", end=False)
    assert planner.cycle().done == [], "a task waits"
    [task] = crawl.frontier.lease_tasks(crawl.token, key, 1)
    crawl.frontier.settle_tasks(crawl.token, key, done=[task])
    crawl.advance(6 * MINUTE)
    assert [one.over for one in planner.cycle().done] == [True]
    [info] = crawl.frontier.rounds("quotes")
    assert (info.state, info.late, info.pages) == ("ended", True, 3)
    assert planner.cycle().done == []
    crawl.advance(4 * MINUTE)
    assert [(one.group, one.action) for one in planner.cycle().done] == [("quotes", Action.BEGIN)]
    assert planner.cycle().done == [], "its start is owed"
    crawl.frontier.drop_document("spider", "all")
    crawl.seed("quotes", 1)
    crawl.fetch("quotes", end=False)
    assert planner.cycle().done == []


@pytest.mark.parametrize("schedule", ["{every: 10m}", "{cron: '*/10 * * * *'}"])
def test_a_group_is_planned_by_the_clock_that_notes_its_rounds(crawl: PlannedCrawl, schedule: str) -> None:
    planner, frontier = crawl.planner("one"), crawl.frontier
    name = next(name for name in "abcdefgh" if keys.home_of(name, 2) == 1)
    # A minute after a time that cron names, or the next one might come while the test runs.
    crawl.advance(11 * MINUTE - crawl.now % (10 * MINUTE))
    crawl.push(name, schedule)
    crawl.run_round(name)
    crawl.advance(10 * MINUTE)
    # The server of the other partition is ahead.
    frontier.ask([function_call("clock", keys.base(frontier.crawl, 0), {"by_ms": 3_600_000, "book": False})])
    done: list[object] = []
    for _ in range(3):
        done += planner.cycle().done
        crawl.run_round(name)
    assert len(done) == 1
    assert frontier.counts(name).clocks[name] == pytest.approx(frontier.counts().now - 3600, abs=60)


def test_what_is_left_is_dropped_for_the_next_round(crawl: PlannedCrawl) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, overlap: replace}")
    crawl.seed("a", 700)
    crawl.advance(10 * MINUTE + 1)
    done = [decision for _ in range(3) for decision in planner.cycle().done]
    assert [(one.group, one.action) for one in done] == [("a", Action.REPLACE)]
    assert crawl.rounds("a") == [(0, "cut short"), (1, "running")]
    crawl.seed("a", 2)
    state = crawl.frontier.plan_state(lanes=True).groups["a"]
    assert state.lanes[0].queued == 2
    crawl.fetch("a")
    assert crawl.rounds("a")[1] == (1, "ended")


def test_a_late_round_is_noted_once_while_it_runs(crawl: PlannedCrawl, caplog: pytest.LogCaptureFixture) -> None:
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m, deadline: 5m}")
    crawl.seed("a")
    crawl.advance(5 * MINUTE + 1)
    for _ in range(3):
        planner.cycle()
    assert [record.message for record in caplog.records if "late" in record.message] == [
        "Round 0 of a is late: it runs longer than its deadline."
    ]
    assert crawl.frontier.rounds("a", 1)[0].late


def test_one_leads_and_another_takes_over(crawl: PlannedCrawl, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    one, other = crawl.planner("one"), crawl.planner("other")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    assert one.cycle().leader.granted
    assert not other.cycle().leader.granted
    crawl.advance(10 * MINUTE + 1)
    assert [one.group for one in other.cycle().done] == ["a"], "the first one was silent for too long"
    assert not one.cycle().leader.granted
    assert one.term == 0
    other.resign()
    assert one.cycle().leader.granted
    said = [record.message for record in caplog.records if "leads the crawl" in record.message]
    assert "The planner other leads the crawl; this one (one) waits." in said
    assert crawl.rounds("a")[-1] == (1, "running")


def test_a_leader_that_was_frozen_before_it_acts_changes_nothing(crawl: PlannedCrawl) -> None:
    """It has decided to begin round 1, and is stopped; another leads, begins it, and the round is over. Then it wakes up."""
    one, frozen = crawl.stoppable("one")
    other = crawl.planner("other")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.advance(10 * MINUTE)

    def meanwhile() -> None:
        crawl.advance(LEAD + 1)
        assert [done.group for done in other.cycle().done] == ["a"]
        crawl.run_round("a")

    frozen.verb, frozen.then = "new_round", meanwhile
    assert one.cycle().done == []
    assert one.term == 0
    assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]
    assert not one.cycle().leader.granted


def test_a_server_that_went_back(crawl_name: str) -> None:
    """It has lost the lead, a round and its end: the leader leads on, in a later term, and begins the round that is due once."""
    with Server().start() as server, PlannedCrawl(server, crawl_name) as crawl:
        planner, other = crawl.planner("one"), crawl.planner("other")
        crawl.push("a", "{every: 10m}")
        crawl.run_round("a")
        crawl.advance(10 * MINUTE)
        server.call("SAVE")
        assert len(planner.cycle().done) == 1
        before = planner.term
        crawl.run_round("a")
        assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]
        server.kill()
        server.restart()
        assert crawl.rounds("a") == [(0, "ended")], "it went back"
        assert [one.group for one in planner.cycle().done] == ["a"]
        assert planner.term > before
        assert not other.cycle().leader.granted
        crawl.run_round("a")
        assert planner.cycle().done == []
        assert crawl.rounds("a") == [(0, "ended"), (1, "ended")]


@pytest.mark.parametrize("lost", ["a", "b"])
def test_files_that_are_pushed_to_a_server_that_went_back(crawl_name: str, lost: str) -> None:
    """What it has lost had the same versions: the leader, whose term goes on, plans by what there is, not by what it read."""
    with Server().start() as server, PlannedCrawl(server, crawl_name) as crawl:
        planner = crawl.planner("one")
        crawl.push("a", "{every: 10h}")
        crawl.run_round("a")
        planner.cycle()
        server.call("SAVE")
        before = planner.term
        crawl.push(lost, "{every: 20h}")
        planner.cycle()
        server.kill()
        server.restart()
        crawl.push("a", "{every: 10m}")
        crawl.advance(11 * MINUTE)
        assert [one.group for one in planner.cycle().done] == ["a"]
        assert planner.term == before


def test_a_clock_that_is_ahead(crawl: PlannedCrawl) -> None:
    """Nothing begins twice, and nothing is forgotten."""
    planner = crawl.planner("one")
    crawl.push("a", "{every: 10m}")
    crawl.run_round("a")
    crawl.advance(3600)
    assert len(planner.cycle().done) == 1, "the clock jumped: one round for all that it passed"
    crawl.run_round("a")
    assert planner.cycle().done == []
    # It goes back: time goes on from where it was.
    crawl.advance(-3600)
    assert planner.cycle().done == []
    assert planner.cycle().leader.granted


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("cycle"), st.integers(0, 1)),
        st.tuples(st.just("frozen"), st.integers(0, 1)),
        st.tuples(st.just("advance"), st.sampled_from([1, 5, 60, 300, 700])),
        st.tuples(st.just("work"), st.integers(0, 1)),
        st.tuples(st.just("seed"), st.integers(0, 1)),
        st.tuples(st.just("hand"), st.integers(0, 1)),
        st.tuples(st.just("resign"), st.integers(0, 1)),
    ),
    max_size=25,
)


@given(EVENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_no_round_begins_twice_or_too_early(
    valkey_server: Server, events: list[tuple[str, int]]
) -> None:
    """Two planners, of which the leader is stopped between any two calls; workers, people and time that go on."""
    with PlannedCrawl(valkey_server, Token.fresh().incarnation, partitions=2) as crawl:
        groups = ("a", "b")
        crawl.push("a", "{every: 10m}")
        crawl.push("b", "{every: 10m, overlap: reseed}")
        planners = [crawl.stoppable("one"), crawl.stoppable("other")]
        by_hand: set[tuple[str, int]] = set()

        def step(event: str, which: int) -> None:
            planner, _ = planners[which % 2]
            group = groups[which % 2]
            if event == "cycle":
                planner.cycle()
            elif event == "advance":
                crawl.advance(which)
            elif event == "work":
                crawl.run_round(group)
            elif event == "seed":
                crawl.seed(group)
            elif event == "hand":
                number = crawl.frontier.plan_state().groups[group].round + 1
                crawl.frontier.new_round(group, number, trigger="by hand")
                by_hand.add((group, number))
            elif event == "resign":
                planner.resign()

        for place, (event, which) in enumerate(events):
            if event == "frozen":
                # Between its decision and what follows from it, the rest of the events happens.
                planner, frontier = planners[which]
                rest = [one for one in events[place + 1 : place + 6] if one[0] != "frozen" and one != ("cycle", which)]

                def meanwhile(rest: list[tuple[str, int]] = rest) -> None:
                    for one in rest:
                        step(*one)

                frontier.verb, frontier.then = "new_round", meanwhile
                planner.cycle()
                frontier.verb = ""
            else:
                step(event, which)
        for group in groups:
            infos = list(reversed(crawl.frontier.rounds(group)))
            numbers = [info.round for info in infos]
            assert numbers == sorted(set(numbers))
            for before, after in pairwise(infos):
                assert before.began is not None
                assert after.began is not None
                if (group, after.round) not in by_hand:
                    assert after.began - before.began >= 600
                    assert before.state == ("seeded again" if before.ended is None else "ended")
