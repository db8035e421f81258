"""Sites in Python, from the command line: the same as in YAML, with workers that are killed, and with all that can go wrong."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.example_sites import SITES, Place
from tests.support.site import Reply, Site, links

from gossamer.testing.examples import ShopExample
from gossamer.testing.process import wait_until
from gossamer.testing.servers import Server

pytestmark = pytest.mark.timeout(400)

BOTH_KINDS = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from gossamer import Output, Page, Record, Site
from helpers import shout

shop = Site("mixed", seeds=["SITE/list"], politeness={"robots": "ignore"}, request={"retries": 0}, seen="round")
shop.rules("list", {"match": "^/list", "follow": [{"css": "a", "to": "item"}]})


@shop.layer("item", match=r"^/p/(?P<id>[0-9]+)", table="items", key="id")
async def item(page: Page) -> AsyncIterator[Output]:
    number = int(page.groups["id"])
    if number == 7:
        raise ValueError("seven is odd")
    if number == 9:
        raise asyncio.CancelledError
    yield Record("loose", {"text": f"loose {number}"})
    if number == 11:
        yield Record("loose", {"text": "in its place"})
    fields = {"id": number, "title": shout(page.css("h1::text").get()), "weight": "heavy" if number == 8 else number}
    if number == 12:
        fields["parts"] = [page.url]
        yield page.follow("/p/12/more")
    if number == 10:
        # The list links both of its pages.
        fields["parts"] = [page.url]
        if not page.url.endswith("/last"):
            yield page.follow("/p/10/last")
    yield fields
    yield Record("note", {"item": number, "text": "noted"})
    yield page.follow(f"/d/{number}", to="detail", inherited={"id": number})


shop.rules(
    "detail",
    match="^/d/",
    fields={"id": {"from": "parent.id", "type": "int"}, "text": "p"},
    table="details",
    key=["id"],
)


@shop.layer("note", record={"item": int, "text": str}, table="notes", key=["item"])
@shop.layer("loose", record={"text": str}, table="loose")
def note(page: Page) -> Iterator[Output]:
    yield None
"""
ITEMS = 12


@pytest.fixture
def place(tmp_path: Path, valkey_server: Server, crawl_name: str) -> Place:
    (tmp_path / "home").mkdir()
    return Place(tmp_path / "home", valkey_server, crawl_name, GOSSAMER_LEASE_SECONDS="5")


def test_yaml_and_python_make_the_same_requests_and_rows(place: Place, tmp_path: Path) -> None:
    """The example files, each in a crawl of its own, in two rounds."""
    rows, asked = {}, {}
    for name in ("shop.yaml", "shop_in_python.py"):
        (tmp_path / name).mkdir()
        place.directory = tmp_path / name
        place.environ |= {"GOSSAMER_CRAWL": f"{place.settings['GOSSAMER_CRAWL']}-{name[-2:]}"}
        place.environ |= {"GOSSAMER_DATA_DIR": str(place.directory / "data")}
        with ShopExample() as shop:
            for expected in range(2):
                told = place.crawl(str(SITES / name), "--param", f"base={shop.url}")
                [site] = told["sites"]
                assert (site["round"], site["drained"], site["dead"], site["left"]) == (expected, True, 0, 0)
                shop.tomorrow()
            asked[name] = Counter((one.method, one.path, tuple(one.query.items())) for one in shop.requests())
        rows[name] = place.rows("select sku, name, kind, price, stock from prices order by sku, valid_from")
    assert len(rows["shop.yaml"]) > 12
    assert rows["shop_in_python.py"] == rows["shop.yaml"]
    assert asked["shop_in_python.py"] == asked["shop.yaml"]


def serve(site: Site) -> None:
    site.on("/list", links(*(f"/p/{number}" for number in range(1, ITEMS + 1))))
    for number in range(1, ITEMS + 1):
        site.on(f"/p/{number}", Reply(body=f"<h1>item {number}</h1>"))
        site.on(f"/d/{number}", Reply(body=f"<p>detail {number}</p>"))


def stored(place: Place) -> bool:
    with suppress(sqlite3.OperationalError):
        return bool(place.rows("select id from items"))
    return False


