"""aiohttp's exceptions as FetchErrors: a reason, a sentence for people, and whether a retry can help."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from gossamer.engine.http.connection.tls import REMEDY
from gossamer.model.fetch import (
    BAD_LENGTH,
    BAD_REQUEST,
    CONNECT,
    DNS,
    PROTOCOL,
    PROXY,
    RESET,
    TIMEOUT,
    TLS,
    FetchError,
    FetchOptions,
)

CONNECTING = "`connect_timeout`, where it is not set a third of `timeout`"


def is_stale(error: BaseException) -> bool:
    """Whether the server may simply have closed a kept connection in the meantime."""
    if isinstance(error, aiohttp.ClientConnectorError | asyncio.TimeoutError):
        return False
    return isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError)


def failure(error: BaseException, options: FetchOptions, proxy: str = "") -> FetchError:
    """The FetchError of an exception; `proxy` is the one that was used."""
    by = f" by the proxy {proxy}" if proxy else ""
    match error:
        case aiohttp.ClientHttpProxyError(status=407):
            return FetchError(PROXY, f"{proxy} wants another user or password (407)")
        case aiohttp.ClientHttpProxyError():
            return FetchError(PROXY, f"{proxy} opens no tunnel ({error.status} {error.message})")
        case aiohttp.ClientProxyConnectionError():
            return FetchError(PROXY, f"{proxy} cannot be reached ({_plain(error)})")
        case aiohttp.ClientConnectorDNSError():
            if proxy:
                return FetchError(PROXY, f"{proxy} is an unknown host ({_plain(error)})")
            if error.os_error.errno == socket.EAI_NONAME:
                return FetchError(DNS, f"there is no host {error.host} ({_plain(error)})", False)
            # No answer (EAI_AGAIN, as where there is no network), or no address yet.
            return FetchError(DNS, f"no address is known for {error.host} ({_plain(error)})")
        case aiohttp.ClientConnectorCertificateError():
            return FetchError(TLS, f"the certificate of {error.host} is not trusted ({_plain(error)}); {REMEDY}", False)
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return FetchError(TLS, f"the secure connection failed ({_plain(error)})")
        case aiohttp.ConnectionTimeoutError():
            return FetchError(TIMEOUT, f"no connection{by} within {options.connect_timeout:g} s ({CONNECTING})")
        case aiohttp.ClientConnectorError():
            return FetchError(CONNECT, f"{error.host}:{error.port} cannot be reached ({_plain(error)})")
        case aiohttp.ServerTimeoutError():
            return FetchError(TIMEOUT, f"the body stood still{by} for {options.stall_timeout:g} s")
        case asyncio.TimeoutError():
            return FetchError(TIMEOUT, f"the response was not complete{by} within {options.timeout:g} s (`timeout`)")
        case aiohttp.ClientPayloadError():
            if "Connection" in str(error):
                return FetchError(RESET, f"the connection broke in the middle of the body{by}")
            return FetchError(BAD_LENGTH, f"the body ended too soon{by}, or its chunks make no sense ({_short(error)})")
        case aiohttp.ServerDisconnectedError() if not isinstance(error.message, str):
            return FetchError(RESET, f"the connection was closed{by} in the middle of the response's head")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | ConnectionError():
            return FetchError(RESET, f"the connection was closed{by} before the response ({_short(error)})")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return FetchError(
                PROTOCOL, f"the answer is not HTTP as it should be ({_short(error.message)})", not _is_size(error)
            )
        case aiohttp.InvalidURL() | ValueError() | TypeError():
            return FetchError(BAD_REQUEST, f"the request cannot be sent ({_short(error)})", False)
        case aiohttp.ClientError():
            return FetchError(PROTOCOL, f"{type(error).__name__}: {_short(error)}")
        case _:
            return FetchError(CONNECT, f"{type(error).__name__}: {_short(error)}")


def _plain(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(inner, OSError) and inner.errno and str(inner.strerror).startswith("Connect call failed"):
        # asyncio puts the address, which we have said, in the place of the reason.
        return os.strerror(inner.errno)
    return _short(getattr(inner, "verify_message", "") or getattr(inner, "strerror", "") or inner)


def _short(error: object) -> str:
    text = " ".join(str(error).split())
    return (text[:200] or type(error).__name__).rstrip(".")


def _is_size(error: aiohttp.ClientResponseError | HttpProcessingError) -> bool:
    return "more than" in error.message or "Too many" in error.message
