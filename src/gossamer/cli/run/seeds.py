"""The seeds of a crawl of sites that could not be read: where a round cannot begin must not end like one with nothing to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.cli import output
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.counter_names import BROKEN, NOWHERE, SEEDS_EMPTY, SEEDS_READ, SEEDS_UNREAD


class SeedCounts:
    """How many seeds of each group were read since this was made, and how many could not be, by reason. `resumed`: other seeds of
    the round may have been read before."""

    def __init__(self, frontier: ValkeyFrontier, groups: Sequence[str], resumed: bool) -> None:
        self._groups, self._resumed = groups, resumed
        self._before = self._counters(frontier)
        self._read: dict[str, int] = {}
        self._unread: dict[str, dict[str, int]] = {}
        self._empty: dict[str, int] = {}
        self._broken: dict[str, dict[str, int]] = {}
        self._nowhere: dict[str, dict[str, int]] = {}

    def _counters(self, frontier: ValkeyFrontier) -> dict[str, Mapping[str, float]]:
        return {row.group: row.counters for row in frontier.counts().groups if row.group in self._groups}

    def read(self, frontier: ValkeyFrontier) -> None:
        """Note what has come since."""
        now = self._counters(frontier)
        for group in self._groups:
            before, after = self._before.get(group, {}), now.get(group, {})
            grown = {name: round(value - before.get(name, 0)) for name, value in after.items()}
            self._read[group] = grown.get(SEEDS_READ, 0)
            self._empty[group] = grown.get(SEEDS_EMPTY, 0)
            self._broken[group] = {
                name.removeprefix(BROKEN): value
                for name, value in grown.items()
                if value > 0 and name.startswith(BROKEN)
            }
            self._nowhere[group] = {
                name.removeprefix(NOWHERE): value
                for name, value in grown.items()
                if value > 0 and name.startswith(NOWHERE)
            }
            self._unread[group] = {
                name.removeprefix(SEEDS_UNREAD): value
                for name, value in grown.items()
                if value > 0 and name.startswith(SEEDS_UNREAD)
            }

    def figures(self, group: str) -> dict[str, Any]:
        """One group's, for JSON."""
        return {
            "seeds_read": self._read.get(group, 0),
            "seeds_unread": self._unread.get(group, {}),
            "seeds_empty": self._empty.get(group, 0),
            "broken": self._broken.get(group, {}),
            "nowhere": self._nowhere.get(group, {}),
        }

    def report(self) -> bool:
        """Say which seeds could not be read. Returns whether none could be, of any group."""
        for group, reasons in self._unread.items():
            if not reasons:
                continue
            failed, read = sum(reasons.values()), self._read[group]
            why = ", ".join(f"{reason} {number:,}" for reason, number in sorted(reasons.items()))
            which = f"{failed:,} of {failed + read:,} seeds could not be read"
            if not read and not self._resumed:
                which = f"none of {output.counted(failed, 'seed')} could be read"
            output.write_notice(f"{group}: {which} ({why}); the log of the workers names them")
        for group in self._groups:
            if empty := self._empty.get(group, 0):
                output.write_notice(
                    f"{group}: {empty:,} of {output.counted(max(empty, self._read[group]), 'seed')} that could be read had neither "
                    "records nor links; the log of the workers names them"
                )
            for name, many in sorted(self._nowhere.get(group, {}).items()):
                entries = "1 entry" if many == 1 else f"{many:,} entries"
                output.write_notice(
                    f"{group}: {name}: {entries} without an address; the log of the workers names the {name}"
                )
            for name, many in sorted(self._broken.get(group, {}).items()):
                output.write_notice(
                    f"{group}: {name}: {output.counted(many, 'page')} not well-formed, perhaps read in part; look at one: gossamer "
                    "site try URL"
                )
        return any(self._unread.values()) and not any(self._read.values()) and not self._resumed
