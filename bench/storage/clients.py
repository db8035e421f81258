"""Client processes that work at the same time on one server."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from bench.storage.measure import Cost, server_seconds
from bench.storage.peers import PEERS, Peer
from bench.storage.workload import Site

from gossamer.testing.servers import Server


class Piece(NamedTuple):
    """A piece of work for one client: `what` (new, duplicates, lease, page), `number` of them, from number `first` on;
    `known` URLs were added before."""

    what: str
    number: int
    first: int = 0
    known: int = 0
    client: int = 0


def prepare(peer: Peer, site: Site, piece: Piece) -> list[Any]:
    """What the piece starts from; not measured."""
    if piece.what == "page":
        return [peer.ready(links) for links in site.links(piece.number, piece.known, piece.client)]
    if piece.what == "lease":
        return []
    return peer.ready(site.urls(piece.first, piece.number))


def perform(peer: Peer, piece: Piece, prepared: Sequence[Any]) -> None:
    """Do the piece, and make sure that it was what it is called."""
    if piece.what == "lease":
        peer.drain(piece.number)
    elif piece.what == "page":
        peer.crawl(prepared)
    else:
        new = peer.add(prepared)
        if new != (piece.number if piece.what == "new" else 0):
            raise RuntimeError(f"{new} of {piece.number} requests were new, in: {piece.what}")


def _serve(pipe: Connection) -> None:
    # Ctrl-C is the parent's to handle; its end closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    peer: Peer | None = None
    prepared: list[Any] = []
    try:
        while True:
            order, given = pipe.recv()
            if order == "connect":
                name, url, batch = given
                peer = PEERS[name](url, batch)
                pipe.send("connected")
            elif order == "disconnect":
                assert peer is not None
                peer.close()
                pipe.send("disconnected")
            elif order == "prepare":
                assert peer is not None
                prepared = prepare(peer, *given)
                pipe.send("prepared")
            else:
                assert peer is not None
                begin, cpu = time.monotonic(), time.process_time()
                perform(peer, given, prepared)
                pipe.send((begin, time.monotonic(), time.process_time() - cpu))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


class Clients:
    """A number of processes, each with a client of its own; they start a piece of work together."""

    def __init__(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(number):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def _all(self, order: str, given: Sequence[Any]) -> list[Any]:
        for pipe, one in zip(self._pipes, given, strict=True):
            pipe.send((order, one))
        try:
            return [pipe.recv() for pipe in self._pipes]
        except EOFError:
            raise RuntimeError("a client process has died; its traceback is above") from None

    def connect(self, name: str, url: str, batch: int) -> None:
        self._all("connect", [(name, url, batch)] * len(self._pipes))

    def disconnect(self) -> None:
        self._all("disconnect", [None] * len(self._pipes))

    def cost(self, server: Server, site: Site, piece: Piece) -> Cost:
        """Divide the piece among all clients and tell what the whole of it cost."""
        share = piece.number // len(self._pipes)
        pieces = [
            piece._replace(number=share, first=piece.first + client * share, client=client)
            for client in range(len(self._pipes))
        ]
        self._all("prepare", [(site, one) for one in pieces])
        before = server_seconds(server)
        times = self._all("perform", pieces)
        spent = server_seconds(server) - before
        wall = max(end for _, end, _ in times) - min(begin for begin, _, _ in times)
        return Cost(share * len(pieces), wall, sum(cpu for _, _, cpu in times), spent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
