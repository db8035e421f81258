"""What Scrapy's download handlers raise, in the engine's words. By the names of the classes: each version of Scrapy, and each
handler, has others."""

from __future__ import annotations

from collections.abc import Iterator

from scrapy.exceptions import IgnoreRequest

from gossamer.model.fetch import FetchError
from gossamer.model.network import PRIVATE_ADDRESS
from gossamer.sites.downloader import PageDropped

_REASONS = {
    "AddressRefused": PRIVATE_ADDRESS,
    "DownloadTimeoutError": "timeout",
    "TimeoutError": "timeout",
    "TCPTimedOutError": "timeout",
    "CannotResolveHostError": "dns",
    "DNSLookupError": "dns",
    "DownloadConnectionRefusedError": "connect",
    "ConnectionRefusedError": "connect",
    "ConnectError": "connect",
    "NoRouteError": "connect",
    "TunnelError": "proxy",
    "DownloadCancelledError": "too_large",
    "CancelledError": "too_large",
    "VerificationError": "tls",
    "CertificateError": "tls",
    "ConnectionLost": "reset",
    "ConnectionDone": "reset",
    "ConnectionAborted": "reset",
    "ConnectionResetError": "reset",
    "ParseError": "protocol",
    "BadResponseVersion": "protocol",
    "HTTPParseError": "protocol",
    "UnsupportedURLSchemeError": "bad_request",
    "NotSupported": "bad_request",
}
_CUT = frozenset({"ResponseDataLossError", "PotentialDataLoss", "_DataLoss", "PartialDownloadError"})
"""The body ended too soon: in good order, or with the connection (`_BROKEN`)."""
_BROKEN = frozenset({"ConnectionLost", "ConnectionAborted", "ConnectionResetError"})
_SOMETHING = frozenset({"DownloadFailedError", "ResponseFailed", "ResponseNeverReceived"})
"""Errors that only wrap others: the cause inside says why it failed."""
_DECODING = "httpcompression"
_BROWSER = {
    "ERR_NAME_NOT_RESOLVED": "dns",
    "ERR_CONNECTION_REFUSED": "connect",
    "ERR_ADDRESS_UNREACHABLE": "connect",
    "ERR_CONNECTION_TIMED_OUT": "timeout",
    "ERR_TIMED_OUT": "timeout",
    "ERR_CERT": "tls",
    "ERR_SSL": "tls",
    "ERR_CONNECTION_RESET": "reset",
    "ERR_CONNECTION_CLOSED": "reset",
    "ERR_EMPTY_RESPONSE": "reset",
    "ERR_CONTENT_LENGTH_MISMATCH": "bad_length",
    "ERR_PROXY": "proxy",
    "ERR_TUNNEL": "proxy",
    "ERR_ABORTED": "protocol",
    "ERR_": "protocol",
}
_FOR_GOOD = frozenset({"too_large", "bad_request", PRIVATE_ADDRESS})
_DETAIL = {
    "timeout": "the response was not complete within {timeout:g} s",
    "too_large": "the body has more than {size} bytes (`request.max_size`)",
    "bad_length": "the body ended too soon, or its chunks make no sense",
}
_TOO_MUCH = "DOWNLOAD_MAXSIZE"
_NO_BROWSER = ("Executable doesn't exist", "Failed to launch", "spawn")


def failure(error: BaseException, timeout: float, size: int, proxied: bool) -> BaseException:
    """What to raise instead: FetchError, PageDropped, or the error itself where it is a bug in the project's code. `proxied` says
    that a proxy was used: who cannot be reached is then that proxy."""
    if isinstance(error, IgnoreRequest):
        if _TOO_MUCH not in str(error):
            return PageDropped(str(error))
        return _failed("too_large", error, timeout, size)
    reason = _of_a_browser(error) or _reason(error)
    if reason is None:
        return error
    if proxied and reason in ("connect", "dns"):
        reason = "proxy"
    return _failed(reason, error, timeout, size)


def _failed(reason: str, error: BaseException, timeout: float, size: int) -> FetchError:
    said = _DETAIL.get(reason, "")
    text = " ".join(str(error).split())[:300] or type(error).__name__
    detail = f"{said.format(timeout=timeout, size=size)} ({text})" if said else text
    retriable = reason not in _FOR_GOOD and not (reason == "tls" and "certificate verify failed" in detail)
    return FetchError(reason, detail, retriable)


def _reason(error: BaseException) -> str | None:
    names = [name for one in _all(error) for name in _names(one)]
    if not _CUT.isdisjoint(names):
        return "bad_length" if _BROKEN.isdisjoint(names) else "reset"
    known = next((_REASONS[name] for name in names if name in _REASONS), None)
    if known is None and _raised_in(error, _DECODING):
        return "bad_encoding"
    return known or (None if _SOMETHING.isdisjoint(names) else "protocol")


def _all(error: BaseException) -> Iterator[BaseException]:
    """The error and those that led to it, the last one first."""
    yield error
    inner = [getattr(one, "value", one) for one in getattr(error, "reasons", None) or ()]
    for one in (*inner, error.__cause__):
        if isinstance(one, BaseException):
            yield from _all(one)


def _raised_in(error: BaseException, module: str) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").endswith(f".{module}"):
            return True
        trace = trace.tb_next
    return False


def _names(error: BaseException) -> Iterator[str]:
    if type(error).__module__.startswith("OpenSSL"):
        yield "CertificateError"
    for kind in type(error).__mro__:
        yield kind.__name__


def _of_a_browser(error: BaseException) -> str | None:
    if not type(error).__module__.startswith("playwright"):
        return None
    text = str(error)
    if any(sign in text for sign in _NO_BROWSER):
        return "render"
    if type(error).__name__ == "TimeoutError":
        return "timeout"
    return next((word for sign, word in _BROWSER.items() if sign in text), "render")
