"""The process behind `tests.support.fork_server`: it imports what the programs need, and forks for each of them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

MESSAGE = 1 << 20
FIRST_CALL_MS = 60_000
DIE_WITH_PARENT, ADOPT = 1, 36
"""What `prctl` calls them: PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER."""

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
    "gossamer.engine.worker",
    "gossamer.scrapy.speedups.handler",
    "gossamer.store.database.sqlite",
    "gossamer.store.writer",
    "scrapy.cmdline",
    "scrapy.core.downloader.contextfactory",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.logformatter",
    "scrapy.resolver",
    "sqlalchemy.dialects.sqlite",
    "twisted.web.client",
    "typer._adapters",
    "uvloop",
)
"""What a crawl imports when it begins, besides the parts that Scrapy has by default; not all versions have all of it."""


def listen(address: str) -> socket.socket:
    """Listen there and go on in the background. Where another process listens already, this one ends."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind("\0" + address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        sys.exit()
    listener.listen(64)
    if os.fork():
        os._exit(0)
    os.setsid()
    return listener


def serve(listener: socket.socket) -> dict[str, Any]:
    """Fork for every job. Only a child returns from here, with its job. What a process of the tests has started ends with it, and the
    server with the last of them."""
    connections: dict[int, socket.socket] = {}
    children: dict[int, tuple[int, int]] = {}
    watch = select.poll()
    watch.register(listener, select.POLLIN)

    def begin() -> None:
        connection, _ = listener.accept()
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if uid != os.getuid():
            connection.close()
            return
        connections[connection.fileno()] = connection
        watch.register(connection, select.POLLIN)
        tell(connection.fileno(), ["ready", os.getpid(), 0])

    def tell(number: int, message: Sequence[object], files: Sequence[int] = ()) -> None:
        # Whoever has gone is noticed below.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, KeyError):
            socket.send_fds(connections[number], [json.dumps(message).encode()], files)

    def leave(number: int) -> None:
        watch.unregister(number)
        connections.pop(number).close()
        if not connections:
            os._exit(0)
        for pidfd, (_, owner) in children.items():
            if owner == number:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                children[pidfd] = (children[pidfd][0], -1)

    def ended(pidfd: int) -> None:
        pid, owner = children.pop(pidfd)
        watch.unregister(pidfd)
        os.close(pidfd)
        tell(owner, ["ended", pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])])

    while True:
        ready = watch.poll(FIRST_CALL_MS if not connections else None)
        if not ready:
            # Whoever started it has not come.
            os._exit(0)
        for number, _ in ready:
            if number == listener.fileno():
                begin()
                continue
            if number in children:
                ended(number)
                continue
            try:
                text, files, _, _ = socket.recv_fds(connections[number], MESSAGE, 3, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                text, files = b"", []
            if not text:
                leave(number)
                continue
            if (pid := os.fork()) == 0:
                listener.close()
                for connection in connections.values():
                    connection.close()
                for each in children:
                    os.close(each)
                return _begin(json.loads(text), files)
            for each in files:
                os.close(each)
            pidfd = os.pidfd_open(pid)
            children[pidfd] = (pid, number)
            watch.register(pidfd, select.POLLIN)
            tell(number, ["started", pid, 0], [pidfd])


def _begin(job: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    if job["module"] == "gossamer" and job["arguments"][:1] == ["crawl"]:
        return _with_workers(job, files)
    return _become(job, files)


def _become(job: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """Be as a process that was started for this job. The files are its input, its output and its errors."""
    parent = os.getppid()
    os.setsid()
    _die_with(parent)
    for place, number in enumerate(files):
        os.dup2(number, place)
        os.close(number)
    os.chdir(job["directory"])
    os.environ.clear()
    os.environ.update(job["environ"])
    sys.path[0:1] = job["path"]
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.warnoptions += job["warnings"]
    warnings._processoptions(job["warnings"])  # type: ignore[attr-defined]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if any((Path(each) / "sitecustomize.py").exists() for each in job["path"]):
        sys.modules.pop("sitecustomize", None)
        __import__("sitecustomize")
    return job


def _die_with(parent: int) -> None:
    import ctypes

    if ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL) != 0 or os.getppid() != parent:
        os._exit(1)


def _with_workers(job: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """Have a process beside this one that forks its workers, and go on. A worker returns from here as well, with a job of its own."""
    import ctypes

    crawl = os.getpid()
    # A worker becomes a child of the nearest process above it that adopts, when the process that forked it ends.
    if ctypes.CDLL(None).prctl(ADOPT, 1) != 0:
        os._exit(1)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        here.close()
        for each in files:
            os.close(each)
        _die_with(crawl)
        return _fork_workers(there)
    there.close()
    _start_by_fork(here, job["first"])
    return _become(job, files)


def _fork_workers(connection: socket.socket) -> dict[str, Any]:
    while True:
        text, files, _, _ = socket.recv_fds(connection, MESSAGE, 3, socket.MSG_CMSG_CLOEXEC)
        if not text:
            os._exit(0)
        adopted, adopting = os.pipe()
        told, tells = os.pipe()
        if (middle := os.fork()) == 0:
            if (pid := os.fork()) == 0:
                connection.close()
                os.close(adopting)
                os.read(adopted, 1)
                for each in (adopted, told, tells):
                    os.close(each)
                return _become(json.loads(text), files)
            os.write(tells, str(pid).encode())
            os._exit(0)
        os.waitpid(middle, 0)
        connection.send(os.read(told, 20))
        for each in (*files, adopted, adopting, told, tells):
            os.close(each)


def _start_by_fork(connection: socket.socket, first: Sequence[str]) -> None:
    """Let `subprocess` ask the process beside this one for what `gossamer.fleet` starts."""
    lock = threading.Lock()

    class Popen(subprocess.Popen[Any]):
        def _execute_child(  # type: ignore[no-untyped-def]
            self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
        ) -> None:  # fmt: skip
            words = list(args)[6:]
            if words[:4] != [sys.executable, "-P", "-m", "gossamer"]:
                super()._execute_child(  # type: ignore[misc]
                    args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                    p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *more,
                )  # fmt: skip
                return
            environ = dict(os.environ if env is None else env)
            path = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each and each not in first]
            job = {
                "module": "gossamer",
                "arguments": words[4:],
                "environ": environ,
                "directory": str(cwd or os.getcwd()),
                "path": path,
                "warnings": [],
            }
            files = [given if given >= 0 else own for own, given in enumerate((p2cread, c2pwrite, errwrite))]
            with lock:
                socket.send_fds(connection, [json.dumps(job).encode()], files)
                self.pid = int(connection.recv(MESSAGE))
            self._child_created = True
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    subprocess.Popen = Popen  # type: ignore[misc]


def _parts() -> set[str]:
    """The modules of what this Scrapy puts into every crawl: extensions, middlewares, handlers (that for FTP may install a reactor), and
    all its commands."""
    import pkgutil

    from scrapy import commands
    from scrapy.settings import default_settings

    groups = [value for name, value in vars(default_settings).items() if name.endswith("_BASE")]
    paths = [part for group in groups for pair in group.items() for part in pair if isinstance(part, str)]
    parts = {path.rpartition(".")[0] for path in paths if "." in path and ".ftp." not in path}
    return parts | {found.name for found in pkgutil.iter_modules(commands.__path__, "scrapy.commands.")}


def _compute() -> None:
    """What every program computes once from its own files, and then keeps."""
    from gossamer.frontier.server.library import library

    library()


def _preload() -> None:
    import gc
    import importlib

    for name in LIBRARIES:
        importlib.import_module(name)
    from gossamer.cli.app import NOUNS

    for name in [*NOUNS.values(), *LATER, *_parts()]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _compute()
    if "twisted.internet.reactor" in sys.modules or threading.active_count() > 1:
        raise RuntimeError("something imported installs a reactor or starts a thread: children would share it")
    gc.collect()
    gc.freeze()


def _run(module: str) -> NoReturn:
    """Run it and end as the interpreter does, but without taking its modules apart: that touches all memory which this process
    shares with the server, and costs ten times as much CPU as the rest of a short command."""
    import atexit
    import gc
    import runpy

    code, interrupted = 0, False
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int):
            code = end.code & 0xFF
        elif end.code is not None:
            print(end.code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # Some things are said by what is freed: errors of a Deferred that nobody has handled.
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


if __name__ == "__main__":
    _listener = listen(sys.argv[1])
    _preload()
    _job = serve(_listener)
    sys.argv[1:] = _job["arguments"]
    _run(_job["module"])
