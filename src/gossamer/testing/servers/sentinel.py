"""A primary, its replica and the sentinels that watch them."""

from __future__ import annotations

from typing import Self

from gossamer.closeable import Closeable
from gossamer.testing.process import wait_until
from gossamer.testing.resp import ReplyError
from gossamer.testing.servers.single import Config, Fsync, Kind, Server

SERVICE = "gossamer"


class SentinelPair(Closeable):
    """Two servers under 1 or 3 sentinels (of three, two must agree), for failovers in a second or two.

    `primary` and `replica` are ordinary `Server`s and change places with each failover. `down_after`
    (milliseconds) is how long a silent primary is tolerated: too small and a loaded machine fails over by itself.
    """

    def __init__(self, sentinels: int = 1, kind: Kind = "valkey", *, down_after: int = 1000) -> None:
        if sentinels < 1:
            raise ValueError("at least one sentinel is needed")
        self.down_after = down_after
        self.primary = Server(kind)
        self.replica = Server(kind)
        self.sentinels = [Server(kind, sentinel=True) for _ in range(sentinels)]

    def start(self, config: Config | None = None, *, fsync: Fsync | None = None) -> Self:
        """Start everything; returns when every sentinel knows the replica, the other sentinels, and that it is in step."""
        try:
            self.primary.start(config, fsync=fsync)
            self.replica.start({**(config or {}), "replicaof": f"127.0.0.1 {self.primary.port}"}, fsync=fsync)
            # A sentinel asks the primary for its replicas at once, and then only every ten seconds.
            wait_until(self._in_step, "the replica to be in step")
            for sentinel in self.sentinels:
                sentinel.start({"sentinel": self._watch()})
            self.wait_ok()
        except BaseException:
            self.close()
            raise
        return self

    def _watch(self) -> list[str]:
        quorum = len(self.sentinels) // 2 + 1
        return [
            f"monitor {SERVICE} 127.0.0.1 {self.primary.port} {quorum}",
            f"down-after-milliseconds {SERVICE} {self.down_after}",
            f"failover-timeout {SERVICE} {_timeout(self.down_after)}",
            f"parallel-syncs {SERVICE} 1",
        ]

    @property
    def url(self) -> str:
        """`redis+sentinel://` with all sentinels, and the name of the service."""
        return "redis+sentinel://" + ",".join(sentinel.address for sentinel in self.sentinels) + f"/{SERVICE}"

    def wait_ok(self, seconds: float = 60.0) -> None:
        """Return when the replica has all that was written until now and every sentinel is ready to fail over.

        Should the sentinels have failed over by themselves (a loaded machine was silent for too long), `primary`
        and `replica` change places here too.
        """
        wait_until(self._in_step, "the replica to be in step", seconds)
        wait_until(self._watched, "the sentinels to know each other and the replica", seconds)

    def tolerate(self, down_after: int) -> None:
        """Set for how many milliseconds sentinels tolerate a silent primary."""
        self.down_after = down_after
        options = ("down-after-milliseconds", down_after, "failover-timeout", _timeout(down_after))
        for sentinel in self.sentinels:
            sentinel.call("SENTINEL", "SET", SERVICE, *options)

    def failover(self, *, kill: bool = True, seconds: float = 60.0) -> Server:
        """Make the replica the primary and return it, as soon as it takes writes and all sentinels name it.

        With `kill` the primary dies and the sentinels find out (`replica` is then the dead server; `restore`
        brings it back); without, they are asked to change places and `replica` soon follows the new primary.
        """
        heir = self.replica
        if kill:
            self.primary.kill()
        else:
            self.sentinels[0].call("SENTINEL", "FAILOVER", SERVICE)
        wait_until(lambda: self._serves(heir), "the replica to take over", seconds)
        self.primary, self.replica = heir, self.primary
        return heir

    def restore(self, seconds: float = 60.0) -> None:
        """Bring the dead server back as the replica of the present primary, and wait until all is well again."""
        if not self.replica.running:
            self.replica.restart()
            # The sentinels would do this too, after ten seconds or more.
            self.replica.call("REPLICAOF", "127.0.0.1", self.primary.port)
        self.wait_ok(seconds)

    def _serves(self, heir: Server) -> bool:
        for sentinel in self.sentinels:
            address = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
            if address != ["127.0.0.1", str(heir.port)]:
                return False
        return heir.info("replication")["role"] == "master"

    def _in_step(self) -> bool:
        try:
            # The primary first: what the replica has reached later includes all that was written until now.
            primary, replica = self.primary.info("replication"), self.replica.info("replication")
        except ConnectionError:
            return False  # one that becomes a replica closes its connections
        if (primary["role"], replica["role"]) == ("slave", "master") and self._serves(self.replica):
            self.primary, self.replica = self.replica, self.primary
            return False
        return (
            replica["role"] == "slave"
            and replica["master_port"] == str(self.primary.port)
            and replica["master_link_status"] == "up"
            and "state=online" in primary.get("slave0", "")
            and int(replica["slave_repl_offset"]) >= int(primary["master_repl_offset"])
        )

    def _watched(self) -> bool:
        for sentinel in self.sentinels:
            try:
                sentinel.call("SENTINEL", "CKQUORUM", SERVICE)
            except ReplyError:
                return False
            primary = _fields(sentinel.call("SENTINEL", "MASTER", SERVICE))
            if primary["flags"] != "master" or primary["num-other-sentinels"] != str(len(self.sentinels) - 1):
                return False
            replicas = sentinel.call("SENTINEL", "REPLICAS", SERVICE)
            known = [_fields(replica) for replica in replicas] if isinstance(replicas, list) else []
            if [one["flags"] for one in known] != ["slave"]:
                return False
        return True

    def close(self) -> None:
        """End everything and remove the directories."""
        for server in (*self.sentinels, self.replica, self.primary):
            server.close()

    def __enter__(self) -> Self:
        return self if self.primary.running else self.start()


def _timeout(down_after: int) -> int:
    return max(3 * down_after, 3000)


def _fields(reply: object) -> dict[str, str]:
    assert isinstance(reply, list)
    words = [str(word) for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))
