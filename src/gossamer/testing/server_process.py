"""Where the servers of the tests run: in a process of their own, or in a thread of this one, on ports that nobody else has."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, TypeVar

from gossamer.closeable import Closeable
from gossamer.testing.process import end, free_port, spawn, wait_until

T = TypeVar("T")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ServerProcess(Closeable):
    """A server in a process of its own, which dies with this one. It says where it serves by writing it to stdout."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._holder = tempfile.TemporaryDirectory(prefix="gossamer-")
        self.directory = Path(self._holder.name)
        self.output = self.directory / "server.log"
        self._child: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Serve until `close`."""

    def run(self, command: Sequence[str | Path], read: Callable[[str], T]) -> T:
        """Start the process, and return the first true value that `read` makes of the lines that it has written."""
        child = self._child = spawn(command, self.directory, self.output)

        def said() -> T | None:
            text = self.output.read_text()
            if child.poll() is not None:
                raise RuntimeError(f"{self._what} ended while starting:\n{text}")
            return read(text) if text.endswith("\n") else None

        found = wait_until(said, f"{self._what} to serve", 60)
        assert found is not None
        return found

    def kill(self) -> None:
        """At once and for good."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def close(self) -> None:
        """End the process; what it remembers goes with it."""
        if self._child is not None:
            end(self._child)
            self._child = None
        self._holder.cleanup()

    def __enter__(self) -> Self:
        return self if self._child is not None else self.start()


class LoopServer(Closeable):
    """A server on an event loop in a thread of this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    async def listen(self) -> None:
        """Open the ports on the running loop."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Close the ports and all connections on the running loop."""

    def start(self) -> Self:
        """Serve until `close`."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
        self._thread.start()
        try:
            self.on_loop(self.listen())
        except BaseException:
            self.close()
            raise
        return self

    def on_loop(self, task: Coroutine[Any, Any, T]) -> T:
        """What comes of it on the server's loop."""
        if self._loop is None:
            task.close()
            raise RuntimeError(f"{self._name} does not run")
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(30)

    def close(self) -> None:
        """Close the ports and all connections; does nothing the second time."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self.on_loop(self.disconnect())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self if self._thread is not None else self.start()


class ThreadedServer(ThreadingHTTPServer):
    """Serves a free port of a loopback address, or the one that is given, with a thread for each connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0, address: str = "127.0.0.1") -> None:
        super().__init__((address, port), handler)
        self.address = address
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"http://{self.address}:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # A crawler that was killed, or went away in the middle of an answer.


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections alive and writes no log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


async def on_free_port(
    listen: Callable[[int], Awaitable[asyncio.Server]], attempts: int = 20
) -> tuple[asyncio.Server, int]:
    """What `listen` makes of a port, and the port."""
    while True:
        port = free_port()
        attempts -= 1
        try:
            return await listen(port), port
        except OSError:
            # Someone may have taken the port since it was found free.
            if not attempts:
                raise


async def listen(serve: Serve, host: str, secure: ssl.SSLContext | None = None) -> tuple[asyncio.Server, int]:
    """Serve streams on a free port of the host."""
    return await on_free_port(
        lambda port: asyncio.start_server(serve, host, port, ssl=secure, limit=2**20, backlog=512)
    )


def stop_event() -> asyncio.Event:
    """Is set by SIGTERM and SIGINT."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    return told


def ask(host: str, path: str) -> bytes:
    """What a server answers; `host` with its port."""
    connection = HTTPConnection(host, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()
