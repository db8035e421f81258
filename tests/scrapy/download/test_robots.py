"""A robots.txt holds for all requests that waited for it."""

from __future__ import annotations

from tests.scrapy.spiders.throttled import Throttled
from tests.support.site import Reply, Site
from tests.support.workers.workers import Workers

from gossamer.testing import process
from gossamer.testing.servers import Server


def test_what_it_forbids_is_not_fetched_though_many_wait_for_it(
    valkey_server: Server, crawl_name: str, site: Site
) -> None:
    """Scrapy tells the first of them alone, and fetches the others."""
    paths = [*(f"/secret/{number}" for number in range(5)), "/open"]
    with Site() as other, Workers(valkey_server.url, crawl_name, ROBOTSTXT_OBEY=True) as workers:
        site.on("/robots.txt", Reply(404))
        site.on("/", Reply(body="".join(f'<a href="{other.url}{path}">x</a>' for path in paths)))
        rules = Reply(body="User-agent: *\nDisallow: /secret\n", headers={"Content-Type": "text/plain"})
        other.on("/robots.txt", rules)
        other.hold("/robots.txt")
        worker = workers.start(Throttled, url=site.url)
        other.reached("/robots.txt")
        with workers.frontier() as frontier:

            def waiting() -> bool:
                return sum(row.leased for row in frontier.counts("throttled").lanes) == len(paths)

            process.wait_until(waiting, "all wait for the file", 60, pause=0.1)
        other.release("/robots.txt")
        assert worker.reason() == "finished"
        assert other.paths() == ["/robots.txt", "/open"]
