"""What the server's ACL must allow, the rules that allow it, and which of it a user may not do.

Every command is tried on one short-lived key that holds plain text: it is refused for lack of rights before it is looked at,
and otherwise fails on the type of the key. So nothing is changed, and no right to ask about rights is needed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gossamer.errors import FrontierError, PermissionDenied
from gossamer.frontier.connection import Connection
from gossamer.frontier.server import keys

# A dummy call each; KEY stands for the key. What the functions call is checked against the caller's rights too.
NEEDED: Mapping[str, Sequence[str]] = {
    "DEL": ["KEY2"],
    "EXISTS": ["KEY"],
    "FCALL": ["gossamer_no_such_function", "1", "KEY"],
    "FUNCTION|LIST": ["LIBRARYNAME", "gossamer_no_such_library"],
    "GET": ["KEY"],
    "GETRANGE": ["KEY", "0", "0"],
    "HDEL": ["KEY", "f"],
    "HEXISTS": ["KEY", "f"],
    "HGET": ["KEY", "f"],
    "HGETALL": ["KEY"],
    "HINCRBY": ["KEY", "f", "1"],
    "HINCRBYFLOAT": ["KEY", "f", "1"],
    "HKEYS": ["KEY"],
    "HLEN": ["KEY"],
    "HMGET": ["KEY", "f"],
    "HRANDFIELD": ["KEY"],
    "HSCAN": ["KEY", "0"],
    "HSET": ["KEY", "f", "v"],
    "HSETNX": ["KEY", "f", "v"],
    "HSTRLEN": ["KEY", "f"],
    "INFO": ["server"],
    "LINDEX": ["KEY", "0"],
    "LLEN": ["KEY"],
    "LMOVE": ["KEY", "KEY", "LEFT", "RIGHT"],
    "LPOP": ["KEY"],
    "LPUSH": ["KEY", "v"],
    "LRANGE": ["KEY", "0", "0"],
    "LREM": ["KEY", "0", "v"],
    "LSET": ["KEY", "0", "v"],
    "LTRIM": ["KEY", "0", "0"],
    "MEMORY|USAGE": ["KEY"],
    "PEXPIRE": ["KEY2", "1"],
    "PING": [],
    "RPOP": ["KEY"],
    "RPUSH": ["KEY", "v"],
    "SADD": ["KEY", "v"],
    "SCARD": ["KEY"],
    "SET": ["KEY2", "", "PX", "1"],
    "SETRANGE": ["KEY2", "0", ""],
    "SISMEMBER": ["KEY", "v"],
    "SMEMBERS": ["KEY"],
    "SMISMEMBER": ["KEY", "v"],
    "SPOP": ["KEY"],
    "SREM": ["KEY", "v"],
    "TIME": [],
    "TYPE": ["KEY"],
    "UNLINK": ["KEY2"],
    "XADD": ["KEY", "*", "d", "v"],
    "XLEN": ["KEY"],
    "XRANGE": ["KEY", "-", "+"],
    "XREVRANGE": ["KEY", "+", "-", "COUNT", "1"],
    "XTRIM": ["KEY", "MINID", "0"],
    "ZADD": ["KEY", "0", "v"],
    "ZCARD": ["KEY"],
    "ZCOUNT": ["KEY", "0", "0"],
    "ZPOPMAX": ["KEY"],
    "ZPOPMIN": ["KEY"],
    "ZRANGE": ["KEY", "0", "0"],
    "ZRANGEBYSCORE": ["KEY", "0", "0"],
    "ZREVRANGEBYSCORE": ["KEY", "0", "0"],
    "ZREM": ["KEY", "v"],
    "ZREMRANGEBYRANK": ["KEY", "0", "0"],
    "ZREMRANGEBYSCORE": ["KEY", "0", "0"],
    "ZREVRANGE": ["KEY", "0", "0"],
    "ZSCAN": ["KEY", "0"],
    "ZSCORE": ["KEY", "v"],
}
# To load the functions, where a server has none or older ones.
LOADING: Mapping[str, Sequence[str]] = {
    "EXEC": [],
    "FUNCTION|DELETE": ["gossamer_no_such_library"],
    "FUNCTION|LOAD": ["no library"],
    "MULTI": [],
}
CLUSTER: Mapping[str, Sequence[str]] = {"CLUSTER|SLOTS": []}
SENTINEL: Mapping[str, Sequence[str]] = {"ROLE": []}
# To see whether the connection of a worker that fell silent is closed; without it others wait until its leases run out.
PRESENCE: Mapping[str, Sequence[str]] = {"CLIENT|ID": [], "CLIENT|LIST": ["ID", "1"]}
# For people: what doctor reads, the search for queues that a snapshot makes, the last items.
OPTIONAL: Mapping[str, Sequence[str]] = {
    "CLUSTER|INFO": [],
    "CONFIG|GET": ["appendfsync"],
    "SCAN": ["0", "COUNT", "1"],
}


class MissingRights(NamedTuple):
    """What a user may not do, each as a command or as a pattern of keys (`~…`): what every worker needs, what loads the
    functions, what only people need."""

    needed: list[str]
    loading: list[str]
    optional: list[str]


def missing(connection: Connection, crawl: str) -> MissingRights:
    """What this connection's user may not do with a crawl."""
    key = f"{keys.crawl_prefix(crawl)}doctor-{secrets.token_hex(4)}}}"
    try:
        connection.execute("SET", key, "-", "PX", 10_000, key=key)
    except PermissionDenied as error:
        if "key" in str(error).lower():
            return MissingRights([pattern(crawl)], [], [])
    except FrontierError:
        pass  # without memory a plain SET is refused; rights can be tried all the same
    kind = connection.address.kind
    needed = {**NEEDED, **(CLUSTER if kind == "cluster" else {}), **(SENTINEL if kind == "sentinel" else {})}
    optional = {
        name: words for name, words in {**PRESENCE, **OPTIONAL}.items() if kind == "cluster" or name != "CLUSTER|INFO"
    }
    try:
        loading = _refused(connection, {name: words for name, words in LOADING.items() if name != "MULTI"}, key)
        # Tried only where EXEC can end it: a connection left inside a transaction would answer nothing any more.
        if "EXEC" in loading or isinstance(connection.execute_together(("MULTI",), ("EXEC",))[0], PermissionDenied):
            loading.append("MULTI")
        return MissingRights(_refused(connection, needed, key), loading, _refused(connection, optional, key))
    finally:
        if _allowed(connection, "UNLINK", ["KEY"], key):
            connection.execute("UNLINK", key, key=key)


