"""A connection to the frontier's server, whatever GOSSAMER_URL says: embedded, one server, sentinels, a cluster.

`connect` for blocking code (any number of threads), `connect_async` for the tasks of one event loop. Both offer the
same verbs, but for `matching`. A call is sent once and never repeated here: `FrontierUnavailable.maybe_executed` tells whether the
server may have executed it, and the caller, who has a token, decides. A forked child may go on using a blocking
connection (it opens sockets of its own); an async one belongs to its event loop.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from gossamer.errors import FrontierError, ServerTooOld, UrlError
from gossamer.frontier.connection.failure import ErrorReply, NoReply, failure, is_problem
from gossamer.frontier.connection.pool import AsyncPool, Pool, check_files, maker
from gossamer.frontier.connection.router import (
    ClusterRouter,
    Entries,
    Node,
    RoundTrip,
    RoutedCommand,
    Router,
    SentinelRouter,
    SingleRouter,
    slot_of,
)
from gossamer.frontier.connection.url import FrontierUrl, parse
from gossamer.frontier.server import library
from gossamer.frontier.server.info import Library, ServerInfo, libraries, server_info
from gossamer.settings import Settings

Key = bytes | str
Call = tuple[str, Sequence[Key], Sequence[Any]]
T = TypeVar("T")
Talk = Generator[list[RoundTrip], list[Entries], T]
DRAINED = library.function("group_open")
SCAN_KEYS = 1000
_EXPECTED = re.compile(r"already exists|not found", re.IGNORECASE)


class Commands:
    """What is said to the server for each verb, as generators: no I/O, shared by both kinds of connection."""

    def __init__(self, address: FrontierUrl) -> None:
        self.address = address
        nodes = [Node(host, port, sentinel=address.kind == "sentinel") for host, port in address.hosts]
        self.router: Router
        if address.kind == "sentinel":
            self.router = SentinelRouter(nodes, address.service)
        elif address.kind == "cluster":
            self.router = ClusterRouter(nodes)
        else:
            self.router = SingleRouter(nodes[0] if nodes else Node(address.path, 0))

    def routed(self, function: str, keys: Sequence[Key], args: Sequence[Any]) -> RoutedCommand:
        slot = slot_of(keys[0]) if keys and self.address.kind == "cluster" else None
        return RoutedCommand(("FCALL", function, len(keys), *keys, *args), slot, final=function == DRAINED)

    def value(self, entry: Any) -> Any:
        if is_problem(entry):
            raise failure(entry, self.address.safe)
        return entry

    def one(self, routed: RoutedCommand) -> Talk[Any]:
        [entry] = yield from self.router.run([routed])
        return self.value(entry)

    def plain(self, command: tuple[Any, ...], key: Key | None, final: bool) -> Talk[Any]:
        slot = slot_of(key) if key is not None and self.address.kind == "cluster" else None
        return (yield from self.one(RoutedCommand(command, slot, final=final)))

    def many(self, calls: Sequence[Call], raise_errors: bool) -> Talk[list[Any]]:
        if not calls:
            return []
        entries = yield from self.router.run([self.routed(*call) for call in calls])
        if raise_errors:
            return [self.value(entry) for entry in entries]
        return [failure(entry, self.address.safe) if is_problem(entry) else entry for entry in entries]

    def nodes(self) -> Talk[list[Node]]:
        found = yield from self.router.primaries()
        if isinstance(found, (ErrorReply, NoReply)):
            raise failure(found, self.address.safe)
        return found

    def together(self, commands: Sequence[tuple[Any, ...]]) -> Talk[list[Any]]:
        [node, *_] = yield from self.nodes()
        entries = yield from self.router.run([RoutedCommand(command, node=node) for command in commands])
        return [failure(entry, self.address.safe) if is_problem(entry) else entry for entry in entries]

    def at(self, node: Node, command: tuple[Any, ...]) -> Talk[Any]:
        [entry] = yield from self.router.run([RoutedCommand(command, node=node)])
        return self.value(entry)

    def everywhere(self, command: tuple[Any, ...]) -> Talk[dict[str, Any]]:
        nodes = yield from self.nodes()
        entries = yield from self.router.run([RoutedCommand(command, node=node) for node in nodes])
        return {str(node): self.value(entry) for node, entry in zip(nodes, entries, strict=True)}

    def information(self) -> Talk[tuple[ServerInfo, ...]]:
        nodes = yield from self.nodes()
        asked = [("INFO",), ("CONFIG", "GET", "appendfsync")]
        entries = yield from self.router.run([RoutedCommand(command, node=node) for node in nodes for command in asked])
        size = len(nodes) if self.address.kind == "cluster" else 0
        return tuple(
            server_info(str(node), self.value(entries[2 * index]), entries[2 * index + 1], size)
            for index, node in enumerate(nodes)
        )

    def greet(self) -> Talk[None]:
        """Check that what answers is a server we can use."""
        answers = yield from self.everywhere(("INFO", "server"))
        for node, answer in answers.items():
            info = server_info(node, answer)
            if info.mode == "sentinel":
                raise UrlError(f"{self.address.safe}: {node} is a sentinel; write redis+sentinel://{node}/service.")
            if info.mode == "cluster" and self.address.kind != "cluster":
                raise UrlError(f"{self.address.safe}: {node} is part of a cluster; write redis+cluster://{node}.")
            if info.too_old:
                raise ServerTooOld(f"{self.address.safe}: {node} runs {info.kind} {info.version}. {ServerTooOld()}")

    def load(self, code: str, replace: bool) -> Talk[None]:
        yield from self.everywhere(("FUNCTION", "LOAD", *(["REPLACE"] if replace else []), code))

    def install(self, code: str) -> Talk[None]:
        """See that every primary has this library, or the newest that any of them has.

        No command loads a library only where it is newer. But a library cannot be loaded, without REPLACE, beside another
        that has its functions, and can be deleted only by its name, which says its revision. So what stood there when
        it was looked at leaves and the newer one comes in one transaction; if another came meanwhile, that changes
        nothing, and it is looked at again. Without memory the transaction is refused as a whole.
        """
        for _ in range(library.INSTALL_TRIES):
            found = yield from self.listing(library.PATTERN, code=False)
            newest = max(library.newest(found), library.name_of(code), key=_revision)
            lacking = library.outdated(found, newest)
            if not lacking:
                return
            if newest != library.name_of(code):
                texts = yield from self.listing(newest, code=True)
                code = next((each.code for libraries in texts.values() for each in libraries if each.code), code)
            for node in (yield from self.nodes()):
                if str(node) in lacking:
                    yield from self.swap(node, lacking[str(node)], code)
        raise FrontierError(
            f"{self.address.safe}: the functions cannot be loaded, because others load theirs at the same time. Try again."
        )

    def swap(self, node: Node, leaving: Sequence[str], code: str) -> Talk[None]:
        deleting = [("FUNCTION", "DELETE", name) for name in leaving]
        commands = [("MULTI",), *deleting, ("FUNCTION", "LOAD", code), ("EXEC",)]
        entries = yield from self.router.run([RoutedCommand(command, node=node) for command in commands])
        for entry in entries[:-1]:
            self.value(entry)
        for result in self.value(entries[-1]):
            # What came or left since it was looked at is looked at again.
            if isinstance(result, Exception) and not _EXPECTED.search(str(result)):
                raise FrontierError(f"{self.address.safe}: the functions cannot be loaded: {result}")

    def listing(self, name: str, code: bool) -> Talk[dict[str, tuple[Library, ...]]]:
        answers = yield from self.everywhere(("FUNCTION", "LIST", "LIBRARYNAME", name, *(["WITHCODE"] if code else [])))
        return {node: libraries(answer) for node, answer in answers.items()}


class Connection:
    """Blocking connection, made by `connect`. Safe for threads; each call takes a socket of its own."""

    def __init__(self, dialogue: Commands, pool: Pool, closing: Callable[[], None]) -> None:
        self._say = dialogue
        self._pool = pool
        self._closing = closing
        self.place = f"on {dialogue.address.safe}"
        """Where that is, for people: on a server, or in the data directory of the embedded one."""

    @property
    def address(self) -> FrontierUrl:
        """What was connected to; `address.safe` is for logs."""
        return self._say.address

    def _talk(self, talk: Talk[T]) -> T:
        try:
            round_trips = next(talk)
            while True:
                round_trips = talk.send(self._pool.transmit(round_trips))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def call(self, name: str, keys: Sequence[Key], args: Sequence[Any]) -> Any:
        """Call a function. Its keys must share a hash tag."""
        return self._talk(self._say.one(self._say.routed(name, keys, args)))

    def execute(self, *command: Any, key: Key | None = None, final: bool = False) -> Any:
        """Run a plain command. On a cluster `key` says which node; without it redirections find the way. `final`: behind sentinels
        only the primary that they name now may answer."""
        return self._talk(self._say.plain(command, key, final))

    def execute_many(self, calls: Sequence[Call], *, raise_errors: bool = True) -> list[Any]:
        """Call many functions, one round trip per node; the answers are in the order of the calls.

        All are sent whatever becomes of one. The first error is raised after all have ended; with `raise_errors`
        False errors stand in the list, each in its place. Calls for different nodes have no order.
        """
        return self._talk(self._say.many(calls, raise_errors))

    def execute_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run plain commands one after the other over one connection to one primary; errors stand in the list."""
        return self._talk(self._say.together(commands))

    def execute_everywhere(self, *command: Any) -> dict[str, Any]:
        """Run a command on every primary; the answers by `host:port`."""
        return self._talk(self._say.everywhere(command))

    def matching(self, pattern: str) -> Iterator[bytes]:
        """The keys of a glob pattern on every primary, some of them perhaps twice. For people: the whole server is looked through."""
        for node in self._talk(self._say.nodes()):
            cursor: Any = b"0"
            while True:
                cursor, found = self._talk(self._say.at(node, ("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_KEYS)))
                yield from found
                if int(cursor) == 0:
                    break

    def function_load(self, code: str, replace: bool = False) -> None:
        """Load a function library on every primary."""
        self._talk(self._say.load(code, replace))

    def function_install(self, code: str) -> None:
        """Load the frontier's library on every primary that has none or an older one."""
        self._talk(self._say.install(code))

    def function_list(self, name: str, *, code: bool = False) -> dict[str, tuple[Library, ...]]:
        """The libraries whose name matches (glob), for every primary by `host:port`; empty where there is none."""
        return self._talk(self._say.listing(name, code))

    def server_info(self) -> ServerInfo:
        """The server; on a cluster its first primary."""
        return self.server_infos()[0]

    def server_infos(self) -> tuple[ServerInfo, ...]:
        """Every primary."""
        return self._talk(self._say.information())

    def close(self) -> None:
        """Close every socket and let go of the embedded server. More than once is fine."""
        self._pool.close()
        self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnection:
    """Connection for asyncio, made by `connect_async`. The verbs are those of `Connection`, as coroutines."""

    def __init__(self, dialogue: Commands, pool: AsyncPool, closing: Callable[[], None]) -> None:
        self._say = dialogue
        self._pool = pool
        self._closing = closing

    @property
    def address(self) -> FrontierUrl:
        return self._say.address

    async def _talk(self, talk: Talk[T]) -> T:
        try:
            round_trips = next(talk)
            while True:
                round_trips = talk.send(await self._pool.transmit(round_trips))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def call(self, name: str, keys: Sequence[Key], args: Sequence[Any]) -> Any:
        return await self._talk(self._say.one(self._say.routed(name, keys, args)))

    async def execute(self, *command: Any, key: Key | None = None, final: bool = False) -> Any:
        return await self._talk(self._say.plain(command, key, final))

    async def execute_many(self, calls: Sequence[Call], *, raise_errors: bool = True) -> list[Any]:
        return await self._talk(self._say.many(calls, raise_errors))

    async def execute_everywhere(self, *command: Any) -> dict[str, Any]:
        return await self._talk(self._say.everywhere(command))

    async def function_load(self, code: str, replace: bool = False) -> None:
        await self._talk(self._say.load(code, replace))

    async def function_install(self, code: str) -> None:
        await self._talk(self._say.install(code))

    async def function_list(self, name: str, *, code: bool = False) -> dict[str, tuple[Library, ...]]:
        return await self._talk(self._say.listing(name, code))

    async def server_info(self) -> ServerInfo:
        return (await self.server_infos())[0]

    async def server_infos(self) -> tuple[ServerInfo, ...]:
        return await self._talk(self._say.information())

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
        self._renewing, self._pid = threading.Lock(), os.getpid()

    def renew(self) -> None:
        if self._pid != os.getpid():  # a thread that is not in this child may have held it
            self._renewing, self._pid = threading.Lock(), os.getpid()
        with self._renewing:
            if not self._attachment.alive():
                self._attachment.close()
                self._attachment = self._attach()

    async def renew_async(self) -> None:
        if not self._attachment.alive():
            await asyncio.to_thread(self.renew)

    def locate(self, _: Node) -> Node:
        return Node(self._attachment.socket_path, 0)

    def close(self) -> None:
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
        connection._talk(connection._say.greet())
    except BaseException:
        connection.close()
        raise
    return connection


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
        await connection._talk(connection._say.greet())
    except BaseException:
        await connection.close()
        raise
    return connection


def _revision(name: str) -> library.Revision:
    return library.revision_of(name) or library.Revision(0, "")


def _seconds(settings: Settings) -> tuple[float, float]:
    return settings["GOSSAMER_CONNECT_SECONDS"], settings["GOSSAMER_CALL_SECONDS"]


def _itself(node: Node) -> Node:
    return node


def _nothing() -> None:
    return None
