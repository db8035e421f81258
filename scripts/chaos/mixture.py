"""Sites with rows and a Scrapy spider with a feed in one crawl, over rounds between which their pages change, while things break.

    python scripts/chaos/mixture.py [--runs 20] [--kinds embedded,partitions,sentinel] [--rounds 3] [--seed N]

Four commands run at once: a forum whose threads are fetched when its list says so, goods with conditional requests and `-O`, a wiki in
Python whose pages lead to each other, and a spider with a feed, whose items are exported meanwhile. Workers are killed and stopped, the
server is killed, set back or replaced, the folder is copied and something is done in the copy, exports are killed. When the commands have
ended, tables, files and exports must have what the pages had in this round, and nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.chaos.troubles import log_file
from tests.support import fork_server
from tests.support.auditor.audit import audit
from tests.support.fork_server import Started
from tests.support.site import Reply, Site, Visit

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.process import wait_until
from gossamer.testing.servers import SentinelPair, Server

PATIENCE = 240.0
TRIES = 5
"""So often a command may end early and be resumed."""
FAILING = 0.03
"""The share of pages that answer 500, and are tried again."""
PARTS = ("forum", "goods", "wiki", "books")
FORUM = """
site: forum
seeds: ['BASE/list/1']
politeness: {robots: ignore, hosts: {HOST: {concurrency: 2}}}
request: {retries: 9}
layers:
  list:
    match: ^/list/
    seen: round
    records: li
    fields: {_thread: {css: a, attr: href}, _at: i}
    follow: [{url: '{_thread}', to: thread, changed: '{_at}'}, {css: a.next, to: list, pages: 0}]
  thread:
    match: ^/thread/
    fields: {id: {from: url, regex: '/thread/(\\d+)', type: int}, title: h1, posts: {each: p, fields: {id: {xpath: .}}}}
    follow: [{css: a.next, to: thread, pages: 0}]
store:
  thread: {table: threads, key: [id], gone: true, children: {posts: {table: posts, key: [id]}}}
"""
GOODS = """
site: goods
seeds: ['BASE/list/1']
seen: round
politeness: {robots: ignore, hosts: {HOST: {concurrency: 4}}}
request: {retries: 9, conditional: true}
layers:
  list: {match: ^/list/, follow: [{css: a.item, to: item}, {css: a.next, to: list, pages: 0}]}
  item: {match: ^/item/, fields: {id: {from: url, regex: '/item/(\\d+)', type: int}, price: {css: b, type: int}}}
store:
  item: {table: goods, key: [url], gone: true}
"""
WIKI = """
from gossamer import Site

wiki = Site(
    "wiki", seeds=["BASE/page/0"], seen="round", request={"retries": 9, "conditional": True},
    politeness={"robots": "ignore", "hosts": {HOST: {"concurrency": 4}}},
    store={"page": {"table": "wiki", "key": ["id"], "gone": True}},
)


@wiki.layer("page", match="^/page/")
def page(page):
    yield {"id": int(page.url.rpartition("/")[2]), "title": page.css("h1::text").get()}
    for link in page.css("a"):
        yield page.follow(link)
"""
BOOKS = """
import scrapy


class Books(scrapy.Spider):
    name = "books"
    start_urls = ["BASE/list/1"]

    def parse(self, response):
        for link in response.css("a.item"):
            yield response.follow(link, self.book)
        for link in response.css("a.next"):
            yield response.follow(link, self.parse)

    def book(self, response):
        yield {"book": response.css("h1::text").get()}
