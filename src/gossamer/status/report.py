"""What a crawl brought and what went wrong, over days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gossamer.frontier.codec.redaction import concealed
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import DailyCounts, DeadLetter, FieldCoverage, GroupCounts
from gossamer.model import counter_names as names
from gossamer.model.plural import counted
from gossamer.model.reply import GONE_UNKNOWN, HostInfo, RoundInfo
from gossamer.status.chart import Series
from gossamer.status.dead import dead_url, scan_dead
from gossamer.status.overview import Overview, overview

DAY = 86400.0
SOON = 60.0
"""Seconds; a page that is tried again within these is not stuck."""
MOST_HOSTS = 1000
"""The most blocked hosts that are named."""
DEAD_PAGE = 1000
LOOKED = 100_000
"""The most delayed requests of a partition that are looked at."""
COUNTS = ("fetched", "finished", "replaced", "retried", "failed", "lost", "read", "lacking", "rows", "items")


class GoneCount(NamedTuple):
    """How many rows are gone since a round, and `why` it is unknown of others, "" if it is not."""

    group: str
    round: int
    closed: float | None
    gone: int | None
    why: str


class Failures(NamedTuple):
    """The dead letters of a lane for one reason: how many, when the last came, and the URL and detail of that one."""

    group: str
    lane: str
    reason: str
    number: int
    last: float
    url: str
    detail: str


class LeftOut(NamedTuple):
    """What a site left out or lost: where (a layer, LAYER.FIELD or LAYER.follow[N]), what, and how many records, pages or seeds."""

    group: str
    where: str
    what: str
    number: int


LEFT_OUT = {
    names.REPLACED: "records replaced by those of other pages with the same key, or more",
    names.OVERWRITTEN: "records replaced by others of their page with the same key",
    names.SKIPPED: "pages with fewer records than the rule counts",
    names.CONTESTED: "pages with links that an earlier rule leads to another layer",
    names.REDIRECTED: "pages that redirected to another layer, where they are read instead",
    names.REDIRECTED_SEEN: "pages that redirected to a page that was seen before",
    names.LINKED_GONE: "pages that do not exist (404, 410)",
    names.LINKED_DENIED: "pages that robots.txt forbids",
    names.UNLINKED: "pages with links whose {name} is empty",
    names.TEXTLESS: "pages with links whose changed is empty",
    names.OVERLONG: "pages with links that are longer than 8,000 characters",
    names.LIMITED: "pages with links beyond limit, pages or limits.depth",
    names.BROKEN: "pages not well-formed, perhaps read in part",
    names.NOWHERE: "entries without an address",
    names.DOUBTED: "pages whose character set was guessed, or is another than they say",
    names.DAMAGED: "pages with characters that were replaced",
    names.UNREADABLE: "pages with a value that is not of its type",
    names.LACKING: "pages that lack a required field",
    names.SEEDS_EMPTY: "seeds with neither records nor links",
    names.SEEDS_UNREAD: "seeds that could not be read",
}
"""What counters of sites say of things that are not stored; the name, or its beginning."""


class Stuck(NamedTuple):
    """Something that waits and does not go on by itself, or not soon: what of which group, and why."""

    group: str
    what: str
    why: str


def daily(frontier: ValkeyFrontier, groups: Sequence[str], days: int) -> list[DailyCounts]:
    """What these groups brought on each of the last days; by day, group and lane."""
    rows = [row for group in groups for row in frontier.daily_counts(group, days)]
    return sorted(rows, key=lambda row: (row.day, row.group, row.lane))


def count_of(row: DailyCounts, name: str) -> int:
    count: int = getattr(row, name)
    return count


def daily_series(rows: Sequence[DailyCounts], what: str, days: int, now: float) -> Series:
    """A line for each lane of each group over the last days; 0 on days that brought nothing."""
    today = datetime.fromtimestamp(now, UTC).date()
    series: dict[str, list[tuple[float, float]]] = {}
    by_day = {(f"{row.group}.{row.lane}".rstrip("."), row.day): count_of(row, what) for row in rows}
    for name in sorted({name for (name, _), count in by_day.items() if count}):
        series[name] = [
            (float(-back), float(by_day.get((name, today - timedelta(days=back)), 0)))
            for back in range(days - 1, -1, -1)
        ]
    return series


def day_name(back: float, now: float) -> str:
    """The day of a point of `daily_series`; nothing for what lies between two days."""
    return str(datetime.fromtimestamp(now, UTC).date() + timedelta(days=back)) if back == int(back) else ""


def failures(frontier: ValkeyFrontier, groups: Sequence[str], days: int) -> list[Failures]:
    """Dead letters of the last days by lane and reason, the most first."""
    since = _midnight(frontier.counts().now) - (days - 1) * DAY
    number: Counter[tuple[str, str, str]] = Counter()
    last: dict[tuple[str, str, str], DeadLetter] = {}
    for group in groups:
        for letter in scan_dead(frontier, group, DEAD_PAGE):
            if letter.at >= since:
                key = group, letter.lane.rpartition(".")[2], letter.reason
                number[key] += 1
                last[key] = max(letter, last.get(key, letter), key=lambda one: one.at)
    found = [
        Failures(*key, number[key], letter.at, dead_url(frontier, letter), concealed(letter.detail))
        for key, letter in last.items()
    ]
    return sorted(found, key=lambda row: (-row.number, row.group, row.lane, row.reason))


def left_out(frontier: ValkeyFrontier, groups: Sequence[str]) -> list[LeftOut]:
    """What these groups left out or lost since they are counted; by group and kind."""
    return [
        LeftOut(row.group, name.removeprefix(head), what, round(number))
        for row in frontier.counts().groups
        if row.group in groups
        for head, what in LEFT_OUT.items()
        for name, number in sorted(row.counters.items())
        if name.startswith(head) and number > 0
    ]


def gone(frontier: ValkeyFrontier, groups: Sequence[str]) -> list[GoneCount]:
    """How many rows are gone since each round of these groups, the newest first."""
    return [
        GoneCount(group, info.round, info.closed, info.gone, why_unknown(info))
        for group in groups
        for info in frontier.rounds(group, 1000)
        if info.gone is not None or why_unknown(info)
    ]


def why_unknown(info: RoundInfo) -> str:
    """Where and why it is unknown which rows are gone since a round; "" if it is known."""
    return info.note.partition(GONE_UNKNOWN)[2].lstrip(": ")


def coverage(frontier: ValkeyFrontier, groups: Sequence[str]) -> list[FieldCoverage]:
    """What the fields of these groups' layers had in their last rounds; by group, layer and field, the newest round first."""
    rows = [row for row in frontier.coverage(groups) if row.asked or row.blocked]
    return sorted(rows, key=lambda row: (row.group, row.layer, row.field, -row.round))


