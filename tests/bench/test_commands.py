"""Every command of `bench` and `scripts` that a page or a program's own text names starts, and has the options that are named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"python ((?:-m bench\.|bench/|scripts/chaos/|scripts/mutants)[a-z_/.]+)((?: +[^`#|\n]+)?)")
OPTION = re.compile(r"--[a-z][a-z-]*")
APART = frozenset({"bench/peer/crawlee_walker.py", "bench/peer/feapder_walker.py", "-m bench.crawls.question_spiders"})
"""Called by `bench/crawl.py` and `bench/questions.py` alone; the first two by interpreters with the peers' packages."""


def _texts() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [*pages, *(ROOT / "bench").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"), ROOT / "Makefile"]


def _commands() -> dict[str, set[str]]:
    """The options that are named somewhere, by program as it is called."""
    commands: dict[str, set[str]] = {}
    for path in _texts():
        for program, arguments in COMMAND.findall(path.read_text()):
            # What follows two spaces explains the command; what follows ` -- ` is another command's.
            arguments = re.split(r"\S\s{2,}| -- ", arguments.strip())[0]
            commands.setdefault(program.rstrip("."), set()).update(OPTION.findall(arguments))
    return commands


COMMANDS = _commands()


def test_all_programs_are_named_and_all_that_are_named_exist() -> None:
    named = {
        f"{program.removeprefix('-m ').replace('.', '/')}.py" if program.startswith("-m ") else program
        for program in COMMANDS
    }
    programs = {
        str(file.relative_to(ROOT))
        for folder in ("bench", "scripts/chaos")
        for file in (ROOT / folder).rglob("*.py")
        if "ArgumentParser(" in file.read_text()
    }
    assert sorted(file for file in named if not (ROOT / file).is_file()) == []
    assert sorted(programs - named) == []


@pytest.mark.timeout(300)
def test_every_program_starts_and_has_the_options_that_are_named() -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")}

    def failure(program: str) -> str:
        words = [sys.executable, *program.split(), "--help"]
        done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=250)
        if done.returncode or "usage:" not in done.stdout:
            return f"python {program} --help: {done.returncode} {done.stderr[-500:]}"
        unknown = COMMANDS[program] - set(OPTION.findall(done.stdout))
        return f"python {program} has no {', '.join(sorted(unknown))}" if unknown else ""

    with ThreadPoolExecutor(2) as pool:
        failures = pool.map(failure, sorted(set(COMMANDS) - APART))
    assert [line for line in failures if line] == []
