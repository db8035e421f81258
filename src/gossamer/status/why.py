"""Why a page was fetched or was not: the question that every operator asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gossamer.errors import UnknownLane
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DeadLetter, PageInfo, PageState, Request
from gossamer.status.dead import dead_id, scan_dead
from gossamer.status.overview import WORKERS_READ, is_alive


def reasons(frontier: ValkeyFrontier, lane: str, request: Request) -> Iterator[str]:
    """What is known of a page of a lane, the most important first, and what keeps it from being fetched."""
    site = lane.rpartition(".")[0]
    counts = frontier.counts(site) if any(row.group == site for row in frontier.counts().groups) else None
    if counts is None:
        yield "the site has not run in this crawl yet: no worker has served it"
        return
    [group] = [row for row in counts.groups if row.group == site]
    here = next((row for row in counts.lanes if row.lane == lane), None)
    if here is None:
        yield "the layer is new: no worker has served the site since its file was pushed"
        return
    yield from _became(frontier, lane, request, here.queued + here.delayed + here.leased, counts.now)
    if group.paused:
        yield f"the site is paused: {group.paused}"
    if here.paused:
        yield f"the layer is paused: {here.paused}"
    yield from _host(frontier, request.host, counts.now)
    workers = frontier.workers(WORKERS_READ)
    if not any(is_alive(worker, counts.now) and (not worker.groups or site in worker.groups) for worker in workers):
        yield "no worker serves the site now"


def _became(frontier: ValkeyFrontier, lane: str, request: Request, waiting: int, now: float) -> Iterator[str]:
    try:
        [seen] = frontier.seen(lane, [request.fingerprint])
        [page] = frontier.page_records(lane, [request.fingerprint])
    except UnknownLane:
        return
    letter = _letter(frontier, lane, request.fingerprint)
    if letter is not None:
        yield f"it became a dead letter at {_moment(letter.at)}: {letter.reason}: {letter.detail} (`gossamer dead show {dead_id(letter)}`)"
    if page is not None:
        yield _recorded(page, now)
    elif not seen:
        yield "nothing has led to it: it is no seed that was queued, and no page that was fetched links to it"
    elif letter is None and waiting:
        yield f"it was found: it is fetched already, or one of the {waiting:,} of its layer that wait or are in progress"
    elif letter is None:
        yield "it was fetched: it was found, and nothing of its layer waits"


def _recorded(page: PageInfo, now: float) -> str:
    said = f"{page.state.value} since {_moment(page.since)}"
    if page.state is PageState.FOUND:
        return f"{said}: it waits for its share of the planner's room"
    if page.state is PageState.SCHEDULED:
        return f"{said}: it is queued, or a worker has it"
    status = f", status {page.status}" if page.status else ""
    if not page.due:
        return f"{said}{status}: it is fetched again only if a link leads to it, as `rediscover` says"
    return f"{said}{status}: due {'now' if page.due <= now else f'at {_moment(page.due)}'}"


def _letter(frontier: ValkeyFrontier, lane: str, fingerprint: int) -> DeadLetter | None:
    """The last dead letter of the page."""
    found = None
    for letter in scan_dead(frontier, lane.rpartition(".")[0], 1000):
        if letter.lane == lane and letter.fingerprint == fingerprint:
            found = letter
    return found


def _host(frontier: ValkeyFrontier, name: str, now: float) -> Iterator[str]:
    [host] = frontier.hosts([name])
    if host.paused:
        yield f"the host {name} is paused: {host.paused}"
    if host.blocked_until > now:
        yield f"the host {name} is blocked until {_moment(host.blocked_until)}: {host.reason}"
    elif host.next_at > now:
        yield f"the host {name} is asked again at {_moment(host.next_at)}, for its delay of {host.delay:g} s"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
