"""`gossamer migrate scrapy-redis`: what it reads, writes and refuses, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gossamer.cli import main

SPIDER = b"from scrapy_redis.spiders import RedisSpider\r\n"
SETTINGS = b"SCHEDULER = 'scrapy_redis.scheduler.Scheduler'\nREDIS_URL = 'redis://cache:6379'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of its own among others that are not, outside of any repository."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "project"
    places = [
        "spider.py", ".git/hook.py", "venv/lib/x.py", "env3/x.py", "node_modules/a/x.py", "lib/site-packages/x.py", "vendor/x.py",
        "__pycache__/x.py", "build/x.py", "shop.egg-info/x.py", "notes.md",
    ]  # fmt: skip
    for place in places:
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SPIDER)
    (folder / "settings.py").write_bytes(SETTINGS)
    (folder / "env3" / "pyvenv.cfg").touch()
    (folder / "compiled.pyc").write_bytes(b"\0scrapy_redis.spiders")
    outside = tmp_path / "outside.py"
    outside.write_bytes(SPIDER)
    (folder / "linked.py").symlink_to(outside)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_written_unless_it_is_asked_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(project)
    assert main(["migrate", "scrapy-redis", str(project)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 files read: 0 places to decide, 0 that differ, 3 that move as they are",
        "--write rewrites 2 places in 2 files",
    ]
    assert contents(project) == before


def test_only_the_projects_own_files_are_written(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(project)
    (project / "spider.py").chmod(0o750)
    assert main(["migrate", "scrapy-redis", str(project), "--write"]) == 0
    said = capsys.readouterr()
    assert "rewrote 2 places in 2 files" in said.out
    assert "no git here" in said.err
    after = contents(project)
    assert {name for name in after if after[name] != before.get(name)} == {"spider.py", "settings.py"}
    assert after["spider.py"] == b"from gossamer.scrapy_redis.spiders import RedisSpider\r\n"
    assert os.stat(project / "spider.py").st_mode & 0o777 == 0o750
    assert main(["migrate", "scrapy-redis", str(project), "--write"]) == 0
    assert contents(project) == after


def test_decisions_are_told_with_line_and_remedy(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "old.py").write_text("print 'scrapy_redis'\n")
    for name in ("a.json", ".env"):
        (project / name).write_text('{"SCHEDULER": "scrapy_redis.scheduler.Scheduler"}')
    with (project / "settings.py").open("a") as file:
        file.write("SCHEDULER_SERIALIZER = 'json'\n")
    assert main(["migrate", "scrapy-redis", str(project)]) == 1
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows[1:6]] == [
        [".env:1", "decide"],
        ["a.json:1", "decide"],
        ["old.py:1", "decide"],
        ["old.py:1", "decide"],
        ["settings.py:3", "decide"],
    ]
    assert "Take it out unless the queue is shared" in rows[5][3]
    assert main(["migrate", "scrapy-redis", str(project), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    [found] = [each for each in said["findings"] if each["code"] == "serializer"]
    assert {"path": "settings.py", "line": 3, "verdict": "decide"}.items() <= found.items()
    assert said["edits"][-1] == {"path": "spider.py", "line": 1, "old": "scrapy_redis", "new": "gossamer.scrapy_redis"}
    assert (said["written"], "vendor" in said["skipped"]) == (False, True)


def test_uncommitted_changes_are_not_mixed_with_ours(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *words], cwd=project, check=True, capture_output=True)

    (project / ".git" / "hook.py").unlink()
    git("init", "-q")
    git("add", "--all")
    git("commit", "-q", "-m", "as it was")
    (project / "notes.py").write_text("x = 1\n")
    (project / "spider.py").write_bytes(SPIDER + b"x = 1\n")
    before = contents(project)
    assert main(["migrate", "scrapy-redis", str(project), "--write"]) != 0
    assert "not committed all of the files that would be rewritten: spider.py. " in capsys.readouterr().err, (
        "only these"
    )
    assert contents(project) == before
    assert main(["migrate", "scrapy-redis", str(project / "settings.py"), "--write"]) == 0, (
        "a file that git knows as it is"
    )
    assert main(["migrate", "scrapy-redis", str(project), "--write", "--allow-dirty"]) == 0
    assert b"gossamer" in (project / "spider.py").read_bytes()


def test_a_path_that_is_not_there_and_a_project_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "scrapy-redis", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "a.py").write_text("x = 1\n")
    assert main(["migrate", "scrapy-redis", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "nothing of scrapy-redis found in 1 file\n"
