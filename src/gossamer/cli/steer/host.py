"""`gossamer host`: how the whole fleet treats a host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from gossamer.cli import options, output
from gossamer.cli import pause as pauses
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import duration
from gossamer.frontier.snapshot.line import host_policy_from
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model.reply import HostInfo
from gossamer.status import overview as status

app = options.Noun("The hosts of a crawl, as the whole fleet treats them.")
Name = Annotated[str, argument("HOST", "Host name, with its port unless it is the scheme's own.")]


@app.command()
def show(
    hosts: Annotated[list[str] | None, argument("HOST", "Hosts to show; none: those treated specially.")] = None,
    limit: Annotated[int, option("--limit", "N", "Show at most N.", min=1)] = 100,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show how hosts are treated now.

    Without a name: those that are blocked or paused, have a policy of their own, or a delay that robots.txt asks for.
    These are searched for, page by page, among all hosts of which something is known.
    """
    with where.find() as frontier:
        names = hosts or list(islice(_special(frontier), limit))
        found = status.hosts(frontier, names)
    if json:
        output.write_json([_plain(each) for each in found])
        return
    columns = ("host", "in flight", "concurrency", "delay", "crawl delay", "next", "blocked", "paused", "policy")
    output.write_table(columns, [_row(each) for each in found])


@app.command()
def block(
    host: Name,
    lasting: Annotated[float, option("--for", "TIME", "How long: 90s, 10m, 2h, 1d.", parser=options.seconds)] = "1h",  # type: ignore[assignment]
    reason: options.Reason = "blocked by hand",
    where: options.Where = options.HERE,
) -> None:
    """Lease nothing from a host for some time."""
    if lasting <= 0:
        raise typer.BadParameter("a block of no length; to end one use `gossamer host unblock`")
    with where.find() as frontier:
        frontier.block(host, lasting, reason)
        where.log(frontier, "block", f"host {host}", f"for {duration(lasting)}: {reason}")
    output.write_line(f"host {host} is blocked for {duration(lasting)}: {reason}")


@app.command()
def unblock(host: Name, where: options.Where = options.HERE) -> None:
    """End a block now, set by a worker or by hand."""
    with where.find() as frontier:
        frontier.block(host, 0)
        where.log(frontier, "unblock", f"host {host}")
    output.write_line(f"host {host} is not blocked")


@app.command()
def slow(
    host: Name,
    delay: Annotated[float | None, option("--delay", "S", "Seconds between two requests of the fleet.")] = None,
    concurrency: Annotated[int | None, option("--concurrency", "N", "Requests in flight at most; 0: no limit.")] = None,
    default: Annotated[bool, flag("--default", "Treat it as any other host again.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Give a host a delay or a concurrency of its own.

    What is not named stays as it is for this host. It applies to the whole fleet at once. A delay overrides the
    one that robots.txt asks for, even if it is shorter. --default forgets what robots.txt asked for, until a worker that
    obeys it reads the file again.
    """
    changes: dict[str, Any] = {"delay": delay, "concurrency": concurrency}
    changes = {name: value for name, value in changes.items() if value is not None}
    if bool(changes) == default:
        raise typer.BadParameter("give --delay, --concurrency or both; or --default alone")
    with where.find() as frontier:
        [now] = status.hosts(frontier, [host])
        if delay is not None:
            changes["crawl_delay"] = False
        frontier.set_host(host, None if default else host_policy_from({**now.policy, **changes}))
        if default:
            frontier.set_crawl_delay(host, 0)
        said = ", ".join(f"{name} {value}" for name, value in changes.items() if name != "crawl_delay")
        where.log(frontier, "set", f"host {host}", said or "as any other")
        [now] = status.hosts(frontier, [host])
    if json:
        output.write_json(_plain(now))
        return
    limit = f"{now.policy['concurrency']} at a time" if now.policy["concurrency"] else "any number at a time"
    asked = f"; {now.crawl_delay:g} s for those who obey its robots.txt" if _crawl_delay(now) > now.delay else ""
    output.write_line(f"host {host}: {now.delay:g} s between requests, {limit}{asked}")


@app.command()
def pause(host: Name, reason: options.Reason = "paused", where: options.Where = options.HERE) -> None:
    """Lease nothing from a host until it is resumed."""
    pauses.pause(where, "host", host, reason)


@app.command()
def resume(host: Name, where: options.Where = options.HERE) -> None:
    """Undo a pause of a host. A block stays; see `gossamer host unblock`."""
    pauses.resume(where, "host", host)


def _special(frontier: ValkeyFrontier) -> Iterator[str]:
    for partition in range(frontier.partitions):
        cursor = "0"
        while cursor:
            page = frontier.scan(partition, "hosts", cursor)
            yield from (row[0] for row in page.rows)
            cursor = page.cursor


def _plain(host: HostInfo) -> dict[str, Any]:
    return {**host._asdict(), "policy": dict(host.policy)}


def _crawl_delay(host: HostInfo) -> float:
    """What robots.txt asks for, 0 where an operator's word goes before it."""
    return host.crawl_delay if host.policy["crawl_delay"] else 0.0


def _row(host: HostInfo) -> tuple[object, ...]:
    blocked = f"{duration(host.blocked_until - host.now)}: {host.reason}" if host.blocked_until > host.now else ""
    coming = f"in {host.next_at - host.now:.1f} s" if host.next_at > host.now else "now"
    limit = host.policy["concurrency"] or "any"
    own = "its own" if host.own_policy else ""
    crawl_delay = f"{host.crawl_delay:g} s" + (" overruled" if _crawl_delay(host) < host.crawl_delay else "")
    return (
        host.host, host.in_flight, limit, f"{host.delay:g} s", crawl_delay, coming, blocked, host.paused, own
    )  # fmt: skip
