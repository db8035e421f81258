"""`gossamer group`: the spiders and sites of a crawl."""

from __future__ import annotations

from typing import Annotated

from gossamer.cli import options, output, progress
from gossamer.cli import pause as pauses
from gossamer.cli.options import argument
from gossamer.frontier.snapshot import line
from gossamer.registry import Registry
from gossamer.status.overview import counts_of

app = options.Noun("The groups of a crawl: a spider or a site each.")
Name = Annotated[str, argument("GROUP", "The group's name.")]


@app.command("list")
def list_(json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the groups with their counts, limits and pauses."""
    with where.find() as frontier:
        counts = frontier.counts()
    policies = {name: line.group_policy(table) for name, table in counts.group_policies.items()}
    if json:
        output.write_json(
            [{**x._asdict(), "counters": dict(x.counters), "policy": policies[x.group]} for x in counts.groups]
        )
        return
    output.write_table(
        ("group", "round", "start", "open", "pages", "items", "waiting", "dead", "lost", "tasks from", "paused"),
        [
            (
                x.group,
                x.round,
                x.start,
                *(f"{n:,}" for n in (x.open, x.pages, x.items, x.items_waiting, x.dead, x.lost)),
                " ".join(policies[x.group]["tasks"]),
                x.paused,
            )
            for x in counts.groups
        ],
    )


@app.command()
def pause(group: Name, reason: options.Reason = "paused", where: options.Where = options.HERE) -> None:
    """Lease nothing from a group.

    Work in progress and adding continue. The pause lasts until `gossamer group resume`, over restarts too.
    """
    pauses.pause(where, "group", group, reason)


@app.command()
def resume(group: Name, where: options.Where = options.HERE) -> None:
    """Undo a pause of a group.

    A group that is held because it is full (items_full, dead_full, pages_full) continues when there is room.
    """
    with where.find() as frontier:
        frontier.resume(group=group)
        where.log(frontier, "resume", f"group {group}")
        [row] = frontier.counts(group).groups
    output.write_line(f"group {group} {'is still paused: ' + row.paused if row.paused else 'is resumed'}")


@app.command()
def drop(
    group: Name, yes: options.Yes = False, json: options.Json = False, where: options.Where = options.HERE
) -> None:
    """Remove a group and everything that is kept of it.

    Its queues, dead letters, items, counters, seen memories, rounds and policy go, in small steps; what its producers
    pushed and no worker has taken stays. Pages in progress end first, so workers should run or their leases expire
    meanwhile. If it is interrupted, call it again to finish. A site stays in the crawl: `gossamer round new` crawls it
    from its beginning, `gossamer site remove --drop` takes it out.
    """
    with where.find() as frontier:
        [row] = counts_of(frontier, group).groups
        question = f"Drop group {group}: {row.open:,} open, {output.counted(row.items_waiting, 'item')}, {output.counted(row.dead, 'dead letter')}?"
        options.confirm(question, yes)
        dropped = progress.drop(row.open + row.dead, frontier.drop_group(group))
        where.log(frontier, "drop", f"group {group}", f"{dropped:,} requests and dead letters")
        if Registry(frontier).has_site(group):
            output.write_notice(
                f"the site {group} is still in the crawl: `gossamer round new {group}` crawls it from its beginning, "
                f"`gossamer site remove {group}` takes it out"
            )
    output.write_answer(
        json,
        {"group": group, "dropped": dropped},
        f"group {group} is gone, and with it {dropped:,} requests and dead letters",
    )
