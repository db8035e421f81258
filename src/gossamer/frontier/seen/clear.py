"""Forgetting all that a group has seen, while its queues and everything else stay."""

from __future__ import annotations

from dataclasses import replace

from gossamer.errors import UnknownGroup
from gossamer.frontier.snapshot import line
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import SeenKind, SeenPolicy

HOUR = 3600.0


def seen_known(frontier: ValkeyFrontier, group: str) -> int:
    """How many pages the memories and page records of a group know."""
    known = sum(each.known for each in frontier.seen_counts() if each.name.startswith(f"{group}|"))
    lanes = (lane for lane in frontier.counts(group).lanes if lane.lane.rpartition(".")[0] == group)
    return known + sum(lane.pages for lane in lanes)


def clear_seen(frontier: ValkeyFrontier, group: str) -> None:
    """Every page of the group is new again; what is queued stays queued.

    A memory goes when no lane uses it any more: for a moment the lanes are given another one, which goes in its turn, and lanes that keep
    page records keep none; pages that wait are queued then. Workers
    hear of both. Killed in that moment, the lanes keep the other one, of an hour, until a worker of the group starts.
    """
    counts = frontier.counts(group)
    prefix = f"{group}."
    lanes = {
        name.removeprefix(prefix): line.lane_policy_from(line.lane_policy(table))
        for name, table in counts.lane_policies.items()
        if name.startswith(prefix) and "." not in name.removeprefix(prefix)
    }
    if not lanes:
        raise UnknownGroup(f"There is no group {group!r} in this crawl. `gossamer group list` names those there are.")
    used = {policy.seen.spec for policy in lanes.values()}
    windows = (SeenPolicy(SeenKind.ROLLING, window=HOUR + number) for number in range(len(used) + 1))
    other = next(policy for policy in windows if policy.spec not in used)
    try:
        frontier.define(group, {name: replace(policy, seen=other, records=None) for name, policy in lanes.items()})
    finally:
        frontier.define(group, lanes)