"""
SETTINGS = """
SPIDER_MODULES = ["spiders"]
ADDONS = {"gossamer.Addon": 100}
ROBOTSTXT_OBEY = False
RETRY_TIMES = 9
CONCURRENT_REQUESTS_PER_DOMAIN = 2
"""


class World:
    """What the sites have in this round."""

    def __init__(self, choice: random.Random) -> None:
        self.choice, self.round = choice, 0
        self.threads = {n: (0, [f"{n}-{post}" for post in range(choice.randrange(8))]) for n in range(1, 9)}
        """How often each has changed, and its posts."""
        self.goods, self.sold_out = dict.fromkeys(range(1, 19), 0), set[int]()
        self.closed: set[int] = set()
        """Threads that the list has and that do not exist any more."""
        self.wiki = {n: [0, *range(n + 1, min(n + 3, 14))] for n in range(14)}
        """The version of each page, and where it leads to."""
        self.books = dict.fromkeys(range(1, 15), 0)

    def change(self) -> None:
        choice, self.round = self.choice, self.round + 1
        for n, (version, posts) in list(self.threads.items()):
            if choice.random() < 0.5:
                kept = [post for post in posts if choice.random() > 0.3]
                self.threads[n] = version + 1, kept + [f"{n}-{self.round}{post}" for post in range(choice.randrange(4))]
        thread = choice.choice(list(self.threads))
        self.closed ^= {thread}
        self.threads[thread] = self.threads[thread][0] + 1, self.threads[thread][1]
        for table in (self.goods, self.books):
            for n in table:
                table[n] += choice.random() < 0.4
        self.sold_out ^= set(choice.sample(list(self.goods), 3))
        for n in choice.sample(range(13), 4):
            self.wiki[n] = [
                self.wiki[n][0] + 1,
                *choice.sample(range(n + 1, 14), min(13 - n, choice.randrange(3) if n > 4 else 1)),
            ]

    def shown(self) -> dict[int, int]:
        return {n: price for n, price in self.goods.items() if n not in self.sold_out}

    def titles(self) -> dict[int, str]:
        """Of the pages of the wiki that can be reached."""
        reached, new = {0}, [0]
        while new:
            found = set(self.wiki[new.pop()][1:]) - reached
            reached |= found
            new += found
        return {n: f"page {n} {self.wiki[n][0]}" for n in reached}

    def items(self) -> Counter[str]:
        return Counter(f"book {n} {version}" for n, version in self.books.items())

    def answer(self, part: str, visit: Visit) -> Reply:
        if random.random() < FAILING:
            return Reply(status=500, body="later")
        kind, number, *rest = visit.path.strip("/").split("/")
        body = getattr(self, f"_{part}")(kind, int(number), int(rest[0]) if rest else 1)
        if body is None:
            return Reply(status=404, body="no such page")
        tag = f'"{hashlib.sha256(body.encode()).hexdigest()}"'
        if part in ("goods", "wiki") and visit.headers.get("If-None-Match") == tag:
            return Reply(status=304, body="", headers={"ETag": tag})
        return Reply(body=body, headers={"ETag": tag})

    def _forum(self, kind: str, n: int, page: int) -> str | None:
        if kind == "list":
            return paged(n, 4, [f"<li><a href=/thread/{n}>x</a><i>{of[0]}</i></li>" for n, of in self.threads.items()])
        if n in self.closed:
            return None
        version, posts = self.threads[n]
        return f"<h1>thread {n} {version}</h1>" + paged(page, 3, [f"<p>{post}</p>" for post in posts], f"/thread/{n}")

    def _goods(self, kind: str, n: int, _: int) -> str | None:
        if kind == "list":
            return paged(n, 7, [f"<a class=item href=/item/{item}>x</a>" for item in self.shown()])
        return f"<b>{self.goods[n]}</b>"

    def _wiki(self, _: str, n: int, __: int) -> str | None:
        version, *links = self.wiki[n]
        return f"<h1>page {n} {version}</h1>" + "".join(f"<a href=/page/{link}>x</a>" for link in links)

    def _books(self, kind: str, n: int, _: int) -> str | None:
        if kind == "list":
            return paged(n, 5, [f"<a class=item href=/item/{book}>x</a>" for book in self.books])
        return f"<h1>book {n} {self.books[n]}</h1>"


def paged(page: int, most: int, entries: list[str], path: str = "/list") -> str:
    """One page of a list, with a link to the next one."""
    more = f"<a class=next href={path}/{page + 1}>x</a>" if page * most < len(entries) else ""
    return "<u>a list</u>" + "".join(entries[(page - 1) * most : page * most]) + more


class Mixture:
    """A world, a folder with its sites and its spider, and a crawl of them. `wrong` is what should not be."""

    def __init__(self, choice: random.Random, stack: ExitStack, **settings: str) -> None:
        self.choice, self.world = choice, World(choice)
        self.wrong: list[str] = []
        self.story: list[str] = []
        self.lost = self.doubled = False
        """Whether a second was lost in this round, and in any, so that items may have come again."""
        self.folder = Path(tempfile.mkdtemp(prefix="gossamer-"))
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.project, self.copies = self.folder / "project", 0
        self.data = self.project / ".gossamer"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        self.settings = {"GOSSAMER_LEASE_SECONDS": "5", "GOSSAMER_GRACE_SECONDS": "1", **settings}
        self.environ |= self.settings
        self.sites = {part: stack.enter_context(Site()) for part in PARTS}
        for part, site in self.sites.items():
            site.answer(lambda visit, part=part: self.world.answer(part, visit))  # type: ignore[misc]
        self.running: dict[str, Started] = {}
        self.tries: Counter[str] = Counter()
        stack.callback(self._end)
        self.brought: Counter[str] = Counter()
        self._write()

    def _end(self) -> None:
        for command in self.running.values():
            command.kill()
            command.wait()

    def _write(self) -> None:
        (self.project / "spiders").mkdir(parents=True)
        (self.project / "scrapy.cfg").write_text("[settings]\ndefault = project_settings\n")
        (self.project / "project_settings.py").write_text(SETTINGS)
        (self.project / "spiders" / "__init__.py").write_text("")
        files = {"forum.yaml": FORUM, "goods.yaml": GOODS, "wiki.py": WIKI, "spiders/books.py": BOOKS}
        for name, text in files.items():
            site = self.sites[Path(name).stem]
            (self.project / name).write_text(text.replace("BASE", site.url).replace("HOST", f'"{site.host}"'))

    def note(self, text: str) -> None:
        self.story.append(f"round {self.world.round}: {text}")

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.find(load({**self.settings, "GOSSAMER_DATA_DIR": str(self.data)}, environ={}))

    def command(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        done = fork_server.run("gossamer", words, self.environ, folder or self.project, PATIENCE)
        self.note(f"gossamer {' '.join(words)}: {done.returncode}")
        return done

    def start(self, part: str, *more: str) -> None:
        words = {
            "forum": ["forum.yaml", "-w", "2"], "goods": ["goods.yaml", "-w", "2", "-O", "goods.jsonl"],
            "wiki": ["wiki.py", "-w", "1"], "books": ["books", "-w", "2", "-O", "books.jsonl"],
        }[part]  # fmt: skip
        self.running[part] = fork_server.start(
            "gossamer", ["crawl", *words, *more],
            environ=self.environ, directory=self.project, stdout=self.folder / f"{part}.log",
        )  # fmt: skip

    def busy(self) -> list[int]:
        """The processes of workers."""
        with suppress(Exception), self.frontier() as frontier:  # Its server may be away.
            pids = [int(worker.info["pid"]) for worker in frontier.workers() if not worker.closed]
            return sorted(pid for pid in pids if Path(f"/proc/{pid}").exists())
        return []

    # What may happen to any of them.

    def kill(self) -> None:
        if pids := self.busy():
            with suppress(ProcessLookupError):
                os.kill(self.choice.choice(pids), signal.SIGKILL)

    def stop(self) -> None:
        """For longer than a lease, perhaps."""
        if pids := self.busy():
            pid = self.choice.choice(pids)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self.choice.uniform(0.5, 7))
                os.kill(pid, signal.SIGCONT)

    def interrupt(self) -> None:
        if living := [command for command in self.running.values() if command.poll() is None]:
            self.choice.choice(living).terminate()

    def export(self) -> None:
        """One is killed, and made again later."""
        words = ["items", "export", "books", "all.jsonl"]
        log = self.folder / "export.log"
        with fork_server.start("gossamer", words, environ=self.environ, directory=self.project, stdout=log) as command:
            time.sleep(self.choice.uniform(0, 0.5))
            command.kill()

    # Rounds.

    def crawl(self, troubles: Iterable[Callable[[], None]]) -> None:
        """One round of all, with these troubles in the middle of it."""
        self.tries.clear()
        self.lost = False
        for site in self.sites.values():
            site.visits.clear()
        for part in self.choice.sample(PARTS, len(PARTS)):
            # One begins while those before it are at work.
            self.start(part)
            wait_until(lambda part=part: self._has_begun(part), f"pages of {part} to be asked for", PATIENCE)  # type: ignore[misc]
        for trouble in troubles:
            visits = sum(len(site.visits) for site in self.sites.values()) + self.choice.randint(5, 25)
            wait_until(lambda visits=visits: self._is_at(visits), f"{visits} pages to be asked for", PATIENCE)  # type: ignore[misc]
            if self.running:
                self.note(trouble.__name__)
                trouble()
        wait_until(self._over, "all commands to end", PATIENCE, pause=0.1)
        if self.lost:
            # A command that had ended by then could not know of it.
            for part in PARTS:
                self.start(part, "--resume")
            wait_until(self._over, "all commands to end once more", PATIENCE, pause=0.1)

    def _has_begun(self, part: str) -> bool:
        self._over()
        return part not in self.running or bool(self.sites[part].visits)

    def _is_at(self, visits: int) -> bool:
        self._over()
        return not self.running or sum(len(site.visits) for site in self.sites.values()) >= visits

    def _over(self) -> bool:
        """Whether all have ended; those that ended early are resumed."""
        for part, command in list(self.running.items()):
            code = command.poll()
            if code is None:
                continue
            del self.running[part]
            if code:
                self.note(f"the crawl of {part} ended with {code}")
                self.tries[part] += 1
                assert self.tries[part] < TRIES, (self.folder / f"{part}.log").read_text()[-3000:]
                self.start(part, "--resume")
        return not self.running

    # What must be.

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.data / "items.db", timeout=30)) as database:
            return database.execute(query).fetchall()

    def compare(self, what: str, found: Iterable[Any], expected: Iterable[Any], *, doubled: bool = False) -> None:
        """`doubled`: some may be there twice."""
        many, all_of_it = Counter(found), Counter(expected)
        if doubled and set(many) == set(all_of_it) and many >= all_of_it:
            return
        if many != all_of_it:
            less = sorted(map(str, (all_of_it - many).elements()))
            more = sorted(map(str, (many - all_of_it).elements()))
            self.wrong.append(f"round {self.world.round}: {what} lack {less} and have {more} too much")

    def check(self) -> None:
        world = self.world
        there = {n: of for n, of in world.threads.items() if n not in world.closed}
        table = self.rows("select id, title from threads where gone_at is null")
        self.compare("threads", table, [(n, f"thread {n} {version}") for n, (version, _) in there.items()])
        posts = self.rows("select parent_id, id from posts where gone_at is null")
        self.compare("posts", posts, [(n, post) for n, (_, posts) in there.items() for post in posts])
        self.compare("goods", self.rows("select id, price from goods where gone_at is null"), world.shown().items())
        self.compare("pages", self.rows("select id, title from wiki where gone_at is null"), world.titles().items())
        records = [(line["id"], line["price"]) for line in lines(self.project / "goods.jsonl")]
        self.compare("records of -O", records, world.shown().items(), doubled=self.doubled)
        feed = [line["book"] for line in lines(self.project / "books.jsonl")]
        self.compare("items of the feed", feed, world.items().elements(), doubled=self.doubled)
        self.brought += world.items()
        for name, more in (("all.jsonl", ()), (f"lake-{world.round}.jsonl", ("--as", "lake"))):
            done = self.command("items", "export", "books", name, *more)
            if done.returncode:
                self.wrong.append(f"round {world.round}: {name}: {done.stderr}")
        for names in ("all.jsonl", "lake-*.jsonl"):
            found = [line["book"] for path in self.project.glob(names) for line in lines(path)]
            self.compare(f"items of {names}", found, self.brought.elements(), doubled=self.doubled)
        with self.frontier() as frontier:
            audit(frontier)
            for part in PARTS:
                dead = frontier.dead_letters(part)
                if dead or not frontier.drained(part).drained:
                    self.wrong.append(f"round {world.round}: {part} has dead letters {dead}, or is not drained")


def lines(path: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Embedded(Mixture):
    """With a server of its own, in the folder."""

    def __init__(self, choice: random.Random, stack: ExitStack) -> None:
        super().__init__(choice, stack, GOSSAMER_URL="embedded:", GOSSAMER_FSYNC="always")

    def processes(self) -> dict[str, int]:
        """The supervisor and the server of this very folder."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_bytes()
                if Path(os.readlink(place / "cwd")) == self.data:
                    found["server" if b"-server" in words.split(b"\0")[0] else "supervisor"] = int(place.name)
        return found

    def server(self) -> None:
        if pid := self.processes().get("server"):
            os.kill(pid, signal.SIGKILL)

    def supervisor(self) -> None:
        if pid := self.processes().get("supervisor"):
            os.kill(pid, signal.SIGKILL)

    def copy(self) -> None:
        """What is done in a copy does not reach the original; the copy of the goods is a crawl of its own, which comes to the same end."""
        self.copies += 1
        copy = self.folder / f"copy{self.copies}"
        # First the log of the server, as the page on embedded servers says.
        shutil.copytree(self.data / "appendonlydir", copy / ".gossamer" / "appendonlydir")
        subprocess.run(["cp", "-rn", f"{self.project}/.", str(copy)], stderr=subprocess.DEVNULL)
        for part in PARTS if self.choice.random() < 0.5 else ("goods",):
            self.command("group", "drop", part, "--yes", folder=copy)
        if done := self.command("crawl", "goods.yaml", "-w", "1", folder=copy).returncode:
            self.wrong.append(f"the crawl of goods in a copy ended with {done}")

    TROUBLES = (Mixture.kill, Mixture.stop, Mixture.interrupt, Mixture.export, server, supervisor, copy, copy)

    def check(self) -> None:
        super().check()
        wait_until(lambda: not self.processes(), "the server to end with its last user", PATIENCE)


