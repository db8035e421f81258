"""What producers pushed and workers have not turned into requests yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import Counts


class TaskQueue(NamedTuple):
    """One key that feeds a group: tasks `waiting` in it, and `leased` to workers that make requests of them."""

    group: str
    key: str
    waiting: int
    leased: int


class TaskCounts(NamedTuple):
    """The tasks of all keys that feed a group."""

    group: str
    waiting: int
    leased: int


def task_queues(frontier: ValkeyFrontier, counts: Counts) -> list[TaskQueue]:
    """The keys of every group in `counts` that producers feed. A key that feeds two groups counts in both."""
    fed = [
        (group, key)
        for group, policy in sorted(counts.group_policies.items())
        for key in str(policy["tasks"]).split("\n")
        if key
    ]
    sizes = frontier.task_counts([key for _, key in fed])
    return [TaskQueue(*names, *numbers) for names, numbers in zip(fed, sizes, strict=True)]


def task_counts(queues: Iterable[TaskQueue]) -> list[TaskCounts]:
    """Summed by group."""
    found: dict[str, TaskCounts] = {}
    for group, _, waiting, leased in queues:
        old = found.get(group, TaskCounts(group, 0, 0))
        found[group] = TaskCounts(group, old.waiting + waiting, old.leased + leased)
    return list(found.values())
