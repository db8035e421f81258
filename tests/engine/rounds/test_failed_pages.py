"""Pages that failed in a round, and the next one."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from tests.support.native_crawl import Crawl
from tests.support.site import Reply, Site, links

from gossamer.engine.page.payload import pack, unpack
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.failed_pages import FailedPages
from gossamer.engine.sites import ServedSite
from gossamer.model import DeadLetter
from gossamer.model.page import PageRequest
from gossamer.sites.compile import compile_site
from gossamer.sites.file.load import load_text

SITE = """
site: pages
seeds: [http://s.example/list]
layers:
  list: {match: ^/list, seen: round, follow: [{css: a, to: page}]}
  page: {match: ^/page/, fields: {title: title}}
"""
MOST = 700


class Calls:
    """A frontier with many dead letters on two partitions, which counts the calls."""

    def __init__(self, letters: list[DeadLetter]) -> None:
        self.letters = letters
        self.made: Counter[str] = Counter()
        self.forgotten: set[int] = set()

    async def patiently(self, verb: Any, *args: Any) -> Any:
        self.made[verb.__name__] += 1
        return getattr(self, f"_{verb.__name__}")(*args)

    def _rounds(self, group: str, limit: int) -> list[Any]:
        return []

    def _dead_letters(self, group: str, after: int, limit: int) -> list[DeadLetter]:
        each = [[letter for letter in self.letters if letter.partition == one] for one in (0, 1)]
        return [letter._replace(payload=b"") for some in each for letter in some[after : after + limit]]

    def _read_dead(self, partition: int, numbers: list[int]) -> list[DeadLetter]:
        found = {letter.id: letter for letter in self.letters if letter.partition == partition}
        return [found[number] for number in numbers[:MOST] if number in found]

    def _seen(self, lane: str, fingerprints: list[int]) -> list[bool]:
        return [fingerprint % 10 < 5 for fingerprint in fingerprints]

    def _drop_dead(self, partition: int, numbers: list[int]) -> None:
        self.letters = [one for one in self.letters if one.partition != partition or one.id not in numbers]

    def _forget(self, lane: str, fingerprints: list[int]) -> None:
        self.forgotten.update(fingerprints)


def letter_of(page: PageRequest, number: int, at: float = 0.0) -> DeadLetter:
    kept = pack(page, "pages.page")
    return DeadLetter(
        number % 2, number, "pages", kept.lane, kept.host, 0, kept.fingerprint, 1, "", "", at, kept.payload
    )


async def test_many_dead_letters_are_read_by_few_calls() -> None:
    site = ServedSite(compile_site(load_text(SITE)[0]))
    letters = []
    for number in range(5000):
        page = site.compiled.link(f"http://s.example/page/{number}", "page")
        hop = page._replace(fingerprint=number + 1, hops=["http://s.example/page/0"], marks=[page.fingerprint])
        letters.append(letter_of(hop, number))
    calls = Calls(letters)
    await FailedPages(cast(RoundCalls, calls)).want_again(site, 1)
    pages = {site.compiled.link(f"http://s.example/page/{number}", "page").fingerprint for number in range(5000)}
    assert calls.forgotten == pages | set(range(1, 5001))
    assert calls.made == {"rounds": 1, "dead_letters": 4, "read_dead": 2 * 5, "forget": 10}


async def test_which_dead_letters_go_when_a_round_is_over() -> None:
    """Fingerprints that end with 0 to 4 were found in the round, which began at 10."""
    page = PageRequest("http://s.example/page/")
    found, lost, failed, again, task, hop = (
        page._replace(fingerprint=number, task={"id": 1} if number == 24 else {}) for number in (21, 28, 22, 23, 24, 29)
    )
    calls = Calls(
        [
            letter_of(found, 1),
            letter_of(lost, 2),
            letter_of(failed, 3, at=11.0),
            letter_of(again, 4),
            letter_of(again, 5, at=12.0),
            letter_of(task, 6),
            letter_of(hop._replace(hops=["http://s.example/old"], marks=[20]), 7),
            letter_of(hop._replace(hops=["http://s.example/other"], marks=[26]), 8),
        ]
    )
    await FailedPages(cast(RoundCalls, calls)).round_over(ServedSite(compile_site(load_text(SITE)[0])), 10.0)
    assert sorted(letter.id for letter in calls.letters) == [2, 3, 5, 6, 8]


@pytest.mark.parametrize("seen", ["seen: round, ", "", "seen: {policy: bloom, capacity: 1000}, "])
async def test_the_dead_letter_of_a_page_goes_when_a_later_round_has_read_it(
    crawl: Crawl, site: Site, seen: str
) -> None:
    """That of a page that later rounds do not find stays until one does. Of a page that fails in each round, only the last one stays."""
    crawl.push(f"""
    site: pages
    seeds: [SITE/list]
    politeness: {{robots: ignore}}
    request: {{retries: 0}}
    layers:
      list: {{match: ^/list, seen: round, follow: [{{css: a, to: page}}]}}
      page: {{match: ^/page/, {seen}fields: {{title: title}}}}
    """)
    everything = ["/page/read", "/page/lost", "/page/never", "/page/good"]
    for path in everything[:3]:
        site.on(path, Reply(500))
    left = []
    for number, found in enumerate((everything, everything[:1] + everything[2:], everything)):
        site.on("/list", links(*found))
        if number:
            site.on("/page/read").on("/page/lost")
            with crawl.frontier() as frontier:
                frontier.new_round("pages", number)
        await crawl.run()
        with crawl.frontier() as frontier:
            letters = frontier.dead_letters("pages")
            left.append(
                [unpack(one).url for letter in letters for one in frontier.read_dead(letter.partition, [letter.id])]
            )
    paths = [sorted(url.removeprefix(site.url) for url in urls) for urls in left]
    assert paths == [sorted(everything[:3]), ["/page/lost", "/page/never"], ["/page/never"]]
    assert {item["title"] for item in crawl.items("pages")} == {"/page/read", "/page/lost", "/page/good"}
