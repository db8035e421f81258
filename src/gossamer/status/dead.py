"""Dead letters, as people read them: with URLs, and without secrets.

`scan_` pages through what grows with the crawl: whoever reads decides how far.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from json import dumps, loads
from typing import Any

from gossamer.errors import DecodingError, EncodingError, UnknownDeadLetter
from gossamer.frontier import codec
from gossamer.frontier.codec.redaction import concealed, redacted
from gossamer.frontier.snapshot.line import fingerprint_text
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter

CONTENT = ("request", "value", "text", "base64")
"""The names under which `content_json` shows a payload."""


def scan_dead(frontier: ValkeyFrontier, group: str, page: int = 100) -> Iterator[DeadLetter]:
    """The dead letters of a group without payloads, roughly oldest first."""
    after = 0
    while letters := frontier.dead_letters(group, after, page):
        yield from letters
        after += page


def scan_dead_of(frontier: ValkeyFrontier, group: str = "", reason: str = "", lane: str = "") -> Iterator[DeadLetter]:
    """Those of one group or of all, for one reason or any, of one lane or all; oldest first."""
    groups = [group] if group else [each.group for each in frontier.counts().groups]
    if lane:
        owner = lane.rpartition(".")[0]
        groups = [owner] if not group or group == owner else []
    pages = [scan_dead(frontier, name) for name in groups]
    for letter in merge(*pages, key=lambda letter: letter.at):
        if (not reason or letter.reason == reason) and (not lane or letter.lane == lane):
            yield letter


def dead_url(frontier: ValkeyFrontier, letter: DeadLetter) -> str:
    """The URL that a dead letter asked for; "" if it is no request, or gone meanwhile."""
    try:
        request = codec.decode_request(frontier.dead_letter(letter.partition, letter.id).payload)
    except (DecodingError, EncodingError, UnknownDeadLetter):
        return ""
    return concealed(str(request.get("url", "")))


def dead_id(letter: DeadLetter) -> str:
    return f"{letter.partition}.{letter.id}"


def letter_json(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter without its payload, in the types that JSON knows."""
    told = {name: value for name, value in letter._asdict().items() if name not in ("partition", "id", "payload")}
    return {"id": dead_id(letter), **told, "fingerprint": fingerprint_text(letter.fingerprint)}


def content_json(payload: bytes) -> dict[str, Any]:
    """A payload as readable JSON under the name of what it is; bytes of another kind as text, or else in base64."""
    for name, decode in (("request", codec.decode_request), ("value", codec.decode)):
        try:
            value = decode(payload)
            if name == "request" and "url" in value:
                value = {"url": value["url"], **value}
            return {name: codec.to_json(value)}
        except (DecodingError, EncodingError):
            continue
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(payload).decode()}


def without_secrets(told: dict[str, Any]) -> dict[str, Any]:
    """What `letter_json` and `content_json` made, with secrets shown as ***."""
    return {name: _redacted(name, value) for name, value in told.items()}


def _redacted(name: str, value: Any) -> Any:
    if name == "text":
        # What a producer pushed: JSON, a URL, or anything.
        with suppress(ValueError):
            shown, found = redacted(loads(value))
            return dumps(shown) if found else value
    if name in ("detail", "text"):
        return concealed(str(value))
    return redacted(value)[0] if name in ("request", "value") else value
