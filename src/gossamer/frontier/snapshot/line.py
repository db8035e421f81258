"""The lines of a snapshot file: what each kind looks like, and back. Pure.

One JSON object per line. The first is the header; every other has a `type`. Names of fields are those of the model; times are
seconds since 1970, fingerprints 16 hexadecimal digits. A payload of our codec stands in its readable form under `request` or
`value`, any other as base64 under `payload`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gossamer.errors import DecodingError, EncodingError, SnapshotError
from gossamer.frontier import codec
from gossamer.frontier.codec.redaction import redacted, without
from gossamer.model import (
    Document,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Order,
    PageInfo,
    RecordPolicy,
    RevisitRules,
    SeenKind,
    SeenPolicy,
    SeenScope,
)

FORMAT = 1


def payload_json(payload: bytes) -> dict[str, Any]:
    """The payload under the name that says how it was written; what does not come back the same is written as bytes."""
    readers = (("request", codec.given_fields, codec.encode_request), ("value", codec.decode, codec.encode))
    for name, decode, encode in readers:
        try:
            value = decode(payload)
            if encode(value) == payload:
                return {name: codec.to_json(value)}
        except (DecodingError, EncodingError):
            continue
    return {"payload": b64encode(payload).decode()}


def redacted_payload(fields: dict[str, Any]) -> dict[str, Any]:
    """What `payload_json` gave, without secrets. `redacted` names what was taken out; without it, nothing was."""
    paths: list[str] = []
    shown = dict(fields)
    for name in ("request", "value"):
        if name in shown:
            shown[name], found = redacted(shown[name])
            paths += found
    if "payload" in shown and (inside := _inside(b64decode(shown["payload"]))) is not None:
        name, value = inside
        value, found = redacted(value)
        if found:
            del shown["payload"]
            shown[name] = value
            paths += found
    return {**shown, "redacted": paths} if paths else shown


def _inside(payload: bytes) -> tuple[str, Any] | None:
    """What bytes mean that no reader would give back exactly: a request, or what a producer pushed, JSON of its own or a URL."""
    for name, decode in (("request", codec.decode_request), ("value", codec.decode)):
        try:
            return name, codec.to_json(decode(payload))
        except (DecodingError, EncodingError):
            continue
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    try:
        return "task", json.loads(text)
    except ValueError:
        return "task", text


def payload_from(line: Mapping[str, Any], without_secrets: bool = False) -> bytes:
    """What a line holds. SnapshotError if its secrets were taken out, unless it is wanted without them."""
    if line.get("redacted"):
        if not without_secrets:
            raise SnapshotError(
                f"this was exported without its secrets ({', '.join(map(str, line['redacted']))}); export with --secrets, "
                "or import with --without-secrets, which restores what is left of it"
            )
        line = {name: without(value) if name in ("request", "value", "task") else value for name, value in line.items()}
    if "task" in line:
        task = line["task"]
        return (task if isinstance(task, str) else json.dumps(task)).encode()
    if "request" in line:
        fields = codec.from_json(line["request"])
        if not isinstance(fields, dict):
            raise SnapshotError("`request` is not an object")
        return codec.encode_request(fields)
    if "value" in line:
        return codec.encode(codec.from_json(line["value"]))
    return b64decode(line["payload"], validate=True)


def cookie(group: str, name: str, data: bytes) -> dict[str, Any]:
    """A cookie that workers share, readable as they write it; what does not come back the same is written as bytes."""
    row = {"type": "cookie", "group": group}
    try:
        jar, domain, path, what = place = json.loads(name)
        fields = json.loads(data)
        if isinstance(place, list) and (json.dumps(place), json.dumps(fields).encode()) == (name, data):
            return {**row, "jar": jar, "domain": domain, "path": path, "name": what, "cookie": fields}
    except (ValueError, TypeError):
        pass
    return {**row, "key": name, "payload": b64encode(data).decode()}


def cookie_from(line: Mapping[str, Any]) -> tuple[str, bytes]:
    """Its name and its value, as the frontier keeps them."""
    if "cookie" in line:
        place = [line["jar"], line["domain"], line["path"], line["name"]]
        return json.dumps(place), json.dumps(line["cookie"]).encode()
    return str(line["key"]), b64decode(line["payload"], validate=True)


def fingerprint_text(number: int) -> str:
    return f"{number:016x}"


def signed_from(text: str) -> str:
    """The signed decimal text under which the server remembers a fingerprint."""
    number = int(text, 16)
    if not 0 <= number < 2**64:
        raise ValueError(f"fingerprint {text!r} has more than 64 bits")
    return str(number if number < 2**63 else number - 2**64)


def unsigned_text(signed: str) -> str:
    return fingerprint_text(int(signed) % 2**64)


def host_policy(table: Mapping[str, Any]) -> dict[str, Any]:
    """The stored table of a host policy as the model's fields."""
    seconds = ("delay", "min_delay", "max_delay", "block_base", "block_max")
    return {
        **{name: table[name] / 1000 for name in seconds},
        **{name: table[name] for name in ("concurrency", "adaptive", "target")},
        "crawl_delay": table.get("crawl_delay", True),
    }


