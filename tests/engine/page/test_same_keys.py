"""Rows of one page that replace those of another are counted."""

from __future__ import annotations

from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, links

from gossamer.engine.page.same_keys import KeyMemory

SITE = """
    site: keys
    seeds: [SITE/list]
    politeness: {robots: ignore}
    layers:
      list: {match: '^/list', seen: round, follow: [{css: a, to: page}]}
      page: {match: '^/page/', seen: round, fields: {id: i, title: b, tags: {css: u, all: true}}}
    store: {page: {table: pages, key: [id]}}
"""


def page(id: int, title: str) -> Reply:
    return Reply(body=f"<i>{id}</i><b>{title}</b><u>x</u>")


async def test_records_of_two_pages_with_the_same_key_and_other_values_are_counted(crawl: Crawl, site: Site) -> None:
    site.on("/list", links(*(f"/page/{n}" for n in range(5)), "/page/old"))
    for n, (id, title) in enumerate([(1, "a"), (1, "b"), (2, "c"), (2, "c"), (3, "d")]):
        site.on(f"/page/{n}", page(id, title))
    site.on("/page/old", Reply(302, headers={"Location": "/page/new"}))
    site.on("/page/new", page(4, "e"))
    crawl.push(SITE)
    await crawl.run()
    assert crawl.counters("keys")["site/replaced/page"] == 1
    with crawl.frontier() as frontier:
        frontier.new_round("keys", 1)
    # Fetched again, pages replace what they brought themselves; another page may have an item in another round.
    for n, (id, title) in enumerate([(5, "a"), (6, "b"), (1, "c"), (7, "c"), (8, "d")]):
        site.on(f"/page/{n}", page(id, title))
    await crawl.run()
    assert crawl.counters("keys")["site/replaced/page"] == 1


def test_a_page_that_comes_again_replaces_itself() -> None:
    memory = KeyMemory()
    assert not memory.replaces("key", 1, {"a": 1})
    assert not memory.replaces("key", 1, {"a": 2})
    assert not memory.replaces("key", 2, {"a": 2})
    assert memory.replaces("key", 3, {"a": [3]})
    assert not memory.replaces("other", 3, {"a": [3]})
    # Another round may bring it from another page. Each site has its own rounds.
    assert not memory.replaces("other", 4, {"a": 4}, "", 1)
    assert memory.replaces("other", 5, {"a": 5}, "there", 7)
    assert not memory.replaces("other", 6, {"a": 6}, "there", 8)


async def test_records_of_two_sites_with_the_same_key_in_the_same_table_are_counted(crawl: Crawl, site: Site) -> None:
    """Unless the key has the site, or the other site fills other columns of the row."""
    for name in ("one", "two", "apart", "beside"):
        text = SITE.replace("keys", name).replace("/list", f"/list/{name}").replace("/page/", f"/page/{name}")
        if name == "apart":
            text = text.replace("table: pages, key: [id]", "table: others, key: [id, site]")
        if name == "beside":
            text = text.replace("title: b, tags", "words")
        site.on(f"/list/{name}", links(f"/page/{name}"))
        site.on(f"/page/{name}", page(1, name))
        crawl.push(text, name)
    await crawl.run()
    counts = [crawl.counters(name).get("site/replaced/page", 0) for name in ("one", "two", "apart", "beside")]
    assert (sum(counts[:2]), counts[2:]) == (1, [0, 0])
