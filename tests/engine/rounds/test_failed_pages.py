"""Pages that failed in a round, and the next one."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from gossamer.engine.page.payload import pack
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.rounds.failed_pages import FailedPages
from gossamer.engine.sites import ServedSite
from gossamer.model import DeadLetter
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
        self._letters = letters
        self.made: Counter[str] = Counter()
        self.forgotten: set[int] = set()

    async def patiently(self, verb: Any, *args: Any) -> Any:
        self.made[verb.__name__] += 1
        return getattr(self, f"_{verb.__name__}")(*args)

    def _rounds(self, group: str, limit: int) -> list[Any]:
        return []

    def _dead_letters(self, group: str, after: int, limit: int) -> list[DeadLetter]:
        each = [[letter for letter in self._letters if letter.partition == one] for one in (0, 1)]
        return [letter._replace(payload=b"") for some in each for letter in some[after : after + limit]]

    def _read_dead(self, partition: int, numbers: list[int]) -> list[DeadLetter]:
        found = {letter.id: letter for letter in self._letters if letter.partition == partition}
        return [found[number] for number in numbers[:MOST] if number in found]

    def _forget(self, lane: str, fingerprints: list[int]) -> None:
        self.forgotten.update(fingerprints)


async def test_many_dead_letters_are_read_by_few_calls() -> None:
    site = ServedSite(compile_site(load_text(SITE)[0]))
    letters = []
    for number in range(5000):
        page = site.compiled.link(f"http://s.example/page/{number}", "page")
        hop = page._replace(fingerprint=number + 1, hops=["http://s.example/page/0"], marks=[page.fingerprint])
        kept = pack(hop, "pages.page")
        letters.append(
            DeadLetter(
                number % 2, number, "pages", kept.lane, kept.host, 0, kept.fingerprint, 1, "", "", 0.0, kept.payload
            )
        )
    calls = Calls(letters)
    await FailedPages(cast(RoundCalls, calls)).want_again(site, 1)
    pages = {site.compiled.link(f"http://s.example/page/{number}", "page").fingerprint for number in range(5000)}
    assert calls.forgotten == pages | set(range(1, 5001))
    assert calls.made == {"rounds": 1, "dead_letters": 4, "read_dead": 2 * 5, "forget": 10}
