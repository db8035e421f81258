"""A crawl whose planners and workers take one step at a time, on the server's clock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self, cast

from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.contract import Frontier
from gossamer.frontier.server.library import function
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Ending, GroupPolicy, LanePolicy, Request, Selection, Settlement, StartState, Token
from gossamer.planner.alerts.watch import AlertWatch
from gossamer.planner.alerts.webhook import Webhook
from gossamer.planner.loop import Planner
from gossamer.settings import load
from gossamer.testing import clock
from gossamer.testing.servers import Server

LEAD = 4.0
PAGES = LanePolicy()


def site(name: str, schedule: str) -> str:
    return f"site: {name}\nseeds: [http://{name}.example/]\nschedule: {schedule}\nlayers: {{page: {{seen: round}}}}\n"


def verb_of(call: RoutedCommand) -> str:
    """The verb that a call of a server function is."""
    return str(call.command[1]).removeprefix(function(""))


class Interrupted:
    """A frontier whose caller is stopped before its next call of one verb: meanwhile `then` happens."""

    def __init__(self, frontier: ValkeyFrontier) -> None:
        self._frontier = frontier
        self.verb = ""
        self.then: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._frontier, name)
        if not callable(method):
            return method

        def call(*args: Any, **more: Any) -> Any:
            if name == self.verb:
                self.verb = ""
                self.then()
            return method(*args, **more)

        return call


class PlannedCrawl:
    """Sites, planners and a worker."""

    def __init__(self, server: Server, name: str, partitions: int = 2) -> None:
        self._settings = load(
            {"GOSSAMER_URL": server.url, "GOSSAMER_CRAWL": name, "GOSSAMER_PARTITIONS": partitions}, {}
        )
        self._stack = ExitStack()
        self.frontier = self._stack.enter_context(ValkeyFrontier.open(self._settings))
        self.token = Token.fresh()
        self._page = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def planner(self, name: str) -> Planner:
        return self.stoppable(name)[0]

    def stoppable(self, name: str, webhook: Webhook | None = None, **more: Any) -> tuple[Planner, Interrupted]:
        """A planner and its frontier; with a webhook it sends alerts, and `more` is for its watch."""
        frontier = Interrupted(self.opened())
        alerts = AlertWatch(cast(ValkeyFrontier, frontier), webhook, name, **more)
        return Planner(cast(Frontier, frontier), name, seconds=LEAD, alerts=alerts), frontier

    def opened(self) -> ValkeyFrontier:
        """A connection of its own."""
        return self._stack.enter_context(ValkeyFrontier.open(self._settings))

    def push(self, name: str, schedule: str) -> None:
        """Push a site's file; a worker serves it."""
        self.frontier.put_document("site", name, site(name, schedule))
        self.frontier.define(name, {"page": PAGES}, GroupPolicy(start=True))

    def advance(self, seconds: float) -> None:
        clock.advance(self.frontier, seconds)

    @property
    def now(self) -> float:
        return self.frontier.plan_state().now

    def seed(self, group: str, pages: int = 1) -> bool:
        """Run the start of the present round if it is due."""
        state, number = self.frontier.start(group, self.token)
        if state is not StartState.GRANTED:
            return False
        for _ in range(pages):
            self._page += 1
            request = Request(self._page, f"h{self._page % 5}", f"{group}.page", f"{number}".encode())
            self.frontier.add([request])
        return self.frontier.started(group, self.token)

    def fetch(self, group: str, *, end: bool = True, ending: Ending = Ending.DONE) -> None:
        """Fetch all that waits, and do what comes after the round."""
        while True:
            self.token = self.token.next()
            reply = self.frontier.exchange(self.token, want=50, selection=Selection((group,)))
            if not reply.leases:
                break
            self.token = self.token.next()
            self.frontier.exchange(self.token, settle=[Settlement(lease, ending) for lease in reply.leases])
        if end:
            self.frontier.end_round(group, self.token)
            self.frontier.ended(group, self.token)

    def run_round(self, group: str) -> None:
        self.seed(group)
        self.fetch(group)

    def rounds(self, group: str) -> list[tuple[int, str]]:
        """Number and state, the oldest first."""
        return [(info.round, info.state) for info in reversed(self.frontier.rounds(group))]
