"""`gossamer top`: a crawl as it goes, on a terminal and off it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.busy_crawl import GOSSAMER, Busy, environment, run, settings_for
from tests.support.fork_server import Program

from gossamer.cli.view import top_screen
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy, Request, Selection, Token
from gossamer.status.overview import Overview, overview
from gossamer.status.rates import Rates
from gossamer.testing.clock import advance
from gossamer.testing.servers import Server


@pytest.fixture
def busy(valkey_server: Server, crawl_name: str) -> Iterator[Busy]:
    with ValkeyFrontier.open(settings_for(valkey_server.url, crawl_name)) as frontier:
        yield Busy(frontier)


def drawn(view: Overview, rates: Rates, width: int = 120, height: int = 50, trouble: str = "") -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    with console.capture() as capture:
        console.print(top_screen.picture(view, rates, "redis://h", console, trouble))
    return [line.rstrip() for line in capture.get().split("\n")]


class Terminal:
    """`gossamer top` on a terminal of its own."""

    def __init__(self, server: Server, crawl: str, cwd: Path, *words: str) -> None:
        self.ours, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (40, 120))
        self.before = termios.tcgetattr(self.theirs)
        self.child = subprocess.Popen(
            [*GOSSAMER, "top", "--url", server.url, "--crawl", crawl, "--every", "0.2", *words],
            cwd=cwd,
            env=environment(TERM="xterm-256color"),
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
        )
        self.shown = b""

    def until(self, text: str, seconds: float = 60) -> None:
        """Wait until the text was shown after what was waited for last."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(re.escape(text.encode()), self.shown)):
            ready, _, _ = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown: {self.shown.decode(errors='replace')}"
            self.shown += os.read(self.ours, 65536)
        self.shown = self.shown[found.end() :]

    def ended(self) -> int:
        while self.child.poll() is None:
            # What it still writes must be read, or it waits for ever.
            ready, _, _ = select.select([self.ours], [], [], 0.05)
            if ready:
                self.shown += os.read(self.ours, 65536)
        return self.child.returncode

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.mark.parametrize("how", ["q", "ctrl-c", "sigterm"])
def test_a_screen_that_ends_cleanly(valkey_server: Server, busy: Busy, tmp_path: Path, how: str) -> None:
    terminal = Terminal(valkey_server, busy.frontier.crawl, tmp_path)
    try:
        terminal.until("\x1b[?1049h")
        terminal.until("news.list")
        terminal.until("crawler-1")
        terminal.until("q ends")
        if how == "q":
            os.write(terminal.ours, b"xq")
        else:
            terminal.child.send_signal(signal.SIGINT if how == "ctrl-c" else signal.SIGTERM)
        assert terminal.ended() == 0
        terminal.until("\x1b[?1049l")
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()


def test_the_screen_renews_itself_and_waits_for_a_frontier_that_is_away(tmp_path: Path, crawl_name: str) -> None:
    with (
        Server().start(fsync="always") as server,
        ValkeyFrontier.open(settings_for(server.url, crawl_name)) as frontier,
    ):
        frontier.define("g", {"first": LanePolicy()})
        terminal = Terminal(server, crawl_name, tmp_path)
        try:
            terminal.until("g.first")
            frontier.define("g", {"second": LanePolicy()})
            terminal.until("g.second")
            server.kill()
            terminal.until("not the newest")
            server.restart()
            frontier.define("g", {"third": LanePolicy()})
            terminal.until("g.third")
            os.write(terminal.ours, b"q")
            assert terminal.ended() == 0
        finally:
            terminal.close()


def test_off_a_terminal_it_is_a_line_at_each_look(valkey_server: Server, busy: Busy, tmp_path: Path) -> None:
    where = ("--url", valkey_server.url, "--crawl", busy.frontier.crawl)
    said = run("top", *where, "--every", "0.1", "--count", "3", cwd=tmp_path).stdout.splitlines()
    assert len(said) == 3
    for line in said:
        assert re.fullmatch(
            rf"\d\d:\d\d:\d\d {busy.frontier.crawl}: 0 pages/s, 0 items/s, 0 B/s received, 45 queued, 1 delayed, 3 leased, "
            r"3 tasks, 1 worker, 1 dead, 2 blocked",
            line,
        )


def test_the_first_line_has_a_rate(valkey_server: Server, busy: Busy, tmp_path: Path) -> None:
    words = ["top", "--url", valkey_server.url, "--crawl", busy.frontier.crawl, "--count", "1"]
    with Program("gossamer", words, environment(), tmp_path) as top:
        while top.poll() is None:
            busy.work()
            with contextlib.suppress(subprocess.TimeoutExpired):
                top.wait(0.05)
        said = top.output()
    assert re.search(r": [\d.,]*[1-9][\d.,]* pages/s", said), said


def test_json_is_a_document_per_line(valkey_server: Server, busy: Busy, tmp_path: Path) -> None:
    where = ("--url", valkey_server.url, "--crawl", busy.frontier.crawl)
    said = run("top", "--json", *where, "--every", "0.1", "--count", "2", cwd=tmp_path).stdout.splitlines()
    told = [json.loads(line) for line in said]
    assert [each["crawl"] for each in told] == [busy.frontier.crawl] * 2
    assert told[1]["rates"]["pages"] == {"news.list": 0.0, "news.post": 0.0, "shop.all": 0.0}


