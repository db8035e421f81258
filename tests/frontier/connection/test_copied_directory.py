"""A copied data directory has a server of its own: nothing that is done there reaches the original."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.frontier.connection.test_embedded import GRACE, User, gone, settings, until

from gossamer.frontier.connection import connect
from gossamer.frontier.connection.embedded import attach
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import LanePolicy
from gossamer.settings import load

Copy = Callable[[Path, Path], object]


def by_cp(*options: str) -> Copy:
    return lambda original, copy: subprocess.run(["cp", *options, original, copy], check=True)


def by_tar(original: Path, copy: Path) -> None:
    copy.mkdir()
    packed = subprocess.run(["tar", "-C", original, "-cf", "-", "."], check=True, capture_output=True)
    subprocess.run(["tar", "-C", copy, "-xf", "-"], check=True, input=packed.stdout)


COPIES: dict[str, Copy] = {"cp -r": by_cp("-r"), "cp -a": by_cp("-a"), "tar": by_tar, "cp -al": by_cp("-al")}
if sys.platform != "linux":
    del COPIES["cp -al"]


@pytest.fixture(params=["short", "too long for a socket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the directories of a test are; their servers are gone at its end."""
    folder = tmp_path if request.param == "short" else tmp_path / ("d" * 110)
    folder.mkdir(exist_ok=True)
    yield folder
    for state in folder.glob("*/state.json"):
        noted = json.loads(state.read_bytes())
        until(lambda noted=noted, state=state: gone(noted["supervisor"]) or not state.exists())  # type: ignore[misc]


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_running_directory_gets_a_server_of_its_own(place: Path, how: str) -> None:
    prod, test = place / "prod", place / "test"
    with connect(settings(prod)) as original:
        original.execute("SET", "k", "of both")
        COPIES[how](prod, test)
        with connect(settings(test)) as copy:
            assert copy.execute("GET", "k") == b"of both"
            copy.execute("SET", "k", "of the copy")
            original.execute("SET", "other", "of the original")
            assert original.execute("GET", "k") == b"of both"
            assert copy.execute("GET", "other") is None
            with attach(prod) as one, attach(test) as other:
                assert one.pid != other.pid
                assert one.supervisor_pid != other.supervisor_pid
                assert one.alive()
        assert original.execute("GET", "k") == b"of both"
        ended = json.loads((test / "state.json").read_bytes())
        until(lambda: gone(ended["supervisor"]))
        assert original.execute("GET", "k") == b"of both", "the copy's end is not the original's"
    ended = json.loads((prod / "state.json").read_bytes())
    until(lambda: gone(ended["supervisor"]))
    with connect(settings(prod)) as original, connect(settings(test)) as copy:
        assert [original.execute("GET", "k"), original.execute("GET", "other")] == [b"of both", b"of the original"]
        assert [copy.execute("GET", "k"), copy.execute("GET", "other")] == [b"of the copy", None]


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_directory_at_rest_shares_nothing(place: Path, how: str) -> None:
    prod, test = place / "prod", place / "test"
    with connect(settings(prod)) as original:
        original.execute("SET", "k", "of both")
        supervisor = json.loads((prod / "state.json").read_bytes())["supervisor"]
    until(lambda: gone(supervisor))
    COPIES[how](prod, test)
    with connect(settings(test)) as copy, connect(settings(prod)) as original:
        copy.execute("SET", "k", "of the copy")
        assert original.execute("GET", "k") == b"of both"
        supervisors = [json.loads((path / "state.json").read_bytes())["supervisor"] for path in (prod, test)]
    until(lambda: all(map(gone, supervisors)))
    with connect(settings(prod)) as original:
        assert original.execute("GET", "k") == b"of both"
        assert original.execute("DBSIZE") == 1


