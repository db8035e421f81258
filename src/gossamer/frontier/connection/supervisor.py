"""The process that owns one embedded server: starts it, restarts it, stops it when its last user has gone.

Run by `embedded.attach` as a program of its own, detached (own session, so no Ctrl-C reaches it or the server):
`supervisor.py DIRECTORY BINARY FSYNC MEMORY GRACE_SECONDS READY_FD`. It imports the standard library alone, so that it
starts in a few hundredths of a second and cannot be broken by what else is installed.

In DIRECTORY:

    lock         flock held while a supervisor lives; the kernel frees it at death, so a stale file means nothing
    server.lock  flock held by the *server* process (it inherits the descriptor): while it is held a server lives,
                 whatever became of its supervisor, and no second one is started
    state.json   where the two sockets are, who runs, and the identity of DIRECTORY, which a copy of it has not
    *.sock       `supervisor.sock` for users, `server.sock` of the server (in a short directory under the
                 system's temporary one when the path would not fit a socket address)

A user is a process that holds a connection to `supervisor.sock`. The kernel closes it however the process ends.
Each gets one line of JSON: {"socket", "pid", "supervisor"}, or {"error"}; {"state"} lines before it mean "wait". Each line has
the identity of DIRECTORY, too: who finds another one than its own has come with a copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOCKET_PATH_MAX = 100  # a socket address holds 104 bytes on macOS, 108 on Linux
LOG_MAX_BYTES = 2_000_000
FIRST_USER_SECONDS = 10.0
STOP_SECONDS = 30.0
TAKEOVER_SECONDS = 60.0
BACKOFF_SECONDS = (0.05, 5.0)
STEADY_SECONDS = 60.0
LOOK_SECONDS = 1.0  # between two looks whether the directory is still there

CONFIG = """\
port 0
unixsocket {socket}
unixsocketperm 600
dir ./
daemonize no
appendonly yes
appendfsync {fsync}
no-appendfsync-on-rewrite no
aof-use-rdb-preamble yes
aof-load-truncated yes
save ""
maxmemory {memory}
maxmemory-policy noeviction
enable-debug-command no
enable-module-command no
loglevel notice
logfile server.log
"""


class CannotStart(Exception):
    """The supervisor cannot start; the text is for the user."""


class Supervisor:
    """One server on one directory, which is the working directory of this process."""

    def __init__(self, binary: str, fsync: str, memory: str, grace_seconds: float) -> None:
        self.binary = binary
        self.fsync = fsync
        self.memory = memory
        self.grace_seconds = grace_seconds
        self.home = Path.cwd()
        leave_locks_of_original()
        self.lock = take(Path("lock"), TAKEOVER_SECONDS)
        self.directory = identity(".")
        stop_leftover()
        own_files()
        self.place = socket_place()
        self.control = str(self.place / "supervisor.sock")
        self.server_socket = str(self.place / "server.sock")
        remove(self.control)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.control)
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.users: dict[int, socket.socket] = {}
        self.waiting: set[int] = set()
        self.pid = 0
        self.ready = False
        self.ever_ready = False
        self.started_at = self.restart_at = self.told_at = 0.0
        self.backoff = BACKOFF_SECONDS[0]
        self.log_offset = 0
        self.terminated = False
        self.write_state()

    def run(self) -> int:
        """Serve until the last user has gone and the grace time is over. Return the exit code."""
        wake, wake_write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.selector.register(wake, selectors.EVENT_READ)
        signal.signal(signal.SIGTERM, self.on_terminate)
        self.start_server()
        leave_at = time.monotonic() + max(self.grace_seconds, FIRST_USER_SECONDS)
        while not self.terminated:
            for key, _ in self.selector.select(self.pause(leave_at)):
                if key.fd == wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 4096)
                elif key.fileobj is self.listener:
                    leave_at = self.admit() or leave_at
                elif self.dismiss_if_gone(key.fd) and not self.users:
                    leave_at = time.monotonic() + self.grace_seconds
            if self.evicted():
                return self.vacate()
            if not self.watch_server():
                break
            # One more look at the door: whoever knocked during the last wait keeps the server alive.
            if not self.users and time.monotonic() >= leave_at and not self.admit():
                log("the last user has gone")
                break
        return self.stop()

    def on_terminate(self, *_: object) -> None:
        self.terminated = True

    def pause(self, leave_at: float) -> float:
        now = time.monotonic()
        ends = [LOOK_SECONDS]
        if not self.ready:
            ends.append(0.005 if self.pid else self.restart_at - now)
        if not self.users:
            ends.append(leave_at - now)
        return max(0.0, min(ends))

    def admit(self) -> float | None:
        """Accept every process that connects. Return the time if one did, else None."""
        came = None
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            while True:
                user, _ = self.listener.accept()
                user.setblocking(False)
                self.users[user.fileno()] = user
                self.selector.register(user, selectors.EVENT_READ)
                self.waiting.add(user.fileno())
                came = time.monotonic()
                if self.ready:
                    self.welcome()
        return came

    def dismiss_if_gone(self, fd: int) -> bool:
        try:
            if self.users[fd].recv(4096):
                return False
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.dismiss(fd)
        return True

    def dismiss(self, fd: int) -> None:
        user = self.users.pop(fd)
        self.waiting.discard(fd)
        self.selector.unregister(user)
        user.close()

    def tell(self, fds: set[int], message: dict[str, Any]) -> None:
        line = json.dumps({**message, "directory": self.directory}).encode() + b"\n"
        for fd in fds:
            with contextlib.suppress(OSError):
                self.users[fd].send(line)

    def welcome(self) -> None:
        self.tell(self.waiting, {"socket": self.server_socket, "pid": self.pid, "supervisor": os.getpid()})
        self.waiting.clear()

    def start_server(self) -> None:
        lock = take(Path("server.lock"), STOP_SECONDS)
        remove(self.server_socket)
        trim(Path("server.log"))
        self.log_offset = size(Path("server.log"))
        Path("server.conf").write_text(
            CONFIG.format(socket=quoted(self.server_socket), fsync=self.fsync, memory=self.memory)
        )
        self.pid = spawn_server(self.binary, lock)
        os.close(lock)  # the server's copy alone keeps the lock from here on
        self.ready = False
        self.started_at = self.told_at = time.monotonic()
        self.write_state()

    def watch_server(self) -> bool:
        """Bring the server forward by one step. False when it never came up: nothing to supervise."""
        now = time.monotonic()
        trim(Path("server.log"))
        if self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
            reason = last_output(self.log_offset)
            self.pid, self.ready = 0, False
            if not self.ever_ready or self.waiting:
                self.tell(self.waiting, {"error": f"The embedded server stopped: {reason}"})
            for fd in list(self.waiting):
                self.dismiss(fd)
            if not self.ever_ready:
                log(f"the server did not start: {reason}")
                return False
            if now - self.started_at > STEADY_SECONDS:
                self.backoff = BACKOFF_SECONDS[0]
            self.restart_at = now + self.backoff
            log(f"the server stopped ({reason}); starting it again on the same data in {self.backoff:.2f} s")
            self.backoff = min(self.backoff * 2, BACKOFF_SECONDS[1])
        elif not self.pid and now >= self.restart_at:
            self.start_server()
        elif self.pid and not self.ready:
            if answers(self.server_socket):
                self.ready = self.ever_ready = True
                log(f"the server runs, pid {self.pid}, ready after {now - self.started_at:.3f} s")
                self.welcome()
            elif now - self.told_at > 1:
                self.told_at = now
                self.tell(self.waiting, {"state": "starting"})
        return True

    def write_state(self) -> None:
        served = {"socket": self.server_socket, "pid": self.pid, "supervisor": os.getpid()}
        state = {"control": self.control, "directory": self.directory, **served}
        Path("state.json.new").write_text(json.dumps(state))
        os.replace("state.json.new", "state.json")

    def evicted(self) -> bool:
        """Whether the directory was removed or moved, or what is in it: another supervisor may be at home there now."""
        try:
            found = os.stat(self.home / "lock")
        except FileNotFoundError:
            return True
        except OSError:
            return False
        mine = os.fstat(self.lock)
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def vacate(self) -> int:
        """Go at once, and touch nothing under names that may be another's: a server that is asked to stop removes its socket."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.listener.close()
        for user in self.users.values():
            user.close()
        if self.place != self.home:
            shutil.rmtree(self.place, ignore_errors=True)
        return 0

    def stop(self) -> int:
        if self.evicted():
            return self.vacate()
        # The door first: whoever comes from now on finds nobody and starts a supervisor, which waits for our lock.
        remove(self.control)
        self.listener.close()
        if self.pid:
            os.kill(self.pid, signal.SIGTERM)  # the server flushes and syncs its log, then leaves
            if not wait_for(lambda: os.waitpid(self.pid, os.WNOHANG)[0] != 0, STOP_SECONDS):
                log("the server did not stop in time and is killed")
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        for user in self.users.values():
            user.close()
        for name in (self.server_socket, "state.json"):
            remove(name)
        if self.place != self.home:
            shutil.rmtree(self.place, ignore_errors=True)
        log("stopped")
        return 0 if self.ever_ready else 1


