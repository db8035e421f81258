"""A proxy between client and server that breaks the connection between them in every way a network can."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gossamer.testing.fault_link import FaultConnection, FaultCounters, Faults
from gossamer.testing.process import hold_port
from gossamer.testing.server_process import LoopServer, on_free_port


class FaultProxy(LoopServer):
    """Listens on `port` and forwards to a server on `target_host`:`target_port`.

    Faults may be switched by any thread at any time; when the call returns, the fault is in force. `heal` ends
    all of them. Requests and answers are told apart by the server's protocol, so that losing "the next answer"
    means exactly that; of pushed messages (pub/sub) only those of RESP3 are recognised.
    """

    def __init__(self, target_port: int, target_host: str = "127.0.0.1") -> None:
        super().__init__("gossamer-faultproxy")
        self.target_host = target_host
        self.target_port = target_port
        self.port = 0
        self._faults = Faults()
        self._links: set[FaultConnection] = set()
        self._listener: asyncio.Server | None = None
        self._placeholder: socket.socket | None = None

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:port`"""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def counters(self) -> FaultCounters:
        return replace(self._faults.counters, open=len(self._links))

    def delay(self, seconds: float) -> None:
        """Let everything arrive `seconds` later, each way; 0 ends it. Latency only: nothing waits for its predecessor."""
        self._set(delay=seconds)

    def cut(self) -> None:
        """Reset all present connections. New ones are served."""
        self._do(self._cut)

    def refuse(self) -> None:
        """Refuse new connections until `heal`. The present ones go on: `cut` them, if need be."""
        self.on_loop(self._refuse())

    def half_open(self) -> None:
        """Swallow whatever clients send, on new and present connections, and answer nothing.

        A connection that was open meanwhile stays deaf even after `heal`, like one whose other end has lost its state.
        """

        def deafen() -> None:
            self._faults.half_open = True
            for link in self._links:
                link.deafen()

        self._do(deafen)

    def lose_replies(self, n: int = 1, *, match: bytes = b"") -> None:
        """Let the next `n` requests be executed, drop their answers and reset the connection.

        `match` restricts it to requests that contain these bytes (`b"FCALL"`, say, to spare the handshake of a new
        connection). Answers to earlier requests still arrive; what follows in a pipeline is not sent. 0 ends it.
        """
        self._set(lose_replies=n, reply_match=match)

    def lose_requests(self, n: int = 1, *, match: bytes = b"") -> None:
        """Drop the next `n` requests before the server has seen them and reset the connection; `match` as above."""
        self._set(lose_requests=n, request_match=match)

    def stall(self) -> None:
        """Hold back everything, both ways, without closing anything, until `resume`."""
        self._do(lambda: self._faults.flowing.clear())

    def resume(self) -> None:
        """End a stall: what was held back arrives in order."""
        self._do(lambda: self._faults.flowing.set())

    def heal(self) -> None:
        """End every fault."""
        self._do(lambda: self._faults.heal())
        self.on_loop(self._listen_again())

    def _set(self, **changes: Any) -> None:
        def change() -> None:
            for name, value in changes.items():
                setattr(self._faults, name, value)

        self._do(change)

    def _do(self, action: Callable[[], object]) -> None:
        async def run() -> None:
            action()

        self.on_loop(run())

    def _cut(self) -> None:
        for link in list(self._links):
            link.reset()

    async def listen(self) -> None:
        """On a free port."""
        self._faults = Faults()
        self._faults.heal()
        self._listener, self.port = await on_free_port(self._open)

    async def _listen_again(self) -> None:
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        if self._listener is None:
            self._listener = await self._open(self.port)

    async def _open(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", port, backlog=512)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._placeholder = hold_port(self.port)

    async def disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # The transports close in the turn after they were aborted.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._faults.count(connections=1)
        link = FaultConnection(self._faults, (self.target_host, self.target_port), reader, writer)
        self._links.add(link)
        try:
            await link.serve()
        except* OSError:
            pass  # One side has gone; the other is reset below.
        except* asyncio.CancelledError:
            pass  # The proxy is being closed.
        finally:
            link.reset()
            self._links.discard(link)
