"""Python programs that start by fork from a process that has imported their libraries already.

Importing Scrapy and Gossamer takes most of a second of CPU, and the tests start a thousand programs. `start` and `run` do what
`python -m MODULE ARGUMENTS...` does, in a process of its own with its own environment, directory and output, within milliseconds. A
test about the start itself (imports, options of the interpreter, Ctrl-C in the first moments) needs the real one.

There is one server for each search path and each set of interpreter options, started when it is first needed. It has one thread, no event
loop and no connection. Its children die with it, and it dies with the tests. Elsewhere than on Linux, programs start as always.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
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
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gossamer.testing.process import end, spawn

ROOT = Path(__file__).resolve().parents[2]
MESSAGE = 1 << 20


class Child:
    """A program started by fork, with the verbs of `subprocess.Popen`."""

    def __init__(self, server: _Server, pid: int, pidfd: int) -> None:
        self._server, self.pid, self._pidfd = server, pid, pidfd
        self.returncode: int | None = None

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

    def __init__(self, path: str, options: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-")
        folder = Path(self._folder.name)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with listener:
            listener.bind(str(folder / "socket"))
            listener.listen(1)
            command = [str(shutil.which("env")), f"PYTHONPATH={path}", sys.executable, *options, __file__]
            self._process = spawn([*command, folder / "socket"], folder, folder / "log")
            listener.settimeout(60)
            self._socket, _ = listener.accept()
        self._socket.settimeout(None)
        atexit.register(self.close)

    def close(self) -> None:
        """End it, and what it has started."""
        self._socket.close()
        end(self._process)

    def start(self, job: Mapping[str, Any], files: Sequence[int]) -> Child:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(job).encode()], files)
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
            raise RuntimeError(f"the fork server has ended: {(Path(self._folder.name) / 'log').read_text()[-4000:]}")
        kind, number, more = json.loads(text)
        if kind == "ended":
            self._codes[number] = more
        return kind, number, fds[0] if fds else more


@functools.cache
def _server(path: str, options: tuple[str, ...], pid: int) -> _Server:
    return _Server(path, options)


def start(
    module: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    directory: Path,
    stdout: Path,
    stderr: Path | None = None,
    path: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Started:
    """Start `python OPTIONS -m MODULE ARGUMENTS` with this whole environment; its output is appended to the files.

    `path` comes first in the search path, and decides which Scrapy is imported; what `environ` has as PYTHONPATH comes before it,
    and the directory before that, unless `-P` is among the options.
    """
    first = [*filter(None, path), str(ROOT)]
    given = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each and each not in first]
    environ = {**environ, "PYTHONPATH": os.pathsep.join([*given, *first])}
    with stdout.open("ab") as out, (stderr or stdout).open("ab") as err:
        if sys.platform != "linux":
            return subprocess.Popen(
                [sys.executable, *options, "-m", module, *arguments],
                cwd=directory, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        job = {
            "module": module,
            "arguments": list(arguments),
            "environ": environ,
            "directory": str(directory),
            "path": given if "-P" in options else [str(directory), *given],
        }
        kept = tuple(each for each in options if each != "-P")
        return _server(os.pathsep.join(first), kept, os.getpid()).start(job, [out.fileno(), err.fileno()])


class Program:
    """A program whose output is kept, as `subprocess.Popen` with pipes does. Leaving the `with` block waits for its end."""

    def __init__(
        self, module: str, arguments: Sequence[str], environ: Mapping[str, str], directory: Path, **more: Any
    ) -> None:
        folder = tempfile.mkdtemp(prefix="gossamer-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._out, self._err = (Path(folder) / name for name in ("out", "err"))
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


# The process that forks.

LIBRARIES = (
    "gossamer.cli.app",
    "gossamer.scrapy_redis.scheduler",
    "gossamer.scrapy.addon",
    "gossamer.scrapy.scheduler",
    "scrapy.commands.crawl",
    "scrapy.core.engine",
    "scrapy.crawler",
)
LATER = (
    "aiohttp",
    "gossamer.scrapy.speedups.handler",
    "scrapy.core.downloader.contextfactory",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.logformatter",
    "scrapy.resolver",
    "twisted.web.client",
    "uvloop",
)
"""What a crawl imports when it begins, besides the parts that Scrapy has by default; not all versions have all of it."""


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for every job. Only a child returns from here, with its job; the server ends when the tests do."""
    children: dict[int, int] = {}
    watch = select.poll()
    watch.register(connection, select.POLLIN)
    while True:
        for number, _ in watch.poll():
            if number != connection.fileno():
                pid = children.pop(number)
                watch.unregister(number)
                os.close(number)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                connection.send(json.dumps(["ended", pid, code]).encode())
                continue
            text, files, _, _ = socket.recv_fds(connection, MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
            if not text:
                os._exit(0)
            if (pid := os.fork()) == 0:
                connection.close()
                for each in children:
                    os.close(each)
                return _become(json.loads(text), files)
            for each in files:
                os.close(each)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            watch.register(pidfd, select.POLLIN)
            socket.send_fds(connection, [json.dumps(["started", pid, 0]).encode()], [pidfd])


def _become(job: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """Be as a process that was started for this job."""
    import ctypes

    parent = os.getppid()
    os.setsid()
    if ctypes.CDLL(None).prctl(1, signal.SIGKILL) != 0 or os.getppid() != parent:
        os._exit(1)
    for place, number in enumerate(files, start=1):
        os.dup2(number, place)
        os.close(number)
    os.chdir(job["directory"])
    os.environ.clear()
    os.environ.update(job["environ"])
    sys.path[0:1] = job["path"]
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if any((Path(each) / "sitecustomize.py").exists() for each in job["path"]):
        sys.modules.pop("sitecustomize", None)
        __import__("sitecustomize")
    return job


def _parts() -> set[str]:
    """The modules of what this Scrapy puts into every crawl: extensions, middlewares, handlers."""
    from scrapy.settings import default_settings

    groups = [value for name, value in vars(default_settings).items() if name.endswith("_BASE")]
    paths = [part for group in groups for pair in group.items() for part in pair if isinstance(part, str)]
    return {path.rpartition(".")[0] for path in paths if "." in path}


def _preload() -> None:
    import gc
    import importlib

    for name in LIBRARIES:
        importlib.import_module(name)
    for name in [*LATER, *_parts()]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if "twisted.internet.reactor" in sys.modules or threading.active_count() > 1:
        raise RuntimeError("something imported installs a reactor or starts a thread: children would share it")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _connection.connect(sys.argv[1])
    _preload()
    _job = serve(_connection)
    import runpy

    sys.argv[1:] = _job["arguments"]
    runpy.run_module(_job["module"], run_name="__main__", alter_sys=True)
