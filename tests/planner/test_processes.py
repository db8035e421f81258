"""`gossamer plan` as processes: one leads, another takes over when it is stopped or killed, and workers leave rounds to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Site

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.model import RoundInfo
from gossamer.testing.process import end
from gossamer.testing.servers import Server

SITE = """
    site: listed
    seeds: [SITE/list]
    schedule: {every: 1s}
    politeness: {robots: ignore}
    layers: {list: {seen: round}}
"""


@contextmanager
def planner(crawl: Crawl, name: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = crawl.folder / f"{name}.log"
    given = {"GOSSAMER_PLAN_CYCLE_SECONDS": "0.1", "GOSSAMER_PLAN_LEAD_SECONDS": "1", **more}
    environ = {**os.environ, **{key: str(value) for key, value in crawl.given.items()}, **given}
    words = [sys.executable, "-P", "-m", "gossamer", "plan", "--name", name]
    with log.open("ab") as file, subprocess.Popen(words, cwd=crawl.folder, env=environ, stderr=file) as process:
        try:
            yield process, log
        finally:
            end(process)


def rounds(crawl: Crawl) -> list[RoundInfo]:
    """The rounds of the site, the oldest first."""
    with crawl.frontier() as frontier:
        return list(reversed(frontier.rounds("listed")))


def last_who(crawl: Crawl) -> str:
    return rounds(crawl)[-1].who


async def test_leaders_are_stopped_and_killed_and_every_round_begins_once(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    with Site() as site, ExitStack() as stack:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        crawl.push(SITE)
        async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
            await until(lambda: site.paths().count("/list") >= 1)
            one, one_log = stack.enter_context(planner(crawl, "one"))
            await until(lambda: last_who(crawl) == "one")
            other, other_log = stack.enter_context(planner(crawl, "other"))
            await until(lambda: "one leads the crawl; this one (other) waits" in other_log.read_text())
            one.send_signal(signal.SIGSTOP)
            await until(lambda: last_who(crawl) == "other", 5)
            one.send_signal(signal.SIGCONT)
            await until(lambda: "(one) does not lead any more: its term" in one_log.read_text())
            other.kill()
            await until(lambda: last_who(crawl) == "one", 5)
            end(one)
            assert one.returncode == 0
            assert one_log.read_text().count("(one) leads the crawl") == 2
            # Without a planner, the worker goes on.
            await until(lambda: last_who(crawl) == "")
        infos = rounds(crawl)
    assert [info.round for info in infos] == list(range(len(infos)))
    began = [info.began for info in infos if info.began is not None]
    assert all(after - first >= 1.0 for first, after in pairwise(began))
    # While a planner led, workers began none: at most one each time nobody did. And every round was fetched once.
    planned = [info.who for info in infos]
    first, last = planned.index("one"), max(i for i, who in enumerate(planned) if who)
    assert planned[first : last + 1].count("") <= 2
    assert abs(site.paths().count("/list") - len(infos)) <= 1
