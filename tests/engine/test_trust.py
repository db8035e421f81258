"""What a worker does with site files that anybody may have pushed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Site

from gossamer.engine.sites.files import digest
from gossamer.errors import SiteError

PAGE = """
    site: forum
    seeds: [SITE/]
    politeness: {robots: ignore}
    layers: {page: {fields: {title: title}}}
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("    hooks: {before_request: 'subprocess:call'}\n", "hooks.before_request"),
        ("    hooks: {after_round: 'subprocess:call'}\n", "hooks.after_round"),
        ("    request: {headers: {X: '${GOSSAMER_URL}'}}\n", "request.headers.X"),
        ("    request: {headers: {X: '${HOME}'}}\n", "request.headers.X"),
        ("    archive_pages: /elsewhere/not-here\n", "archive_pages"),
        ("    database: sqlite:////elsewhere/not-here.db\n", "database"),
    ],
)
async def test_a_pushed_file_that_asks_for_more_than_is_granted_is_not_served(
    crawl: Crawl, site: Site, text: str, place: str
) -> None:
    crawl.push(PAGE.rstrip() + "\n" + text)
    with pytest.raises(SiteError, match=rf"site:6:\d+: {place}: "):
        await crawl.run()
    assert site.visits == []


async def test_the_same_file_is_served_where_its_user_named_it(
    crawl: Crawl, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY_OF_MINE", "k")
    text = (
        PAGE.rstrip() + f"\n    request: {{headers: {{X-Key: '${{A_KEY_OF_MINE}}'}}}}\n    archive_pages: {tmp_path}\n"
    )
    crawl.push(text)
    with crawl.frontier() as frontier:
        own = digest(frontier.document("site", "site").text)
    await crawl.run(local=frozenset({own}))
    assert {visit.headers.get("X-Key") for visit in site.visits} == {"k"}
    # Whoever changes a word of it is not that user any more.
    crawl.push(text + "    title: changed\n")
    with pytest.raises(SiteError, match="A_KEY_OF_MINE"):
        await crawl.run(local=frozenset({own}))
