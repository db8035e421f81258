"""`gossamer plan`: a planner, in this process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from typing import Annotated

import typer

from gossamer.cli import exit_codes, options
from gossamer.cli.options import option
from gossamer.errors import SettingError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.loop import Planner, run
from gossamer.settings import Settings
from gossamer.shutdown import handle_signals

app = options.Noun()

CYCLE, LEAD = "GOSSAMER_PLAN_CYCLE_SECONDS", "GOSSAMER_PLAN_LEAD_SECONDS"


@app.command()
def plan(
    name: Annotated[
        str, option("--name", "NAME", "What logs and rounds call this planner; by default, its host and process.")
    ] = "",
    where: options.Where = options.HERE,
) -> None:
    """Run a planner: it begins the rounds of sites when they are due.

    Start as many as you like, on any machine: one leads and the others wait; when it ends or dies, another takes over within
    seconds. While one leads, workers leave rounds to it. Without a planner, workers begin rounds themselves, by the same rules.
    Site files that are pushed meanwhile count at once. Logs go to standard error; Ctrl-C or SIGTERM ends it in good order.
    """
    settings = where.settings()
    _check(settings)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s [%(name)s] %(levelname)s: %(message)s"
    )
    ended, told = threading.Event(), [0]

    def first(number: int) -> None:
        told[0] = number
        ended.set()

    with ValkeyFrontier.open(settings) as frontier, handle_signals(first, lambda: None):
        planner = Planner(frontier, name or f"{socket.gethostname()}:{os.getpid()}", seconds=settings[LEAD])
        run(planner, settings[CYCLE], ended.wait)
    if told[0] == signal.SIGINT:
        raise typer.Exit(exit_codes.INTERRUPTED)


def _check(settings: Settings) -> None:
    if not 0 < 2 * settings[CYCLE] <= settings[LEAD]:
        raise SettingError(
            f"{LEAD} is {settings[LEAD]:g} and {CYCLE} is {settings[CYCLE]:g}: a planner that leads must look at least twice in "
            "that time. Raise the first or lower the second."
        )
