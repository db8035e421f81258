"""The audit of a crawl of `manysites`: what the hosts' access log and the tables must have, and nothing else. Pure; every function answers
with what is wrong, in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.many_sites.pages import ARTICLES, PAUSED, PRODUCTS, RUSSIAN, comments_of, number_of, price
from tests.support.many_sites.server import Access

Key = tuple[int, str, str]
"""Host, method and target without the parameters that do not count."""


class Story(NamedTuple):
    """What was done to the crawl. `rounds` are those begun of `scheduled` and `changed`; `again` how many pages may have been
    asked for once more because a worker was killed."""

    news: Mapping[str, int]
    """The host of each news site, by name."""
    shops: Sequence[str]
    scheduled: int
    changed: int
    again: int
    delays: Mapping[int, float]
    most: Mapping[int, int]
    slack: float = 1.5
    """Seconds that a request may be late on its way."""


def key_of(access: Access) -> Key:
    path, _, query = access.target.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith(("utm_", "ref="))]
    return access.host, access.method, path + (f"?{'&'.join(kept)}" if kept else "")


def expected(story: Story) -> Counter[Key]:
    """How often each page must have been asked for, at least."""
    counts: Counter[Key] = Counter()
    for name, host in story.news.items():
        number, base = number_of(name), f"/n/{name}"
        paths = [f"{base}/list/{n}" for n in (1, 2)] + [f"{base}/archive/{n}" for n in ("01", "03")]
        paths += [f"{base}/article/{n}" for n in range(1, ARTICLES + 1)] + [f"{base}/go/4", f"{base}/article/404"]
        paths += [
            f"{base}/comments/{n}?page={turn}" for n in range(1, ARTICLES + 1) for turn in range(1, comments_of(n) + 1)
        ]
        counts.update((host, "GET", path) for path in paths)
        for article, every in ((1, 3), (3, 4), (2, 5)):
            counts[host, "GET", f"{base}/article/{article}"] += number % every == 0
    for shop in story.shops:
        paths = [f"/s/{shop}/sitemap.xml", *(f"/s/{shop}/p/{p}" for p in range(1, PRODUCTS + 1))]
        counts.update({(2, "GET", path): 2 for path in paths})
        counts[2, "POST", f"/s/{shop}/search"] += 2
    alone = ["/f/feed.xml", "/f/index.xml", "/f/map.xml", *(f"/f/item/{n}" for n in (1, 2, 3))]
    alone += ["/d/a/0", "/d/b/1", "/d/a/2", "/d/b/3", "/r/list", "/r/open/1", "/r/open/2", "/w/1", "/w/2"]
    alone += ["/k/list", *(f"/k/item/{n}" for n in (1, 2, 3)), "/u/1", "/u/2", "/i/login", "/y/3"]
    alone += [*(f"/t/{n}" for n in range(1, 6)), "/c/0"]
    counts.update((3, "GET", path) for path in alone)
    counts[3, "POST", "/i/api"] += 1
    counts.update({(3, "GET", "/w/list"): 2, (3, "GET", "/q/list"): story.scheduled})
    counts.update({(3, "GET", path): story.changed for path in ("/y/list", "/y/1", "/y/2")})
    ordered = [f"/o/{kind}/{n}" for kind in ("lifo", "prio") for n in ("list", *range(1, 7))] + ["/o/weight/list"]
    ordered += [f"/o/weight/{kind}/{n}" for kind in ("heavy", "light") for n in range(1, 9)]
    counts.update((4, "GET", path) for path in [*ordered, "/o/weight/last/1", "/o/weight/last/2"])
    times = {"list": 1, "heals": 3, "never": 2, "loop": 1, "loop2": 1, "lack": 1, "invalid": 2, "refused": 1, "slow": 2}
    times |= {"reset": 2, "gone": 1, "hops": 1, "arrived": 1, "fine": 1, "raises": 1}
    counts.update({(5, "GET", f"/e/{name}"): many for name, many in times.items()})
    counts.update((6, "GET", f"/x/{n}") for n in range(1, 7))
    counts[6, "GET", "/x/3"] += 1
    counts.update((7, "GET", f"/p/{n}") for n in range(1, 9))
    counts.update((8, "GET", f"/z/{n}") for n in ("list", *range(PAUSED)))
    return counts


def pages(log: Sequence[Access], story: Story) -> list[str]:
    """Everything once, no more often than a killed worker explains, and nothing that nobody should ask for."""
    wrong = []
    # What limits.pages leaves is a matter of chance, but not how many they are.
    capped = Counter(one.path for one in log if re.fullmatch(r"/c/\d+", one.path))
    if not 4 <= len(capped) <= 5:
        wrong.append(f"limits.pages: 4 came to {len(capped)} pages: {dict(capped)}")
    found = Counter(
        key_of(one) for one in log if one.path != "/robots.txt" and not re.fullmatch(r"/c/[1-9]\d*", one.path)
    )
    wanted, again = expected(story), 0
    for key, count in wanted.items():
        if found[key] < count:
            wrong.append(f"{key} was asked for {found[key]} times instead of {count}")
        if found[key] > count + 2:
            wrong.append(f"{key} was asked for {found[key]} times instead of {count}")
        again += max(0, found[key] - count)
    wrong += [f"{key} was asked for, and should not have been" for key in found if key not in wanted]
    if again > story.again:
        wrong.append(f"{again} pages were asked for again; the kill explains {story.again}")
    return wrong


def politeness(log: Sequence[Access], story: Story) -> list[str]:
    """What the hosts saw of the whole fleet: never too many at a time, never too close together, and a rest where one was asked for."""
    wrong = []
    for host, most in story.most.items():
        changes = sorted(
            change for one in log if one.host == host and one.until for change in ((one.at, 1), (one.until, -1))
        )
        now = highest = 0
        for _, change in changes:
            now += change
            highest = max(highest, now)
        if highest > most:
            wrong.append(f"host {host} was asked for {highest} pages at a time instead of {most}")
    for host, delay in story.delays.items():
        times = sorted(one.at for one in log if one.host == host)
        for first, earlier in enumerate(times):
            for later in range(first + 1, len(times)):
                if times[later] - earlier < (later - first) * delay - story.slack:
                    wrong.append(
                        f"host {host}: {later - first + 1} requests within {times[later] - earlier:.2f} s, "
                        f"{delay} s apart were asked for"
                    )
                    break
    for one in log:
        if one.status == 429:
            following = min((other.at for other in log if other.host == one.host and other.at > one.until), default=0.0)
            if following and following - one.until < 1.95:
                wrong.append(f"{one.target} asked for 2 s of rest and had {following - one.until:.2f} s")
    return wrong


def order(log: Sequence[Access]) -> list[str]:
    """What comes first, on a host that is asked for one page at a time."""
    wrong = []
    paths = [one.path for one in log if one.host == 4]
    lifo = [int(path.rpartition("/")[2]) for path in paths if re.fullmatch(r"/o/lifo/\d", path)]
    if lifo != sorted(lifo, reverse=True):
        wrong.append(f"the newest first: {lifo}")
    best = [int(path.rpartition("/")[2]) for path in paths if re.fullmatch(r"/o/prio/\d", path)]
    if best != [2, 5, 1, 4, 3, 6]:
        wrong.append(f"by priority: {best}")
    kinds = [path.split("/")[3] for path in paths if re.fullmatch(r"/o/weight/\w+/\d", path)]
    if kinds[-2:] != ["last", "last"]:
        wrong.append(f"by tier: {kinds}")
    if not 5 <= kinds[:8].count("heavy") <= 7:
        wrong.append(f"three to one by weight: {kinds}")
    return wrong


def details(log: Sequence[Access], worker: str) -> list[str]:
    """Comments are the business of one pool, which has no other."""
    wrong = [
        f"{one.target} was asked for by {one.who}"
        for one in log
        if one.path != "/robots.txt" and ("/comments/" in one.path) != (one.who == worker)
    ]
    return wrong[:5]


def rows(tables: Mapping[str, list[dict[str, Any]]], story: Story, urls: Mapping[int, str]) -> list[str]:
    """Every row once, with its values."""
    wrong: list[str] = []

    def compare(name: str, columns: Sequence[str], wanted: Iterable[tuple[Any, ...]]) -> None:
        found = Counter(tuple(_plain(row[column]) for column in columns) for row in tables[name])
        right = Counter(tuple(map(_plain, row)) for row in wanted)
        wrong.extend(f"{name}: {count} times {row} is missing" for row, count in list((right - found).items())[:3])
        wrong.extend(f"{name}: {count} times {row} is too many" for row, count in list((found - right).items())[:3])

    news, numbers = story.news, range(1, ARTICLES + 1)
    compare(
        "articles",
        ("site", "id", "title", "author", "uid", "views", "rating", "tags", "markup", "etag", "section", "source", "comments"),
        (
            (
                site, n, f"Title {n} of {site}", f"Author {n}" if n % 2 else None, None if n % 2 else f"u{n}", n * 100,
                f"{n}.5", ["a", f"b{n}"], f"<i>b{n}</i>", f"{site}-{n}", f"Section {(n + 1) // 2}", f"news of {site}", n % 3,
            )
            for site in news
            for n in numbers
        ),
    )  # fmt: skip
    compare("articles", ("site", "id", "url", "parent"), (
        (site, n, f"{urls[host]}/n/{site}/article/{n}", f"{urls[host]}/n/{site}/list/{(n + 1) // 2}")
        for site, host in news.items() for n in numbers
    ))  # fmt: skip
    wrong += [
        f"articles: {row['published']} is not ten o'clock in Berlin"
        for row in tables["articles"]
        if not re.match(r"2024-05-0\dT08:00:00", str(row["published"]))
    ]
    compare("articles_paras", ("parent_site", "parent_id", "text", "nr"), (
        (site, n, f"Paragraph {p} of {n}", p) for site in news for n in numbers for p in range(n)
    ))  # fmt: skip
    compare("comments", ("site", "id", "body", "likes", "article"), (
        (site, f"{n}-{turn}-{c}", f"Comment {c} on {n}", c, n)
        for site in news for n in numbers for turn in range(1, comments_of(n) + 1) for c in range(2)
    ))  # fmt: skip
    compare("products", ("site", "sku", "name", "price"), (
        (shop, p, f"Product {p}", price(p, epoch))
        for shop in story.shops for p in range(1, PRODUCTS + 1) for epoch in ((1, 2) if p == 1 else (1,))
    ))  # fmt: skip
    titled = {
        "feedy": [(f"{urls[3]}/f/item/{n}", f"f/item {n}") for n in (1, 2, 3)],
        "tasked": [(f"{urls[3]}/t/{n}", f"t {n}") for n in range(1, 6)],
        "proxied": [(f"{urls[7]}/p/{n}", f"p {n}") for n in range(1, 9)],
        "robotic": [(f"{urls[3]}/r/open/{n}", f"r/open {n}") for n in (1, 2)],
        "faulty": [(f"{urls[5]}/e/{name}", name) for name in ("heals", "slow", "reset", "arrived", "fine")],
        "throttled": [(f"{urls[6]}/x/{n}", f"x{n}") for n in range(1, 7)],
        "paused": [(f"{urls[8]}/z/{n}", f"z {n}") for n in range(PAUSED)],
        "changed": [(f"{urls[3]}/y/{n}", f"y {n}") for n in (1, 2, 3)],
        "remembered": [(f"{urls[3]}/w/{n}", f"w {n}") for n in (1, 2)],
        "charsets_wrong": [(f"{urls[3]}/u/1", RUSSIAN)],
        "charsets_right": [(f"{urls[3]}/u/2", RUSSIAN)],
        "hooked": [(f"{urls[3]}/k/item/{n}", f"K/ITEM {n}") for n in (1, 2)],
    }
    for name, wanted in titled.items():
        compare(name, ("url", "title"), wanted)
    compare("tasked", ("url", "note"), ((f"{urls[3]}/t/{n}", "by hand" if n == 5 else None) for n in range(1, 6)))
    compare("hooked", ("extra",), [("added",)] * 2)
    compare("changed", ("kind",), [("v2",)] * 3)
    compare("private", ("token", "method"), [("t77", "POST")])
    compare("scheduled", ("round", "site", "title"), ((n, "scheduled", "q list") for n in range(story.scheduled)))
    return wrong


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        return repr(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{float(value):.2f}" if isinstance(value, str) and re.fullmatch(r"\d+\.\d+", value) else value
