"""Watches calls that wait for a database, and ends those to a server that accepts connections but does not answer.

Drivers bound the time until a connection is there; after that PostgreSQL's waits for an answer without any limit, and a change of
tables may rightly take hours. So a thread watches the clock, asks the server whether it still takes connections, and cuts
those that wait in vain: their callers get an error, as if the server had gone.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, event

PING_SECONDS = 15.0
"""Seconds a server may take to accept a connection before it counts as not answering."""


class Watchdog:
    """Over the connections of `engine`, used by one thread at a time. A statement may go unanswered for `seconds`; then it goes
    on if `reachable` says that the server answers others, but for no longer than `longest` (0: for as long as it takes). `seconds` 0: no watch.
    `cut` ends the wait on a connection of the driver."""

    def __init__(
        self,
        engine: Engine,
        cut: Callable[[Any], None],
        reachable: Callable[[], bool],
        *,
        seconds: float,
        longest: float,
    ) -> None:
        self._cut, self._reachable = cut, reachable
        self._seconds, self._longest = seconds, longest
        self._open: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._under_way = 0
        self._thread: threading.Thread | None = None
        # First: what else is done with a new connection may wait for an answer, too.
        event.listen(engine, "connect", self._connected, insert=True)
        event.listen(engine, "close", self._closed)
        event.listen(engine, "close_detached", lambda connection: self._closed(connection, None))
        for name in ("before_cursor_execute", "commit", "rollback"):
            event.listen(engine, name, self._ask)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Watch while a transaction is in progress."""
        if not self._seconds:
            yield
            return
        # Nobody is woken: that would cost every transaction a change of threads.
        with self._lock:
            self._under_way += 1
            self._asked = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="gossamer-vigil", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self._asked = None

    def disconnect(self) -> None:
        """Cut every connection; calls that wait on one fail. From any thread."""
        for connection in list(self._open.values()):
            with suppress(Exception):
                self._cut(connection)

    def _connected(self, connection: Any, _: Any) -> None:
        self._open[id(connection)] = connection

    def _closed(self, connection: Any, _: Any) -> None:
        self._open.pop(id(connection), None)

    def _ask(self, *_: Any) -> None:
        # The last one was answered, or this one would not be asked.
        if self._asked is not None:
            self._asked = time.monotonic()

    def _watch(self) -> None:
        """Watch until nothing is in progress."""
        looked = time.monotonic()
        while True:
            time.sleep(max(0.0, max(self._asked or 0.0, looked) + self._seconds - time.monotonic()))
            with self._lock:
                asked = self._asked
                if asked is None:
                    self._thread = None
                    return
            now = time.monotonic()
            if now - asked < self._seconds:
                continue
            too_long = bool(self._longest) and now - asked >= self._longest
            if (too_long or not self._answers()) and self._asked == asked:
                self.disconnect()
            looked = time.monotonic()

    def _answers(self) -> bool:
        found: list[bool] = []
        asking = threading.Thread(
            target=lambda: found.append(self._reachable()), name="gossamer-vigil-ask", daemon=True
        )
        asking.start()
        asking.join(PING_SECONDS)
        return bool(found and found[0])


def shut(number: int) -> None:
    """Shut down a socket that another thread reads from: that thread sees its end. Closing it would wait for the reader."""
    with socket.socket(fileno=os.dup(number)) as same:
        same.shutdown(socket.SHUT_RDWR)
