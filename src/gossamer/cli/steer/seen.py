"""`gossamer seen`: the memories of fingerprints."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output
from gossamer.cli.options import argument, option
from gossamer.cli.project import SCRAPY_REDIS, project_settings
from gossamer.frontier.seen.clear import clear_seen, seen_known
from gossamer.frontier.server.info import size
from gossamer.frontier.snapshot.line import fingerprint_text
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status.overview import counts_of

app = options.Noun("The memory of what a crawl has queued before.")
Spider = Annotated[str, argument("SPIDER", "The spider's name.")]
_FINGERPRINT = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


@app.command()
def stats(group: options.Group = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Show how many pages each memory knows, and its size.

    A memory belongs to a group and a policy; lanes with the same policy share one. A bloom filter counts what it took
    in; bytes are estimated from a sample.
    """
    with where.find() as frontier:
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
    lane: Annotated[str, argument("LANE", "Whose memory: the lane's full name, group.lane.")],
    pages: Annotated[list[str], argument("PAGE", "A URL, or a fingerprint of 16 hexadecimal digits.")],
    method: Annotated[str, option("--method", "NAME", "Of the requests of the URLs.")] = "GET",
    body: Annotated[str, option("--body", "TEXT", "Of the requests of the URLs.")] = "",
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Make pages new again.

    They are queued when they are found again. In a Scrapy project, a URL is known as its spiders know it: by
    REQUEST_FINGERPRINTER_CLASS, of the project or of the spider that the group is called after, and in a project on scrapy-redis
    by its DUPEFILTER_CLASS. Elsewhere it is known by Scrapy's own fingerprint. What else a fingerprinter looks at (meta,
    headers) cannot be named here: give the fingerprint that `gossamer dead` shows. All lanes of the group with the same
    seen policy share the memory. Exit code 1 if none of the pages was known.
    """
    settings = where.settings()
    numbers = _numbers(pages, lane, method, body, settings["GOSSAMER_FINGERPRINT_DEFAULT_PORTS"])
    with ValkeyFrontier.find(settings) as frontier:
        known = frontier.seen(lane, numbers)
        if any(known):
            options.confirm(
                f"Make {sum(known):,} of {output.counted(len(known), 'page')} of lane {lane} new again?", yes
            )
            known = frontier.forget(lane, numbers)
    if json:
        rows = zip(pages, numbers, known, strict=True)
        output.write_json([{"page": p, "fingerprint": fingerprint_text(n), "was_known": k} for p, n, k in rows])
    else:
        for page, was in zip(pages, known, strict=True):
            output.write_line(f"{page} {'is new again' if was else 'was not known'}")
    if not any(known):
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def clear(
    group: Annotated[str, argument("GROUP", "Whose memories: a spider or a site.")],
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Make every page of a group new again.

    What is queued stays queued, and what is found from now on is queued although it was fetched before. Nothing is
    fetched by that alone: push the seeds again, or begin a round with `gossamer round new`. Workers may run meanwhile; a page
    that is queued at this moment may then be fetched twice.
    """
    with where.find() as frontier:
        counts_of(frontier, group)
        known = seen_known(frontier, group)
        options.confirm(f"Forget {output.counted(known, 'page')} that group {group} has seen?", yes)
        clear_seen(frontier, group)
        where.log(frontier, "forget", f"group {group}", f"{output.counted(known, 'page')} seen")
    output.write_answer(
        json, {"group": group, "forgotten": known}, f"group {group} has forgotten {output.counted(known, 'page')}"
    )


@app.command()
def filters(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the memories of seen filters for plain Scrapy.

    Those of DUPEFILTER_CLASS = gossamer.scrapy.dupefilter.…, of all crawls on the server. The whole server is looked through
    for them. A spider whose name has other characters than letters, digits, _ . and - is listed by a digest.
    """
    from gossamer.scrapy.seen.filters import listed

    settings = where.settings()
    rows = [each for each in listed(settings) if where.crawl in (None, each.crawl)]
    if json:
        output.write_json([each._asdict() for each in rows])
        return
    output.write_table(
        ("crawl", "spider", "kind", "knows", "takes"),
        [(each.crawl, each.spider, each.kind, f"{each.known:,}", size(each.bytes)) for each in rows],
    )


@app.command("clear-filter")
def clear_filter(
    spider: Spider, yes: options.Yes = False, json: options.Json = False, where: options.Where = options.HERE
) -> None:
    """Make every page new again for the seen filter of a plain Scrapy spider.

    All memories that the spider has in the crawl, of whatever kind, are emptied. No run of the spider should be under way.
    """
    from gossamer.scrapy.seen import filters as memories

    settings = where.settings()
    with memories.look(settings) as connection:
        mine = memories.of_spider(connection, settings, spider)
    options.confirm(f"Forget all that {spider} has seen ({', '.join(each.kind for each in mine)})?", yes)
    known = sum(memories.clear(settings, each) for each in mine)
    output.write_answer(
        json, {"spider": spider, "forgotten": known}, f"spider {spider} has forgotten {output.counted(known, 'page')}"
    )


@app.command("copy-filter")
def copy_filter(
    spider: Spider,
    to_url: Annotated[str | None, option("--to-url", "URL", "Another server; the same one if left out.")] = None,
    to_crawl: Annotated[str | None, option("--to-crawl", "NAME", "Another crawl; the same one if left out.")] = None,
    to_spider: Annotated[str, option("--to-spider", "NAME", "Another spider; the same one if left out.")] = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Copy what the seen filter of a plain Scrapy spider knows.

    To another server, crawl or spider, which must have no memory of that kind yet. No run of the spider should be under way.
    """
    from gossamer.scrapy.seen import filters as memories

    settings = where.settings()
    target = options.load_settings(to_url or settings["GOSSAMER_URL"], to_crawl or settings["GOSSAMER_CRAWL"])
    copied = memories.copy(settings, spider, target, to_spider or spider)
    output.write_answer(
        json,
        {"spider": spider, "copied": [each.kind for each in copied]},
        f"copied what {spider} has seen: {', '.join(each.kind for each in copied)}",
    )


def _numbers(pages: Sequence[str], lane: str, method: str, body: str, default_ports: bool) -> list[int]:
    urls = [text for text in pages if _FINGERPRINT.fullmatch(text) is None]
    for text in urls:
        if "://" not in text:
            raise typer.BadParameter(f"{text!r} is neither a URL nor a fingerprint of up to 16 hexadecimal digits")
    if not urls:
        return [_given(text) for text in pages]
    # Imported here: it brings Scrapy with it, which takes its time.
    from gossamer.scrapy.project import number_page

    number = _numbering(lane.rpartition(".")[0], default_ports)
    return [number_page(number, text, method, body) if text in urls else _given(text) for text in pages]


def _given(text: str) -> int:
    match = _FINGERPRINT.fullmatch(text)
    assert match is not None
    return int(match[1], 16)


def _numbering(spider: str, default_ports: bool) -> Callable[[Any], int]:
    project = project_settings()
    if not project.module:
        from gossamer.scrapy.speedups.fingerprint import Fingerprinter

        return Fingerprinter(default_ports).number
    if SCRAPY_REDIS in str(project.values.get("SCHEDULER", "")):
        from gossamer.scrapy_redis.fleet.config import project_number

        return project_number(spider)
    from gossamer.scrapy.project import crawler_of, number_in

    return number_in(crawler_of(spider))
