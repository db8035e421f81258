"""Calls of the server's functions, without I/O, and the blocking client that makes them.

A call whose reply was lost is repeated unchanged, and so with the same token, until GOSSAMER_OUTAGE_SECONDS have passed: it takes
effect at most once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from gossamer.closeable import Closeable
from gossamer.errors import FrontierError, FrontierUnavailable, FunctionsTooNew
from gossamer.frontier.call import Verb, function_missing, translate
from gossamer.frontier.connection import Connection, connect
from gossamer.frontier.connection.commands import Commands
from gossamer.frontier.connection.failure import value
from gossamer.frontier.connection.router import Conversation, RoutedCommand
from gossamer.frontier.server import library as server_library
from gossamer.frontier.server.info import Library
from gossamer.settings import Settings

T = TypeVar("T")
REPEAT_SECONDS = 240.0
"""No call is repeated for longer: the server keeps replies for at least five minutes."""

MISREAD = (ValueError, TypeError, LookupError, AttributeError)
"""The errors that a reply of an unexpected form causes."""


def _newer(found: Mapping[str, Sequence[Library]], ours: str) -> FunctionsTooNew | None:
    """The error of a client that met functions which are newer than its own; None if they are not."""
    there = server_library.revision_of(server_library.newest(found))
    here = server_library.revision_of(server_library.name_of(ours))
    if there is None or here is None or there <= here:
        return None
    return FunctionsTooNew(
        f"The server has functions of revision {there.number}, this Gossamer those of revision {here.number}. {FunctionsTooNew()}"
    )


class RetryTimer:
    """For how long a call is repeated while the server does not answer: in full-jitter steps from 20 ms to 1 s."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._step = 0.02

    def pause(self, error: FrontierError) -> float:
        """Return how long to wait before the next try; raise the error when the time is over."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise error
        wait = min(left, random.uniform(self._step / 2, self._step))
        self._step = min(1.0, self._step * 2)
        return wait


class FunctionCalls:
    """Runs verbs and calls functions, as conversations. `library` is the code to load where it is missing; ours by default."""

    def __init__(self, commands: Commands, outage: float, library: str | None = None) -> None:
        self._commands = commands
        self._place = commands.address.safe
        self._seconds = min(outage, REPEAT_SECONDS)
        self._library = library or server_library.library()

    def load_library(self) -> Conversation[None]:
        """Load the server-side functions where they are missing or older."""
        return self._commands.function_install(self._library)

    def run(self, verb: Verb[T]) -> Conversation[T]:
        """Run a verb to its end. An error reply is raised inside the verb, at the call that caused it, so that the verb may handle it."""
        try:
            calls = next(verb)
            while True:
                try:
                    replies = yield from self.ask(calls)
                except FrontierError as error:
                    calls = verb.throw(error)
                else:
                    calls = verb.send(replies)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except MISREAD as error:
            found = yield from self._commands.function_list(server_library.PATTERN)
            if newer := _newer(found, self._library):
                raise newer from error
            raise

    def ask(self, calls: Sequence[RoutedCommand]) -> Conversation[list[Any]]:
        """Make calls at once. All are sent, whatever becomes of any of them; the first error is raised after all have ended."""
        if not calls:
            return []
        patience = RetryTimer(self._seconds)
        missing = False
        while True:
            try:
                if missing:
                    yield from self.load_library()
                    missing = False
                entries = yield from self._commands.router.run(calls)
                return [value(entry, self._place) for entry in entries]
            except FrontierUnavailable as error:
                yield patience.pause(error)
            except FrontierError as error:
                if not function_missing(error):
                    raise translate(error) from None
                missing = True
                yield patience.pause(error)


class FunctionClient(Closeable):
    """Calls functions over a blocking connection."""

    def __init__(self, connection: Connection, outage: float, library: str | None = None) -> None:
        self.connection = connection
        self.calls = FunctionCalls(connection.commands, outage, library)

    @classmethod
    def connect(cls, settings: Settings) -> FunctionClient:
        """Connect as GOSSAMER_URL says and load the functions."""
        function_client = FunctionClient(connect(settings), settings["GOSSAMER_OUTAGE_SECONDS"])
        try:
            function_client.load_library()
        except BaseException:
            function_client.close()
            raise
        return function_client

    def load_library(self) -> None:
        self.connection.drive(self.calls.load_library())

    def run(self, verb: Verb[T]) -> T:
        return self.connection.drive(self.calls.run(verb))

    def ask(self, calls: Sequence[RoutedCommand]) -> list[Any]:
        return self.connection.drive(self.calls.ask(calls))

    def close(self) -> None:
        self.connection.close()
