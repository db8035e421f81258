"""`gossamer import scrapy-redis`: the live keys of a scrapy-redis project into a crawl."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import throttled
from gossamer.errors import FrontierUnavailable, InvalidRequest, UnknownCrawl
from gossamer.frontier import inspection
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import Order, SeenScope
from gossamer.settings import Settings

SEEDS = "%(name)s:start_urls"
LIFO = "scrapy.squeues.LifoMemoryQueue"
SHOWN = 10
_SAID = {
    "requests": ("request", "requests"),
    "seen": ("fingerprint", "fingerprints"),
    "seeds": ("seed", "seeds"),
    "unreadable": ("request that cannot be read", "requests that cannot be read"),
    "refused": ("request that the frontier refuses", "requests that the frontier refuses"),
    "foreign": ("entry of the dupefilter that is no digest", "entries of the dupefilter that are no digests"),
    "unmade": ("request that workers would refuse", "requests that workers would refuse"),
}

_MOVED = ("requests", "seen", "seeds")
_LEFT = ("unreadable", "refused", "foreign")


def scrapy_redis(
    spider: Annotated[str, argument("SPIDER", "The spider's name.")],
    source: Annotated[
        str | None, option("--from", "URL", "The server of scrapy-redis, if it is not the frontier's.")
    ] = None,
    allow_pickle: Annotated[
        bool, flag("--allow-pickle", "Read pickled requests; nothing that they name is run.")
    ] = False,
    queue_key: Annotated[str, option("--queue-key", "KEY", "As SCHEDULER_QUEUE_KEY.")] = "%(spider)s:requests",
    dupefilter_key: Annotated[
        str, option("--dupefilter-key", "KEY", "As SCHEDULER_DUPEFILTER_KEY.")
    ] = "%(spider)s:dupefilter",
    seeds_key: Annotated[
        list[str] | None, option("--seeds-key", "KEY", "As REDIS_START_URLS_KEY; may be given more than once.")
    ] = None,
    group: Annotated[str, option("--group", "NAME", "The group; the spider's name if empty.")] = "",
    scope: Annotated[
        SeenScope, option("--seen-scope", "", "forever for a project with SCHEDULER_PERSIST, round for one without.")
    ] = SeenScope.FOREVER,
    fingerprints: Annotated[
        str,
        option(
            "--fingerprints",
            "KIND",
            "What the dupefilter holds: new, old (scrapy-redis 0.7.3 and older), own (a request_fingerprint of the project), "
            "none (leave it), or auto: found from what is queued.",
        ),
    ] = "auto",
    lifo: Annotated[bool, flag("--lifo", "The queue was a LifoQueue or SpiderStack: last in, first out.")] = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "Say what would be moved and whether it can be read. Changes nothing.")
    ] = False,
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Move the live keys of a scrapy-redis project into a crawl.

    Queued requests, the dupefilter and, from another server, the seeds. Stop the old workers first. A request is
    removed from its key once it is safely in the crawl. If the move is interrupted, run it again: nothing is moved
    twice. What cannot be read becomes a dead letter. The spider must then fingerprint requests as scrapy-redis does:
    with the scheduler of gossamer.scrapy_redis it does, otherwise set REQUEST_FINGERPRINTER_CLASS to
    gossamer.scrapy_redis.dupefilter.DigestFingerprinter. A spider that has no keys on the server is an error, with the
    names of those that have. Exit code 1 if something was not moved. In the project's directory, --dry-run also reports
    what its workers would reject afterwards: objects that they do not create, and callbacks that the spider does not
    have; then the exit code is 1, too.
    """
    # Imported here: Scrapy and the driver would slow down `gossamer import FILE`.
    from gossamer.scrapy_redis import connection
    from gossamer.scrapy_redis.transfer import transfer
    from gossamer.scrapy_redis.transfer.keys import DigestKind, ProjectKeys, ProjectSource
    from gossamer.scrapy_redis.transfer.project import workers_here
    from gossamer.scrapy_redis.transfer.requests import StoredRequestReader

    try:
        digests = DigestKind(fingerprints)
    except ValueError:
        raise typer.BadParameter(f"--fingerprints {fingerprints}: give one of {', '.join(DigestKind)}") from None
    settings = where.settings()
    names, templates = {"spider": spider, "name": spider}, (queue_key, dupefilter_key, *(seeds_key or (SEEDS,)))
    keys = ProjectKeys(templates[0] % names, templates[1] % names, tuple(key % names for key in templates[2:]))
    with _client(connection, settings, source) as server:
        found = ProjectSource(server, keys, StoredRequestReader(allow_pickle))
        sizes = found.look().sizes
        if scope is SeenScope.NEVER and sizes[keys.dupefilter] and digests is not DigestKind.NONE:
            raise typer.BadParameter("a dupefilter cannot be moved into a memory that remembers nothing")
        if not any(sizes.values()) and not _moved_before(settings, group or spider):
            raise InvalidRequest(_nothing(server, spider, keys, templates))
        if dry_run:
            digests = found.check(digests)
            report = found.rehearse(digests, workers_here(spider, settings["GOSSAMER_OBJECT_MODULES"]))
            _tell(report, keys, True, json, source is None)
        else:
            _confirm(sizes, f"group {group or spider} of crawl {settings['GOSSAMER_CRAWL']}", yes)
            with ValkeyFrontier.open(settings) as frontier:
                same = source is None or _same(server, frontier)
                with progress.live("moving", sum(sizes.values()), sys.stderr, "entries") as show:
                    say = throttled(show)
                    move = transfer.Transfer(
                        found,
                        frontier,
                        group or spider,
                        scope=scope,
                        order=Order.LIFO if lifo else Order.FIFO,
                        digests=digests,
                        same=same,
                        heard=lambda report: say(sum(report.done.values()), dict(report.done)),
                    )
                    report = move.run()
            _tell(report, keys, False, json, same)
            if lifo:
                output.write_notice(f"set SCHEDULER_MEMORY_QUEUE = {LIFO!r}, so that workers keep last in, first out")
    if report.left:
        raise typer.Exit(exit_codes.FAILED)


