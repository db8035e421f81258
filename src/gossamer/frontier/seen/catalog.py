"""The memories that stand on their own, without a crawl's queues: which there are on a server, and their copies.

What a memory holds lies in hashes, sets and strings that share the hash tag of its name. They are copied as they are, so the
spiders that use it must not run meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gossamer.errors import PolicyError
from gossamer.frontier.call import text
from gossamer.frontier.connection import Connection
from gossamer.frontier.server import keys

BATCH = 1000
_HEAD = re.compile(rb"gossamer:seen:\{([^{}]+)\}:s0")


def names(connection: Connection) -> list[str]:
    """The names of all memories that hold or held something, on every primary."""
    found = (_HEAD.fullmatch(key) for key in connection.matching("gossamer:seen:{*}:s0"))
    return sorted({each[1].decode() for each in found if each is not None})


def copy(source: Connection, name: str, target: Connection, new: str) -> int:
    """Copy a memory to another server or under another name. Return its number of keys. Raise `PolicyError` if there is none, or if
    the target exists."""
    old_base, new_base = keys.seen_base(name), keys.seen_base(new)
    if any(True for _ in target.matching(f"{new_base}:s0*")):
        raise PolicyError(f"There is a memory {new} already. Clear it first, or name another one.")
    count, head = 0, f"{old_base}:s0".encode()
    # The head last: without it there is no memory, so a copy that broke off is none.
    found = sorted(source.matching(f"{old_base}:s0*"), key=lambda key: key == head)
    if head not in found:
        raise PolicyError(f"There is no memory {name}. `gossamer seen filters` lists those there are.")
    for key in found:
        _copy_key(source, key, target, new_base.encode() + key[len(old_base) :])
        count += 1
    return count


def _copy_key(source: Connection, key: bytes, target: Connection, new: bytes) -> None:
    kind = text(source.execute("TYPE", key, key=key))
    if kind == "hash":
        target.execute("HSET", new, *_flat(source.execute("HGETALL", key, key=key)), key=new)
    elif kind == "set":
        members = list(source.execute("SMEMBERS", key, key=key))
        for first in range(0, len(members), BATCH):
            target.execute("SADD", new, *members[first : first + BATCH], key=new)
    elif kind == "string":
        target.execute("SET", new, source.execute("GET", key, key=key), key=new)


def _flat(table: Any) -> Iterator[Any]:
    """Names and values in turn, whichever protocol the answer came by."""
    for pair in table.items() if isinstance(table, dict) else [table]:
        yield from pair
