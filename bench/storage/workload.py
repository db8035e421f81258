"""The requests that both sides are given: which URLs exist, and which links stand on a page."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

RUN = 15
"""So many consecutive requests share a host, as the links of one page mostly do."""
LINKS = 15
FIELDS: dict[str, Any] = {
    "url": "",
    "callback": "parse_post",
    "errback": None,
    "headers": {},
    "method": "GET",
    "body": b"",
    "cookies": {},
    "meta": {"depth": 3},
    "encoding": "utf-8",
    "priority": 0,
    "dont_filter": False,
    "flags": [],
    "cb_kwargs": {},
}


class Site(NamedTuple):
    """URLs by number. `run` consecutive ones share one of `hosts` hosts."""

    hosts: int = 100
    run: int = RUN

    def url(self, number: int) -> str:
        host = number // self.run % self.hosts
        return f"https://forum{host:05d}.example.com/section/{number % 97:02d}/topic/{number:08d}-a-title-as-usual?page={number % 9 + 1}"

    def urls(self, first: int, count: int) -> list[str]:
        return [self.url(number) for number in range(first, first + count)]

    def links(self, pages: int, known: int, client: int = 0) -> list[list[str]]:
        """The links of so many pages: 15 each, all on one host, one or two of them new and the others among the first `known`.
        Each client has new ones of its own."""
        choice = random.Random(client)
        runs = max(1, known // self.run)
        fresh = runs // self.hosts + 1 + client * 20_000
        found = []
        for page in range(pages):
            run, new = choice.randrange(runs), 1 + page % 2
            old = [self.url(run * self.run + choice.randrange(self.run)) for _ in range(LINKS - new)]
            first = ((fresh + page) * self.hosts + run % self.hosts) * self.run
            found.append(old + self.urls(first, new))
        return found
