"""Alerts of a crawl on a real server, with a real receiver: whoever leads, whatever the receiver and the clock do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.planned_crawl import LEAD, Interrupted, PlannedCrawl
from tests.support.site import Reply, Site

from gossamer.errors import DecodingError, FrontierUnavailable, PermissionDenied
from gossamer.model import Ending, GroupPolicy, LanePolicy, Selection, Token
from gossamer.model.reply import PAGES_FULL, REMOVED
from gossamer.planner.alerts import outbox
from gossamer.planner.alerts.message import AlertMessage
from gossamer.planner.alerts.overview import AlertOverview, alert_overview
from gossamer.planner.alerts.webhook import Webhook
from gossamer.planner.loop import Planner
from gossamer.planner.round_tasks import RoundTasks
from gossamer.sites.file.grant import Grant
from gossamer.testing.servers import Server

MINUTE = 60.0
HOOK = "/hook/SECRET"
QUICK = "every: 10s\ngather: 0s\nclear: 0s\nrules:\n  paused: {for: 0s}\n"


class Watched:
    """A crawl whose planners send alerts to a receiver."""

    def __init__(self, crawl: PlannedCrawl, site: Site) -> None:
        self.crawl, self.site, self.clock = crawl, site, [0.0]
        self.frontier, self.interrupted = crawl.frontier, dict[str, Interrupted]()

    def planner(self, name: str, seconds: float = 5.0) -> Planner:
        webhook = Webhook(f"{self.site.url}{HOOK}", "alertmanager", seconds)
        planner, self.interrupted[name] = self.crawl.stoppable(name, webhook, clock=lambda: self.clock[0])
        return planner

    def rules(self, text: str) -> None:
        self.frontier.put_document("alert", "rules", text)

    def go_on(self, planner: Planner, seconds: float, step: float = 15.0) -> None:
        """Let time pass, with a cycle after each step of it."""
        planner.cycle()
        while seconds > 0:
            self.crawl.advance(min(step, seconds))
            seconds -= step
            planner.cycle()

    def view(self) -> AlertOverview:
        return alert_overview(self.frontier)

    def delivered(self, planner: Planner, number: int = 1) -> list[dict[str, Any]]:
        """What the receiver got, once so many messages are delivered and none waits."""
        deadline = time.monotonic() + 30
        while True:
            planner.cycle()
            states = [message.state for message in self.view().messages]
            if states.count("delivered") >= number and "waiting" not in states:
                return self.posts()
            assert time.monotonic() < deadline, self.view().messages
            threading.Event().wait(0.02)

    def posts(self) -> list[dict[str, Any]]:
        return [json.loads(visit.body) for visit in list(self.site.visits)]

    def firing(self) -> list[tuple[str, str]]:
        return [(alert.rule, alert.subject) for alert in self.view().alerts if alert.state == "firing"]

    def waiting(self) -> list[AlertMessage]:
        return [message for message in self.view().messages if message.state == "waiting"]


@contextmanager
def watched(server: Server, name: str) -> Iterator[Watched]:
    with Site() as site, PlannedCrawl(server, name) as crawl:
        yield Watched(crawl, site)


def test_one_address_is_enough_to_hear_of_a_late_round_and_of_its_end(valkey_server: Server, crawl_name: str) -> None:
    with watched(valkey_server, crawl_name) as here:
        crawl, planner = here.crawl, here.planner("one")
        for name in "abcd":
            crawl.push(name, "{every: 1h, deadline: 5m}")
        here.frontier.define("d", {"page": LanePolicy()}, GroupPolicy(start=True, max_pages=1))
        for name in "abcd":
            crawl.seed(name, 9 if name == "d" else 1)
        crawl.fetch("c")
        crawl.fetch("d", end=False)
        assert here.frontier.plan_state().groups["d"].paused == PAGES_FULL
        here.go_on(planner, 4 * MINUTE)
        assert here.firing() == []
        here.go_on(planner, 2 * MINUTE)
        [told, other] = here.delivered(planner, 2)
        assert [post["groupLabels"]["alertname"] for post in (told, other)] == ["late_round", "no_workers"]
        assert (told["status"], told["commonLabels"]["severity"]) == ("firing", "warning")
        assert [alert["labels"]["site"] for alert in told["alerts"]] == ["a", "b"]
        assert "a: round 0 runs for 5 min; its deadline is 5 min" in told["text"]
        view = here.view()
        assert view.watched
        assert view.look is not None
        assert (view.look.leader, view.look.webhook) == ("one", f"{here.site.url}/***")
        assert [(x.rule, x.subject, x.state, x.sent) for x in view.alerts if x.rule == "late_round"] == [
            ("late_round", name, "firing", True) for name in "ab"
        ]
        crawl.fetch("a")
        here.go_on(planner, 6 * MINUTE)
        posts = here.delivered(planner, 4)
        late = [post for post in posts if post["groupLabels"]["alertname"] == "late_round"]
        assert [(post["status"], [x["labels"]["site"] for x in post["alerts"]]) for post in late] == [
            ("firing", ["a", "b"]), ("resolved", ["a"]),
        ]  # fmt: skip
        assert late[0]["alerts"][0]["fingerprint"] == late[1]["alerts"][0]["fingerprint"]
        assert len({post["id"] for post in posts}) == len(posts)


def test_without_an_address_and_rules_nothing_is_evaluated(
    valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(valkey_server, crawl_name) as here:
        planner, _ = here.crawl.stoppable("quiet")
        here.crawl.push("a", "{every: 1h}")
        here.frontier.pause(group="a")
        here.go_on(planner, 30)
        assert here.view().look is None
        here.rules(QUICK)
        here.go_on(planner, 30)
        assert here.firing() == [("paused", "a")]
        assert [message.state for message in here.view().messages] == ["kept"]
        # A planner of another version has led meanwhile, and written what this one cannot read.
        other = here.crawl.stoppable("other")[0]
        here.frontier.put_alert_entries({"states": b"\x91\x01"}, term=planner.term)
        with pytest.raises(DecodingError, match="a planner of another version leads"):
            here.view()
        planner.resign()
        here.go_on(other, 30)
        assert "cannot be read" in caplog.text
        assert here.firing() == [("paused", "a")]


def test_the_end_of_what_was_sent_is_sent_also_where_it_came_under_a_leader_without_a_webhook(
    valkey_server: Server, crawl_name: str
) -> None:
    """The receiver was never told, and the alert stayed open there."""
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one")
        here.rules(QUICK)
        here.crawl.push("a", "{every: 1h}")
        here.frontier.pause(group="a")
        here.go_on(planner, 30)
        here.delivered(planner)
        planner.resign()
        here.frontier.resume(group="a")
        quiet, _ = here.crawl.stoppable("quiet")
        here.go_on(quiet, 30)
        assert [message.status for message in here.waiting()] == ["resolved"]
        quiet.resign()
        posts = here.delivered(here.planner("two"), 2)
        assert [post["status"] for post in posts] == ["firing", "resolved"]


def test_what_a_leader_without_a_webhook_told_nobody_is_told_by_the_next(
    valkey_server: Server, crawl_name: str
) -> None:
    """It counted as sent, so the receiver heard nothing for a day."""
    with watched(valkey_server, crawl_name) as here:
        quiet, _ = here.crawl.stoppable("quiet")
        here.rules(QUICK)
        for name in ("a", "b"):
            here.crawl.push(name, "{every: 1h}")
            here.frontier.pause(group=name)
        here.go_on(quiet, 30)
        assert [(alert.subject, alert.message, alert.sent) for alert in here.view().alerts] == [
            ("a", "kept", False), ("b", "kept", False),
        ]  # fmt: skip
        here.frontier.resume(group="b")
        quiet.resign()
        here.site.hold(HOOK)
        planner = here.planner("one")
        here.go_on(planner, 30)
        assert [(alert.subject, alert.message) for alert in here.view().alerts if alert.state == "firing"] == [
            ("a", "waiting")
        ]
        here.site.release(HOOK)
        here.delivered(planner)
        here.go_on(planner, 60)
        [post] = here.posts()
        assert (post["status"], [one["labels"]["site"] for one in post["alerts"]]) == ("firing", ["a"])
        assert [(alert.message, alert.sent) for alert in here.view().alerts if alert.state == "firing"] == [
            ("delivered", True)
        ]


def test_a_leader_that_dies_between_decision_and_delivery(
    valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(valkey_server, crawl_name) as here:
        one, other = here.planner("one"), here.planner("other")
        here.crawl.push("a", "{every: 1h}")
        here.rules(QUICK)
        here.frontier.pause(group="a", reason="for a test")
        here.site.hold(HOOK)
        here.go_on(one, 0)
        here.site.reached(HOOK)
        [waiting] = here.waiting()
        assert not other.cycle().leader.granted
        # The receiver holds the message, and the leader is heard of no more.
        here.crawl.advance(LEAD + 1)
        assert other.cycle().leader.granted
        here.site.reached(HOOK, 2)
        here.site.release(HOOK)
        first, second = here.delivered(other)
        assert first["id"] == second["id"] == waiting.id, "a receiver recognises what it got twice"
        # The former leader wakes up: it changes and sends nothing.
        assert not one.cycle().leader.granted
        here.go_on(other, 30)
        assert len(here.posts()) == 2
        # Handed over in order, nothing is sent twice.
        other.resign()
        assert one.cycle().leader.granted
        here.frontier.resume(group="a")
        here.go_on(one, 30)
        assert [post["status"] for post in here.delivered(one, 2)[2:]] == ["resolved"]
        one.resign()
        here.go_on(other, 30)
        assert len(here.posts()) == 3
    assert "SECRET" not in caplog.text


def test_a_receiver_that_is_away_is_tried_again_and_keeps_nobody_waiting(
    valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one")
        here.site.on(HOOK, Reply(503, "try later", times=3), Reply(400, "bad", times=1), Reply(200, "ok"))
        here.crawl.push("a", "{every: 1h}")
        here.rules(QUICK)
        here.frontier.pause(group="a")
        here.go_on(planner, 30)
        for tries in (1, 2, 3):
            here.site.reached(HOOK, tries)
            deadline = time.monotonic() + 30
            while [message.tries for message in here.waiting()] != [tries]:
                planner.cycle()
                assert time.monotonic() < deadline
            planner.cycle()
            assert len(here.posts()) == tries, "it waits before it tries again"
            here.clock[0] += 2.0 ** (tries - 1)
            planner.cycle()
        assert "answered 503 (try later)" in caplog.text
        assert caplog.text.count("could not be delivered") == 1, "said once"
        here.site.reached(HOOK, 4)
        deadline = time.monotonic() + 30
        while here.waiting():
            planner.cycle()
            assert time.monotonic() < deadline
        assert [message.state for message in here.view().messages] == ["refused"]
        here.frontier.resume(group="a")
        here.go_on(planner, 30)
        posts = here.delivered(planner)
        assert [post["status"] for post in posts] == ["firing"] * 4 + ["resolved"]
        assert len({post["id"] for post in posts}) == 2
    assert "SECRET" not in caplog.text


def test_what_still_fires_is_told_when_the_receiver_is_back_however_many_messages_were_dropped(
    valkey_server: Server, crawl_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message was dropped, since others came after it, and it counted as sent: nobody heard of it for a day."""
    monkeypatch.setattr(outbox, "KEPT", 3)
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one", seconds=0.5)
        here.site.on(HOOK, Reply(503))
        here.rules("every: 10s\ngather: 0s\nclear: 0s\nrules:\n  paused: {for: 0s, cooldown: 0s}\n")
        for name in "ab":
            here.crawl.push(name, "{every: 1h}")
        here.frontier.pause(group="a", reason="first")
        here.go_on(planner, 30)
        for number in range(4):
            here.frontier.pause(group="b", reason=f"reason {number}")
            here.go_on(planner, 10)
            here.frontier.resume(group="b")
            here.go_on(planner, 10)
        here.frontier.pause(group="a", reason="last")
        here.go_on(planner, 10)
        [alert] = [one for one in here.view().alerts if one.state == "firing"]
        assert (alert.subject, alert.text) == ("a", "paused: last"), "as it is now"
        assert not alert.sent
        known = len(here.posts())
        here.site.on(HOOK, Reply(200))
        deadline = time.monotonic() + 30
        while here.waiting():
            here.clock[0] += 600
            planner.cycle()
            assert time.monotonic() < deadline
        told = [(x["status"], x["labels"]["site"]) for post in here.posts()[known:] for x in post["alerts"]]
        assert ("firing", "a") in told
        assert [one.sent for one in here.view().alerts if one.state == "firing"] == [True]


