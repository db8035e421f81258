"""The question of injection for bench/questions.py: a page whose links are written to break what stores or sends them."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bench.crawls.contender import OURS, REDIS
from bench.crawls.counting import Crawls, Site, gossamer, said, serving, table

from gossamer.testing.servers import Server

SITE = "Gossamer site"
FIRST, LAST, TOO_LONG, LONG = 10, 27, 18, 100_000
"""The numbers of the links, that of the long one, and its length."""
LOST, COUNTED = "lost, a line in the log", "left out and counted"
NUMBER = re.compile(r"/(\d\d)/")
GUARD = "guard"
"""A key of somebody else, which has to stay."""
TEXT = """site: hostile
seeds: ["FRONT"]
politeness: {robots: ignore}
request: {retries: 1}
layers:
  front: {match: '^/$', follow: [{css: a, to: page}]}
  page: {fields: {first: {css: a}}}
store:
  page: {table: pages, key: [url]}
"""


class Outcome(NamedTuple):
    """What a contender did: by the number of a link, what became of it; and what was there afterwards."""

    links: dict[int, str]
    keys: list[str]
    rows: str


def hostile(front: str, redis_port: int, secret: Path) -> dict[str, str]:
    """By what it tries, the link. Its two digits tell which one a visit, a row or a dead letter belongs to."""
    port = front.rstrip("/").rpartition(":")[2]
    return {
        "raw CR LF, a server command": "/10/a\r\nSET owned 1\r\n",
        "encoded CR LF, a server command": "/11/a%0D%0ASET%20owned%201%0D%0A",
        "raw CR LF, a second HTTP request": "/12/a HTTP/1.1\r\nHost: a\r\n\r\nGET /owned",
        "encoded CR LF, a second HTTP request": "/13/a%20HTTP/1.1%0D%0AHost:%20a%0D%0A%0D%0AGET%20/owned",
        "quotes and brackets of Lua": "/14/\"]]..redis.call('SET','owned','1')--[[",
        "quotes of SQL": "/15/'); DROP TABLE pages; --\"",
        "braces of a hash tag": "/16/{other}:{0}:}{",
        "stars and brackets of a glob": "/17/*?x=[a-z]*",
        "100 kB": "/18/" + "x" * LONG,
        "NUL, raw": "/19/a\x00b",
        "NUL, encoded": "/20/a%00b",
        "user:password@": f"http://user:password@127.0.0.1:{port}/21/",
        "a look-alike that is `localhost` after IDNA": f"http://\uff4c\u2134calhost:{port}/22/",
        "a look-alike with a Cyrillic letter": f"http://l\u043ecalhost:{port}/23/",
        "`file:`": f"{secret.as_uri()}",
        "`javascript:`": "javascript:fetch('/25/owned')",
        "`redis:`, the server's address": f"redis://127.0.0.1:{redis_port}/26/",
        "`http:`, the server's address": f"http://127.0.0.1:{redis_port}/27/%0D%0ASET%20owned%201%0D%0A",
    }


def numbers(texts: Iterable[str]) -> set[int]:
    """Of the links that stand in them."""
    return {int(match[1]) for text in texts if (match := NUMBER.search(text))}


def injection(crawls: Crawls) -> None:
    """A page links to URLs that are written to break in. What reaches the site, what is kept, does anything run?"""
    reached, left = [], []
    with tempfile.TemporaryDirectory() as directory:
        secret = Path(directory) / "24" / "secret.html"
        secret.parent.mkdir()
        secret.write_text("<a>a secret</a>")
        tries: list[str] = []
        outcomes: dict[str, Outcome] = {}
        for label in (REDIS, OURS, SITE):
            links: list[str] = []
            with serving(lambda path, links=links: links if path == "/" else ("/",)) as site:  # type: ignore[misc]
                plan = hostile(site.front, crawls.server.port, secret)
                links += map(escape, plan.values())
                tries = list(plan)
                crawl = crawls.fresh()
                crawls.server.call("SET", GUARD, "1")
                run = by_site if label == SITE else by_scrapy
                outcome = outcomes[label] = run(crawls, label, crawl, site, Path(directory))
                kept = str(crawls.server.call("GET", GUARD)) in ("1", "b'1'")
                visits = [path for path, _ in site.visits]
                strangers = [path for path in visits if path not in ("/", "/robots.txt") and not NUMBER.search(path)]
                others = [key for key in outcome.keys if key != GUARD and not ours(label, key, crawl)]
                ran = bool(strangers or others) or not kept
                left.append([label, len(visits), len(strangers), len(others), outcome.rows, "yes" if ran else "no"])
        for number, what in enumerate(tries, FIRST):
            reached.append([what, *(outcome.links.get(number, LOST) for outcome in outcomes.values())])
    print(table(["the link", *outcomes], reached), end="\n\n")
    heads = ["", "requests at the site", "that no link asked for", "keys that are not the crawl's", "rows", "it ran"]
    print(table(heads, left))


def ours(label: str, key: str, crawl: str) -> bool:
    return key.startswith("walk:" if label == REDIS else f"gossamer:{{{crawl}/")


def keys(server: Server) -> list[str]:
    listed: Any = server.call("KEYS", "*")
    return [key.decode() if isinstance(key, bytes) else str(key) for key in listed]


def by_scrapy(crawls: Crawls, label: str, crawl: str, site: Site, directory: Path) -> Outcome:
    ended = said(crawls.start(label, "Following", site.front, crawl, RETRY_TIMES=1))
    noted, long = ended["noted"], ended["stats"].get("urllength/request_ignored_count", 0)
    assert noted["links"] == LAST - FIRST + 1
    links = dict.fromkeys(noted["read"], "read")
    links |= {int(number): "refused when it is followed" for number in noted["refused"]}
    if label == OURS:
        links |= dead(crawls, crawl, directory)
    if long == 1 and TOO_LONG not in links:
        links[TOO_LONG] = COUNTED
    return Outcome(links, keys(crawls.server), f"{len(noted['read'])} items")


def by_site(crawls: Crawls, label: str, crawl: str, site: Site, directory: Path) -> Outcome:
    file = directory / "hostile.yaml"
    file.write_text(TEXT.replace("FRONT", site.front))
    gossamer(crawls, crawl, directory, "crawl", file.name, "-w", "2")
    with closing(sqlite3.connect(directory / "data" / "items.db")) as database:
        rows = [url for (url,) in database.execute("SELECT url FROM pages")]
    links = dict.fromkeys(range(FIRST, LAST + 1), "not followed")
    with crawls.frontier(crawl) as frontier:
        counters = frontier.counts("hostile").groups[0].counters
    if counters.get("site/overlong/front.follow[0]") == 1:
        links[TOO_LONG] = COUNTED
    links |= dict.fromkeys(numbers(rows), "a row") | dead(crawls, crawl, directory)
    return Outcome(links, keys(crawls.server), f"{len(rows)} rows")


def dead(crawls: Crawls, crawl: str, directory: Path) -> dict[int, str]:
    """By the number of its link, why a page became a dead letter."""
    letters = json.loads(gossamer(crawls, crawl, directory, "dead", "list", "--json"))
    return {int(match[1]): f"dead letter: {row['reason']}" for row in letters if (match := NUMBER.search(row["url"]))}
