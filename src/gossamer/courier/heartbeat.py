"""The keeper: a thread that renews the leases of a worker whose event loop is held up, by a callback that computes or blocks.

Such a worker is alive, and its pages are worked on: others must not do them again. As long as the loop turns, the courier
renews its leases itself, and the keeper does nothing. It has a connection of its own, which is open for as long as the worker
lives: others know by it that the worker is there. In turn it looks after others that are gone or have fallen silent
(see `stalls`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from gossamer.courier.courier import Courier
from gossamer.courier.leases import HeldLease, Identity, identity
from gossamer.courier.pace import PULSE
from gossamer.courier.stalls import LOOK_SECONDS, GoneWorkers, StallReport
from gossamer.courier.transport import SharedTransport
from gossamer.errors import GossamerError
from gossamer.frontier.connection.presence import presence
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Lease, Token
from gossamer.model.plural import counted_were

logger = logging.getLogger(__name__)

LATE = 1.0
"""Seconds after its send window after which a lease that was not taken is given back."""

Also = Callable[[ValkeyFrontier, Token], None]
"""Renews something else while the loop is held up."""


class Heartbeat:
    """One for each courier. `also` is called in the thread whenever the leases are renewed there."""

    def __init__(self, courier: Courier, link: SharedTransport, *also: Also) -> None:
        self._courier, self._link, self._also = courier, link, also
        self._stopped = threading.Event()
        self._frontier: ValkeyFrontier | None = None
        self._given: set[Identity] = set()
        self._asked_at = 0.0
        self._turns = True
        """Whether the loop has run what was posted at `_asked_at`."""
        self._kept = 0
        self._gone_workers = GoneWorkers(courier, link.post)
        self._stall_report = StallReport(courier, self._gone_workers, link.post)
        self._present, self._present_since = "", 0.0

    def begin(self) -> None:
        """Run until the courier has ended. A daemon: it keeps no process from ending. A forked child has none: its couriers are new."""
        self._courier.at_end(self._stopped.set)
        threading.Thread(target=self._work, name="gossamer-keeper", daemon=True).start()

    def _work(self) -> None:
        wait = 0.0
        try:
            while not self._stopped.wait(wait):
                wait = self._pace()
                try:
                    self._look()
                except GossamerError:
                    pass  # the courier logs it as soon as the loop turns
                except Exception as error:
                    self._link.post(partial(logger.error, "The keeper of leases failed.", exc_info=error))
        finally:
            if self._frontier is not None:
                self._frontier.close()

    def _pace(self) -> float:
        plan = self._courier.plan
        return min(LOOK_SECONDS, plan.lease_seconds / 8, (plan.gone_seconds or LOOK_SECONDS) / 3)

    def _look(self) -> None:
        if self._link.over:
            # The worker was cancelled, in a process that lives on: its pages are not worked on any more.
            self._stopped.set()
            return
        now = self._link.now()
        if self._turns:
            self._turns, self._asked_at = False, now
            self._link.post(self._turned)
            self._given.clear()
        elif now - self._asked_at >= min(PULSE, self._courier.plan.lease_seconds / 4):
            self._speak_up(now)
        frontier = self._connected()
        # It may have been closed meanwhile, and another one opened.
        connection = presence(frontier.connection, frontier.crawl)
        if connection != self._present:
            self._present, self._present_since = connection, now
            self._link.post(lambda: self._courier.connected(connection))
        if not self._courier.is_reported(connection):
            # Others would see that the former one is closed.
            frontier.renew(self._courier.token, [])
        connected = now - self._present_since
        self._gone_workers.look(frontier, connected)
        self._stall_report.look(frontier, now, connected)

    def _connected(self) -> ValkeyFrontier:
        if self._frontier is None:
            self._frontier = self._link.beside()
        return self._frontier

    def _speak_up(self, now: float) -> None:
        plan = self._courier.plan
        waiting = {identity(lease): (lease, send_by) for lease, send_by in list(self._courier.inbox)}
        keep: list[HeldLease] = []
        for hold in self._courier.held.every():
            name = identity(hold.lease)
            if name not in waiting and hold.until != float("inf") and now - hold.since <= plan.renew_max:
                keep.append(hold)
        # Never sent any more, whenever the loop goes on: others may have them.
        late = [
            lease for lease, send_by in waiting.values() if now > send_by + LATE and identity(lease) not in self._given
        ]
        self._speak(keep, late, now)

    def _speak(self, keep: list[HeldLease], late: list[Lease], now: float) -> None:
        frontier = self._connected()
        token, seconds = self._courier.token, self._courier.plan.lease_seconds
        if self._stopped.is_set():
            return  # a worker that has left must not be heard of again
        renewed = frontier.renew(token, [hold.lease for hold in keep])
        for hold, lease in zip(keep, renewed, strict=True):
            if lease is not None and hold.until != float("inf"):
                hold.until = now + seconds
        if late:
            frontier.release(token, late)
            self._given.update(map(identity, late))
        for do in self._also:
            do(frontier, token)
        self._kept = len(keep)

    def _turned(self) -> None:
        """Called on the loop's own thread."""
        kept, self._kept = self._kept, 0
        if kept:
            logger.warning(
                "The event loop was held up for %.0f s, by code that computes or waits without `await`. %s kept "
                "meanwhile.",
                self._link.now() - self._asked_at,
                counted_were(kept, "lease"),
            )
        self._turns = True
