"""Child processes that never outlive their parent, free ports, and waiting with a deadline."""

from __future__ import annotations

import errno
import functools
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")

# Below the ports that Linux and macOS hand to outgoing connections: a server that was killed can come back
# on its port without finding some client's connection there.
PORTS = range(20_000, 32_000)

# Not `preexec_fn`, which is unsafe in a process with threads: this runs after exec, then becomes the server.
# The signal is asked for first and the parent looked at second, so that no moment is left unwatched. The shell does it in a
# tenth of the time, where there is a setpriv.
_DIE_WITH_PARENT_SH = 'test "$PPID" = "$0" || exit 1; exec "$@"'
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
if ctypes.CDLL(None).prctl(1, signal.SIGKILL) != 0 or os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Process(Protocol):
    """A child: what `subprocess.Popen` and other ways to start one have in common."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def wait_until(condition: Callable[[], T], what: str, seconds: float = 30.0, *, pause: float = 0.05) -> T:
    """Return the first true value of `condition`; after `seconds` without one, raise TimeoutError naming `what`.

    It is asked every `pause` seconds, and more often in the beginning.
    """
    deadline = time.monotonic() + seconds
    now = min(0.002, pause)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(now)
        now = min(now * 1.5, pause)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago. Another process may still take it: be ready to try again."""
    # The system's randomness: processes with equally seeded generators must not try the same ports in step.
    choice = random.SystemRandom()
    for _ in range(1000):
        port = choice.choice(PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
            return port
    raise OSError(errno.EADDRINUSE, f"no free port found on {host} in {PORTS.start}–{PORTS.stop - 1}")


def hold_port(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Keep `port` from other callers of `free_port` until the socket returned is closed.

    Nobody listens meanwhile: clients are refused as they are by a dead server.
    """
    placeholder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        placeholder.bind((host, port))
    except BaseException:
        placeholder.close()
        raise
    return placeholder


def spawn(command: Sequence[str | Path], directory: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a child in its own session (no Ctrl-C reaches it), output appended to `log`.

    On Linux it is killed by the kernel when this process ends in whatever way; elsewhere only an orderly exit
    of the caller ends it.
    """
    if sys.platform == "linux":
        if setpriv := _setpriv():
            command = [setpriv, "--pdeathsig", "KILL", "/bin/sh", "-c", _DIE_WITH_PARENT_SH, str(os.getpid()), *command]
        else:
            command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    return _spawner().run(start)


@functools.cache
def _setpriv() -> str | None:
    """The program that sets the signal of a parent's death, if it is here and knows how."""
    found = shutil.which("setpriv")
    if found is None:
        return None
    tried = subprocess.run([found, "--pdeathsig", "KILL", "true"], capture_output=True, check=False)
    return found if tried.returncode == 0 else None


def is_stopped(pid: int) -> bool:
    """Whether a child that was sent SIGSTOP has stopped. Where there is no /proc, taken for granted."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return sys.platform != "linux"
    return stat.rpartition(")")[2].split()[0] in "Tt"


def open_sockets() -> int:
    """How many sockets this process has, where there is a /proc."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
        except FileNotFoundError:
            continue
    return count


def end(process: Process, grace: float = 10.0) -> None:
    """End a child in good order, by force when it has not gone after `grace` seconds; reaps it."""
    if process.poll() is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


class _Spawner:
    """One thread that starts all children.

    The kernel sends the parent-death signal when the *thread* that forked ends; a thread that lives as long as
    the process makes it safe to start a server from any short-lived one.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._loop, name="gossamer-spawner", daemon=True).start()

    def _loop(self) -> None:
        while True:
            self._work.get()()

    def run(self, task: Callable[[], T]) -> T:
        outcome: Future[T] = Future()

        def work() -> None:
            try:
                outcome.set_result(task())
            except BaseException as error:
                outcome.set_exception(error)

        self._work.put(work)
        return outcome.result()


_lock = threading.Lock()
_only: _Spawner | None = None


def _spawner() -> _Spawner:
    global _only
    with _lock:
        # A forked child has the object but not the thread.
        if _only is None or _only.pid != os.getpid():
            _only = _Spawner()
        return _only
