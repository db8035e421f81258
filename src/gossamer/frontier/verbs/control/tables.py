"""Policies in the form in which the functions of the server read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, RecordPolicy, SeenPolicy, SeenScope


def seen_table(policy: SeenPolicy) -> dict[str, Any]:
    return {
        "kind": policy.kind.value, "scope": policy.scope.value, "spec": policy.spec, "capacity": policy.capacity,
        "error": policy.error, "window": round(policy.window * 1000), "window_count": policy.window_count,
        "window_rounds": policy.window_rounds,
    }  # fmt: skip


def lane_table(policy: LanePolicy) -> dict[str, Any]:
    table = {
        "order": policy.order.value, "tier": policy.tier, "weight": policy.weight, "max_queued": policy.max_queued,
        "max_leased": policy.max_leased, "stage": policy.stage, "seen": seen_table(policy.seen),
    }  # fmt: skip
    if policy.records is not None:
        table |= {
            "records": record_table(policy.records), "records_spec": repr(policy.records),
            # The records are its memory.
            "seen": seen_table(replace(policy.seen, scope=SeenScope.NEVER)),
        }  # fmt: skip
    return table


def record_table(policy: RecordPolicy) -> dict[str, Any]:
    """In milliseconds; a time that is None is left out."""
    times = {name: getattr(policy, name) for name in ("failed", "finished", "gone", "max_age")}
    table: dict[str, Any] = {name: round(seconds * 1000) for name, seconds in times.items() if seconds is not None}
    table |= {"newer": policy.newer, "max_pages": policy.max_pages}
    if (rules := policy.revisit) is not None:
        low, high = rules.bounds
        table["revisit"] = {
            "every": round(rules.every * 1000), "low": round(low * 1000), "high": round(high * 1000), "adaptive": rules.adaptive,
            "gone": rules.gone, "min": round(rules.min * 1000), "max": round(rules.max * 1000),
        }  # fmt: skip
    return table


def host_table(policy: HostPolicy) -> dict[str, Any]:
    milliseconds = {
        name: round(getattr(policy, name) * 1000)
        for name in ("delay", "min_delay", "max_delay", "block_base", "block_max")
    }
    plain = ("concurrency", "adaptive", "target", "crawl_delay")
    return {**milliseconds, **{name: getattr(policy, name) for name in plain}}


def group_table(policy: GroupPolicy) -> dict[str, Any]:
    return {
        "max_queued": policy.max_queued, "max_pages": policy.max_pages, "delay": round(policy.delay * 1000),
        "concurrency": policy.concurrency, "start": policy.start, "tasks": "\n".join(policy.tasks),
        "max_items": policy.max_items, "max_item_bytes": policy.max_item_bytes, "max_dead": policy.max_dead,
        "weight": policy.weight, "crawl_delay": policy.crawl_delay, "max_item_age": round(policy.max_item_age * 1000),
        "gone": policy.gone,
    }  # fmt: skip
