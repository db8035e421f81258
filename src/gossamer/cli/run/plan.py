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

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import flag, option
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import moment
from gossamer.errors import SettingError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.alerts.watch import AlertWatch
from gossamer.planner.alerts.webhook import Webhook
from gossamer.planner.loop import Planner, run
from gossamer.planner.overview import coming, task_source
from gossamer.planner.policy.rounds import Action
from gossamer.planner.round_tasks import RoundTasks
from gossamer.planner.schedules import PlannedGroup
from gossamer.settings import Settings
from gossamer.shutdown import handle_signals
from gossamer.sites.file.grant import grant_of

app = options.Noun()

WORDS = {
    Action.BEGIN: "begins",
    Action.RESEED: "begins, and the last one goes on",
    Action.REPLACE: "replaces the last one",
}
CYCLE, LEAD = "GOSSAMER_PLAN_CYCLE_SECONDS", "GOSSAMER_PLAN_LEAD_SECONDS"


@app.command()
def plan(
    name: Annotated[
        str, option("--name", "NAME", "What logs and rounds call this planner; by default, its host and process.")
    ] = "",
    dry_run: Annotated[
        bool, flag("--dry-run", "Change nothing: list the rounds that would begin in the next hours.")
    ] = False,
    hours: Annotated[float, option("--hours", "N", "How far --dry-run looks ahead.", min=0.01, max=8784)] = 1.0,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Run a planner: it begins the rounds of sites when they are due.

    Start as many as you like, on any machine: one leads and the others wait; when it ends or dies, another takes over within
    seconds. While one leads, workers leave rounds to it. Without a planner, workers begin rounds themselves, by the same rules.
    Site files that are pushed meanwhile apply at once. Logs go to standard error; Ctrl-C or SIGTERM ends it cleanly.

    --dry-run runs the same rules on a simulated clock, from the present state. It assumes that rounds last as long
    as the last ones of their site. Its last column has the arguments and tasks of spiders' rounds.
    """
    if dry_run:
        _foretell(where, hours, json)
        return
    settings = where.settings()
    check_lead(settings)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s [%(name)s] %(levelname)s: %(message)s"
    )
    ended, told = threading.Event(), [0]

    def first(number: int) -> None:
        told[0] = number
        ended.set()

    with ValkeyFrontier.open(settings) as frontier, handle_signals(first, lambda: None):
        called = name or f"{socket.gethostname()}:{os.getpid()}"
        planner = Planner(
            frontier,
            called,
            seconds=settings[LEAD],
            limit=settings["GOSSAMER_PLAN_LIMIT"],
            shares=settings["GOSSAMER_PLAN_SHARES"],
            tasks=RoundTasks(frontier, grant_of(settings, local=False), settings["GOSSAMER_STORE_URL"]),
            alerts=AlertWatch(frontier, Webhook.of(settings), called),
        )
        run(planner, settings[CYCLE], ended.wait)
    if told[0] == signal.SIGINT:
        raise typer.Exit(exit_codes.INTERRUPTED)


def _foretell(where: options.Where, hours: float, json: bool) -> None:
    with where.find() as frontier:
        state, events, planned = coming(frontier, hours * 3600)
    if json:
        output.write_json(
            [
                {
                    **event._asdict(),
                    "action": event.action.value,
                    "arguments": dict(planned[event.group].arguments),
                    "tasks": task_source(planned[event.group]),
                }
                for event in events
            ]
        )
        return
    leader = f"{state.leader.name} leads" if state.leader.present else "no planner leads"
    output.write_notice(f"{leader}; it is {moment(state.now)}")
    output.write_table(
        ("at", "in", "site", "round", "what", "why", "with"),
        [
            (
                moment(x.at),
                duration(x.at - state.now),
                x.group,
                x.round,
                WORDS[x.action],
                x.why,
                _with(planned[x.group]),
            )
            for x in events
        ],
        ("in", "why"),
    )


def _with(group: PlannedGroup) -> str:
    """The arguments and tasks of a spider's round."""
    words = [f"{name}={value}" for name, value in group.arguments.items()]
    tasks = task_source(group)
    return " ".join([*words, *([f"tasks of {tasks}"] if tasks else [])])


def check_lead(settings: Settings) -> None:
    """SettingError if a planner could not keep the lead with these."""
    if not 0 < 2 * settings[CYCLE] <= settings[LEAD]:
        raise SettingError(
            f"{LEAD} is {settings[LEAD]:g} and {CYCLE} is {settings[CYCLE]:g}: a planner that leads must look at least twice in "
            "that time. Raise the first or lower the second."
        )
