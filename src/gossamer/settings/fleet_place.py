"""The name of the place in a fleet that a process fills: its supervisor gives it, and its workers report it. So the supervisor knows
which workers end with the process."""

from __future__ import annotations

import os

PLACE = "place"
"""In a worker's info."""
VARIABLE = "_GOSSAMER_PLACE"

_place = ""


def own_place() -> str:
    """The place that this process fills; "" if it was started by no supervisor."""
    global _place
    # Not for processes that this one starts: they may outlive it.
    _place = os.environ.pop(VARIABLE, _place)
    return _place


def pass_on() -> None:
    """This process is about to become another program, in the same place."""
    if place := own_place():
        os.environ[VARIABLE] = place


def _forked() -> None:
    global _place
    _place = ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
