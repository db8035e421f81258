"""What the server's ACL must allow, and which of it a user may not do.

Every command is tried on one short-lived key that holds plain text: it is refused for lack of rights before it is looked at,
and otherwise fails on the type of the key. So nothing is changed, and no right to ask about rights is needed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from gossamer.errors import FrontierError, PermissionDenied
from gossamer.frontier.connection import Connection

PATTERN = "~gossamer:*"

# A dummy call each; KEY stands for the key. What the functions call is checked against the caller's rights too.
NEEDED: Mapping[str, Sequence[str]] = {
    "DEL": ["KEY2"],
    "EXISTS": ["KEY"],
    "FCALL": ["gossamer_no_such_function", "1", "KEY"],
    "FUNCTION|LIST": ["LIBRARYNAME", "gossamer_no_such_library"],
    "FUNCTION|LOAD": ["no library"],
    "GET": ["KEY"],
    "GETRANGE": ["KEY", "0", "0"],
    "HDEL": ["KEY", "f"],
    "HEXISTS": ["KEY", "f"],
    "HGET": ["KEY", "f"],
    "HGETALL": ["KEY"],
    "HINCRBY": ["KEY", "f", "1"],
    "HINCRBYFLOAT": ["KEY", "f", "1"],
    "HKEYS": ["KEY"],
    "HMGET": ["KEY", "f"],
    "HSCAN": ["KEY", "0"],
    "HSET": ["KEY", "f", "v"],
    "HSETNX": ["KEY", "f", "v"],
    "HVALS": ["KEY"],
    "INFO": ["server"],
    "LINDEX": ["KEY", "0"],
    "LLEN": ["KEY"],
    "LMOVE": ["KEY", "KEY", "LEFT", "RIGHT"],
    "LPOP": ["KEY"],
    "LPUSH": ["KEY", "v"],
    "LRANGE": ["KEY", "0", "0"],
    "LREM": ["KEY", "0", "v"],
    "MEMORY|USAGE": ["KEY"],
    "PEXPIRE": ["KEY2", "1"],
    "RPOP": ["KEY"],
    "RPUSH": ["KEY", "v"],
    "SADD": ["KEY", "v"],
    "SCARD": ["KEY"],
    "SET": ["KEY2", "", "PX", "1"],
    "SETRANGE": ["KEY2", "0", ""],
    "SISMEMBER": ["KEY", "v"],
    "SMEMBERS": ["KEY"],
    "SPOP": ["KEY"],
    "SREM": ["KEY", "v"],
    "TIME": [],
    "TYPE": ["KEY"],
    "UNLINK": ["KEY2"],
    "XADD": ["KEY", "*", "d", "v"],
    "XLEN": ["KEY"],
    "XRANGE": ["KEY", "-", "+"],
    "XTRIM": ["KEY", "MINID", "0"],
    "ZADD": ["KEY", "0", "v"],
    "ZCARD": ["KEY"],
    "ZPOPMAX": ["KEY"],
    "ZPOPMIN": ["KEY"],
    "ZRANGE": ["KEY", "0", "0"],
    "ZRANGEBYSCORE": ["KEY", "0", "0"],
    "ZREM": ["KEY", "v"],
    "ZREMRANGEBYSCORE": ["KEY", "0", "0"],
    "ZSCAN": ["KEY", "0"],
    "ZSCORE": ["KEY", "v"],
}
CLUSTER: Mapping[str, Sequence[str]] = {"CLUSTER|SLOTS": []}
# For people: what doctor reads, the search for queues that a snapshot makes, the last items.
OPTIONAL: Mapping[str, Sequence[str]] = {
    "CONFIG|GET": ["appendfsync"],
    "SCAN": ["0", "COUNT", "1"],
    "XREVRANGE": ["KEY", "+", "-", "COUNT", "1"],
}


def missing(connection: Connection) -> tuple[list[str], list[str]]:
    """Commands (or `~gossamer:*`, the keys) that a worker needs and may not use, and those that only people need."""
    key = f"gossamer:{{doctor-{secrets.token_hex(4)}}}"
    try:
        connection.execute("SET", key, "-", "PX", 10_000, key=key)
    except PermissionDenied as error:
        if "key" in str(error).lower():
            return [PATTERN], []
    needed = {**NEEDED, **(CLUSTER if connection.address.kind == "cluster" else {})}
    try:
        return _refused(connection, needed, key), _refused(connection, OPTIONAL, key)
    finally:
        if _allowed(connection, "UNLINK", ["KEY"], key):
            connection.execute("UNLINK", key, key=key)


def grant(names: Sequence[str]) -> str:
    """The rules that give these rights."""
    return " ".join(name if name.startswith("~") else f"+{name.lower()}" for name in names)


def _refused(connection: Connection, commands: Mapping[str, Sequence[str]], key: str) -> list[str]:
    return [name for name, arguments in commands.items() if not _allowed(connection, name, arguments, key)]


def _allowed(connection: Connection, name: str, arguments: Sequence[str], key: str) -> bool:
    known = {"KEY": key, "KEY2": key + ":2"}
    try:
        connection.execute(*name.split("|"), *(known.get(word, word) for word in arguments), key=key)
    except PermissionDenied:
        return False
    except FrontierError:
        return True
    return True
