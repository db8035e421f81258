"""Clients that call the server's functions: one blocking, one for asyncio.

A call whose reply was lost is repeated unchanged, and so with the same token, until GOSSAMER_OUTAGE_SECONDS have passed: it takes
effect at most once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from gossamer.closeable import Closeable
from gossamer.errors import FrontierError, FrontierUnavailable, FunctionsTooNew
from gossamer.frontier.call import FunctionCall, Verb, function_missing, translate
from gossamer.frontier.connection import AsyncConnection, Connection, connect, connect_async
from gossamer.frontier.server import library as server_library
from gossamer.frontier.server.info import Library
from gossamer.frontier.verbs.crawl import RetryTimer
from gossamer.settings import Settings

T = TypeVar("T")
REPEAT_SECONDS = 240.0
"""No call is repeated for longer: the server keeps replies for at least five minutes."""

MISREAD = (ValueError, TypeError, LookupError, AttributeError)
"""What a reply of another form than expected leads to."""


def _newer(found: Mapping[str, Sequence[Library]], ours: str) -> FunctionsTooNew | None:
    """The error of a client that met functions which are newer than its own; None if they are not."""
    there = server_library.revision_of(server_library.newest(found))
    here = server_library.revision_of(server_library.name_of(ours))
    if there is None or here is None or there <= here:
        return None
    return FunctionsTooNew(
        f"The server has functions of revision {there.number}, this Gossamer those of revision {here.number}. {FunctionsTooNew()}"
    )


class FunctionClient(Closeable):
    """Calls functions over a blocking connection. `library` is the code to load where it is missing; ours by default."""

    def __init__(self, connection: Connection, outage: float, library: str | None = None) -> None:
        self.connection = connection
        self._outage = outage
        self._library = library or server_library.library()

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
        """Load the server-side functions where they are missing or older."""
        self.connection.function_install(self._library)

    def run(self, verb: Verb[T]) -> T:
        """Run a verb to its end. An error reply is raised inside the verb, at the call that caused it, so that the verb may handle it."""
        try:
            asks = next(verb)
            while True:
                try:
                    answers = self.ask(asks)
                except FrontierError as error:
                    asks = verb.throw(error)
                else:
                    asks = verb.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except MISREAD as error:
            if newer := _newer(self.connection.function_list(server_library.PATTERN), self._library):
                raise newer from error
            raise

    def ask(self, asks: Sequence[FunctionCall]) -> list[Any]:
        calls = [(server_library.function(a.verb), a.keys, a.args) for a in asks]
        patience = RetryTimer(min(self._outage, REPEAT_SECONDS))
        while True:
            try:
                if len(calls) == 1:
                    return [self.connection.call(*calls[0])]
                return self.connection.execute_many(calls)
            except FrontierUnavailable as error:
                time.sleep(patience.pause(error))
            except FrontierError as error:
                if not function_missing(error):
                    raise translate(error) from None
                time.sleep(patience.pause(error))
                self.load_library()

    def close(self) -> None:
        self.connection.close()


class AsyncFunctionClient:
    """`FunctionClient` for asyncio."""

    def __init__(self, connection: AsyncConnection, outage: float, library: str | None = None) -> None:
        self.connection = connection
        self._outage = outage
        self._library = library or server_library.library()

    @classmethod
    async def connect(cls, settings: Settings) -> AsyncFunctionClient:
        function_client = AsyncFunctionClient(await connect_async(settings), settings["GOSSAMER_OUTAGE_SECONDS"])
        try:
            await function_client.load_library()
        except BaseException:
            await function_client.close()
            raise
        return function_client

    async def load_library(self) -> None:
        await self.connection.function_install(self._library)

    async def run(self, verb: Verb[T]) -> T:
        try:
            asks = next(verb)
            while True:
                try:
                    answers = await self.ask(asks)
                except FrontierError as error:
                    asks = verb.throw(error)
                else:
                    asks = verb.send(answers)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except MISREAD as error:
            if newer := _newer(await self.connection.function_list(server_library.PATTERN), self._library):
                raise newer from error
            raise

    async def ask(self, asks: Sequence[FunctionCall]) -> list[Any]:
        calls = [(server_library.function(a.verb), a.keys, a.args) for a in asks]
        patience = RetryTimer(min(self._outage, REPEAT_SECONDS))
        while True:
            try:
                if len(calls) == 1:
                    return [await self.connection.call(*calls[0])]
                return await self.connection.execute_many(calls)
            except FrontierUnavailable as error:
                await asyncio.sleep(patience.pause(error))
            except FrontierError as error:
                if not function_missing(error):
                    raise translate(error) from None
                await asyncio.sleep(patience.pause(error))
                await self.load_library()

    async def close(self) -> None:
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
