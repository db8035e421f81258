"""A server that is further away: a forwarder in a process of its own that lets everything arrive later and counts round trips.

The fault proxy of the tests knows the protocol and many faults; this one knows only time, so that it costs little and its delay
is exact to some tens of microseconds. Without the benchmarks: python bench/crawls/distance.py --target PORT [--delay SECONDS]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
import sys
import time
from pathlib import Path
from statistics import median
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gossamer.testing.resp import RespConnection
from gossamer.testing.server_process import ServerProcess, listen, on_free_port

_PORT, _COUNT = "port", "count"


class Way:
    """One connection, client to server and back. A round trip is counted whenever the client speaks after the server did (or
    first), so one that is sent in several pieces, and a pipeline, count once."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.ends: list[End] = [End(self, 0), End(self, 1)]
        self.waiting = False

    def heard(self, side: int) -> None:
        if side == 0 and not self.waiting:
            self.forwarder.round_trips += 1
        self.waiting = side == 0


class End(asyncio.Protocol):
    """One of the two sockets of a way. What it hears, the other one says `delay` seconds later."""

    def __init__(self, way: Way, side: int) -> None:
        self._way, self._side = way, side
        self.transport: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        for data in self._early:
            transport.write(data)
        if self._side == 0:
            self._way.forwarder.reach(self._way.ends[1])

    def data_received(self, data: bytes) -> None:
        self._way.heard(self._side)
        asyncio.get_running_loop().call_later(self._way.forwarder.delay, self._other.say, data)

    def connection_lost(self, error: Exception | None) -> None:
        other = self._other.transport
        if other is not None:
            asyncio.get_running_loop().call_later(self._way.forwarder.delay, other.close)

    def say(self, data: bytes) -> None:
        if self.transport is None:
            self._early.append(data)
        else:
            self.transport.write(data)

    @property
    def _other(self) -> End:
        return self._way.ends[1 - self._side]


class Forwarder:
    """Everything that one process forwards to `target`, a port of this machine, with `delay` seconds each way."""

    def __init__(self, target: int, delay: float) -> None:
        self.target, self.delay = target, delay
        self.round_trips = 0
        self._tasks: set[asyncio.Task[object]] = set()

    def reach(self, end: End) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(
            asyncio.get_running_loop().create_connection(lambda: end, "127.0.0.1", self.target)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        _way, port = await on_free_port(
            lambda port: loop.create_server(lambda: Way(self).ends[0], "127.0.0.1", port, backlog=512)
        )
        _counter, count_port = await listen(self._tell, "127.0.0.1")
        print(json.dumps({_PORT: port, _COUNT: count_port}), flush=True)
        await asyncio.Event().wait()

    async def _tell(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"+{self.round_trips}\r\n".encode())
        writer.close()


class Distance(ServerProcess):
    """A way to the server on `target` of this machine that takes `round_trip` seconds there and back, if 0 as short as can be.
    Dies with this process."""

    def __init__(self, target: int, round_trip: float) -> None:
        super().__init__("the forwarder")
        self._words = [f"--target={target}", f"--delay={round_trip / 2}"]
        self.port = self._count = 0

    def start(self) -> Self:
        ports = self.run(
            [sys.executable, str(Path(__file__).resolve()), *self._words], lambda said: dict(json.loads(said))
        )
        self.port, self._count = int(ports[_PORT]), int(ports[_COUNT])
        return self

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def round_trips(self) -> int:
        """So many so far."""
        with RespConnection(("127.0.0.1", self._count)) as connection:
            return int(str(connection.call("COUNT")))

    def measured(self) -> float:
        """What a round trip really takes."""
        return round_trip(self.port)


def round_trip(port: int, times: int = 100) -> float:
    """How long a round trip to a server takes: the median in seconds."""
    took = []
    with RespConnection(("127.0.0.1", port)) as connection:
        for _ in range(times):
            begin = time.perf_counter()
            connection.call("PING")
            took.append(time.perf_counter() - begin)
    return median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description="Forward a port of this machine, later.")
    parser.add_argument("--target", type=int, required=True)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds each way")
    given = parser.parse_args()
    # The default selector rounds every wait up to a whole millisecond.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(Forwarder(given.target, given.delay).serve())


if __name__ == "__main__":
    main()