def test_a_crawl_that_does_not_exist_is_an_error(valkey_server: Server, tmp_path: Path, crawl_name: str) -> None:
    said = run("top", "--url", valkey_server.url, "--crawl", crawl_name, cwd=tmp_path, code=2).stderr
    assert said.startswith(f"error: there is no crawl {crawl_name!r}")


def test_rates_are_what_changed_per_second(busy: Busy) -> None:
    rates = Rates()
    first = overview(busy.frontier)
    rates.take(first)
    assert rates.of("pages", ["news.list"]) == 0
    busy.work(8)
    second = overview(busy.frontier)._replace(now=first.now + 4)
    rates.take(second)
    assert rates.of("pages", ["news.list", "news.post"]) == 2.0
    assert rates.of("items", ["news"]) == 2.0
    assert rates.of("bytes", ["news"]) == 1800.0
    rates.take(first._replace(now=first.now + 60))
    assert rates.of("pages", ["news.list"]) == 0, "a lane that was dropped and made again stands still"


def test_only_the_last_seconds_count(busy: Busy) -> None:
    rates, view = Rates(window=10), overview(busy.frontier)
    rates.take(view)
    busy.work(5)
    worked = overview(busy.frontier)
    for seconds in range(5, 30, 5):
        rates.take(worked._replace(now=view.now + seconds))
    assert rates.of("pages", ["news.list"]) == 0


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 24), (80, 24), (120, 40), (200, 60)])
def test_the_picture_fits_and_no_number_is_cut(busy: Busy, width: int, height: int) -> None:
    for number in range(12):
        busy.frontier.define(f"site{number}", {name: LanePolicy() for name in ("list", "post")})
        busy.frontier.exchange(Token.fresh(), info={"host": f"a-machine-with-a-name-{number}", "pid": "1"})
    lines = drawn(overview(busy.frontier), Rates(), width, height)
    assert max(map(len, lines)) <= width
    if height >= 24:
        assert len(lines) <= height + 1
        assert [line for line in lines if line.startswith("q ends")]
    assert not [line for line in lines if re.search(r"\d…", line)]
    [news] = [line for line in lines if line.startswith("news.list")]
    assert " 45 " in news


def test_hostile_names_are_shown_as_text(busy: Busy) -> None:
    busy.frontier.exchange(Token.fresh(), info={"name": "\x1b[2J[red]x"})
    busy.frontier.block("[red]host", 9000, "[bold]why\n")
    shown = "\n".join(drawn(overview(busy.frontier), Rates()))
    assert "\\x1b[2J[red]x" in shown
    assert "[red]host" in shown
    assert "[bold]why\\n" in shown


def test_trouble_pause_and_drained_are_said(busy: Busy) -> None:
    busy.frontier.define("empty", {"a": LanePolicy()})
    busy.frontier.pause(reason="at night")
    shown = "\n".join(drawn(overview(busy.frontier), Rates(), trouble="nobody answers"))
    assert "PAUSED: at night" in shown
    assert "not the newest: nobody answers" in shown
    assert re.search(r"empty .* drained", shown)
    assert re.search(r"shop .* paused: closed for today", shown)


@pytest.mark.parametrize(
    ("wanted", "room", "granted"),
    [
        ([2, 3], 10, [2, 3]),
        ([20, 2], 10, [8, 2]),
        ([20, 20], 10, [5, 5]),
        ([20, 1, 20], 11, [5, 1, 5]),
        ([20, 0], 5, [5, 0]),
        ([20, 20], 0, [3, 3]),
        ([], 5, []),
    ],
)
def test_tables_share_the_screen(wanted: list[int], room: int, granted: list[int]) -> None:
    assert top_screen.shares(wanted, room) == granted


def test_what_silent_workers_hold_is_told_and_one_that_ended_is_not_called_silent(
    valkey_server: Server, crawl_name: str
) -> None:
    ended, killed = Token.fresh(), Token.fresh()
    with ValkeyFrontier.open(settings_for(valkey_server.url, crawl_name)) as frontier:
        frontier.define("held", {"a": LanePolicy()})
        frontier.add([Request(number, f"h{number}.example", "held.a", b"x") for number in range(3)])
        selection = Selection(("held",))
        leases = frontier.exchange(killed, want=2, selection=selection, info={"name": "killed"}).leases
        frontier.exchange(ended, want=1, selection=selection, info={"name": "ended", "closed": "1"})
        advance(frontier, 19)
        view, rates = overview(frontier), Rates()
        rates.take(view)
        assert len(leases) == 2
        assert view.stranded == "2 held by a worker silent for 19 s, back in 41 s"
        assert view.stranded in top_screen.line(view, rates)
        assert any(view.stranded in line for line in drawn(view, rates))
        advance(frontier, 20)
        rows = {line.split()[0]: line.split()[-1] for line in drawn(overview(frontier), rates) if line.strip()}
        assert (rows["killed"], rows["ended"]) == ("silent", "ended")
