"""Pages that failed in a round: the next one may fetch them again."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.engine.page.payload import unpack
from gossamer.engine.page.redirects import marked
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.sites import ServedSite
from gossamer.errors import DecodingError
from gossamer.frontier.contract import Frontier
from gossamer.model import DeadLetter, LanePolicy, SeenScope

AT_ONCE = 1000
"""How many dead letters or pages a call is about, on each partition."""


class FailedPages:
    """The dead letters of sites, each of which stands for the page that was linked and led there, by redirects or not."""

    def __init__(self, calls: RoundCalls) -> None:
        self._calls = calls

    async def want_again(self, site: ServedSite, number: int) -> None:
        """Let pages be fetched again that failed in the round before, should this one find them; those that failed earlier were
        allowed to then. A page that had redirected is found by the URLs before that, too. Of a page that failed in several rounds, only the
        last dead letter is kept."""
        lanes = site.lanes()
        past = [info for info in await self._calls.patiently(Frontier.rounds, site.name, 2) if info.round < number]
        since = past[0].began or 0.0 if past else 0.0
        pages: dict[tuple[str, int], list[DeadLetter]] = {}
        for letter in await self._letters(site):
            layer = letter.lane.rpartition(".")[2]
            if letter.fingerprint and layer in lanes and outlives(lanes[layer]):
                pages.setdefault((letter.lane, letter.fingerprint), []).append(letter)

        def is_late(letter: DeadLetter) -> bool:
            records = lanes[letter.lane.rpartition(".")[2]].records
            wait = 0.0 if records is None else records.failed
            return wait is not None and letter.at + wait >= since

        # Many pages may have redirected to the one URL that failed.
        marks = await self._marks(
            site, [letter for failures in pages.values() for letter in failures if len(failures) > 1 or is_late(letter)]
        )
        lately: dict[str, set[int]] = {}
        outdated: list[DeadLetter] = []
        for (lane, fingerprint), failures in pages.items():
            records = lanes[lane.rpartition(".")[2]].records
            last: dict[int, DeadLetter] = {}
            for letter in failures:
                before = marks.get((letter.partition, letter.id), ())
                first = before[0] if before else fingerprint
                if first in last:
                    outdated.append(last[first])
                last[first] = letter
                # When a page that has a record is fetched again, the record's policy says.
                if is_late(letter):
                    lately.setdefault(lane, set()).update(before if records else (fingerprint, *before))
        for lane, failed in lately.items():
            for some in _parts(list(failed)):
                await self._calls.patiently(Frontier.forget, lane, some)
        if site.conditional and lately:
            # A list that has not changed would not be read, and so not lead to them.
            await self._calls.patiently(Frontier.forget_page_versions, site.name)
        for partition, numbers in _by_partition(outdated).items():
            for some in _parts(numbers):
                await self._calls.patiently(Frontier.drop_dead, partition, some)

    async def _letters(self, site: ServedSite) -> list[DeadLetter]:
        """All dead letters of a site, without their payloads."""
        letters: list[DeadLetter] = []
        after = 0
        while page := await self._calls.patiently(Frontier.dead_letters, site.name, after, AT_ONCE):
            letters += page
            after += AT_ONCE
        return letters

    async def _marks(self, site: ServedSite, letters: Sequence[DeadLetter]) -> dict[tuple[int, int], Sequence[int]]:
        """By partition and number: the fingerprints of the URLs that redirected to a page that failed, the first one first."""
        marks: dict[tuple[int, int], Sequence[int]] = {}
        parts = [(partition, some) for partition, all in _by_partition(letters).items() for some in _parts(all)]
        for partition, numbers in parts:
            while numbers and (found := await self._calls.patiently(Frontier.read_dead, partition, numbers)):
                numbers = numbers[numbers.index(found[-1].id) + 1 :]
                for letter in found:
                    try:
                        request = unpack(letter)
                    except DecodingError:
                        continue
                    marks[partition, letter.id] = marked(site.layers[request.layer], request).marks
        return marks


def outlives(lane: LanePolicy) -> bool:
    """Whether what a lane has seen in one round is seen in the next."""
    return not lane.records.newer if lane.records is not None else lane.seen.scope is not SeenScope.ROUND


def _by_partition(letters: Sequence[DeadLetter]) -> dict[int, list[int]]:
    """The numbers of dead letters."""
    numbers: dict[int, list[int]] = {}
    for letter in letters:
        numbers.setdefault(letter.partition, []).append(letter.id)
    return numbers


def _parts(numbers: list[int]) -> list[list[int]]:
    return [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]
