"""The example sites, each crawled by two workers from the command line: what the servers have is what the tables have."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.support.example_sites import SITES, Place

from gossamer.sites.file.load import load
from gossamer.testing.examples import (
    EXAMPLES,
    SMALL,
    ApiExample,
    ForumExample,
    NewsExample,
    ShopExample,
    SmallExample,
    login,
)
from gossamer.testing.examples.api import KEY
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    return Place(tmp_path, valkey_server, crawl_name, SITE_BOOKS_KEY=KEY)


def moment(text: str) -> datetime:
    """A time as the store writes it: in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_forum_with_comments_as_json(place: Place) -> None:
    with ForumExample() as forum:
        told = place.crawl(str(SITES / "forum.yaml"), "--param", f"base={forum.url}")
        asked = Counter(f"{one.path}?{one.query.get('page', '')}" for one in forum.requests())
    [site] = told["sites"]
    assert (site["drained"], site["dead"], site["left"]) == (True, 0, 0)
    assert max(asked.values()) == 1, "a page was fetched twice"
    posts = forum.posts()
    assert place.rows("select id, board, title, author, views, comments from posts order by id") == [
        (x["id"], x["board"], x["title"], x["author"], x["views"], x["comments"]) for x in posts
    ]
    written = place.rows("select id, written from posts order by id")
    assert [moment(at) for _, at in written] == [datetime.fromisoformat(x["written"]) for x in posts]
    # Files are in a table below that of the posts, comments in one of their own.
    assert place.rows("select parent_id, name, size from posts_files order by parent_id, place") == [
        (x["id"], file["name"], file["size"]) for x in posts for file in x["files"]
    ]
    comments = place.rows("select id, post, author, text, at from comments order by id")
    assert [(*row[:4], moment(row[4]).timestamp()) for row in comments] == [
        (x["id"], x["id"] // 100, x["author"]["name"], x["text"], x["at"]) for x in forum.comments()
    ]
    assert site["pages"] == len(asked)


def test_fifty_newspapers_from_one_file_and_one_pool_of_workers(place: Place) -> None:
    with NewsExample() as news:
        sources = (SITES / "sources.csv").read_text("utf-8")
        for number in reversed(range(news.hosts)):
            sources = sources.replace(f"http://127.0.0.1:{NewsExample.port + number}/", f"{news.urls[number]}/")
        place.write(sources, "sources.csv")
        told = place.crawl(place.write(f"extends: {SITES / 'news.yaml'}\nparams: sources.csv\n", "news.yaml"))
        asked = Counter((one.place, one.path) for one in news.requests())
        agents = {one.headers["user-agent"] for one in news.requests()}
    assert len(told["sites"]) == 50
    assert all(site["drained"] and not site["dead"] for site in told["sites"])
    # One page to begin with and three articles of each; the page about the paper is left alone.
    assert set(asked.values()) == {1}
    assert Counter(number for number, _ in asked) == dict.fromkeys(range(50), 4)
    assert len(agents) == 1
    rows = place.rows("select site, url, title, published, text, paper from articles order by site, url")
    expected = []
    for number, paper in enumerate(news.papers()):
        for article in paper.articles():
            at = article["published"].replace(tzinfo=ZoneInfo(paper.tz))
            url = news.urls[number] + article["path"]
            expected.append((f"news-{paper.name}", url, article["title"], at.astimezone(UTC), paper.title))
    assert [(*row[:3], moment(row[3]), row[5]) for row in rows] == expected
    assert {row[4].partition("\n")[2] for row in rows} == {"More on page two."}
    with place.frontier() as frontier:
        assert frontier.workers() == [], "they have ended"


def test_a_shop_whose_prices_have_a_history(place: Place) -> None:
    with ShopExample() as shop:
        file = place.elsewhere("shop", shop.url)
        place.crawl(file)
        first = shop.goods()
        assert place.rows("select sku, name, kind, price, stock from prices order by kind desc, sku") == [
            (x["sku"], x["name"], x["kind"], f"{x['price']:.2f}", x["stock"]) for x in first
        ]
        changed = shop.tomorrow()
        assert 0 < len(changed) < len(first)
        told = place.crawl(file)
        assert [site["round"] for site in told["sites"]] == [1]
        # Everything was looked at again, and only what has changed has another row.
        assert Counter(shop.paths())["/p/lamps-2"] == 2
        history = place.rows("select sku, price from prices order by sku, valid_from")
        assert Counter(sku for sku, _ in history) == {x["sku"]: 1 + (x["sku"] in changed) for x in first}
        prices = {x["sku"]: [x["price"]] for x in first}
        for one in shop.goods():
            if one["sku"] in changed:
                prices[one["sku"]].append(one["price"])
        found: dict[str, list[Decimal]] = {}
        for sku, price in history:
            found.setdefault(sku, []).append(Decimal(price))
        assert found == prices
        # A third round on the same day brings nothing new.
        place.crawl(file)
        assert len(place.rows("select * from prices")) == len(history)


def test_an_api_with_cursors_searches_and_a_key(place: Place) -> None:
    with ApiExample() as api:
        told = place.crawl(place.elsewhere("api", api.url))
        requests = api.requests()
    [site] = told["sites"]
    assert (site["drained"], site["dead"]) == (True, 0)
    books = api.books()
    assert place.rows("select id, title, authors, price, currency, published from books order by id") == [
        (
            x["id"],
            x["title"],
            ", ".join(author["name"] for author in x["authors"]),
            x["price"]["amount"],
            x["price"]["currency"],
            x["published"],
        )
        for x in books
    ]
    hits = place.rows("select parent_query, parent_page, id, score from search_hits order by 1, 2, place")
    assert [(query, number) for query, _, number, _ in hits] == [
        (topic, book["id"]) for topic in ("sea", "stars") for book in api.found(topic)
    ]
    assert place.rows("select query, count(*), max(total) from search group by query order by query") == [
        (topic, -(-len(api.found(topic)) // 3), len(api.found(topic))) for topic in ("sea", "stars")
    ]
    assert {one.headers.get("authorization") for one in requests} == {f"Bearer {KEY}"}
    # Found by the list and by both searches, and fetched once.
    assert max(Counter(one.path for one in requests if one.method == "GET" and not one.query).values()) == 1
    # The key is in no file that the crawl keeps.
    assert KEY not in place.run("site", "show", "api")


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.name)
def test_a_small_example_gives_the_rows_that_its_server_has(place: Place, kind: type[SmallExample]) -> None:
    place.environ |= {"SITE_CLUB_USER": login.USER, "SITE_CLUB_PASSWORD": login.PASSWORD}
    with kind() as example:
        told = json.loads(place.run("crawl", place.elsewhere(kind.name, example.url), "-w", "1", "--json"))
        expected = example.tables()
        asked = Counter((one.method, one.path, str(one.repeated), one.body) for one in example.requests())
    [site] = told["sites"]
    assert (site["drained"], site["dead"], site["left"]) == (True, 0, 0)
    for table, rows in expected.items():
        columns = list(rows[0])
        found = place.rows(f"select {', '.join(columns)} from {table}")
        assert sorted(found) == sorted(tuple(row[name] for name in columns) for row in rows), table
    if isinstance(example, login.LoginExample):
        assert example.logins == 2, "the session was over once"
    else:
        assert set(asked.values()) == {1}, "a page was fetched twice"


def test_a_key_that_is_not_in_the_environment_is_asked_for(place: Place) -> None:
    del place.environ["SITE_BOOKS_KEY"]
    file = place.write(f"extends: {SITES / 'api.yaml'}\n", "api.yaml")
    place.run("crawl", file, "-w", "1", code=1)
    assert "SITE_BOOKS_KEY is not set" in place.logs()


def test_the_files_are_free_of_mistakes_and_name_the_ports_of_their_servers() -> None:
    sites = load(SITES)
    assert len(sites) == 60
    named = {name: load(SITES / f"{name}.yaml")[0] for name in EXAMPLES}
    for name in EXAMPLES.keys() - {"news"}:
        params = named[name].params
        assert isinstance(params, dict)
        assert params["base"] in (
            f"http://127.0.0.1:{EXAMPLES[name].port}",
            [f"http://127.0.0.1:{EXAMPLES[name].port}"],
        )


def test_the_table_of_sources_is_that_of_the_papers() -> None:
    with (SITES / "sources.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with NewsExample() as news:
        papers = news.papers()
    assert [tuple(row.values()) for row in rows] == [
        (x.name, x.title, x.kind, f"http://127.0.0.1:{NewsExample.port + n}{x.start}", x.headline, x.date, x.tz)
        for n, x in enumerate(papers)
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_served_by_a_command(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gossamer.testing.examples", name, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("http://127.0.0.1:")
        finally:
            server.terminate()
        assert server.wait(60) == 0


def test_a_port_that_is_taken_is_said() -> None:
    with ShopExample() as shop:
        port = shop.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "gossamer.testing.examples", "shop", "--port", port],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "Choose another --port" in done.stderr
