"""What a piece of work costs: time, and the processor time of client and server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from gossamer.testing.servers import Config, Server

PRELOAD = "BENCH_PRELOAD"
CONFIG: Config = {"maxmemory": "3500mb", "auto-aof-rewrite-percentage": 0, "slowlog-log-slower-than": -1}
"""Rewriting the log would fork in the middle of a measurement, on either side. The log of slow calls is memory that the
bench's own large batches would fill."""


class Cost(NamedTuple):
    """What `number` requests or pages took: seconds on the clock, and of the processor for clients and server."""

    number: int
    wall: float
    client: float
    server: float

    @property
    def rate(self) -> float:
        return self.number / self.wall

    @property
    def cpu_us(self) -> float:
        return self.client_us + self.server_us

    @property
    def client_us(self) -> float:
        return self.client / self.number * 1e6

    @property
    def server_us(self) -> float:
        return self.server / self.number * 1e6


def start_server() -> Server:
    """A private server that syncs its log every second, with the library in it that BENCH_PRELOAD names."""
    library, mine = os.environ.get(PRELOAD), os.environ.get("LD_PRELOAD")
    try:
        if library:
            os.environ["LD_PRELOAD"] = library
        return Server("valkey").start(CONFIG, fsync="everysec")
    finally:
        if library:
            del os.environ["LD_PRELOAD"]
        if mine is not None:
            os.environ["LD_PRELOAD"] = mine


def server_seconds(server: Server) -> float:
    cpu = server.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


def cost(server: Server, number: int, work: Callable[[], object]) -> Cost:
    """Do the work, in this process, and tell what it cost."""
    before, cpu, clock = server_seconds(server), time.process_time(), time.perf_counter()
    work()
    wall, client = time.perf_counter() - clock, time.process_time() - cpu
    return Cost(number, wall, client, server_seconds(server) - before)


def middle(costs: Sequence[Cost]) -> Cost:
    """Each figure's median, per request."""
    return Cost(
        1,
        median(c.wall / c.number for c in costs),
        median(c.client / c.number for c in costs),
        median(c.server / c.number for c in costs),
    )


def used_memory(server: Server) -> int:
    """Bytes in use once they have come to rest: buffers of clients that left, and of the log, go within a moment."""
    before = 0
    for _ in range(50):
        memory = server.info("memory")
        now = int(memory["used_memory"]) - int(memory["mem_aof_buffer"])
        if now == before:
            break
        before = now
        time.sleep(0.1)
    return now


class Progress:
    """Tells what is being done, and whether there is still time for more."""

    def __init__(self, seconds: float, quiet: bool = False) -> None:
        self._begin = time.monotonic()
        self._seconds, self._quiet = seconds, quiet
        self.skipped: list[str] = []

    def step(self, text: str) -> None:
        if not self._quiet:
            print(f"[{self.elapsed:4.0f} s] {text}", file=sys.stderr, flush=True)

    def leave_out(self, text: str) -> None:
        self.skipped.append(text)
        self.step(f"left out for want of time: {text}")

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        return self._seconds - self.elapsed
