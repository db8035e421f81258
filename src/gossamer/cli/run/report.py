"""What both kinds of `gossamer crawl` share: a fleet is started and watched, then reported on, with an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossamer.cli import exit_codes, output
from gossamer.cli.run.fields import FieldCounts
from gossamer.cli.run.logs import ONE_FILE, logs
from gossamer.cli.run.seeds import SeedCounts
from gossamer.cli.run.watch import WatchedFleet, watch
from gossamer.errors import UnknownGroup
from gossamer.fleet import Fleet
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import AFTER_ROUND_FAILED, GONE_UNKNOWN, HELD, LOGIN_FAILED, PAGES_FULL
from gossamer.settings import Settings
from gossamer.status.progress import Progress, read_progress_of, with_earlier
from gossamer.status.report import why_unknown


def title_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} sites"


def run_fleet(
    frontier: ValkeyFrontier, settings: Settings, commands: Sequence[list[str]], log: str, then: dict[str, Progress]
) -> CrawlReport:
    """Start a worker for each command and show how far their groups are, until the last has ended. `then` is the progress of
    each group before; `log` as in `logs`."""
    names, began = list(then), frontier.counts().now
    number, title = len(commands), title_of(names)
    files = logs(log, settings, title, number)
    where = f"; logs in {files[0].parent}" if files[0] is not None and not log else ""
    output.write_notice(f"starting {output.counted(number, 'worker')} for {title}{where}")
    before = read_progress_of(frontier, names)
    # Who watches waits for nothing. But a server that is restarted or replaced when the last worker ends is no failure of the crawl.
    with ValkeyFrontier.find(settings) as patient:
        with Fleet(commands, files, output.write_notice, frontier=frontier) as fleet:
            seconds = watch(fleet, WatchedFleet(frontier, title, before, names), draw=log != ONE_FILE)
        return CrawlReport(fleet, frontier if fleet.stopping else patient, then, seconds, began)


class CrawlReport:
    """What a fleet did, by group: `now` is their progress, `did` what has happened since the fleet began; that was at `began`, in the
    server's time."""

    def __init__(
        self, fleet: Fleet, frontier: ValkeyFrontier, then: dict[str, Progress], seconds: float, began: float
    ) -> None:
        self.fleet, self.names, self.seconds = fleet, list(then), seconds
        there = {row.group for row in frontier.counts().groups}
        self.drained = {name: name in there and frontier.drained(name).drained for name in then}
        # Afterwards: only the present primary answers drained, while one that was replaced still has its numbers.
        self.now = {name: with_earlier(frontier, name, read_progress_of(frontier, [name])) for name in then}
        self.did = {name: now.since(then[name]) for name, now in self.now.items()}
        self.pages = sum(did.pages for did in self.did.values())
        self.rate = self.pages / max(seconds, 0.001)
        self.hooks = {name: failed for name in then if (failed := _failed_hooks(frontier, name, began))}
        """By group and round: how the hook after_round failed."""
        rounds = {name: frontier.rounds(name, 1) for name in then if name in there}
        self.gone = {name: last[0] for name, last in rounds.items() if last and (last[0].closed or 0.0) >= began}
        """By group: the round that has ended, which may say what is gone."""
        self.seeds: SeedCounts | None = None
        """Of sites: which seeds were read."""
        self.fields: FieldCounts | None = None
        """Of sites: which fields were found nowhere."""
        self.lacks_records = False
        """Of a site: the file of -O lacks some of the round's records."""

    def figures(self, name: str) -> dict[str, Any]:
        """One group's, for JSON."""
        did = self.did[name]
        return {
            "round": did.round,
            "drained": self.drained[name],
            "pages": did.pages,
            "failed": did.failed,
            "replaced": did.replaced,
            "items": did.items,
            "dead": did.dead_now,
            "dead_before": did.dead_before,
            "left": did.open,
            "gone_rows": self.gone[name].gone if name in self.gone else None,
            "after_round_failed": {f"{number}": why for number, why in self.hooks.get(name, {}).items()},
            **(self.seeds.figures(name) if self.seeds is not None else {}),
            **(self.fields.figures(name) if self.fields is not None else {}),
        }

    def speed(self) -> dict[str, Any]:
        return {"seconds": round(self.seconds, 2), "pages_per_second": round(self.rate, 1)}

    def speed_text(self) -> str:
        return f"{output.counted(self.pages, 'page')} in {self.seconds:.1f} s, {self.rate:,.0f} pages/s"

    def code(self, again: str, *, repeat: bool = False) -> int:
        """The exit code, with lines that say what it means unless all is well. `again` is the command that goes on."""
        fleet = self.fleet
        for name, info in self.gone.items():
            if why := why_unknown(info):
                output.write_notice(f"{name}: round {info.round}: {GONE_UNKNOWN} {why}")
        for name, rounds in self.hooks.items():
            for number, why in rounds.items():
                output.write_notice(f"{name}: round {number}: {why}; the log of the workers has the traceback")
        if fleet.stopping:
            output.write_notice(f"stopped; go on with: {again}")
            return exit_codes.OK if repeat else exit_codes.INTERRUPTED
        if fleet.failed:
            where = ", ".join(dict.fromkeys(str(worker.log) for worker in fleet.failed if worker.log is not None))
            failed = f"{len(fleet.failed)} of {len(fleet.workers)} workers failed"
            output.write_notice(failed + (f"; see {where}" if where else ""))
        for when, names in (("", "dead_now"), ("of earlier rounds: ", "dead_before")):
            counts = {name: count for name, did in self.did.items() if (count := getattr(did, names))}
            if counts:
                dead = output.counted(sum(counts.values()), "dead letter")
                output.write_notice(f"{when}{dead}; see why: gossamer dead list --group {next(iter(counts))}")
        if self.fields is not None:
            self.fields.report()
        none_read = self.seeds is not None and self.seeds.report()
        left = [name for name, drained in self.drained.items() if not drained]
        # Where no worker could work, nobody knows whether it is still full: the limit may be another one now.
        worked = any(not one.code or one.code == exit_codes.LACKING for one in fleet.workers)
        full = [name for name in left if worked and self.now[name].paused == PAGES_FULL and not self.now[name].leased]
        if full:
            waiting = sum(self.now[name].open for name in full)
            output.write_notice(
                f"{title_of(full)}: has as many pages as limits.pages allows; {output.counted(waiting, 'request')} left, for the next "
                "round, or for this one if you raise limits.pages"
            )
            left = [name for name in left if name not in full]
        for name in left:
            if self.now[name].paused.startswith(LOGIN_FAILED):
                output.write_notice(f"{name}: its {self.now[name].paused}")
            if self.now[name].paused.startswith(HELD):
                output.write_notice(f"{name}: its round is {self.now[name].paused}")
        if left:
            output.write_notice(f"{title_of(left)} not drained; go on with: {again}")
            return exit_codes.FAILED
        if none_read or self.hooks:
            return exit_codes.FAILED
        return (
            exit_codes.LACKING
            if self.lacks_records or any(one.code == exit_codes.LACKING for one in fleet.failed)
            else exit_codes.OK
        )


def _failed_hooks(frontier: ValkeyFrontier, group: str, since: float) -> dict[int, str]:
    """By round that was closed since then, the oldest first."""
    try:
        rounds = frontier.rounds(group)
    except UnknownGroup:
        return {}
    return {
        info.round: info.note
        for info in reversed(rounds)
        if info.note.startswith(AFTER_ROUND_FAILED) and info.closed is not None and info.closed >= since
    }
