"""What a server says of itself, read from its answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OLDEST = (7, 0)
EMBEDDED = "the embedded server"
"""Its name, for people."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """One server as `gossamer doctor` shows it.

    `kind` is `valkey` or `redis`, `mode` `standalone`, `cluster` or `sentinel`, `role` `master` or `slave` (the
    server's own words). `fsync` and `memory_policy` are None when the server does not let this user know;
    `memory_max` 0 means no limit. `cluster_size` is the number of primaries, 0 without a cluster.
    """

    node: str
    kind: str
    version: str
    mode: str
    role: str
    aof: bool
    fsync: str | None
    memory_used: int
    memory_max: int
    memory_policy: str | None
    loading: bool
    cluster_size: int

    @property
    def too_old(self) -> bool:
        """Whether the server lacks functions (older than 7.0)."""
        return version_numbers(self.version) < OLDEST

    @property
    def more_memory(self) -> str:
        """How its memory limit is raised."""
        if self.node == EMBEDDED:
            return "raise GOSSAMER_SERVER_MEMORY (it counts when the server is started again)"
        return "raise maxmemory"


@dataclass(frozen=True, slots=True)
class Library:
    """A function library on one server: the names of its functions, and its code if that was asked for."""

    name: str
    functions: frozenset[str]
    code: str | None = None


def size(count: float) -> str:
    """`512 B`, `3.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def version_numbers(version: str) -> tuple[int, ...]:
    """`7.0.15` as numbers. What is no number counts as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def server_info(node: str, info: bytes, config: Any = None, cluster_size: int = 0) -> ServerInfo:
    """Read INFO's text, and the answer to CONFIG GET appendfsync (anything but a list counts as refused)."""
    fields = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    settings = dict(zip(config[::2], config[1::2], strict=True)) if isinstance(config, list) else {}
    fsync = settings.get(b"appendfsync")
    return ServerInfo(
        node=node,
        kind="valkey" if "valkey_version" in fields else "redis",
        version=fields.get("valkey_version") or fields.get("redis_version", "0"),
        mode=fields.get("redis_mode") or fields.get("server_mode", "standalone"),
        role=fields.get("role", ""),
        aof=fields.get("aof_enabled") == "1",
        fsync=fsync.decode() if fsync else None,
        memory_used=int(fields.get("used_memory", 0)),
        memory_max=int(fields.get("maxmemory", 0)),
        memory_policy=fields.get("maxmemory_policy"),
        loading=fields.get("loading") == "1",
        cluster_size=cluster_size,
    )


def libraries(answer: list[Any]) -> tuple[Library, ...]:
    """Read the answer to FUNCTION LIST."""
    found = []
    for flat in answer:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        names = (dict(zip(each[::2], each[1::2], strict=True))[b"name"].decode() for each in fields[b"functions"])
        code = fields.get(b"library_code")
        found.append(Library(fields[b"library_name"].decode(), frozenset(names), code.decode() if code else None))
    return tuple(found)
