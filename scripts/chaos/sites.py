"""Fifty sites, one pool of workers, hosts that misbehave, a worker killed, the database killed: and then the books are checked.

    python scripts/chaos/sites.py [--runs 10] [--news 27] [--seed N]

The site files are in tests/chaos/sites; between them they use everything that a site file can say. Two workers serve all layers but
the comments, one only these. While they crawl, one is killed with SIGKILL and replaced, PostgreSQL is killed and comes back, one site
is paused and resumed, one changes its file, and some begin second rounds. Then the access log of the hosts, the tables, the saved
pages and the dead letters must be what they would have been without all that.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.crawls.project import Launch, launched
from tests.support.auditor.audit import audit
from tests.support.many_sites import audit as many_audit
from tests.support.many_sites.audit import Story
from tests.support.many_sites.server import Access, ManySites
from tests.support.servers.databases import PostgreSQLServer
from tests.support.servers.web_proxy import WebProxy

from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import GroupCounts
from gossamer.settings import load
from gossamer.testing.process import Process, end, free_port, hold_port, is_stopped, wait_until
from gossamer.testing.servers import Server

FILES = Path(__file__).resolve().parents[2] / "tests" / "chaos" / "sites"
HOSTS, CONCURRENCY, LEASE, PATIENCE = 9, 16, 8.0, 240.0
ASKING = 0.4
"""Seconds between questions about all groups, each of which is asked for."""
SHOPS = ("s1", "s2", "s3", "s4", "s5")
TABLES = (
    "articles", "articles_paras", "comments", "products", "feedy", "tasked", "proxied", "robotic", "faulty", "throttled", "paused",
    "changed", "remembered", "charsets_wrong", "charsets_right", "hooked", "private", "scheduled",
)  # fmt: skip
HOOKS = '''
"""What the site files call."""
import os
from pathlib import Path

TOLD = Path(os.environ["HOOKS_LOG"])


def _tell(*words):
    with TOLD.open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


def before_request(ask):
    return ask._replace(headers={**ask.headers, "X-Hook": "yes"})


async def after_download(document):
    return document._replace(body=document.body.replace(b">k/item", b">K/ITEM"))


def after_extract(document, reading):
    for record in reading.records:
        record.fields["extra"] = "added"
    return reading


def before_store(record):
    return None if record.fields.get("title") == "K/ITEM 3" else record


def on_fail(url, reason, detail):
    _tell("failed", url, reason)


def after_round(site, number):
    _tell("round", site, number)


def broken(document):
    raise KeyError("a bug in a hook")


async def read_list(page):
    for link in page.css("a::attr(href)").getall():
        yield page.follow(link, "item")
'''
DEAD = {
    "never": "http_500", "loop2": "redirect_loop", "lack": "lack", "invalid": "blocked", "refused": "store_refused",
    "raises": "engine",
}  # fmt: skip


class Told(NamedTuple):
    """What a run came to."""

    pages: int
    killed_at: int
    again: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.pages} pages, killed at {self.killed_at}, {self.again} fetched again; {self.seconds:.0f} s"


class Scenario:
    """Everything that a run needs, started and ended together. `address` is that of the frontier's server."""

    def __init__(self, address: str, crawl: str, news: int = 27, launch: Launch = launched) -> None:
        self.crawl, self._address, self._launch = crawl, address, launch
        self.news = {f"n{number}": number % 2 for number in range(1, news + 1)}
        self.folder = Path(tempfile.mkdtemp(prefix="gossamer-"))
        self._stack = ExitStack()
        self.workers: dict[str, Process] = {}
        self.tasks = f"{crawl}:tasks"

    def __enter__(self) -> Self:
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self.sites = self._stack.enter_context(ManySites(HOSTS))
            self.database = self._stack.enter_context(PostgreSQLServer())
            self.proxy = self._stack.enter_context(WebProxy())
            dead = hold_port(free_port())
            self._stack.callback(dead.close)
            self._stack.callback(self._end_workers)
            self._write(f"http://127.0.0.1:{dead.getsockname()[1]}")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _write(self, dead_proxy: str) -> None:
        (self.folder / "sites").mkdir()
        (self.folder / "manysites_hooks.py").write_text(HOOKS)
        rows = [{"name": name, "base": self.sites.url(host)} for name, host in self.news.items()]
        stand_ins = {"NEWS": json.dumps(rows), "TASKS": self.tasks, "PAGES": json.dumps(str(self.folder / "pages"))}
        stand_ins |= {"DEADPROXY": dead_proxy, "GOODPROXY": self.proxy.url}
        for file in FILES.rglob("*.yaml"):
            text = re.sub(r"\bH(\d)U\b", lambda found: self.sites.url(int(found[1])), file.read_text())
            text = re.sub(r"\bH(\d)\b", lambda found: f'"{self.sites.host(int(found[1]))}"', text)
            for name, value in stand_ins.items():
                text = re.sub(rf"\b{name}\b", lambda _, value=value: value, text)  # type: ignore[misc]
            (self.folder / "sites" / file.name).write_text(text)
        self.environ = {
            "GOSSAMER_URL": self._address,
            "GOSSAMER_CRAWL": self.crawl,
            "GOSSAMER_LEASE_SECONDS": str(LEASE),
            "GOSSAMER_SEND_SECONDS": "1",
            "GOSSAMER_DATA_DIR": str(self.folder),
            "GOSSAMER_ENGINE_CONCURRENCY": str(CONCURRENCY),
            "GOSSAMER_STORE_URL": self.database.url(),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH")))),
            "GOSSAMER_ALLOWED_MODULES": "manysites_hooks",
            "GOSSAMER_SITE_VARIABLES": "WORKER_NAME",
            "GOSSAMER_SITE_PATHS": str(self.folder),
            "HOOKS_LOG": str(self.folder / "hooks.log"),
        }

    def _end_workers(self) -> None:
        for child in self.workers.values():
            end(child)

    def start(self, name: str, *words: str) -> None:
        """One worker; the hosts know it by its name."""
        environ = {**self.environ, "WORKER_NAME": name}
        self.workers[name] = self._launch(
            ["gossamer", "work", *words], environ, self.folder, self.folder / f"{name}.log"
        )

    def command(self, *words: str) -> None:
        log = self.folder / "command.log"
        child = self._launch(["gossamer", *words], {**self.environ, "WORKER_NAME": "nobody"}, self.folder, log)
        code = child.wait(PATIENCE)
        assert code == 0, f"gossamer {' '.join(words)}: {code}\n{log.read_text()}"

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load(self.environ, environ={}))

    def until(self, condition: Callable[[], Any], what: str, pause: float = 0.05) -> None:
        def holds() -> bool:
            ended = [name for name, child in self.workers.items() if child.poll() is not None]
            assert not ended, f"{ended} ended while {what}: {self.log_of(ended[0])}"
            return bool(condition())

        try:
            wait_until(holds, what, PATIENCE, pause=pause)
        except TimeoutError as error:
            raise AssertionError(f"{error}; still open: {self.open_groups()}") from None

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def groups(self) -> dict[str, GroupCounts]:
        with self.frontier() as frontier:
            return {row.group: row for row in frontier.counts().groups}

    def open_groups(self) -> list[str]:
        """The sites that have something to do yet."""
        with self.frontier() as frontier:
            known = {row.group: row for row in frontier.counts().groups}
            wanted = 23 + len(self.news)
            missing = ["sites that nobody has begun"] if len(known) < wanted else []
            return missing + [
                name
                for name, row in known.items()
                if name != "scheduled" and row.paused != "pages_full" and not frontier.drained(name).drained
            ]

    def asked(self, pattern: str = "") -> int:
        return sum(bool(re.search(pattern, one.target)) for one in self.sites.log())


