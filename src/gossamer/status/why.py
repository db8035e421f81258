"""Why a page was fetched or was not: the question that every operator asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gossamer.errors import UnknownDeadLetter, UnknownLane
from gossamer.frontier.snapshot import line
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import (
    DeadLetter,
    GroupCounts,
    LaneCounts,
    LanePolicy,
    PageEvent,
    PageInfo,
    PageState,
    RecordPolicy,
    Request,
    RequestPlace,
    SeenKind,
    SeenScope,
)
from gossamer.model.counter_names import LEFT_OUT, ROBOTS_DENIED
from gossamer.model.plan.page_record import YEARS
from gossamer.model.plural import counted
from gossamer.model.reply import Counts
from gossamer.status.dead import dead_id
from gossamer.status.overview import WORKERS_READ, is_alive
from gossamer.status.pools import UNSERVED, ServedLanes, stage_of

NEWEST = -1.0
DECISIONS = {
    PageEvent.FOUND: "a link led to it for the first time, in round {round}",
    PageEvent.DUE: "its time had come, so it was queued",
    PageEvent.SIGHTED: "a link led to it again in round {round}, and `rediscover` says that it is fetched then; or its dead letter was replayed",
    PageEvent.READ: "it was read; its content was new, or the same as before",
    PageEvent.CHANGED: "it was read, and its content had changed",
    PageEvent.UNCHANGED: "its server said that it had not changed",
    PageEvent.MISSING: "its server said that it does not exist ({misses} in a row)",
    PageEvent.FAILED: "its visit failed for good",
    PageEvent.REPLACED: "it led elsewhere: a redirect, or another try, took its place",
    PageEvent.DROPPED: "an operator dropped it from the queue",
}
UNFETCHED = "it was not fetched: robots.txt forbids it, or a hook or middleware dropped it"
CYCLES = 100
"""Cycles of planners that are looked through."""


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
    policy = line.lane_policy_from(line.lane_policy(counts.lane_policies[lane]))
    yield from _became(frontier, lane, request, policy, counts.now, _left_out(group))
    yield from _obstacles(frontier, counts, group, here, request.host)


def obstacles(frontier: ValkeyFrontier, lane: str, host: str) -> Iterator[str]:
    """What keeps any page of a lane and a host from being fetched now."""
    site = lane.rpartition(".")[0]
    counts = frontier.counts(site)
    here = next(row for row in counts.lanes if row.lane == lane)
    yield from _obstacles(frontier, counts, counts.groups[0], here, host)


def _obstacles(
    frontier: ValkeyFrontier, counts: Counts, group: GroupCounts, here: LaneCounts, host: str
) -> Iterator[str]:
    site = group.group
    if group.paused:
        yield f"the site is paused: {group.paused}"
    if here.paused:
        yield f"the layer is paused: {here.paused}"
    yield from _host(frontier, host, counts.now)
    served = ServedLanes(worker for worker in frontier.workers(WORKERS_READ) if is_alive(worker, counts.now))
    if why := served.obstacle(site):
        yield "no worker serves the site now" if why == UNSERVED else why
    elif why := served.lane_obstacle(here.lane, stage_of(counts, here.lane)):
        yield f"{why} now"


def _left_out(group: GroupCounts) -> int:
    """How many pages of a site ended without being fetched: robots.txt forbids them, or a hook or middleware dropped them."""
    return int(sum(group.counters.get(name, 0) for name in (ROBOTS_DENIED, LEFT_OUT)))


def _became(
    frontier: ValkeyFrontier, lane: str, request: Request, policy: LanePolicy, now: float, left_out: int
) -> Iterator[str]:
    try:
        [seen] = frontier.seen(lane, [request.fingerprint])
        [page] = frontier.page_records(lane, [request.fingerprint])
        place = frontier.locate(
            lane, page.host if page else request.host, request.fingerprint, dead_since=_dead_since(page)
        )
    except UnknownLane:
        return
    letter = _letter(frontier, place)
    if letter is not None:
        yield f"it became a dead letter at {_moment(letter.at)}: {letter.reason}: {letter.detail} (`gossamer dead show {dead_id(letter)}`)"
    if page is not None:
        yield _recorded(page, policy.records or RecordPolicy(), now)
        if page.trail:
            event, at = page.trail[-1]
            # Whatever is fetched has a status.
            decided = UNFETCHED if event is PageEvent.READ and not page.status else DECISIONS[event]
            yield f"last decision, at {_moment(at)}: {decided.format(round=page.version, misses=counted(page.misses, 'time'))}"
    elif not seen and not place.state and letter is None:
        yield _unknown(policy)
    if place.state:
        yield _placed(place, lane, page.host if page else request.host)
    elif page is not None:
        yield from _fed(frontier, page, now)
    elif seen and letter is None:
        yield _not_found(place, left_out)


def _unknown(policy: LanePolicy) -> str:
    """What is not remembered may have been fetched all the same."""
    records, seen = policy.records, policy.seen
    if records is None and seen.scope is SeenScope.NEVER:
        return "it is neither queued nor in progress; whether it was fetched is not known, for its layer remembers nothing (`seen: never`)"
    led = "no seed that was queued and no link of a page that was fetched has led to it"
    if records is not None:
        forgets, others = records.max_pages > 0 or records.max_age > 0, ""
    else:
        led += " in this round" if seen.scope is SeenScope.ROUND else ""
        forgets, others = (
            seen.kind in (SeenKind.ROLLING, SeenKind.HITS),
            "what tasks or `gossamer page fetch` asked for",
        )
    unknown = " and ".join(filter(None, (others, "what the layer has forgotten since" if forgets else "")))
    return led + (f"; {unknown} is not remembered" if unknown else "")


def _dead_since(page: PageInfo | None) -> float | None:
    """From when on a dead letter of the page may be there: its record knows when a visit failed, and others are looked for among the newest."""
    if page is None:
        return NEWEST
    return max((at for event, at in page.trail if event is PageEvent.FAILED), default=None)


def _recorded(page: PageInfo, rules: RecordPolicy, now: float) -> str:
    said = f"{page.state.value} since {_moment(page.since)}"
    if page.state is PageState.FOUND:
        return f"{said}: it waits for its share of the planner's room, or if no planner leads for the next call of a worker"
    if page.state is PageState.SCHEDULED:
        return f"{said}: it is queued, or a worker has it"
    status = f", status {page.status}" if page.status else ""
    if page.interval >= YEARS:
        return f"{said}{status}: it is not visited again in this layer, which is gone from the site's file"
    if not page.due:
        return f"{said}{status}: {_rediscovered(page, rules, now)}"
    return f"{said}{status}: due {'now' if page.due <= now else f'at {_moment(page.due)}'}"


def _rediscovered(page: PageInfo, rules: RecordPolicy, now: float) -> str:
    """Whether a page that nothing visits by itself is fetched when a link leads to it."""
    word = page.state.value
    after = {PageState.FINISHED: rules.finished, PageState.FAILED: rules.failed, PageState.GONE: rules.gone}[page.state]
    newer = "in a later round" if rules.newer and page.state is not PageState.FAILED else ""
    later = f"after {_moment(page.since + after)}" if after is not None and page.since + after > now else ""
    if when := " or ".join(filter(None, (newer, later))):
        return f"it is fetched again if a link leads to it {when}, as `rediscover` says"
    if after is not None:
        return "it is fetched again as soon as a link leads to it, as `rediscover` says"
    return f"links that lead to it do not count, for `rediscover` has {word}: never; `gossamer page fetch` fetches it"


def _placed(place: RequestPlace, lane: str, host: str) -> str:
    if place.state == "leased":
        return f"the worker {place.worker} has it, and its lease lasts until {_moment(place.at)}"
    if place.state == "delayed":
        return f"it is queued in {lane} at {_moment(place.at)}: a retry or a delay holds it until then"
    if place.state == "suspect":
        return "it waits to be tried alone: workers that had it have died"
    return (
        f"it is queued in {lane} with priority {place.priority}: number {place.ahead + 1:,} of the host {host}, in a layer with "
        f"{place.queued:,} queued"
    )


def _not_found(place: RequestPlace, left_out: int) -> str:
    if place.whole and left_out:
        return (
            "it was fetched, or left out: it was found, and is neither queued nor in progress. robots.txt, or a hook or middleware, kept "
            f"{counted(left_out, 'page')} of the site from being fetched"
        )
    if place.whole:
        return "it was fetched: it was found, and is neither queued nor in progress"
    return "it was found: it is fetched already, or waits behind the 10,000 requests that were looked at"


def _fed(frontier: ValkeyFrontier, page: PageInfo, now: float) -> Iterator[str]:
    """What the planner decided last about the lane of a page that waits for it."""
    if page.state is not PageState.FOUND and not 0 < page.due <= now:
        return
    for cycle in frontier.plan_cycles(CYCLES):
        for share in cycle.lanes:
            if cycle.partition == page.partition and share.lane == page.lane:
                yield (
                    f"the planner's cycle at {_moment(cycle.at)} had room for {cycle.room:,} requests and gave its layer "
                    f"{share.share:,}: {share.taken:,} pages were queued, {share.left:,} that are due are left"
                )
                return


def dead_letter_of(frontier: ValkeyFrontier, lane: str, host: str, fingerprint: int) -> DeadLetter | None:
    """The last dead letter of a page, if it is among the newest."""
    return _letter(frontier, frontier.locate(lane, host, fingerprint, dead_since=NEWEST))


def _letter(frontier: ValkeyFrontier, place: RequestPlace) -> DeadLetter | None:
    """The last dead letter of the page."""
    if not place.letter:
        return None
    try:
        return frontier.dead_letter(place.partition, place.letter)
    except UnknownDeadLetter:
        return None


def _host(frontier: ValkeyFrontier, name: str, now: float) -> Iterator[str]:
    [host] = frontier.hosts([name])
    if host.paused:
        yield f"the host {name} is paused: {host.paused}"
    if host.blocked_until > now:
        times = f", for the {host.throttled}. time in a row" if host.throttled > 1 else ""
        yield f"the host {name} is blocked until {_moment(host.blocked_until)}: {host.reason or 'it refused'}{times}"
    elif host.next_at > now:
        yield f"the host {name} is asked again at {_moment(host.next_at)}, for its delay of {host.delay:g} s"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
