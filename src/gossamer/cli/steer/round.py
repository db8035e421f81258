"""`gossamer round`: what the passes over a site were like."""

from __future__ import annotations

from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import moment
from gossamer.errors import UnknownGroup
from gossamer.frontier.seen.clear import clear_seen, seen_known
from gossamer.model import Drained, GroupPolicy, RoundInfo
from gossamer.registry import Registry
from gossamer.status.overview import counts_of

app = options.Noun("The rounds of a site or spider: passes over it.")


@app.callback()
def _round() -> None:
    """The rounds of a site or spider: passes over it."""


@app.command("list")
def list_(
    name: Annotated[str, argument("GROUP", "The spider or the site.")],
    limit: Annotated[int, option("--limit", "N", "Show at most N.", min=1, max=1000)] = 20,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List the last rounds, newest first.

    Shows when they ran, what they brought and whether they were late. The present round is shown with what it has
    brought so far; it is `drained` where nothing is left but its spider waits for more, and has something `open again`
    where dead letters were replayed after its end. What comes of them counts with it until the next round begins;
    `failed` and `dead` say what happened in it and do not go down. 1,000 rounds of each spider or site are kept.
    """
    with where.find() as frontier:
        try:
            rounds, now = frontier.rounds(name, limit), frontier.counts().now
            drained = frontier.drained(name)
        except UnknownGroup:
            raise UnknownGroup(
                f"no site or spider {name!r} has run in this crawl; `gossamer group list` names those that have."
            ) from None
    if json:
        output.write_json([x._asdict() for x in rounds])
        return
    # A spider that waits for seeds never ends its round; one that ended goes on when dead letters are replayed.
    present = max((x.round for x in rounds), default=0)
    output.write_table(
        (
            "round",
            "state",
            "began",
            "took",
            "trigger",
            "who",
            "pages",
            "items",
            "failed",
            "dead",
            "gone",
            "late",
            "note",
        ),
        [
            (
                x.round,
                _state(x, drained) if x.round == present else x.state,
                moment(x.began),
                _took(x, now),
                x.trigger,
                x.who,
                *(f"{n:,}" for n in (x.pages, x.items, x.failed, x.dead)),
                "" if x.gone is None else f"{x.gone:,}",
                "late" if x.late else "",
                x.note,
            )
            for x in rounds
        ],
        ("who", "trigger", "note"),
    )


@app.command()
def new(
    group: Annotated[str, argument("GROUP", "The spider or the site.")],
    forget: Annotated[
        bool, flag("--forget", "Also forget what is remembered over all rounds: everything is fetched again.")
    ] = False,
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Begin the next round of a spider or a site.

    Its start (start(), start_urls, the seeds of a site) is run once more, by a worker that is there or by
    the next one that starts, and what was seen in the last round only is new again. Under SCHEDULER_PERSIST or `seen: forever` pages stay
    seen over all rounds: --forget makes them new too. A round that is not over is cut short; what is queued stays queued.
    A site whose group was dropped begins again with round 0.
    """
    with where.find() as frontier:
        if not frontier.counts(group).groups and Registry(frontier).has_site(group):
            # Workers that serve it define the rest.
            frontier.define(group, {}, GroupPolicy(start=True))
            where.log(frontier, "round", f"group {group}", "round 0")
            output.write_answer(json, {"group": group, "round": 0, "forgotten": 0}, f"round 0 of {group} begins")
            return
        [row] = counts_of(frontier, group).groups
        unfinished = f" {row.open:,} of round {row.round} are still open and stay so." if row.open else ""
        known = seen_known(frontier, group) if forget else 0
        lost = f" {output.counted(known, 'page')} that the group has seen will be new again." if forget else ""
        if unfinished or lost:
            options.confirm(f"Begin round {row.round + 1} of {group}?{unfinished}{lost}", yes)
        if forget:
            clear_seen(frontier, group)
        number = frontier.new_round(group, row.round + 1, trigger="by hand", who=where.who())
        where.log(frontier, "round", f"group {group}", f"round {number}" + (", seen forgotten" if forget else ""))
    output.write_answer(
        json,
        {"group": group, "round": number, "forgotten": known},
        f"round {number} of {group} begins" + (f"; {output.counted_are(known, 'page')} new again" if forget else ""),
    )


def _state(info: RoundInfo, drained: Drained) -> str:
    """Of the present round, with what the group has left."""
    if info.state == "running":
        return "drained" if drained.drained else info.state
    return info.state if drained.drained else f"{info.state}, {drained.open + drained.tasks:,} open again"


def _took(info: RoundInfo, now: float) -> str:
    """From its begin until it was found drained, or until now."""
    until = info.ended if info.ended is not None else now if info.state == "running" else None
    return "" if info.began is None or until is None else duration(max(0.0, until - info.began))
