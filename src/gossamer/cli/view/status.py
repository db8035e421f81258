"""`gossamer status`: a crawl at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import flag, option
from gossamer.cli.progress import duration
from gossamer.frontier.server.info import ServerInfo, size
from gossamer.model import WorkerInfo
from gossamer.model.reply import HostInfo
from gossamer.status import overview as reading
from gossamer.status.depth import depths_of

app = options.Noun()

WORKERS_SHOWN = 20


@app.command()
def status(
    group: Annotated[str, option("--group", "NAME", "Only this group and its lanes.")] = "",
    host: Annotated[list[str] | None, option("--host", "HOST", "Also this host; may be given again.")] = None,
    counters: Annotated[bool, flag("--counters", "Also the counters of every group.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show a crawl at a glance: server, groups, lanes, workers.

    Workers that have ended or fell silent are left out. For sites, it also shows what waits and is in progress at each
    depth. It costs the same however much is queued; nothing is scanned. There may be many hosts, so it shows only those
    you name, and those that are blocked longest.
    """
    with where.find() as frontier:
        view = reading.overview(frontier, group)
        hosts = reading.hosts(frontier, host or [])
        depths = depths_of(frontier, view.lanes)
        place = frontier.connection.address.safe
    if json:
        by_depth = [{"site": site, **row._asdict()} for site, row in depths]
        shown_hosts = [each._asdict() for each in hosts]
        output.write_json({**reading.as_json(view), "url": place, "hosts": shown_hosts, "depths": by_depth})
        return
    parts = f" in {view.partitions} partitions" if view.partitions > 1 else ""
    paused = f", PAUSED: {view.paused}" if view.paused else ""
    output.write_line(f"crawl {view.crawl}{parts} on {place}{paused}")
    for server in view.servers:
        output.write_line(_server(server))
    if view.memory:
        output.write_line(f"MEMORY: {view.memory}")
    if not view.groups:
        output.write_line("nothing is defined in it yet")
        return
    recorded = any(x.pages for x in view.lanes)
    _section(
        ("lane", "queued", "delayed", "leased", *(("found", "pages") if recorded else ()), "done", "replaced", "retried", "failed", "expired", "duplicates", "paused"),
        [
            (x.lane, *map(_n, (x.queued, x.delayed, x.leased, *((x.found, x.pages) if recorded else ()), x.done, x.replaced, x.retried, x.failed, x.expired, x.duplicates)), x.paused)
            for x in view.lanes
        ],
    )  # fmt: skip
    _section(
        ("group", "round", "start", "open", "pages", "items", "waiting", "dead", "lost", "paused"),
        [
            (x.group, x.round, x.start, *map(_n, (x.open, x.pages, x.items, x.items_waiting, x.dead, x.lost)), x.paused)
            for x in view.groups
        ],
    )
    _section(
        ("site", "depth", "layers", "waiting", "in progress"),
        [
            (site, x.depth if x.depth >= 0 else "", " ".join(x.layers), _n(x.waiting), _n(x.in_progress))
            for site, x in depths
        ],
    )
    _section(
        ("group", "tasks waiting", "leased", "done in"),
        [(x.group, _n(x.waiting), _n(x.leased), drain(x.drain_seconds)) for x in view.tasks],
    )
    if counters:
        rows = [(x.group, name, f"{value:,.15g}") for x in view.groups for name, value in sorted(x.counters.items())]
        _section(("group", "counter", "value"), rows)
    present = sorted(view.present, key=lambda worker: worker.name)
    _section(
        ("worker", "serves", "holds", "last seen", "state"),
        [
            (x.name, serves(x), _n(x.held), ago(view.now - x.seen), state(x, view.alive(x)))
            for x in present[:WORKERS_SHOWN]
        ],
    )
    if view.stranded:
        output.write_line(view.stranded)
    for lane, why in view.unserved_lanes.items():
        output.write_line(f"{lane}: {why}, and pages wait there")
    if len(present) > WORKERS_SHOWN or view.workers_count > len(view.workers):
        output.write_line(f"and more: {_n(view.workers_count)} workers are listed by `gossamer worker list`")
    _section(("memory", "knows", "bytes"), [(x.name, _n(x.known), size(x.bytes)) for x in view.memories])
    asked = {each.host for each in hosts}
    shown = [*hosts, *(each for each in view.blocked if each.host not in asked)]
    _section(
        ("host", "in flight", "delay", "crawl delay", "next", "blocked", "paused"), [_host(each) for each in shown]
    )
    if view.blocked_count > len(view.blocked):
        output.write_line(f"{_n(view.blocked_count)} hosts are blocked")


def _section(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        output.write_line("")
        output.write_table(columns, rows)


def _server(server: ServerInfo) -> str:
    limit = f" of {size(server.memory_max)}" if server.memory_max else ""
    log = f"log on disk ({server.fsync or 'fsync unknown'})" if server.aof else "NO log on disk"
    role = "primary" if server.role == "master" else "replica"
    return f"{server.kind} {server.version} at {server.node}, {role}, memory {size(server.memory_used)}{limit}, {log}"


def _host(host: HostInfo) -> tuple[object, ...]:
    blocked = f"{duration(host.blocked_until - host.now)}: {host.reason}" if host.blocked_until > host.now else ""
    coming = f"in {host.next_at - host.now:.1f} s" if host.next_at > host.now else "now"
    return host.host, host.in_flight, f"{host.delay:g} s", f"{host.crawl_delay:g} s", coming, blocked, host.paused


def _n(number: int) -> str:
    return f"{number:,}"


def serves(worker: WorkerInfo) -> str:
    """What a worker works on, in a word."""
    groups, stage = worker.groups, f", stage {worker.stage}" if worker.stage else ""
    return (groups[0] if len(groups) == 1 else f"{len(groups):,} sites" if groups else "") + stage


def state(worker: WorkerInfo, alive: bool) -> str:
    if worker.closed:
        return "ended"
    return "draining" if worker.draining else "" if alive else "silent"


def ago(seconds: float) -> str:
    return "now" if seconds < 1 else f"{duration(seconds)} ago"


def drain(seconds: float | None) -> str:
    """In what time tasks are done; nothing where there are none."""
    return "never at this pace" if seconds is None else f"{duration(seconds)}" if seconds else ""
