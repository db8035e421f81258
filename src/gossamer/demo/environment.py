"""What the demo runs on: a server of its own and the forum, both gone when it ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from gossamer.frontier.connection.embedded import attach
from gossamer.settings import Settings, load
from gossamer.testing.forum import ForumProcess, Layout

LEASE_SECONDS = 5.0


class DemoEnvironment(NamedTuple):
    """A running server (its settings), its directory, and a running forum. `kept` says that the directory stays."""

    settings: Settings
    directory: Path
    forum: ForumProcess
    kept: bool

    @property
    def given(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as a worker must be given them."""
        return {name: self.settings[name] for name in self.settings.sources}


@contextlib.contextmanager
def open_environment(layout: Layout, hosts: int, directory: Path | None = None) -> Iterator[DemoEnvironment]:
    """Server and forum, until the block ends. Without a directory, a temporary one that is removed with its server."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            with _interrupt_waits():
                # Made and remembered in one: Ctrl-C between the two would leave it behind.
                place = Path(tempfile.mkdtemp(prefix="gossamer-demo-"))
                stack.callback(_remove, place)
        else:
            place = directory.expanduser().resolve()
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = _settings(place, kept=directory is not None)
        with _interrupt_waits():
            # A half-started server would be nobody's: it is ours before anyone may stop us.
            attachment = attach(
                place,
                binary=settings["GOSSAMER_SERVER_BINARY"],
                fsync=settings["GOSSAMER_FSYNC"],
                grace_seconds=settings["GOSSAMER_GRACE_SECONDS"],
            )
            stack.callback(attachment.close)
        forum = ForumProcess(layout, hosts=hosts)
        stack.callback(forum.close)
        forum.start()
        yield DemoEnvironment(settings, place, forum, directory is not None)


def _settings(place: Path, kept: bool) -> Settings:
    """The demo's own. Of what is in force here only the server program counts: the rest is meant for other crawls."""
    given = {
        "GOSSAMER_URL": f"embedded:{place}",
        "GOSSAMER_CRAWL": f"demo-{secrets.token_hex(3)}",
        "GOSSAMER_SERVER_BINARY": load()["GOSSAMER_SERVER_BINARY"],
        # So that what a killed worker held goes to the others while one watches.
        "GOSSAMER_LEASE_SECONDS": LEASE_SECONDS,
    }
    if not kept:
        given["GOSSAMER_GRACE_SECONDS"] = 0.0
    return load(given, environ={}, toml=Path(os.devnull), given_as="demo")


@contextlib.contextmanager
def _interrupt_waits() -> Iterator[None]:
    """Ctrl-C inside the block is obeyed at its end."""
    came: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        came.append(number)

    old = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
    if came:
        raise KeyboardInterrupt


def _remove(place: Path) -> None:
    """Stop the server of a directory that only we know, and remove it."""
    with _interrupt_waits():
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(json.loads((place / "state.json").read_bytes())["supervisor"], signal.SIGTERM)
        with contextlib.suppress(OSError), (place / "lock").open("rb") as lock:
            # The supervisor holds it until its server has gone.
            fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(place, ignore_errors=True)
