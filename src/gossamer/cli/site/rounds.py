"""`gossamer site list --rounds`: all sites of a crawl in one table."""

from __future__ import annotations

from gossamer.cli import options, output
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import moment
from gossamer.planner.overview import PlannedRound, overview
from gossamer.sites.plan import DepthRow
from gossamer.status.depth import depths_of


def list_rounds(where: options.Where, json: bool) -> None:
    with where.find() as frontier:
        state, rows = overview(frontier)
        depths: dict[str, list[DepthRow]] = {}
        for site, row in depths_of(frontier, frontier.counts().lanes):
            depths.setdefault(site, []).append(row)
    if json:
        output.write_json([{**x._asdict(), "depths": [row._asdict() for row in depths.get(x.group, [])]} for x in rows])
        return
    leader = state.leader
    output.write_notice(
        f"the planner {leader.name} begins rounds" if leader.present else "no planner leads: workers begin rounds"
    )
    output.write_table(
        ("site", "state", "round", "began", "took", "late", "next", "waiting", "in progress", "by depth"),
        [
            (
                x.group,
                f"paused: {x.paused}" if x.state == "paused" else x.state,
                "" if x.state == "new" else x.round,
                moment(x.began),
                _took(x, state.now),
                "late" if x.late else "",
                x.why if x.next is None else moment(x.next),
                f"{x.waiting:,}",
                f"{x.in_progress:,}",
                ", ".join(f"{row.depth}: {row.waiting:,}" for row in depths.get(x.group, []) if row.waiting),
            )
            for x in rows
        ],
    )


def _took(row: PlannedRound, now: float) -> str:
    return "" if row.began is None else duration((now if row.ended is None else row.ended) - row.began)
