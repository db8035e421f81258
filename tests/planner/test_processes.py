"""`gossamer plan` as processes: one leads, another takes over when it is stopped or killed, and workers leave rounds to it."""

from __future__ import annotations

import asyncio
import json
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

from gossamer.cli import exit_codes
from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker
from gossamer.frontier import audit
from gossamer.model import Ending, LanePolicy, Request, RoundInfo, Selection, Settlement, Token
from gossamer.planner.alerts.overview import alert_overview
from gossamer.planner.overview import overview
from gossamer.registry import Registry
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


LIVE = """
    site: listed
    seeds: [SEEDS]
    schedule: {every: EVERY}
    politeness: {robots: ignore}
    layers: {list: {seen: round}}
"""


async def test_a_push_acts_within_five_seconds_and_a_removal_drains(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    """On planner and worker: the new schedule counts for the one, the new seed for the other."""
    with Site() as site, ExitStack() as stack:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        crawl.push(LIVE.replace("SEEDS", "SITE/list").replace("EVERY", "1h"))
        async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True, repeat=True))):
            await until(lambda: site.paths().count("/list") == 1)
            _, log = stack.enter_context(planner(crawl, "one"))
            await until(lambda: "(one) leads the crawl" in log.read_text())
            crawl.push(LIVE.replace("SEEDS", "SITE/list, SITE/more").replace("EVERY", "1s"))
            await until(lambda: "/more" in site.paths(), 5)
            site.hold("/list")
            held = site.paths().count("/list")
            await until(lambda: site.paths().count("/list") > held)
            environ = {**os.environ, **{key: str(value) for key, value in crawl.given.items()}}
            words = [sys.executable, "-P", "-m", "gossamer", "site", "remove", "site", "--drain", "--yes"]
            remove = stack.enter_context(subprocess.Popen(words, cwd=tmp_path, env=environ))
            stack.callback(end, remove)
            with crawl.frontier() as frontier:
                await until(lambda: [info.name for info in frontier.documents("draining")] == ["site"])
                listed = stack.enter_context(crawl.frontier())
                await until(lambda: [row.state for row in overview(listed)[1]] == ["draining"])
                number = rounds(crawl)[-1].round
                assert remove.poll() is None, "it waits for the page"
                site.release("/list")
                await until(lambda: remove.poll() is not None)
                assert remove.returncode == 0
                assert [info.deleted for kind in ("site", "draining") for info in frontier.documents(kind)] == [
                    True,
                    True,
                ]
                assert [entry.action for entry in audit.entries(frontier)] == ["remove", "drain"]
            assert rounds(crawl)[-1].round == number, "no further round has begun"


async def test_a_file_that_is_pushed_while_it_is_drained_stays(
    valkey_server: Server, crawl_name: str, tmp_path: Path
) -> None:
    """Whoever removes it is told."""
    with Site() as site, ExitStack() as stack:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        crawl.push(SITE)
        frontier = stack.enter_context(crawl.frontier())
        frontier.define("listed", {"list": LanePolicy()})
        frontier.add([Request(1, "h", "listed.list", b"")])
        environ = {**os.environ, **{key: str(value) for key, value in crawl.given.items()}}
        words = [sys.executable, "-P", "-m", "gossamer", "site", "remove", "site", "--drain", "--yes"]
        remove = stack.enter_context(subprocess.Popen(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE))
        stack.callback(end, remove)
        await until(lambda: [info.name for info in frontier.documents("draining")] == ["site"])
        assert remove.stderr is not None
        told = await asyncio.to_thread(remove.stderr.readline)
        assert b"what is left waits: listed: no worker serves it" in told
        Registry(frontier).push(frontier.document("site", "site").text, "site", who="ann")
        token = Token.fresh()
        leases = frontier.exchange(token, want=1, selection=Selection(("listed",))).leases
        frontier.exchange(token.next(), settle=[Settlement(lease, Ending.DONE) for lease in leases])
        _, said = await asyncio.to_thread(remove.communicate)
        assert [info.deleted for info in frontier.documents("site")] == [False]
        assert (remove.returncode, b"somebody pushed it while it was drained" in said) == (exit_codes.FAILED, True)


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


async def test_a_leader_killed_while_it_sends_an_alert(valkey_server: Server, crawl_name: str, tmp_path: Path) -> None:
    """The next one sends it again, with the same id; and nothing shows the address."""
    rules = "every: 1s\nclear: 0s\ngather: 0s\nrules: {paused: {for: 0s}, no_workers: {active: false}}\n"
    with Site() as site, ExitStack() as stack:
        crawl = Crawl(valkey_server, crawl_name, tmp_path, site)
        frontier = stack.enter_context(crawl.frontier())
        frontier.put_document("alert", "rules", rules)
        frontier.define("shop", {"page": LanePolicy()})
        frontier.pause(group="shop", reason="login failed: 403")
        site.hold("/SECRET")
        webhook = {"GOSSAMER_ALERT_WEBHOOK": f"{site.url}/SECRET"}
        one, one_log = stack.enter_context(planner(crawl, "one", **webhook))
        await until(lambda: len(site.paths()) > 0)
        _, other_log = stack.enter_context(planner(crawl, "other", **webhook))
        await until(lambda: "this one (other) waits" in other_log.read_text())
        one.kill()
        one.wait()
        # On a slow machine it may have given up waiting, and have sent it again itself.
        before = len(site.paths())
        await until(lambda: len(site.paths()) > before)
        site.release("/SECRET")
        await until(lambda: [message.state for message in alert_overview(frontier).messages] == ["delivered"])
        frontier.resume(group="shop")
        await until(lambda: [message.state for message in alert_overview(frontier).messages] == ["delivered"] * 2)
        *sent, last = (json.loads(visit.body) for visit in site.visits)
        logs = one_log.read_text() + other_log.read_text()
    assert len(sent) > before
    assert all(message == sent[0] for message in sent)
    assert [sent[0]["status"], last["status"]] == ["firing", "resolved"]
    assert sent[0]["id"] != last["id"]
    assert "Alert paused is firing: shop: paused: login failed: 403" in logs
    assert "SECRET" not in logs