def run(scenario: Scenario, server: Server, choice: random.Random) -> Told:
    """AssertionError with everything that is wrong."""
    begin = time.monotonic()
    s = scenario
    s.command("site", "push", str(s.folder / "sites"))
    for task in [f"{s.sites.url(3)}/t/{n}" for n in range(1, 5)] + [
        json.dumps({"url": f"{s.sites.url(3)}/t/5", "layer": "item", "pass": {"note": "by hand"}}),
        "no url at all",
    ]:
        server.call("RPUSH", s.tasks, task)
    s.start("one")
    s.start("two")
    s.start("details", "--stage", "details")
    # The first act: one site is paused, a worker dies, another takes its place, the database dies and comes back.
    s.until(lambda: s.asked(r"^/z/\d") >= 3, "the site that is to be paused is under way")
    s.command("site", "pause", "paused")
    paused_at = time.monotonic()
    s.until(lambda: s.asked(r"^/o/") >= 33, "pages whose order is looked at are done")
    goal = choice.randint(60, 160)
    s.until(lambda: s.asked() >= goal, f"{goal} pages are asked for")
    name = choice.choice(["one", "two"])
    s.until(lambda: _stopped(s, name), "it has a page under way")
    victim = s.workers.pop(name)
    victim.kill()
    victim.wait()
    killed_at = s.asked()
    s.start("three")
    goal = killed_at + 30
    s.until(lambda: s.asked() >= goal, f"{goal} pages are asked for")
    s.database.kill()
    away, latest = s.asked(), time.monotonic() + 3
    s.until(lambda: s.asked() > away or time.monotonic() > latest, "hosts are asked while the database is away")
    s.database.restart()
    s.until(lambda: not set(s.open_groups()) - {"paused"}, "all but the paused site are done", ASKING)
    resumed_at = time.monotonic()
    s.command("site", "resume", "paused")
    s.until(lambda: not s.open_groups(), "the first rounds are over", ASKING)
    # The second act: prices change, a file changes, rounds begin again.
    s.sites.turn(2)
    _change(s)
    with s.frontier() as frontier:
        for name in (*SHOPS, "remembered"):
            frontier.new_round(name, 1, trigger="chaos")
    s.until(lambda: not s.open_groups(), "the second rounds are over", ASKING)
    s.until(lambda: s.groups()["scheduled"].round >= 2, "rounds begin by schedule", ASKING)
    s.command("site", "pause", "scheduled")
    s.until(lambda: _still(s), "the last round by schedule is over", ASKING)
    for name, child in s.workers.items():
        child.terminate()
        assert child.wait(PATIENCE) == 0, f"{name}: {s.log_of(name)}"
    again = check(s, paused_at, resumed_at)
    return Told(s.asked(), killed_at, again, time.monotonic() - begin)