@pytest.mark.parametrize("how", COPIES)
def test_many_processes_in_a_fresh_copy_share_one_server_that_is_not_the_originals(place: Path, how: str) -> None:
    prod, test = place / "prod", place / "test"
    with attach(prod, grace_seconds=GRACE) as original:
        COPIES[how](prod, test)
        users = [User(path) for path in (test, prod, test, test, prod, test)]
        pids = [user.pids() for user in users]
        assert {pids[1], pids[4]} == {(original.pid, original.supervisor_pid)}
        assert len({pids[0], pids[2], pids[3], pids[5]}) == 1
        assert pids[0] not in (pids[1], pids[4])
        for user in users:
            user.leave()
        until(lambda: gone(pids[0][1]))
        assert original.alive()


def test_one_directory_by_several_names_has_one_server(tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    (tmp_path / "link").symlink_to(prod)
    prod.mkdir()
    with attach(prod) as one, attach(tmp_path / "link") as other, attach(tmp_path / "link" / ".." / "prod") as third:
        assert one.pid == other.pid == third.pid
    until(lambda: gone(one.supervisor_pid))


@pytest.mark.parametrize("how", COPIES)
def test_a_directory_that_was_moved_and_copied_back_is_served_by_itself(place: Path, how: str) -> None:
    """The names of the original lead to the copy now, at once, before anybody can have noticed."""
    prod, moved = place / "prod", place / "moved"
    with connect(settings(prod)) as before:
        before.execute("SET", "k", "of both")
        noted = json.loads((prod / "state.json").read_bytes())
        prod.rename(moved)
        COPIES[how](moved, prod)
        with connect(settings(prod)) as copy:
            copy.execute("SET", "k", "of the copy")
            until(lambda: gone(noted["supervisor"]) and gone(noted["pid"]))
            with connect(settings(moved)) as original:
                assert original.execute("GET", "k") == b"of both"
                assert copy.execute("GET", "k") == b"of the copy"
    until(lambda: not list(place.glob("*/state.json")))


def test_a_supervisor_of_the_version_before_is_joined_where_it_serves_this_directory(tmp_path: Path) -> None:
    """It says nothing of its directory, neither in its state nor in its answer."""
    prod, test = tmp_path / "prod", tmp_path / "test"
    prod.mkdir()
    control = str(prod / "supervisor.sock")
    (prod / "state.json").write_text(json.dumps({"control": control, "pid": 1, "supervisor": 1}))
    shutil.copytree(prod, test)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(control)
        listener.listen()
        children = [User(prod)]
        line, _ = listener.accept()
        line.sendall(json.dumps({"socket": "x", "pid": 7, "supervisor": 8}).encode() + b"\n")
        assert children[0].pids() == (7, 8)
        with attach(test, grace_seconds=0) as copy:
            assert copy.pid != 7
        children[0].leave()
        line.close()
    until(lambda: gone(copy.supervisor_pid))


def test_what_is_dropped_in_a_copied_project_stays_in_the_original(tmp_path: Path) -> None:
    prod, test = tmp_path / "prod", tmp_path / "test"
    prod.mkdir()
    (prod / "scrapy.cfg").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    chosen = load({"GOSSAMER_DATA_DIR": str(prod / ".gossamer"), "GOSSAMER_GRACE_SECONDS": GRACE}, {})

    def gossamer(*words: str, cwd: Path) -> str:
        command = [sys.executable, "-m", "gossamer", *words]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with ValkeyFrontier.open(chosen) as frontier:
        frontier.define("shop", {"all": LanePolicy()})
        shutil.copytree(prod, test, ignore=lambda folder, names: [name for name in names if name.endswith(".sock")])
        gossamer("group", "drop", "shop", "--yes", cwd=test)
        assert "shop" not in gossamer("group", "list", cwd=test)
        assert "shop" in gossamer("group", "list", cwd=prod)
        assert [row.group for row in frontier.counts().groups] == ["shop"]
    until(lambda: not list(tmp_path.glob("*/.gossamer/state.json")))