def test_layers_of_both_kinds_pushed_and_served_by_workers_one_of_which_is_killed(place: Place) -> None:
    with Site() as site:
        serve(site)
        site.on("/list", links(*(f"/p/{number}" for number in range(1, ITEMS + 1)), "/p/10/last"))
        site.on("/p/10/last", Reply(body="<h1>item 10</h1>"))
        place.write(BOTH_KINDS.replace("SITE", site.url), "mixed.py")
        place.write("def shout(text: str | None) -> str:\n    return (text or '').upper()\n", "helpers.py")
        place.run("site", "check", "mixed.py", "--hooks")
        assert place.run("site", "push", "mixed.py") == "mixed: version 1: mixed\n"
        assert "handler: mixed:item" in place.run("site", "show", "mixed")
        # No pushed site brings code along: a worker that was not told of the module does not serve it.
        place.run("work", "--site", "mixed", "--all-stages", "--drained", code=2)
        place.environ["GOSSAMER_ALLOWED_MODULES"] = "mixed"
        # The first record of a table that declares nothing decides about its columns: it shall not be the odd one.
        site.hold("/p/3", "/p/4", "/p/8")
        words = ("work", "--site", "mixed", "--all-stages", "--drained")
        with place.start(*words) as first, place.frontier() as frontier:
            site.reached("/p/3")
            assert [worker for worker in frontier.workers() if worker.held]
            first.send_signal(signal.SIGKILL)
            first.wait(60)
            site.release("/p/3", "/p/4")
            with place.start(*words) as second, place.start(*words) as third:
                wait_until(lambda: stored(place), "rows of items", 60)
                site.release("/p/8")
                assert (second.wait(200), third.wait(200)) == (0, 0)
        letters = json.loads(place.run("dead", "list", "--json"))
    whole = [number for number in range(1, ITEMS + 1) if number not in (7, 8, 9, 11)]
    assert place.rows("select id, title, weight from items order by id") == [
        (number, f"ITEM {number}", number) for number in whole
    ]
    assert place.rows("select item, text from notes order by item") == [(number, "noted") for number in whole]
    # The links of a page that failed are not followed.
    assert place.rows("select id, text from details order by id") == [(number, f"detail {number}") for number in whole]
    # One of both, whichever came later.
    [both] = [letter for letter in letters if "/p/10" in letter["url"]]
    assert "one of which turns to the other, have records with the same key and other lists" in both["detail"]
    letters.remove(both)
    assert sorted((letter["url"].rpartition("/")[2], letter["reason"]) for letter in letters) == [
        ("11", "store_refused"),
        ("7", "engine"),
        ("8", "store_refused"),
        ("9", "engine"),
        ("more", "store_refused"),
    ]
    told = {letter["url"].rpartition("/")[2]: letter["detail"] for letter in letters}
    assert 'raise ValueError("seven is odd")' in told["7"]
    assert "raise asyncio.CancelledError" in told["9"]
    assert "Table items, column weight: a whole number is wanted, str was given" in told["8"]
    assert "The page has 2 records of loose, and its key (url) is the same for all of them" in told["11"]
    assert "has the same key (id) as that of" in told["more"]
    assert place.rows("select parts from items where id = 12") == [(f'["{site.url}/p/12"]',)]
    assert place.rows("select text from loose order by length(text), text") == [(f"loose {one}",) for one in whole]


