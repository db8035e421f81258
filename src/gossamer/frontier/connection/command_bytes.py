"""Commands as the bytes that are sent. redis-py would make the same, more slowly."""

from __future__ import annotations

from collections.abc import Iterable

from hiredis import pack_command

from gossamer.errors import InvalidRequest
from gossamer.frontier.connection.router import Command

SENDABLE = (bytes, str, int, float, memoryview)


def packed(commands: Iterable[Command]) -> list[bytes]:
    """Pack commands for one write. What cannot be sent is a `TypeError` that names its type, or, of a text, an `InvalidRequest`."""
    parts: list[bytes] = []
    for command in commands:
        try:
            parts.append(pack_command(command))
        except (TypeError, UnicodeEncodeError) as error:
            raise _unsendable(command, error) from None
    return [b"".join(parts)]


def _unsendable(command: Command, error: TypeError | UnicodeEncodeError) -> Exception:
    name = command[1] if command[0] == "FCALL" else command[0]
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequest(f"{name}: a text cannot be sent ({error.reason}). Names must be plain text.")
    kinds = (type(word).__name__ for word in command if isinstance(word, bool) or not isinstance(word, SENDABLE))
    return TypeError(f"{name}: a {next(kinds, 'value')} cannot be sent; give bytes, str, int or float.")
