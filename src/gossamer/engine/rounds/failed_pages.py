"""Pages that failed in a round: the next one may fetch them again, and then their dead letters go."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from gossamer.engine.page.payload import unpack
from gossamer.engine.page.redirects import marked
from gossamer.engine.rounds.calls import RoundCalls
from gossamer.engine.sites import ServedSite
from gossamer.errors import DecodingError
from gossamer.frontier.contract import Frontier
from gossamer.model import DeadLetter, LanePolicy, SeenScope

T = TypeVar("T")

AT_ONCE = 1000
"""How many dead letters or pages a call is about, on each partition."""


class _Failure(NamedTuple):
    """What a dead letter says of its page: the fingerprints that it had before redirects, whether somebody pushed it as a task, and, of a
    page turn, the first page that is fetched again when its list says that it has changed."""

    marks: Sequence[int] = ()
    is_task: bool = False
    firsts: Sequence[int] = ()


class FailedPages:
    """The dead letters of sites. Each stands for the page that was linked, also where redirects led to another one that failed."""

    def __init__(self, calls: RoundCalls) -> None:
        self._calls = calls

    async def want_again(self, site: ServedSite, number: int) -> None:
        """A round begins: let pages be fetched again that failed in the round before, should this one find them; those that failed
        earlier were allowed to then. A page that had redirected is found by the URLs before that, too. A page turn is found by its first
        page: that is fetched again, whatever its list says."""
        lanes = site.lanes()
        past = [info for info in await self._calls.patiently(Frontier.rounds, site.name, 2) if info.round < number]
        since = past[0].began or 0.0 if past else 0.0

        def is_late(letter: DeadLetter) -> bool:
            lane = lanes[_layer(letter)]
            wait = 0.0 if lane.records is None else lane.records.failed
            return outlives(lane) and wait is not None and letter.at + wait >= since

        letters = await self._letters(site)
        often = Counter((letter.lane, letter.fingerprint) for letter in letters)
        failures = await self._failures(
            site, [letter for letter in letters if is_late(letter) or often[letter.lane, letter.fingerprint] > 1]
        )
        wanted: dict[str, set[int]] = {}
        firsts: dict[str, set[int]] = {}
        for letter in filter(is_late, letters):
            before = failures[_name(letter)].marks
            firsts.setdefault(letter.lane, set()).update(failures[_name(letter)].firsts)
            # When a page that has a record is fetched again, the record's policy says.
            found = before if lanes[_layer(letter)].records else (letter.fingerprint, *before)
            wanted.setdefault(letter.lane, set()).update(found)
        for lane, fingerprints in wanted.items():
            for some in _parts(list(fingerprints)):
                await self._calls.patiently(Frontier.forget, lane, some)
        for lane, fingerprints in firsts.items():
            for some in _parts(list(fingerprints)):
                await self._calls.patiently(Frontier.forget_texts, lane, some)
        await self._drop(_outdated(letters, failures))

    async def round_over(self, site: ServedSite, began: float) -> None:
        """A round is over: drop the dead letters of earlier ones whose pages have failed again, or were found again and did not. Those of
        pages that were not found stay; so do those of tasks, which only their producers push again."""
        letters = await self._letters(site)
        if all(letter.at >= began for letter in letters):
            return
        lanes, failures = site.lanes(), await self._failures(site, letters)
        outdated = _outdated(letters, failures)
        known = {_name(letter) for letter in outdated}
        earlier: dict[str, list[DeadLetter]] = {}
        for letter in letters:
            if letter.at < began and _name(letter) not in known and not failures[_name(letter)].is_task:
                earlier.setdefault(letter.lane, []).append(letter)
        for lane, all_of_it in earlier.items():
            for some in _parts(all_of_it):
                if lanes[_layer(some[0])].records is not None:
                    numbers = [letter.fingerprint for letter in some]
                    records = await self._calls.patiently(Frontier.page_records, lane, numbers)
                    pairs = zip(some, records, strict=True)
                    outdated += [letter for letter, page in pairs if page is not None and page.last > letter.at]
                else:
                    numbers = [_mark(letter, failures) for letter in some]
                    seen = await self._calls.patiently(Frontier.seen, lane, numbers)
                    outdated += [letter for letter, found in zip(some, seen, strict=True) if found]
        await self._drop(outdated)

    async def _letters(self, site: ServedSite) -> list[DeadLetter]:
        """All dead letters of a site's pages, without their payloads."""
        lanes = site.lanes()
        letters: list[DeadLetter] = []
        after = 0
        while some := await self._calls.patiently(Frontier.dead_letters, site.name, after, AT_ONCE):
            letters += [letter for letter in some if letter.fingerprint and _layer(letter) in lanes]
            after += AT_ONCE
        return letters

    async def _failures(self, site: ServedSite, letters: Sequence[DeadLetter]) -> Mapping[tuple[int, int], _Failure]:
        """By partition and number. Those that are gone, or are no requests of a site, say nothing."""
        failures: defaultdict[tuple[int, int], _Failure] = defaultdict(_Failure)
        for partition, all_of_it in _by_partition(letters).items():
            for numbers in _parts(all_of_it):
                while numbers and (found := await self._calls.patiently(Frontier.read_dead, partition, numbers)):
                    numbers = numbers[numbers.index(found[-1].id) + 1 :]
                    for letter in found:
                        with suppress(DecodingError):
                            request = unpack(letter)
                            request = marked(site.layers[request.layer], request)
                            failures[_name(letter)] = _Failure(request.marks, bool(request.task), request.firsts)
        return failures

    async def _drop(self, letters: Sequence[DeadLetter]) -> None:
        for partition, numbers in _by_partition(letters).items():
            for some in _parts(numbers):
                await self._calls.patiently(Frontier.drop_dead, partition, some)


def outlives(lane: LanePolicy) -> bool:
    """Whether what a lane has seen in one round is seen in the next."""
    return not lane.records.newer if lane.records is not None else lane.seen.scope is not SeenScope.ROUND


def _layer(letter: DeadLetter) -> str:
    return letter.lane.rpartition(".")[2]


def _name(letter: DeadLetter) -> tuple[int, int]:
    return letter.partition, letter.id


def _mark(letter: DeadLetter, failures: Mapping[tuple[int, int], _Failure]) -> int:
    """The fingerprint of the page that was linked: many pages may have redirected to the one URL that failed."""
    marks = failures[_name(letter)].marks
    return marks[0] if marks else letter.fingerprint


def _outdated(letters: Sequence[DeadLetter], failures: Mapping[tuple[int, int], _Failure]) -> list[DeadLetter]:
    """All dead letters of a page but the last."""
    last: dict[tuple[str, int], DeadLetter] = {}
    outdated: list[DeadLetter] = []
    for letter in sorted(letters, key=lambda letter: letter.at):
        page = letter.lane, _mark(letter, failures)
        if page in last:
            outdated.append(last[page])
        last[page] = letter
    return outdated


def _by_partition(letters: Sequence[DeadLetter]) -> dict[int, list[int]]:
    """The numbers of dead letters."""
    numbers: dict[int, list[int]] = {}
    for letter in letters:
        numbers.setdefault(letter.partition, []).append(letter.id)
    return numbers


def _parts(many: list[T]) -> list[list[T]]:
    return [many[at : at + AT_ONCE] for at in range(0, len(many), AT_ONCE)]
