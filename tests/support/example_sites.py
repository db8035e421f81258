"""Crawling the example sites from the command line, as their files tell it."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support import fork_server
from tests.support.fork_server import Started

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import load
from gossamer.testing.servers import Server

SITES = Path(__file__).parents[2] / "examples" / "sites"
SECONDS = 300


class Place:
    """An empty directory and a crawl, in which commands are run."""

    def __init__(self, directory: Path, server: Server, crawl: str, **environ: str) -> None:
        self.directory = directory
        self.settings = {
            "GOSSAMER_URL": server.url,
            "GOSSAMER_CRAWL": crawl,
            "GOSSAMER_DATA_DIR": str(directory / "data"),
            "GOSSAMER_LEASE_SECONDS": "20",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        self.environ = {**kept, **self.settings, **environ}

    def write(self, text: str, name: str = "site.yaml") -> str:
        (self.directory / name).write_text(text, "utf-8")
        return name

    def elsewhere(self, example: str, base: str) -> str:
        """The example's own file, with another address."""
        return self.write(f"extends: {SITES / example}.yaml\nparams: {{base: '{base}'}}\n", f"{example}.yaml")

    def start(self, *words: str) -> Started:
        return fork_server.start(
            "gossamer", words, environ=self.environ, directory=self.directory, stdout=Path(os.devnull), options=["-P"]
        )

    def run(self, *words: str, code: int = 0) -> str:
        return self.said(*words, code=code)[0]

    def said(self, *words: str, code: int = 0) -> tuple[str, str]:
        """What a command writes: its output, and what it says beside it."""
        done = fork_server.run("gossamer", words, self.environ, self.directory, SECONDS, options=["-P"])
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout, done.stderr

    def crawl(self, file: str, *words: str) -> dict[str, Any]:
        """With two workers, to the end."""
        told: dict[str, Any] = json.loads(self.run("crawl", file, "-w", "2", "--json", *words))
        return told

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.directory / "data" / "items.db")) as database:
            return database.execute(query).fetchall()

    def frontier(self) -> ValkeyFrontier:
        return ValkeyFrontier.open(load(self.settings, {}))

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8")[-2000:] for path in self.directory.rglob("*.log"))
