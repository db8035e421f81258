"""The native engine: takes leases from the courier and runs each as a task, as many at a time as it may.

What is done with a page is the processor's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gossamer.courier import DRAINING, Counters, Courier, CourierConfig, Heartbeat, SeenCache, SharedTransport
from gossamer.courier.leases import Identity, identity
from gossamer.engine.http.deadline import cancel_tasks
from gossamer.model import AddOutcome, Ending, Feedback, Fetched, Lease, Settlement, SettleOutcome
from gossamer.model.reply import OVERDUE

logger = logging.getLogger(__name__)

ABANDON = 3.0
"""Seconds that pages may take to be cancelled."""


class LeaseProcessor(Protocol):
    """Processes one lease. None: give it back, since nothing was fetched. `landed` is called when the response is there; the first call
    counts."""

    async def process(self, lease: Lease, landed: Callable[[Feedback], None]) -> Settlement | None: ...

    def settled(self, lease: Lease, counts: bool, children: Sequence[AddOutcome]) -> None:
        """The page is settled; with `counts` False it was lost, and is processed again. `children` is what became of its requests."""

    def rolled_back(self) -> None:
        """Pages that were settled before may not be any more."""


class Engine:
    """The courier's callbacks. `concurrency` downloads at a time; as many pages again may be read or wait to be stored. `parked` pages
    wait for a database that cannot be reached: they count for neither."""

    def __init__(
        self,
        link: SharedTransport,
        page_processor: LeaseProcessor,
        plan: CourierConfig,
        pending_counters: Counters,
        concurrency: int,
        known: SeenCache,
    ) -> None:
        self.courier = Courier(link, self, plan, pending_counters, known)
        self._heartbeat = Heartbeat(self.courier, link)
        self._page_processor, self._concurrency = page_processor, concurrency
        self._downloads = 0
        self.parked = 0
        self._tasks: dict[Identity, asyncio.Task[None]] = {}
        self._stopping = self._giving_back = False
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()
        """Set when the frontier rejects this worker, or an operator drains it."""
        self.looked = asyncio.Event()
        """Set whenever the frontier reports that nothing is open: time to ask whether the sites are drained."""
        self.went: Callable[[], None] = lambda: None
        """Called when the frontier may have an older state than it had."""

    def begin(self) -> None:
        self.courier.begin()
        self._heartbeat.begin()

    @property
    def busy(self) -> bool:
        return bool(self._tasks or self.courier.inbox or self.courier.waiting)

    async def stop(self) -> None:
        """Take no more leases, finish the pages in progress, send everything and give back the rest."""
        self._stopping = True
        while self._tasks:
            await asyncio.wait(self._tasks.values())
        done = asyncio.Event()
        self.courier.finish(done.set)
        await done.wait()

    def give_back(self) -> int:
        """Cancel all pages: others do them. Returns how many there were."""
        self._stopping = self._giving_back = True
        for task in self._tasks.values():
            task.cancel()
        return len(self._tasks)

    async def abandon(self, seconds: float = ABANDON) -> None:
        """Drop the pages in progress; their leases run out and others do them again. Waits for them for up to `seconds`, and ABANDON."""
        self._stopping = True
        await cancel_tasks(self._tasks.values(), min(ABANDON, seconds))

    # What the courier asks and says.

    def room(self) -> int:
        if self._stopping or self._crowded():
            return 0
        return self._concurrency - self._downloads

    def _crowded(self) -> bool:
        return len(self._tasks) - self.parked >= 2 * self._concurrency

    def arrived(self) -> None:
        hints = self.courier.hints
        if hints is not None:
            if hints.open == 0:
                self.looked.set()
            if hints.paused == DRAINING and not self.busy:
                self.ended.set()
        self._fill()

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        if page is not None:
            self._page_processor.settled(page, outcome is not SettleOutcome.LOST, children)
        if outcome is SettleOutcome.LOST:
            logger.warning("The lease of a page was lost before it was settled; another worker does it.")

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        if outcome in (AddOutcome.INVALID, AddOutcome.UNKNOWN_LANE, AddOutcome.CLOSED):
            logger.error("The frontier rejected a request: %s", reason or outcome.name.lower())
        elif outcome is AddOutcome.DUPLICATE and ticket is not None:
            ticket()

    def lost(self, lease: Lease, reason: str) -> None:
        logger.warning("The lease of request %d of %s is gone (%s).", lease.id, lease.lane, reason)
        if reason == OVERDUE and (task := self._tasks.get(identity(lease))) is not None:
            task.cancel()

    def rolled_back(self) -> None:
        self._page_processor.rolled_back()
        self.went()

    def failed(self, error: BaseException) -> None:
        self.failure = error
        self.ended.set()

    # Pages.

    def _fill(self) -> None:
        while self._downloads < self._concurrency and not self._stopping and not self._crowded():
            lease = self.courier.take()
            if lease is None:
                return
            self._downloads += 1
            self._tasks[identity(lease)] = asyncio.get_running_loop().create_task(self._work(lease))

    async def _work(self, lease: Lease) -> None:
        landed = False

        def land(feedback: Feedback | None) -> None:
            nonlocal landed
            if not landed:
                landed = True
                self._downloads -= 1
                self.courier.fetched(Fetched(lease, feedback))
                self._fill()

        settlement: Settlement | None = None
        try:
            settlement = await self._page_processor.process(lease, land)
        except asyncio.CancelledError:
            if not self._giving_back:
                return
        except Exception:
            logger.exception("Processing a page failed; the page is retried.")
            settlement = Settlement(lease, Ending.RETRY, delay=60.0)
        finally:
            self._tasks.pop(identity(lease), None)
            if settlement is None and not landed:
                # Its slot is given back with it.
                landed = True
                self._downloads -= 1
        if settlement is None:
            self.courier.give_back(lease)
        else:
            # A response that is not there yet will not come.
            land(None)
            self.courier.settle(settlement, lease)
        self._fill()
