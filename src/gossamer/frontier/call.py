"""One call of a server function, and what its errors mean. No I/O."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import ormsgpack

from gossamer.errors import (
    FrontierError,
    FrontierUnavailable,
    GroupDropping,
    InvalidRequest,
    NotLeader,
    PermissionDenied,
    PolicyError,
    SnapshotError,
    TokenReused,
    UnknownCrawl,
    UnknownDocument,
    UnknownGroup,
    UnknownLane,
    VersionConflict,
)
from gossamer.frontier.connection.router import RoutedCommand
from gossamer.frontier.server.library import function
from gossamer.model import inherited

T = TypeVar("T")


Verb = Generator[list[RoutedCommand], list[Any], T]
"""A verb as a generator without I/O: it yields calls that may be made at once, is sent their replies, and returns the result."""
FINAL = frozenset(("group_open", "restore", "restore_tasks"))
"""Behind sentinels only the primary that they name now may answer: workers end by it, or what was restored is removed elsewhere."""


def function_call(verb: str, key: str | list[str], header: dict[str, Any], *rest: Any) -> RoutedCommand:
    """The call of a function. Its keys must share a hash tag."""
    try:
        packed = ormsgpack.packb(header)
    except ormsgpack.MsgpackEncodeError as problem:
        raise InvalidRequest(
            f"{verb}: a value cannot be sent ({problem}). Names and reasons must be plain text."
        ) from None
    names = key if isinstance(key, list) else [key]
    command = ("FCALL", function(verb), len(names), *names, packed, *rest)
    return RoutedCommand(command, names[0], final=verb in FINAL)


def own(incarnation: str) -> str:
    """Return the incarnation; raise `TokenReused` if it belongs to the process that this one was forked from."""
    if inherited(incarnation):
        raise TokenReused(
            "The token was made before this process was forked, and others may use it. Make one with Token.fresh()."
        )
    return incarnation


def read(reply: Any) -> Any:
    """Unpack a msgpack reply."""
    return ormsgpack.unpackb(reply)


def text(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


ERRORS: dict[str, tuple[type[FrontierError], str]] = {
    "GSMNOCRAWL": (
        UnknownCrawl,
        "The crawl does not exist on this server. Open it first; if it was there, the server lost its data.",
    ),
    "GSMNOGROUP": (
        UnknownGroup,
        "There is no group {0!r} in this crawl. `gossamer group list` shows those there are; workers define them.",
    ),
    "GSMDROPPING": (
        GroupDropping,
        "The group {0!r} is being dropped. Define it again when it is gone. If the drop was interrupted, finish it with `gossamer group drop`.",
    ),
    "GSMNOLANE": (
        UnknownLane,
        "There is no lane {0!r} in this crawl. `gossamer lane list` shows those there are; workers define them.",
    ),
    "GSMNODOCUMENT": (UnknownDocument, "The crawl has no {0}, and never had one."),
    "GSMVERSION": (VersionConflict, "{0}. Another client was faster: read the current version, then put yours again."),
    "GSMOUTBOX": (
        FrontierUnavailable,
        "The server went back to an older state while the call was made ({0}). Make the call again.",
    ),
    "GSMNOTLEADER": (
        NotLeader,
        "The planner's term {0} is over: another planner leads, or its lead ran out. Nothing was changed.",
    ),
    "GSMTOKEN": (TokenReused, "{0}. Each call needs the next number."),
    "GSMSNAPSHOT": (SnapshotError, "The snapshot {0}."),
    "GSMREPLACED": (
        SnapshotError,
        "A server was restarted or replaced during the import, and may have lost lines of it. Import again: none is restored twice.",
    ),
    "GSMTASKTYPE": (PolicyError, "Tasks: {0}. Push to a list, a set or a sorted set."),
    "GSMLISTTYPE": (PolicyError, "Pages push to a list, but {0}. Nothing was changed: name another key, or remove it."),
    "GSMLISTRIGHT": (
        PermissionDenied,
        "Pages push to the list {0!r}, but this user may not RPUSH to it. Grant it; nothing was changed.",
    ),
}


def translate(error: FrontierError) -> FrontierError:
    """Turn an error reply of our functions into its exception; return any other error unchanged."""
    message = str(error)
    for code, (kind, form) in ERRORS.items():
        start = message.find(code)
        if start >= 0:
            return kind(form.format(message[start + len(code) :].strip().split(" script:")[0].rstrip(".")))
    return error


def function_missing(error: FrontierError) -> bool:
    return "Function not found" in str(error)