def test_a_site_that_was_removed_is_no_trouble_and_rules_are_read_after_the_server_was_away(
    valkey_server: Server, crawl_name: str
) -> None:
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one")
        here.crawl.push("a", "{every: 1h}")
        here.crawl.push("b", "{every: 1h}")
        here.crawl.seed("a")
        here.crawl.seed("b")
        here.frontier.pause(group="a", reason=REMOVED)
        here.frontier.pause(group="b")
        here.go_on(planner, 30)

        def away() -> None:
            raise FrontierUnavailable("the server is away")

        here.interrupted["one"].verb, here.interrupted["one"].then = "document", away
        here.rules(QUICK + "  late_round: {after: 20s, for: 0s}\n")
        with pytest.raises(FrontierUnavailable):
            planner.cycle()
        here.go_on(planner, 60)
        assert here.firing() == [("late_round", "b"), ("paused", "b")]


def test_a_pool_without_workers_and_a_crawl_that_is_paused_are_told(valkey_server: Server, crawl_name: str) -> None:
    """Other workers served the site, and no site was paused by itself, so nobody heard of it."""
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one")
        here.rules(QUICK + "  no_workers: {for: 0s}\n")
        here.crawl.push("a", "{every: 1h}")
        here.crawl.seed("a")
        here.crawl.push("gone", "{every: 1h}")
        here.frontier.define("gone", {"page": LanePolicy()}, GroupPolicy(tasks=("gone:tasks",)))
        here.frontier.pause(group="gone", reason=REMOVED)
        here.frontier.define("a", {"page": LanePolicy(stage="details")}, GroupPolicy(start=True))
        token = Token.fresh()

        def call(**more: str) -> None:
            nonlocal token
            token = token.next()
            here.frontier.exchange(token, info={"groups": "a", **more})

        call(stage="")
        here.go_on(planner, 20)
        assert [(one.rule, one.subject, one.text) for one in here.view().alerts] == [
            ("no_workers", "a", "1 page of page open, and no worker serves the stage details")
        ]
        here.frontier.pause(reason="maintenance")
        call(stage="details")
        here.go_on(planner, 15)
        assert [(x.rule, x.subject, x.text) for x in here.view().alerts if x.state == "firing"] == [
            ("paused", "a", "paused: the whole crawl: maintenance")
        ]


