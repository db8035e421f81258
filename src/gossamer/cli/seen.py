"""`gossamer seen`: the memories of fingerprints."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from gossamer.cli import exits, options, output
from gossamer.cli.status import size
from gossamer.frontier.line import fingerprint_text
from gossamer.frontier.valkey import ValkeyFrontier

app = options.noun("What a crawl remembers to have queued before.")
_FINGERPRINT = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


@app.command()
def stats(
    group: options.Group = "", json: options.Json = False, url: options.Url = None, crawl: options.Crawl = None
) -> None:
    """Show how much each memory knows and takes.

    A memory belongs to a group and a policy; lanes with the same policy share one. A bloom filter counts what it took
    in; bytes are told from a sample.
    """
    with ValkeyFrontier.find(options.load_settings(url, crawl)) as frontier:
        found = [each for each in frontier.seen_counts() if not group or each.name.startswith(f"{group}|")]
    if json:
        output.write_json([each._asdict() for each in found])
        return
    rows = [
        (*each.name.split("|", 1), f"{each.known:,}", size(each.bytes), f"{each.bytes / each.known:.1f}" if each.known else "")
        for each in found
    ]  # fmt: skip
    output.write_table(("group", "policy", "knows", "takes", "bytes each"), rows)


@app.command()
def forget(
    lane: Annotated[str, typer.Argument(metavar="LANE", help="Whose memory: the lane's full name, group.lane.")],
    pages: Annotated[
        list[str], typer.Argument(metavar="PAGE", help="A URL, or a fingerprint of 16 hexadecimal digits.")
    ],
    yes: options.Yes = False,
    json: options.Json = False,
    url: options.Url = None,
    crawl: options.Crawl = None,
) -> None:
    """Make pages new again.

    They are queued when they are met again. A URL means a plain GET of it, known by Scrapy's fingerprint: where a
    project has a fingerprinter of its own, or for other requests, give the fingerprint that `gossamer dead` shows. All
    lanes of the group with the same seen policy share the memory. Exit code 1 if none of the pages was known.
    """
    settings = options.load_settings(url, crawl)
    numbers = [_number(text, settings["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"]) for text in pages]
    with ValkeyFrontier.find(settings) as frontier:
        known = frontier.seen(lane, numbers)
        if any(known):
            options.confirm(f"Make {sum(known):,} of {len(known):,} pages of lane {lane} new again?", yes)
            known = frontier.forget(lane, numbers)
    if json:
        rows = zip(pages, numbers, known, strict=True)
        output.write_json([{"page": p, "fingerprint": fingerprint_text(n), "was_known": k} for p, n, k in rows])
    else:
        for page, was in zip(pages, known, strict=True):
            output.write_line(f"{page} {'is new again' if was else 'was not known'}")
    if not any(known):
        raise typer.Exit(exits.FAILED)


def _number(text: str, default_ports: bool) -> int:
    match = _FINGERPRINT.fullmatch(text)
    if match is not None:
        return int(match[1], 16)
    if "://" not in text:
        raise typer.BadParameter(f"{text!r} is neither a URL nor a fingerprint of up to 16 hexadecimal digits")
    # Imported here: it brings Scrapy with it, which takes its time.
    from gossamer.worker.fingerprint import number_of_url

    return number_of_url(text, default_ports)