def test_tried_tested_and_crawled_from_another_folder(place: Place, tmp_path: Path) -> None:
    """The file lies elsewhere, in a package, beside what it imports."""
    package = tmp_path / "elsewhere" / "sources"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "names.py").write_text("NAME = 'lamps'\n")
    with Site() as site:
        site.on("/c", links("/p/1"))
        site.on("/p/2", Reply(body="<p>Nothing.</p>"))
        site.on("/p/1", Reply(body='<script type="application/ld+json">{"@type": "Product", "sku": "a"}</script>'))
        (package / "shop.py").write_text(
            "from gossamer import Site\nfrom .names import NAME\n"
            f"one = Site('one', seeds=['{site.url}/c'], politeness={{'robots': 'ignore'}})\n"
            f"two = Site('two', seeds=['{site.url}/p/2'], politeness={{'robots': 'ignore'}})\n"
            "@one.layer('list', match='^/c')\nasync def goods(page):\n"
            "    for a in page.css('a'): yield page.follow(a)\n"
            "@one.layer('item', match='^/p/', table=NAME, key='sku', seen='round', record={'sku': str})\n@two.layer('item', match='^/p/')\n"
            "async def item(page):\n    yield {'sku': page.json_ld('Product')['sku']}\n"
        )
        file = str(package / "shop.py")
        told = json.loads(
            place.run("site", "try", f"{site.url}/p/1", "--file", file, "--site", "one", "--save", "lamp", "--json")
        )
        assert [record["fields"] for record in told["reading"]["records"]] == [{"sku": "a"}]
        assert "1 case: 1 same" in place.run("site", "test", file)
        place.write('<script type="application/ld+json">{"@type": "Product", "sku": 5}</script>', "five.html")
        words = ("--as", f"{site.url}/p/5", "--file", file, "--site", "one")
        assert (
            "note: table lamps, column sku: text is wanted, int was given; the page would be a dead letter"
            in place.run("site", "try", "five.html", *words)
        )
        place.write("<p>Nothing.</p>", "none.html")
        said = place.run("site", "try", "none.html", *words, code=1)
        assert "not read: Traceback" in said
        assert "has no JSON-LD of type Product" in said
        told = place.crawl(file)
        assert [(one["site"], one["pages"], one["dead"]) for one in told["sites"]] == [("one", 2, 0), ("two", 1, 1)]
        assert place.rows("select sku from lamps") == [("a",)]
        [letter] = json.loads(place.run("dead", "list", "--json"))
        assert f"LookupError: {site.url}/p/2 has no JSON-LD of type Product" in letter["detail"]
        # What has changed is another version, and read by the next crawl.
        (package / "shop.py").write_text((package / "shop.py").read_text().replace("['sku']}", "['sku'] + '!'}"))
        place.crawl(file)
        assert place.rows("select sku from lamps order by sku") == [("a",), ("a!",)]
        assert place.run("site", "diff", "shop").count("sources.shop: ") == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from gossamer import Site\nx = (\n", "bad.py:2:5: this is not Python: '(' was never closed"),
        ("from gossamer import Site\n1 / 0\n", "bad.py:2:1: ZeroDivisionError: division by zero"),
        ("from gossamer import Site\n", "bad.py: there is no site in this file"),
        (
            "from gossamer import Site\ns = Site('s', seeds=['http://s.example/'],\n  limts={'pages': 1})\n@s.layer('a', math='^/')\ndef f(page): ...\n",
            "bad.py:3:3: limts: unknown key limts (did you mean limits?)\nerror: bad.py:4:15: layers.a.math: unknown key math (did you mean match?)",
        ),
        (
            "from gossamer import Site\ns = Site('s', seeds=['http://s.example/'])\ns.run()\n",
            'bad.py:3:1: run() was called while bad.py was being imported, as workers import it. Write it under `if __name__ == "__main__":`',
        ),
        ("x = 1\n", "there is neither a spider nor a site in bad.py"),
    ],
)
def test_what_is_wrong_is_told_in_one_message(place: Place, text: str, said: str) -> None:
    place.write(text, "bad.py")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gossamer", "crawl", "bad.py"],
        cwd=place.directory, env=place.environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


PROGRAM = """
from gossamer import Site

shop = Site("program", seeds=["SITE/list"], politeness={"robots": "ignore"}, seen="round")
other = Site("other", seeds=["SITE/other"])


@shop.layer("list", match="^/list")
@other.layer("list", match="^/other")
def goods(page):
    return [page.follow(link, to="item") for link in page.css("a")]


@shop.layer("item", match="^/p/", table="items", key="url")
def item(page):
    return {"title": page.css("h1::text").get()}


if __name__ == "__main__":
    print(shop.run(workers=2, settings={"GOSSAMER_STOP_SECONDS": 2})[:5])
"""


