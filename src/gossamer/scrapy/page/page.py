"""One page of a worker: from the lease until everything it produced is reported to the frontier."""

from __future__ import annotations

import time
import traceback
from typing import Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from gossamer.courier import OmittedRequests
from gossamer.model import Ending, Feedback, HostVerdict, Lease, PageVisit, Settlement
from gossamer.model import Request as FrontierRequest
from gossamer.model.network import PRIVATE_ADDRESS, AddressRefused
from gossamer.model.politeness import REFUSALS, refusal, retry_after
from gossamer.model.reply import UNSERIALIZABLE, of_status
from gossamer.scrapy.page.visit import VisitContent

MOST_NAMED = 20
"""How many requests that could not be stored a dead letter names."""


class LeasedPage:
    """What is known of a leased request while Scrapy works on it."""

    __slots__ = (
        "_own_slot",
        "asked",
        "carried",
        "children",
        "content",
        "failure",
        "fingerprints",
        "given_up",
        "handled",
        "items",
        "kept",
        "lease",
        "left_out",
        "outcome",
        "push",
        "refused",
        "replaced",
        "request",
        "task",
        "told",
        "withheld",
    )

    def __init__(self, lease: Lease, request: Request, content: VisitContent | None = None) -> None:
        """With `content` its lane keeps page records, which note what it was like."""
        self.lease, self.request, self.content = lease, request, content
        self.children: list[Request] = []
        self.asked: list[FrontierRequest] = []
        # Request, lane, number, and again: a tuple for each would be one more object to collect for every link.
        self.left_out: list[Request | str | int] = []
        self.withheld: OmittedRequests | None = None
        self.fingerprints: set[tuple[str, int]] = set()
        self.carried: dict[int, Any] = {}
        self.items: list[bytes] = []
        self.kept = 0
        self.push: list[tuple[str, bytes]] = []
        self.refused: list[str] = []
        self.outcome: Response | Failure | None = None
        self.failure: tuple[str, str] | None = None
        self.handled = self.replaced = self.told = self.given_up = False
        self.task: Any = None
        self._own_slot = "download_slot" in request.meta

    @property
    def slot(self) -> str | None:
        """The download slot that Scrapy wrote into the request's meta, from where children may copy it; None: it was the
        spider's own."""
        return None if self._own_slot else self.request.meta.get("download_slot")

    def failed(self, reason: str, failure: Failure | BaseException) -> None:
        """The first failure counts: what follows usually follows from it."""
        value = failure.value if isinstance(failure, Failure) else failure
        if self.failure is None and not isinstance(value, CloseSpider):
            self.failure = (reason, trace(failure))

    def misses(self, what: str) -> None:
        """Something that it yielded cannot be stored: it is not done."""
        self.refused.append(what)

    def settlement(self, failures: str, tries: int, gave_up: bool) -> Settlement:
        """How it ended. `failures` is what becomes of a page that failed: dead, done or retry (`tries` times, then
        dead); `gave_up` says that the last answer asked for another try, and there is none left."""
        outcome = self.outcome
        if (
            self.failure is None
            and isinstance(outcome, Failure)
            and not self.handled
            and not isinstance(outcome.value, IgnoreRequest)
        ):
            refused = isinstance(outcome.value, AddressRefused)
            self.failure = (PRIVATE_ADDRESS, str(outcome.value)) if refused else ("download", trace(outcome))
        if (
            self.failure is None
            and gave_up
            and isinstance(outcome, Response)
            and not (self.asked or self.items or self.kept)
        ):
            self.failure = (of_status(outcome.status), f"The last answer was {outcome}.")
        if self.refused:
            # Another try would yield the same, and to call it done would hide what is missing.
            missing = missed(self.refused)
            reason, detail = self.failure or (UNSERIALIZABLE, "")
            return self._dead(reason, f"{detail.rstrip()}\n\n{missing}" if detail else missing)
        if self.failure is not None and failures != "done":
            reason, detail = self.failure
            if failures == "retry" and self.lease.attempt < tries and reason != PRIVATE_ADDRESS:
                # Nothing of this attempt counts: the next one produces it again.
                return Settlement(self.lease, Ending.RETRY, delay=min(2.0**self.lease.attempt, 60.0))
            return self._dead(reason, detail)
        ending = Ending.REPLACED if self.replaced else Ending.DONE
        return Settlement(
            self.lease, ending, self.asked, self.items, push=self.push, withheld=self.withheld, kept=self.kept,
            visit=self._visit(),
        )  # fmt: skip

    def _dead(self, reason: str, detail: str) -> Settlement:
        """Its requests are queued, as in Scrapy: if it is replayed, those that were seen are filtered. Items would be doubled."""
        return Settlement(
            self.lease, Ending.FAILED, self.asked, reason=reason, detail=detail, withheld=self.withheld,
            kept=self.kept, visit=self._visit(),
        )  # fmt: skip

    def _visit(self) -> PageVisit | None:
        if self.content is None or not isinstance(self.outcome, Response):
            return None
        visit = self.content.visit(self.outcome, (request.fingerprint for request in self.asked))
        # What a page brought before it failed says nothing about its content.
        return visit if self.failure is None else visit._replace(signature=0)


def missed(refused: list[str]) -> str:
    """What a dead letter says of requests and items that could not be stored; the first ones by name."""
    head = f"{len(refused)} of what it yielded cannot be stored. Mend the spider, then replay this dead letter."
    more = [f"... and {len(refused) - MOST_NAMED} more"] if len(refused) > MOST_NAMED else []
    return "\n".join([head, *more, *refused[:MOST_NAMED]])


def feedback_of(response: Response, latency: Any, again: bool = False) -> Feedback:
    """What an answer says about its host. `again` says that the page was tried before."""
    seconds = latency if isinstance(latency, int | float) else None
    if response.status in REFUSALS:
        asked = retry_after((response.headers.get(b"Retry-After") or b"").decode("latin-1"), time.time())
        return Feedback(refusal(response.status, asked, again), seconds, asked)
    # As for Scrapy's AutoThrottle: redirects and error pages are small and quick, and show nothing of how long pages take.
    return Feedback(HostVerdict.OK if response.status == 200 else HostVerdict.ERROR, seconds)


def trace(failure: Failure | BaseException) -> str:
    if isinstance(failure, Failure):
        return str(failure.getTraceback())
    return "".join(traceback.format_exception(failure))