def _midnight(now: float) -> float:
    """When the day of UTC began."""
    return now // DAY * DAY


def stuck(frontier: ValkeyFrontier, groups: Sequence[str]) -> Iterator[Stuck]:
    """Groups with something left that nobody fetches, and why: paused or full, no worker, pages that wait for another try, held by
    workers that fell silent, hosts that are blocked or paused."""
    view = overview(frontier, hosts=MOST_HOSTS)
    left = sum(row.open for row in view.groups if row.group in groups)
    tasks = sum(row.waiting + row.leased for row in view.tasks if row.group in groups)
    if view.paused and (left or tasks):
        yield Stuck("", _left(left, tasks), f"the crawl is paused: {view.paused}")
    for row in view.groups:
        if row.group in groups:
            yield from _unserved(view, row)
    yield from _retried(frontier, groups)
    if view.stranded:
        yield Stuck("", "leases", view.stranded)
    for host in view.blocked:
        yield Stuck("", f"host {host.host}", f"blocked for {host.blocked_until - view.now:.0f} s more: {host.reason}")
    if left:
        for host in _paused_hosts(frontier):
            yield Stuck("", f"host {host.host}", f"paused: {host.paused}")


def _unserved(view: Overview, row: GroupCounts) -> Iterator[Stuck]:
    """What of a group is left, and is given to nobody."""
    tasks = sum(each.waiting + each.leased for each in view.tasks if each.group == row.group)
    why = f"paused: {row.paused}" if row.paused else view.unserved_groups.get(row.group)
    if why and (row.open or tasks):
        yield Stuck(row.group, _left(row.open, tasks), why)
        return
    for lane in view.lanes:
        group, _, layer = lane.lane.rpartition(".")
        why = f"paused: {lane.paused}" if lane.paused else view.unserved_lanes.get(lane.lane)
        if group == row.group and why and lane.waiting:
            yield Stuck(group, f"{counted(lane.waiting, 'page')} of {layer}", why)


def _left(open_: int, tasks: int) -> str:
    return ", ".join([f"{open_:,} open"] * bool(open_) + [counted(tasks, "task")] * bool(tasks))


def _paused_hosts(frontier: ValkeyFrontier) -> Iterator[HostInfo]:
    for partition in range(frontier.partitions):
        cursor = "0"
        while cursor:
            page = frontier.scan(partition, "hosts", cursor)
            found = frontier.hosts([row[0] for row in page.rows]) if page.rows else []
            yield from (host for host in found if host.paused)
            cursor = page.cursor


def _retried(frontier: ValkeyFrontier, groups: Sequence[str]) -> Iterator[Stuck]:
    """The lanes of which pages wait for another try, and until when."""
    waits: dict[str, list[float]] = {}
    more = ""
    for partition in range(frontier.partitions):
        cursor, looked = "0", 0
        while cursor and looked < LOOKED:
            page = frontier.scan(partition, "delayed", cursor)
            cursor, looked = page.cursor, looked + len(page.rows)
            for row in page.rows:
                if row.attempts and row.due - page.now >= SOON and row.lane.rpartition(".")[0] in groups:
                    waits.setdefault(row.lane, []).append(row.due - page.now)
        more = "at least " if cursor else more
    for lane, left in sorted(waits.items()):
        group, _, layer = lane.rpartition(".")
        until = f"in {max(left):.0f} s" if len(left) == 1 else f"in {min(left):.0f} to {max(left):.0f} s"
        yield Stuck(group, f"{more}{counted(len(left), 'page')} of {layer}", f"failed, and tried again {until}")
