"""`gossamer site log`: who steered a crawl, when, and from where."""

from __future__ import annotations

from typing import Annotated

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.timestamp import moment
from gossamer.frontier import audit


def log(
    name: Annotated[str, argument("NAME", "Only what was done to this site, file, spider, lane, host or group.")] = "",
    who: Annotated[str, option("--who", "NAME", "Only what this author did.")] = "",
    limit: Annotated[int, option("--limit", "N", "Show at most N.", min=1, max=1000)] = 50,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List who changed what, newest first.

    Every push, rollback and removal of a site or spider file, every pause, round by hand, weight, block, drop and replay that was
    given to a command of gossamer: when, by whom (GOSSAMER_WHO, or user@host), from which machine. The last 1,000 are kept,
    and go with an export. What planners and workers do by themselves is in `gossamer round list`.
    """
    with where.find() as frontier:
        found = audit.entries(frontier)
    found = [x for x in found if (not name or name in x.target.split()[1:]) and (not who or who == x.who)][:limit]
    if json:
        output.write_json([x._asdict() for x in found])
        return
    output.write_table(
        ("at", "who", "from", "action", "what", "detail"),
        [(moment(x.at), x.who, x.host, x.action, x.target, x.detail) for x in found],
    )
