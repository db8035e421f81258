"""Where a command goes: one server, what the sentinels name, or the owner of a slot. Pure, no I/O.

A route is a generator: it yields the round trips to make, is sent one list of entries per round trip, and returns one
entry per command (a value, an `ErrorReply` or a `NoReply`). So blocking and asyncio clients share every decision.

A command is sent a second time only when the first time certainly did nothing: it never left (`NoReply.sent` False),
or the server answered MOVED, ASK or READONLY. This is why the routes are ours and not redis-py's cluster client:
there (8.1) a single command with retries 0 is sent once, but its pipeline sends every command whose reply was lost
again, whatever the retries (`PipelineStrategy._send_cluster_commands`, ERRORS_ALLOW_RETRY).
"""

from __future__ import annotations

import time
from binascii import crc_hqx
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from gossamer.frontier.connection.failure import NO_IDLE, ErrorReply, NoReply, is_problem
from gossamer.frontier.connection.url import host_port
from gossamer.frontier.server.info import EMBEDDED

SLOTS = 16384
REDIRECTIONS = 8
LOOK_SECONDS = 0.5
"""How old the sentinels' word may be when a call is made."""
UNANSWERED_SHARE = 0.1
"""Of the time, at most this share is spent on asking sentinels of which none answers."""

MOVING = ErrorReply("TRYAGAIN", "the slot is being moved to another node")

T = TypeVar("T")
Command = tuple[Any, ...]


class Node(NamedTuple):
    """A server to talk to: host and port, or the path of a socket and port 0 (no path: the embedded server, wherever its
    socket is). Sentinels have other credentials."""

    host: str
    port: int
    sentinel: bool = False

    def __str__(self) -> str:
        if self.port:
            return host_port(self.host, self.port)
        return self.host or EMBEDDED


class RoundTrip(NamedTuple):
    """Commands for one node in one round trip. `fresh` False: only over a connection that is open already. No commands: close what is
    open to the node."""

    node: Node
    commands: tuple[Command, ...]
    fresh: bool = True


class RoutedCommand(NamedTuple):
    """One command, and a key of it or the node it is for; neither means any primary. `final`: workers end by its answer, or
    readers never come back to what is before it, so that only the present primary may give it."""

    command: Command
    key: bytes | str | None = None
    node: Node | None = None
    final: bool = False


Entries = list[Any]
Conversation = Generator[list[RoundTrip] | float, list[Entries], T]
"""A conversation with servers, without I/O: it yields round trips to make at once, or seconds to wait, is sent one list of entries per round
trip, and returns the result. `Pool.drive` runs it."""
Route = Conversation[Entries]
Primaries = Conversation[list[Node] | ErrorReply | NoReply]


class Router(Protocol):
    """Finds the server for each command; remembers what it learned."""

    def run(self, routed_commands: Sequence[RoutedCommand]) -> Route: ...

    def primaries(self) -> Primaries: ...


def slot_of(key: bytes | str) -> int:
    """The cluster slot of a key; of its hash tag when it has one."""
    # A key that cannot be sent is rejected when it is packed.
    raw = key.encode(errors="surrogatepass") if isinstance(key, str) else key
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return crc_hqx(raw, 0) % SLOTS


