"""A group's items as readers from outside need them: by partition, with positions that grow."""

from __future__ import annotations

from collections.abc import Iterator

from gossamer.frontier.server import keys
from gossamer.frontier.valkey import ValkeyFrontier

START = "0-0"
PAGE = 1000
GONE = "*gone"
"""What went at a limit, among the notes of the server."""


def place(position: str) -> tuple[int, int]:
    """A position in the order of the stream."""
    time, _, number = position.partition("-")
    return int(time), int(number)


def last_items(frontier: ValkeyFrontier, group: str, partition: int, count: int) -> list[tuple[str, bytes]]:
    """The newest items of a partition with their positions, oldest of them first."""
    key = keys.items(frontier.crawl, partition, group)
    rows = frontier.connection.execute("XREVRANGE", key, "+", "-", "COUNT", count, key=key)
    return [(row[0].decode(), row[1][1]) for row in reversed(rows)]


def pages(
    frontier: ValkeyFrontier, group: str, partition: int, after: str, until: str | None = None
) -> Iterator[list[tuple[str, bytes]]]:
    """Items after a position, page by page, up to `until`, or to the end that the stream has when the reader gets there."""
    while rows := frontier.read_items(group, partition, after, PAGE):
        after = rows[-1][0]
        if until is not None and place(after) >= place(until):
            if wanted := [row for row in rows if place(row[0]) <= place(until)]:
                yield wanted
            return
        yield rows
        if len(rows) < PAGE:
            return


def is_lost(frontier: ValkeyFrontier, group: str, partition: int, position: str) -> bool:
    """Whether an item that was read is not there, although older ones are, which would have been removed before it: the server has gone back
    to an earlier state. False also where nothing shows it."""
    key = keys.items(frontier.crawl, partition, group)
    if frontier.connection.execute("XRANGE", key, position, position, key=key):
        return False
    if not frontier.connection.execute("EXISTS", key, key=key):
        return True  # a stream from which all was removed is there
    first = frontier.read_items(group, partition, START, 1)
    return bool(first) and place(first[0][0]) < place(position)


def ends(frontier: ValkeyFrontier, group: str) -> dict[int, str]:
    """The position of the newest item of each partition that has any."""
    last = {p: last_items(frontier, group, p, 1) for p in range(frontier.partitions)}
    return {p: rows[-1][0] for p, rows in last.items() if rows}


def gone(frontier: ValkeyFrontier, group: str, partition: int) -> tuple[int, str]:
    """How many items of a partition went at a limit or for their age, and the position of the last of them."""
    key = keys.consumers(frontier.crawl, partition, group)
    note = frontier.connection.execute("HGET", key, GONE, key=key)
    number, _, position = note.decode().partition(" ") if note else ("0", "", START)
    return int(number), position


def consumers(frontier: ValkeyFrontier, group: str, *, notes: bool = False) -> dict[str, dict[int, str]]:
    """Every consumer, with the positions (by partition) up to which it has written the items. `notes`: also what the server notes for
    itself, under names that begin with `*`."""
    rows: dict[str, dict[int, str]] = {}
    for partition in range(frontier.partitions):
        key = keys.consumers(frontier.crawl, partition, group)
        flat = frontier.connection.execute("HGETALL", key, key=key)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        for name, position in pairs:
            if notes or not name.startswith(b"*"):
                rows.setdefault(name.decode(), {})[partition] = position.decode()
    return rows
