"""Spiders with scrapy-playwright: what they put into requests, and pages of the browser that are tried again."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy_playwright.page import PageMethod  # type: ignore[import-untyped]
from tests.support.site import Reply, Site
from tests.support.workers.variants import PLAIN
from tests.support.workers.workers import Workers, left

from gossamer.testing.servers import Server

HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"


class Rendered(Spider):
    """Asks for the page of the browser; only one may be open."""

    name = "rendered"
    site = ""
    custom_settings = {  # noqa: RUF012
        "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
        "PLAYWRIGHT_LAUNCH_OPTIONS": {
            "executable_path": shutil.which("chromium"),
            "args": ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        },
        "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": 1,
    }

    async def start(self) -> AsyncIterator[Any]:
        methods = [PageMethod("evaluate", "document.title = 'evaluated'")]
        yield Request(
            f"{self.site}/page",
            meta={"playwright": True, "playwright_include_page": True, "playwright_page_methods": methods},
        )

    async def parse(self, response: Any) -> AsyncIterator[Any]:
        page = response.meta["playwright_page"]
        yield {"id": await page.title(), "result": response.meta["playwright_page_methods"][0].result}
        await page.close()


@pytest.mark.timeout(120)
def test_a_page_of_the_browser_is_closed_before_the_next_try(valkey_server: Server, crawl_name: str) -> None:
    with Site() as site, Workers(valkey_server.url, crawl_name, PLAIN) as workers:
        site.on("/page", Reply(503, "<p>busy</p>", {"Retry-After": "0"}, times=1), Reply(body="<title>t</title>"))
        worker = workers.start(Rendered, site=site.url)
        assert worker.reason() == "finished"
        assert "begins without meta['playwright_page'] of the last one" in worker.log
        with workers.frontier() as frontier:
            found = left(frontier, "rendered")
        assert [(item["id"], item["result"]) for item in found.items] == [("evaluated", "evaluated")]
        assert site.paths().count("/page") == 2
