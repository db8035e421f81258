"""Whether a page failed for good because Scrapy has no retry left for it."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.spiders import CrawlSpider


class LastRetry:
    """Whether an answer is one that Scrapy retries, tried for the last time, and not one that the spider asked to see."""

    def __init__(self, settings: BaseSettings, spider: Spider) -> None:
        self._codes = {int(code) for code in settings.getlist("RETRY_HTTP_CODES")}
        self._enabled = settings.getbool("RETRY_ENABLED")
        self._allowed = {int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")}
        self._allowed |= set(getattr(spider, "handle_httpstatus_list", ()))
        self._all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._rules = getattr(spider, "_rules", ()) if isinstance(spider, CrawlSpider) else ()

    def applies(self, request: Request) -> bool:
        """Whether the spider itself deals with what becomes of a request that failed: it has an errback of its own. That
        of a CrawlSpider only calls the one of its rule."""
        errback = request.errback
        if getattr(errback, "__func__", errback) is CrawlSpider._errback:
            rule = request.meta.get("rule")
            return isinstance(rule, int) and rule < len(self._rules) and self._rules[rule].errback is not None
        return errback is not None

    def __call__(self, request: Request, outcome: Any) -> bool:
        if not self._enabled or not isinstance(outcome, Response) or outcome.status not in self._codes:
            return False
        if self.applies(request):
            return False
        meta = request.meta
        if self._all or meta.get("handle_httpstatus_all") or meta.get("dont_retry"):
            return False
        return outcome.status not in meta.get("handle_httpstatus_list", self._allowed)
