"""Lines of a snapshot about state that comes from elsewhere, so that it is restored like that of a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import ormsgpack

from gossamer.frontier.server import keys, library
from gossamer.frontier.snapshot import line
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.frontier.verbs.control.tables import lane_table, seen_table
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, Request, SeenPolicy

Line = dict[str, Any]


def header(frontier: ValkeyFrontier, snapshot: str, holds: str) -> Line:
    """The first line: into this crawl, whose hosts stay as they are. `holds` says whose state it is."""
    key = keys.default_host(frontier.crawl)
    stored = frontier.connection.execute("HGET", key, "", key=key)
    host = line.host_policy(ormsgpack.unpackb(stored)) if stored else asdict(HostPolicy())
    return {
        "gossamer": "snapshot",
        "format": line.FORMAT,
        "snapshot": snapshot,
        "holds": [holds],
        "crawl": frontier.crawl,
        "partitions": frontier.partitions,
        "schema": library.SCHEMA,
        "host": host,
    }


def group(name: str, policy: GroupPolicy) -> Line:
    """A group whose first round is still to begin."""
    fields = {**asdict(policy), "tasks": list(policy.tasks)}
    return {"type": "group", "group": name, "policy": fields, "round": 0, "start": "owed"}


def lane(name: str, policy: LanePolicy) -> Line:
    return {"type": "lane", "lane": name, "policy": line.lane_policy(lane_table(policy))}


def memory(group: str, policy: SeenPolicy) -> Line:
    """What lanes of a group with this policy remember."""
    return {"type": "memory", "memory": memory_name(group, policy), "policy": seen_table(policy)}


def memory_name(group: str, policy: SeenPolicy) -> str:
    return f"{group}|{policy.spec}"


def seen(memory: str, partition: int, fingerprints: Sequence[str], began: float) -> Line:
    """Fingerprints that were seen at about that time; 0: it does not matter."""
    row: Line = {"type": "seen", "memory": memory, "partition": partition, "fingerprints": list(fingerprints)}
    return {**row, "began": began, "behind": 0} if began else row


def request(asked: Request) -> Line:
    return {"type": "request", "state": "new", **_named(asked)}


def page(asked: Request, state: str, *, first: float, last: float, due: float, interval: float, status: int) -> Line:
    """The record of a page that was visited once."""
    event = "read" if state == "finished" else "failed"
    times = {"first": first, "since": last, "last": last, "due": due, "interval": interval, "status": status}
    return {"type": "page", **_named(asked), "state": state, **times, "trail": [["found", first], [event, last]]}


def dead(asked: Request, reason: str, detail: str, at: float) -> Line:
    group = asked.lane.rpartition(".")[0]
    more = {"group": group, "attempts": 1, "strikes": 0, "reason": reason, "detail": detail, "at": at}
    return {"type": "dead", **_named(asked), "priority": asked.priority, **more}


def _named(asked: Request) -> Line:
    row: Line = {"lane": asked.lane, "host": asked.host, "fingerprint": line.fingerprint_text(asked.fingerprint)}
    row |= {"priority": asked.priority} if asked.priority else {}
    return {**row, **line.payload_json(asked.payload)}
