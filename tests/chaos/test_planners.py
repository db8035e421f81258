"""Twenty sites, leaders that are killed and stopped, files that change, a server that goes back: the sites recorded what was planned. And
the audit would notice if they had not."""

from __future__ import annotations

import pytest
from scripts.chaos.plan_audit import Begun, Fetch, Planned, fetches, lateness, rounds
from scripts.chaos.planners import QUICK, Scenario, run, twice
from tests.support.workers.forked import forked

from gossamer.testing.servers import Server

PLAN = Planned([(0.0, 10.0), (35.0, 20.0)], ["/list", "/p/1"])
BEGUN = [Begun(0, 0.0, 1.0), Begun(1, 10.5, 12.0), Begun(2, 21.0, 22.0), Begun(3, 31.0, 33.0), Begun(4, 51.5, None)]
FETCHED = [Fetch(one.began + 0.1, path) for one in BEGUN for path in PLAN.paths]


@pytest.mark.timeout(300)
def test_what_sites_recorded_is_what_was_planned(crawl_name: str) -> None:
    with Server("valkey").start() as server, Scenario(server, crawl_name, QUICK, forked) as scenario:
        told = run(scenario)
    assert told.rounds >= 3 * 20
    assert told.latest < QUICK.slack


def test_an_honest_run_is_accepted() -> None:
    assert [*rounds("s", PLAN, BEGUN, 1.0), *fetches("s", PLAN, BEGUN, FETCHED)] == []
    assert lateness({"s": PLAN}, {"s": BEGUN}) == [0.0, 0.5, 0.5, 10.5], "a file that was pushed put one off"
    assert list(fetches("s", PLAN, BEGUN, FETCHED[:-1])) == [], "the last round may go on"
    again = Planned(PLAN.every, ["/list"], reseeds=True, once=["/p/1"])
    assert list(fetches("s", again, BEGUN, [one for one in FETCHED if one.path == "/list"] + FETCHED[1:2])) == []


def test_a_round_that_is_replaced_may_lack_pages_and_no_other() -> None:
    cut = [*BEGUN[:2], BEGUN[2]._replace(ended=None, cut=True), *BEGUN[3:]]
    late = [one for one in FETCHED if one != (21.1, "/p/1")] + [Fetch(31.0, "/p/1")]
    assert "s: round 2 was cut short" in rounds("s", PLAN, cut, 1.0)
    replaces = PLAN._replace(replaces=True)
    assert [*rounds("s", replaces, cut, 1.0), *fetches("s", replaces, cut, late)] == []
    assert any(
        "/p/1 was fetched 3 times in round 3" in wrong for wrong in fetches("s", replaces, cut, [*late, late[-1]])
    )
    lacking = [one for one in FETCHED if one != (10.6, "/p/1")]
    assert any("/p/1 was fetched 0 times in round 1" in wrong for wrong in fetches("s", replaces, cut, lacking))


@pytest.mark.parametrize(
    ("begun", "says"),
    [
        ([*BEGUN[:2], *BEGUN[3:]], "the rounds are"),
        ([*BEGUN[:2], Begun(2, 13.0, 14.0), *BEGUN[3:]], "round 2 began 2.50 s after"),
        ([*BEGUN[:2], Begun(2, 25.0, 26.0), Begun(3, 36.0, 37.0)], "round 2 began 4.50 s late"),
    ],
)
def test_a_round_that_is_lost_too_early_or_late_is_noticed(begun: list[Begun], says: str) -> None:
    assert any(says in wrong for wrong in rounds("s", PLAN, begun, 1.0))


@pytest.mark.parametrize(
    ("fetched", "says"),
    [
        ([*FETCHED, Fetch(14.0, "/p/1")], "/p/1 was fetched 2 times in round 1"),
        (FETCHED[1:], "/list was fetched 0 times in round 0"),
        ([*FETCHED, Fetch(14.0, "/other")], "['/other'] should not have been fetched"),
    ],
)
def test_a_page_too_many_or_too_few_is_noticed(fetched: list[Fetch], says: str) -> None:
    assert any(says in wrong for wrong in fetches("s", PLAN, BEGUN, fetched))
    again = Planned(PLAN.every, ["/list"], reseeds=True, once=["/p/1"])
    assert any("/p/1 was fetched" in wrong for wrong in fetches("s", again, BEGUN, FETCHED))
    assert any("/list was fetched 3 times in 5" in wrong for wrong in fetches("s", again, BEGUN, FETCHED[:6]))
    assert twice([" Round 3 of s0 begins: due.", " Round 3 of s0 begins: due."]) == ["Round 3 of s0 was begun 2 times"]
