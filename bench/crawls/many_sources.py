"""The question of many sources for bench/questions.py: two hundred of them in one site file, of which three are in trouble."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.crawls.counting import Crawls, gossamer, table

from gossamer.testing.process import free_port
from gossamer.testing.server_process import LoopServer

SOURCES, PAGES = 200, 10
BROKEN, SLOW, EMPTY = 50, 100, 150
"""Which sources are in trouble: one answers 500, one takes its time, one has no links."""
SLOW_SECONDS = 2.0
TEXT = """site: "source-{name}"
params: sources.csv
seeds: ["{start}"]
politeness: {robots: ignore}
layers:
  list: {match: '^/$', seen: round, follow: [{css: a, to: page}]}
  page: {match: '^/\\d+$', fields: {title: h1}}
store:
  page: {table: pages, key: [url], add: [site]}
"""


class Visit(NamedTuple):
    """A request that was answered: by which source, for what, how, and when."""

    source: int
    path: str
    status: int
    at: float


class Sources(LoopServer):
    """Sources 1, 2, 3 …, each on an address of loopback: a list and its pages. In trouble, three of them are not as the others."""

    def __init__(self, number: int, trouble: bool) -> None:
        super().__init__("sources")
        self._number, self._trouble, self.port = number, trouble, free_port()
        self.visits: list[Visit] = []
        self._server: asyncio.Server | None = None

    def front(self, source: int) -> str:
        return f"http://127.0.0.{source}:{self.port}/"

    async def listen(self) -> None:
        addresses = [f"127.0.0.{source}" for source in range(1, self._number + 1)]
        self._server = await asyncio.start_server(self._serve, addresses, self.port)

    async def disconnect(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = int(writer.get_extra_info("sockname")[0].rpartition(".")[2])
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path, status, links = head.split()[1].decode(), 200, range(1, PAGES + 1)
                if self._trouble and source == SLOW:
                    await asyncio.sleep(SLOW_SECONDS)
                if self._trouble and source == BROKEN:
                    status = 500
                if path != "/" or (self._trouble and source == EMPTY):
                    links = range(0)
                body = f"<h1>{source}{path}</h1>" + "".join(f'<a href="/{page}">{page}</a>' for page in links)
                self.visits.append(Visit(source, path, status, time.monotonic()))
                writer.write(
                    b"HTTP/1.1 %d -\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                    % (status, len(body), body.encode())
                )
                await writer.drain()


def sources(crawls: Crawls) -> None:
    """Two hundred sources of one file, all well or three of them in trouble, two workers; and then one more."""
    rows, added = [], []
    for trouble in (False, True):
        with tempfile.TemporaryDirectory() as name, Sources(SOURCES + 1, trouble) as site:
            directory, crawl = Path(name), crawls.fresh()
            (directory / "sources.yaml").write_text(TEXT)
            lines = [f"{source:03},{site.front(source)}\n" for source in range(1, SOURCES + 2)]
            (directory / "sources.csv").write_text("name,start\n" + "".join(lines[:SOURCES]))
            gossamer(crawls, crawl, directory, "crawl", "sources.yaml", "-w", "2")
            visits, stored = list(site.visits), stored_rows(directory)
            rows += summary("three in trouble" if trouble else "all are well", visits, stored)
            if trouble:
                with (directory / "sources.csv").open("a") as file:
                    file.write(lines[SOURCES])
                gossamer(crawls, crawl, directory, "crawl", "sources.yaml", "-w", "2")
                added = again(site.visits[len(visits) :], stored, stored_rows(directory))
    heads = ["", "sources", "requests", "pages served", "rows", "first page after", "last page after"]
    print(table(heads, rows), end="\n\n")
    print(table(["a line more in the table", "lists", "pages", "new rows"], added))


def stored_rows(directory: Path) -> Counter[int]:
    """By source."""
    with closing(sqlite3.connect(directory / "data" / "items.db")) as database:
        query = "SELECT site, count(*) FROM pages GROUP BY site"
        return Counter({int(site.rpartition("-")[2]): count for site, count in database.execute(query)})


def summary(case: str, visits: list[Visit], stored: Counter[int]) -> list[list[object]]:
    """What the site served against the rows, and when: of the sources without trouble all together, of the others one by one."""
    trouble = {BROKEN: "answers 500", SLOW: f"takes {SLOW_SECONDS:.0f} s for a page", EMPTY: "has no links"}
    groups = {"the other 197": [source for source in range(1, SOURCES + 1) if source not in trouble]}
    groups |= {what: [source] for source, what in trouble.items()} if "trouble" in case else {}
    if len(groups) == 1:
        groups = {"these 197": groups["the other 197"], "the other three": list(trouble)}
    began, result = visits[0].at, []
    for what, members in groups.items():
        mine = {source: [visit for visit in visits if visit.source == source] for source in members}
        served = {source: {v.path for v in mine[source] if v.status == 200 and v.path != "/"} for source in members}
        wrong = [source for source in members if len(served[source]) != stored[source]]
        if wrong:
            raise RuntimeError(f"the rows of {wrong} are not the pages that were served")
        firsts, lasts = [min(v.at for v in mine[s]) - began for s in members], [mine[s][-1].at - began for s in members]
        pages, kept = sum(map(len, served.values())), sum(stored[source] for source in members)
        requests = sum(map(len, mine.values()))
        result.append([f"{case}: {what}", len(members), requests, pages, kept, spread(firsts), spread(lasts)])
    return result


def spread(seconds: list[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.1f} s"
    return f"{median(seconds):.1f} s (median), {max(seconds):.1f} s (latest)"


def again(visits: list[Visit], before: Counter[int], after: Counter[int]) -> list[list[object]]:
    result: list[list[object]] = []
    for what, members in (("the new source", [SOURCES + 1]), ("the 200 before it", range(1, SOURCES + 1))):
        mine = [visit for visit in visits if visit.source in members]
        lists = sum(visit.path == "/" for visit in mine)
        rows = sum(after[source] - before[source] for source in members)
        result.append([what, lists, len(mine) - lists, rows])
    return result
