"""A page of the documentation as a session in one shell: its files are written, its commands run, what they print compared.

A block `console` has commands behind `$ ` and below each what it prints. Any other block that follows a name in backquotes and a
colon is a file. Where a page cannot know what is printed, it says so: `…` in a line stands for anything, as a line of its own
for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.quick_commands import COMMANDS, quick_commands

from gossamer.testing.process import free_port

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`([\w./-]+)`(?: is now)?:\s*\Z")
MARK = "\x1e"


class Step(NamedTuple):
    """One command and what the page says that it prints."""

    command: str
    printed: list[str]


class File(NamedTuple):
    path: str
    text: str


def steps(page: str) -> list[Step | File]:
    found: list[Step | File] = []
    for block in FENCE.finditer(page):
        kind, text = block.groups()
        if kind == "console":
            for line in text.splitlines():
                if line.startswith("$ "):
                    found.append(Step(line[2:], []))
                else:
                    last = found[-1]
                    assert isinstance(last, Step), f"output without a command: {line}"
                    last.printed.append(line)
        elif named := FILE.search(page[: block.start()]):
            found.append(File(named[1], text))
        else:
            raise AssertionError(f"a block of kind {kind} is neither a session nor a named file:\n{text}")
    return found


def script(session: list[Step | File]) -> str:
    """The session for bash, with a mark and a number before what each command prints."""
    lines = ["set -m", "trap 'kill $(jobs -p) 2> /dev/null' EXIT"]
    for number, step in enumerate(session):
        if isinstance(step, File):
            lines += [
                f"mkdir -p $(dirname {step.path})",
                f"cat > {step.path} <<'END OF FILE'",
                step.text + "END OF FILE",
            ]
        else:
            lines += [f"printf '\\036{number}\\n'", step.command]
    return "\n".join([*lines, f"printf '\\036{len(session)}\\n'", ""])


def play(session: list[Step | File], directory: Path, environ: dict[str, str], seconds: float) -> dict[int, list[str]]:
    """The lines that each command printed, by its place in the session."""
    (directory / "session.sh").write_text(script(session), "utf-8")
    done = subprocess.run(
        ["timeout", str(seconds), "bash", "session.sh"],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    parts = done.stdout.split(MARK)[1:]
    whole = bool(parts) and parts[-1].strip() == str(len(session))
    assert whole, f"it broke off: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    found = {}
    for part in parts[:-1]:
        number, _, printed = part.partition("\n")
        found[int(number)] = [line.rstrip() for line in printed.splitlines()]
    return found


def follow(page: Path, port: str, directory: Path, varies: Mapping[str, re.Pattern[str]]) -> None:
    """Do what a page says, on a free port instead of the one it names; AssertionError where it prints something else.

    `varies` says, for commands that begin so, what is another word each time.
    """
    free = str(free_port())
    session = [_elsewhere(step, port, free) for step in steps(page.read_text("utf-8"))]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GOSSAMER_", "SCRAPY_"))}
    for command in COMMANDS:
        assert (Path(sys.executable).parent / command).exists(), f"{command} is not beside this Python"
    with quick_commands() as quick:
        environ["PATH"] = os.pathsep.join([*quick, str(Path(sys.executable).parent), environ["PATH"]])
        printed = play(session, directory, environ, 400)
    for number, step in enumerate(session):
        if isinstance(step, Step):
            said = step.printed
            for command, other in varies.items():
                if step.command.startswith(command):
                    said = [other.sub("…", line) for line in said]
            assert agrees(said, printed[number]), (step.command, said, printed[number])


def _elsewhere(step: Step | File, port: str, free: str) -> Step | File:
    if isinstance(step, File):
        return File(step.path, step.text.replace(port, free))
    return Step(step.command.replace(port, free), [line.replace(port, free) for line in step.printed])


def agrees(said: list[str], printed: list[str]) -> bool:
    """Whether the page's lines are those printed. Tables are drawn otherwise on a terminal than into a pipe: spaces and capitals do
    not count."""
    pattern = "".join("(?:.*\n)*?" if line == "…" else _line(line) + "\n" for line in said)
    text = "".join(f"{' '.join(line.split())}\n" for line in printed)
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
