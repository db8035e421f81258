"""An extension that writes down, in the order in which it happens, what becomes of requests and items in one worker.

Each line of the record is one event: `[spider, kind, what, details, time]`. Kinds:

- `leased`: the engine got a request; `what` is its path
- `child`: a callback's request came to the scheduler; `replacement`: one of a retry or redirect
- `item`: an item left the pipelines; `item_dropped`, `item_error`: it did not
- `settle`: a page was given to the courier with all it produced; `answered`: the frontier took it
- `call`: a verb of the frontier was called
- `dropped`: the signal request_dropped
- `mark`: what a spider or pipeline said itself
- `opened`, `closed`
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

RECORD = "HARNESS_RECORD"


def path_of(request: Request) -> str:
    parts = urlsplit(request.url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


class Recorder:
    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        self._file = open(os.environ[RECORD], "a", buffering=1)  # noqa: SIM115 - as long as the process
        self._seen: set[tuple[str, str]] = set()
        self._waiting: list[tuple[set[tuple[str, str]], Deferred[None]]] = []

    @classmethod
    def from_crawler(cls, crawler: Any) -> Recorder:
        recorder = cls(crawler)
        crawler.recorder = recorder
        connect = crawler.signals.connect
        connect(recorder.opened, signals.spider_opened)
        connect(recorder.closed, signals.spider_closed)
        for kind in ("item_scraped", "item_dropped", "item_error"):
            connect(getattr(recorder, kind), getattr(signals, kind))
        connect(recorder.request_dropped, signals.request_dropped)
        return recorder

    def note(self, kind: str, what: str, **details: Any) -> None:
        row = [self.crawler.spider.name, kind, what, details, time.monotonic()]
        self._file.write(json.dumps(row) + "\n")
        self._seen.add((kind, what))
        ready = [deferred for wanted, deferred in self._waiting if wanted <= self._seen]
        self._waiting = [(wanted, deferred) for wanted, deferred in self._waiting if not wanted <= self._seen]
        for deferred in ready:
            deferred.callback(None)

    def happened(self, *events: tuple[str, str]) -> Deferred[None]:
        """Fires when all these have happened, each (kind, what)."""
        deferred: Deferred[None] = Deferred()
        if set(events) <= self._seen:
            deferred.callback(None)
        else:
            self._waiting.append((set(events), deferred))
        return deferred

    def wait(self, *events: tuple[str, str]) -> Awaitable[None]:
        return maybe_deferred_to_future(self.happened(*events))

    def opened(self, spider: Any) -> None:
        scheduler = self.crawler.engine._slot.scheduler
        if hasattr(scheduler, "courier"):
            self._watch(scheduler)
        self.note("opened", spider.name)

    def _watch(self, scheduler: Any) -> None:
        take, put = scheduler.next_request, scheduler.enqueue_request
        settle, answered = scheduler.courier.settle, scheduler.settled

        def next_request() -> Any:
            request = take()
            if request is not None:
                self.note("leased", path_of(request), meta=sorted(request.meta), priority=request.priority)
            return request

        def enqueue_request(request: Request) -> Any:
            took = put(request)
            again = {"redirect_times", "retry_times"} & set(request.meta)
            self.note(
                "replacement" if again else "child", path_of(request), parent=request.meta.get("from", ""), took=took
            )
            return took

        def given(settlement: Any, page: Any) -> None:
            what = path_of(page.request) if page is not None else ""
            lease = settlement.lease
            self.note(
                "settle",
                what,
                id=lease.id,
                lane=lease.lane,
                host=lease.host,
                ending=settlement.ending.value,
                reason=settlement.reason,
                children=len(settlement.add),
                items=len(settlement.items),
            )
            settle(settlement, page)

        def told(page: Any, outcome: Any, children: Any) -> None:
            if page is not None:
                self.note("answered", path_of(page.request), outcome=outcome.name.lower())
            answered(page, outcome, children)

        call = scheduler.link.call

        def asked(verb: Any, done: Any, /, *args: Any, **named: Any) -> None:
            self.note("call", verb.__name__)
            call(verb, done, *args, **named)

        scheduler.link.call = asked
        scheduler.next_request, scheduler.enqueue_request = next_request, enqueue_request
        scheduler.courier.settle, scheduler.settled = given, told

    def closed(self, spider: Any, reason: str) -> None:
        self.note("closed", reason)

    def item_scraped(self, item: Any) -> None:
        self.note("item", str(item.get("id")), page=item.get("page", ""))

    def item_dropped(self, item: Any) -> None:
        self.note("item_dropped", str(item.get("id")), page=item.get("page", ""))

    def item_error(self, item: Any) -> None:
        self.note("item_error", str(item.get("id")), page=item.get("page", ""))

    def request_dropped(self, request: Request) -> None:
        self.note("dropped", path_of(request))
