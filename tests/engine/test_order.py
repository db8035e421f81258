"""In which order two workers together fetch the pages of a site, as the site itself has seen them come.

The site gives one page at a time, but for one test, so its log is the order. Where an order is to be seen among pages that are all known, the site is
paused until they are.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.example_sites import SECONDS, Place
from tests.support.site import Reply, Site

from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name)


def fetched(place: Place, site: Site, text: str, pages: int) -> list[str]:
    """The order in which two workers fetch so many pages, all of which wait before the first one is fetched."""
    file = place.write(text.replace("SITE", site.url).replace("HOST", site.host))
    place.run("site", "push", file)
    place.run("site", "pause", "order")
    fleet = place.start("crawl", file, "-w", "2")
    try:
        with place.frontier() as frontier:

            def ready() -> bool:
                assert fleet.poll() is None, place.logs()
                rows = {row.group: row for row in frontier.counts().groups}
                joined = sum("closed" not in worker.info for worker in frontier.workers())
                return "order" in rows and rows["order"].open == pages and joined == 2

            wait_until(ready, f"{pages} pages to wait for two workers", SECONDS)
        assert site.paths() == []
        place.run("site", "resume", "order")
        assert fleet.wait(SECONDS) == 0, place.logs()
    finally:
        if fleet.poll() is None:
            fleet.terminate()
            fleet.wait()
    paths = site.paths()
    assert len(paths) == len(set(paths)) == pages
    return paths


def test_the_deepest_layer_goes_first_and_each_in_its_own_order(place: Place, site: Site) -> None:
    paths = fetched(
        place,
        site,
        """
site: order
politeness: {robots: ignore, concurrency: 1}
seeds: ['SITE/list/[1-9]', 'SITE/post/[1-9]', 'SITE/comment/[1-9]', 'SITE/last/[1-9]']
layers:
  list: {match: '^/list/', follow: [{css: a.post, to: post}]}
  post: {match: '^/post/', order: lifo, follow: [{css: a.comment, to: comment}]}
  comment: {match: '^/comment/'}
  last: {match: '^/last/', tier: 5, order: lifo}
""",
        36,
    )
    up, down = range(1, 10), range(9, 0, -1)
    assert paths == [
        *(f"/comment/{number}" for number in up),
        *(f"/post/{number}" for number in down),
        *(f"/list/{number}" for number in up),
        *(f"/last/{number}" for number in down),
    ]


def test_the_highest_priority_goes_first_where_the_layer_says_so(place: Place, site: Site) -> None:
    paths = fetched(
        place,
        site,
        """
site: order
politeness: {robots: ignore, concurrency: 1}
seeds: ['SITE/a/[1-3]', {url: 'SITE/b/[1-3]', priority: 7}, {url: 'SITE/c/[1-3]', priority: -1}]
layers:
  page: {match: '^/', order: priority}
""",
        9,
    )
    assert paths == [f"/{letter}/{number}" for letter in "bac" for number in (1, 2, 3)]


@pytest.mark.parametrize("at_a_time", ["concurrency: 1", "hosts: {HOST: {concurrency: 0}}"], ids=["one", "any"])
def test_weights_divide_a_tier(place: Place, site: Site, at_a_time: str) -> None:
    # Each worker fetches one at a time, so that what it holds hardly blurs the order where the host takes as many as come.
    place.environ["GOSSAMER_ENGINE_CONCURRENCY"] = "1"
    paths = fetched(
        place,
        site,
        """
site: order
politeness: {robots: ignore, AT_A_TIME}
seeds: ['SITE/heavy/[1-90]', 'SITE/light/[1-90]']
layers:
  heavy: {match: '^/heavy/', tier: 0, weight: 3}
  light: {match: '^/light/', tier: 0, weight: 1}
""".replace("AT_A_TIME", at_a_time),
        180,
    )
    # While both have work: three of four, within the five percent that the frontier promises.
    shares = Counter(path.split("/")[1] for path in paths[:100])
    assert 71 <= shares["heavy"] <= 79
    # The heavier one does not make the lighter one wait until it is empty.
    assert "light" in {path.split("/")[1] for path in paths[:10]}


def test_page_turns_stay_in_their_layer_and_end_where_the_rule_says(place: Place, site: Site) -> None:
    for number in range(1, 7):
        posts = "".join(f'<a class="post" href="/post/{number}-{post}">p</a>' for post in range(4))
        site.on(f"/list/{number}", Reply(body=f'{posts}<a class="next" href="/list/{number + 1}">n</a>'))
    file = place.write(
        """
site: order
seeds: [SITE/list/1]
limits: {depth: 1}
politeness: {robots: ignore, concurrency: 1}
layers:
  list:
    match: '^/list/'
    follow:
      - {css: a.next, to: list, pages: 3}
      - {css: a.post, to: post}
  post: {match: '^/post/'}
""".replace("SITE", site.url)
    )
    place.crawl(file)
    # Three turns from the first page. They are no deeper: with one step of depth the posts of the last one are reached. The next
    # list is known before the posts, and waits for all of them: they are deeper.
    expected = []
    for number in range(1, 5):
        expected += [f"/list/{number}", *(f"/post/{number}-{post}" for post in range(4))]
    assert site.paths() == expected
