"""Random histories of project folders: they are copied, moved, opened and closed, their servers are killed, and what is written or dropped in
one is never seen in another. MACHINE_FACTOR: so many times as many histories."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.frontier.connection.test_copied_directory import COPIES
from tests.frontier.connection.test_embedded import gone, settings, until

from gossamer.errors import FrontierUnavailable
from gossamer.frontier.connection import Connection, connect

SEEDS = range(2 * int(os.environ.get("MACHINE_FACTOR", "1")))
STEPS, FOLDERS = 14, 4
KEYS = ("a", "b", "c")


class Folders:
    """`has` is what each folder is to have; those that are open have a connection."""

    def __init__(self, place: Path, choice: random.Random) -> None:
        self.place, self.choice = place, choice
        self.has: dict[str, dict[str, str]] = {"f0": {}}
        self.open: dict[str, Connection] = {}
        self.story: list[str] = []
        self.written = 0

    def close(self) -> None:
        for connection in self.open.values():
            connection.close()
        for state in self.place.glob("*/state.json"):
            with suppress(FileNotFoundError):
                supervisor = json.loads(state.read_bytes())["supervisor"]
                until(lambda supervisor=supervisor, state=state: gone(supervisor) or not state.exists())  # type: ignore[misc]

    def step(self) -> None:
        name = self.choice.choice([*self.has])
        match self.choice.choice(["write", "write", "drop", "copy", "copy", "close", "kill", "back"]):
            case "write":
                key, self.written = self.choice.choice(KEYS), self.written + 1
                self.story.append(f"{name}: {key} = {self.written}")
                eventually(self.opened(name), "SET", key, str(self.written))
                self.has[name][key] = str(self.written)
            case "drop":
                self.story.append(f"{name}: dropped")
                eventually(self.opened(name), "FLUSHALL")
                self.has[name].clear()
            case "copy" if len(self.has) < FOLDERS and (self.place / name).exists():
                self.copy(name, f"f{len(self.has)}")
            case "close" if name in self.open:
                self.story.append(f"{name}: closed")
                self.open.pop(name).close()
            case "kill" if name in self.open:
                which = self.choice.choice(["pid", "supervisor"])
                self.story.append(f"{name}: {which} killed")
                os.kill(json.loads((self.place / name / "state.json").read_bytes())[which], signal.SIGKILL)
            case "back" if len(self.has) < FOLDERS and name not in self.open and (self.place / name).exists():
                # Its server may be on its way out, and its names lead to the copy now.
                moved = f"f{len(self.has)}"
                self.story.append(f"{name}: moved to {moved}")
                (self.place / name).rename(self.place / moved)
                self.has[moved] = self.has.pop(name)
                self.copy(moved, name)

    def copy(self, name: str, copy: str) -> None:
        how = self.choice.choice([*COPIES])
        self.story.append(f"{name}: copied to {copy} by {how}, {'open' if name in self.open else 'closed'}")
        while True:
            try:
                COPIES[how](self.place / name, self.place / copy)
                break
            except subprocess.CalledProcessError:
                # A server that ends removes files.
                shutil.rmtree(self.place / copy, ignore_errors=True)
        self.has[copy] = dict(self.has[name])

    def opened(self, name: str) -> Connection:
        if name not in self.open:
            self.story.append(f"{name}: opened")
            self.open[name] = connect(settings(self.place / name))
        return self.open[name]

    def check(self, names: list[str]) -> None:
        for name in names:
            found = {key: eventually(self.opened(name), "GET", key) for key in KEYS}
            wanted = {key: value.encode() for key, value in self.has[name].items()}
            assert {key: value for key, value in found.items() if value is not None} == wanted, (name, self.story)
        pids = [json.loads((self.place / name / "state.json").read_bytes())["pid"] for name in names]
        assert len(set(pids)) == len(names), (pids, self.story)


def eventually(connection: Connection, *command: str) -> object:
    """A connection whose server was killed starts another one."""
    while True:
        with suppress(FrontierUnavailable):
            return connection.execute(*command)


@pytest.fixture
def folders(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Folders]:
    folders = Folders(tmp_path, random.Random(request.node.name))
    try:
        yield folders
    finally:
        folders.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_done_in_one_folder_stays_there(folders: Folders, seed: int) -> None:
    for _ in range(STEPS):
        folders.step()
        folders.check([*folders.open])
    folders.check([*folders.has])
