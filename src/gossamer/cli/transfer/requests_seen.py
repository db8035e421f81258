"""`gossamer import requests-seen`: what Scrapy's own dupefilter kept in a JOBDIR, into the memory of a seen filter."""

from __future__ import annotations

import sys
from typing import Annotated

from gossamer.cli import options, output, progress
from gossamer.cli.input_file import open_input
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import throttled
from gossamer.model import SeenKind
from gossamer.scrapy.seen.memory import RequestsSeen, import_requests_seen, open_memory


def requests_seen(
    file: Annotated[str, argument("FILE", "The requests.seen of a JOBDIR; - is standard input.")],
    spider: Annotated[str, option("--spider", "NAME", "The spider's name.")],
    kind: Annotated[
        SeenKind | None, option("--kind", "", "The kind of the spider's seen filter, instead of GOSSAMER_SEEN_KIND.")
    ] = None,
    custom: Annotated[bool, flag("--custom", "The project has a REQUEST_FINGERPRINTER_CLASS of its own.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Load what a JOBDIR has seen into a spider's seen filter.

    For plain Scrapy with a DUPEFILTER_CLASS of gossamer.scrapy.dupefilter. The file is only read, and may be read
    again: what is known stays known. Sizes and windows come from the settings GOSSAMER_SEEN_… of the spider.
    """
    with open_input(file) as (stream, size, called):
        source = RequestsSeen(stream, called)
        with (
            open_memory(spider, where.settings(), kind) as memory,
            progress.live("importing", size, sys.stderr, "bytes") as show,
        ):
            done = import_requests_seen(source, memory, custom=custom, heard=throttled(show))
            known = memory.count()
    if done.cut:
        output.write_notice("the last fingerprint is cut off and was left out")
    output.write_answer(
        json,
        {"spider": spider, "new": done.new, "known": done.known, "cut": done.cut, "remembered": known},
        f"{spider}: {done.new:,} new, {done.known:,} known already, {known:,} remembered",
    )
