"""Rounds that are held: where the fields of a layer have a value on too few of its pages, no more rows are replaced until a person has looked.

What counts is the whole fleet: the coverage that the crawl keeps, with what this worker has read since it last asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from gossamer.courier.transport import Ask
from gossamer.engine.records import RecordSink
from gossamer.engine.sites import ServedLayer
from gossamer.errors import GossamerError
from gossamer.frontier.contract import Frontier
from gossamer.model import FieldCoverage
from gossamer.model.reply import HELD

logger = logging.getLogger(__name__)

PAGES_MIN = 20
"""So many pages of a layer must have been read before a round is held, and in a round before that excuses a field."""
NONE = 0, 0
ASK_PAGES, ASK_SHARE = 5, 0.1
"""The crawl's coverage is asked for again after so many pages, or so large a share of those that are known."""


class _Tally:
    """What is known of a layer in a round: of the fleet when it was last asked, of the pages of this worker since, and of all of these."""

    def __init__(self) -> None:
        self.known_pages = self.own_pages = self.every_pages = 0
        self.known: dict[str, tuple[int, int]] = {}
        self.own: dict[str, tuple[int, int]] = {}
        self.every: dict[str, tuple[int, int]] = {}
        self.before: dict[str, float] = {}
        """The shares of the fields that had few values before, too."""
        self.is_accepted = self.is_known = False

    def add(self, coverage: Mapping[str, tuple[int, int]]) -> None:
        """A page of this worker was read."""
        self.own_pages += 1
        self.every_pages += 1
        for tally in (self.own, self.every):
            for name, counts in coverage.items():
                tally[name] = _sum(tally.get(name, NONE), counts)

    def learn(self, rows: Sequence[FieldCoverage], layer: str, round: int, limit: float) -> None:
        """Take over what the fleet has read."""
        self.own, self.own_pages = {}, 0
        last = dict[str, FieldCoverage]()
        # The page of a function may have records of other layers, too.
        every = [(f"{row.layer}.{row.field}", row) for row in rows if row.field]
        own = [(name, row) for name, row in every if row.layer == layer or name in self.every]
        pages = {row.round: row.asked for row in rows if row.layer == layer and not row.field}
        self.known_pages = pages.get(round, self.known_pages)
        for name, row in own:
            if row.round == round:
                self.known[name] = row.asked, row.found
            elif row.round < round and pages.get(row.round, 0) >= PAGES_MIN:
                last[name] = row
        self.before = {name: row.share for name, row in last.items() if row.share < limit}
        self.is_known = True

    def lowest(self, limit: float) -> tuple[str, int, int] | None:
        """The field with the smallest share below the limit, and its numbers. One that was below it before may fall by as much as one that
        was whole, and to half of what it was: the first pages say little of a share."""
        pages, of_fleet = self.known_pages + self.own_pages, True
        if pages < self.every_pages:
            # What this worker has read may still be on its way.
            pages, of_fleet = self.every_pages, False
        if pages < PAGES_MIN:
            return None
        low = None
        for name in {*self.known, *self.every}:
            asked, found = (
                _sum(self.known.get(name, NONE), self.own.get(name, NONE)) if of_fleet else self.every.get(name, NONE)
            )
            before = self.before.get(name)
            least = limit if before is None else min(before / 2, before - 1.0 + limit)
            if asked and found / asked < least and (low is None or found / asked < low[2] / low[1]):
                low = name, asked, found
        return low


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


class RoundHolds:
    """Decides for each page of a layer with a `hold` whether it may be stored. `ask` calls verbs of the frontier."""

    def __init__(self, ask: Ask, record_sink: RecordSink) -> None:
        self._ask, self._record_sink = ask, record_sink
        self._tallies: dict[tuple[str, str], tuple[int, _Tally]] = {}
        self._holding = asyncio.Lock()
        """One page at a time: the note of a round says which layers have been looked at."""

    async def refusal(self, layer: ServedLayer, round: int, coverage: Mapping[str, tuple[int, int]]) -> str:
        """Why the page is not to be stored now, for its round is held; "" if it may be. GossamerError if the frontier cannot be asked."""
        limit, site = layer.hold, layer.site.name
        if limit is None or not coverage:
            return ""
        number, tally = self._tallies.get((site, layer.name), (-1, _Tally()))
        if number != round:
            tally = _Tally()
            self._tallies[site, layer.name] = round, tally
        if tally.is_accepted:
            return ""
        tally.add(coverage)
        due = tally.own_pages >= max(ASK_PAGES, ASK_SHARE * tally.known_pages)
        if tally.is_known and not due and tally.lowest(limit) is None:
            return ""
        tally.learn(await self._ask(Frontier.coverage, [site]), layer.name, round, limit)
        low = tally.lowest(limit)
        if low is None:
            return ""
        async with self._holding:
            return await self._held(layer, round, tally, low)

    async def _held(self, layer: ServedLayer, round: int, tally: _Tally, low: tuple[str, int, int]) -> str:
        site, (name, asked, found) = layer.site.name, low
        rounds = await self._ask(Frontier.rounds, site)
        note = next((info.note for info in rounds if info.round == round), "")
        paused = [row.paused for row in (await self._ask(Frontier.counts, site)).groups]
        if paused and paused[0].startswith(HELD):
            return paused[0]
        if any(f"{HELD}{one}." in note for one in (layer.name, name.partition(".")[0])):
            # Somebody has looked at this layer, and resumed the round.
            tally.is_accepted = True
            return ""
        why = (
            f"{HELD}{name} has a value in {found:,} of {asked:,} records of round {round} ({found / asked:.0%}, hold: {layer.hold:.0%}); "
            f"if that is right, gossamer group resume {site}"
        )
        # First of all, so that no end of this round takes the rows for gone that it did not bring.
        if layer.site.keeps_gone and not await self._record_sink.note_gap(layer.site, round, "", "the round was held"):
            return f"{HELD}the database could not be reached in time"
        await self._ask(Frontier.pause, group=site, reason=why)
        await self._ask(Frontier.round_note, site, round, {"note": "; ".join(filter(None, (note, why)))})
        logger.error("Round %d of %s is %s", round, site, why)
        return why

    def forget(self, site: str) -> None:
        """Begin anew: the site is served by another file."""
        for key in [key for key in self._tallies if key[0] == site]:
            del self._tallies[key]


async def check_hold(holds: RoundHolds, layer: ServedLayer, round: int, coverage: Mapping[str, tuple[int, int]]) -> str:
    """As `refusal`; a frontier that cannot be asked holds the page as well."""
    try:
        return await holds.refusal(layer, round, coverage)
    except GossamerError as error:
        return f"{HELD}the crawl's coverage is not known: {error}"