class Partitions(Mixture):
    """Three partitions on one server, which loses its last moments."""

    def __init__(self, choice: random.Random, stack: ExitStack) -> None:
        self.shared = stack.enter_context(Server("valkey").start(fsync="everysec"))
        super().__init__(choice, stack, GOSSAMER_URL=self.shared.url, GOSSAMER_PARTITIONS="3")

    def cut(self) -> None:
        path = log_file(self.shared)
        kept = path.stat().st_size
        time.sleep(self.choice.uniform(0.2, 1))
        self.shared.kill()
        os.truncate(path, min(kept, path.stat().st_size))
        self.shared.restart()
        self.lost = self.doubled = True

    TROUBLES = (Mixture.kill, Mixture.stop, Mixture.interrupt, Mixture.export, cut, cut)


class Sentinel(Mixture):
    """A primary and its replica, which change places."""

    def __init__(self, choice: random.Random, stack: ExitStack) -> None:
        self.pair = stack.enter_context(SentinelPair(down_after=30_000).start())
        super().__init__(choice, stack, GOSSAMER_URL=self.pair.url)

    def planned(self) -> None:
        self._fail_over(kill=False)

    def unplanned(self) -> None:
        self._fail_over(kill=True)

    def _fail_over(self, *, kill: bool) -> None:
        self.pair.wait_ok()
        # Only now: a loaded machine would fail over by itself.
        self.pair.tolerate(1_000 if kill else 30_000)
        self.pair.failover(kill=kill)
        self.pair.tolerate(30_000)
        self.pair.restore()
        self.lost = self.doubled = True

    TROUBLES = (Mixture.kill, Mixture.interrupt, Mixture.export, planned, unplanned)


