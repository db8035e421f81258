"""`conditional: true` on pages that lead to each other: what has not changed is not sent again, and a round goes on below it."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support import fork_server
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, Visit

from gossamer.engine.job import NativeJob
from gossamer.engine.page import conditional
from gossamer.engine.page.conditional import pack_links, unpack_links
from gossamer.engine.worker import NativeWorker
from gossamer.errors import DecodingError
from gossamer.frontier import codec
from gossamer.model.page import PageRequest
from gossamer.settings import load
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text
from gossamer.testing.process import end

WIKI = """
    site: wiki
    seeds: [SITE/w/0]
    seen: round
    politeness: {robots: ignore, concurrency: 4}
    request: {conditional: true, retries: 0}
    layers:
      page:
        match: '^/w/'
        fields: {text: h1}
        follow: [{css: a, to: page}]
    store: {page: {table: pages, key: [url], add: [url]}}
"""


class Wiki:
    """Pages that lead to each other, on a server that knows which version it has sent."""

    def __init__(self, site: Site, seed: int = 0, pages: int = 14) -> None:
        self.site, self.chance = site, random.Random(seed)
        self.texts = dict.fromkeys(range(pages), "1")
        self.links = {number: self._some(pages) for number in range(pages)}
        self.sent: dict[int, str] = {}
        """What a crawler has of each page that it has read."""
        self.moved: dict[int, int] = {}
        """Where these send their visitors."""
        self.log: list[tuple[int, int]] = []
        site.answer(self.answer)

    def _some(self, pages: int) -> set[int]:
        return {self.chance.randrange(pages) for _ in range(self.chance.choice((0, 1, 2, 5)))}

    def tag(self, number: int) -> str:
        return f'"{self.texts[number]}-{sorted(self.links[number])}"'.replace(" ", "")

    def answer(self, visit: Visit) -> Reply:
        number = int(visit.path.rpartition("/")[2])
        if number in self.moved:
            self.log.append((number, 302))
            return Reply(302, headers={"Location": f"/w/{self.moved[number]}"})
        if number not in self.texts:
            self.log.append((number, 404))
            return Reply(404)
        if visit.headers.get("If-None-Match") == self.tag(number):
            self.log.append((number, 304))
            return Reply(304, body="", headers={"ETag": self.tag(number)})
        self.log.append((number, 200))
        body = f"<h1>{self.texts[number]}</h1>" + "".join(f'<a href="/w/{n}">x</a>' for n in sorted(self.links[number]))
        return Reply(body=body, headers={"ETag": self.tag(number)})

    def change(self) -> None:
        """An editor's day."""
        for _ in range(self.chance.randrange(4)):
            number = self.chance.choice(sorted(self.texts))
            match self.chance.choice(("text", "text", "links", "new", "gone", "back", "moved", "stays")):
                case "text":
                    self.texts[number] += "+"
                case "links":
                    self.links[number] = self._some(len(self.links))
                case "new":
                    new = len(self.links)
                    self.texts[new], self.links[new] = "new", self._some(new)
                    self.links[number].add(new)
                case "gone" if number:
                    del self.texts[number]
                case "moved" if number:
                    # To a page that sends on nobody.
                    target = self.chance.choice([one for one in self.links if one not in self.moved and one != number])
                    if number not in self.moved.values():
                        self.moved[number] = target
                case "stays":
                    self.moved.clear()
                case "back":
                    for one in self.links:
                        self.texts.setdefault(one, "back")

    def reached(self) -> set[int]:
        """The pages that a whole crawl asks for, whether they are there or not."""
        found, todo = set[int](), [0]
        while todo:
            number = todo.pop()
            if number not in found:
                found.add(number)
                todo += (
                    [self.moved[number]] if number in self.moved else self.links[number] if number in self.texts else ()
                )
        return found

    def there(self) -> set[int]:
        return {number for number in self.reached() if number in self.texts and number not in self.moved}

    def expected(self) -> dict[int, int]:
        """How each page that is reached must be answered, once."""
        return {
            number: 302
            if number in self.moved
            else 404
            if number not in self.texts
            else 304
            if self.sent.get(number) == self.tag(number)
            else 200
            for number in self.reached()
        }

    def read(self) -> None:
        """A round is over."""
        for number in self.there():
            self.sent[number] = self.tag(number)


def rows(crawl: Crawl, query: str = "select url, text from pages") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(crawl.folder / "items.db")) as database:
        return database.execute(query).fetchall()