def test_rules_that_change_while_they_fire(
    valkey_server: Server, crawl_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with watched(valkey_server, crawl_name) as here:
        planner = here.planner("one")
        here.crawl.push("a", "{every: 1h}")
        here.crawl.push("b", "{every: 1h}")
        here.rules(QUICK)

        def refuse() -> None:
            raise PermissionDenied("this user may not look at workers")

        # Nothing is known of lost workers, and the other rules are evaluated.
        here.interrupted["one"].verb, here.interrupted["one"].then = "silent_workers", refuse
        here.frontier.put_document(
            "alert", "silences", json.dumps([{"rule": "pau*", "subject": "b", "until": 9e9, "who": "me"}])
        )
        for name in "ab":
            here.frontier.pause(group=name)
        here.go_on(planner, 30)
        [told] = here.delivered(planner)
        assert [alert["labels"]["site"] for alert in told["alerts"]] == ["a"]
        assert here.firing() == [("paused", "a"), ("paused", "b")], "a silenced one fires too"
        assert (
            caplog.text.count(
                "Some alerts cannot be evaluated, and stay as they are: this user may not look at workers"
            )
            == 1
        )
        here.rules("rules: {paused: {fro: 1}}")
        here.go_on(planner, 30)
        assert "cannot be used; those before count: rules.yaml:1:18: rules.paused.fro: unknown key fro" in caplog.text
        assert here.firing() == [("paused", "a"), ("paused", "b")]
        here.rules(QUICK.replace("{for: 0s}", "{active: false}"))
        here.go_on(planner, 30)
        told = here.delivered(planner, 2)[-1]
        assert (told["status"], told["alerts"][0]["annotations"]["summary"]) == (
            "resolved",
            "a: the rule was removed or changed",
        )
        assert "paused" not in [alert.rule for alert in here.view().alerts]


def test_a_clock_that_jumps_and_workers_that_seem_silent_then(valkey_server: Server, crawl_name: str) -> None:
    with watched(valkey_server, crawl_name) as here:
        planner, token = here.planner("one"), Token.fresh()
        here.crawl.push("a", "{every: 1d}")
        here.rules("every: 10s\ngather: 0s\nrules:\n  paused: {for: 10m}\n")

        def call() -> None:
            nonlocal token
            token = token.next()
            here.frontier.exchange(token, selection=Selection(("a",)), info={"name": "w1", "groups": "a"})

        call()
        here.frontier.pause(group="a")
        here.go_on(planner, 30)
        here.crawl.advance(3600)
        planner.cycle()
        assert here.firing() == [], "neither has the worker fallen silent, nor was the site paused for an hour"
        for _ in range(8):
            call()
            here.go_on(planner, 10)
        assert here.firing() == []
        here.go_on(planner, 90)
        assert here.firing() == [("worker_lost", "w1")]
        call()
        here.go_on(planner, 8 * MINUTE)
        assert ("paused", "a") in here.firing()


def test_a_server_that_went_back_has_nothing_told_twice(crawl_name: str) -> None:
    with Server().start() as server, watched(server, crawl_name) as here:
        planner = here.planner("one")
        here.crawl.push("a", "{every: 1h}")
        here.rules(QUICK)
        here.frontier.pause(group="a")
        planner.cycle()
        here.frontier.resume(group="a")
        here.go_on(planner, 30)
        server.call("SAVE")
        here.frontier.pause(group="a")
        here.go_on(planner, 30)
        before = len(here.delivered(planner))
        server.kill()
        server.restart()
        here.frontier.pause(group="a")
        here.go_on(planner, 60)
        assert len(here.posts()) == before, "the leader knows what it told"
        assert here.firing() == [("paused", "a")]
        other = here.planner("other")
        planner.resign()
        here.go_on(other, 60)
        assert len(here.posts()) == before, "and so does the next"


def test_rules_that_are_pushed_to_a_server_that_went_back_count(crawl_name: str) -> None:
    """Those that it has lost had the same version."""
    with Server().start() as server, watched(server, crawl_name) as here:
        planner = here.planner("one")
        here.crawl.push("a", "{every: 1h}")
        here.go_on(planner, 30)
        server.call("SAVE")
        here.rules(QUICK.replace("for: 0s", "for: 10h"))
        here.go_on(planner, 30)
        server.kill()
        server.restart()
        here.rules(QUICK)
        here.frontier.pause(group="a")
        here.go_on(planner, 60)
        assert here.firing() == [("paused", "a")]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["cycle", "frozen", "resign"]), st.integers(0, 1)),
        st.tuples(st.just("advance"), st.sampled_from([1, 5, 11, 30, 120])),
        st.tuples(st.sampled_from(["pause", "resume"]), st.integers(0, 1)),
    ),
    max_size=20,
)


