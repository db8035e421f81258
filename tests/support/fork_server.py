"""Python programs that start by fork from a process that has imported their libraries already.

Importing Scrapy and Gossamer takes most of a second of CPU, and the tests start a thousand programs. `start` and `run` do what
`python -m MODULE ARGUMENTS...` does, in a process of its own with its own environment, directory and output, within milliseconds. A
test about the start itself (imports, options of the interpreter, Ctrl-C in the first moments) needs the real one.

What `gossamer crawl` starts, it starts as always, but the workers are forked as well: as its children, by a process beside it that is as the
server was.

There is one server for each search path, started when it is first needed, for all processes of pytest-xdist. It has one thread and no event
loop. A program dies with the process of the tests that started it, and the server with the last of these. Elsewhere than on Linux, programs
start as always.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support import fork_process
from tests.support.fork_process import MESSAGE

ROOT = Path(__file__).resolve().parents[2]


class Child:
    """A program started by fork, with the verbs of `subprocess.Popen`."""

    def __init__(self, server: _Server, pid: int, pidfd: int) -> None:
        self._server, self.pid, self._pidfd = server, pid, pidfd
        self.returncode: int | None = None

    def fileno(self) -> int:
        """It can be read from when the program has ended."""
        return self._pidfd

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            watch = select.poll()
            watch.register(self._pidfd, select.POLLIN)
            if watch.poll(None if seconds is None else seconds * 1000):
                self.returncode = self._server.code_of(self.pid)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # It may end at this moment.
                signal.pidfd_send_signal(self._pidfd, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()

    def __del__(self) -> None:
        os.close(self._pidfd)


Started = Child | subprocess.Popen[bytes]


class _Server:
    """The process that forks, seen from the tests."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-")
        # Tells runs of the tests from each other: all processes of one share a server.
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
        address = f"gossamer-{run}-{hashlib.sha256(path.encode()).hexdigest()[:16]}"
        for _ in range(3):
            connection = self._connected(address, path)
            # One that was about to end, since nobody used it any more, does not answer.
            with suppress(ConnectionResetError):
                if connection.recv(MESSAGE):
                    self._socket = connection
                    break
            connection.close()
        else:
            raise RuntimeError(f"the fork server does not start: {self._log()}")
        atexit.register(self.close)

    def _connected(self, address: str, path: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect("\0" + address)
        except ConnectionRefusedError:
            command = [sys.executable, fork_process.__file__, address]
            with (Path(self._folder.name) / "log").open("ab") as log:
                subprocess.run(
                    command, cwd=self._folder.name, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, check=True,
                )  # fmt: skip
            connection.connect("\0" + address)
        return connection

    def _log(self) -> str:
        log = Path(self._folder.name) / "log"
        return log.read_text()[-4000:] if log.exists() else "its log is with the process of the tests that started it"

    def close(self) -> None:
        """End what was started here, and the server, unless other processes of the tests use it."""
        self._socket.close()

    def start(self, job: Mapping[str, Any], files: Sequence[int]) -> Child:
        with self._lock:
            try:
                socket.send_fds(self._socket, [json.dumps(job).encode()], files)
            except BrokenPipeError:
                self._read()
            while True:
                kind, number, more = self._read()
                if kind == "started":
                    return Child(self, number, more)

    def code_of(self, pid: int) -> int:
        with self._lock:
            while pid not in self._codes:
                self._read()
            return self._codes.pop(pid)

    def _read(self) -> tuple[str, int, int]:
        text, fds, _, _ = socket.recv_fds(self._socket, MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
        if not text:
            raise RuntimeError(f"the fork server has ended: {self._log()}")
        kind, number, more = json.loads(text)
        if kind == "ended":
            self._codes[number] = more
        return kind, number, fds[0] if fds else more


@functools.cache
def _server(path: str, pid: int) -> _Server:
    return _Server(path)


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    directory: Path,
    stdout: Path,
    stderr: Path | None = None,
    stdin: Path = Path(os.devnull),
    path: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Started:
    """Start `python OPTIONS -m MODULE ARGUMENTS` with this whole environment; its output is appended to the files.

    `path` comes first in the search path, and decides which Scrapy is imported; what `environ` has as PYTHONPATH comes before it,
    and the directory before that, unless `-P` is among the options. Besides, these may be `-Wfilter`, in one word.
    """
    with stdin.open("rb") as given, stdout.open("ab") as out, (stderr or stdout).open("ab") as err:
        if sys.platform != "linux":
            first = [*filter(None, path), str(ROOT)]
            searched = [environ.get("PYTHONPATH", ""), *first]
            return subprocess.Popen(
                [sys.executable, *options, "-m", module, *arguments],
                cwd=directory, env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, searched))},
                stdin=given, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        files = [one.fileno() for one in (given, out, err)]
        return fork(module, arguments, environ, directory, files, path=path, options=options)


def fork(
    module: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    directory: Path,
    files: Sequence[int],
    *,
    path: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Child:
    """The same with open files for input, output and errors, which this closes for nobody; on Linux alone."""
    if others := [each for each in options if each != "-P" and not each.startswith("-W")]:
        raise ValueError(f"a process that runs already cannot be given {others}")
    # The sources beside these tests, also in a copy of both that was changed (scripts/mutants.py).
    first = [*filter(None, path), str(ROOT), str(ROOT / "src")]
    given = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each and each not in first]
    job = {
        "module": module,
        "arguments": list(arguments),
        "environ": {**environ, "PYTHONPATH": os.pathsep.join([*given, *first])},
        "directory": str(directory),
        "path": given if "-P" in options else [str(directory), *given],
        "first": first,
        "warnings": [each[2:] for each in options if each != "-P"],
    }
    return _server(os.pathsep.join(first), os.getpid()).start(job, files)


class Program:
    """A program whose output is kept, as `subprocess.Popen` with pipes does; `say` is what it reads. Leaving the `with` block waits for
    its end."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        directory: Path,
        say: str | bytes = "",
        **more: Any,
    ) -> None:
        folder = tempfile.mkdtemp(prefix="gossamer-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._out, self._err = (Path(folder) / name for name in ("out", "err"))
        if say:
            more["stdin"] = Path(folder) / "in"
            more["stdin"].write_bytes(say.encode() if isinstance(say, str) else say)
        self.process = start(
            module, arguments, environ=environ, directory=directory, stdout=self._out, stderr=self._err, **more
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self.process.wait(timeout)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its output and its errors, when it has ended."""
        self.process.wait(timeout)
        return self._out.read_text(), self._err.read_text()

    def output(self) -> str:
        """What it has written so far."""
        return self._out.read_text()

    def errors(self) -> str:
        """What it has said so far."""
        return self._err.read_text()

    def send_signal(self, sig: int) -> None:
        self.process.send_signal(sig)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.process.wait()


def run(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], directory: Path, seconds: float, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as `subprocess.run` does with captured text. One that takes longer is killed, and TimeoutExpired raised."""
    with Program(module, arguments, environ, directory, **more) as program:
        out, err = program.communicate(seconds)
        return subprocess.CompletedProcess([module, *arguments], program.wait(), out, err)
