"""Pages that redirect are read, and if they fail, found again by the URLs that redirected."""

from __future__ import annotations

import pytest
from tests.engine.page.test_whole_pages import BY_HEADER
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, data, links

LOGIN = "login: {url: SITE/login, form: {user: x}, check: {contains: in}, expires: {redirect: /login$}}"


def to(path: str) -> Reply:
    return Reply(301, headers={"Location": path})


async def test_pages_that_a_header_counts_are_read_where_their_url_redirects(crawl: Crawl, site: Site) -> None:
    answer = site._next

    def paged(target: str, path: str) -> Reply:
        number = int(site.visits[-1].headers.get("X-Page", 1))
        return data({"ids": [number] if number < 4 else []}) if path == "/api/" else answer(target, path)

    site._next = paged  # type: ignore[method-assign]
    site.on("/api", to("/api/"))
    crawl.push(BY_HEADER.replace("{turn}", "{turn+1}"))
    await crawl.run()
    assert [item["id"] for item in crawl.items("pages")] == [1, 2, 3]


@pytest.mark.parametrize("records", ["", "page_records: true, "])
async def test_a_page_that_redirected_and_failed_is_fetched_again_in_the_next_round(
    crawl: Crawl, site: Site, records: str
) -> None:
    """The next round finds the URL that redirects. After that, the page was read."""
    site.on("/list", links("/old/1"))
    site.on("/old/1", to("/older/1"))
    site.on("/older/1", to("/page/1"))
    site.on("/page/1", Reply(500, times=1))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    request: {{retries: 0}}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|older|page)/', {records}fields: {{title: title}}}}
    """)
    for number in range(3):
        if number:
            with crawl.frontier() as frontier:
                frontier.new_round("pages", number)
        await crawl.run()
        assert [item["title"] for item in crawl.items("pages")] == ["/page/1"] * (number > 0)
    assert site.paths().count("/page/1") == 2


async def test_pages_whose_session_ends_when_they_are_asked_for_after_redirects_are_read(
    crawl: Crawl, site: Site
) -> None:
    """They lead to the login page by way of one URL."""
    site.on("/list", links(*(f"/old/{one}" for one in range(3))))
    site.on("/login", Reply(body="in", headers={"Set-Cookie": "session=1"}))
    site.on("/gate", to("/login"))
    for one in range(3):
        site.on(f"/old/{one}", to(f"/page/{one}"))
        site.on(f"/page/{one}", Reply(times=1), Reply(302, headers={"Location": "/gate"}, times=1))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: '^/(old|page)/', fields: {{title: title}}}}
    """)
    await crawl.run()
    assert crawl.dead("pages") == []
    assert sorted(item["title"] for item in crawl.items("pages")) == [f"/page/{one}" for one in range(3)]


async def test_all_pages_that_failed_at_one_url_are_kept_and_fetched_again(crawl: Crawl, site: Site) -> None:
    """As those that lead to the login page by way of one URL. They are not tries of one page."""
    site.on("/list", links("/page/1", "/page/2"))
    site.on("/login", Reply(body="in"))
    site.on("/gate", to("/login"))
    for one in (1, 2):
        site.on(f"/page/{one}", to("/gate"))
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore, concurrency: 1}}
    request: {{retries: 0}}
    {LOGIN}
    layers:
      list: {{match: ^/list, follow: [{{css: a, to: page}}]}}
      page: {{match: ^/page/, fields: {{title: title}}}}
    """)
    await crawl.run()
    told = sorted(detail.rpartition("/")[2] for reason, detail in crawl.dead("pages") if reason == "session_over")
    assert told == ["1.", "2."]
    site.on("/page/1").on("/page/2")
    with crawl.frontier() as frontier:
        frontier.new_round("pages", 1)
    await crawl.run()
    assert sorted(item["title"] for item in crawl.items("pages")) == ["/page/1", "/page/2"]
    assert len(crawl.dead("pages")) == 2
