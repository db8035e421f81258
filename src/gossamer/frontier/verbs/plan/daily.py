"""What groups brought on each day. Generators without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.server import keys
from gossamer.model import DailyCounts, FieldCoverage

BEGIN = date(1970, 1, 1)
NAMES = {"done": "finished", "expired": "lost"}
"""The names that are different on the server."""
COVERAGE = {"n": "asked", "v": "found", "b": "blocked", "u": "unstreamed"}
"""What is counted of a field or a layer, as it ends the name of a counter."""


class DailyVerbs:
    """Builds and reads the calls about daily counts of one crawl."""

    def __init__(self, crawl: str, partitions: int) -> None:
        self.bases = [keys.base(crawl, p) for p in range(partitions)]

    def daily_counts(self, group: str, days: int = 400) -> Verb[list[DailyCounts]]:
        replies = yield [function_call("daily_counts", base, {"group": group}) for base in self.bases]
        parts = [read(reply) for reply in replies]
        first = max(today for today, _ in parts) - days + 1
        counted: dict[tuple[int, str], dict[str, int]] = {}
        for _, rows in parts:
            for day, counts in rows:
                if day >= first:
                    for name, number in counts.items():
                        lane, _, what = name.rpartition("|")
                        row = counted.setdefault((day, lane), {})
                        what = NAMES.get(what, what)
                        row[what] = row.get(what, 0) + int(number)
        return [DailyCounts(group, lane, _date(day), **row) for (day, lane), row in sorted(counted.items())]

    def coverage(self, groups: Sequence[str]) -> Verb[list[FieldCoverage]]:
        [reply] = yield [function_call("coverage", self.bases[0], {"groups": list(groups)})]
        counted: dict[tuple[str, int, str, str], dict[str, int]] = {}
        for group, flat in read(reply):
            for name, number in zip(flat[::2], flat[1::2], strict=True):
                place, _, what = name.rpartition("|")
                round, _, where = place.partition("|")
                layer, _, field = where.partition(".")
                row = counted.setdefault((group, int(round), layer, field), {})
                if what in COVERAGE:
                    row[COVERAGE[what]] = int(float(number))
        return [
            FieldCoverage(
                *place, row.get("asked", 0), row.get("found", 0), row.get("blocked", 0), row.get("unstreamed", 0)
            )
            for place, row in sorted(counted.items())
        ]


def stored(counts: DailyCounts) -> tuple[int, dict[str, int]]:
    """The day and its counts as they are kept."""
    names = {told: name for name, told in NAMES.items()}
    numbers = {name: value for name, value in counts._asdict().items() if isinstance(value, int) and value}
    return (counts.day - BEGIN).days, {f"{counts.lane}|{names.get(name, name)}": n for name, n in numbers.items()}


def counters_of(row: FieldCoverage) -> dict[str, float]:
    """The counters that say so."""
    where = f"coverage/{row.round}|{row.layer}{'.' if row.field else ''}{row.field}|"
    return {f"{where}{what}": float(number) for what, name in COVERAGE.items() if (number := getattr(row, name))}


def _date(day: int) -> date:
    return BEGIN + timedelta(days=day)
