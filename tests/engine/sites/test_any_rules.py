"""Any order of rules, of which some come back: after a round the rows are what the rules of that round read, although pages that have not
changed are not sent again."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from itertools import count
from typing import NamedTuple

import pytest
from tests.support.native_crawl import Crawl, until, working
from tests.support.site import Reply, Site, Visit, links

from gossamer.engine.job import NativeJob
from gossamer.engine.worker import NativeWorker

PAGES, STEPS = 3, 8


class Rules(NamedTuple):
    """What differs between versions of the file."""

    layer: str
    family: str
    table: str
    element: str
    conditional: bool
    stage: str
    seen: str

    @property
    def text(self) -> str:
        stage = f"stage: {self.stage}, " if self.stage else ""
        return f"""
        site: pages
        seeds: [SITE/list]
        politeness: {{robots: ignore}}
        request: {{conditional: {str(self.conditional).lower()}}}
        layers:
          list: {{match: ^/list, seen: round, follow: [{{css: a, match: '/{self.family}/', to: {self.layer}}}]}}
          {self.layer}:
            {{match: '^/[ab]/', {stage}{self.seen}, fields: {{id: {{from: url, regex: '(\\d+)$', type: int}}, said: {self.element}}}}}
        store: {{{self.layer}: {{table: {self.table}, key: [id]}}}}
        """


def chosen(rng: random.Random) -> Rules:
    seen = rng.choice(("seen: round", "page_records: true, seen: round", "revisit: 1d, rediscover: {finished: now}"))
    return Rules(
        rng.choice(("page", "leaf")),
        rng.choice("ab"),
        rng.choice(("one", "two")),
        rng.choice(("b", "i")),
        rng.random() < 0.8,
        rng.choice(("", "details")),
        seen,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.timeout(300)
async def test_rows_are_what_the_rules_of_the_round_read(crawl: Crawl, site: Site, seed: int) -> None:
    rng = random.Random(seed)
    edition = dict.fromkeys((f"/{family}/{number}" for family in "ab" for number in range(PAGES)), 0)
    site.on("/list", links(*edition))

    def answer(visit: Visit) -> Reply | None:
        if visit.path not in edition:
            return None
        tag = f'"{edition[visit.path]}"'
        if visit.headers.get("If-None-Match") == tag:
            return Reply(304, body="")
        said = f"{visit.path} {edition[visit.path]}"
        return Reply(body=f"<b>b {said}</b><i>i {said}</i>", headers={"ETag": tag})

    site.answer(answer)
    versions, rounds = [chosen(rng)], count(1)

    async def crawled(rules: Rules, begun: int = 0) -> None:
        if begun:
            with crawl.frontier() as frontier:
                frontier.new_round("pages", begun)
        await crawl.run()
        with closing(sqlite3.connect(crawl.folder / "items.db")) as rows:
            stored = dict(rows.execute(f"SELECT id, said FROM {rules.table}"))
        paths = [f"/{rules.family}/{number}" for number in range(PAGES)]
        assert stored == {n: f"{rules.element} {path} {edition[path]}" for n, path in enumerate(paths)}, rules

    crawl.push(versions[0].text)
    await crawled(versions[0])
    for _ in range(STEPS):
        if rng.random() < 0.3:
            for path in rng.sample(sorted(edition), 2):
                edition[path] += 1
        versions.append(rng.choice(versions) if rng.random() < 0.5 else chosen(rng))
        if rng.random() < 0.3:
            # It is pushed in the middle of a round, which other rules go on with.
            held = f"/{versions[-2].family}/1"
            site.hold(held)
            site.visits.clear()
            with crawl.frontier() as frontier:
                frontier.new_round("pages", next(rounds))
                async with working(NativeWorker(crawl.settings, NativeJob(stage=None, forever=True))):
                    await asyncio.to_thread(site.reached, held)
                    crawl.push(versions[-1].text)
                    site.release(held)
                    await until(lambda: frontier.drained("pages").drained)
        crawl.push(versions[-1].text)
        await crawled(versions[-1], next(rounds))
    assert crawl.dead("pages") == []
