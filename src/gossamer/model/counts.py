"""A crawl in numbers: lanes and groups, hosts, seen memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gossamer.model.reply import GroupCounts, LaneCounts

PAGES_FULL = "pages_full"
"""Why a group is held whose round has as many pages as it may."""


class Counts(NamedTuple):
    """A whole crawl at a glance, summed over its partitions. `policies` are the raw tables by lane and by group."""

    now: float
    config_version: str
    paused: str
    lanes: list[LaneCounts]
    groups: list[GroupCounts]
    lane_policies: Mapping[str, Mapping[str, Any]]
    group_policies: Mapping[str, Mapping[str, Any]]


class HostInfo(NamedTuple):
    """One host now. Times are server time in seconds, 0 where none is set; `delay` is the one in force for all,
    `crawl_delay` what its robots.txt asks for, which counts for groups that heed it. `policy` has the fields of `HostPolicy`: its own, or the crawl's default."""

    host: str
    in_flight: int
    next_at: float
    blocked_until: float
    reason: str
    paused: str
    delay: float
    throttled: int
    crawl_delay: float
    own_policy: bool
    now: float
    policy: Mapping[str, Any]


class SeenInfo(NamedTuple):
    """One memory: its group and policy, and how many fingerprints it knows (a bloom counts what it took in); `bytes` is
    taken from a sample."""

    name: str
    kind: str
    known: int
    keys: tuple[str, ...]
    bytes: int
