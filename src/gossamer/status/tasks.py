"""What producers pushed and workers have not turned into requests yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import Counts, TaskQueueSize

SHORTEST = 1.0
"""Seconds; a shorter time says nothing about the pace."""


class TaskQueue(NamedTuple):
    """One key that feeds a group: tasks `waiting` in it, and `leased` to workers that make requests of them.
    `drain_seconds`: in what time both are done at the pace of the last minutes, if none is added; None if no worker
    takes any."""

    group: str
    key: str
    waiting: int
    leased: int
    drain_seconds: float | None


class TaskCounts(NamedTuple):
    """The tasks of all keys that feed a group; `drain_seconds` is that of the key that takes longest."""

    group: str
    waiting: int
    leased: int
    drain_seconds: float | None


def task_queues(frontier: ValkeyFrontier, counts: Counts) -> list[TaskQueue]:
    """The keys of every group in `counts` that producers feed. A key that feeds two groups counts in both."""
    fed = [
        (group, key)
        for group, policy in sorted(counts.group_policies.items())
        for key in str(policy["tasks"]).split("\n")
        if key
    ]
    sizes = frontier.task_counts([key for _, key in fed])
    return [TaskQueue(*names, size.waiting, size.leased, _drain(size)) for names, size in zip(fed, sizes, strict=True)]


def _drain(size: TaskQueueSize) -> float | None:
    left = size.waiting + size.leased
    if not left:
        return 0.0
    return left / size.settled * max(size.seconds, SHORTEST) if size.settled else None


def task_counts(queues: Iterable[TaskQueue]) -> list[TaskCounts]:
    """Summed by group."""
    found: dict[str, TaskCounts] = {}
    for group, _, waiting, leased, seconds in queues:
        old = found.get(group, TaskCounts(group, 0, 0, 0.0))
        longest = None if seconds is None or old.drain_seconds is None else max(seconds, old.drain_seconds)
        found[group] = TaskCounts(group, old.waiting + waiting, old.leased + leased, longest)
    return list(found.values())