@given(EVENTS)
@example(
    [
        ("cycle", 0),
        ("pause", 0),
        ("advance", 11),
        ("frozen", 0),
        ("advance", 5),
        ("cycle", 1),
        ("advance", 11),
        ("cycle", 1),
    ]
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whoever_leads_and_whenever_it_is_stopped_each_is_told_once(
    valkey_server: Server, events: list[tuple[str, int]]
) -> None:
    """Two planners, of which the leader is stopped before it writes what it has decided; sites that are paused and go on."""
    groups = "ab"
    with PlannedCrawl(valkey_server, Token.fresh().incarnation, partitions=2) as crawl:
        for name in groups:
            crawl.push(name, "{every: 1d}")
        rules = QUICK + "  no_workers: {active: false}\n"
        crawl.frontier.put_document("alert", "rules", rules.replace("gather: 0s", "gather: 0s\ncooldown: 40s"))
        planners = [crawl.stoppable("one"), crawl.stoppable("other")]
        decided: dict[str, AlertMessage] = {}

        def step(event: str, which: int) -> None:
            if event == "cycle":
                planners[which][0].cycle()
            elif event == "resign":
                planners[which][0].resign()
            elif event == "advance":
                crawl.advance(which)
            elif event == "pause":
                crawl.frontier.pause(group=groups[which])
            elif event == "resume":
                crawl.frontier.resume(group=groups[which])
            look()

        def look() -> None:
            decided.update((message.id, message) for message in alert_overview(crawl.frontier).messages)

        for place, (event, which) in enumerate(events):
            if event == "frozen":
                planner, frontier = planners[which]
                rest = [one for one in events[place + 1 : place + 6] if one[0] != "frozen" and one != ("cycle", which)]

                def meanwhile(rest: list[tuple[str, int]] = rest) -> None:
                    for one in rest:
                        step(*one)

                frontier.verb, frontier.then = "put_alert_entries", meanwhile
                planner.cycle()
                frontier.verb = ""
                look()
            else:
                step(event, which)
        # In the end a is paused and b is not, and one of them looks for long enough.
        step("pause", 0)
        step("resume", 1)
        for number in range(12):
            step("cycle", number % 2)
            crawl.advance(11)
        for name in groups:
            told = [
                (message.at, any(row.subject == name for row in message.firing))
                for message in sorted(decided.values(), key=lambda message: message.at)
                if any(row.subject == name for row in (*message.firing, *message.resolved))
            ]
            assert [fires for _, fires in told] == [place % 2 == 0 for place in range(len(told))]
            fired = [at for at, fires in told if fires]
            assert all(later - at >= 40 for at, later in pairwise(fired))
            assert bool(told and told[-1][1]) == (name == "a"), "what fires in the end, and only that, is told last"


def test_a_site_that_is_down_and_a_round_that_cannot_begin_are_told(valkey_server: Server, crawl_name: str) -> None:
    with watched(valkey_server, crawl_name) as here:
        crawl, planner = here.crawl, here.planner("one")
        here.rules(
            "every: 10s\ngather: 0s\nclear: 0s\nrules:\n  held_round: {for: 1m}\n  no_workers: {active: false}\n"
        )
        crawl.push("down", "{every: 10m}")
        crawl.seed("down", 3)
        crawl.fetch("down", ending=Ending.FAILED)
        here.go_on(planner, MINUTE)
        assert here.firing() == [("failed_round", "down")]
        assert [alert.text for alert in here.view().alerts] == ["all 3 pages of round 0 failed"]
        here.go_on(planner, 10 * MINUTE)
        assert here.frontier.rounds("down", 1)[0].round == 1
        assert here.firing() == [("failed_round", "down")], "the next round runs: nothing is known yet"
        crawl.run_round("down")
        here.go_on(planner, MINUTE)
        assert here.firing() == []
        here.frontier.round_note("down", 1, {"obstacle": "tasks.csv: No such file"})
        here.go_on(planner, MINUTE)
        assert here.firing() == [], "nothing is due"
        plan = "spider: fed\nschedule: {every: 1d}\ntasks: {key: k, csv: tasks.csv}\n"
        here.frontier.put_document("spider", "fed", plan)
        here.frontier.define("fed", {"page": LanePolicy()}, GroupPolicy(start=True))
        crawl.seed("fed")
        planner._tasks = RoundTasks(here.frontier, Grant())
        here.go_on(planner, 2 * MINUTE)
        assert here.firing() == [("held_round", "fed")]
        assert "this planner may not read it" in here.view().alerts[-1].text
