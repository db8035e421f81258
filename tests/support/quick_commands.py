"""`gossamer` and `scrapy` for a shell: commands that start by fork (see `fork_server`).

Each is a small program that has its command forked with its own input, output, environment and directory, passes SIGINT and SIGTERM on
and ends as the command ends. Whoever kills it kills the command.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import fork_server
from tests.support.fork_process import MESSAGE

COMMANDS = ("gossamer", "scrapy")
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys

tests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
tests.connect({address!r})
job = {{"module": {name!r}, "arguments": sys.argv[1:], "environ": dict(os.environ), "directory": os.getcwd()}}
socket.send_fds(tests, [json.dumps(job).encode()], [0, 1, 2])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: tests.send(b"%d" % number))
code = int(tests.recv(64) or 1)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def quick_commands() -> Iterator[list[str]]:
    """The folders that come first in PATH, so that a shell finds them. Elsewhere than on Linux none: commands start as always."""
    if sys.platform != "linux":
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="gossamer-") as name, _listener(Path(name) / "socket") as listener:
        for command in COMMANDS:
            file = Path(name) / command
            file.write_text(PROGRAM.format(python=sys.executable, address=listener.getsockname(), name=command))
            file.chmod(0o700)
        yield [name]


@contextmanager
def _listener(address: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        accepting = threading.Thread(target=_accept, args=(listener,), daemon=True)
        accepting.start()
        yield listener
        # A thread in `accept` is not woken by a mere close.
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with connection:
        text, files, _, _ = socket.recv_fds(connection, MESSAGE, 3)
        if not text:
            return
        given = json.loads(text)
        # As a console script, which does not look for modules in the directory.
        child = fork_server.fork(
            given["module"], given["arguments"], given["environ"], Path(given["directory"]), files, options=["-P"]
        )
        for each in files:
            os.close(each)
        watch = select.poll()
        for one in (connection.fileno(), child.fileno()):
            watch.register(one, select.POLLIN)
        while True:
            ready = {number for number, _ in watch.poll()}
            if child.fileno() in ready:
                connection.send(b"%d" % child.wait())
                return
            if not (said := connection.recv(64)):
                child.kill()
                child.wait()
                return
            child.send_signal(int(said))
