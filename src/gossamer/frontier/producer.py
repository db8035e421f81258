"""What an outside producer does: tasks pushed to a list, a set or a sorted set that feeds a group.

Any client can do it with RPUSH, SADD or ZADD. This one looks at what it pushes, and pushes many at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from typing import Any, Literal
from urllib.parse import urlsplit

from gossamer.errors import PolicyError
from gossamer.frontier.call import function_call
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.server import keys
from gossamer.model import Token

Kind = Literal["list", "set", "zset"]
SIZES = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD"}
BATCH_TASKS = 1000
BATCH_BYTES = 1_000_000
CHUNK = 1 << 20


class Producer:
    """Pushes to one key. Without `kind` it is as the key is, or a list if there is none. `score` is for sorted sets: what
    has the highest goes first."""

    def __init__(
        self, function_client: FunctionClient, key: str, kind: Kind | None = None, score: float | None = None
    ) -> None:
        keys.task_keys(key)
        self._function_client, self.key = function_client, key
        found = function_client.connection.execute("TYPE", key, key=key)
        found = found.decode() if isinstance(found, bytes) else str(found)
        if found not in (*SIZES, "none") or (kind is not None and found not in (kind, "none")):
            wanted = kind or "list, set or zset"
            raise PolicyError(f"key {key!r} is a {found} on this server, not a {wanted}. Nothing was pushed.")
        self.kind: Any = kind or (found if found != "none" else "list" if score is None else "zset")
        if score is not None and self.kind != "zset":
            raise PolicyError(f"key {key!r} is a {self.kind}, which has no priorities; only a sorted set (zset) has.")
        self._score = score or 0.0
        self._token = Token.fresh()

    def push(self, tasks: Iterable[bytes]) -> int:
        """Push tasks in bounded batches. Return how many are new (in a set or sorted set, one that waits already is not)."""
        return sum(self._push(batch) for batch in batches(tasks))

    def _push(self, batch: list[bytes]) -> int:
        execute, key = self._function_client.connection.execute, self.key
        if self.kind == "list":
            # By a name for the batch: asked again because the answer was lost, it is pushed once.
            self._token = self._token.next()
            name = f"producer.{self._token.incarnation}.{self._token.sequence}"
            self._function_client.ask(
                [function_call("push", keys.list_keys(key), {"pages": [(name, 0, len(batch))]}, *batch)]
            )
            return len(batch)
        if self.kind == "set":
            return int(execute("SADD", key, *batch, key=key))
        scored = [word for task in batch for word in (repr(self._score), task)]
        return int(execute("ZADD", key, *scored, key=key))

    def waiting(self) -> int:
        return int(self._function_client.connection.execute(SIZES[self.kind], self.key, key=self.key))


def batches(tasks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split tasks into batches, each of a size that one command should carry."""
    batch: list[bytes] = []
    size = 0
    for task in tasks:
        batch.append(task)
        size += len(task)
        if len(batch) >= BATCH_TASKS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def checked(task: bytes) -> bytes:
    """A task that a spider can use, without blanks around it: a URL, or a JSON object with one. ValueError says what is wrong."""
    task = task.strip()
    try:
        text = task.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
    if text[:1] not in "{[":
        _check_url(text)
        return task
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError("it is JSON but no object")
    if not isinstance(value.get("url"), str) or not value["url"]:
        raise ValueError("it has no url")
    _check_url(value["url"])
    return task


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"its URL cannot be read ({error})") from None
    if not parts.scheme or (not host and parts.scheme not in ("data", "file")):
        raise ValueError(f"{text[:100]!r} is neither a URL nor a JSON object")
    if any(character.isspace() for character in text):
        raise ValueError(f"the URL {text[:100]!r} has blanks in it")


def chunks(stream: BufferedIOBase, line_max: int) -> Iterator[list[bytes]]:
    """The lines of a stream, as many at a time as have come; so a slow producer is not kept waiting for a full batch.
    ValueError at a line that does not end within `line_max` bytes."""
    rest = b""
    while data := stream.read1(CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        yield lines
        if len(rest) > line_max:
            raise too_long(line_max)
    if rest:
        yield [rest]


def too_long(line_max: int) -> ValueError:
    return ValueError(f"it is longer than GOSSAMER_PAYLOAD_MAX_BYTES allows ({line_max:,} bytes)")