def take(path: Path, seconds: float) -> int:
    """Hold a lock file, waiting for its owner to go. Raises `CannotStart` naming the owner."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not wait_for(lambda fd=fd: locked(fd), seconds):
            owner = read_state().get("pid" if path.name == "server.lock" else "supervisor")
            raise CannotStart(f"process {owner} holds {path}")
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                if os.fstat(fd).st_nlink == 1:
                    return fd
                # A copy of hard links has the same lock: whoever holds it takes a new one here.
                remove(str(path))
        os.close(fd)


def locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def identity(path: str | os.PathLike[str]) -> list[int]:
    """What tells a directory from every other one that is there, by whatever name: neither a copy nor a hard link has it."""
    found = os.stat(path)
    return [found.st_dev, found.st_ino]


def is_of(record: dict[str, Any], path: str | os.PathLike[str]) -> bool:
    """Whether a supervisor's state or answer is of this very directory, and not of one that this is a copy of.

    A supervisor of an earlier version does not say; its `control` socket lies in its directory.
    """
    with contextlib.suppress(OSError):
        served = record.get("directory") or identity(Path(str(record.get("control", ""))).parent)
        return bool(served == identity(path))
    return False


def leave_locks_of_original() -> None:
    """Where this is a copy of hard links, made while a server ran in the original: leave the locks to that one."""
    state = read_json()
    if state and not is_of(state, "."):
        for name in ("lock", "server.lock"):
            if os.path.exists(name) and os.stat(name).st_nlink > 1:
                remove(name)


def own_files() -> None:
    """Replace what is a hard link to another directory's file by a copy: the server adds to its files in place."""
    for path in (*Path("appendonlydir").glob("*"), Path("server.conf"), Path("server.log"), Path("supervisor.log")):
        if path.is_file() and path.stat().st_nlink > 1:
            shutil.copy2(path, f"{path}.own")
            os.replace(f"{path}.own", path)


