"""Who steered a crawl: every push, removal, pause, trigger and change of a policy, with its author, time and machine.

It is kept as the versions of one document, the last 1,000 of them, so it has the server's time, goes with an export, and costs the workers
nothing but a look at a number.
"""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterable
from typing import NamedTuple

from gossamer.errors import UnknownDocument
from gossamer.frontier.contract import Frontier
from gossamer.model.document import AUDIT, DocumentInfo
from gossamer.settings import Settings

NAME = "steering"
DETAIL = 400


class AuditEntry(NamedTuple):
    """One action: `action` is a word such as push or pause, `target` its object, `host` the machine it came from."""

    at: float
    who: str
    host: str
    action: str
    target: str
    detail: str


def author(settings: Settings, given: str | None = None) -> str:
    """The author of a change: as given, GOSSAMER_WHO, or the user of this process, with the machine's name."""
    if given is not None:
        return given
    if settings["GOSSAMER_WHO"]:
        return str(settings["GOSSAMER_WHO"])
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def note(frontier: Frontier, who: str, action: str, target: str, detail: str = "") -> None:
    """Record an action."""
    said = json.dumps([action, target[:DETAIL], detail[:DETAIL], socket.gethostname()[:DETAIL]], ensure_ascii=False)
    frontier.put_document(AUDIT, NAME, "", who=who, note=said)


def entries(frontier: Frontier) -> list[AuditEntry]:
    """The recorded actions, newest first."""
    try:
        infos = frontier.document_history(AUDIT, NAME)
    except UnknownDocument:
        return []
    return read(infos)


def read(infos: Iterable[DocumentInfo]) -> list[AuditEntry]:
    """The actions that versions of the document record."""
    found = []
    for info in infos:
        try:
            action, target, detail, host = map(str, json.loads(info.note))
        except ValueError:
            action, target, detail, host = "?", "", info.note, ""
        found.append(AuditEntry(info.at, info.who, host, action, target, detail))
    return found