def host_policy_from(fields: Mapping[str, Any]) -> HostPolicy:
    return HostPolicy(**fields)


def group_policy(table: Mapping[str, Any]) -> dict[str, Any]:
    policy = GroupPolicy(
        max_queued=table["max_queued"],
        max_pages=table["max_pages"],
        delay=table["delay"] / 1000,
        concurrency=table["concurrency"],
        start=table["start"],
        tasks=tuple(table["tasks"].split("\n")) if table["tasks"] else (),
        max_items=table["max_items"],
        max_dead=table["max_dead"],
        max_item_bytes=table.get("max_item_bytes", 0),
        weight=table.get("weight", 1.0),
        crawl_delay=table.get("crawl_delay", True),
        max_item_age=table.get("max_item_age", 0) / 1000,
        gone=table.get("gone", False),
    )
    return {**asdict(policy), "tasks": list(policy.tasks)}


def group_policy_from(fields: Mapping[str, Any]) -> GroupPolicy:
    return GroupPolicy(**{**fields, "tasks": tuple(fields.get("tasks", ()))})


def document(kind: str, version: Document) -> dict[str, Any]:
    """What is known of a version and its text; the rest is made of the text again."""
    known = {name: getattr(version, name) for name in ("name", "version", "at", "who", "note", "deleted", "text")}
    return {"type": "document", "kind": kind, **known}


def page_record(page: PageInfo) -> dict[str, Any]:
    """The record of a page, without its request. What is 0 is left out."""
    row = {name: getattr(page, name) for name in _PAGE if getattr(page, name)}
    return {
        "type": "page",
        "lane": page.lane,
        "host": page.host,
        "fingerprint": fingerprint_text(page.fingerprint),
        "state": page.state.value,
        "first": page.first,
        "since": page.since,
        **row,
        **({"signature": fingerprint_text(page.signature)} if page.signature else {}),
        "trail": [[event.value, at] for event, at in page.trail],
    }


_PAGE = ("last", "due", "interval", "version", "status", "changes", "misses", "priority")


def record_policy(table: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: table[name] / 1000 for name in ("failed", "finished", "gone", "max_age") if name in table}
    revisit = table.get("revisit")
    rules = {
        **{name: revisit[name] / 1000 for name in ("every", "min", "max")},
        **{name: revisit[name] for name in ("adaptive", "gone")},
    } if revisit else None  # fmt: skip
    return {**times, "newer": table["newer"], "max_pages": table["max_pages"], "revisit": rules}


def record_policy_from(fields: Mapping[str, Any]) -> RecordPolicy:
    revisit = fields.get("revisit")
    usual: dict[str, Any] = {"failed": None, "finished": None, "gone": None}
    return RecordPolicy(**usual | {**fields, "revisit": RevisitRules(**revisit) if revisit else None})


def lane_policy(table: Mapping[str, Any]) -> dict[str, Any]:
    seen = table["seen"]
    records = {"records": record_policy(table["records"])} if table.get("records") else {}
    return {
        **records,
        **{name: table[name] for name in ("order", "tier", "weight", "max_queued", "max_leased", "stage")},
        "seen": {
            **{name: seen[name] for name in ("kind", "scope", "capacity", "error", "window_count")},
            "window": seen["window"] / 1000,
            "window_rounds": seen.get("window_rounds", 0),
        },
    }


def lane_policy_from(fields: Mapping[str, Any]) -> LanePolicy:
    seen = dict(fields["seen"])
    policy = SeenPolicy(**{**seen, "kind": SeenKind(seen["kind"]), "scope": SeenScope(seen["scope"])})
    given = {**fields, "order": Order(fields["order"]), "seen": policy}
    if fields.get("records"):
        given["records"] = record_policy_from(fields["records"])
    return LanePolicy(**given)
