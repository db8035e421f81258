"""What a worker takes from a queue that it shares: only what it can read. The rest stays where it is, for those who can.

A request is looked at, read, and only then removed: whoever removes it has it. So one that cannot be read here is never out of the
queue, also if this worker dies. How far is looked past such requests is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol

from scrapy import Request

WINDOW = 16
"""How many to read at once where the first one could not be taken."""
MOST = 1000
"""How many unreadable ones to pass over; with more, a worker waits for others to take some."""
AGAIN_SECONDS = 1.0
"""How long what was passed over is not looked at again: meanwhile others may have taken it, and something may stand before it."""


class PeekableQueue(Protocol):
    """A queue whose first requests can be looked at."""

    def peek(self, first: int, count: int) -> list[bytes]: ...

    def remove(self, data: bytes) -> bool: ...

    def _decode_request(self, encoded_request: Any) -> Request: ...


class QueueReader:
    """Takes requests from `queue`; `unreadable` hears once of each that is left there."""

    def __init__(self, queue: PeekableQueue, unreadable: Callable[[bytes, Exception], None]) -> None:
        self.queue, self._unreadable = queue, unreadable
        self._known: dict[bytes, None] = {}
        self._passed = 0
        self._looked_at = 0.0
        self.left: int | None = None
        """How many the queue held when it was last seen to its end, none of them readable; None: it was not."""

    def take(self) -> Request | None:
        """The next request that can be read, or None."""
        self.left = None
        now = time.monotonic()
        if now - self._looked_at >= AGAIN_SECONDS:
            self._passed, self._looked_at = 0, now
        if self._passed and (request := self._look()) is not None:
            return request
        # Nothing behind what was passed over: something may have come before it.
        self._passed = 0
        return self._look()

    def _look(self) -> Request | None:
        count = WINDOW if self._passed else 1
        for _ in range(MOST):
            if self._passed >= MOST:
                return None
            found = self.queue.peek(self._passed, min(count, MOST - self._passed))
            if not found:
                self.left = self._passed
                return None
            for data in found:
                request = self._read(data)
                if request is None:
                    self._passed += 1
                elif self.queue.remove(data):
                    return request
                # Else another worker has it, and those behind have moved up.
            count = WINDOW
        return None

    def _read(self, data: bytes) -> Request | None:
        name = blake2b(data, digest_size=16).digest() if self._known else b""
        if name in self._known:
            return None
        try:
            return self.queue._decode_request(data)
        except Exception as error:
            if len(self._known) >= 10 * MOST:
                self._known.clear()
            self._known[name or blake2b(data, digest_size=16).digest()] = None
            self._unreadable(data, error)
            return None
