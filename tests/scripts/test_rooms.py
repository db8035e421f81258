"""The rooms keep their import directions, and the check that says so can fail."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.rooms import reachable, read_table

ROOT = Path(__file__).parents[2]


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environ = {**os.environ, "PYTHONPATH": str(directory / "src"), "COLUMNS": "400"}
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and its contracts, free to be broken."""
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_the_rooms_keep_their_import_directions() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


PLANTED = {
    "errors.py": ["import gossamer.settings"],
    "settings/planted.py": ["import gossamer.frontier"],
    "frontier/planted.py": ["import gossamer.testing", "from gossamer import cli", "import scrapy.http"],
    "testing/planted.py": ["import redis.asyncio", "from twisted.internet import reactor"],
    "cli/planted.py": ["def later():\n    import redis"],
    "frontier/codec/planted.py": ["import gossamer.frontier.server"],
    "engine/http/planted.py": ["import gossamer.engine.engine"],
    "items/planted.py": [
        "from gossamer.frontier.verbs import counts",
        "from gossamer.frontier.call import function_call",
    ],
    "cellar/__init__.py": [],
}
FOUND = (
    "errors may not import settings",
    "settings may not import frontier",
    "frontier may not import testing",
    "frontier may not import cli",
    "may import redis: gossamer.testing.planted does",
    "may import redis: gossamer.cli.planted does",
    "may import scrapy",
    "may import twisted",
    "frontier.codec may not import frontier.server",
    "engine.http may not import engine",
    "may import gossamer.frontier.verbs.counts: gossamer.items.planted does",
    "may import gossamer.frontier.call: gossamer.items.planted does",
    "cellar is a room without a line",
)


def test_planted_imports_are_found(copy: Path) -> None:
    for place, lines in PLANTED.items():
        file = copy / "src" / "gossamer" / place
        file.parent.mkdir(exist_ok=True)
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text("\n".join([before, *lines, ""]), encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    said = " ".join(result.stdout.split())
    assert [each for each in FOUND if each not in said] == []


SENDS_COMMANDS = {"execute", "execute_together", "execute_everywhere"}
MAY_SEND = {
    "frontier": "it is the frontier",
    "scrapy_redis": "a project that keeps its own keys",
    "store": "SQL, not commands of a server",
    "testing": "looks at what the verbs have left",
    "doctor.py": "asks servers about themselves",
    "migrate/neocrawler/state/source.py": "reads a server that is not the frontier's",
}


def test_plain_commands_are_sent_by_the_frontier_alone() -> None:
    """Others call its verbs, or what tools have beside them: `frontier/inspection.py`, `producer.py`, `task_reports.py`."""
    package = ROOT / "src" / "gossamer"
    senders = {
        file.relative_to(package)
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in SENDS_COMMANDS
    }
    rooms = {place: [each for each in senders if each.is_relative_to(place)] for place in MAY_SEND}
    assert sorted(senders - {each for found in rooms.values() for each in found}) == []
    assert [place for place, found in rooms.items() if not found] == [], "leave out what no longer sends any"


def test_a_room_reaches_what_its_rooms_reach() -> None:
    reach = reachable(read_table(["a:", "b: a", "c: b", "d: *"]))
    assert reach == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b", "c", "d"}}


def test_rooms_that_name_each_other_end() -> None:
    assert reachable(read_table(["a: b", "b: a"])) == {"a": {"a", "b"}, "b": {"a", "b"}}


@pytest.mark.parametrize("lines", [["model errors"], ["model: errors", "model:"]])
def test_a_malformed_table_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="is not a line of the form"):
        read_table(lines)
