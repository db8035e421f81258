"""Kill the server under load, again and again, and check what it remembers: `make chaos`.

Client processes add requests, lease them and settle pages with children and items, and write down what was acknowledged.
The server is killed (SIGKILL) at a random moment and started again on the same files. With `always` nothing acknowledged may
be missing. With `everysec` the end of the append-only file is cut off at a random byte before the restart, as a power cut
would do; then the state must be one that the server went through: for each client the calls that survived are the first ones,
and every request is queued, delayed, leased, dead or settled exactly once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.auditor.audit import audit
from tests.support.auditor.state import PartitionPicture

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Ending, HostPolicy, LanePolicy, Lease, Request, Selection, Settlement, Token, fingerprint
from gossamer.settings import load
from gossamer.testing.process import end, spawn, wait_until
from gossamer.testing.servers import Server

Mode = Literal["always", "everysec"]

CRAWL, WORK, KEPT = "chaos", "forum.work", "forum.kept"
LEASE_SECONDS = 36_000.0
CUT_MAX = 65_536
BLOCKED = "blocked.example"


def open_frontier(url: str) -> ValkeyFrontier:
    given = {
        "GOSSAMER_URL": url,
        "GOSSAMER_CRAWL": CRAWL,
        "GOSSAMER_LEASE_SECONDS": LEASE_SECONDS,
        "GOSSAMER_OUTAGE_SECONDS": 120,
    }
    return ValkeyFrontier.open(load(given, environ={}), host=HostPolicy(concurrency=0))


# What a page leads to follows from its fingerprint alone, so that everybody can tell what must be there.


def children_of(page: int) -> list[int]:
    return [fingerprint(f"{page}/child")] if page % 2 == 0 else []


def ending_of(page: int) -> Ending:
    return {0: Ending.FAILED, 1: Ending.RETRY}.get(page % 10, Ending.DONE)


def request(number: int) -> Request:
    return Request(number, f"host{number % 5}.example", WORK, b"%d" % number)


def settlement(lease: Lease) -> Settlement:
    page = lease.fingerprint
    ending = ending_of(page)
    items = [b"%d" % page] if ending is Ending.DONE else []
    children = [request(child) for child in children_of(page)]
    return Settlement(lease, ending, children, items, delay=LEASE_SECONDS if ending is Ending.RETRY else 0.0)


def client(url: str, name: str, log: Path) -> None:
    """Work until killed. One line per call: what is about to be tried, then what was acknowledged."""
    frontier = open_frontier(url)
    token, held, number = Token.fresh(), list[Lease](), 0
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(what: str, **values: list[int]) -> None:
        os.write(output, json.dumps({"what": what, **values}).encode() + b"\n")

    while True:
        fresh = [fingerprint(f"{name}/{number + place}") for place in range(4)]
        number += len(fresh)
        # Some again, which must stay duplicates whatever happens.
        requests = [request(one) for one in (*fresh, *fresh[:1])]
        tell("try", added=fresh)
        outcomes, _, _ = frontier.add(requests)
        assert [one.name for one in outcomes] == ["ADDED"] * 4 + ["DUPLICATE"], outcomes
        tell("done", added=fresh)
        settle = [settlement(lease) for lease in held]
        tell("try", added=[child for lease in held for child in children_of(lease.fingerprint)])
        answer = frontier.exchange(token, settle=settle, want=8, selection=Selection(lanes=(WORK,)))
        token = token.next()
        settled = [
            one.lease.fingerprint for one, how in zip(settle, answer.settled, strict=True) if how.name == "SETTLED"
        ]
        held = answer.leases
        tell(
            "done",
            added=[child for page in settled for child in children_of(page)],
            settled=settled,
            leased=[lease.fingerprint for lease in held],
        )


@dataclass
class Told:
    """What one client wrote down, as far as it was read."""

    log: Path
    tried: set[int] = field(default_factory=set)
    acknowledged: list[dict[str, list[int]]] = field(default_factory=list)
    read: int = 0

    def catch_up(self) -> list[dict[str, list[int]]]:
        """Acknowledgements since the last time."""
        if not self.log.exists():
            return []
        text = self.log.read_bytes()[self.read :]
        whole = text[: text.rfind(b"\n") + 1]
        self.read += len(whole)
        news = []
        for line in whole.splitlines():
            row = json.loads(line)
            self.tried.update(row["added"])
            # A call that was told nothing leaves nothing to look for.
            if row["what"] == "done" and any(row.get(name) for name in ("added", "settled", "leased")):
                news.append(row)
        self.acknowledged += news
        return news


@dataclass
class Result:
    """What a campaign saw. `undone` counts acknowledged calls that a cut took back (never with `always`)."""

    mode: str
    rounds: int = 0
    calls: int = 0
    added: int = 0
    settled: int = 0
    undone: int = 0
    cut_bytes: int = 0
    requests: int = 0

    def __str__(self) -> str:
        return (
            f"{self.mode}: {self.rounds} kills, {self.calls} calls acknowledged, {self.added} requests added, "
            f"{self.settled} pages settled, {self.undone} calls undone by {self.cut_bytes} bytes cut off; "
            f"{self.requests} requests known at the end, each in exactly one place"
        )


class Campaign:
    """One server, some clients, and kills."""

    def __init__(self, mode: Mode, clients: int, seed: int) -> None:
        self.mode, self.choice = mode, random.Random(seed)
        self.result = Result(mode)
        self.server = Server("valkey").start(fsync=mode)
        self.frontier = open_frontier(self.server.url)
        self.frontier.define("forum", {"work": LanePolicy(), "kept": LanePolicy()})
        self.told = [Told(self.server.directory / f"client{number}.log") for number in range(clients)]
        self.clients: list[subprocess.Popen[bytes]] = []
        self.cut: set[int] = set()
        self.token = Token.fresh()
        # Leased, blocked and set before the first kill, and looked for after each.
        kept = [Request(number, "kept.example", KEPT, b"kept") for number in range(3)]
        self.frontier.add(kept)
        self.kept = self.frontier.exchange(self.token, want=3, selection=Selection(lanes=(KEPT,))).leases
        self.blocked_until = self.frontier.block(BLOCKED, LEASE_SECONDS, "chaos")
        self.frontier.set_host("own.example", HostPolicy(delay=7))
        self.safe = self.log_size()

    def log_file(self) -> Path:
        folder = self.server.directory / "appendonlydir"
        manifest = (folder / "appendonly.aof.manifest").read_text().splitlines()
        return folder / next(line.split()[1] for line in reversed(manifest) if line.endswith("type i"))

    def log_size(self) -> tuple[str, int]:
        path = self.log_file()
        return path.name, path.stat().st_size

    @contextmanager
    def load(self) -> Iterator[None]:
        script = str(Path(__file__).resolve())
        try:
            for number, told in enumerate(self.told):
                command = [sys.executable, script, "--client", self.server.url, str(number), str(told.log)]
                self.clients.append(
                    spawn(command, self.server.directory, self.server.directory / f"client{number}.err")
                )
            wait_until(lambda: all(told.log.exists() for told in self.told), "the clients to begin", 60)
            yield
        finally:
            for process in self.clients:
                end(process)

    def close(self) -> None:
        self.frontier.close()
        self.server.close()

    def signal(self, number: signal.Signals) -> None:
        for process, told in zip(self.clients, self.told, strict=True):
            errors = told.log.with_suffix(".err").read_text(errors="replace")
            assert process.poll() is None, f"a client ended: {errors[-2000:]}"
            process.send_signal(number)

    def round(self) -> None:
        self.signal(signal.SIGCONT)
        began = [told.read for told in self.told]
        # Under load: every client has had answers since the last restart.
        wait_until(
            lambda: all(
                told.log.stat().st_size > start + 2000 for told, start in zip(self.told, began, strict=True)
            ),
            "the clients to work", 60,
        )  # fmt: skip
        if self.choice.random() < 0.3:
            self.server.call("BGREWRITEAOF")
        time.sleep(self.choice.uniform(0.0, 0.15))
        self.server.kill()
        self.signal(signal.SIGSTOP)
        news = [told.catch_up() for told in self.told]
        if self.mode == "everysec":
            self.cut_off()
        self.server.restart()
        self.check(news)
        self.safe = self.log_size()
        self.result.rounds += 1

    def cut_off(self) -> None:
        """Lose the end of the log, nothing that was there at the last restart."""
        path = self.log_file()
        size = path.stat().st_size
        floor = self.safe[1] if path.name == self.safe[0] else 0
        lose = self.choice.randint(0, max(0, min(CUT_MAX, size - floor)))
        os.truncate(path, size - lose)
        self.result.cut_bytes += lose

    def check(self, news: list[list[dict[str, list[int]]]]) -> None:
        [picture] = audit(self.frontier, filtered=True)
        seen, places = check_places(picture, {one for told in self.told for one in told.tried})
        for told, calls in zip(self.told, news, strict=True):
            survived = [survives(call, seen, places) for call in calls]
            if self.mode == "everysec" and survived and not survived[0]:
                # Its answer may have come before the last kill and was written down only now, after the cut that undid it.
                calls, survived = calls[1:], survived[1:]
                self.result.undone += 1
            kept = survived.index(False) if False in survived else len(survived)
            later = next((call for call, there in zip(calls[kept:], survived[kept:], strict=True) if there), None)
            assert later is None, (
                f"{told.log.name}: {described(later, places)} survived, the earlier {described(calls[kept], places)} did not"
            )
            assert self.mode == "everysec" or kept == len(calls), f"lost: {calls[kept]}"
            self.result.calls += len(calls)
            self.result.undone += len(calls) - kept
            self.result.added += sum(len(call["added"]) for call in calls[:kept])
            self.result.settled += sum(len(call.get("settled", ())) for call in calls[:kept])
        self.result.requests = len(seen)
        renewed = self.frontier.renew(self.token, self.kept)
        assert all(renewed), "a lease was lost"
        blocked, own = self.frontier.hosts([BLOCKED, "own.example"])
        assert (blocked.blocked_until, blocked.reason) == (self.blocked_until, "chaos"), "a block was lost"
        assert own.own_policy, "a host policy was lost"
        assert own.delay == 7


def check_places(picture: PartitionPicture, tried: set[int]) -> tuple[set[int], dict[int, str]]:
    """Every known request is in exactly one place; a settled page has left all that it led to."""
    kept = set(range(3))
    seen = set().union(*picture.seen.values()) - kept
    rows = [(record.fingerprint, state) for state, lane, _, _, record in picture.requests() if lane == WORK]
    rows += [(row.record.fingerprint, "dead") for row in picture.dead.values()]
    rows += [(int(item), "settled") for _, item in picture.items.get("forum", [])]
    twice = [(number, times) for number, times in Counter(number for number, _ in rows).items() if times > 1]
    assert not twice, f"in more than one place: {twice[:5]}"
    places = dict(rows)
    assert places.keys() == seen, f"lost {list(seen - places.keys())[:5]}, unknown {list(places.keys() - seen)[:5]}"
    assert seen <= tried, f"invented: {list(seen - tried)[:5]}"
    for number, place in places.items():
        if place in ("settled", "dead"):
            assert set(children_of(number)) <= seen, f"page {number} was settled without its children"
    return seen, places


def survives(call: dict[str, list[int]], seen: set[int], places: dict[int, str]) -> bool:
    """Whether everything that a call was answered is still so."""
    ended = {Ending.DONE: ("settled",), Ending.FAILED: ("dead",), Ending.RETRY: ("delayed",)}
    return (
        all(number in seen for number in call["added"])
        and all(places.get(page) in ended[ending_of(page)] for page in call.get("settled", ()))
        # What was leased then may have been settled since, by a call whose answer nobody saw.
        and all(places.get(page) in ("leased", "settled", "dead", "delayed") for page in call.get("leased", ()))
    )


def described(call: dict[str, list[int]], places: dict[int, str]) -> str:
    return str(
        {name: {one: places.get(one, "gone") for one in call.get(name, ())} for name in ("added", "settled", "leased")}
    )


def campaign(
    mode: Mode, rounds: int, clients: int = 3, seed: int = 1, report: Callable[[str], None] = lambda _: None
) -> Result:
    """Kill so many times; AssertionError says what was lost or contradicts itself."""
    running = Campaign(mode, clients, seed)
    try:
        with running.load():
            for number in range(rounds):
                running.round()
                report(f"round {number + 1}: {running.result}")
    finally:
        running.close()
    return running.result


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill the server under load and check what it remembers.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--mode", choices=("always", "everysec", "both"), default="both")
    parser.add_argument("--client", nargs=3, metavar=("URL", "NAME", "LOG"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        url, name, log = given.client
        client(url, name, Path(log))
        return
    modes: tuple[Mode, ...] = ("always", "everysec")
    for mode in modes:
        if given.mode in (mode, "both"):
            print(f"{mode}: {given.rounds} rounds with {given.clients} clients, seed {given.seed}", flush=True)
            print(campaign(mode, given.rounds, given.clients, given.seed, lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main()
