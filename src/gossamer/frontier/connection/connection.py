"""A connection to the frontier's server, whatever GOSSAMER_URL says: embedded, one server, sentinels, a cluster.

`connect` for blocking code (any number of threads), `connect_async` for the tasks of one event loop. A call is sent once and never
repeated here: `FrontierUnavailable.maybe_executed` tells whether the server may have executed it, and the caller, who has a token,
decides. A forked child may go on using a blocking connection (it opens sockets of its own); an async one belongs to its event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gossamer.closeable import Closeable
from gossamer.frontier.connection.commands import Commands
from gossamer.frontier.connection.driver import check_files, maker
from gossamer.frontier.connection.pool import AsyncPool, Pool
from gossamer.frontier.connection.router import Conversation, Node
from gossamer.frontier.connection.url import FrontierUrl, parse
from gossamer.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
SCAN_KEYS = 1000


def blocking(verb: Callable[Concatenate[Commands, P], Conversation[T]]) -> Callable[Concatenate[Connection, P], T]:
    """A method that sends this and waits for the reply."""

    @wraps(verb)
    def method(self: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.drive(verb(self.commands, *args, **kwargs))

    return method


class Connection(Closeable):
    """Blocking connection, made by `connect`. Safe for threads; each call takes a socket of its own."""

    def __init__(self, commands: Commands, pool: Pool, closing: Callable[[], None]) -> None:
        self.commands = commands
        self.address = commands.address
        """What was connected to; `address.safe` is for logs."""
        self.drive = pool.drive
        """Runs a conversation to its end: these commands, or calls of functions."""
        self._pool = pool
        self._closing = closing
        self.place = f"on {commands.address.safe}"
        """Where that is, for people: on a server, or in the data directory of the embedded one."""

    execute = blocking(Commands.execute)
    execute_together = blocking(Commands.execute_together)
    execute_everywhere = blocking(Commands.execute_everywhere)
    function_load = blocking(Commands.function_load)
    function_install = blocking(Commands.function_install)
    function_list = blocking(Commands.function_list)
    server_info = blocking(Commands.server_info)
    server_infos = blocking(Commands.server_infos)

    def matching(self, pattern: str) -> Iterator[bytes]:
        """The keys of a glob pattern on every primary, some of them perhaps twice. Scans the whole server: for interactive use."""
        for node in self.drive(self.commands.nodes()):
            cursor: Any = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_KEYS)
                cursor, found = self.drive(self.commands.at(node, command))
                yield from found
                if int(cursor) == 0:
                    break

    def close(self) -> None:
        """Close every socket, those in use when their calls end, and let go of the embedded server. Later calls fail with
        `FrontierError`. More than once is fine."""
        self._pool.close()
        self._closing()


class AsyncConnection:
    """Connection for asyncio, made by `connect_async`: `await connection.drive(connection.commands.execute("PING"))`."""

    def __init__(self, commands: Commands, pool: AsyncPool, closing: Callable[[], None]) -> None:
        self.commands = commands
        self.address = commands.address
        self.drive = pool.drive
        self._pool = pool
        self._closing = closing

    async def close(self) -> None:
        await self._pool.close()
        self._closing()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class EmbeddedSession:
    """This process's attachment to the embedded server, taken again when its supervisor was killed."""

    def __init__(self, address: FrontierUrl, settings: Settings) -> None:
        # Imported here: the embedded server needs Unix, a connection to another server does not.
        from gossamer.frontier.connection.embedded import attach

        directory = address.path or settings["GOSSAMER_DATA_DIR"]
        self.directory = Path(directory).expanduser().absolute()
        self._attach = partial(
            attach,
            directory,
            binary=settings["GOSSAMER_SERVER_BINARY"],
            fsync=settings["GOSSAMER_FSYNC"],
            memory=settings["GOSSAMER_SERVER_MEMORY"],
            grace_seconds=settings["GOSSAMER_GRACE_SECONDS"],
        )
        self._attachment = self._attach()
        self._closed = False
        self._renewing, self._pid = threading.Lock(), os.getpid()

    def renew(self) -> None:
        if self._pid != os.getpid():  # a thread that is not in this child may have held it
            self._renewing, self._pid = threading.Lock(), os.getpid()
        with self._renewing:
            if not self._attachment.alive():
                self._attachment.close()
                self._attachment = self._attach()
            if self._closed:
                self._attachment.close()

    async def renew_async(self) -> None:
        if not self._attachment.alive():
            await asyncio.to_thread(self.renew)

    def locate(self, _: Node) -> Node:
        return Node(self._attachment.socket_path, 0)

    def close(self) -> None:
        self._closed = True
        self._attachment.close()


def data_directory(settings: Settings) -> Path | None:
    """Where the embedded server of these settings keeps its data; None for any other server."""
    address = parse(settings["GOSSAMER_URL"])
    if address.kind != "embedded":
        return None
    return Path(address.path or settings["GOSSAMER_DATA_DIR"]).expanduser().absolute()


def connect(settings: Settings) -> Connection:
    """Connect to where GOSSAMER_URL points and check that the server can be used. Starts the embedded one."""
    address = parse(settings["GOSSAMER_URL"])
    check_files(address)
    embedded_session = EmbeddedSession(address, settings) if address.kind == "embedded" else None
    make = maker(
        address, *_seconds(settings), embedded_session.locate if embedded_session else _itself, asynchronous=False
    )
    pool = Pool(make, embedded_session.renew if embedded_session else None)
    connection = Connection(Commands(address), pool, embedded_session.close if embedded_session else _nothing)
    if embedded_session is not None:
        connection.place = f"in {embedded_session.directory}"
    try:
        connection.drive(connection.commands.greet())
    except BaseException:
        connection.close()
        raise
    return connection


def reach(url: str, seconds: float) -> Connection:
    """Connect to a server that is not the frontier's, of any age, for plain commands. Nothing is asked of it yet."""
    address = parse(url)
    check_files(address)
    pool = Pool(maker(address, seconds, seconds, _itself, asynchronous=False), None)
    return Connection(Commands(address), pool, _nothing)


async def connect_async(settings: Settings) -> AsyncConnection:
    """`connect` for the running event loop."""
    address = parse(settings["GOSSAMER_URL"])
    check_files(address)
    embedded_session = (
        await asyncio.to_thread(EmbeddedSession, address, settings) if address.kind == "embedded" else None
    )
    make = maker(
        address, *_seconds(settings), embedded_session.locate if embedded_session else _itself, asynchronous=True
    )
    pool = AsyncPool(make, embedded_session.renew_async if embedded_session else None)
    connection = AsyncConnection(Commands(address), pool, embedded_session.close if embedded_session else _nothing)
    try:
        await connection.drive(connection.commands.greet())
    except BaseException:
        await connection.close()
        raise
    return connection


def _seconds(settings: Settings) -> tuple[float, float]:
    return settings["GOSSAMER_CONNECT_SECONDS"], settings["GOSSAMER_CALL_SECONDS"]


def _itself(node: Node) -> Node:
    return node


def _nothing() -> None:
    return None
