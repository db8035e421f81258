"""The live keys of a scrapy-redis project, moved into the frontier: queued requests, the dupefilter, seeds.

A key is first set aside under a name of its own, so that no old worker takes from it any more, and then stored in the frontier
batch by batch, under names that make a repeat harmless. It is removed when all of it stands there: when no server of the frontier
was restarted or replaced since, which may have lost some. Whatever breaks off may be begun again. A request from a queue has
passed the old dupefilter, so it is added whether it is known as seen or not.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice

from gossamer.errors import GossamerError, InvalidRequest, PolicyError, SnapshotError
from gossamer.frontier import codec
from gossamer.frontier.checks import seen_table
from gossamer.frontier.inspection import RestoreTarget
from gossamer.frontier.snapshot import line
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, LanePolicy, Order, SeenPolicy, SeenScope, host_of
from gossamer.model import Request as Asked
from gossamer.model.request import AddKey
from gossamer.scrapy.lanes import MAIN
from gossamer.scrapy.seen.memory import number_of_custom
from gossamer.scrapy_redis.connection import RedisError
from gossamer.scrapy_redis.dupefilter import digest_of, old_digest_of
from gossamer.scrapy_redis.transfer.keys import BATCH, DigestKind, ProjectSource, TransferReport, aside, is_digest
from gossamer.scrapy_redis.transfer.requests import payload_of

LOCK_SECONDS = 60
STANDS_SECONDS = 2.0
"""For so long a server that writes its log once a second may lose what it has acknowledged."""

Remove = Callable[[], object]


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
        self._name = ""
        self._stored_at = 0.0
        self._heard = heard or (lambda _: None)
        self.report = TransferReport()

    def run(self) -> TransferReport:
        """Move everything: first the queue, which the dupefilter speaks of."""
        self.report = self._source.look()
        self._digests = self._source.check(self._digests)
        with self._alone():
            # When this is begun again, no queued request shows it any more.
            self._server.set(self._source.digests_key, self._digests.value)
            self._target = RestoreTarget(self._frontier)
            self._frontier.define(self._group, {MAIN: self._policy})
            parts: list[Callable[[], Remove | None]] = [
                partial(self._copy, self._keys.queue, self._requests),
                self._copy_seen,
            ]
            if not self._same:
                parts += [partial(self._copy, key, partial(self._seeds, key)) for key in self._keys.seeds]
            while remove := [one for part in parts if (one := part())]:
                self._check_stands()
                for one in remove:
                    one()
                # What an old worker that still runs has queued meanwhile; its dupefilter holds what is moved already.
                parts = [part for part in parts if part != self._copy_seen]
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
        self._stored_at = time.monotonic()
        self._heard(self.report)

    def _check_stands(self) -> None:
        """That nothing of what was stored can be lost any more by a server that loses its last moments. One that has the source too loses
        the removal first."""
        if not self._same or self._frontier.connection.address.kind == "cluster":
            time.sleep(max(0.0, self._stored_at + STANDS_SECONDS - time.monotonic()))
        try:
            self._target.check()
        except SnapshotError:
            raise SnapshotError(
                "A server of the frontier was restarted or replaced meanwhile, and may have lost what was moved to it. Nothing of that "
                "was removed from its source. Import again: what is there is not moved twice."
            ) from None

    def _copy(self, key: str, store: Callable[[str, str, str, int], int]) -> Remove | None:
        """Set a key aside and store it by `store(aside, kind, name of this attempt, from where on)`; answers how to remove it."""
        away, name_key = aside(key), f"{aside(key)}:name"
        if self._source.kind(away) == "none":
            # A new name for each time: places of one list must not be taken for those of another.
            self._server.set(name_key, secrets.token_hex(8))
            if not self._set_aside(key, away):
                self._server.delete(name_key)
                return None
        kind, name = self._source.kind(away), (self._server.get(name_key) or b"?").decode()
        done = 0
        while stored := store(away, kind, name, done):
            done += stored
            self._stored()
        return partial(self._server.unlink, away, name_key)

    def _set_aside(self, key: str, away: str) -> bool:
        try:
            return self._source.kind(key) != "none" and bool(self._server.renamenx(key, away))
        except RedisError:
            # An old worker that still runs has just taken the last entry.
            if self._source.kind(key) == "none":
                return False
            raise

    def _requests(self, key: str, kind: str, name: str, done: int) -> int:
        if kind == "zset":
            data = self._server.zrange(key, done, done + BATCH - 1)
            names = [f"{name}:{sha256(one).hexdigest()[:32]}" for one in data]
        else:
            data, last = self._oldest(key, done)
            names = [f"{name}:{last - index}" for index in range(len(data))]
        self._add(data, names)
        return len(data)

    def _oldest(self, key: str, done: int) -> tuple[list[bytes], int]:
        """A batch of a list and the place of its first: the oldest stand at the end."""
        last = self._source.size(key) - 1 - done
        return list(reversed(self._server.lrange(key, max(0, last - BATCH + 1), last))) if last >= 0 else [], last

    def _add(self, data: list[bytes], names: list[str]) -> None:
        asked: list[Asked] = []
        keys: list[str] = []
        for one, name in zip(data, names, strict=True):
            try:
                asked.append(self._asked(one))
            except GossamerError as error:
                self._bury(self._legible(one), name, "unreadable", str(error))
            else:
                keys.append(self._key(name))
        if self._digests is DigestKind.NONE:
            self._remember([one.fingerprint for one in asked])
        outcomes, invalid, _ = self._frontier.add(asked, bound=False, key=keys)
        for index, outcome in enumerate(outcomes):
            if outcome in (AddOutcome.ADDED, AddOutcome.DUPLICATE):
                self.report.done["requests"] += 1
            else:
                self._bury(asked[index].payload, keys[index], "refused", invalid.get(index, outcome.name.lower()))

    def _key(self, name: str) -> AddKey:
        return AddKey(f"m{self._group}:{name}")

    def _bury(self, data: bytes, name: str, reason: str, detail: str) -> None:
        """Kept as a dead letter: nothing that was queued goes away silently."""
        self._frontier.bury(self._group, data, reason=reason, key=self._key(name), detail=detail)
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
        return Asked(number, host, f"{self._group}.{MAIN}", payload_of(fields), priority, dont_filter=True)

    def _copy_seen(self) -> Remove | None:
        key = self._keys.dupefilter
        if self._source.kind(key) == "none" or self._digests is DigestKind.NONE:
            return None
        for batch in self._members():
            known = [number for one in batch if (number := self._number_of(one)) is not None]
            self._remember(known)
            self.report.done["seen"] += len(known)
            self.report.done["foreign"] += len(batch) - len(known)
            self._stored()
        return self._remove_seen

    def _remove_seen(self) -> None:
        for batch in self._members():
            if known := [one for one in batch if self._number_of(one) is not None]:
                self._server.srem(self._keys.dupefilter, *known)
                self._stored()

    def _members(self) -> Iterator[list[bytes]]:
        return _batches(self._server.sscan_iter(self._keys.dupefilter, count=BATCH))

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
        # The host of a fingerprint is unknown, so every partition remembers it.
        if not self._name:
            self._name = self._memory()
            self._target.entry(["memory", self._name, seen_table(self._policy.seen)])
        if numbers:
            self._target.entry(["seen", self._name, [line.signed_from(f"{one:x}") for one in numbers], 0, 0])

    def _memory(self) -> str:
        """The name of the lane's memory, as the functions make it."""
        name = f"{self._group}|{self._policy.seen.spec}"
        if self._policy.seen.scope is SeenScope.ROUND:
            [group] = [row for row in self._frontier.counts(self._group).groups if row.group == self._group]
            return f"{name}|{group.round}"
        return name

    def _seeds(self, source: str, key: str, kind: str, name: str, done: int) -> int:
        rows: Sequence[tuple[bytes, float]]
        if kind == "list":
            rows = [(one, 0.0) for one in self._oldest(key, done)[0]]
        elif kind == "set":
            if not done:
                self._sorted = sorted(self._server.smembers(key))
            rows = [(one, 0.0) for one in self._sorted[done : done + BATCH]]
        else:
            rows = self._server.zrange(key, done, done + BATCH - 1, withscores=True)
        # Numbered, so that a repeat brings none back that was taken meanwhile.
        tasks = [[done + index + 1, kind, score] for index, (_, score) in enumerate(rows)]
        self._target.tasks(name, source, tasks, [one for one, _ in rows])
        self.report.done["seeds"] += len(rows)
        return len(rows)


def _batches(values: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(values, BATCH)):
        yield batch
