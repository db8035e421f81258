"""The servers that the tests of the store run on do what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.servers.databases import DatabaseServer, MariaDBServer, PostgreSQLServer

from gossamer.errors import EmbeddedServerError
from gossamer.testing.process import wait_until


@pytest.mark.parametrize("server_type", [PostgreSQLServer, MariaDBServer])
def test_what_was_committed_outlives_a_kill(server_type: type[DatabaseServer]) -> None:
    with server_type() as server:
        url = server.create("things")
        assert url.endswith(f":{server.port}/things")
        server.sql("CREATE TABLE t (n INT)", "things")
        server.sql("INSERT INTO t VALUES (7)", "things")
        port = server.port
        server.kill()
        assert not server.running
        with pytest.raises(EmbeddedServerError):
            server.sql("SELECT 1")
        server.restart()
        assert server.port == port
        assert server.sql("SELECT n FROM t", "things").strip() == "7"
        server.drop(url)
        with pytest.raises(EmbeddedServerError):
            server.sql("SELECT n FROM t", "things")
        directory = server.directory
    assert not directory.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_server_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "from tests.support.servers.databases import MariaDBServer; import os, time\n"
        "server = MariaDBServer().start(); print(server._child.pid, server.directory, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, directory = parent.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not _runs(int(pid)), "the server to end with its parent")
    subprocess.run(["rm", "-rf", directory], check=True)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_a_server_of_root_runs_as_somebody_else(postgresql: PostgreSQLServer) -> None:
    assert postgresql._child is not None
    owner = os.stat(f"/proc/{postgresql._child.pid}").st_uid if sys.platform == "linux" else 1
    assert owner != 0
