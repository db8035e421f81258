"""`gossamer import`: a file of JSON lines back into a crawl, or what another tool holds."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
import typer.core

from gossamer.cli import options, output, progress
from gossamer.cli.input_file import open_input
from gossamer.cli.options import argument, flag
from gossamer.cli.progress import throttled
from gossamer.cli.transfer.neocrawler import neocrawler
from gossamer.cli.transfer.requests_seen import requests_seen
from gossamer.cli.transfer.scrapy_redis import scrapy_redis
from gossamer.frontier.snapshot.file import SnapshotFile
from gossamer.frontier.snapshot.restore import Restore
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.settings import DEFAULT


class FileOrSource(typer.core.TyperGroup):
    """What names none of the sources is a file: `gossamer import FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["file", *args]
        return super().parse_args(ctx, args)


app = options.Noun("Import what `gossamer export` wrote, or another tool's data.")
app.info.cls = FileOrSource
app.command("scrapy-redis")(scrapy_redis)
app.command("requests-seen")(requests_seen)
app.command("neocrawler")(neocrawler)


@app.command("file")
def import_(
    file: Annotated[str, argument("FILE", "What `gossamer export` wrote; - is standard input.")],
    forget_bloom: Annotated[
        bool, flag("--forget-bloom", "Leave bloom filters out: what they knew is fetched again.")
    ] = False,
    without_secrets: Annotated[
        bool,
        flag(
            "--without-secrets",
            "Restore also what was exported without its secrets: requests then lack headers and cookies.",
        ),
    ] = False,
    again: Annotated[
        bool,
        flag(
            "--again",
            "Import even if another export of the same crawl was imported: its items, counts and dead letters are doubled.",
        ),
    ] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Restore a crawl from a file of JSON lines; the word `file` may be left out.

    On any server and with any number of partitions. A crawl that does not exist is created, with the name in the
    file unless you give another. If it is interrupted, run it again: what was restored is not restored again. Another export of
    a crawl that exists here is rejected, unless --again is given.
    """
    with open_input(file) as (stream, size, called):
        source = SnapshotFile(called, stream)
        settings = where.settings()
        if settings.source("GOSSAMER_CRAWL") == DEFAULT:
            settings = options.load_settings(where.url, str(source.header["crawl"]))
        with ValkeyFrontier.open(settings) as frontier, progress.live("importing", size, sys.stderr, "bytes") as show:
            say = throttled(show)
            restore = Restore(
                frontier,
                source,
                forget_bloom=forget_bloom,
                without_secrets=without_secrets,
                again=again,
                heard=lambda x: say(source.size, dict(x.done)),
            )
            restore.run()
            partitions = frontier.partitions
    if source.cut:
        output.write_notice(f"the last line, {source.number + 1}, is cut off and was left out")
    elif not restore.complete:
        output.write_notice("the file ends before its end line: it is only a part of a snapshot")
    if restore.redacted:
        output.write_notice(f"{restore.redacted:,} were restored without their headers, cookies or passwords")
    if restore.cookies_left_out:
        output.write_notice(
            f"the file lacks {output.counted(restore.cookies_left_out, 'cookie')} that the workers shared: the crawl is logged "
            "out until its spider logs in again. To have them, import a file that was exported with --secrets instead"
        )
    if partitions != source.header["partitions"] and partitions > 1:
        output.write_notice(
            f"each of the {partitions} partitions remembers all fingerprints, since their hosts are unknown"
        )
    report = {name: restore.done[name] for name in ("restored", "known", "before", "unplaced")}
    if json:
        complete = restore.complete and not source.cut
        output.write_json({"crawl": settings["GOSSAMER_CRAWL"], "complete": complete, "lines": source.number, **report})
    else:
        said = ("restored", "known already", "restored before", "without a lane that takes them")
        parts = [f"{n:,} {what}" for n, what in zip(report.values(), said, strict=True) if n]
        output.write_line(
            f"crawl {settings['GOSSAMER_CRAWL']}: {output.counted(source.number, 'line')}, {', '.join(parts) or 'nothing'}"
        )
