"""Whether a process is still there: the server knows which connections are open, and closes those of a process that died.

A worker names one connection of its own, by the server process that it leads to and the number it has there. Numbers are never
given twice by one server process; they mean nothing to another one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gossamer.errors import FrontierError, FrontierUnavailable, PermissionDenied
from gossamer.frontier.connection import Connection
from gossamer.frontier.server import keys

USED_SECONDS = 2.0
"""Seconds that a worker may have been silent for longer than it has not used its connection, or for less."""
_RUN = re.compile(rb"run_id:(\w+)")
_NUMBER = re.compile(rb"^id=(\d+) ", re.MULTILINE)


def presence(connection: Connection, crawl: str) -> str:
    """The connection that this one has open now, as `server process:number`; "" if the user may not know. For one thread alone:
    whoever else uses the connection may have opened another."""
    key = keys.meta(crawl)
    try:
        return f"{run_of(connection, key)}:{int(connection.execute('CLIENT', 'ID', key=key))}"
    except PermissionDenied:
        return ""


def closed(connection: Connection, crawl: str, present: Mapping[str, float]) -> frozenset[str]:
    """Those of these connections that are surely closed, and not because nothing was sent on them for so many seconds: a server with a
    `timeout` closes those of a process that is only stopped, too. None where this cannot be known."""
    key = keys.meta(crawl)
    run = run_of(connection, key)
    numbers = {one.partition(":")[2]: one for one in present if one.partition(":")[0] == run}
    asked = [number for number in numbers if number.isdigit()]
    if not run or not asked:
        return frozenset()
    try:
        clients = connection.execute("CLIENT", "LIST", "ID", *asked, key=key)
    except PermissionDenied:
        return frozenset()
    there = {number.decode() for number in _NUMBER.findall(clients)}
    if there.issuperset(asked):
        return frozenset()
    limit = (_timeout(connection, key) or math.inf) - USED_SECONDS
    return frozenset(numbers[number] for number in asked if number not in there and present[numbers[number]] < limit)


def _timeout(connection: Connection, key: str) -> float:
    """After how many seconds the server closes connections that are not used; 0: never, or the user may not know."""
    try:
        return float(connection.execute("CONFIG", "GET", "timeout", key=key)[1])
    except FrontierUnavailable:
        raise
    except FrontierError:
        return 0.0  # managed servers do not know the command


def run_of(connection: Connection, key: str) -> str:
    """The identity of the server process that has a key; "" if it does not tell."""
    found = _RUN.search(connection.execute("INFO", "server", key=key))
    return found[1].decode() if found else ""
