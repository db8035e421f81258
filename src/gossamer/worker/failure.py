"""With which exit code a worker in Scrapy ends."""

from __future__ import annotations

from typing import Any

from scrapy import Spider


def fail(crawler: Any, engine: Any) -> None:
    """Let the command that runs this crawler exit with an error: to Scrapy's own commands, a crawler that has no spider at its
    end has failed to start."""
    closed = getattr(engine, "_spider_closed_callback", None)
    if closed is None:
        return

    def without(spider: Spider) -> Any:
        crawler.spider = None
        return closed(spider)

    engine._spider_closed_callback = without