KINDS: dict[str, type[Embedded | Partitions | Sentinel]] = {
    "embedded": Embedded,
    "partitions": Partitions,
    "sentinel": Sentinel,
}


@contextmanager
def mixed(kind: str, choice: random.Random) -> Iterator[Embedded | Partitions | Sentinel]:
    with ExitStack() as stack:
        yield KINDS[kind](choice, stack)


def run(kind: str, choice: random.Random, rounds: int = 3) -> Mixture:
    """So many rounds, with one to three troubles in each; `wrong` of the answer must be empty."""
    with mixed(kind, choice) as mixture:
        for number in range(rounds):
            if number:
                mixture.world.change()
            troubles = choice.choices(mixture.TROUBLES, k=choice.randint(1, 3))
            mixture.crawl([trouble.__get__(mixture) for trouble in troubles])
            mixture.check()
        return mixture


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    first = random.randrange(10**6) if asked.seed is None else asked.seed
    bad, kinds = 0, asked.kinds.split(",")
    for seed in range(first, first + asked.runs):
        kind, begin = kinds[seed % len(kinds)], time.monotonic()
        mixture = run(kind, random.Random(seed), asked.rounds)
        bad += bool(mixture.wrong)
        print(f"{kind} --seed {seed}: {len(mixture.wrong)} wrong, {time.monotonic() - begin:.0f} s", flush=True)
        if mixture.wrong:
            print("\n".join(["  " + line for line in (*mixture.story, *mixture.wrong)]), flush=True)
    sys.exit(f"{bad} runs were not as they should be" if bad else 0)


if __name__ == "__main__":
    main()
