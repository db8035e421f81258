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
from typing import NamedTuple

from gossamer.frontier.embedded import attach
from gossamer.settings import Settings, load
from gossamer.testing.forum import ForumProcess, Layout


class Stage(NamedTuple):
    """A running server (its settings) and a running forum. `kept` is the data directory that stays, if any."""

    settings: Settings
    forum: ForumProcess
    kept: Path | None


@contextlib.contextmanager
def open_stage(layout: Layout, hosts: int, directory: Path | None = None) -> Iterator[Stage]:
    """Server and forum, until the block ends. Without a directory, a temporary one that is removed with its server."""
    with contextlib.ExitStack() as stack:
        place = directory
        if place is None:
            place = Path(tempfile.mkdtemp(prefix="gossamer-demo-"))
            stack.callback(_remove, place)
        given = {
            "GOSSAMER_URL": f"embedded:{place}",
            "GOSSAMER_CRAWL": f"demo-{secrets.token_hex(3)}",
            "GOSSAMER_PARTITIONS": 1,
        }
        settings = load(given if directory else {**given, "GOSSAMER_GRACE_SECONDS": 0.0}, given_as="demo")
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
        yield Stage(settings, forum, directory)


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
