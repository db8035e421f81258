"""`gossamer lane`: the sub-queues of a crawl."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gossamer.cli import options, output, progress
from gossamer.cli import pause as pauses
from gossamer.cli.options import argument, option
from gossamer.errors import UnknownLane
from gossamer.frontier.snapshot import line
from gossamer.model import Order
from gossamer.model.reply import Counts
from gossamer.registry import Registry
from gossamer.status.overview import counts_of

app = options.Noun("The lanes of a crawl: named sub-queues of its groups.")
Name = Annotated[str, argument("LANE", "The lane's full name, group.lane.")]


@app.command("list")
def list_(group: options.Group = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the lanes with their counts, policies and pauses."""
    with where.find() as frontier:
        counts = counts_of(frontier, group)
    policies = {name: line.lane_policy(table) for name, table in counts.lane_policies.items()}
    if json:
        output.write_json([{**x._asdict(), "policy": policies[x.lane]} for x in counts.lanes])
        return
    rows, recorded = [], any("records" in policy for policy in policies.values())
    for x in counts.lanes:
        policy = policies[x.lane]
        seen = policy["seen"]
        rows.append(
            (
                x.lane,
                *(f"{n:,}" for n in (x.queued, x.delayed, x.leased)),
                *((f"{x.found:,}", f"{x.pages:,}") if recorded else ()),
                *(policy[name] for name in ("order", "tier")),
                f"{policy['weight']:g}",
                policy["stage"],
                *(f"{policy[name]:,}" if policy[name] else "" for name in ("max_queued", "max_leased")),
                "records"
                if "records" in policy
                else "never"
                if seen["scope"] == "never"
                else f"{seen['kind']} {seen['scope']}",
                x.paused,
            )
        )
    output.write_table(
        ("lane", "queued", "delayed", "leased", *(("found", "pages") if recorded else ()), "order", "tier", "weight", "stage", "max queued", "max leased", "seen", "paused"),
        rows,
    )  # fmt: skip


@app.command()
def pause(lane: Name, reason: options.Reason = "paused", where: options.Where = options.HERE) -> None:
    """Lease nothing from a lane.

    Work in progress and adding continue. The pause lasts until `gossamer lane resume`, over restarts too.
    """
    pauses.pause(where, "lane", lane, reason)


@app.command()
def resume(lane: Name, where: options.Where = options.HERE) -> None:
    """Undo a pause of a lane."""
    pauses.resume(where, "lane", lane)


@app.command("set")
def set_(
    lane: Name,
    order: Annotated[Order | None, option("--order", "", "Inside a priority of a host: fifo or lifo.")] = None,
    tier: Annotated[int | None, option("--tier", "N", "A lower one goes strictly first.")] = None,
    weight: Annotated[float | None, option("--weight", "X", "Its share among lanes of the same tier.")] = None,
    max_queued: Annotated[
        int | None, option("--max-queued", "N", "The most requests that may wait; 0: no limit.")
    ] = None,
    max_leased: Annotated[
        int | None, option("--max-leased", "N", "The most requests in progress; 0: no limit.")
    ] = None,
    stage: Annotated[
        str | None, option("--stage", "NAME", 'The worker pool that serves it; "" is the general one.')
    ] = None,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Change the policy of a lane; what is not named stays.

    Queued work stays where it is. A worker that starts defines the lane again, as its site file or spider says: to keep a change, make it
    there too.
    """
    given: dict[str, Any] = {
        "order": order.value if order else None, "tier": tier, "weight": weight, "max_queued": max_queued,
        "max_leased": max_leased, "stage": stage,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("nothing to change; name an option such as --weight or --tier")
    group, _, name = lane.rpartition(".")
    with where.find() as frontier:
        fields = {**_policy(frontier.counts(group), lane), **changes}
        frontier.define(group, {name: line.lane_policy_from(fields)})
        said = ", ".join(f"{name} {value}" for name, value in changes.items())
        where.log(frontier, "set", f"lane {lane}", said)
        file = Registry(frontier).owners().get(group, "")
    output.write_answer(json, {"lane": lane, "policy": fields}, f"lane {lane}: {said}")
    if file:
        output.write_notice(
            f"a worker that starts sets it as the site file {file} says; to keep the change, push it there too"
        )


@app.command()
def drop(lane: Name, yes: options.Yes = False, json: options.Json = False, where: options.Where = options.HERE) -> None:
    """Empty a lane and remove it.

    In small steps. Pages in progress end first, so workers should run or their leases expire meanwhile. If it is
    interrupted, call it again to finish. What is queued in it is no longer seen; what was fetched stays seen by lanes
    with the same seen policy.
    """
    with where.find() as frontier:
        counts = frontier.counts(lane.rpartition(".")[0])
        _policy(counts, lane)
        row = next(each for each in counts.lanes if each.lane == lane)
        options.confirm(f"Drop lane {lane} with {output.counted(row.waiting, 'request')}?", yes)
        dropped = progress.drop(row.waiting + row.leased, frontier.drop_lane(lane))
        where.log(frontier, "drop", f"lane {lane}", output.counted(dropped, "request"))
    output.write_answer(
        json,
        {"lane": lane, "dropped": dropped},
        f"lane {lane} is gone, and with it {output.counted(dropped, 'request')}",
    )


def _policy(counts: Counts, lane: str) -> dict[str, Any]:
    table = counts.lane_policies.get(lane)
    if table is None:
        raise UnknownLane(f"there is no lane {lane!r} in this crawl; `gossamer lane list` names them.")
    return line.lane_policy(table)
