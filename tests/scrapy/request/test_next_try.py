"""What a middleware put into a request that is tried again, and cannot be stored, is left out and told."""

from __future__ import annotations

import threading

import pytest
from scrapy import Request

from gossamer.scrapy.request.next_try import NextTry

LOCK = threading.Lock()


def test_the_next_try_begins_as_the_first_one_did(caplog: pytest.LogCaptureFixture) -> None:
    tries = NextTry(lambda value: value is not LOCK)
    for _ in range(2):
        last = Request("http://h.example/", meta={"timer": LOCK, "kept": [1], "was": LOCK})
        request = last.replace(meta={**last.meta, "new": LOCK})
        tries.leave_out(request, last, {"was": 2, "kept": [0]})
        assert request.meta == {"kept": [1], "was": 2, "new": LOCK}, "what is its own will be refused"
    assert caplog.messages == [
        f"The next try of <GET http://h.example/> begins without meta['{key}'] of the last one: a _thread.lock cannot be stored."
        for key in ("timer", "was")
    ], "once"
