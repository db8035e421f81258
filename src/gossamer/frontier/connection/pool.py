"""Open connections to servers, and round trips over them.

A command is sent once, and the result says exactly what happened: a connection is opened and tested before anything is sent, so
`NoReply.sent` False means "certainly not executed".
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from redis.exceptions import RedisError

from gossamer.errors import EmbeddedServerError, FrontierError
from gossamer.frontier.connection.driver import TROUBLE, entry_for, packed, readable
from gossamer.frontier.connection.failure import NO_IDLE, ErrorReply, NoReply
from gossamer.frontier.connection.router import Conversation, Entries, Node, RoundTrip

T = TypeVar("T")
IDLE_MAX = 16
CLOSED = NoReply("the connection was closed", sent=True)


def demoted(entries: Entries) -> bool:
    """Whether a server said that it is a replica: behind a fixed address the primary may be another one now."""
    return any(isinstance(entry, ErrorReply) and entry.code == "READONLY" for entry in entries)


def _drop(connection: Any) -> None:
    with suppress(*TROUBLE):
        connection.disconnect()


async def _drop_async(connection: Any, *, nowait: bool = True) -> None:
    with suppress(*TROUBLE):
        await connection.disconnect(nowait=nowait)


def _closed() -> FrontierError:
    return FrontierError("This connection to the frontier was closed. Open another.")


class Pool:
    """Connections to any number of nodes, for any number of threads.

    After a fork the child opens its own: the parent's sockets are left alone. Calls that run while it is closed end as usual;
    later ones fail.
    """

    def __init__(self, make: Callable[[Node], Any], refresh: Callable[[], None] | None = None) -> None:
        self._make = make
        self._refresh = refresh
        self._idle: dict[Node, list[Any]] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def drive(self, conversation: Conversation[T]) -> T:
        """Run a conversation to its end."""
        try:
            step = next(conversation)
            while True:
                if isinstance(step, list):
                    step = conversation.send(self.transmit(step))
                else:
                    time.sleep(step)
                    step = conversation.send([])
        except StopIteration as end:
            result: T = end.value
            return result

    def transmit(self, round_trips: Sequence[RoundTrip]) -> list[Entries]:
        """Make the round trips: write everything before reading anything, so that they take as long as the slowest."""
        entries: list[Entries] = [[] for _ in round_trips]
        under_way: list[tuple[int, Any]] = []
        try:
            for index, round_trip in enumerate(round_trips):
                if not round_trip.commands:
                    self._forget(round_trip.node)
                    continue
                connection = self._take(round_trip)
                if isinstance(connection, (ErrorReply, NoReply)):
                    entries[index] = [connection] * len(round_trip.commands)
                    continue
                under_way.append((index, connection))
                try:
                    connection.send_packed_command(packed(round_trip.commands), check_health=False)
                except TROUBLE as error:
                    under_way.pop()
                    _drop(connection)
                    entries[index] = [entry_for(error, sent=True)] * len(round_trip.commands)
            while under_way:
                index, connection = under_way[0]
                entries[index] = self._read(connection, len(round_trips[index].commands))
                under_way.pop(0)
                if demoted(entries[index]):
                    self._forget(round_trips[index].node)
                    _drop(connection)
                else:
                    self._give_back(round_trips[index].node, connection)
        finally:
            for _, connection in under_way:
                _drop(connection)
        return entries

    def _held(self) -> threading.Lock:
        """The lock; in a forked child a new one, since a thread that is not in the child may have held it."""
        if self._pid != os.getpid():
            self._lock, self._idle, self._pid = threading.Lock(), {}, os.getpid()
        return self._lock

    def close(self) -> None:
        with self._held():
            self._closed = True
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                _drop(connection)

    def _forget(self, node: Node) -> None:
        """Close what is open to a node: it is not used any more, or another server may answer at its address by now."""
        with self._held():
            idle = self._idle.pop(node, [])
        for connection in idle:
            _drop(connection)

    def _take(self, round_trip: RoundTrip) -> Any:
        while True:
            with self._held():
                idle = self._idle.get(round_trip.node)
                connection = idle.pop() if idle else None
            if connection is None:
                return self._open(round_trip.node) if round_trip.fresh else NO_IDLE
            try:
                if not connection.can_read():
                    connection.check_health()
                    return connection
            except TROUBLE:
                pass
            _drop(connection)

    def _open(self, node: Node) -> Any:
        if self._closed:
            raise _closed()
        try:
            if self._refresh is not None:
                self._refresh()
            connection = self._make(node)
            connection.connect()
        except EmbeddedServerError as error:
            return NoReply(str(error), sent=False)
        except TROUBLE as error:
            return entry_for(error, sent=False)
        return connection

    @staticmethod
    def _read(connection: Any, count: int) -> Entries:
        entries: Entries = []
        while len(entries) < count:
            if not connection.is_connected:
                entries += [CLOSED] * (count - len(entries))
                break
            try:
                entries.append(connection.read_response())
            except RedisError as error:
                entries.append(entry_for(error, sent=True))
            except TROUBLE as error:
                _drop(connection)
                entries.append(entry_for(error, sent=True))
        return entries

    def _give_back(self, node: Node, connection: Any) -> None:
        if connection.is_connected:
            with self._held():
                idle = self._idle.setdefault(node, [])
                if not self._closed and len(idle) < IDLE_MAX:
                    idle.append(connection)
                    return
            _drop(connection)


class AsyncPool:
    """`Pool` for the tasks of one event loop. A cancelled round trip closes its connection: its reply is lost."""

    def __init__(self, make: Callable[[Node], Any], refresh: Callable[[], Awaitable[None]] | None = None) -> None:
        self._make = make
        self._refresh = refresh
        self._idle: dict[Node, list[Any]] = {}
        self._closed = False
        self._pid = os.getpid()

    async def drive(self, conversation: Conversation[T]) -> T:
        """Run a conversation to its end."""
        try:
            step = next(conversation)
            while True:
                if isinstance(step, list):
                    step = conversation.send(await self.transmit(step))
                else:
                    await asyncio.sleep(step)
                    step = conversation.send([])
        except StopIteration as end:
            result: T = end.value
            return result

    async def transmit(self, round_trips: Sequence[RoundTrip]) -> list[Entries]:
        """Make the round trips concurrently."""
        if len(round_trips) == 1:
            return [await self._go(round_trips[0])]
        return list(await asyncio.gather(*map(self._go, round_trips)))

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await _drop_async(connection, nowait=False)

    async def _forget(self, node: Node) -> None:
        for connection in self._idle.pop(node, []):
            await _drop_async(connection)

    async def _go(self, round_trip: RoundTrip) -> Entries:
        if not round_trip.commands:
            await self._forget(round_trip.node)
            return []
        connection = await self._take(round_trip)
        if isinstance(connection, (ErrorReply, NoReply)):
            return [connection] * len(round_trip.commands)
        entries: Entries = []
        complete = False
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        try:
            try:
                await connection.send_packed_command(packed(round_trip.commands), check_health=False)
            except TROUBLE as error:
                return [entry_for(error, sent=True)] * len(round_trip.commands)
            if task and task.cancelling() > cancelled:
                # Before Python 3.12 the driver's wait_for swallows a cancellation that comes while the send completes.
                raise asyncio.CancelledError
            while len(entries) < len(round_trip.commands):
                if not connection.is_connected:
                    entries += [CLOSED] * (len(round_trip.commands) - len(entries))
                    break
                try:
                    entries.append(await connection.read_response())
                except RedisError as error:
                    entries.append(entry_for(error, sent=True))
                except TROUBLE as error:
                    lost = entry_for(error, sent=True)
                    entries += [lost] * (len(round_trip.commands) - len(entries))
                    return entries
            complete = connection.is_connected and not demoted(entries)
        finally:
            idle = self._idle.setdefault(round_trip.node, [])
            if complete and not self._closed and len(idle) < IDLE_MAX:
                idle.append(connection)
            else:
                await _drop_async(connection)
        if demoted(entries):
            # Who answers at this address may be another server by now.
            await self._forget(round_trip.node)
        return entries

    async def _take(self, round_trip: RoundTrip) -> Any:
        if self._pid != os.getpid():
            self._idle, self._pid = {}, os.getpid()
        while idle := self._idle.get(round_trip.node):
            connection = idle.pop()
            try:
                if not (readable(connection) or await connection.can_read()):
                    await connection.check_health()
                    return connection
            except TROUBLE:
                pass
            except BaseException:
                await _drop_async(connection)
                raise
            await _drop_async(connection)
        return await self._open(round_trip.node) if round_trip.fresh else NO_IDLE

    async def _open(self, node: Node) -> Any:
        if self._closed:
            raise _closed()
        connection = None
        try:
            if self._refresh is not None:
                await self._refresh()
            connection = self._make(node)
            await connection.connect()
        except EmbeddedServerError as error:
            return NoReply(str(error), sent=False)
        except TROUBLE as error:
            if connection is not None:
                await _drop_async(connection)
            return entry_for(error, sent=False)
        except BaseException:
            if connection is not None:
                await _drop_async(connection)
            raise
        return connection