def test_a_program_that_runs_its_site_is_interrupted_and_resumed(place: Place) -> None:
    command = [sys.executable, "program.py"]
    with Site() as site:
        serve(site)
        place.write(PROGRAM.replace("SITE", site.url).replace("seen=", "sen="), "program.py")
        done = subprocess.run(
            command, cwd=place.directory, env=place.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert re.search(r"SiteErrors: program.py:4:\d+: sen: unknown key sen \(did you mean seen\?\)", done.stderr)
        assert done.returncode == 1
        place.write(PROGRAM.replace("SITE", site.url), "program.py")
        site.hold("/p/5")
        with subprocess.Popen(
            command, cwd=place.directory, env=place.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            try:
                site.reached("/p/5")
            finally:
                running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=120)
        site.release("/p/5")
        assert running.returncode == 130, said
        assert "stopped; go on with: gossamer crawl program.py --resume" in said
        assert "Traceback" not in said
        # All sites of the file are in the crawl; the one that was run is crawled.
        assert place.run("site", "list", "--files").count("program other") == 1
        assert place.run("crawl", "program.py", "--resume", "--json", "-w", "1")
        assert len(place.rows("select url from items")) == ITEMS
        done = subprocess.run(
            command, cwd=place.directory, env=place.environ, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.stdout.splitlines()[-1] == f"({ITEMS + 1}, 0, {ITEMS}, 0, 0)", done.stderr
    assert done.returncode == 0


def test_a_worker_says_when_the_code_is_not_what_it_has_loaded(place: Place) -> None:
    log = place.directory / "said"
    with Site() as site:
        serve(site)
        place.write(PROGRAM.replace("SITE", site.url), "program.py")
        place.run("site", "push", "program.py")
        place.environ["GOSSAMER_ALLOWED_MODULES"] = "."
        command = [sys.executable, "-P", "-m", "gossamer", "work", "--site", "program"]
        with (
            log.open("w") as file,
            subprocess.Popen(command, cwd=place.directory, env=place.environ, stderr=file) as worker,
        ):
            try:
                site.reached(f"/p/{ITEMS}")
                place.write(PROGRAM.replace("SITE", site.url).replace("h1", "h2"), "program.py")
                said = "program.py has changed since this worker loaded it"
                wait_until(lambda: said in log.read_text(), "a warning", 60)
                place.run("site", "push", "program.py")
                other = "The site program was pushed with other code than this worker has loaded from"
                wait_until(lambda: other in log.read_text(), "another warning", 60)
            finally:
                worker.terminate()
        assert worker.returncode == 0


HALFWAY = """
from collections.abc import Iterator
from gossamer import Output, Page, Site

half = Site("half", seeds=["SITE/list"], politeness={"robots": "ignore"}, request={"retries": 0}, seen="round")
half.rules("list", {"match": "^/list", "follow": [{"css": "a", "to": "page"}]})


@half.layer("page", match="^/p/")
def page(page: Page) -> Iterator[Output]:
    yield {"url": page.url, "part": 1}
    if page.css("h1::text").get() == "item 7":
        raise ValueError("halfway")
    yield {"url": page.url, "part": 2}
"""


def test_items_of_a_page_that_failed_halfway_come_with_its_replay(place: Place) -> None:
    with Site() as site:
        serve(site)
        place.write(HALFWAY.replace("SITE", site.url), "half.py")
        place.run("crawl", "half.py", "--json", "-w", "1")
        place.run("items", "export", "half", "half.jsonl")
        before = (place.directory / "half.jsonl").read_text().splitlines()
        site.on("/p/7", Reply(body="<h1>mended</h1>"))
        place.run("dead", "replay", "--all")
        place.run("crawl", "half.py", "--resume", "--json", "-w", "1")
        place.run("items", "export", "half", "half.jsonl")
    after = (place.directory / "half.jsonl").read_text().splitlines()
    every = Counter((f"{site.url}/p/{number}", part) for number in range(1, ITEMS + 1) for part in (1, 2))
    brought = [Counter((item["url"], item["part"]) for item in map(json.loads, lines)) for lines in (before, after)]
    assert brought == [Counter(one for one in every if not one[0].endswith("/7")), every]