class SingleRouter:
    """One server, always the same."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def run(self, routed_commands: Sequence[RoutedCommand]) -> Route:
        [entries] = yield [RoundTrip(self.node, tuple([routed.command for routed in routed_commands]))]
        return entries

    def primaries(self) -> Primaries:
        yield from ()
        return [self.node]


class SentinelRouter:
    """The primary that the sentinels name.

    They are asked before every new connection, so that a primary which died and came back is not trusted, and
    after READONLY and NOREPLICAS. A primary must say itself that it is one. One that was replaced does so for some ten seconds more, and
    answers over the connections it has: therefore they are also asked before whatever is `final`, and before a call when their
    word is older than `LOOK_SECONDS`. Where none of them answers then, the primary that is known goes on.
    """

    def __init__(self, sentinels: Sequence[Node], service: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.sentinels = list(sentinels)
        self.service = service
        self.primary: Node | None = None
        self._clock = clock
        self._look_at = 0.0

    def run(self, routed_commands: Sequence[RoutedCommand]) -> Route:
        commands = tuple(routed.command for routed in routed_commands)
        tried: Node | None = None
        entries: Entries = [NO_IDLE]
        if self.primary is not None and self._clock() >= self._look_at:
            yield from self._look(self.primary)
        if self.primary is not None and not any(routed.final for routed in routed_commands):
            tried = self.primary
            [entries] = yield [RoundTrip(tried, commands, fresh=False)]
        if entries[0] is NO_IDLE or self._demoted(entries):
            found = yield from self._find()
            if not isinstance(found, Node):
                return [found] * len(commands)
            if entries[0] is NO_IDLE or found != tried:
                [entries] = yield [RoundTrip(found, commands)]
        if any(isinstance(entry, NoReply) or _has_lost_replicas(entry) for entry in entries) or self._demoted(entries):
            self.primary = None
        if self._demoted(entries):
            return [NoReply("it was the primary and is a replica now", sent=False)] * len(commands)
        return entries

    def primaries(self) -> Primaries:
        found = self.primary or (yield from self._find())
        return [found] if isinstance(found, Node) else found

    @staticmethod
    def _demoted(entries: Entries) -> bool:
        return all(isinstance(entry, ErrorReply) and entry.code == "READONLY" for entry in entries)

    def _look(self, primary: Node) -> Conversation[None]:
        """Leave the primary if the sentinels name another one."""
        begun = self._clock()
        self._look_at = begun + LOOK_SECONDS
        for sentinel in self.sentinels:
            node = yield from self._named_by(sentinel)
            if isinstance(node, Node):
                self._prefer(sentinel)
                if node != primary and self.primary == primary:
                    self.primary = None
                    yield [RoundTrip(primary, ())]
                return
        now = self._clock()
        self._look_at = now + max(LOOK_SECONDS, (now - begun) / UNANSWERED_SHARE)

    def _prefer(self, sentinel: Node) -> None:
        """The sentinel that answered is asked first from now on."""
        self.sentinels = sorted(self.sentinels, key=lambda each: each != sentinel)

    def _named_by(self, sentinel: Node) -> Conversation[Node | ErrorReply | NoReply]:
        [[answer]] = yield [RoundTrip(sentinel, (("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.service),))]
        if answer is None:
            return ErrorReply("NOSERVICE", "")
        return answer if is_problem(answer) else Node(answer[0].decode(), int(answer[1]))

    def _find(self) -> Conversation[Node | ErrorReply | NoReply]:
        self.primary = None
        problem: ErrorReply | NoReply = NoReply("no sentinel answers", sent=False)
        for sentinel in self.sentinels:
            node = yield from self._named_by(sentinel)
            if isinstance(node, ErrorReply):
                problem = node
            elif not isinstance(node, NoReply):
                [[role]] = yield [RoundTrip(node, (("ROLE",),))]
                if isinstance(role, ErrorReply) and role.code != "NOPERM":
                    return role
                if isinstance(role, ErrorReply) or (not isinstance(role, NoReply) and role[0] == b"master"):
                    self.primary = node
                    self._look_at = self._clock() + LOOK_SECONDS
                    self._prefer(sentinel)
                    return node
                problem = NoReply(f"the primary {node} that the sentinels name does not serve yet", sent=False)
        return problem


def _has_lost_replicas(entry: Any) -> bool:
    """Whether a primary refuses writes because no replica follows it, as with `min-replicas-to-write` when it was replaced."""
    return isinstance(entry, ErrorReply) and entry.code == "NOREPLICAS"


class ClusterRouter:
    """The owner of each slot, as the cluster said it last; asked again after a redirection or a lost answer."""

    def __init__(self, seeds: Sequence[Node]) -> None:
        self.seeds = tuple(seeds)
        self.owners: dict[int, Node] = {}
        self.nodes: list[Node] = []
        self.stale = True

    def run(self, routed_commands: Sequence[RoutedCommand]) -> Route:
        problem = (yield from self._refresh()) if self.stale else None
        if problem is not None and not self.nodes:
            return [problem] * len(routed_commands)
        results: Entries = [ErrorReply("TRYAGAIN", "too many redirections")] * len(routed_commands)
        pending = {index: (self._node_for(routed), False) for index, routed in enumerate(routed_commands)}
        refreshed = False
        for _ in range(REDIRECTIONS):
            groups: dict[Node, list[int]] = {}
            for index, (node, _asking) in pending.items():
                groups.setdefault(node, []).append(index)
            entries = yield [
                RoundTrip(node, tuple(self._packed(routed_commands, indices, pending)))
                for node, indices in groups.items()
            ]
            again: dict[int, tuple[Node, bool]] = {}
            unsent: dict[int, Node] = {}
            for (node, indices), replies in zip(groups.items(), entries, strict=True):
                for index, entry in zip(indices, self._unpacked(indices, pending, replies), strict=True):
                    if (
                        isinstance(entry, ErrorReply)
                        and entry.code == "ASK"
                        and routed_commands[index].command[0] == "FCALL"
                    ):
                        # Its slot moves key by key, and a function needs all of them: it waits until they have moved. The key
                        # that a partition is called by does not exist, so no function runs in a slot from the moment it
                        # begins to move.
                        entry = MOVING
                    results[index] = entry
                    target = self._redirection(entry, node)
                    if target is not None:
                        again[index] = target
                    elif isinstance(entry, NoReply):
                        self.stale = True
                        if not entry.sent and routed_commands[index].node is None:
                            unsent[index] = node
                    elif isinstance(entry, ErrorReply) and entry.code in ("CLUSTERDOWN", "READONLY"):
                        self.stale = True
            if unsent and not refreshed:
                refreshed = True
                yield from self._refresh()
                moved = {index: self._node_for(routed_commands[index]) for index in unsent}
                again.update({index: (node, False) for index, node in moved.items() if node != unsent[index]})
            if not again:
                break
            for index in again:
                results[index] = ErrorReply("TRYAGAIN", "too many redirections")
            pending = again
        return results

    def primaries(self) -> Primaries:
        problem = yield from self._refresh()
        return list(self.nodes) if problem is None else problem

    def _node_for(self, routed: RoutedCommand) -> Node:
        if routed.node is not None:
            return routed.node
        return self.nodes[0] if routed.key is None else self.owners.get(slot_of(routed.key), self.nodes[0])

    @staticmethod
    def _packed(
        routed_commands: Sequence[RoutedCommand], indices: list[int], pending: dict[int, tuple[Node, bool]]
    ) -> Generator[Command, None, None]:
        for index in indices:
            if pending[index][1]:
                yield ("ASKING",)
            yield routed_commands[index].command

    @staticmethod
    def _unpacked(
        indices: list[int], pending: dict[int, tuple[Node, bool]], replies: Entries
    ) -> Generator[Any, None, None]:
        position = 0
        for index in indices:
            position += pending[index][1]
            yield replies[position]
            position += 1

    def _redirection(self, entry: Any, asked: Node) -> tuple[Node, bool] | None:
        if not isinstance(entry, ErrorReply) or entry.code not in ("MOVED", "ASK"):
            return None
        slot, _, place = entry.text.partition(" ")
        host, _, port = place.rpartition(":")
        node = Node(host.strip("[]") or asked.host, int(port))
        if entry.code == "ASK":
            return node, True
        if self.owners.get(int(slot)) != node:
            self.owners[int(slot)] = node
            self.stale = True
        return node, False

    def _refresh(self) -> Conversation[ErrorReply | NoReply | None]:
        problem: ErrorReply | NoReply = NoReply("no node of the cluster answers", sent=False)
        for node in dict.fromkeys((*self.nodes, *self.seeds)):
            [[answer]] = yield [RoundTrip(node, (("CLUSTER", "SLOTS"),))]
            if isinstance(answer, ErrorReply):
                problem = answer
            elif not isinstance(answer, NoReply):
                owners: dict[int, Node] = {}
                for first, last, (host, port, *_), *_replicas in answer:
                    owner = Node((host or b"").decode() or node.host, port)
                    owners.update(dict.fromkeys(range(first, last + 1), owner))
                if owners:
                    self.owners, self.nodes = owners, sorted(set(owners.values()))
                    self.stale = False
                    return None
                problem = ErrorReply("CLUSTERDOWN", "no slots are served")
            elif "no node" in problem.text:
                problem = NoReply(answer.text, sent=False)
        return problem
