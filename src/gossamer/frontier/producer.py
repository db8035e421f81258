"""What an outside producer does: tasks pushed to a list, a set or a sorted set that feeds a group.

Any client can do it with RPUSH, SADD or ZADD. This one pushes many at a time, each once although answers are lost, no more than may
wait, and unique tasks by their keys.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from gossamer import settings
from gossamer.closeable import Closeable
from gossamer.errors import MemoryLimitReached, PolicyError
from gossamer.frontier.call import function_call, own, read
from gossamer.frontier.client import REPEAT_SECONDS, FunctionClient
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server import keys
from gossamer.model import Token

Kind = Literal["list", "set", "zset"]
KINDS = ("list", "set", "zset")
BATCH_TASKS = 1000
BATCH_BYTES = 1_000_000
FIRST_PAUSE, LAST_PAUSE = 0.1, 1.0
"""Seconds between two looks for room, at first and at last."""
RESOLVE_SECONDS = 2.0
"""For how long a call that broke off is made again: whoever pressed Ctrl-C waits for it."""
SECONDS_MAX = 1e10
NEW, WAITS, TAKEN, NO_ROOM = "n", "w", "r", "-"
"""What became of a task: pushed; it waits already; a worker has it or had it; no room."""

TaskKey = Callable[[bytes], str]
"""What a unique task is known by."""
Waiting = Callable[["Offer"], object]


class Offer(NamedTuple):
    """What became of tasks that were offered: `outcomes` has a letter for each (NEW, WAITS, TAKEN, NO_ROOM). `waiting` tasks are in the
    key now, and `room` more may come; None: any number. `memory`: the server has no memory left for more."""

    outcomes: str
    waiting: int
    room: int | None
    memory: bool = False

    @property
    def new(self) -> int:
        return self.outcomes.count(NEW)

    @property
    def taken(self) -> int:
        """All but those that found no room: pushed or known."""
        return len(self.outcomes) - self.outcomes.count(NO_ROOM)


class Pushed(NamedTuple):
    """`new` tasks were pushed, `known` ones were not pushed again, and `left` found no room."""

    new: int
    known: int
    left: list[bytes]


class Producer(Closeable):
    """Pushes to one key. Without `kind` it is as the key is, or a list if there is none. `score` is for sorted sets: what
    has the highest goes first.

    `max_waiting` is the most tasks that wait in the key, whoever pushes with such a limit: the server checks it. With `unique`
    a task is pushed once per key: while it waits or a worker has it (0), and that many seconds since it was pushed. `key_of` makes the
    key from a task; without it, a task is its own key.
    """

    def __init__(
        self,
        function_client: FunctionClient,
        key: str,
        kind: Kind | None = None,
        score: float | None = None,
        *,
        max_waiting: int | None = None,
        unique: float | None = None,
        key_of: TaskKey | None = None,
    ) -> None:
        keys.task_keys(key)
        self._function_client, self.key = function_client, key
        if max_waiting is not None and max_waiting < 1:
            raise PolicyError(f"max_waiting is {max_waiting}; at least one task must be allowed to wait.")
        if unique is not None and not 0 <= unique <= SECONDS_MAX:
            raise PolicyError(f"unique is {unique}; give the seconds for which a task is known, 0 for while it waits.")
        found = function_client.connection.execute("TYPE", key, key=key)
        found = found.decode() if isinstance(found, bytes) else str(found)
        if found not in (*KINDS, "none") or (kind is not None and found not in (kind, "none")):
            wanted = kind or "list, set or zset"
            raise PolicyError(f"key {key!r} is a {found} on this server, not a {wanted}. Nothing was pushed.")
        self.kind: Any = kind or (found if found != "none" else "list" if score is None else "zset")
        if score is not None and self.kind != "zset":
            raise PolicyError(f"key {key!r} is a {self.kind}, which has no priorities; only a sorted set (zset) has.")
        self.max_waiting, self._score = max_waiting, score or 0.0
        self._hold: int | str | None = None if unique is None else round(unique * 1000)
        self._key_of = key_of
        self._token = Token.fresh()
        self.pushed = Pushed(0, 0, [])
        """What became of all that was pushed so far."""
        self.doubtful = 0
        """Tasks of a call that broke off: the server may have them or not. `resolve` asks."""
        self._unanswered: RoutedCommand | None = None
        self._asked = 0.0

    @classmethod
    def connect(
        cls, key: str, url: str | None = None, kind: Kind | None = None, score: float | None = None, **how: Any
    ) -> Producer:
        """Connect to a server, by default the one that GOSSAMER_URL names; `how` as for `Producer`."""
        given = {} if url is None else {"GOSSAMER_URL": url}
        function_client = FunctionClient.connect(settings.load(given))
        try:
            return cls(function_client, key, kind, score, **how)
        except BaseException:
            function_client.close()
            raise

    def close(self) -> None:
        self._function_client.close()

    def push(
        self, tasks: Iterable[bytes | str | Mapping[str, Any]], *, wait: bool = True, waiting: Waiting | None = None
    ) -> Pushed:
        """Push tasks in bounded batches. Where there is no room, wait for it, and call `waiting` at each look; with `wait=False` return
        what is left. Without a limit, a server without memory is an error."""
        new = known = 0
        left: list[bytes] = []
        for batch in batches(map(encoded, tasks)):
            if left:
                left += batch
                continue
            offered, left = self._push(batch, wait, waiting)
            new, known = new + offered.new, known + offered.taken - offered.new
        return Pushed(new, known, left)

    def _push(self, batch: list[bytes], wait: bool, waiting: Waiting | None) -> tuple[Offer, list[bytes]]:
        letters, pause = "", FIRST_PAUSE
        while True:
            offer = self.offer(batch)
            if not wait and NO_ROOM in offer.outcomes:
                # What comes after the first without room is left as well, also what is known: the rest is one piece.
                first = offer.outcomes.index(NO_ROOM)
                after = len(batch) - first - offer.outcomes.count(NO_ROOM)
                self.pushed = self.pushed._replace(known=self.pushed.known - after)
                return offer._replace(outcomes=offer.outcomes[:first]), batch[first:]
            letters += offer.outcomes.replace(NO_ROOM, "")
            batch = [task for task, letter in zip(batch, offer.outcomes, strict=True) if letter == NO_ROOM]
            if not batch:
                return offer._replace(outcomes=letters), batch
            if waiting is not None:
                waiting(offer)
            pause = FIRST_PAUSE if offer.taken else min(pause * 1.5, LAST_PAUSE)
            time.sleep(pause * random.uniform(0.7, 1.0))

    def offer(self, tasks: Sequence[bytes], hold: str | None = None) -> Offer:
        """Push those of up to 1,000 tasks that there is room for and that are not known. `hold`: see `push_tasks`."""
        kept = self._hold if hold is None else hold
        self._token = self._token.next()
        header = {
            "i": own(self._token.incarnation), "s": self._token.sequence, "kind": self.kind, "score": self._score,
            "max": self.max_waiting or 0, "n": len(tasks), **({} if kept is None else {"hold": kept}),
        }  # fmt: skip
        named = () if kept is None else [self.key_of(task) for task in tasks]
        call = function_call("push_tasks", keys.task_keys(self.key), header, *tasks, *named)
        self._asked = time.monotonic()
        self.doubtful, self._unanswered = len(tasks), call
        return self._send(call, self._function_client)

    def resolve(self) -> None:
        """Make the call again that broke off, so that `pushed` has what became of its tasks. It takes effect once: tasks that were
        pushed are not pushed again. A server that does not answer within seconds leaves them doubtful, and so does a call that
        was first made minutes ago: the server knows it no more."""
        if self._unanswered is not None and time.monotonic() - self._asked < REPEAT_SECONDS + 2 * RESOLVE_SECONDS:
            self._send(self._unanswered, FunctionClient(self._function_client.connection, RESOLVE_SECONDS))

    def _send(self, call: RoutedCommand, function_client: FunctionClient) -> Offer:
        try:
            [reply] = function_client.ask([call])
        except MemoryLimitReached:
            count = self.doubtful
            self.doubtful, self._unanswered = 0, None
            if self.max_waiting is None:
                raise
            return Offer(NO_ROOM * count, self.state().waiting, 0, True)
        outcomes, size, _ = read(reply)
        room = None if self.max_waiting is None else max(0, self.max_waiting - size)
        offer = Offer(outcomes, size, room)
        pushed = Pushed(self.pushed.new + offer.new, self.pushed.known + offer.taken - offer.new, [])
        # Nothing is called between these three, so Ctrl-C comes before all of them or after.
        self.pushed = pushed
        self.doubtful = 0
        self._unanswered = None
        return offer

    def key_of(self, task: bytes) -> str:
        """What a unique task is known by."""
        name = task.decode("utf-8", "surrogateescape") if self._key_of is None else self._key_of(task)
        return short(name)

    def waiting(self) -> int:
        """How many tasks wait."""
        return self.state().waiting

    def state(self) -> Offer:
        """How many tasks wait, and how much room there is."""
        command = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD"}[self.kind]
        size = int(self._function_client.connection.execute(command, self.key, key=self.key))
        return Offer("", size, None if self.max_waiting is None else max(0, self.max_waiting - size))


def short(name: str) -> str:
    """The key of a unique task as the server stores it: a long one is hashed, or it would take as much memory for each task."""
    data = name.encode("utf-8", "surrogateescape")
    return name if len(data) <= 64 else blake2b(data, digest_size=24).hexdigest()


def encoded(task: bytes | str | Mapping[str, Any]) -> bytes:
    """A task as it is pushed: a URL, or a JSON object."""
    if isinstance(task, bytes):
        return task
    return task.encode() if isinstance(task, str) else json.dumps(dict(task), ensure_ascii=False).encode()


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
