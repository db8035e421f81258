"""`gossamer import neocrawler --state`: what a NEOCrawler instance knows of its URLs, into a crawl."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.errors import SiteError
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.migrate.neocrawler.rules import Rule
from gossamer.migrate.neocrawler.state.instance import instance_of
from gossamer.migrate.neocrawler.state.source import InstanceKeys
from gossamer.registry import KIND
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite
from gossamer.sites.file.load import sound, survey_text

if TYPE_CHECKING:
    from gossamer.migrate.neocrawler.state.transfer import StateReport


def instance_rules(instance: str, settings: Settings) -> list[Rule]:
    """The rules that a running instance has."""
    from gossamer.migrate.neocrawler.state.transfer import read_rules

    with InstanceKeys(instance_of(instance), settings["GOSSAMER_CALL_SECONDS"]) as instance_keys:
        return read_rules(instance_keys)


def move_state(instance: str, where: options.Where, dry_run: bool, again: bool, json: bool) -> None:
    # Here, not above: the native engine takes a moment to load, and other commands need only this function's name.
    from gossamer.migrate.neocrawler.state import transfer
    from gossamer.migrate.neocrawler.state.placement import Placement

    settings, place = where.settings(), instance_of(instance)
    with (
        InstanceKeys(place, settings["GOSSAMER_CALL_SECONDS"]) as instance_keys,
        ValkeyFrontier.find(settings) as frontier,
        tempfile.TemporaryFile() as spool,
    ):
        rules = transfer.read_rules(instance_keys)
        sites = list(_sites(frontier))
        if not sites:
            raise SiteError(
                f"crawl {frontier.crawl!r} has no site files to move URLs to. Make them of the rules (gossamer import neocrawler {instance} -o "
                "sites/), look at them, and push them (gossamer site push sites/)."
            )
        placing = Placement(sites, rules, settings["GOSSAMER_PAYLOAD_MAX_BYTES"])
        with progress.live("reading", None, sys.stderr, "URLs") as show:
            say = progress.throttled(show)
            reader = transfer.StateReader(
                instance_keys,
                placing,
                transfer.intervals_of(rules),
                transfer.as_of(frontier, place.name, again),
                frontier.partitions,
                lambda report: say(report.read, {"without a place": report.unplaced.total()}),
            )
            snapshot = transfer.spool_state(reader, transfer.definitions(placing, settings), spool)
        report = reader.report
        if not dry_run:
            with progress.live("moving", None, sys.stderr, "lines") as show:
                say = progress.throttled(show)
                report.restored = transfer.restore_state(
                    frontier,
                    place.name,
                    snapshot,
                    spool,
                    lambda restore: say(restore.source.number, dict(restore.done)),
                    again,
                )
    _tell(report, dry_run, json)
    if report.unplaced:
        raise typer.Exit(exit_codes.FAILED)


def _sites(frontier: ValkeyFrontier) -> Iterator[CompiledSite]:
    """The sites of the crawl. Their variables are for those who fetch their pages."""
    for info in frontier.documents(KIND):
        if not info.deleted:
            for one in sound(survey_text(frontier.document(KIND, info.name).text, info.name)):
                yield CompiledSite(one.site)


def _tell(report: StateReport, dry_run: bool, json: bool) -> None:
    from gossamer.migrate.neocrawler.state import transfer

    words = (
        transfer.WAITS, transfer.FINISHED, transfer.RECORDED, transfer.SEEN, transfer.COMES_AGAIN, transfer.FAILED,
    )  # fmt: skip
    lanes = sorted({lane for lane, _ in report.found})
    if json:
        output.write_json(
            {
                "dry_run": dry_run,
                "urls": report.read,
                "lanes": {lane: {word: report.found[lane, word] for word in words} for lane in lanes},
                "unplaced": [
                    {"reason": reason, "count": count, "examples": report.examples[reason]}
                    for reason, count in report.unplaced.most_common()
                ],
                "restored": dict(report.restored),
            }
        )
        return
    output.write_table(
        ("layer", *words), [(lane, *(f"{report.found[lane, word]:,}" for word in words)) for lane in lanes]
    )
    totals = {word: sum(report.found[lane, word] for lane in lanes) for word in words}
    done = "to be moved" if dry_run else "moved"
    output.write_line(
        f"the instance knows {output.counted(report.read, 'URL')}; {done}: {totals[transfer.WAITS]:,} that wait, "
        f"{totals[transfer.FINISHED]:,} finished, {totals[transfer.FAILED]:,} failed"
    )
    if not dry_run and (known := report.restored.get("known", 0) + report.restored.get("before", 0)):
        output.write_line(f"{known:,} of these lines the crawl had already")
    if report.unplaced:
        output.write_line("")
        output.write_table(
            ("without a place", "reason", "such as"),
            [
                (f"{count:,}", reason, " ".join(report.examples[reason]))
                for reason, count in report.unplaced.most_common()
            ],
        )
        output.write_notice(f"{output.counted(report.unplaced.total(), 'URL')} have no place in the crawl")