def _stopped(s: Scenario, name: str) -> bool:
    """Stop the worker. If a host still owes it a page then, it stays stopped: it can settle that page no more. If not, it goes on."""
    victim = s.workers[name]
    victim.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(victim.pid) or victim.poll() is not None, f"worker {name} to stop on SIGSTOP")
    if any(one.who == name and not one.until and _comes_again(one) for one in s.sites.log()):
        return True
    victim.send_signal(signal.SIGCONT)
    return False


def _change(s: Scenario) -> None:
    """Change a file while it is being served, and begin rounds until one was crawled by the new one."""
    file = s.folder / "sites" / "changed.yaml"
    text = file.read_text().replace("follow: [a.go]", "follow: [a.go, a.more]")
    file.write_text(text.replace("fields: {title: h1}", "fields: {title: h1, kind: {value: v2}}"))
    s.command("site", "push", str(file))
    for number in range(1, 20):
        with s.frontier() as frontier:
            frontier.new_round("changed", number)
        s.until(lambda: "changed" not in s.open_groups(), "the changed site is done", ASKING)
        kinds = {row.get("kind") for row in s_rows(s, "changed")}
        if s.asked(r"^/y/3") and kinds == {"v2"}:
            return


def _still(s: Scenario) -> bool:
    """Whether nothing of `scheduled` is in between: its last round is over, or has only begun."""
    with s.frontier() as frontier:
        row = next(row for row in frontier.counts("scheduled").groups if row.group == "scheduled")
        leased = sum(lane.leased for lane in frontier.counts("scheduled").lanes)
        last = frontier.rounds("scheduled", 1)[0]
        return not leased and row.start == "done" and (row.open > 0 or last.ended is not None)


def s_rows(s: Scenario, table: str) -> list[dict[str, Any]]:
    said = s.database.sql(f"select coalesce(json_agg(t), '[]') from {table} t", "gossamer")
    return list(json.loads(said))


