"""Many callers, one transaction: what comes while the database is busy is committed together.

A crawl stores a page's rows before it settles the page, page by page. A commit costs the database a visit to the disk, however few rows it
has, so a thread gathers what all pages bring meanwhile. The event loop never waits for the database.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from gossamer.errors import StoreError, StoreRefused, StoreUnavailable
from gossamer.model.table import Row, Table
from gossamer.store.batch import PreparedRow
from gossamer.store.store import Store
from gossamer.store.thread import in_thread

T = TypeVar("T")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class _WriteJob:
    """What one caller waits for: rows, or a call that the thread makes between transactions."""

    def __init__(self, rows: Sequence[Row] = (), call: Callable[[], None] | None = None) -> None:
        self.rows = rows
        self.call = call
        self.size = _count(rows)
        self.prepared_rows: list[PreparedRow] = []
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()

    def end(self, error: BaseException | None = None) -> None:
        with suppress(RuntimeError):  # The loop has gone, and with it whoever waited.
            self.loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _count(rows: Sequence[Row]) -> int:
    return sum(1 + sum(_count(children) for children in row.children.values()) for row in rows)


class Writer:
    """Writes through `store`, which is the writer's alone from now on, in a thread of its own.

    A transaction takes up to `rows` rows. It waits for as many callers as the last one had, but no longer than `seconds`: a lone caller
    never waits. While the database is unavailable the writer keeps what it has and tries again, for as long as it takes.
    """

    def __init__(self, store: Store, *, rows: int = 500, seconds: float = 0.05) -> None:
        self._store = store
        self._rows = rows
        self._seconds = seconds
        self._outage = ""
        self._transactions = 0
        self._queue: deque[_WriteJob] = deque()
        self._waiting = 0
        self._expected = 1
        self._changed = threading.Condition()
        self._closing = False
        self._given_up = threading.Event()
        self._current: list[_WriteJob] = []
        self._thread = threading.Thread(target=self._run, name="gossamer-writer", daemon=True)
        self._thread.start()

    @property
    def outage(self) -> str:
        """Why nothing can be written at present; empty when all is well."""
        return self._outage

    @property
    def waiting(self) -> int:
        """How many rows wait to be written or are being written."""
        with self._changed:
            return self._waiting

    @property
    def transactions(self) -> int:
        """How many transactions were committed."""
        return self._transactions

    async def prepare(self, tables: Iterable[Table]) -> None:
        """As Store.prepare, between two transactions. Raises StoreUnavailable at once when the database is unavailable."""
        listed = list(tables)
        await self._ask(_WriteJob(call=lambda: self._store.prepare(listed)))

    async def archive(self, tables: Iterable[Table | str], suffix: str) -> None:
        """As Store.archive, between two transactions."""
        listed = list(tables)
        await self._ask(_WriteJob(call=lambda: self._store.archive(listed, suffix)))

    async def call(self, work: Callable[[Store], T]) -> T:
        """Work on the store between two transactions. Raises StoreUnavailable at once when the database is unavailable."""
        results: list[T] = []
        await self._ask(_WriteJob(call=lambda: results.append(work(self._store))))
        return results[0]

    async def write(self, rows: Iterable[Row]) -> None:
        """Return when the rows are committed, all of them in one transaction.

        Raises StoreRefused when the database does not take one of them; then none of this call is stored. Whoever cancels does not know
        whether they were stored; they may be written again.
        """
        listed = list(rows)
        if listed:
            await self._ask(_WriteJob(listed))

    async def close(self, seconds: float = 30.0) -> None:
        """Take nothing more, wait up to `seconds` for what is queued, and close the store. What could not be written by then
        ends with StoreUnavailable."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        await in_thread(self._thread.join, seconds)
        self._given_up.set()
        with self._changed:
            self._changed.notify_all()
            left = [*self._current, *self._queue]
            self._queue.clear()
        for job in left:
            self._end(job, self._too_late())
        # One that waits for the database's return ends now; one that waits for its answer is left to itself.
        await in_thread(self._thread.join, 1.0)

    async def _ask(self, job: _WriteJob) -> None:
        with self._changed:
            if self._closing:
                raise StoreError("The writer is closed. Open another.")
            self._queue.append(job)
            self._waiting += job.size
            self._changed.notify_all()
        await job.done

    def _run(self) -> None:
        try:
            while batch := self._gather():
                if batch[0].call is not None:
                    self._call(batch[0], batch[0].call)
                else:
                    self._commit([job for job in batch if self._place(job)])
                with self._changed:
                    self._current = []
        finally:
            self._store.close()

    def _gather(self) -> list[_WriteJob]:
        """The jobs of the next transaction; none when the writer is closed and all is done."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            until = time.monotonic() + self._seconds
            while (
                self._queue
                and len(self._queue) < self._expected
                and sum(job.size for job in self._queue) < self._rows
                and not self._closing
                and (left := until - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            batch: list[_WriteJob] = []
            size = 0
            while self._queue and not self._given_up.is_set():
                job = self._queue[0]
                if batch and (job.call is not None or size + job.size > self._rows):
                    break
                batch.append(self._queue.popleft())
                size += job.size
                if job.call is not None:
                    break
            self._expected = max(1, len(batch))
            self._current = batch
            return batch

    def _end(self, job: _WriteJob, error: BaseException | None = None) -> None:
        with self._changed:
            self._waiting -= job.size
            job.size = 0
        job.end(error)

    def _too_late(self) -> StoreUnavailable:
        return StoreUnavailable(f"The writer was closed before the rows were stored. {self._outage}".strip())

    def _call(self, job: _WriteJob, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._end(job, error)
        else:
            self._end(job)

    def _place(self, job: _WriteJob) -> bool:
        try:
            job.prepared_rows = self._store.place(job.rows)
        except Exception as error:
            self._end(job, error)
            return False
        return True

    def _commit(self, jobs: list[_WriteJob]) -> None:
        """Commit all jobs, or find those that cannot be by halving."""
        pause = FIRST_PAUSE
        while jobs:
            try:
                self._store.commit([prepared_rows for job in jobs for prepared_rows in job.prepared_rows])
            except StoreUnavailable as error:
                self._outage = str(error)
                if self._given_up.wait(pause * random.uniform(0.5, 1.0)):
                    for job in jobs:
                        self._end(job, self._too_late())
                    return
                pause = min(pause * 2, LONGEST_PAUSE)
            except Exception as error:
                self._outage = ""
                if len(jobs) == 1:
                    self._end(jobs[0], error if isinstance(error, StoreRefused) else _told(error))
                    return
                half = len(jobs) // 2
                self._commit(jobs[:half])
                jobs, pause = jobs[half:], FIRST_PAUSE
            else:
                self._outage = ""
                self._transactions += 1
                for job in jobs:
                    self._end(job)
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _told(error: Exception) -> StoreError:
    refused = StoreRefused(f"The rows could not be stored: {type(error).__name__}: {error}")
    refused.__cause__ = error
    return refused