def _moved_before(settings: Settings, group: str) -> bool:
    """Whether the crawl has this group: then nothing is left to move, and the name is no mistake."""
    try:
        with ValkeyFrontier.find(settings) as frontier:
            return bool(frontier.counts(group).groups)
    except UnknownCrawl:
        return False


def _nothing(server: Any, spider: str, keys: Any, templates: Sequence[str]) -> str:
    from gossamer.scrapy_redis.transfer.keys import spiders

    there = spiders(server, templates)
    close = difflib.get_close_matches(spider, there, 3, 0.5)
    looked = ", ".join((keys.queue, keys.dupefilter, *keys.seeds))
    said = f"There is nothing of a spider {spider!r} on this server: {looked} do not exist."
    if close:
        return f"{said} Did you mean {' or '.join(close)}?"
    if there:
        more = f" and {len(there) - SHOWN:,} more" if len(there) > SHOWN else ""
        return f"{said} There are keys of {', '.join(there[:SHOWN])}{more}."
    return f"{said} Nor of any other spider: name its server with --from, or its keys with --queue-key and the like."


def _confirm(sizes: Mapping[str, int], target: str, yes: bool) -> None:
    found = ", ".join(f"{size:,} of {key}" for key, size in sizes.items() if size)
    if found:
        options.confirm(f"Move {found} into {target}? No old worker may run.", yes)


def _client(connection: Any, settings: Settings, source: str | None) -> Any:
    client = connection.client_of(settings) if source is None else connection.get_redis(url=source)
    try:
        client.ping()
    except connection.RedisError as error:
        client.close()
        raise FrontierUnavailable(
            f"{str(error).rstrip('.')}; check that the server runs, and that {'--url' if source is None else '--from'} names it."
        ) from error
    return client


def _same(server: Any, frontier: ValkeyFrontier) -> bool:
    """Whether the client and the frontier speak of the same keys."""
    database = int(server.connection_pool.connection_kwargs.get("db") or 0)
    return inspection.is_server(frontier, str(server.info("server").get("run_id", "")), database)


def _tell(report: Any, keys: Any, dry_run: bool, json: bool, same: bool) -> None:
    done = {name: report.done[name] for name in _SAID}
    if json:
        output.write_json({"dry_run": dry_run, "found": report.sizes, **done, "refusals": report.refusals})
        return
    for key, size in report.sizes.items():
        left = " (stay where they are: the frontier reads them there)" if same and key in keys.seeds and size else ""
        output.write_line(f"{key}: {size:,} found{left}")
    verb = "could be moved" if dry_run else "moved"
    for said, names in ((verb, _MOVED), (f"{'could ' if dry_run else ''}not {'be ' if dry_run else ''}moved", _LEFT)):
        parts = [f"{done[name]:,} {_SAID[name][done[name] != 1]}" for name in names if done[name]]
        if parts or names is _MOVED:
            output.write_line(f"{said}: {', '.join(parts) or 'nothing'}")
    if done["unmade"]:
        output.write_line(f"workers would refuse: {done['unmade']:,} of these requests")
        for reason, count in report.refusals.most_common(SHOWN):
            output.write_notice(f"refused {output.counted(count, 'time')}: {reason}")
    if not dry_run and done["unreadable"] + done["refused"]:
        output.write_notice(
            "requests that could not be moved are kept as dead letters of the group: `gossamer dead list` names their URLs"
        )
    if done["foreign"]:
        output.write_notice(
            f"{keys.dupefilter} keeps the entries that are not digests; --fingerprints own moves them too"
        )
