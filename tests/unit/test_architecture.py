"""The rooms keep their import directions, and the check that says so can fail."""

from __future__ import annotations

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


def test_an_untouched_copy_passes(copy: Path) -> None:
    assert lint(copy).returncode == 0


@pytest.mark.parametrize(
    ("place", "planted", "said"),
    [
        ("errors.py", "import gossamer.settings", "errors may not import settings"),
        ("settings.py", "import gossamer.frontier", "settings may not import frontier"),
        ("frontier/planted.py", "import gossamer.testing", "frontier may not import testing"),
        ("frontier/planted.py", "from gossamer import cli", "frontier may not import cli"),
        ("testing/planted.py", "import redis.asyncio", "may import redis: gossamer.testing.planted does"),
        ("cli/planted.py", "def later():\n    import redis", "may import redis: gossamer.cli.planted does"),
        ("frontier/planted.py", "import scrapy.http", "may import scrapy"),
        ("testing/planted.py", "from twisted.internet import reactor", "may import twisted"),
        ("cellar/__init__.py", "", "cellar is a room without a line"),
    ],
)
def test_a_planted_import_is_found(copy: Path, place: str, planted: str, said: str) -> None:
    file = copy / "src" / "gossamer" / place
    file.parent.mkdir(exist_ok=True)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(before + "\n" + planted + "\n", encoding="utf-8")
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert said in " ".join(result.stdout.split())


def test_a_room_reaches_what_its_rooms_reach() -> None:
    reach = reachable(read_table(["a:", "b: a", "c: b", "d: *"]))
    assert reach == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b", "c", "d"}}


def test_rooms_that_name_each_other_end() -> None:
    assert reachable(read_table(["a: b", "b: a"])) == {"a": {"a", "b"}, "b": {"a", "b"}}


@pytest.mark.parametrize("lines", [["model errors"], ["model: errors", "model:"]])
def test_a_malformed_table_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="is not a line of the form"):
        read_table(lines)
