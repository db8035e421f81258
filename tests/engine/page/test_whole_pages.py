"""Pages that must be read as a whole, or fail: no link may be missing without a word."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, Visit, data, links

from gossamer import Output, Page

HERE = "tests.engine.page.test_whole_pages"
BY_HEADER = """
site: pages
seeds: [SITE/api]
politeness: {robots: ignore}
layers:
  list:
    match: ^/api
    format: json
    records: {jmespath: ids}
    fields: {id: {jmespath: '@', type: int}}
    follow: [{url: /api, headers: {X-Page: '{turn}'}, to: list, pages: 0}]
"""


async def test_pages_that_a_header_counts_are_read_to_the_last(crawl: Crawl, site: Site) -> None:
    """All have one URL. The first page is that without the header, and again the one with 1."""
    numbers = iter([1, 1, 2, 3, 4])

    def paged(visit: Visit) -> Reply | None:
        return data({"ids": [next(numbers)] if len(site.visits) < 5 else []}) if visit.path == "/api" else None

    site.answer(paged)
    crawl.push(BY_HEADER)
    await crawl.run()
    assert [visit.headers.get("X-Page") for visit in site.visits] == [None, "1", "2", "3", "4"]
    assert [item["id"] for item in crawl.items("pages")] == [1, 1, 2, 3]


async def test_pages_that_redirect_to_a_page_that_was_seen_are_counted(crawl: Crawl, site: Site) -> None:
    """As where each search leads to one URL, which shows the results of the last; and where pages have two URLs."""
    site.on("/list", Reply(body="<i>a</i><i>b</i><i>c</i><a href=/page/1>1</a><a href=/page/old/1>1</a>"))
    site.on("/search", Reply(303, headers={"Location": "/results"}))
    site.on("/page/old/1", Reply(301, headers={"Location": "/page/1"}))
    crawl.push("""
    site: pages
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list:
        match: ^/list
        records: i
        fields: {word: {xpath: .}}
        follow: [{css: a, to: page}, {url: /search, form: {q: '{word}'}, to: found}]
      found: {match: '^/(search|results)', fields: {title: title}}
      page: {match: ^/page/, fields: {title: title}}
    """)
    await crawl.run()
    counters = crawl.counters("pages")
    assert (counters["site/redirected_seen/found"], counters["site/redirected_seen/page"]) == (2, 1)
    assert sorted(item["title"] for item in crawl.items("pages") if "title" in item) == ["/page/1", "/results"]


def passing(page: Page) -> Iterator[Output]:
    for link in page.css("a"):
        yield {"text": "stored"}
        yield page.follow(
            link, to="page", inherited={"title": page.css("a") if page.url.endswith("2") else "x" * 2_000_000}
        )


@pytest.mark.parametrize(
    ("path", "reason", "said"),
    [("/list/1", "limit", "The payload takes 20"), ("/list/2", "engine", "Selector cannot be stored")],
)
async def test_a_page_with_a_link_that_cannot_be_queued_is_a_dead_letter(
    crawl: Crawl, site: Site, path: str, reason: str, said: str
) -> None:
    site.on(path, links("/page/1", "/page/2"))
    crawl.push(f"""
    site: pages
    seeds: [SITE{path}]
    politeness: {{robots: ignore}}
    layers:
      list: {{match: ^/list, handler: '{HERE}:passing'}}
      page: {{match: ^/page, fields: {{title: title}}}}
    """)
    await crawl.run()
    [(why, detail)] = crawl.dead("pages")
    assert why == reason
    assert f"The link to {site.url}/page/1 cannot be queued: " in detail
    assert said in detail
    assert crawl.items("pages") == []


def following(page: Page) -> Iterator[Output]:
    for link in page.css("a"):
        yield page.follow(link)


async def test_a_conditional_page_of_a_function_is_fetched_whole_if_links_were_too_deep(
    crawl: Crawl, site: Site
) -> None:
    """Later the page is linked from nearer the seeds, and its links are followed."""
    site.on("/list", links("/page/1"))
    site.on("/page/1", links("/page/2"))
    site.on("/page/2", Reply(body="<a href=/leaf/1>x</a>", headers={"ETag": '"1"'}))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    request: {{conditional: true}}
    limits: {{depth: 2}}
    layers:
      list: {{match: ^/list, seen: round, follow: [{{css: a}}]}}
      page: {{match: ^/page/1, follow: [{{css: a}}]}}
      deep: {{match: ^/page/2, seen: round, handler: '{HERE}:following'}}
      leaf: {{match: ^/leaf, fields: {{title: title}}}}
    """)
    await crawl.run()
    assert crawl.counters("pages")["site/limited/deep.follow to leaf"] == 1
    site.on("/list", links("/page/2"))
    with crawl.frontier() as frontier:
        frontier.new_round("pages", 1)
    await crawl.run()
    assert [visit.headers.get("If-None-Match") for visit in site.visits if visit.path == "/page/2"] == [None, None]
    assert [item["title"] for item in crawl.items("pages")] == ["/leaf/1"]
