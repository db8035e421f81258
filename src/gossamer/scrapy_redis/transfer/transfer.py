"""The live keys of a scrapy-redis project, moved into the frontier: queued requests, the dupefilter, seeds.

A key is first set aside under a name of its own, so that no old worker takes from it any more, and then emptied from there
batch by batch: stored in the frontier under names that make a repeat harmless, then removed. Whatever breaks off may be
begun again. A request from a queue has passed the old dupefilter, so it is added whether it is known as seen or not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

from gossamer.errors import GossamerError, InvalidRequest, PolicyError
from gossamer.frontier import codec, inspection
from gossamer.frontier.checks import seen_table
from gossamer.frontier.snapshot import line
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, LanePolicy, Order, SeenPolicy, SeenScope, host_of
from gossamer.model import Request as Asked
from gossamer.scrapy.lanes import MAIN
from gossamer.scrapy.seen.memory import number_of_custom
from gossamer.scrapy_redis.connection import RedisError
from gossamer.scrapy_redis.dupefilter import digest_of, old_digest_of
from gossamer.scrapy_redis.transfer.keys import BATCH, DigestKind, ProjectSource, TransferReport, aside, is_digest

LOCK_SECONDS = 60


class Transfer:
    """From a source into `group` of a frontier. `same` says that both are one server: seeds then stay where they are."""

    def __init__(
        self,
        source: ProjectSource,
        frontier: ValkeyFrontier,
        group: str,
        *,
        scope: SeenScope = SeenScope.FOREVER,
        order: Order = Order.FIFO,
        digests: DigestKind = DigestKind.AUTO,
        same: bool = True,
        heard: Callable[[TransferReport], None] | None = None,
    ) -> None:
        self._source, self._server, self._keys = source, source.server, source.keys
        self._frontier, self._group, self._same = frontier, group, same
        self._policy = LanePolicy(order=order, seen=SeenPolicy(scope=scope))
        self._digests = digests
        self._number = 0
        self._name = self._restored = ""
        self._heard = heard or (lambda _: None)
        self.report = TransferReport()

    def run(self) -> TransferReport:
        """Move everything: first the queue, which the dupefilter speaks of."""
        self.report = self._source.look()
        self._digests = self._source.check(self._digests)
        with self._alone():
            # When this is begun again, no queued request shows it any more.
            self._server.set(self._source.digests_key, self._digests.value)
            self._frontier.define(self._group, {MAIN: self._policy})
            self._drain(self._keys.queue, self._move_requests)
            self._move_seen()
            if not self._same:
                for key in self._keys.seeds:
                    self._drain(key, partial(self._move_seeds, key))
            self._server.delete(self._source.digests_key)
        return self.report

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two at once would remove what the other has not stored yet."""
        lock, token = f"{aside(self._keys.queue)}:lock", secrets.token_hex(8)
        if not self._server.set(lock, token, nx=True, ex=LOCK_SECONDS):
            raise PolicyError(
                f"{self._keys.queue} is being moved by another process, or was {LOCK_SECONDS} seconds ago. "
                "Wait for it, then try again."
            )
        self._lock = lock, token
        try:
            yield
        finally:
            if self._server.get(lock) == token.encode():
                self._server.delete(lock)

    def _stored(self) -> None:
        lock, token = self._lock
        self._server.set(lock, token, ex=LOCK_SECONDS)
        self._heard(self.report)

    def _drain(self, key: str, move: Callable[[str, str, str], bool]) -> None:
        """Set a key aside and empty it by `move(aside, kind, name of this attempt)`, until nothing new has come."""
        away, name_key = aside(key), f"{aside(key)}:name"
        while True:
            if self._source.kind(away) == "none":
                # A new name for each time: places of one list must not be taken for those of another.
                self._server.set(name_key, secrets.token_hex(8))
                if not self._set_aside(key, away):
                    self._server.delete(name_key)
                    return
            kind, name = self._source.kind(away), self._server.get(name_key) or b"?"
            while move(away, kind, name.decode()):
                self._stored()

    def _set_aside(self, key: str, away: str) -> bool:
        try:
            return self._source.kind(key) != "none" and bool(self._server.renamenx(key, away))
        except RedisError:
            # An old worker that still runs has just taken the last entry.
            if self._source.kind(key) == "none":
                return False
            raise

    def _move_requests(self, key: str, kind: str, name: str) -> bool:
        length = self._source.size(key)
        if kind == "zset":
            data = self._server.zrange(key, 0, BATCH - 1)
            names = [f"{name}:{sha256(one).hexdigest()[:32]}" for one in data]
        else:
            # The oldest stand at the end, and those before keep their places when the end is cut off.
            first = max(0, length - BATCH)
            data = list(reversed(self._server.lrange(key, first, -1)))
            names = [f"{name}:{length - 1 - index}" for index in range(len(data))]
        if not data:
            return False
        self._add(data, names)
        if kind == "zset":
            self._server.zrem(key, *data)
        else:
            self._server.ltrim(key, 0, length - len(data) - 1) if length > len(data) else self._server.delete(key)
        return True

    def _add(self, data: list[bytes], names: list[str]) -> None:
        asked: list[Asked] = []
        keys: list[str] = []
        for one, name in zip(data, names, strict=True):
            try:
                asked.append(self._asked(one))
            except GossamerError as error:
                self._bury(self._legible(one), name, "unreadable", str(error))
            else:
                keys.append(f"m{self._group}:{name}")
        if self._digests is DigestKind.NONE:
            self._remember([one.fingerprint for one in asked])
        outcomes, invalid, _ = self._frontier.add(asked, bound=False, key=keys)
        for index, outcome in enumerate(outcomes):
            if outcome in (AddOutcome.ADDED, AddOutcome.DUPLICATE):
                self.report.done["requests"] += 1
            else:
                self._bury(asked[index].payload, keys[index], "refused", invalid.get(index, outcome.name.lower()))

    def _bury(self, data: bytes, name: str, reason: str, detail: str) -> None:
        """Kept as a dead letter: nothing that was queued goes away silently."""
        self._frontier.bury(self._group, data, reason=reason, key=f"m{self._group}:{name}", detail=detail)
        self.report.done[reason] += 1

    def _legible(self, data: bytes) -> bytes:
        """What cannot be read, with the URL that can, so that the dead letter can be identified."""
        url = self._source.reader.url(data)
        return codec.encode_request({"url": url, "stored": data}) if url else data

    def _asked(self, data: bytes) -> Asked:
        fields = self._source.reader.fields(data)
        url, meta = fields["url"], fields.get("meta") or {}
        priority = fields.pop("priority", 0)
        digest = old_digest_of if self._digests is DigestKind.OLD else digest_of
        number = number_of_custom(digest(fields.get("method", "GET"), url, fields.get("body") or b""))
        host = str(meta.get("download_slot") or host_of(url) or "-")
        if not isinstance(priority, int):
            raise InvalidRequest(f"its priority is {priority!r}, no whole number")
        # Unfiltered for the frontier, once per name; for Scrapy it stays what it was.
        return Asked(number, host, f"{self._group}.{MAIN}", codec.encode_request(fields), priority, dont_filter=True)

    def _move_seen(self) -> None:
        key = self._keys.dupefilter
        if self._source.kind(key) == "none" or self._digests is DigestKind.NONE:
            return
        for batch in _batches(self._server.sscan_iter(key, count=BATCH)):
            known = {one: number for one in batch if (number := self._number_of(one)) is not None}
            self._remember(list(known.values()))
            self.report.done["seen"] += len(known)
            self.report.done["foreign"] += len(batch) - len(known)
            if known:
                self._server.srem(key, *known)
            self._stored()

    def _number_of(self, member: bytes) -> int | None:
        if is_digest(member):
            return number_of_custom(bytes.fromhex(member.decode()))
        if self._digests is not DigestKind.OWN:
            return None
        # As the scheduler numbers what a project's own `request_fingerprint` says.
        try:
            return number_of_custom(bytes.fromhex(member.decode()))
        except ValueError:
            return number_of_custom(member)

    def _remember(self, numbers: list[int]) -> None:
        if not self._name:
            self._name, self._restored = self._memory(), secrets.token_hex(8)
            self._restore(["memory", self._name, seen_table(self._policy.seen)])
        if numbers:
            self._restore(["seen", self._name, [line.signed_from(f"{one:x}") for one in numbers], 0, 0])

    def _memory(self) -> str:
        """The name of the lane's memory, as the functions make it."""
        name = f"{self._group}|{self._policy.seen.spec}"
        if self._policy.seen.scope is SeenScope.ROUND:
            [group] = [row for row in self._frontier.counts(self._group).groups if row.group == self._group]
            return f"{name}|{group.round}"
        return name

    def _restore(self, entry: list[Any]) -> None:
        # The host of a fingerprint is unknown, so every partition remembers it.
        self._number += 1
        inspection.restore_entry(self._frontier, self._restored, self._number, entry)

    def _move_seeds(self, source: str, key: str, kind: str, name: str) -> bool:
        length = self._source.size(key)
        rows: list[tuple[bytes, float, int]]
        if kind == "list":
            data = list(reversed(self._server.lrange(key, max(0, length - BATCH), -1)))
            # Counted from the end, so that a repeat has the same numbers.
            start = int(self._server.get(f"{key}:moved:{name}") or 0)
            rows = [(one, 0.0, start + index + 1) for index, one in enumerate(data)]
        elif kind == "set":
            rows = [(one, 0.0, 1) for one in self._server.srandmember(key, BATCH)]
        else:
            rows = [(one, score, 1) for one, score in self._server.zrange(key, 0, BATCH - 1, withscores=True)]
        if not rows:
            return False
        snapshot = name if kind == "list" else secrets.token_hex(8)
        tasks = [
            [number if kind == "list" else index + 1, kind, score] for index, (_, score, number) in enumerate(rows)
        ]
        inspection.restore_tasks(self._frontier, snapshot, source, tasks, [one for one, _, _ in rows])
        self.report.done["seeds"] += len(rows)
        if kind == "list":
            with self._server.pipeline(transaction=True) as pipe:
                pipe.ltrim(key, 0, length - len(rows) - 1) if length > len(rows) else pipe.delete(key)
                pipe.set(f"{key}:moved:{name}", rows[-1][2], ex=86400)
                pipe.execute()
        else:
            (self._server.srem if kind == "set" else self._server.zrem)(key, *(one for one, _, _ in rows))
        return True


def _batches(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for value in values:
        batch.append(value)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
