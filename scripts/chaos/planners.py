"""Twenty sites, two planners, three workers: leaders are killed and stopped, files pushed, the server goes back. Then the books are checked.

    python scripts/chaos/planners.py [--runs 3] [--quick]

What the sites recorded must be what was planned: every round begun once and in time, and every page of it fetched once. Two leaders are
killed with SIGKILL, one has a clock that is an hour ahead, and that one is stopped for a minute. Meanwhile intervals change, layers get other
names, a site comes and one goes, and one gets a file that a worker may not use. At last the server loses the last seconds of its state.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, count
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.crawls.project import ROOT, Launch, launched
from scripts.chaos import plan_audit
from scripts.chaos.clock_ahead import AHEAD
from scripts.chaos.plan_audit import Begun, Fetch, Planned
from tests.support.site import Reply, Site

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import Process, end, is_stopped, wait_until
from gossamer.testing.servers import Server

SITES, PAGES, PATIENCE = 20, 3, 120.0
FORUMS = range(12, 18)
"""Sites whose lists are seeded again while their posts are fetched, each post once."""
ADDED, REMOVED, SLOWER = "s18", "s19", ("s0", "s1")
RENAMED = ("s2", "s12")
"""Sites whose layer of pages gets another name: what waits in the old one goes over."""
UPDATED, MOST = "s3", 10_000
"""A site whose new file one of the workers may not use: that one serves it as before. Only the new file has this limit of pages."""
OVERLAPS = ("queue", "skip", "replace", "queue")


class Pace(NamedTuple):
    """How long things take, in seconds. `act`: between two troubles; `stop`: for which a leader is stopped."""

    every: float
    act: float
    stop: float
    cycle: float
    lead: float
    lease: float

    @property
    def slack(self) -> float:
        """By which a round may be late: the next leader takes over, and looks; on a machine that is busy."""
        return self.lead + 2 * self.cycle + 3.0


LONG = Pace(every=10.0, act=15.0, stop=60.0, cycle=1.0, lead=4.0, lease=30.0)
QUICK = Pace(every=1.5, act=0.6, stop=1.2, cycle=0.1, lead=0.8, lease=10.0)


class Told(NamedTuple):
    """What a run came to."""

    rounds: int
    fetched: int
    late: float
    latest: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.fetched} pages, late by {self.late:.2f} s (median) and {self.latest:.2f} s at most; "
            f"{self.seconds:.0f} s"
        )


class Scenario:
    """Everything that a run needs, started and ended together."""

    def __init__(self, server: Server, crawl: str, pace: Pace, launch: Launch = launched) -> None:
        self.server, self.pace, self._launch = server, pace, launch
        self.folder = Path(tempfile.mkdtemp(prefix="gossamer-"))
        self._stack = ExitStack()
        self.processes: dict[str, Process] = {}
        self._numbers = count(1)
        self.plans: dict[str, Planned] = {}
        self.environ = {
            "GOSSAMER_URL": server.url,
            "GOSSAMER_CRAWL": crawl,
            "GOSSAMER_PARTITIONS": "2",
            "GOSSAMER_DATA_DIR": str(self.folder),
            # Pages that were in progress in the state to which the server goes back are owed for so long.
            "GOSSAMER_LEASE_SECONDS": str(pace.lease),
            "GOSSAMER_PLAN_CYCLE_SECONDS": str(pace.cycle),
            "GOSSAMER_PLAN_LEAD_SECONDS": str(pace.lead),
            "SITE_TEST": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        self.posts = dict.fromkeys((f"s{number}" for number in FORUMS), 0)
        self.renamed: set[str] = set()
        self.sites: dict[str, Site] = {}

    def __enter__(self) -> Self:
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self.sites = {f"s{number}": self._stack.enter_context(Site()) for number in range(SITES)}
            self._stack.callback(self._end)
            self.frontier = self._stack.enter_context(ValkeyFrontier.open(load(self.environ, environ={})))
            for name, site in self.sites.items():
                if name in self.posts:
                    self.post(name, 2)
                else:
                    links = "".join(f"<a href=/p/{page}>{page}</a>" for page in range(PAGES))
                    site.on("/list", Reply(body=f"<html><title>{name}</title>{links}</html>"))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _end(self) -> None:
        for child in self.processes.values():
            end(child)

    def post(self, name: str, more: int = 1) -> None:
        """New posts in a forum; its list shows the last ones."""
        self.posts[name] += more
        last = range(max(0, self.posts[name] - 30), self.posts[name])
        links = "".join(f"<a href=/post/{post}>{post}</a>" for post in last)
        self.sites[name].on("/list", Reply(body=f"<html><title>{name}</title>{links}</html>"))

    def push(self, name: str, every: float, more: str = "") -> None:
        """Push a site's file, with `more` at its end. From now on it is planned so."""
        forum, site = name in self.posts, self.sites[name]
        overlap = "reseed" if forum else OVERLAPS[int(name[1:]) % len(OVERLAPS)]
        layer = "text" if name in self.renamed else "page"
        # Seeds that a memory of all rounds would know are known by the round alone.
        seen = "" if not forum and int(name[1:]) % 3 == 0 else "seen: round, "
        self.frontier.put_document(
            "site",
            name,
            f"site: {name}\nseeds: ['{site.url}/list']\nschedule: {{every: {every:g}s, overlap: {overlap}}}\n"
            "politeness: {robots: ignore, delay: 0s}\nlayers:\n"
            f"  list: {{match: '^/list', {seen}follow: [{{css: a, to: {layer}}}]}}\n"
            f"  {layer}: {{match: '^/p', {'' if forum else 'seen: round, '}fields: {{title: title}}}}\n"
            f"{more}",
        )
        before = self.plans[name].every if name in self.plans else ()
        paths = ["/list", *([] if forum else [f"/p/{page}" for page in range(PAGES)])]
        self.plans[name] = Planned(
            [*before, (self.now, every)],
            paths,
            reseeds=forum,
            skips=overlap == "skip",
            replaces=overlap == "replace",
        )

    @property
    def now(self) -> float:
        return time.time()

    def start(self, *words: str, ahead: bool = False, **given: str) -> str:
        """One more process; its name. A planner may have a clock that is an hour ahead. `given` are settings."""
        name = f"{words[0]}{next(self._numbers)}"
        words = (*words, "--name", name) if words[0] == "plan" else words
        log = self.folder / f"{name}.log"
        if ahead:
            self.processes[name] = launched(["scripts.chaos.clock_ahead", *words], self.environ, self.folder, log)
        else:
            self.processes[name] = self._launch(["gossamer", *words], {**self.environ, **given}, self.folder, log)
        return name

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def until(self, condition: Callable[[], Any], what: str) -> None:
        def holds() -> bool:
            ended = [name for name, child in self.processes.items() if child.poll() is not None]
            assert not ended, f"{ended} ended while {what}: {self.log(ended[0])[-4000:]}"
            return bool(condition())

        wait_until(holds, what, PATIENCE)

    @property
    def leader(self) -> str:
        leader = self.frontier.plan_state().leader
        return leader.name if leader.present else ""

    @property
    def leased(self) -> int:
        return sum(group.leased for group in self.frontier.plan_state().groups.values())

    def leads(self, name: str) -> None:
        self.until(lambda: self.leader == name, f"{name} leads")

    def kill(self, name: str) -> None:
        """SIGKILL."""
        child = self.processes.pop(name)
        child.kill()
        child.wait()

    def live(self, seconds: float) -> None:
        """So much time goes by, and people post."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            for name in self.posts:
                self.post(name)
            time.sleep(min(left, self.pace.every / 2))

    def begun(self) -> dict[str, list[Begun]]:
        """The rounds of all sites as the crawl has logged them, the oldest first."""
        known = self.frontier.plan_state().groups
        return {
            name: [
                Begun(info.round, info.began, info.ended, info.state == "cut short")
                for info in reversed(self.frontier.rounds(name, 1000))
                if info.began is not None
            ]
            for name in self.plans
            if name in known
        }

    def goes_on(self, since: float) -> bool:
        """Whether every site has begun at least two rounds since then; people post meanwhile."""
        self.live(self.pace.every / 2)
        return all(sum(one.began > since for one in log) >= 2 for name, log in self.begun().items() if name != REMOVED)

    def fetched(self, until: float = float("inf")) -> dict[str, list[Fetch]]:
        offset = time.time() - time.monotonic()
        return {
            name: [Fetch(visit.time + offset, visit.path) for visit in site.visits if visit.time + offset < until]
            for name, site in self.sites.items()
        }


def run(s: Scenario) -> Told:
    """AssertionError with everything that is wrong."""
    began, pace = time.monotonic(), s.pace
    for name in s.sites:
        if name != ADDED:
            s.push(name, pace.every)
    for _ in range(2):
        s.start("work")
    behind = s.start("work", GOSSAMER_SITE_VARIABLES="NONE")
    first = s.start("plan")
    s.until(lambda: all(site.visits for name, site in s.sites.items() if name != ADDED), "every site is crawled")
    s.leads(first)
    second = s.start("plan")
    s.until(lambda: "waits" in s.log(second), "the second planner waits")
    s.live(pace.act)
    s.kill(first)
    s.leads(second)
    third = s.start("plan", ahead=True)
    for name in SLOWER:
        s.push(name, 2 * pace.every)
    s.renamed.update(RENAMED)
    for name in (ADDED, *RENAMED):
        s.push(name, pace.every)
    s.push(UPDATED, pace.every, f"request: {{headers: {{X-Test: '${{SITE_TEST}}'}}}}\nlimits: {{pages: {MOST}}}\n")
    s.frontier.drop_document("site", REMOVED)
    removed_at = s.now
    s.until(lambda: "waits" in s.log(third), "the planner whose clock is ahead waits")
    s.until(lambda: f"file {UPDATED} cannot be used" in s.log(behind), "a worker is behind the newest file")
    s.live(pace.act)
    s.kill(second)
    s.leads(third)
    fourth = s.start("plan")
    s.until(lambda: "waits" in s.log(fourth), "the fourth planner waits")
    s.live(pace.act)
    assert s.leader == third
    s.processes[third].send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(s.processes[third].pid), "the leader to stop on SIGSTOP")
    s.leads(fourth)
    s.live(pace.stop)
    s.processes[third].send_signal(signal.SIGCONT)
    s.until(lambda: f"({third}) does not lead any more: its term" in s.log(third), "it knows that it does not lead")
    s.live(pace.act)
    # The server loses what it was told after this. Best while no page is in progress: it would wait for its worker to be gone.
    with suppress(TimeoutError):
        wait_until(lambda: not s.leased, "no page is in progress", 2.0, pause=0.01)
    s.server.call("SAVE")
    s.live(1.5 * pace.every)
    before, killed_at, logs = s.begun(), s.now, [s.log(name) for name in (first, second, third, fourth)]
    s.server.kill()
    s.server.restart()
    back_at = s.now
    s.until(lambda: s.goes_on(back_at), "every site has begun two rounds since the server went back")
    after, fetched = s.begun(), s.fetched()
    wrong = check(s, before, killed_at, removed_at) + check_after(s, after, fetched, killed_at, back_at)
    wrong += clocks(s.log(third)) + twice(logs)
    if (most := s.frontier.counts(UPDATED).group_policies[UPDATED]["max_pages"]) != MOST:
        wrong.append(f"{UPDATED}: the limit of pages is {most}, as an older file says, and not {MOST}")
    assert not wrong, "\n".join(wrong)
    late = plan_audit.lateness(s.plans, {name: log for name, log in before.items() if name != REMOVED})
    return Told(
        sum(map(len, before.values())),
        sum(map(len, fetched.values())),
        median(late),
        late[-1],
        time.monotonic() - began,
    )


def check(s: Scenario, before: Mapping[str, Sequence[Begun]], killed_at: float, removed_at: float) -> list[str]:
    """What is wrong until the server went back."""
    fetched, wrong = s.fetched(killed_at), []
    for name, plan in s.plans.items():
        # The last posts may not be fetched yet.
        once = sorted({one.path for one in fetched[name] if one.path.startswith("/post/")})
        listed = {f"/post/{post}" for post in range(s.posts.get(name, 0))}
        plan = plan._replace(once=once)
        if not set(once) <= listed:
            wrong.append(f"{name}: {set(once) - listed} were fetched, which are no posts")
        begun = before[name]
        if name == REMOVED:
            if [one for one in begun if one.began > removed_at + s.pace.slack]:
                wrong.append(f"{name} was removed, and began a round after that")
            begun = [one for one in begun if one.began <= removed_at]
            wrong += plan_audit.rounds(name, plan, begun, s.pace.slack)
            continue
        wrong += plan_audit.rounds(name, plan, begun, s.pace.slack)
        wrong += plan_audit.fetches(name, plan, begun, fetched[name])
        if killed_at - begun[-1].began > 2 * plan.interval(killed_at) + s.pace.slack:
            wrong.append(f"{name} has begun no round for {killed_at - begun[-1].began:.1f} s")
    return wrong


def check_after(
    s: Scenario,
    after: Mapping[str, Sequence[Begun]],
    fetched: Mapping[str, Sequence[Fetch]],
    killed_at: float,
    back_at: float,
) -> list[str]:
    """What is wrong after the server went back: rounds that it has forgotten begin again, once, and go on as planned."""
    wrong = []
    for name, plan in s.plans.items():
        if name == REMOVED:
            continue
        numbers = [one.number for one in after[name]]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            wrong.append(f"{name}: after the server went back the rounds are {numbers}")
        begun = [one for one in after[name] if one.began > back_at]
        if not begun:
            wrong.append(f"{name} has begun no round since the server went back")
            continue
        wrong += plan_audit.rounds(name, plan, [one._replace(number=n) for n, one in enumerate(begun)], s.pace.slack)
        if not plan.reseeds:
            since = [one for one in fetched[name] if one.at > begun[0].began]
            wrong += plan_audit.fetches(name, plan, begun, since)
    return wrong


def clocks(log: str) -> list[str]:
    """What is wrong with the clock of the planner that should have been ahead: the times of its log tell."""
    found = re.search(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", log, re.MULTILINE)
    if found is None:
        return ["the planner whose clock is ahead has logged nothing"]
    ahead = time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) - time.time()
    return [] if ahead > AHEAD - 600 else [f"the clock of the planner is {ahead:.0f} s ahead, not an hour"]


def twice(logs: Sequence[str]) -> list[str]:
    """Rounds that planners say they have begun more than once."""
    line = re.compile(r" (Round \d+ of \w+) begins", re.MULTILINE)
    said = Counter(chain.from_iterable(map(line.findall, logs)))
    return [f"{what} was begun {times} times" for what, times in said.items() if times > 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a run of seconds instead of minutes, as in the tests")
    given = parser.parse_args()
    for number in range(given.runs):
        pace = QUICK if given.quick else LONG
        with Server("valkey").start() as server, Scenario(server, f"plan{number}", pace) as scenario:
            print(f"run {number + 1}: {run(scenario)}", flush=True)


if __name__ == "__main__":
    main()
