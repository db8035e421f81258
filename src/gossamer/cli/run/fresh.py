"""`gossamer crawl --fresh`: everything that is kept of a crawl is deleted, and it starts over."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.cli import options, output, progress
from gossamer.frontier.valkey import ValkeyFrontier


def drop_crawl(frontier: ValkeyFrontier, groups: Sequence[str], yes: bool) -> None:
    """Drop these groups, as far as they exist, once the question is answered; `typer.Abort` if it is not answered with yes.
    Pages in progress end first."""
    rows = [row for row in frontier.counts().groups if row.group in set(groups)]
    if not rows:
        return
    named = rows[0].group if len(rows) == 1 else f"{len(rows)} groups"
    left, items = sum(row.open for row in rows), sum(row.items_waiting for row in rows)
    dead = sum(row.dead for row in rows)
    options.confirm(
        f"Start {named} over? {output.counted(left, 'open request')}, {output.counted(items, 'item')}, {output.counted(dead, 'dead letter')} and the memory of seen pages will be deleted.",
        yes,
    )
    progress.drop(left + dead, *(frontier.drop_group(row.group) for row in rows))
    output.write_notice(f"{named} {'starts' if len(rows) == 1 else 'start'} over")
