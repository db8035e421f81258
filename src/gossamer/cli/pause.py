"""Pauses of groups, lanes and hosts, as the commands of each noun make and undo them."""

from __future__ import annotations

from typing import Literal

from gossamer.cli import output
from gossamer.cli.options import Where

Noun = Literal["group", "lane", "host"]


def pause(where: Where, noun: Noun, name: str, reason: str) -> None:
    """Lease nothing from it until it is resumed."""
    with where.find() as frontier:
        frontier.pause(**{noun: name}, reason=reason)
        where.log(frontier, "pause", f"{noun} {name}", reason)
    output.write_line(f"{noun} {name} is paused: {reason or 'paused'}")


def resume(where: Where, noun: Noun, name: str) -> None:
    """Undo a pause."""
    with where.find() as frontier:
        frontier.resume(**{noun: name})
        where.log(frontier, "resume", f"{noun} {name}")
    output.write_line(f"{noun} {name} is resumed")
