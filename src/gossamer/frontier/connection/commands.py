"""Plain commands and the loading of functions, as conversations: no I/O, shared by blocking and asyncio connections."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gossamer.errors import FrontierError, ServerTooOld, UrlError
from gossamer.frontier.connection.failure import ErrorReply, NoReply, failure, is_problem, value
from gossamer.frontier.connection.router import (
    ClusterRouter,
    Conversation,
    Node,
    RoutedCommand,
    Router,
    SentinelRouter,
    SingleRouter,
)
from gossamer.frontier.connection.url import FrontierUrl
from gossamer.frontier.server import library
from gossamer.frontier.server.info import Library, ServerInfo, libraries, server_info

_EXPECTED = re.compile(r"already exists|not found", re.IGNORECASE)


class Commands:
    """The commands of one address, and the router that finds their servers."""

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

    def value(self, entry: Any) -> Any:
        return value(entry, self.address.safe)

    def execute(self, *command: Any, key: bytes | str | None = None, final: bool = False) -> Conversation[Any]:
        """Run a plain command. On a cluster `key` says which node; without it redirections find the way. `final`: behind sentinels
        only the primary that they name now may answer."""
        [entry] = yield from self.router.run([RoutedCommand(command, key, final=final)])
        return self.value(entry)

    def nodes(self) -> Conversation[list[Node]]:
        found = yield from self.router.primaries()
        if isinstance(found, (ErrorReply, NoReply)):
            raise failure(found, self.address.safe)
        return found

    def execute_together(self, *commands: tuple[Any, ...]) -> Conversation[list[Any]]:
        """Run plain commands one after the other over one connection to one primary; errors stand in the list."""
        [node, *_] = yield from self.nodes()
        entries = yield from self.router.run([RoutedCommand(command, node=node) for command in commands])
        return [failure(entry, self.address.safe) if is_problem(entry) else entry for entry in entries]

    def at(self, node: Node, command: tuple[Any, ...]) -> Conversation[Any]:
        [entry] = yield from self.router.run([RoutedCommand(command, node=node)])
        return self.value(entry)

    def execute_everywhere(self, *command: Any) -> Conversation[dict[str, Any]]:
        """Run a command on every primary. Return the replies by `host:port`."""
        nodes = yield from self.nodes()
        entries = yield from self.router.run([RoutedCommand(command, node=node) for node in nodes])
        return {str(node): self.value(entry) for node, entry in zip(nodes, entries, strict=True)}

    def server_info(self) -> Conversation[ServerInfo]:
        """The server; on a cluster its first primary."""
        return (yield from self.server_infos())[0]

    def server_infos(self) -> Conversation[tuple[ServerInfo, ...]]:
        """Every primary."""
        nodes = yield from self.nodes()
        asked = [("INFO",), ("CONFIG", "GET", "appendfsync")]
        entries = yield from self.router.run([RoutedCommand(command, node=node) for node in nodes for command in asked])
        size = len(nodes) if self.address.kind == "cluster" else 0
        return tuple(
            server_info(str(node), self.value(entries[2 * index]), entries[2 * index + 1], size)
            for index, node in enumerate(nodes)
        )

    def greet(self) -> Conversation[None]:
        """Check that what answers is a server we can use."""
        answers = yield from self.execute_everywhere("INFO", "server")
        for node, answer in answers.items():
            info = server_info(node, answer)
            if info.mode == "sentinel":
                raise UrlError(f"{self.address.safe}: {node} is a sentinel; write redis+sentinel://{node}/service.")
            if info.mode == "cluster" and self.address.kind != "cluster":
                raise UrlError(f"{self.address.safe}: {node} is part of a cluster; write redis+cluster://{node}.")
            if info.too_old:
                raise ServerTooOld(f"{self.address.safe}: {node} runs {info.kind} {info.version}. {ServerTooOld()}")

    def function_load(self, code: str, replace: bool = False) -> Conversation[None]:
        """Load a function library on every primary."""
        yield from self.execute_everywhere("FUNCTION", "LOAD", *(["REPLACE"] if replace else []), code)

    def function_install(self, code: str) -> Conversation[None]:
        """Make sure that every primary has this library, or the newest that any of them has.

        No command loads a library only where it is newer. But a library cannot be loaded, without REPLACE, beside another
        that has its functions, and can be deleted only by its name, which says its revision. So what stood there when
        it was looked at leaves and the newer one comes in one transaction; if another came meanwhile, that changes
        nothing, and it is looked at again. Without memory the transaction is refused as a whole.
        """
        for _ in range(library.INSTALL_TRIES):
            found = yield from self.function_list(library.PATTERN)
            newest = max(library.newest(found), library.name_of(code), key=_revision)
            lacking = library.outdated(found, newest)
            if not lacking:
                return
            if newest != library.name_of(code):
                texts = yield from self.function_list(newest, code=True)
                code = next((each.code for libraries in texts.values() for each in libraries if each.code), code)
            for node in (yield from self.nodes()):
                if str(node) in lacking:
                    yield from self.swap(node, lacking[str(node)], code)
        raise FrontierError(
            f"{self.address.safe}: the functions cannot be loaded, because others load theirs at the same time. Try again."
        )

    def swap(self, node: Node, leaving: Sequence[str], code: str) -> Conversation[None]:
        deleting = [("FUNCTION", "DELETE", name) for name in leaving]
        commands = [("MULTI",), *deleting, ("FUNCTION", "LOAD", code), ("EXEC",)]
        entries = yield from self.router.run([RoutedCommand(command, node=node) for command in commands])
        for entry in entries[:-1]:
            self.value(entry)
        for result in self.value(entries[-1]):
            # What came or left since it was looked at is looked at again.
            if isinstance(result, Exception) and not _EXPECTED.search(str(result)):
                raise FrontierError(f"{self.address.safe}: the functions cannot be loaded: {result}")

    def function_list(self, name: str, *, code: bool = False) -> Conversation[dict[str, tuple[Library, ...]]]:
        """The libraries whose name matches (glob), for every primary by `host:port`; empty where there is none."""
        command = ("FUNCTION", "LIST", "LIBRARYNAME", name, *(["WITHCODE"] if code else []))
        answers = yield from self.execute_everywhere(*command)
        return {node: libraries(answer) for node, answer in answers.items()}


def _revision(name: str) -> library.Revision:
    return library.revision_of(name) or library.Revision(0, "")