def stop_leftover() -> None:
    """End a server whose supervisor was killed. On Linux it is already ending (parent-death signal)."""
    state = read_state()
    fd = os.open("server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not wait_for(lambda: locked(fd), 0.2):
            log(f"a server without supervisor is running, pid {state.get('pid')}: stopping it")
            for stop in (ask_to_stop, signal.SIGTERM, signal.SIGKILL):
                if callable(stop):
                    stop(str(state.get("socket")))
                else:
                    kill_server(state, stop)
                if wait_for(lambda: locked(fd), STOP_SECONDS / 3):
                    break
            else:
                raise CannotStart(f"a server (process {state.get('pid')}) holds the data and cannot be stopped")
    finally:
        os.close(fd)
    place = Path(str(state.get("control", "lock"))).parent
    if place.name.startswith("gossamer-") and place.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(place, ignore_errors=True)


def ask_to_stop(path: str) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        server.settimeout(2)
        server.connect(path)
        server.sendall(b"SHUTDOWN\r\n")
        server.recv(100)


def kill_server(state: dict[str, Any], signal_number: int) -> None:
    """Signal the recorded process, only if its title still names our socket: pids are used again."""
    pid = state.get("pid")
    if isinstance(pid, int) and pid > 1 and str(state.get("socket")) in title(pid):
        os.kill(pid, signal_number)


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        with os.popen(f"ps -p {pid} -o args= 2>/dev/null") as listing:
            return listing.read()


def allocator() -> str:
    """The library of jemalloc on this machine, or "". The wheel's server is built without it; with it a crawl of ten million
    requests costs half as much as with the C library's allocator, which is slow in a large heap of small pieces."""
    if sys.platform != "linux":
        return ""
    machine = os.uname().machine
    for place in (f"/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        path = f"{place}/libjemalloc.so.2"
        if os.path.exists(path):
            return path
    return ""


def spawn_server(binary: str, lock: int) -> int:
    parent = os.getpid()
    prctl = None
    if sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    pid = os.fork()
    if pid:
        return pid
    try:
        if prctl:
            prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: the kernel ends the server when this process dies
        if os.getppid() != parent:
            os._exit(1)
        log_fd = os.open("server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.set_inheritable(lock, True)
        library = allocator()
        if library:
            os.environ["LD_PRELOAD"] = library
        os.execve(binary, [binary, "server.conf"], os.environ)
    except BaseException as error:
        os.write(2, f"# cannot run {binary}: {error}\n".encode())
    os._exit(127)


def answers(path: str) -> bool:
    """Whether the server serves: it answers PING, and not that it is still loading."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        server.settimeout(1)
        server.connect(path)
        server.sendall(b"PING\r\n")
        return server.recv(100).startswith(b"+PONG")
    return False


def socket_place() -> Path:
    here = Path.cwd()
    if len(os.fsencode(here / "supervisor.sock")) <= SOCKET_PATH_MAX:
        return here
    return Path(tempfile.mkdtemp(prefix="gossamer-"))


def last_output(offset: int, path: Path = Path("server.log")) -> str:
    """The line of the log that says why the server stopped: its last warning since `offset`."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            lines = file.read()[-65536:].decode(errors="replace").splitlines()
    except OSError:
        lines = []
    telling = [line.strip() for line in lines if is_telling(line)]
    return telling[-1] if telling else "killed, or without a word"


def is_telling(line: str) -> bool:
    return (" # " in line or line.startswith("# ") or ">>>" in line or "rror" in line) and not any(
        noise in line for noise in ("WARNING", "Configuration loaded", "bye bye", "Received SIG", "User requested")
    )


def quoted(text: str) -> str:
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in os.fsencode(text))
    return f'"{"".join(plain)}"'


def read_state() -> dict[str, Any]:
    """What a supervisor of this directory noted; not what came with a copy of another."""
    state = read_json()
    return state if is_of(state, ".") else {}


def read_json() -> dict[str, Any]:
    try:
        state = json.loads(Path("state.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def trim(path: Path) -> None:
    """Keep a log and one predecessor. The server opens its log for every line, so renaming is enough."""
    if size(path) > LOG_MAX_BYTES:
        os.replace(path, path.with_suffix(".log.old"))


def log(text: str) -> None:
    trim(Path("supervisor.log"))
    with contextlib.suppress(OSError), open("supervisor.log", "a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {text}\n")


def remove(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)


def wait_for(condition: Any, seconds: float) -> bool:
    return any(condition() for _ in ticks(seconds))


def ticks(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() >= deadline:
            return
        time.sleep(0.01)


def main(arguments: list[str]) -> int:
    directory, binary, fsync, memory, grace_seconds, ready = arguments
    os.set_inheritable(int(ready), False)
    if os.fork():
        # The process that attached waits for this one and is rid of us: no zombie, no parent to be killed with.
        os._exit(0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.umask(0o077)
    os.chdir(directory)
    with os.fdopen(int(ready), "w") as answer:
        try:
            supervisor = Supervisor(binary, fsync, memory, float(grace_seconds))
        except (CannotStart, OSError) as error:
            log(f"not started: {error}")
            answer.write(json.dumps({"error": str(error), "in_use": isinstance(error, CannotStart)}) + "\n")
            return 1
        answer.write(json.dumps({"control": supervisor.control}) + "\n")
    try:
        return supervisor.run()
    except (CannotStart, OSError) as error:
        log(f"giving up: {error}")
        supervisor.tell(supervisor.waiting, {"error": str(error)})
        return supervisor.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
