"""What bench/questions.py counts with: a site that remembers who came, and workers on one server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.crawls.contender import environ, settings
from bench.frontier import table as drawn

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.server_process import QuietHandler, ThreadedServer
from gossamer.testing.servers import Server

ROOT = Path(__file__).resolve().parents[2]
Links = Callable[[str], Sequence[str]]
LEASE = "2"
"""Seconds; what a killed worker held is soon given to others."""


class Site:
    """Pages that lead where `links` says. `key` is a cookie that the front page gives and the others want; with `flaky`, the front
    page fails twice, and the others once, before they answer."""

    def __init__(self, links: Links, *, delay: float = 0.0, key: str = "", flaky: bool = False) -> None:
        self.visits: list[tuple[str, int]] = []
        self.most = self._now = 0
        self._lock = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        site = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                status = 200 if not key or self.path == "/" or key in self.headers.get("Cookie", "") else 403
                with site._lock:
                    before = sum(path == self.path for path, _ in site.visits)
                    if flaky and before < (2 if self.path == "/" else 1):
                        status = 500
                    site.visits.append((self.path, status))
                    site._now += 1
                    site.most = max(site.most, site._now)
                if self.path == "/":
                    site.gate.wait()
                time.sleep(delay)
                data = "".join(f'<a href="{link}">{link}</a>' for link in links(self.path)).encode()
                with site._lock:
                    site._now -= 1
                self.send_response(status)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(data)))
                if key and self.path == "/":
                    self.send_header("Set-Cookie", key)
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadedServer(Handler)
        self.port = self._server.port
        self.front = f"{self._server.url}/"
        self._server.start()

    def pages(self, status: int = 200) -> Counter[str]:
        return Counter(path for path, answered in list(self.visits) if answered == status)

    def close(self) -> None:
        self._server.close()


@contextmanager
def serving(links: Links, **how: Any) -> Iterator[Site]:
    site = Site(links, **how)
    try:
        yield site
    finally:
        site.close()


class Crawls:
    """Workers on one server; each crawl has a name of its own."""

    def __init__(self, server: Server) -> None:
        self.server, self._count = server, 0

    def fresh(self) -> str:
        self.server.call("FLUSHALL")
        self._count += 1
        return self.last

    @property
    def last(self) -> str:
        return f"q{self._count}"

    def start(self, label: str, spider: str, front: str, crawl: str, **more: Any) -> subprocess.Popen[str]:
        given = {"settings": {**settings(label, self.server.url, 16), **more}, "front": front}
        environment = {**_clean(), **environ(label, self.server.url, crawl), "GOSSAMER_LEASE_SECONDS": LEASE}
        return subprocess.Popen(
            [sys.executable, "-m", "bench.crawls.question_spiders", spider, json.dumps(given)],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, label: str, spider: str, site: Site, *, workers: int = 1, **more: Any) -> list[dict[str, Any]]:
        """What each worker said at its end."""
        crawl = self.fresh()
        running = [self.start(label, spider, site.front, crawl, **more) for _ in range(workers)]
        return [said(worker) for worker in running]

    def frontier(self, crawl: str) -> ValkeyFrontier:
        return ValkeyFrontier.open(load({"GOSSAMER_URL": self.server.url, "GOSSAMER_CRAWL": crawl}, {}))


def gossamer(crawls: Crawls, crawl: str, directory: Path, *words: str) -> str:
    """What the command writes."""
    environ = _clean() | {
        "GOSSAMER_URL": crawls.server.url,
        "GOSSAMER_CRAWL": crawl,
        "GOSSAMER_DATA_DIR": str(directory / "data"),
    }
    command = [sys.executable, "-P", "-m", "gossamer", *words]
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"gossamer {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return drawn(heads, [[str(cell) for cell in row] for row in rows])


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}


def said(worker: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = worker.communicate(timeout=120)
    if worker.returncode or not out.strip():
        raise RuntimeError(f"a worker ended with {worker.returncode}:\n{err[-3000:]}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    found["errors"] = err
    return found
