"""One worker process: `python -m tests.support.workers.main PLAN`, where PLAN is a JSON file made by `Workers`.

Its last act is to write what each spider's crawl came to: stats and reason.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from scrapy.settings import Settings
from scrapy.utils.misc import load_object


def process_for(settings: Settings, kind: str) -> Any:
    if kind == "async":
        from scrapy.crawler import AsyncCrawlerProcess

        return AsyncCrawlerProcess(settings)
    from scrapy.crawler import CrawlerProcess

    return CrawlerProcess(settings)


def main(plan: dict[str, Any]) -> None:
    for patch in plan["patches"]:
        load_object(patch)()
    process = process_for(Settings(plan["settings"]), plan["process"])
    crawlers, failures = [], []

    def failed(failure: Any) -> None:
        failure.printTraceback()
        failures.append(f"{failure.type.__name__}: {failure.value}")

    def over(task: asyncio.Future[Any]) -> None:
        if (error := task.exception()) is not None:
            failures.append(f"{type(error).__name__}: {error}")

    for path in plan["spiders"]:
        crawler = process.create_crawler(load_object(path))
        crawlers.append(crawler)
        started = process.crawl(crawler, **plan["arguments"])
        if isinstance(started, asyncio.Future):
            started.add_done_callback(over)
        else:
            started.addErrback(failed)
    process.start()
    ends = {
        crawler.spidercls.name: {
            "stats": {
                printable(name): value
                for name, value in stats_of(crawler).items()
                if isinstance(value, str | int | float)
            },
            "settings": {name: str(crawler.settings[name]) for name in plan["show"]},
        }
        for crawler in crawlers
        # One that could not join has no spider at its end: so Scrapy's own commands exit with an error.
        if crawler.spider is not None or "finish_reason" in stats_of(crawler)
    }
    Path(plan["end"]).write_text(json.dumps({"spiders": ends, "failures": failures}))


def printable(name: Any) -> str:
    return str(name).encode("utf-8", "replace").decode()


def stats_of(crawler: Any) -> dict[str, Any]:
    try:
        return dict(crawler.stats.get_stats())
    except (AttributeError, RuntimeError):
        return {}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
