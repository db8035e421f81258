"""One connection through the fault proxy, and the faults that it is subject to."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field, replace

from gossamer.testing.resp import Frames

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 seconds: closing sends RST.
_RST = b"RST"  # In a queue, compared by identity: no answer can be mistaken for it.
_Piece = tuple[float, bytes | None]


@dataclass(frozen=True, slots=True)
class FaultCounters:
    """What has passed since the proxy was started.

    `round_trips` counts how often a connection went from quiet to waiting, so a pipeline sent at once is one.
    `lost` counts the answers and requests that were thrown away on command.
    """

    connections: int = 0
    open: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    requests: int = 0
    replies: int = 0
    round_trips: int = 0
    lost: int = 0


@dataclass(slots=True)
class Faults:
    """The faults in force and the counters, shared by all connections. Touched on the event loop only."""

    delay: float = 0.0
    half_open: bool = False
    lose_replies: int = 0
    reply_match: bytes = b""
    lose_requests: int = 0
    request_match: bytes = b""
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    counters: FaultCounters = field(default_factory=FaultCounters)

    def heal(self) -> None:
        self.delay, self.half_open, self.lose_replies, self.lose_requests = 0.0, False, 0, 0
        self.flowing.set()

    def count(self, **more: int) -> None:
        now = self.counters
        self.counters = replace(now, **{name: getattr(now, name) + n for name, n in more.items()})


class FaultConnection:
    """One client's connection and its counterpart to the server, with a queue of what is under way each way."""

    def __init__(
        self, faults: Faults, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._faults = faults
        self._target = target
        self._client = reader, writer
        self._writers = [writer]
        self._deaf = faults.half_open
        self._sent = 0
        self._answered = 0
        self._doomed: int | None = None  # The number of the request whose answer is to be lost.
        self._up: asyncio.Queue[_Piece] = asyncio.Queue(256)
        self._down: asyncio.Queue[_Piece] = asyncio.Queue(256)

    async def serve(self) -> None:
        if self._deaf:
            return await self._swallow()
        reader, writer = await asyncio.open_connection(*self._target)
        self._writers.append(writer)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._requests()),
                group.create_task(self._deliver(self._up, writer)),
                group.create_task(self._replies(reader)),
            ]
            # The server ends a connection last: when all it said is delivered, there is nothing more to do.
            await self._deliver(self._down, self._client[1])
            for task in tasks:
                task.cancel()
        if self._deaf:
            return await self._swallow()
        for open_writer in self._writers:
            open_writer.close()
        return None

    def deafen(self) -> None:
        self._deaf = True

    def reset(self) -> None:
        for writer in self._writers:
            if not writer.is_closing():
                # The socket may be gone already, closed from the other side.
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    async def _swallow(self) -> None:
        while data := await self._client[0].read(65_536):
            self._faults.count(bytes_up=len(data))

    async def _requests(self) -> None:
        frames = Frames()
        while data := await self._client[0].read(65_536):
            self._faults.count(bytes_up=len(data))
            if self._deaf:
                continue
            for request in frames.feed(data):
                if self._doomed is not None:
                    break
                if not await self._forward(request):
                    return
        await self._put(self._up, None)

    async def _forward(self, request: bytes) -> bool:
        faults = self._faults
        faults.count(requests=1, round_trips=1 if self._sent == self._answered else 0)
        if faults.lose_requests > 0 and faults.request_match in request:
            faults.lose_requests -= 1
            self._faults.count(lost=1)
            self.reset()
            return False
        self._sent += 1
        if faults.lose_replies > 0 and faults.reply_match in request:
            faults.lose_replies -= 1
            self._doomed = self._sent
        await self._put(self._up, request)
        return True

    async def _replies(self, reader: asyncio.StreamReader) -> None:
        frames = Frames()
        while data := await reader.read(65_536):
            self._faults.count(bytes_down=len(data))
            for reply in frames.feed(data):
                if not reply.startswith(b">"):
                    self._answered += 1
                    self._faults.count(replies=1)
                if self._answered == self._doomed:
                    self._faults.count(lost=1)
                    # Behind the answers that came before it, which the client is to get.
                    return await self._put(self._down, _RST)
                await self._put(self._down, reply)
        return await self._put(self._down, None)

    async def _put(self, way: asyncio.Queue[_Piece], data: bytes | None) -> None:
        await way.put((asyncio.get_running_loop().time() + self._faults.delay, data))

    async def _deliver(self, way: asyncio.Queue[_Piece], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await way.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self._faults.flowing.wait()
            if data is _RST:
                return self.reset()
            if data is None:
                if writer.can_write_eof() and not self._deaf:
                    writer.write_eof()
                return None
            if not self._deaf:
                writer.write(data)
                await writer.drain()
