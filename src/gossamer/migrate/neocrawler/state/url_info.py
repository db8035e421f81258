"""What NEOCrawler knows of a URL, and what became of it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

HIT, SCHEDULED, CRAWLING, FINISHED, FAILED = "hit", "schedule", "crawling", "crawled_finish", "crawled_failure"
WAITING = (HIT, SCHEDULED, CRAWLING)
"""Found, given to spiders, in the hands of one. What a spider had when it died stays in one of these."""


class Fate(Enum):
    """What a URL becomes here."""

    WAITS = "waits"
    FINISHED = "finished"
    FAILED = "failed"


class UrlInfo(NamedTuple):
    """One URL. `trace` is the key of the list of its rule; times are in seconds, 0 if they are not known."""

    url: str
    trace: str
    status: str
    referer: str
    create: float
    last: float
    version: float

    @property
    def rule(self) -> tuple[str, str] | None:
        """Domain and alias of its rule: urllib:driller:DOMAIN:ALIAS."""
        return rule_of(self.trace)


def rule_of(trace: str) -> tuple[str, str] | None:
    parts = trace.split(":")
    if parts[0] == "urllib":
        parts = parts[1:]
    return (parts[1], ":".join(parts[2:])) if len(parts) >= 3 and parts[0] == "driller" else None


def info_of(fields: Mapping[str, str]) -> UrlInfo | str:
    """What a hash says; a text says why it says nothing."""
    url = fields.get("url", "")
    if not url:
        return "it has no url"
    status = fields.get("status", "")
    if status not in (*WAITING, FINISHED, FAILED):
        return f"its status is {status or 'missing'}"
    return UrlInfo(
        url,
        fields.get("trace", ""),
        status,
        fields.get("referer", ""),
        *(_seconds(fields.get(name, "")) for name in ("create", "last", "version")),
    )


def fate_of(info: UrlInfo, interval: float, now: float, *, scheduled: bool, listed: bool, stuck: bool) -> Fate:
    """What becomes of a URL. `scheduled`: it is in the queue of spiders; `listed`: in the list of its rule, from which NEOCrawler takes what
    failed, and what was finished longer ago than `interval`. `stuck`: it was read, and its data could not be stored."""
    if info.status in WAITING or scheduled or stuck:
        return Fate.WAITS
    if info.status == FAILED:
        return Fate.WAITS if listed else Fate.FAILED
    return Fate.WAITS if listed and now - info.last >= interval else Fate.FINISHED


def name_of(url: str) -> str:
    """The name under which a URL is known."""
    return hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()


def _seconds(text: str) -> float:
    """Milliseconds as NEOCrawler writes them."""
    return int(text) / 1000 if text.isdigit() else 0.0
