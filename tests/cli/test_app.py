"""The frame of the command line: how commands are found, how they speak and how they end."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from gossamer import __version__
from gossamer.cli import app, exit_codes, main, options, output
from gossamer.errors import FrontierUnavailable, SettingError
from gossamer.settings import SETTINGS

GOSSAMER = [sys.executable, "-c", "import sys; from gossamer.cli import main; sys.exit(main())"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("GOSSAMER_"):
            monkeypatch.delenv(name)


Plant = Callable[[Callable[..., object]], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Give the command line a noun `planted` that does what the test says."""

    def add(body: Callable[..., object]) -> None:
        module = types.ModuleType("gossamer_planted")
        module.app = options.Noun()  # type: ignore[attr-defined]
        module.app.command()(body)
        monkeypatch.setitem(sys.modules, "gossamer_planted", module)
        monkeypatch.setattr(app, "NOUNS", {**app.NOUNS, "planted": "gossamer_planted"})

    return add


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gossamer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_noun(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {noun} " in shown for noun in app.NOUNS)


def test_no_line_of_help_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.endswith("...") and "Usage" not in line] == []


@pytest.mark.parametrize("noun", app.NOUNS)
def test_every_noun_has_help(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([noun, "--help"]) == 0
    assert f"Usage: gossamer {noun}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "usage", "argument"),
    [
        (["site", "check"], "{FILE}...", "FILE  Site files, or folders of them."),
        (["work"], "[SPIDER]", "SPIDER  A spider's name"),
        (["round", "list"], "{GROUP}", "GROUP  The spider or the site"),
    ],
)
def test_help_names_arguments_in_words_of_users(
    command: list[str], usage: str, argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: gossamer {' '.join(command)} [OPTIONS] {usage}\n" in shown
    assert f"\n  {argument}" in shown


def test_importing_the_command_line_imports_no_client_and_no_drawing() -> None:
    code = "import sys, gossamer.cli; print([m for m in ('redis', 'rich', 'scrapy', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["setings"], "error: No such command 'setings'. Did you mean 'settings'? See `gossamer --help`.\n"),
        (["settings", "--nope"], "error: No such option: --nope. See `gossamer settings --help`.\n"),
        (["settings", "--url"], "error: Option '--url' requires an argument. See `gossamer --help`.\n"),
    ],
)
def test_a_misuse_is_one_line_and_exit_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == exit_codes.MISUSED
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_our_errors_are_one_line_with_their_exit_code(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        raise FrontierUnavailable("nobody answers\nat \x1b[31mhost")

    plant(body)
    assert main(["planted"]) == 3
    assert capsys.readouterr().err == "error: nobody answers at \\x1b[31mhost\n"


def test_a_traceback_is_shown_when_asked_for(
    plant: Plant, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def body() -> None:
        raise SettingError("no")

    plant(body)
    monkeypatch.setenv("GOSSAMER_TRACEBACK", "1")
    assert main(["planted"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("\nerror: no\n")


def test_a_traceback_is_shown_even_when_another_setting_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_TRACEBACK", "1")
    monkeypatch.setenv("GOSSAMER_PARTITIONS", "0")
    assert main(["settings"]) == 2
    assert capsys.readouterr().err.startswith("Traceback")


def test_a_bug_is_one_line_and_exit_70(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        raise ZeroDivisionError("division by zero")

    plant(body)
    assert main(["planted"]) == exit_codes.BUG
    said = capsys.readouterr().err
    assert said.startswith("error: unforeseen ZeroDivisionError: division by zero.")
    assert said.count("\n") == 1


def test_a_file_that_cannot_be_opened_is_no_bug() -> None:
    code = """
import sys, types
from gossamer.cli import app, main, options
module = sys.modules["planted"] = types.ModuleType("planted")
module.app = options.Noun()
module.app.command()(lambda: open("absent.jsonl"))
app.NOUNS = {"planted": "planted"}
sys.exit(main(["planted"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.FAILED, "error: absent.jsonl: No such file or directory.\n")


def test_a_question_refused_is_exit_1(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        raise typer.Abort

    plant(body)
    assert main(["planted"]) == exit_codes.FAILED
    assert capsys.readouterr().err == "error: stopped at the question; nothing was changed.\n"


def test_an_exit_code_of_a_command_is_kept(plant: Plant) -> None:
    def body() -> None:
        raise typer.Exit(1)

    plant(body)
    assert main(["planted"]) == 1


def test_ctrl_c_is_one_line_and_exit_130(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        signal.raise_signal(signal.SIGINT)

    plant(body)
    assert main(["planted"]) == exit_codes.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


INTERRUPTED_WHILE_FREEING = """
import signal, sys, time
from gossamer.cli import app, main, options

app.INTERRUPT_AGAIN_SECONDS = 0  # As soon as it may.

class Freed:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def load(url, crawl):
    Freed()
    time.sleep(20)

options.load_settings = load
sys.exit(main())
"""


def test_ctrl_c_is_not_lost_when_it_comes_while_an_object_is_freed() -> None:
    words = [sys.executable, "-c", INTERRUPTED_WHILE_FREEING, "settings"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stdout, ended.stderr) == (exit_codes.INTERRUPTED, "", "interrupted\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = subprocess.run([*GOSSAMER, "settings"], stdout=pipe, stderr=subprocess.PIPE, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.PIPE_CLOSED, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*GOSSAMER, "settings"], stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (exit_codes.FAILED, b"error: No space left on device.\n")


def test_settings_lists_all_with_value_and_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_CRAWL", "news")
    assert main(["settings", "--json", "--url", "redis://ann:hush@host"]) == 0
    listed = {entry.pop("name"): entry for entry in json.loads(capsys.readouterr().out)}
    assert list(listed) == [setting.name for setting in SETTINGS]
    assert (listed["GOSSAMER_URL"]["value"], listed["GOSSAMER_URL"]["source"]) == ("redis://***@host", "command line")
    assert (listed["GOSSAMER_CRAWL"]["value"], listed["GOSSAMER_CRAWL"]["source"]) == ("news", "environment")
    assert listed["GOSSAMER_PARTITIONS"]["source"] == "default"
    assert all(entry["help"] for entry in listed.values())


def test_off_a_terminal_a_table_is_tab_separated_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_table(("url", "note"), [("http://h/" + "x" * 500, "a\tb\nc\x1b[2J"), ("[red]u", None)])
    lines = capsys.readouterr().out.split("\n")
    assert lines == ["URL\tNOTE", "http://h/" + "x" * 500 + "\ta\\tb\\nc\\x1b[2J", "[red]u\t", ""]


def test_on_a_terminal_a_table_is_drawn_and_brackets_stay() -> None:
    code = "from gossamer.cli import output; output.write_table(('url',), [('http://[::1]/[red]',)])"
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", code], stdout=theirs, timeout=30, check=True)
        shown = os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"http://[::1]/[red]" in shown
    assert b"URL" not in shown


def drawn(
    width: int, columns: tuple[str, ...], rows: list[tuple[object, ...]], optional: tuple[str, ...] = ()
) -> list[str]:
    """The lines of a table on a terminal so wide."""
    return shown_on_a_terminal(
        width, f"from gossamer.cli import output; output.write_table({columns!r}, {rows!r}, {optional!r})"
    )


def shown_on_a_terminal(width: int, code: str) -> list[str]:
    """What code writes to a terminal so wide, by line."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    try:
        plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        subprocess.run(
            [sys.executable, "-c", code],
            stdin=theirs,
            stdout=theirs,
            timeout=30,
            check=True,
            env={**plain, "TERM": "xterm"},
        )
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m|\r", "", shown).splitlines()]


def test_a_narrow_terminal_goes_without_columns_that_matter_less() -> None:
    columns = ("site", "state", "next", "waiting", "by depth")
    rows: list[tuple[object, ...]] = [("forum.example", "paused", "login failed: 403 Forbidden", 3, "0: 1, 1: 2")]
    assert "by depth" in drawn(80, columns, rows, ("by depth", "next"))[0]
    assert drawn(60, columns, rows, ("by depth", "next")) == [
        "site           state   next                         waiting",
        "forum.example  paused  login failed: 403 Forbidden        3",
        "no room for: by depth; a wider terminal and --json have them",
    ]
    folded = drawn(52, columns, rows, ("by depth", "next"))
    assert (folded[1].split()[-1], folded[2].strip()) == ("3", "Forbidden"), "a long text is folded instead"


def test_no_word_is_divided_where_another_column_can_be_folded() -> None:
    columns = ("spider", "next", "tasks")
    rows: list[tuple[object, ...]] = [
        ("guide", "in an hour or two, or on the day after", "guide:start_urls: .gossamer/tasks.csv"),
        ("b", "the tasks cannot be read, and nothing else is wrong", "b:start_urls: /var/lib/spiders/tasks.csv"),
    ]
    for width in (62, 50, 46):
        lines = drawn(width, columns, rows)
        assert max(map(len, lines)) <= width
        words = {word for line in lines for word in line.split()}
        assert words >= {".gossamer/tasks.csv", "/var/lib/spiders/tasks.csv", "guide:start_urls:", "cannot"}
    lines = drawn(30, columns, rows)
    assert max(map(len, lines)) <= 30
    assert "/var/lib/spiders/tasks.csv" not in " ".join(lines), "if nothing else is left, it is"
    assert "cannot" in " ".join(lines)


def test_long_lines_are_wrapped_on_a_terminal_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    text = "  due        2026-11-17 23:03:14 UTC (in 2 min), every 4 min 30 s, as " + "x" * 50
    code = f"from gossamer.cli import output; output.write_wrapped({text!r}, 13)"
    assert shown_on_a_terminal(40, code) == [
        "  due        2026-11-17 23:03:14 UTC (in",
        "             2 min), every 4 min 30 s,",
        "             as",
        " " * 13 + "x" * 50,
    ]
    output.write_wrapped(text, 13)
    assert capsys.readouterr().out == f"{text}\n"


def test_on_a_narrow_terminal_columns_that_say_nothing_are_left_out() -> None:
    columns = ("lane", "queued", "retried", "failed", "paused")
    rows: list[tuple[object, ...]] = [("forum.comments", 3, 0, 7, ""), ("forum.posts", 0, 0, 12, "")]
    assert drawn(80, columns, rows)[0].split() == list(columns)
    assert drawn(40, columns, rows) == [
        "lane            queued  retried  failed",
        "forum.comments       3        0       7",
        "forum.posts          0        0      12",
        "empty or 0, and not shown: paused",
    ]
    assert drawn(38, columns, rows) == [
        "lane            queued  failed",
        "forum.comments       3       7",
        "forum.posts          0      12",
        "empty or 0, and not shown: retried,",
        "paused",
    ]
    noted: list[tuple[object, ...]] = [("forum.comments", 3, 5, 7, "for some reason that is long")]
    assert drawn(60, columns, noted)[1].startswith("forum.comments       3        5       7  for some reason")


def test_text_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    output.write_line("lane of “posts”")
    output.write_json({"name": "“posts”"})
    sys.stdout.flush()
    assert buffer.getvalue() == b'lane of \\u201cposts\\u201d\n{\n  "name": "\\u201cposts\\u201d"\n}\n'