def pattern(crawl: str) -> str:
    """The rule for the keys of a crawl."""
    return f"~{keys.escape(keys.crawl_prefix(crawl))}*"


def key_rules(
    crawls: Sequence[str], *, tasks: Sequence[str] = (), lists: Sequence[str] = (), seen: Sequence[str] = ()
) -> list[str]:
    """The rules for the keys of crawls, of the producers whose tasks they take, of the lists that pages push to, and of memories
    without a crawl."""
    rules = [pattern(crawl) for crawl in crawls]
    for source in tasks:
        own, book, *_ = keys.task_keys(source)
        rules += [f"~{keys.escape(own)}", f"~{keys.escape(book)}*"]
        # Where workers report how the tasks of a table ended.
        ended = keys.task_reports(own, "")
        rules += [f"~{keys.escape(key)}*" for key in keys.list_keys(ended)]
    for name in (*tasks, *lists):
        rules += [f"~{keys.escape(key)}" for key in keys.list_keys(name)]
    rules += [f"~{keys.escape(keys.seen_base(name))}*" for name in seen]
    return list(dict.fromkeys(rules))


def user(name: str, password: str, key_rules: Sequence[str], *, operator: bool, functions: bool, select: bool) -> str:
    """A user as a line of an ACL file: all that Gossamer needs and nothing more. `operator`: also for doctor, export and
    `items tail`; `functions`: may load them; `select`: for a database other than 0."""
    commands = [
        *NEEDED,
        *PRESENCE,
        *CLUSTER,
        *SENTINEL,
        *(LOADING if functions else ()),
        *(OPTIONAL if operator else ()),
    ]
    granted = sorted(f"+{command.lower()}" for command in (*commands, *(["SELECT"] if select else [])))
    digest = hashlib.sha256(password.encode()).hexdigest()
    return " ".join(["user", name, "reset", "on", f"#{digest}", *key_rules, "-@all", *granted])


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
    except FrontierError as error:
        return "NOPERM" not in str(error)  # of EXEC it is said behind another code
    return True
