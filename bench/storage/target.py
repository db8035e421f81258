"""What the frontier is to reach, and whether these figures do."""

from __future__ import annotations

from typing import Any, NamedTuple

PLAIN = "gossamer, 64 per exchange"


class Target(NamedTuple):
    name: str
    wanted: str
    figure: str
    reached: bool


def targets(found: dict[str, list[Any]]) -> list[Target]:
    """Those for which there are figures, at the largest size measured. Speed: one client, few hosts, the
    smaller of the ratios on the clock and in processor time."""
    return [*_speed(found["speed"]), *_queued(found["queued"]), *_seen(found["seen"]), *_growth(found["growth"])]


def _speed(rows: list[Any]) -> list[Target]:
    by_work = {r.work: r for r in rows if r.clients == 1 and r.contender == PLAIN and r.site == "100 hosts"}
    names = {
        "new": "adding new",
        "duplicates": "adding duplicates",
        "lease": "lease and settle",
        "page": "a whole page",
    }
    wanted = {"new": 20, "duplicates": 15, "lease": 6, "page": 10}
    found = [
        Target(names[work], f"≥ {factor}×", f"{reached:.1f}×", reached >= factor)
        for work, factor in wanted.items()
        if work in by_work
        # On a busy machine the clock punishes whoever waits most often; processor time does not.
        for reached in [min(by_work[work].faster, by_work[work].lighter)]
    ]
    if "page" in by_work:
        share = by_work["page"].server_share
        found.append(Target("server time per page", "≤ 1/6", f"1/{1 / share:.1f}", share <= 1 / 6))
    return found


def _queued(rows: list[Any]) -> list[Target]:
    found = []
    for hosts in sorted({r.hosts for r in rows}):
        sizes = {r.contender: r.queued for r in rows if r.hosts == hosts}
        share = sizes["gossamer"] / sizes["scrapy-redis"]
        found.append(Target(f"bytes per queued request, {hosts:,} hosts", "≤ 60 %", f"{share:.0%}", share <= 0.6))
    return found


def _seen(rows: list[Any]) -> list[Target]:
    found = []
    for r in rows:
        if r.policy == "exact":
            found.append(Target(f"exact, {r.urls:,} URLs", "≤ 10 bytes", f"{r.bytes:.2f}", r.bytes <= 10))
        elif r.error is not None:
            limit = 2.6 if "beforehand" in r.policy else 4.0
            found.append(Target(f"{r.policy}, {r.urls:,} URLs", f"≤ {limit} bytes", f"{r.bytes:.2f}", r.bytes <= limit))
            found.append(Target(f"{r.policy}, {r.urls:,} URLs, error", "≤ 1e-4", f"{r.error:.1e}", r.error <= 1e-4))
    return found


def _growth(rows: list[Any]) -> list[Target]:
    """By the server's time; on the clock, the client's constant share would hide some of it."""
    found = []
    for case in dict.fromkeys(r.case for r in rows):
        worst = max(r.server_times for r in rows if r.case == case)
        limit = 1.3 if "blocked" in case else 1.5
        if "twice" not in case:
            found.append(Target(f"cost with {case}", f"≤ {limit}×", f"{worst:.2f}×", worst <= limit))
    return found
