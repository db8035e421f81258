"""`gossamer import scrapy-redis`: the live keys of a scrapy-redis project into a crawl."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.progress import throttled
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import SeenScope
from gossamer.settings import Settings

_SAID = {
    "requests": "requests",
    "seen": "fingerprints",
    "seeds": "seeds",
    "unreadable": "requests that could not be read",
    "refused": "requests that the frontier refused",
    "foreign": "entries of the dupefilter that are no digests",
}


def scrapy_redis(
    spider: Annotated[str, typer.Argument(metavar="SPIDER", help="The spider's name.")],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="The server of scrapy-redis, if it is not the frontier's."),
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read pickled requests; only plain data is made of them.")
    ] = False,
    queue_key: Annotated[
        str, typer.Option("--queue-key", metavar="KEY", help="As SCHEDULER_QUEUE_KEY.")
    ] = "%(spider)s:requests",
    dupefilter_key: Annotated[
        str, typer.Option("--dupefilter-key", metavar="KEY", help="As SCHEDULER_DUPEFILTER_KEY.")
    ] = "%(spider)s:dupefilter",
    seeds_key: Annotated[
        list[str] | None,
        typer.Option("--seeds-key", metavar="KEY", help="As REDIS_START_URLS_KEY; may be given more than once."),
    ] = None,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="The group; the spider's name if empty.")] = "",
    scope: Annotated[
        SeenScope,
        typer.Option("--seen-scope", help="forever for a project with SCHEDULER_PERSIST, round for one without."),
    ] = SeenScope.FOREVER,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be moved and whether it can be read. Changes nothing.")
    ] = False,
    yes: options.Yes = False,
    json: options.Json = False,
    url: options.Url = None,
    crawl: options.Crawl = None,
) -> None:
    """Move the live keys of a scrapy-redis project into a crawl.

    Queued requests, the dupefilter and, from another server, the seeds. Stop the old workers first. What is moved is
    removed from its key; it may be repeated after it broke off, and nothing is moved twice. What cannot be read becomes a
    dead letter. The spider must then tell requests apart as scrapy-redis does: with the scheduler of gossamer.scrapy_redis it
    does, else set REQUEST_FINGERPRINTER_CLASS to gossamer.scrapy_redis.dupefilter.Fingerprinter.
    """
    # Imported here: Scrapy and the driver would slow down `gossamer import FILE`.
    from gossamer.scrapy_redis import connection, moving
    from gossamer.scrapy_redis.source import Keys, Source
    from gossamer.scrapy_redis.stored import Reader

    if scope is SeenScope.NEVER:
        raise typer.BadParameter("a dupefilter cannot be moved into a memory that remembers nothing")
    settings = options.load_settings(url, crawl)
    names = {"spider": spider, "name": spider}
    keys = Keys(
        queue_key % names, dupefilter_key % names, tuple(key % names for key in seeds_key or ("%(name)s:start_urls",))
    )
    with _client(connection, settings, source) as server:
        found = Source(server, keys, Reader(allow_pickle))
        if dry_run:
            _tell(found.rehearse(), keys, True, json, source is None)
            return
        sizes = found.look().sizes
        _confirm(sizes, f"group {group or spider} of crawl {settings['GOSSAMER_CRAWL']}", yes)
        with ValkeyFrontier.open(settings) as frontier:
            same = source is None or _same(server, frontier)
            with progress.live("moving", sum(sizes.values()), sys.stderr, "entries") as show:
                say = throttled(show)
                move = moving.Move(
                    found,
                    frontier,
                    group or spider,
                    scope=scope,
                    same=same,
                    heard=lambda report: say(sum(report.done.values()), dict(report.done)),
                )
                report = move.run()
    _tell(report, keys, False, json, same)


def _confirm(sizes: Mapping[str, int], target: str, yes: bool) -> None:
    found = ", ".join(f"{size:,} of {key}" for key, size in sizes.items() if size)
    if found:
        options.confirm(f"Move {found} into {target}? No old worker may run.", yes)


def _client(connection: Any, settings: Settings, source: str | None) -> Any:
    return connection.client_of(settings) if source is None else connection.get_redis(url=source)


def _same(server: Any, frontier: ValkeyFrontier) -> bool:
    """Whether the client and the frontier speak of the same keys."""
    run = str(server.info("server").get("run_id", "")).encode()
    database = int(server.connection_pool.connection_kwargs.get("db") or 0)
    told = frontier.connection.execute("INFO", "server")
    return b"run_id:" + run in bytes(told) and database == frontier.connection.address.db


def _tell(report: Any, keys: Any, dry_run: bool, json: bool, same: bool) -> None:
    done = {name: report.done[name] for name in _SAID}
    if json:
        output.write_json({"dry_run": dry_run, "found": report.sizes, **done})
        return
    for key, size in report.sizes.items():
        left = " (stay where they are: the frontier reads them there)" if same and key in keys.seeds and size else ""
        output.write_line(f"{key}: {size:,} found{left}")
    parts = [f"{count:,} {_SAID[name]}" for name, count in done.items() if count]
    verb = "could be moved" if dry_run else "moved"
    output.write_line(f"{verb}: {', '.join(parts) or 'nothing'}")
    if not dry_run and done["unreadable"] + done["refused"]:
        output.write_notice("what could not be moved is kept as dead letters of the group")
