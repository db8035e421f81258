"""A planner in the process of `gossamer crawl --repeat`: it sends alerts, so that one machine needs no further process for them."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gossamer.cli import output
from gossamer.cli.run.plan import check_lead
from gossamer.errors import GossamerError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.planner.alerts.watch import AlertWatch
from gossamer.planner.alerts.webhook import Webhook
from gossamer.planner.loop import Planner, run
from gossamer.planner.round_tasks import RoundTasks
from gossamer.settings import Settings
from gossamer.sites.file.grant import grant_of


class _Notices(logging.Handler):
    """Warnings of the planner, among the notices of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        output.write_notice(record.getMessage())


@contextmanager
def planning(settings: Settings) -> Iterator[None]:
    """While a fleet repeats its rounds: a planner, if there is a webhook for its alerts. Without one, workers begin rounds themselves."""
    webhook = Webhook.of(settings)
    if webhook is None:
        yield
        return
    check_lead(settings)
    ended, logger, notices = threading.Event(), logging.getLogger("gossamer.planner"), _Notices(logging.WARNING)
    logger.addHandler(notices)
    before, logger.propagate = logger.propagate, False
    thread = threading.Thread(target=_plan, args=(settings, webhook, ended), name="planner", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(settings["GOSSAMER_STOP_SECONDS"] or None)
        logger.removeHandler(notices)
        logger.propagate = before


def _plan(settings: Settings, webhook: Webhook, ended: threading.Event) -> None:
    name = f"{socket.gethostname()}:{os.getpid()}"
    try:
        with ValkeyFrontier.find(settings) as frontier:
            planner = Planner(
                frontier,
                name,
                seconds=settings["GOSSAMER_PLAN_LEAD_SECONDS"],
                limit=settings["GOSSAMER_PLAN_LIMIT"],
                shares=settings["GOSSAMER_PLAN_SHARES"],
                tasks=RoundTasks(frontier, grant_of(settings, local=False), settings["GOSSAMER_STORE_URL"]),
                alerts=AlertWatch(frontier, webhook, name),
                served=True,
            )
            run(planner, settings["GOSSAMER_PLAN_CYCLE_SECONDS"], ended.wait)
    except GossamerError as error:
        output.write_notice(f"no alerts are sent any more: {error}")
