"""Reads: counts, drained, hosts, workers, memories. Generators without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ormsgpack

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.frontier.snapshot import line
from gossamer.model import Counts, Drained, GroupCounts, HostInfo, LaneCounts, SeenInfo, WorkerInfo
from gossamer.model.reply import PAGES_FULL, TaskQueueSize

WORKERS_PAGE, NAMED_MOST = 500, 64
"""The most workers that are asked for in a call."""
LANE_NUMBERS = LaneCounts._fields.index("paused") - LaneCounts._fields.index("queued")
"""The counts that Lua keeps."""
GROUP_NUMBERS = 7
SETTLE_NOTHING: dict[str, Any] = {"i": "", "done": [], "release": [], "renew": [], "lease": 0}


class ReadVerbs:
    """Builds the calls that only read, and reads their replies."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.crawl, self.partitions = crawl, partitions
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def counts(self, group: str = "", *, brief: bool = False) -> Verb[Counts]:
        header = {"group": group, "brief": True} if brief else {"group": group}
        replies = yield [function_call("counts", base, header) for base in self.bases]
        parts = [read(reply) for reply in replies]
        lanes: dict[str, list[Any]] = {}
        groups: dict[str, list[Any]] = {}
        counters: dict[str, dict[str, float]] = {}
        going_on: set[str] = set()
        for _, _, _, _, lane_rows, group_rows, counter_rows, _ in parts:
            waiting_in = {name.rpartition(".")[0] for name, _, _, numbers in lane_rows if numbers[0] or numbers[1]}
            for name, paused, policy, numbers in lane_rows:
                found, pages, due = policy.pop("pages", (0, 0, 0))
                row = lanes.setdefault(name, [paused, policy, [0] * LANE_NUMBERS, 0, 0, 0.0])
                policy.pop("made", None)  # each partition has its own
                row[3], row[4] = row[3] + found, row[4] + pages
                row[5] = min(filter(None, (row[5], due / 1000)), default=0.0)
                row[2] = [a + b for a, b in zip(row[2], numbers, strict=True)]
            for name, policy, paused, number, numbers, waiting, dead, start in group_rows:
                policy.pop("born", None)
                row = groups.setdefault(name, [policy, "", 0, [0] * GROUP_NUMBERS, 0, 0, "none"])
                row[1], row[2] = row[1] or paused, max(row[2], number)
                row[3] = [a + b for a, b in zip(row[3], numbers, strict=True)]
                row[4], row[5] = row[4] + waiting, row[5] + dead
                row[6] = start if start != "none" else row[6]
                if not paused and name in waiting_in:
                    going_on.add(name)
            for name, flat in counter_rows:
                table = counters.setdefault(name, {})
                for field, value in zip(flat[::2], flat[1::2], strict=True):
                    table[field] = float(value)
        for name in going_on:
            # Pages are limited on each partition: full is a group only where all that have something left are.
            if groups[name][1] == PAGES_FULL:
                groups[name][1] = ""
        return Counts(
            max(part[0] for part in parts) / 1000,
            ",".join(part[2] for part in parts),
            next((part[3] for part in parts if part[3]), ""),
            [LaneCounts(*(name, *row[2], row[0], *row[3:])) for name, row in sorted(lanes.items())],
            [
                GroupCounts(
                    name,
                    row[2],
                    row[3][0],
                    row[3][1],
                    row[3][2],
                    row[4],
                    row[5],
                    row[3][4],
                    row[3][5],
                    row[3][6],
                    row[1],
                    row[6],
                    counters.get(name, {}),
                )
                for name, row in sorted(groups.items())
            ],
            {name: row[1] for name, row in lanes.items()},
            {name: row[0] for name, row in groups.items()},
            any(part[7] == 1 for part in parts),
            {name: parts[keys.home_of(name, self.partitions)][0] / 1000 for name in groups},
        )

    def open(self, group: str) -> Verb[tuple[int, tuple[int, ...], tuple[str, ...]]]:
        """What is open, the change counters, and the keys that feed the group."""
        replies = yield [function_call("group_open", base, {"group": group}) for base in self.bases]
        parts = [read(reply) for reply in replies]
        return (
            sum(part[0] for part in parts),
            tuple(part[1] for part in parts),
            tuple(parts[0][2].split("\n")) if parts[0][2] else (),
        )

    def drained(self, group: str) -> Verb[Drained]:
        """Two sweeps, all zero and nothing changed in between: a request on its way from one partition to another is
        always still leased on the first or already queued on the second."""
        opened, changes, sources = yield from self.open(group)
        tasks = yield from self._tasks(sources)
        if opened or tasks:
            return Drained(False, opened, tasks)
        if self.partitions > 1 or sources:
            opened, again, _ = yield from self.open(group)
            tasks = yield from self._tasks(sources)
            return Drained(opened == 0 and tasks == 0 and again == changes, opened, tasks)
        return Drained(True, 0, 0)

    def _tasks(self, sources: Sequence[str]) -> Verb[int]:
        if not sources:
            return 0
        replies = yield [function_call("settle_tasks", keys.task_keys(source), SETTLE_NOTHING) for source in sources]
        return sum(read(reply)[1] + read(reply)[2] for reply in replies)

    def task_counts(self, sources: Sequence[str]) -> Verb[list[TaskQueueSize]]:
        """How many tasks wait in each producer's key, how many are leased, and how fast they are settled."""
        if not sources:
            return []
        replies = yield [function_call("settle_tasks", keys.task_keys(source), SETTLE_NOTHING) for source in sources]
        told = [read(reply) for reply in replies]
        return [TaskQueueSize(waiting, leased, settled, ms / 1000) for _, waiting, leased, settled, ms in told]

    def hosts(self, names: Sequence[str]) -> Verb[list[HostInfo]]:
        by_partition: dict[int, list[str]] = {}
        for name in names:
            by_partition.setdefault(keys.partition_of(name, self.partitions), []).append(name)
        if not by_partition:
            return []
        replies = yield [
            function_call("host_show", self.bases[p], {"hosts": hosts}) for p, hosts in by_partition.items()
        ]
        asked = {name: place for place, name in enumerate(names)}
        found: list[HostInfo] = []
        for reply in replies:
            now, rows = read(reply)
            for host, in_flight, next_at, blocked, why, paused, delay, throttled, floor, own, policy in rows:
                found.append(
                    HostInfo(
                        host,
                        in_flight,
                        next_at / 1000,
                        blocked / 1000,
                        why,
                        paused,
                        delay / 1000,
                        throttled,
                        floor / 1000,
                        own == 1,
                        now / 1000,
                        line.host_policy(policy),
                    )
                )
        return sorted(found, key=lambda info: asked[info.host])

    def workers(self, most: int = 0) -> Verb[list[WorkerInfo]]:
        """All of them, a page at a time; or the `most` that called last, of each partition."""
        found: dict[str, dict[str, list[Any]]] = {base: {} for base in self.bases}
        places = dict.fromkeys(self.bases, (0, 0))
        action, page = ("newest", min(most, WORKERS_PAGE)) if most else ("list", WORKERS_PAGE)
        while places:
            replies = yield [
                function_call("workers", base, _workers(action, begin=begin, skip=skip, most=page))
                for base, (begin, skip) in places.items()
            ]
            after: dict[str, tuple[int, int]] = {}
            for (base, (begin, skip)), reply in zip(places.items(), replies, strict=True):
                rows = read(reply)[1]
                found[base].update((row[0], row) for row in rows)
                if len(rows) < page:
                    continue
                if most:
                    if skip + page < most:
                        after[base] = 0, skip + page
                    continue
                # Those who call meanwhile move to the end, and come once more; of several at one moment all are passed.
                last = rows[-1][2]
                after[base] = last, sum(row[2] == last for row in rows) + (skip if last == begin else 0)
            places = after
        known = sorted(_joined(found.values()), key=lambda worker: worker.seen)
        return known[-most:] if most else known

    def silent_workers(self, least: float, most: float) -> Verb[tuple[float, list[WorkerInfo]]]:
        names: set[str] = set()
        now, left, skip = 0.0, list(self.bases), 0
        while left:
            header = _workers("silent", before=least, begin=round(most * 1000), skip=skip, most=WORKERS_PAGE)
            replies = [read(reply) for reply in (yield [function_call("workers", base, header) for base in left])]
            now = max(now, *(reply[0] / 1000 for reply in replies))
            names.update(row[0] for reply in replies for row in reply[1])
            left = [base for base, reply in zip(left, replies, strict=True) if len(reply[1]) == WORKERS_PAGE]
            skip += WORKERS_PAGE
        if not names:
            return now, []
        now, known = yield from self.named_workers(sorted(names))
        return now, [worker for worker in known if worker.seen <= now - least]

    def named_workers(self, names: Sequence[str]) -> Verb[tuple[float, list[WorkerInfo]]]:
        """The server's time, and what is known of these in all partitions: a busy worker may call one of them only."""
        now, known = 0.0, list[WorkerInfo]()
        for first in range(0, len(names), NAMED_MOST):
            header = _workers("named", most=NAMED_MOST) | {"names": list(names[first : first + NAMED_MOST])}
            replies = [read(reply) for reply in (yield [function_call("workers", base, header) for base in self.bases])]
            now = max(reply[0] for reply in replies) / 1000
            known += _joined({row[0]: row for row in reply[1]} for reply in replies)
        return now, known

    def turn_to_look(self, seconds: float) -> Verb[bool]:
        [reply] = yield [function_call("workers", self.bases[0], _workers("turn", before=seconds))]
        return bool(read(reply)[2])

    def workers_count(self) -> Verb[int]:
        """How many there are; of several partitions, the most that one of them knows."""
        replies = yield [function_call("workers", base, _workers("newest", most=0)) for base in self.bases]
        return max(int(read(reply)[2]) for reply in replies)

    def leave(self, incarnation: str) -> Verb[None]:
        yield from self._change_workers("leave", incarnation)

    def drain_worker(self, incarnation: str, draining: bool = True) -> Verb[None]:
        yield from self._change_workers("drain" if draining else "undrain", incarnation)

    def forget_workers(self, silent: float) -> Verb[int]:
        return (yield from self._change_workers("forget", before=silent))

    def _change_workers(self, action: str, incarnation: str = "", before: float = 0.0) -> Verb[int]:
        """Return how many were removed on the partition that removed most."""
        header = _workers(action, incarnation, before, most=WORKERS_PAGE)
        replies = yield [function_call("workers", base, header) for base in self.bases]
        return max(int(read(reply)[2]) for reply in replies)

    def seen_counts(self) -> Verb[list[SeenInfo]]:
        replies = yield [function_call("seen_count", base, {}) for base in self.bases]
        found: dict[str, SeenInfo] = {}
        for reply in replies:
            for name, kind, count, key, used in read(reply):
                old = found.get(name, SeenInfo(name, kind, 0, (), 0))
                found[name] = SeenInfo(name, kind, old.known + count, (*old.keys, key), old.bytes + used)
        return sorted(found.values())


def _workers(
    action: str, incarnation: str = "", before: float = 0.0, *, begin: int = 0, skip: int = 0, most: int = 0
) -> dict[str, Any]:
    return {
        "action": action, "incarnation": incarnation, "before": round(before * 1000), "from": begin, "skip": skip, "most": most,
        "settled": True,
    }  # fmt: skip


def _joined(partitions: Iterable[Mapping[str, Sequence[Any]]]) -> Iterable[WorkerInfo]:
    """Join what the partitions know of each worker: one worker calls several of them."""
    known: dict[str, WorkerInfo] = {}
    for rows in partitions:
        for name, info, seen, held, draining, settled in rows.values():
            table = ormsgpack.unpackb(bytes.fromhex(info)) if info else {}
            old = known.get(name)
            if old:
                table, seen, held = {**old.info, **table}, max(seen, old.seen * 1000), held + old.held
                settled += old.settled
            known[name] = WorkerInfo(
                name, table, seen / 1000, held, draining == 1 or (old is not None and old.draining), settled
            )
    return known.values()
