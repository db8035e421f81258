"""What can come back for a command besides its value, and which Gossamer error that is. Pure.

A driver's exception never leaves `pool.py`: there it becomes an `ErrorReply` (the server replied with an error) or a
`NoReply` (no reply). `failure` turns either into the error a caller sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

from gossamer.errors import (
    AuthenticationFailed,
    FrontierError,
    FrontierUnavailable,
    MemoryLimitReached,
    PermissionDenied,
    ReadOnlyReplica,
    UrlError,
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The server answered with an error: its code (`OOM`, `MOVED`, `ERR` …) and the rest of the line."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class NoReply:
    """There is no reply. `sent` False: the command never left, so it was certainly not executed."""

    text: str
    sent: bool


NO_IDLE = NoReply("no open connection", sent=False)
"""The answer to a trip that asked for an open connection when there was none."""

# Answers of a server that cannot serve now and has not executed the command, with what to do.
_NOT_NOW = {
    "LOADING": "it is loading its data; wait",
    "CLUSTERDOWN": "part of the cluster is down; check its nodes",
    "MASTERDOWN": "it has lost its primary; check replication",
    "TRYAGAIN": "its slot is being moved to another node; calls wait until it has arrived",
    "NOREPLICAS": "too few replicas follow it; check replication",
    "MISCONF": "it cannot write to its disk; free space or check its log",
    "BUSY": "it is busy with another function; wait",
}


def is_problem(entry: Any) -> TypeGuard[ErrorReply | NoReply]:
    """Whether an entry is no value."""
    return isinstance(entry, (ErrorReply, NoReply))


def value(entry: Any, place: str) -> Any:
    """The entry if it is a value; otherwise its error is raised."""
    if is_problem(entry):
        raise failure(entry, place)
    return entry


def failure(problem: ErrorReply | NoReply, place: str) -> FrontierError | UrlError:
    """The error to raise for a problem with the server at `place` (a rendering without the password).

    Its `code` is the server's error code, empty when the answer was lost.
    """
    if isinstance(problem, NoReply):
        remedy = _connection_remedy(problem.text, place.startswith("rediss"))
        return FrontierUnavailable(f"{place}: {_one_line(problem.text)}; {remedy}.", maybe_executed=problem.sent)
    error = _refused(problem, place)
    if isinstance(error, FrontierError):
        error.code = problem.code
    return error


def _refused(refusal: ErrorReply, place: str) -> FrontierError | UrlError:
    code, text = refusal.code, _one_line(refusal.text)
    if code in _NOT_NOW:
        return FrontierUnavailable(f"{place}: {code}: {_NOT_NOW[code]}.", maybe_executed=False)
    if code in ("NOAUTH", "WRONGPASS"):
        return AuthenticationFailed(f"{place}: {AuthenticationFailed()}")
    if code == "NOPERM":
        return PermissionDenied(f"{place}: {text}. {PermissionDenied()}")
    if code == "READONLY":
        return ReadOnlyReplica(f"{place}: {ReadOnlyReplica()}")
    if code == "OOM":
        return MemoryLimitReached(f"{place}: {MemoryLimitReached()}")
    if code == "NOSERVICE":
        return UrlError(f"{place}: the sentinels do not know this service; name one they watch after the hosts.")
    if "cluster support disabled" in text:
        return UrlError(f"{place}: the server is not part of a cluster; write redis:// instead of redis+cluster://.")
    if "max number of clients" in text:
        return FrontierUnavailable(f"{place}: too many clients; raise its maxclients.", maybe_executed=False)
    if "DB index is out of range" in text:
        return UrlError(f"{place}: the server has no such database; use a smaller number.")
    return FrontierError(f"{place}: {code} {text}")


def _connection_remedy(text: str, tls: bool) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "name the authority that signed its certificate with ?ca=, and a host that is in the certificate"
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "it does not speak TLS on this port: write redis://"
    if "certificate required" in text.lower():
        return "it wants a client certificate: add cert= and key= to the URL"
    if tls and any(word in text for word in ("EOF occurred", "closed", "reset", "Broken pipe")):
        return "check that it runs; if it wants a client certificate, add cert= and key= to the URL"
    if tls and "Timeout connecting" in text:
        return "it does not answer, or does not speak TLS on this port (then write redis://)"
    return "check that the server runs and that GOSSAMER_URL points at it"


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