async def run_round(crawl: Crawl, workers: int = 1, site: str = "wiki") -> None:
    """The next round, whole."""
    with crawl.frontier() as frontier:
        known = [row.round for row in frontier.counts(site).groups if row.group == site]
        if known:
            frontier.new_round(site, known[0] + 1)
    await asyncio.gather(*(NativeWorker(crawl.settings, NativeJob(stage=None)).run() for _ in range(workers)))


@pytest.mark.parametrize("seed", range(4))
async def test_each_round_is_sent_what_has_changed_and_asks_for_all_that_is_reached(
    crawl: Crawl, site: Site, seed: int
) -> None:
    """Compared with a crawl of the pages as they are, by what the server saw and by the rows."""
    wiki = Wiki(site, seed)
    crawl.push(WIKI)
    texts: dict[str, str] = {}
    for number in range(6):
        if number > 1:
            wiki.change()
        wiki.log.clear()
        expected = wiki.expected()
        await run_round(crawl, workers=1 + seed % 2)
        assert sorted(wiki.log) == sorted(expected.items()), f"round {number}"
        assert number != 1 or set(expected.values()) == {304}
        wiki.read()
        texts |= {f"{site.url}/w/{n}": wiki.texts[n] for n in wiki.there()}
        assert dict(rows(crawl)) == texts, f"round {number}"
    assert crawl.dead("wiki") == []


async def test_what_is_forgotten_for_want_of_room_is_fetched_whole(crawl: Crawl, site: Site) -> None:
    crawl.settings = load({**crawl.given, "GOSSAMER_CONDITIONAL_PAGES": 4})
    wiki = Wiki(site, 1)
    crawl.push(WIKI)
    for _ in range(3):
        wiki.log.clear()
        await run_round(crawl)
        assert {number for number, _ in wiki.log} == wiki.reached()
        assert {text for _, text in rows(crawl)} == {"1"}
        assert len(rows(crawl)) == len(wiki.reached())
    assert sum(status == 304 for _, status in wiki.log) <= 4


async def test_a_page_with_too_many_links_to_be_kept_is_fetched_whole(
    crawl: Crawl, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "LINKS_BYTES", 60)
    wiki = Wiki(site, 1)
    wiki.links = {0: set(range(1, 10)), **{number: {0} for number in range(1, 10)}}
    wiki.texts = dict.fromkeys(wiki.links, "1")
    crawl.push(WIKI)
    for answered in (dict.fromkeys(range(10), 200), {0: 200, **dict.fromkeys(range(1, 10), 304)}):
        wiki.log.clear()
        await run_round(crawl)
        assert dict(wiki.log) == answered


async def test_other_rules_read_all_pages_anew(crawl: Crawl, site: Site) -> None:
    """They may find other links in what has not changed."""
    wiki = Wiki(site, 2)
    crawl.push(WIKI)
    for text in (WIKI, WIKI, WIKI.replace("css: a,", "css: 'a[href]',")):
        crawl.push(text)
        wiki.log.clear()
        await run_round(crawl)
        assert {number for number, _ in wiki.log} == wiki.reached()
    assert {status for _, status in wiki.log} == {200}


async def test_a_worker_that_is_killed_loses_no_page_of_this_round_or_the_next(
    crawl: Crawl, site: Site, tmp_path: Path
) -> None:
    """In the middle of a round of pages that have not changed."""
    wiki = Wiki(site, 3)
    wiki.links = {number: {2 * number + 1, 2 * number + 2} & set(range(14)) for number in range(14)}
    crawl.push(WIKI)
    await run_round(crawl)
    wiki.read()
    with crawl.frontier() as frontier:
        frontier.new_round("wiki", 1)
    words = ["work", "--drained", "--all-stages"]
    for name, value in crawl.given.items():
        words += ["-s", f"{name}={value}"]
    site.hold("/w/2")
    worker = fork_server.start(
        "gossamer", words, environ=os.environ, directory=tmp_path, stdout=tmp_path / "log", options=["-P"]
    )
    try:
        await asyncio.to_thread(site.reached, "/w/2", 2)
        await asyncio.to_thread(site.wait, lambda paths: len(paths) > 14 + 5, "some more pages")
        worker.kill()
        worker.wait(60)
        site.release("/w/2")
        wiki.log.clear()
        await crawl.run()
        assert {number for number, _ in wiki.log} >= {5, 6, 11, 12, 13}, "what the held page leads to"
    finally:
        end(worker)
    wiki.texts[13] = "new"
    for _ in range(2):
        wiki.log.clear()
        expected = wiki.expected()
        await run_round(crawl)
        assert sorted(wiki.log) == sorted(expected.items())
        wiki.read()
    assert dict(rows(crawl)) == {f"{site.url}/w/{number}": text for number, text in wiki.texts.items()}


