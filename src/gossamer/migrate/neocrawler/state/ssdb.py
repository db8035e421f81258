"""SSDB's own protocol, as far as reading needs it. Its protocol of Redis cannot name hashes, lists and sorted sets.

A message is blocks, each its length in a line and then its bytes in a line; an empty line ends it. The first block of an answer says what
became of the request: ok, not_found, or an error.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from gossamer.errors import SourceUnreadable

RECEIVED = 1 << 16


def message(*parts: str | bytes | int) -> bytes:
    """A request."""
    blocks = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(b"%d\n%s\n" % (len(block), block) for block in blocks) + b"\n"


def answer(data: bytes) -> tuple[list[bytes], int] | None:
    """The blocks of the first message, and how many bytes it has; None if it has not come whole yet. ValueError if it is none."""
    blocks: list[bytes] = []
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        head = data[at:end].strip()
        if not head:
            return blocks, end + 1
        size, begin = int(head), end + 1
        if len(data) <= begin + size:
            return None
        blocks.append(data[begin : begin + size])
        at = data.find(b"\n", begin + size) + 1
        if at == 0:
            return None
    return None


class SsdbClient:
    """One connection to an SSDB server."""

    def __init__(self, host: str, port: int, seconds: float, password: str = "") -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), seconds)
        except OSError as error:
            raise SourceUnreadable(f"SSDB at {self.address} cannot be reached: {error}.") from None
        self._rest = b""
        if password:
            self.ask("auth", password)

    def ask(self, *parts: str | bytes | int) -> list[bytes]:
        """The answer to a request, without its first block; [] if there is nothing."""
        try:
            self._socket.sendall(message(*parts))
            while (found := answer(self._rest)) is None:
                more = self._socket.recv(RECEIVED)
                if not more:
                    raise SourceUnreadable(f"SSDB at {self.address} closed the connection.")
                self._rest += more
        except (OSError, ValueError) as error:
            raise SourceUnreadable(
                f"{self.address} does not answer as SSDB: {error}. Is it Redis? Then `use_ssdb` is false."
            ) from None
        blocks, size = found
        self._rest = self._rest[size:]
        said = blocks[0].decode("utf-8", "replace") if blocks else ""
        if said == "not_found":
            return []
        if said != "ok":
            raise SourceUnreadable(f"SSDB at {self.address} answers {_joined(blocks)} to {parts[0]!r}.")
        return blocks[1:]

    def close(self) -> None:
        self._socket.close()


def _joined(blocks: Sequence[bytes]) -> str:
    return ": ".join(block.decode("utf-8", "replace") for block in blocks)