def check(s: Scenario, paused_at: float, resumed_at: float) -> int:
    """The books. Answers how many pages were asked for more often than without a kill."""
    log = s.sites.log()
    with s.frontier() as frontier:
        audit(frontier)
        open_ = next(row.open for row in frontier.counts("scheduled").groups)
        scheduled = len(frontier.rounds("scheduled")) - bool(open_)
        changed = len(frontier.rounds("changed"))
        dead = Counter(_letter(frontier, letter) for name in s.groups() for letter in frontier.dead_letters(name))
    story = Story(
        s.news, SHOPS, scheduled, changed, again=2 * CONCURRENCY,
        delays={1: 0.08, 4: 0.15, 8: 0.1}, most={0: 2, 1: 2, 2: 8, 4: 1, 6: 1, 8: 1},
    )  # fmt: skip
    urls = {number: s.sites.url(number) for number in range(HOSTS)}
    wrong = many_audit.pages(log, story) + many_audit.politeness(log, story) + many_audit.order(log)
    wrong += many_audit.details(log, "details")
    wrong += many_audit.rows({table: s_rows(s, table) for table in TABLES}, story, urls)
    letters = Counter((f"{urls[5]}/e/{name}", reason) for name, reason in DEAD.items())
    letters["", "bad_task"] = 1
    if dead != letters:
        wrong.append(f"dead letters: {dead - letters} are too many, {letters - dead} are missing")
    if [one for one in log if one.path.startswith("/z/") and paused_at + 1.5 < one.at < resumed_at]:
        wrong.append("a site was crawled while it was paused")
    if not [one for one in log if paused_at + 1.5 < one.at < resumed_at]:
        wrong.append("nothing was crawled while one site was paused")
    wrong += _told(s, log, scheduled) + _saved(s)
    assert not wrong, "\n".join(wrong)
    found = Counter(many_audit.key_of(one) for one in log if _is_counted(one))
    return (found - many_audit.expected(story)).total()


def _is_counted(one: Access) -> bool:
    """Whether it is known how often this page is to be asked for."""
    return one.path != "/robots.txt" and not one.path.startswith("/c/")


def _comes_again(one: Access) -> bool:
    """Whether this page is asked for once more than without a kill, if its answer is lost: some fail at first, whoever asks."""
    return _is_counted(one) and not re.match(r"/(e|x)/|/n/\w+/article/[123]$", one.path)


def _letter(frontier: ValkeyFrontier, letter: Any) -> tuple[str, str]:
    payload = frontier.dead_letter(letter.partition, letter.id).payload
    url = "" if letter.reason == "bad_task" else str(codec.decode_request(payload)["url"])
    return url, letter.reason


def _told(s: Scenario, log: list[Any], scheduled: int) -> list[str]:
    """Hooks and proxies."""
    wrong = []
    told = set((s.folder / "hooks.log").read_text().splitlines())
    wanted = {f"failed {s.sites.url(5)}/e/{name} {reason}" for name, reason in DEAD.items()}
    wanted |= {f"round scheduled {number}" for number in range(scheduled)}
    if told != wanted:
        wrong.append(f"hooks: {told - wanted} too many, {wanted - told} missing")
    hooked = {one.path.startswith("/k/") for one in log if one.headers.get("x-hook")}
    if hooked != {True} or any(not one.headers.get("x-hook") for one in log if one.path.startswith("/k/")):
        wrong.append("before_request was not called for the pages of its site, and for no others")
    through = Counter(target for _, target, _ in s.proxy.asked())
    direct = Counter(f"{s.sites.url(7)}{one.target}" for one in log if one.host == 7)
    if through != direct:
        wrong.append(f"proxies: {direct - through} came past them")
    return wrong


def _saved(s: Scenario) -> list[str]:
    """WARC files: every page that was to be kept."""
    saved = set()
    for file in (s.folder / "pages").glob("*.warc.gz"):
        with gzip.open(file) as records:
            saved |= set(re.findall(rb"WARC-Type: response\r\n(?:[^\r]+\r\n)*?WARC-Target-URI: (\S+)", records.read()))
    wanted = {f"{s.sites.url(3)}/f/item/{n}".encode() for n in (1, 2, 3)}
    return [] if saved == wanted else [f"saved pages are {saved}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Many sites, one pool, faults, and an audit.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--news", type=int, default=27, help="how many of the sites are news")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"{23 + given.news} sites, seed {given.seed}", flush=True)
    choice = random.Random(given.seed)
    with Server("valkey") as server:
        for number in range(given.runs):
            with Scenario(server.url, f"sites{number}", given.news) as scenario:
                print(f"run {number + 1}: {run(scenario, server, choice)}", flush=True)


if __name__ == "__main__":
    main()
