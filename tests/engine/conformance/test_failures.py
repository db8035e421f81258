"""What Scrapy, Twisted and a browser raise, in the engine's words: those that no case of the conformance suite can bring about."""

from __future__ import annotations

import pytest
from OpenSSL import SSL
from scrapy import exceptions
from scrapy.exceptions import IgnoreRequest
from twisted.internet import error as twisted
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError, ResponseFailed, ResponseNeverReceived
from twisted.web.http import _DataLoss

from gossamer.model.fetch import REASONS, FetchError
from gossamer.scrapy.site.failure import failure
from gossamer.sites.downloader import PageDropped


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def inside(kind: type[Exception], *errors: Exception) -> Exception:
    """As Twisted wraps what went wrong with a connection."""
    return kind([Failure(error) for error in errors])  # type: ignore[no-untyped-call]


class TunnelError(Exception):
    """As Scrapy's handler has it."""


KNOWN = [
    (exceptions.CannotResolveHostError("x"), "dns", True),
    (twisted.DNSLookupError("x"), "dns", True),
    (exceptions.DownloadConnectionRefusedError("x"), "connect", True),
    (twisted.ConnectionRefusedError("x"), "connect", True),  # type: ignore[no-untyped-call]
    (twisted.TCPTimedOutError("x"), "timeout", True),  # type: ignore[no-untyped-call]
    (exceptions.DownloadTimeoutError("x"), "timeout", True),
    (TimeoutError("x"), "timeout", True),
    (CancelledError("x"), "too_large", False),
    (exceptions.UnsupportedURLSchemeError("x"), "bad_request", False),
    (TunnelError("x"), "proxy", True),
    (inside(ResponseNeverReceived, twisted.ConnectionLost()), "reset", True),
    (inside(ResponseNeverReceived, twisted.ConnectionDone()), "reset", True),
    (inside(ResponseFailed, twisted.ConnectionDone(), _DataLoss()), "bad_length", True),
    (inside(ResponseFailed, twisted.ConnectionLost(), _DataLoss()), "reset", True),
    (inside(ResponseFailed, ParseError("x", b"")), "protocol", True),  # type: ignore[no-untyped-call]
    (caused(exceptions.DownloadFailedError("x"), inside(ResponseFailed, ValueError("?"))), "protocol", True),
    (inside(ResponseNeverReceived, SSL.Error([("", "", "certificate verify failed")])), "tls", False),
    (inside(ResponseNeverReceived, SSL.Error([("", "", "wrong version number")])), "tls", True),
]


@pytest.mark.parametrize(("error", "reason", "retriable"), KNOWN, ids=lambda value: type(value).__name__)
def test_every_failure_has_its_word(error: Exception, reason: str, retriable: bool) -> None:
    told = failure(error, 5, 100, proxied=False)
    assert isinstance(told, FetchError)
    assert (told.reason, told.retriable) == (reason, retriable)
    assert reason in REASONS


@pytest.mark.parametrize("error", [KNOWN[0][0], KNOWN[2][0]])
def test_who_cannot_be_reached_by_a_proxy_is_the_proxy(error: Exception) -> None:
    told = failure(error, 5, 100, proxied=True)
    assert isinstance(told, FetchError)
    assert told.reason == "proxy"


def test_a_request_that_the_project_ignores_is_left_out_and_one_too_large_is_not() -> None:
    assert isinstance(failure(IgnoreRequest("not this one"), 5, 100, False), PageDropped)
    told = failure(IgnoreRequest("its body exceeded DOWNLOAD_MAXSIZE (100 B)"), 5, 100, False)
    assert isinstance(told, FetchError)
    assert told.reason == "too_large"


def test_what_is_nobodys_network_stays_what_it_is() -> None:
    error = KeyError("a bug")
    assert failure(error, 5, 100, False) is error


def playwright(kind: str, text: str) -> Exception:
    return type(kind, (Exception,), {"__module__": "playwright._impl._errors"})(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("Error", "Page.goto: net::ERR_NAME_NOT_RESOLVED at http://x/", "dns"),
        ("Error", "Page.goto: net::ERR_CONNECTION_REFUSED at http://x/", "connect"),
        ("Error", "Page.goto: net::ERR_CERT_AUTHORITY_INVALID at https://x/", "tls"),
        ("Error", "Page.goto: net::ERR_PROXY_CONNECTION_FAILED at http://x/", "proxy"),
        ("Error", "Page.goto: net::ERR_SOMETHING_NEW at http://x/", "protocol"),
        ("TimeoutError", "Page.goto: Timeout 4000ms exceeded.", "timeout"),
        ("Error", "BrowserType.launch: Executable doesn't exist at /nowhere", "render"),
    ],
)
def test_a_browsers_failures_have_the_same_words(kind: str, text: str, reason: str) -> None:
    told = failure(playwright(kind, text), 5, 100, False)
    assert isinstance(told, FetchError)
    assert told.reason == reason
