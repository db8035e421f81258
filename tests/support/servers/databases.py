"""Real PostgreSQL and MariaDB servers in temporary directories, to be killed and restarted at will."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from gossamer.errors import EmbeddedServerError, ServerBinaryMissing
from gossamer.testing import process

USER = "gossamer"
PASSWORD = "secret"


class DatabaseServer(ABC):
    """One server on a loopback port, with a user and a password, durable as it is by default.

    It runs as another user when the caller is root, as PostgreSQL demands. `kill` ends all of its processes at once, as a crash
    of its machine would; `restart` brings it back with the same data on the same port, which stays reserved meanwhile. On Linux
    it ends with the process that started it, however that ends.
    """

    scheme: str
    taken: str
    """What the log says when the port was taken by somebody else."""

    def __init__(self) -> None:
        # Short, for the socket's path may have no more than some hundred letters.
        self.directory = Path(tempfile.mkdtemp(prefix="gossamer-"))
        self.port = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._placeholder: socket.socket | None = None
        self._options: tuple[str, ...] = ()
        self._log = self.directory / "server.log"
        self._owner = os.getpid()
        _all.add(self)

    @abstractmethod
    def _initialise(self) -> None:
        """Make the data directory."""

    @abstractmethod
    def _command(self) -> list[str | Path]:
        """What starts the server in the foreground."""

    @abstractmethod
    def _client(self, database: str) -> list[str | Path]:
        """The client's command, up to the statement."""

    @abstractmethod
    def _introduce(self) -> None:
        """Make the user, once the server runs for the first time."""

    def start(self, *options: str) -> Self:
        """Make the data directory, start the server with `options` and wait until it answers."""
        self._options = options
        if os.geteuid() == 0:
            account = _other_user()
            os.chown(self.directory, account.pw_uid, account.pw_gid)
        try:
            first = self._take_template()
            if first:
                self._initialise()
                self._keep_template()
            for _ in range(20):
                self.port = process.free_port()
                if self._launch():
                    self._introduce()
                    return self
            raise EmbeddedServerError(f"No port could be bound in 20 attempts. {self._log_tail()}")
        except BaseException:
            self.close()
            raise

    def _take_template(self) -> bool:
        """Copy the data directory that the first server of this kind has made in this process. Whether this one is the first."""
        kept = _templates.get((type(self), os.getpid()))
        if kept is None:
            return True
        # With owners and modes, as PostgreSQL demands.
        subprocess.run(["cp", "-a", kept, self.directory / "data"], check=True)
        return False

    def _keep_template(self) -> None:
        holder = Path(tempfile.mkdtemp(prefix="gossamer-"))
        atexit.register(_remove, holder, os.getpid())
        subprocess.run(["cp", "-a", self.directory / "data", holder / "data"], check=True)
        _templates[type(self), os.getpid()] = holder / "data"

    def restart(self) -> Self:
        """Start again with the same data, port and options; stops the server first if it runs."""
        self.stop()
        process.wait_until(self._launch, f"{type(self).__name__} to come back on port {self.port}", 60)
        return self

    def stop(self) -> None:
        """Stop in good order, disconnecting whoever is there; does nothing when it does not run."""
        if self._child is not None:
            # PostgreSQL takes SIGTERM for "when all have gone", MariaDB takes SIGINT for Ctrl-C in a debugger.
            self._child.send_signal(signal.SIGINT if self.scheme == "postgresql" else signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(20)
            self.kill()

    def kill(self) -> None:
        """SIGKILL to all processes of the server, and wait until the first of them has gone."""
        if self._child is not None:
            descendants = _children(self._child.pid)
            self._child.kill()
            for pid in descendants:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._child.wait()
            self._child = None
            with suppress(OSError):
                self._placeholder = process.hold_port(self.port)

    def pause(self) -> None:
        """Stop the processes where they are: connections stay open, nothing is answered."""
        for pid in self._pids():
            with suppress(ProcessLookupError):  # A helper of the server may end meanwhile.
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove its directory."""
        if self._owner == os.getpid():
            self.kill()
            self._release_port()
            shutil.rmtree(self.directory, ignore_errors=True)
            _all.discard(self)

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def url(self, database: str = USER, *, user: str = USER, password: str = PASSWORD) -> str:
        return f"{self.scheme}://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def create(self, name: str = "") -> str:
        """Make a new and empty database and return its URL; without a name, one that nobody else has."""
        name = name or f"test_{uuid.uuid4().hex[:12]}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database that `create` has made, whoever is connected."""
        name = url.rpartition("/")[2]
        self.sql(f"DROP DATABASE {name}" + (" WITH (FORCE)" if self.scheme == "postgresql" else ""))

    def sql(self, statement: str, database: str = "") -> str:
        """Run a statement as the administrator, past every fault, and return what the client prints."""
        said = subprocess.run(
            [*self._client(database), statement], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
        )
        if said.returncode:
            raise EmbeddedServerError(f"{statement!r} failed: {said.stderr.strip()}")
        return said.stdout

    def _launch(self) -> bool:
        """Start the process and wait until it answers; False when it cannot start yet or not on this port."""
        self._release_port()
        start = self._log.stat().st_size if self._log.exists() else 0
        self._child = process.spawn(_as_other_user(self._command()), self.directory, self._log)

        def answers() -> bool:
            if not self.running:
                return True
            try:
                self.sql("SELECT 1")
            except (EmbeddedServerError, subprocess.TimeoutExpired):
                return False
            return True

        process.wait_until(answers, f"{type(self).__name__} to answer", 60, pause=0.15)
        if self.running:
            return True
        said = self._log.read_bytes()[start:].decode(errors="replace")
        self.kill()
        # Processes of a killed PostgreSQL may take a moment to notice that they have lost their parent.
        if self.taken in said or "still in use" in said or "lock file" in said or "Unable to lock" in said:
            return False
        raise EmbeddedServerError(f"{type(self).__name__} ended while starting. {self._log_tail()}")

    def _release_port(self) -> None:
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None

    def _pids(self) -> list[int]:
        if self._child is None:
            raise EmbeddedServerError("The database server does not run. Use start() or restart().")
        return [self._child.pid, *_children(self._child.pid)]

    def _run(self, command: Sequence[str | Path]) -> None:
        with self._log.open("ab") as log:
            done = subprocess.run(
                _as_other_user(command), cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if done.returncode:
            raise EmbeddedServerError(f"{Path(command[0]).name} failed. {self._log_tail()}")

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "Its log ends:\n" + "\n".join(lines[-15:])

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PostgreSQLServer(DatabaseServer):
    """`options` of start() as on the command line: `-c`, `fsync=off`."""

    scheme = "postgresql"
    taken = "could not bind"

    def _initialise(self) -> None:
        secret = self.directory / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = (
            f"--username={USER} --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-sync"
        )
        self._run([_postgresql("initdb"), "-D", self.directory / "data", *words.split(), f"--pwfile={secret}"])

    def _command(self) -> list[str | Path]:
        where: list[str | Path] = [
            "-D",
            self.directory / "data",
            "-k",
            self.directory,
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
        ]
        small = ["-c", "shared_buffers=16MB", "-c", "max_connections=40"]
        return [_postgresql("postgres"), *where, *small, *self._options]

    def _client(self, database: str) -> list[str | Path]:
        where: list[str | Path] = ["-h", self.directory, "-p", str(self.port), "-U", USER, "-d", database or "postgres"]
        return [_postgresql("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c"]

    def _introduce(self) -> None:
        self.sql(f"CREATE DATABASE {USER}")


class MariaDBServer(DatabaseServer):
    """`options` of start() as on the command line: `--max-allowed-packet=1M`."""

    scheme = "mysql"
    taken = "Address already in use"

    def _initialise(self) -> None:
        where = ["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=4M"]
        self._run([_found("mariadb-install-db"), "--no-defaults", *self._places(), *where])

    def _command(self) -> list[str | Path]:
        where = [*self._places(), f"--socket={self.directory / 'server.sock'}", "--pid-file=server.pid"]
        where += [f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M", "--performance-schema=off"]
        return [_found("mariadbd"), "--no-defaults", *where, *small, *self._options]

    def _places(self) -> list[str]:
        # A server that starts clears its temporary directory of other servers' tables: it needs one of its own.
        return [f"--datadir={self.directory / 'data'}", f"--tmpdir={self.directory}"]

    def _client(self, database: str) -> list[str | Path]:
        where: list[str | Path] = [
            "--socket",
            self.directory / "server.sock",
            "--user=root",
            f"--database={database or 'mysql'}",
        ]
        return [_found("mariadb"), "--no-defaults", "--batch", "--skip-column-names", *where, "--execute"]

    def _introduce(self) -> None:
        self.sql(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        self.sql(f"GRANT ALL ON *.* TO {USER}@'127.0.0.1'")
        self.sql(f"CREATE DATABASE {USER}")


_templates: dict[tuple[type[DatabaseServer], int], Path] = {}
"""Data directories as the program that makes them leaves them, by kind and process: making one takes a second of CPU."""


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _found(name: str) -> Path:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise ServerBinaryMissing(f"{name} was not found. Install it: apt-get install mariadb-server")
    return Path(found)


def _postgresql(name: str) -> Path:
    """A program of PostgreSQL: of the newest version that Debian's directories have, else from PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which(name)
    if found is None:
        raise ServerBinaryMissing(f"PostgreSQL's {name} was not found. Install it: apt-get install postgresql")
    return Path(found)


def _other_user() -> pwd.struct_passwd:
    for name in ("postgres", "mysql", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedServerError(
        "Root may not run a database, and there is no user postgres, mysql or nobody to run it as."
    )


def _as_other_user(command: Sequence[str | Path]) -> list[str | Path]:
    if os.geteuid() != 0:
        return list(command)
    account = _other_user()
    # A change of user clears the parent-death signal; setpriv sets it again.
    ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--pdeathsig=KILL"]
    return [shutil.which("setpriv") or "setpriv", *ids, *command]


def _children(pid: int) -> list[int]:
    """The processes that `pid` has started and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


_all: weakref.WeakSet[DatabaseServer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_all):
        server.close()