THREAD = """
    site: board
    seeds: [SITE/list]
    seen: round
    politeness: {robots: ignore, concurrency: 1}
    request: {conditional: true, retries: 0}
    layers:
      list:
        match: '^/list'
        records: li
        fields: {_mood: i}
        follow: [{css: a.item, to: item, pass: {mood: _mood}}, {css: a.next, to: list, pages: 5}]
      item:
        match: '^/item/'
        fields: {text: h1, mood: {from: parent.mood, default: none}}
        follow: [{css: form a, to: answer, method: POST, json: {q: '{text}'}}]
      answer: {match: '^/answer', fields: {text: h1}}
    store: {item: {table: items, key: [url], add: [url]}, answer: {table: answers, key: [text]}}
"""


async def test_page_turns_passed_values_and_posts_are_remembered(crawl: Crawl, site: Site) -> None:
    """A list over three pages that has not changed, whose items have."""
    served: dict[str, str] = {}
    for turn in range(3):
        entries = "".join(
            f'<li><i>mood {n}</i><a class=item href="/item/{n}">x</a></li>' for n in (2 * turn, 2 * turn + 1)
        )
        more = f'<a class=next href="/list?p={turn + 1}">next</a>' if turn < 2 else ""
        served[f"/list?p={turn}" if turn else "/list"] = entries + more
    served |= {f"/item/{n}": f'<h1>item {n}</h1><form><a href="/answer">x</a></form>' for n in range(6)}
    log: list[tuple[str, str, int]] = []

    def answer(visit: Visit) -> Reply:
        if visit.method == "POST":
            log.append((visit.target, visit.body.decode(), 200))
            return Reply(body=f"<h1>about {visit.body.decode()}</h1>")
        body, tag = served[visit.target], f'"{hash(served[visit.target])}"'
        status = 304 if visit.headers.get("If-None-Match") == tag else 200
        log.append((visit.target, "", status))
        return Reply(status, body="" if status == 304 else body, headers={"ETag": tag})

    site.answer(answer)
    crawl.push(THREAD)
    for changed in ((), (), ("/item/3",), ()):
        for target in changed:
            served[target] = served[target].replace("item 3", "item 3 mended")
        asked_before = {target for target, _, _ in log}
        log.clear()
        await run_round(crawl, site="board")
        pages = {target: status for target, body, status in log if not body}
        assert pages == {target: 200 if target in changed or not asked_before else 304 for target in served}, (
            "each once, and sent if it has changed"
        )
        posted = [body for _, body, _ in log if body]
        assert sorted(posted) == sorted(
            {f'{{"q": "{text}"}}' for text, _ in rows(crawl, "select text, mood from items")}
        )
        moods = rows(crawl, "select mood from items order by mood")
        assert moods == [(f"mood {n}",) for n in range(6)]
    assert crawl.dead("board") == []


LINKS = [
    PageRequest("http://h/a", layer="page", depth=3),
    PageRequest("http://h/b", layer="page", depth=3),
    PageRequest("http://h/c", layer="page", depth=2, turn=4, inherited={"a": 1, "b": [None, "ü"]}),
    PageRequest("http://h/d", "POST", {"X": "y"}, {"c": "d"}, b"\0body", "page", depth=3, priority=-2),
    PageRequest("http://h/e?k=${SITE_KEY}", layer="page", depth=3, secrets=("SITE_KEY",), dont_filter=True),
    PageRequest("http://h/f", layer="page", depth=2, turn=1, row=("1", "2")),
    PageRequest("http://h/g", layer="other:page"),
]


def test_links_come_back_as_they_were() -> None:
    [spec] = load_text("site: wiki\nseeds: ['http://h/']\nlayers: {page: {fields: {t: h1}}}\n", "wiki")
    site = compile_site(spec)
    known = [
        link._replace(fingerprint=site.fingerprint("page", link.url, link.method, link.body)) for link in LINKS[:-1]
    ]
    # Page turns that only a header tells apart have a fingerprint of their own.
    known.append(known[0]._replace(fingerprint=2**63 + 1, headers={"Range": "2"}))
    packed = pack_links(known, site, 2)
    assert packed is not None
    assert unpack_links(packed).of(site, 2) == known
    assert [link.depth for link in unpack_links(packed).of(site, 7)] == [8, 8, 7, 8, 8, 7, 8]
    for garbage in (b"", b"garbage", packed[:-3], zlib.compress(b"x"), zlib.compress(codec.encode({"a": 1}))):
        with pytest.raises(DecodingError):
            unpack_links(garbage)
