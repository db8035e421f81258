"""Six questions about shared scheduling, answered by counting: real Scrapy workers, a real site, a real server.

    python bench/questions.py [unserialisable|stateful|depth|meta|shape|kill|attack|injection|sources ...]

What is asked and what the figures mean: docs/evidence/questions.md.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.crawls.contender import OURS, PLAIN, REDIS
from bench.crawls.counting import Crawls, Links, said, serving, table
from bench.crawls.hostile_links import injection
from bench.crawls.many_sources import sources
from bench.crawls.question_spiders import EACH, KINDS

from gossamer.frontier.codec import encode_request
from gossamer.model import Request
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

ALL = (PLAIN, REDIS, OURS)


def unserialisable(crawls: Crawls) -> None:
    """Requests that can be stored and requests that cannot, in turn, from one page."""
    rows = []
    for label in ALL:
        with serving(lambda path: ()) as site:
            ended = crawls.run(label, "Mixed", site)[0]
            found = Counter(path.split("/")[1] for path in site.pages() if path != "/")
            marked = int(str(crawls.server.call("SCARD", "walk:dupefilter"))) if label == REDIS else 0
            refused = ended["stats"].get("scheduler/unserializable", 0)
            lost = len(KINDS) * EACH - sum(found.values()) - refused
            unfetched = max(0, marked - 1 - sum(found.values()))
            rows.append([label, *(f"{found[kind]} of {EACH}" for kind in KINDS), refused, lost, unfetched])
            print(f"{label}: {ended['errors'].count(' ERROR: ')} errors in the log")
            if label == OURS:
                print(
                    next(line for line in ended["errors"].splitlines() if "lock" in line and "was not queued" in line)
                )
    print(table(["", *KINDS, "refused and counted", "missing otherwise", "seen, never fetched"], rows))


def stateful(crawls: Crawls) -> None:
    """A login whose cookie is in one process, shared by all of them, or in the requests."""
    rows = []
    alone = {"GOSSAMER_COOKIES": "worker"}
    logins: list[tuple[str, str, int, str, dict[str, Any]]] = [
        (PLAIN, "LoggedIn", 1, "in the cookie jar", {}),
        (OURS, "LoggedIn", 2, "in a cookie jar for each worker", alone),
        (OURS, "Carrying", 2, "in the requests", alone),
        (OURS, "LoggedIn", 2, "in the shared cookie jar (the default)", {}),
    ]
    pages = [f"/{number}" for number in range(40)]
    for label, spider, workers, where, settings in logins:
        with serving(lambda path: pages if path == "/" else (), delay=0.05, key="key=gold") as site:
            site.gate.clear()
            crawl = crawls.fresh()
            settings = {"CONCURRENT_REQUESTS": 4, **settings}
            running = [crawls.start(label, spider, site.front, crawl, **settings) for _ in range(workers)]
            # The front page answers when all are there: otherwise the first has done everything before the second comes.
            wait_until(lambda site=site: bool(site.visits), "the front page to be asked for", 120)  # type: ignore[misc]
            if label == OURS:
                with crawls.frontier(crawl) as frontier:
                    wait_until(lambda frontier=frontier: len(frontier.workers()) == 2, "both workers", 120)  # type: ignore[misc]
            site.gate.set()
            for worker in running:
                said(worker)
            rows.append([label, workers, where, len(site.pages()) - 1, len(site.pages(403))])
    print(table(["", "workers", "the login is", "pages let in", "pages turned away"], rows))


def tree(ways: int, pages: int) -> Links:
    def links(path: str) -> list[str]:
        number = int(path.strip("/") or 0)
        return [f"/{child}" for child in range(ways * number + 1, ways * number + ways + 1) if child < pages]

    return links


def depth_of(number: int, ways: int) -> int:
    depth = 0
    while number:
        number, depth = (number - 1) // ways, depth + 1
    return depth


def depth(crawls: Crawls) -> None:
    """DEPTH_LIMIT on a chain and a tree; DEPTH_PRIORITY and the order of visits."""
    rows = []
    for name, links in (("chain of 60 pages", tree(1, 60)), ("10-way tree of 111 pages", tree(10, 111))):
        for label, workers in ((PLAIN, 1), (OURS, 2)):
            with serving(links) as site:
                ended = crawls.run(label, "Walk", site, workers=workers, DEPTH_LIMIT=10)
                deepest = max(end["stats"].get("request_depth_max", 0) for end in ended)
                cut = sum(end["stats"].get("depth/request_ignored_count", 0) for end in ended)
                rows.append([name, label, workers, len(site.pages()), deepest, cut])
    print(
        table(["DEPTH_LIMIT=10", "", "workers", "pages", "request_depth_max", "depth/request_ignored_count"], rows),
        end="\n\n",
    )
    rows = []
    for priority in (0, 1, -1):
        for label in (PLAIN, OURS):
            with serving(tree(3, 40)) as site:
                crawls.run(label, "Walk", site, DEPTH_PRIORITY=priority, CONCURRENT_REQUESTS=1)
                order = [depth_of(int(path.strip("/") or 0), 3) for path, _ in site.visits]
                up = sum(later < earlier for earlier, later in pairwise(order))
                rows.append([f"DEPTH_PRIORITY={priority}", label, len(order), up, "".join(map(str, order))])
    print(table(["3-way tree, one at a time", "", "pages", "steps back up", "depth of each visit"], rows))


def meta(crawls: Crawls) -> None:
    """What children get that copy the meta of their page."""
    rows = []
    for label in ALL:
        with serving(lambda path: ()) as other:
            there = [f"http://localhost:{other.port}/{number}" for number in range(20)]
            with serving(lambda path, there=there: there if path == "/" else ()) as site:  # type: ignore[misc]
                ended = crawls.run(label, "Copying", site)[0]
                slots = ended["noted"]["slots"]
                rows.append([label, len(other.pages()), slots.get("another's", 0)])
    print(table(["meta=response.meta", "pages on another host", "in the first host's slot"], rows), end="\n\n")
    children = [f"/{number}" for number in range(20)]

    def links(path: str) -> list[str]:
        return children if path == "/" else []

    rows = []
    for spider, how in (("Walk", "no"), ("Copying", "yes")):
        for label in (PLAIN, OURS):
            with serving(links, flaky=True) as site:
                ended = crawls.run(label, spider, site, RETRY_TIMES=2)[0]
                dead = 0
                if label == OURS:
                    with crawls.frontier(crawls.last) as frontier:
                        dead = len(frontier.dead_letters("walk"))
                rows.append([how, label, len(site.pages()) - 1, ended["stats"].get("retry/max_reached", 0), dead])
    heads = ["meta copied", "", "children fetched, of 20", "given up by Scrapy's retries", "kept as dead letters"]
    print(table(heads, rows), end="\n\n")
    with serving(links) as site:
        crawl = crawls.fresh()
        said(crawls.start(OURS, "Laned", site.front, crawl))
        with crawls.frontier(crawl) as frontier:
            rows = [[lane.lane, lane.done] for lane in sorted(frontier.counts("walk").lanes)]
    print(table(["meta['lane'] on the first page only", "pages"], rows))


def shape(crawls: Crawls) -> None:
    """The same number of pages as a chain, as trees and flat: how many at a time, and how many calls."""
    pages, rows = 200, []
    for name, ways in (("chain", 1), ("binary tree", 2), ("10-way tree", 10), ("flat", pages)):
        with serving(tree(ways, pages), delay=0.02) as site:
            crawls.run(OURS, "Walk", site)
            assert len(site.pages()) == pages
            calls = _exchanges(crawls)
            rows.append([name, pages, site.most, f"{calls / pages:.2f}"])
    print(table(["one Gossamer worker", "pages", "most in flight", "exchanges a page"], rows))


def kill(crawls: Crawls) -> None:
    """A worker is killed with -9 after a third of a chain or tree, and another one finishes."""
    pages, rows = 200, []
    for name, ways in (("chain", 1), ("10-way tree", 10)):
        for label in (REDIS, OURS):
            with serving(tree(ways, pages), delay=0.02) as site:
                crawl = crawls.fresh()
                first = crawls.start(label, "Walk", site.front, crawl)
                wait_until(lambda site=site: len(site.visits) >= pages // 3, "a third of the pages", 120)  # type: ignore[misc]
                first.kill()
                first.communicate()
                before = len(site.visits)
                said(crawls.start(label, "Walk", site.front, crawl))
                found = site.pages()
                again = sum(count - 1 for count in found.values())
                rows.append([name, label, before, len(found), pages - len(found), again])
    head = [
        "a worker is killed with -9, another finishes",
        "",
        "fetched before",
        "fetched at last",
        "lost",
        "fetched again",
    ]
    print(table(head, rows))


def _exchanges(crawls: Crawls) -> int:
    with crawls.frontier(crawls.last) as frontier:
        return int(frontier.counts("walk").groups[0].counters["gossamer/exchange_count"])


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.path),)


def attack(crawls: Crawls) -> None:
    """Somebody who can write to the server puts something evil into the queue. Does it run?"""
    rows = []
    with tempfile.TemporaryDirectory() as directory, serving(lambda path: ()) as site:
        mark, secret = Path(directory) / "ran", Path(directory) / "secret.html"
        secret.write_text("<p>a secret</p>")
        evil = pickle.dumps(Evil(str(mark)))
        crawl = crawls.fresh()
        crawls.server.call("ZADD", "walk:requests", "0", evil)
        worker = crawls.start(REDIS, "Walk", site.front, crawl)
        wait_until(lambda: mark.exists() or worker.poll() is not None, "the worker to take it", 60)
        worker.kill()
        worker.communicate()
        rows.append([REDIS, "a pickle that makes a file", "yes" if mark.exists() else "no", "taken off the queue"])
        mark.unlink(missing_ok=True)
        crawl = crawls.fresh()
        said(crawls.start(OURS, "Walk", site.front, crawl))
        stored = {
            "a pickle that makes a file": evil,
            "a request of class subprocess.Popen": encode_request({"url": site.front, "class": "subprocess.Popen"}),
            "a request of class antigravity.Request": encode_request(
                {"url": site.front, "class": "antigravity.Request"}
            ),
            "callback __init__": encode_request({"url": site.front, "callback": "__init__"}),
            "callback os.system": encode_request({"url": site.front, "callback": "os.system"}),
            "bytes of no meaning": b"\x00\xff" * 20,
            "a file: URL": encode_request({"url": secret.as_uri()}),
        }
        with crawls.frontier(crawl) as frontier:
            for number, payload in enumerate(stored.values()):
                frontier.add([Request(number + 1, f"host{number}", "walk.main", payload, dont_filter=True)])
            ended = said(crawls.start(OURS, "Walk", site.front, crawl))
            letters = {letter.host: letter for letter in frontier.dead_letters("walk")}
        for number, what in enumerate(stored):
            letter = letters.get(f"host{number}")
            became = f"dead letter: {letter.reason}" if letter else "fetched"
            rows.append([OURS, what, "yes" if mark.exists() else "no", became])
        assert ended["stats"]["finish_reason"] == "finished"
        assert ended["stats"]["response_received_count"] == len(stored) - len(letters)
    print(table(["", "in the queue", "it ran", "what became of it"], rows))


QUESTIONS: dict[str, Callable[[Crawls], None]] = {
    "unserialisable": unserialisable,
    "stateful": stateful,
    "depth": depth,
    "meta": meta,
    "shape": shape,
    "kill": kill,
    "attack": attack,
    "injection": injection,
    "sources": sources,
}


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", choices=[[], *QUESTIONS], help="all of them if none is named")
    names = parser.parse_args(words).name
    with Server("valkey").start() as server:
        for name in names or QUESTIONS:
            print(f"{name}: {(QUESTIONS[name].__doc__ or '').strip()}\n")
            QUESTIONS[name](Crawls(server))
            print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
