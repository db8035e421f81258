"""Pages that are fetched again by themselves: what a Scrapy worker tells the frontier of each visit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scrapy.http import HtmlResponse
from tests.scrapy.spiders.recorded import PAGES, Recorded
from tests.support.site import Reply, Site, links
from tests.support.workers.workers import Workers

from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import PageEvent, PageInfo, PageState
from gossamer.scrapy.page.visit import VisitContent
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server


def records(frontier: ValkeyFrontier, site: Site) -> dict[str, PageInfo]:
    """By path."""
    rows = frontier.scan_page_records("recorded.page", 0, limit=1000)[1]
    return {str(codec.decode_request(row.payload)["url"]).removeprefix(site.url): row for row in rows}


def events(record: PageInfo) -> set[PageEvent]:
    return {event for event, _ in record.trail}


@pytest.mark.timeout(180)
def test_pages_are_visited_again_and_their_records_say_what_was_found(
    site: Site, valkey_server: Server, crawl_name: str
) -> None:
    """One crawl whose pages do all that pages do."""
    site.on("/page/changing", *(Reply(body=f"<title>{n}</title>", times=1) for n in range(4)))
    site.on("/page/links", replace(links("/linked/1", "/linked/2"), times=1), links("/linked/3", "/linked/1"))
    site.on("/page/tagged", Reply(times=1), Reply(304, b""))
    site.on("/page/missing", Reply(times=1), Reply(404))
    site.on("/page/moved", Reply(302, headers={"Location": "/page/target"}))
    site.on("/page/broken", Reply(500))
    with Workers(valkey_server.url, crawl_name, GOSSAMER_MODE="forever", RETRY_ENABLED=False) as workers:
        workers.start(Recorded, site=site.url)
        for path in ("/page/steady", "/page/tagged", "/page/links", "/page/target"):
            site.reached(path, 4)
        site.reached("/page/missing", 3)
        with workers.frontier() as frontier:
            wait_until(
                lambda: records(frontier, site)["/page/missing"].state is PageState.GONE, "the page to be gone", 60
            )
            found = records(frontier, site)
    assert set(PAGES) <= set(found)
    assert (found["/page/steady"].status, found["/page/steady"].changes) == (200, 0), "sets and order do not count"
    assert found["/page/changing"].changes >= 2
    assert (found["/page/links"].status, found["/page/links"].changes) == (200, 1), "known by where it leads to"
    assert found["/page/tagged"].status == 304
    assert PageEvent.UNCHANGED in events(found["/page/tagged"])
    assert found["/page/tagged"].signature, "that of the last visit on which there was content"
    assert site.paths().count("/page/missing") == 3
    assert (found["/page/missing"].misses, found["/page/missing"].due) == (2, 0)
    assert PageEvent.REPLACED in events(found["/page/moved"])
    assert (found["/page/broken"].status, found["/page/broken"].signature) == (500, 0)


def test_a_page_is_known_by_its_items_then_its_links_then_its_body() -> None:
    def visited(*items: object, to: tuple[int, ...] = (), body: bytes = b"", status: int = 200) -> int:
        content = VisitContent()
        for item in items:
            content.add(item)
        return content.visit(HtmlResponse("http://x/", status, body=body), to).signature

    one, two = {"id": 1}, {"id": 2}
    assert visited(one, two, to=(1,)) == visited(two, one, body=b"12:01") != visited(one)
    assert visited({"of": {"a", "b"}}) != visited({"of": {"a"}})
    assert visited(to=(1, 2), body=b"12:00") == visited(to=(2, 1, 2), body=b"12:01") != visited(to=(1,))
    assert visited(body=b"12:00") != visited(body=b"12:01")
    assert visited(body=b"an error", status=503) == visited(one, status=304) == visited(one, status=410) == 0
