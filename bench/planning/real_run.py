"""The model beside a real crawl of the same sites: a real server, a real planner and real workers, as processes, in real time.

Eight forums on loopback, each on a host of its own. For a quarter of the time more posts come than the workers can fetch. In every second it
is counted what is queued, what waits for room and what was fetched; the model is run with the same figures, and the two are compared.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from bench.crawls.project import ROOT, launched
from bench.planning.model import Fleet, Sample, SiteSpec
from tests.support.servers.http1 import connection, message, read_head

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.policy.rounds import Overlap, RoundPolicy
from gossamer.settings import load
from gossamer.sites.format import Schedule
from gossamer.status.chart import line_chart, svg
from gossamer.testing.process import end, wait_until
from gossamer.testing.server_process import LoopServer, listen
from gossamer.testing.servers import Server

SITES, WORKERS, CONCURRENCY, LATENCY, DELAY = 8, 2, 4, 0.2, 0.1
EVERY, LISTS, LISTED, LIMIT = 5.0, 2, 300, 160
WINDOW = 15
"""Seconds for which workers have enough to do, at their busiest."""
USUAL, BURST = 2.0, 4.0
"""Posts a second on each site; and by how much more in the second quarter."""


def appeared(t: float, seconds: float) -> float:
    """Posts until `t` on a site of rate 1."""
    return t + max(0.0, min(t, seconds / 2) - seconds / 4) * (BURST - 1)


class Forums(LoopServer):
    """The sites. From `begin` on posts appear."""

    def __init__(self, seconds: float) -> None:
        super().__init__("forums")
        self._seconds = seconds
        self.began = 0.0
        self.posts = self.pages = 0
        self.ports: list[int] = []
        self._servers: list[asyncio.Server] = []

    async def listen(self) -> None:
        for _ in range(SITES):
            server, port = await listen(self._serve, "127.0.0.1")
            self._servers.append(server)
            self.ports.append(port)

    async def disconnect(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with connection(writer):
            while True:
                path = (await read_head(reader)).target
                await asyncio.sleep(LATENCY)
                self.pages += 1
                body = b"<html><title>post</title></html>"
                if path.startswith("/list/"):
                    body = self._list(int(path.rpartition("/")[2]))
                else:
                    self.posts += 1
                writer.write(
                    message("HTTP/1.1 200 OK", ["Content-Type: text/html", f"Content-Length: {len(body)}"], body)
                )
                await writer.drain()

    def _list(self, page: int) -> bytes:
        shown = int(USUAL * appeared(time.monotonic() - self.began, self._seconds)) if self.began else 0
        last = shown - page * LISTED
        links = "".join(f"<a href=/post/{post}>.</a>" for post in range(max(0, last - LISTED), max(0, last)))
        return f"<html><title>list</title>{links}</html>".encode()


def site_file(name: str, port: int) -> str:
    base = f"http://127.0.0.1:{port}"
    return (
        f"site: {name}\nseeds: ['{base}/list/[0-{LISTS - 1}]']\nschedule: {{every: {EVERY:g}s, overlap: reseed}}\n"
        f"politeness: {{robots: ignore, delay: {DELAY}s, concurrency: {CONCURRENCY}}}\nlayers:\n"
        "  list: {match: '^/list', seen: round, tier: 0, follow: [{css: a, to: post}]}\n"
        "  post: {match: '^/post', tier: 1, page_records: {}, fields: {title: title}}\n"
    )


class Crawled(NamedTuple):
    """What a crawl was like, second by second; how many rounds began, and how many pages workers fetched in a second when they had enough
    to do."""

    samples: Sequence[Sample]
    rounds: int
    capacity: float


def crawled(seconds: float) -> Crawled:
    """A real crawl."""
    with ExitStack() as stack:
        server = stack.enter_context(Server("valkey").start())
        forums = stack.enter_context(Forums(seconds))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-")))
        environ = {
            "GOSSAMER_URL": server.url,
            "GOSSAMER_CRAWL": "model",
            "GOSSAMER_DATA_DIR": str(folder),
            "GOSSAMER_PLAN_LIMIT": str(LIMIT),
            "GOSSAMER_ENGINE_CONCURRENCY": str(CONCURRENCY),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        frontier = stack.enter_context(ValkeyFrontier.open(load(environ, environ={})))
        names = [f"s{number}" for number in range(SITES)]
        for name, port in zip(names, forums.ports, strict=True):
            frontier.put_document("site", name, site_file(name, port))
        for number, words in enumerate([["plan"], *[["work", "--all-stages"]] * WORKERS]):
            child = launched(["gossamer", *words], environ, folder, folder / f"{number}.log")
            stack.callback(end, child)

        def rounds() -> int:
            known = frontier.plan_state().groups
            return sum(known[name].round + 1 for name in names if name in known and known[name].began is not None)

        wait_until(lambda: rounds() >= 2 * SITES, "all sites are crawled", 90)
        before, forums.posts, forums.began = rounds(), 0, time.monotonic()
        samples, pages = [], []
        for second in range(int(seconds) + 1):
            time.sleep(max(0.0, forums.began + second - time.monotonic()))
            lanes = [lane for partition in range(frontier.partitions) for lane in frontier.due_lanes(partition)]
            shown = SITES * int(USUAL * appeared(second, seconds))
            samples.append(Sample(second, sum(x.queued for x in lanes), sum(x.due for x in lanes), forums.posts, shown))
            pages.append(forums.pages)
        span = min(WINDOW, len(pages) - 1)
        busiest = max(after - first for first, after in zip(pages, pages[span:], strict=False))
        return Crawled(samples, rounds() - before, busiest / span)


def modelled(seconds: float, capacity: float = WORKERS * CONCURRENCY / LATENCY) -> Crawled:
    """The same by the model. What workers can fetch is given to it."""
    policy = RoundPolicy(Schedule(every=EVERY), Overlap.RESEED)
    sites = [SiteSpec(f"s{n}", policy, LISTS, USUAL, DELAY, latency=LATENCY) for n in range(SITES)]
    fleet = Fleet(
        sites,
        capacity=capacity,
        limit=LIMIT,
        tick=1.0,
        appeared=lambda t: appeared(t, seconds),
    )
    samples = fleet.run(seconds, 1.0)
    return Crawled(samples, len(fleet.begins) - SITES, capacity)


def compared(real: Crawled, model: Crawled) -> Iterator[str]:
    """A table of what both came to."""
    (seen, begun, capacity), (told, planned, _) = real, model

    def peak(samples: Sequence[Sample]) -> int:
        return max(sample.waiting for sample in samples)

    def caught(samples: Sequence[Sample]) -> float:
        last = [sample.at for sample in samples if sample.waiting > peak(samples) / 10]
        return last[-1] + 1 if last else 0.0

    def row(name: str, a: float, b: float) -> str:
        return f"| {name} | {a:,.0f} | {b:,.0f} | {(b - a) / max(a, 1):+.1%} |"

    yield "| | real | model | deviation |"
    yield "| --- | ---: | ---: | ---: |"
    yield row("rounds begun", begun, planned)
    yield row("posts fetched", seen[-1].fetched, told[-1].fetched)
    yield row("most queued", max(x.queued for x in seen), max(x.queued for x in told))
    yield row("most that waited", peak(seen), peak(told))
    yield row("caught up after so many seconds", caught(seen), caught(told))
    pairs = list(zip(seen, told, strict=False))
    away = mean(abs(a.waiting - b.waiting) for a, b in pairs) / max(peak(seen), 1)
    apart = mean(abs(a.fetched - b.fetched) for a, b in pairs) / max(seen[-1].fetched, 1)
    yield ""
    yield f"Workers fetched {capacity:.1f} pages a second when there was enough to do; the model is given that figure."
    yield f"Second by second, what waits differs by {away:.1%} of its most, and what was fetched by {apart:.1%} of all, on average."


def compare(seconds: float, folder: Path | None = None) -> Iterator[str]:
    """Crawl, simulate, compare; a chart of both."""
    real = crawled(seconds)
    model = modelled(seconds, real.capacity)
    if folder is not None:
        series = {
            f"{what}, {name}": [(x.at, float(x.waiting if what == "waiting" else x.queued)) for x in samples]
            for what in ("waiting", "queued")
            for name, (samples, *_) in (("real", real), ("model", model))
        }
        chart = svg(line_chart("Eight real forums and the model", "seconds", "pages", series))
        (folder / "plan-model.svg").write_text(chart, "utf-8")
    yield from compared(real, model)
