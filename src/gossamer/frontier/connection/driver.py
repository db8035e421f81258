"""redis-py's connections: how they are made, what is sent over them, and what their errors mean.

redis-py gives the socket, TLS, authentication and the protocol; its clients and pools are not used, because they decide by themselves
when to send a command again.

RESP2 on purpose: every reply is bytes, int, list or None, the same from every server version.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import redis.asyncio.connection as aio
import redis.connection as blocking
from hiredis import pack_command
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.retry import Retry

from gossamer.errors import InvalidRequest, UrlError
from gossamer.frontier.connection.failure import ErrorReply, NoReply
from gossamer.frontier.connection.router import Command, Node
from gossamer.frontier.connection.url import FrontierUrl

# A connection unused for this long is tested with PING before it is trusted with a command.
HEALTH_SECONDS = 30
SENDABLE = (bytes, str, int, float, memoryview)


def maker(
    address: FrontierUrl,
    connect_seconds: float,
    call_seconds: float,
    locate: Callable[[Node], Node],
    *,
    asynchronous: bool,
) -> Callable[[Node], Any]:
    """How to make a connection to a node of this address. `locate` may say where the node is by now."""
    module: Any = aio if asynchronous else blocking
    retry: Any = AsyncRetry if asynchronous else Retry

    def make(node: Node) -> Any:
        node = locate(node)
        kind = module.SSLConnection if address.tls else module.Connection
        if not node.port:
            kind = module.UnixDomainSocketConnection
        return kind(retry=retry(NoBackoff(), 0), **options(address, connect_seconds, call_seconds, node))

    return make


def options(address: FrontierUrl, connect_seconds: float, call_seconds: float, node: Node) -> dict[str, Any]:
    """Arguments for a redis-py connection to a node. 0 seconds means no limit. Sentinels have an answer at hand, and calls wait for it."""
    if node.sentinel and connect_seconds:
        call_seconds = min(call_seconds or connect_seconds, connect_seconds)
    common: dict[str, Any] = {
        "protocol": 2,
        "decode_responses": False,
        "socket_connect_timeout": connect_seconds or None,
        "socket_timeout": call_seconds or None,
        "health_check_interval": HEALTH_SECONDS,
        "driver_info": None,
        "username": address.sentinel_username if node.sentinel else address.username,
        "password": address.sentinel_password if node.sentinel else address.password,
        "db": 0 if node.sentinel else address.db,
    }
    if not node.port:
        return common | {"path": node.host}
    common |= {"host": node.host, "port": node.port, "socket_keepalive": True}
    if address.tls:
        common |= {
            "ssl_ca_certs": address.ca,
            "ssl_certfile": address.cert,
            "ssl_keyfile": address.key or address.cert,
            "ssl_cert_reqs": "none" if address.verify == "none" else "required",
            "ssl_check_hostname": address.verify == "required",
        }
    return common


def check_files(address: FrontierUrl) -> None:
    """Raise `UrlError` for a certificate file that cannot be read: the driver would only say "no such file"."""
    for name in ("ca", "cert", "key"):
        path = getattr(address, name)
        if path and not os.access(path, os.R_OK):
            raise UrlError(f"{address.safe}: option {name}: {Path(path)} cannot be read; give a readable PEM file.")


# What a connection may raise when its other end has gone. The driver turns most of it into its own errors, but not all: an event
# loop that has seen the end first says RuntimeError (uvloop: "the handler is closed").
TROUBLE = (RedisError, OSError, EOFError, RuntimeError)


def entry_for(error: Exception, sent: bool) -> ErrorReply | NoReply:
    """What an exception of a connection means."""
    code = getattr(error, "status_code", None)
    text = str(error.args[0]) if isinstance(error, RedisError) and error.args else str(error) or type(error).__name__
    if isinstance(error, AuthenticationError):
        return ErrorReply("WRONGPASS", text)
    if code is not None:
        return ErrorReply(str(code), text)
    if isinstance(error, ResponseError):
        code, _, rest = text.partition(" ")
        return ErrorReply(code, rest) if code.isupper() else ErrorReply("ERR", text)
    return NoReply(text, sent)


def readable(connection: Any) -> bool:
    """Whether the socket of an idle asyncio connection has something to read: its end, as a rule.

    The driver knows only what the event loop has handled, and a busy loop may not have come round to it.
    """
    if not hasattr(select, "poll"):
        return False
    socket = connection._writer.get_extra_info("socket") if connection._writer is not None else None
    number = socket.fileno() if socket is not None else -1
    if number < 0:
        return True  # the event loop has seen its end and closed it
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def packed(commands: Iterable[Command]) -> list[bytes]:
    """Pack commands for one write, as redis-py would, and faster. What cannot be sent is a `TypeError` that names its type, or, of a
    text, an `InvalidRequest`."""
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
