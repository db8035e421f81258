"""The wire protocol of Valkey and Redis, just enough to administer a test server.

The testing room stands below every client, so that a fault in the client under test can never hide in the
tool that tests it.
"""

from __future__ import annotations

import socket
from typing import BinaryIO

from gossamer.closeable import Closeable
from gossamer.errors import GossamerError

Reply = str | int | list["Reply"] | None


class ReplyError(GossamerError):
    """The server answered with an error. The message is the server's own, beginning with its code."""

    @property
    def code(self) -> str:
        """The first word of the server's message: `NOAUTH`, `LOADING`, `READONLY` …"""
        return str(self).partition(" ")[0]


class RespConnection(Closeable):
    """One blocking connection; `address` is a path (Unix socket) or (host, port).

    Every wait ends with TimeoutError after `timeout` seconds. A connection that raised anything but
    `ReplyError` is out of step and must be closed. Not for use by two threads at once.
    """

    def __init__(self, address: tuple[str, int] | str, timeout: float = 5.0) -> None:
        if isinstance(address, str):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise
        self._answers: BinaryIO = self._socket.makefile("rb")

    def call(self, *words: str | int | bytes) -> Reply:
        """Send one command and return its answer, bytes decoded as UTF-8; an error answer raises `ReplyError`."""
        self._socket.sendall(command(*words))
        reply = self._read()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def _read(self) -> Reply | ReplyError:
        line = self._answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection before it had answered")
        kind, rest = line[:1], line[1:-2].decode(errors="surrogateescape")
        if kind == b"+":
            return rest
        if kind == b"-":
            return ReplyError(rest)
        if kind == b":":
            return int(rest)
        size = int(rest)
        if size < 0:
            return None
        if kind == b"$":
            body = self._answers.read(size + 2)
            if len(body) != size + 2:
                raise ConnectionResetError("the server closed the connection inside an answer")
            return body[:-2].decode(errors="surrogateescape")
        # An error inside an array (EXEC) is handed over as its text: the array as a whole did succeed.
        return [str(part) if isinstance(part, ReplyError) else part for part in [self._read() for _ in range(size)]]

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def command(*words: str | int | bytes) -> bytes:
    """One command as it goes over the wire."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape")
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Frames:
    """Cuts a stream of bytes into whole protocol values: a command, or one answer, however deeply nested.

    A stream that is not of this protocol (TLS, say) is handed on as it comes, each piece as one value.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # Where the next element begins; what lies before is known to be complete.
        self._missing = 1  # Elements still to come before the value is whole.
        self._foreign = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream, return the values that they complete, in order."""
        if self._foreign:
            return [data]
        self._buffer += data
        whole: list[bytes] = []
        while self._element():
            if self._missing == 0:
                whole.append(bytes(self._buffer[: self._at]))
                del self._buffer[: self._at]
                self._at, self._missing = 0, 1
        if self._foreign and self._buffer:
            whole.append(bytes(self._buffer))
            self._buffer.clear()
        return whole

    def _element(self) -> bool:
        """Step over one element; False when it has not wholly arrived."""
        end = self._buffer.find(b"\r\n", self._at)
        if end < 0:
            self._foreign = len(self._buffer) > self._at and bytes(self._buffer[self._at : self._at + 1]) not in _KINDS
            return False
        kind, after = bytes(self._buffer[self._at : self._at + 1]), end + 2
        children = 0
        if kind in _SIZED:
            try:
                size = int(self._buffer[self._at + 1 : end])
            except ValueError:
                self._foreign = True
                return False
            if kind in _BULK:
                after += size + 2 if size >= 0 else 0
                if after > len(self._buffer):
                    return False
            else:
                children = max(size, 0) * (2 if kind in (b"%", b"|") else 1)
        elif kind not in _KINDS:
            self._foreign = True
            return False
        # An attribute (|) stands before the value it belongs to and does not count as one.
        self._missing += children - (0 if kind == b"|" else 1)
        self._at = after
        return True


_BULK = frozenset([b"$", b"=", b"!"])
_SIZED = _BULK | frozenset([b"*", b"~", b">", b"%", b"|"])
_KINDS = _SIZED | frozenset([b"+", b"-", b":", b"_", b",", b"#", b"("])
