"""Check that everything stored of a crawl is consistent.

For tests: every partition is read as a whole, so this takes as long as the crawl is large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.support.auditor.state import PartitionPicture, look

from gossamer.frontier.valkey import ValkeyFrontier


def audit(frontier: ValkeyFrontier, *, filtered: bool = False) -> list[PartitionPicture]:
    """Pictures of every partition; AssertionError with all problems if one contradicts itself.

    `filtered` says that every request was added filtered, to lanes with an exact memory: then a fingerprint is open at
    most once, and known.
    """
    pictures = [look(frontier, partition) for partition in range(frontier.partitions)]
    found = [
        f"partition {partition}: {problem}"
        for partition, picture in enumerate(pictures)
        for problem in problems(picture, filtered=filtered)
    ]
    if found:
        raise AssertionError("\n".join(found))
    return pictures


def problems(picture: PartitionPicture, *, filtered: bool = False) -> list[str]:
    """Everything in a picture that contradicts something else in it."""
    return [
        *_counted(picture), *_placed(picture), *_lanes(picture), *_hosts(picture), *_leased(picture), *_dead_kept(picture),
        *_once(picture, filtered),
    ]  # fmt: skip


def _counted(picture: PartitionPicture) -> Iterator[str]:
    real: Counter[str] = Counter()
    for lane in picture.lanes.values():
        real.update({f"{lane['name']}|{what}": 0 for what in "qdl"})
    names = {"front": "q", "queued": "q", "suspect": "q", "delayed": "d", "leased": "l"}
    groups: Counter[str] = Counter()
    of_lane = {lane["name"]: lane["group"] for lane in picture.lanes.values()}
    for state, name, _, _, _ in picture.requests():
        real[f"{name}|{names[state]}"] += 1
        groups[of_lane.get(name, "")] += 1
        if name not in of_lane:
            yield f"a {state} request belongs to {name}, which does not exist"
    ids = {lane["name"]: number for number, lane in picture.lanes.items()}
    for field, value in real.items():
        name, _, what = field.rpartition("|")
        counted = picture.counts.get(f"{ids.get(name)}|{what}", 0)
        if counted != value:
            yield f"{name} counts {counted} as {what!r} and has {value}"
    for group in picture.groups:
        start = picture.starts.get(group)
        value = groups[group] + (start is not None and start[1] in ("owed", "leased"))
        counted = picture.counts.get(f"g|{group}|open", 0)
        if counted != value:
            yield f"group {group} counts {counted} open and has {value}"
    held = Counter(lease.incarnation for lease in picture.leases.values())
    for field, counted in picture.counts.items():
        if counted < 0:
            yield f"count {field} is {counted}"
        if field.startswith("w|") and counted != held[field[2:]]:
            yield f"worker {field[2:]} counts {counted} leases and holds {held[field[2:]]}"
    for incarnation, value in held.items():
        if f"w|{incarnation}" not in picture.counts:
            yield f"worker {incarnation} holds {value} leases and counts none"


def _placed(picture: PartitionPicture) -> Iterator[str]:
    """Every place with work stands in its ring once, or is parked once; nothing else does."""
    ids = {lane["name"]: number for number, lane in picture.lanes.items()}
    stands: Counter[tuple[str, int, str]] = Counter()
    for (lane, priority), hosts in picture.rings.items():
        for host in hosts:
            stands[lane, int(priority), host] += 1
        if priority not in picture.priorities.get(lane, {}):
            yield f"ring {lane}:{priority} has hosts but its lane does not know the priority"
    for (number, host), parked in picture.parked.items():
        stands.update((number, one, host) for one in parked)
        group = picture.lanes[number]["group"] if number in picture.lanes else ""
        # By its group: a lane that came to another stage while it waits stands in that of before.
        waits = any(place.endswith(f"|{group}") for place in picture.lines.get(host, {}))
        if not waits and not picture.own.get(f"{group}|{host}", "").endswith("p"):
            yield f"lane {number} waits for host {host}, its group does not"
    for host, row in picture.hosts.items():
        if row.parked != len(picture.lines.get(host, {})):
            yield f"host {host} counts {row.parked} that wait, and {list(picture.lines.get(host, {}))} do"
    work = {(ids.get(p.lane, p.lane), p.priority, p.host) for p in (*picture.queues, *picture.fronts)}
    for place in work:
        if stands[place] != 1:
            yield f"{place} has work and stands {stands[place]} times in rings or parked"
    for place in stands:
        if place not in work:
            yield f"{place} stands in a ring or is parked without work"
    for lane, known in picture.priorities.items():
        for priority, score in known.items():
            if (lane, priority) not in picture.rings:
                yield f"lane {lane} knows priority {priority} whose ring is empty"
            if score != -int(priority):
                yield f"lane {lane} has priority {priority} at {score}"


def _lanes(picture: PartitionPicture) -> Iterator[str]:
    for number, lane in picture.lanes.items():
        here = f"{lane['stage']}|{lane['group']}|{lane['tier']}"
        for place, members in picture.active.items():
            if number in members and place != here:
                yield f"lane {lane['name']} is active in {place}, not in {here}"
        group = picture.groups.get(lane["group"])
        room = lane["max_leased"] == 0 or picture.counts.get(f"{number}|l", 0) < lane["max_leased"]
        open_now = group is not None and not (
            lane["paused"] or group["paused"] or picture.held.get(lane["group"]) or lane.get("closed")
        )
        ready = open_now and room and picture.priorities.get(number)
        if ready and number not in picture.active.get(here, {}):
            yield f"lane {lane['name']} has ready work and is not active"
        if ready and lane["group"] not in picture.turns.get(lane["stage"], {}):
            yield f"lane {lane['name']} has ready work and its group takes no turns"
        if number not in picture.group_lanes.get(lane["group"], set()):
            yield f"group {lane['group']} does not know its lane {lane['name']}"
    places = set(picture.active)
    told = {f"{place}|{tier}" for place, tiers in picture.tiers.items() for tier in tiers}
    if places != told:
        yield f"lanes are active in {sorted(places)}, the tiers say {sorted(told)}"


def _hosts(picture: PartitionPicture) -> Iterator[str]:
    flying = Counter(lease.host for lease in picture.leases.values() if lease.mark != 2)
    for host, number in flying.items():
        if host not in picture.hosts:
            yield f"host {host} has {number} in flight and no record"
    for host, row in picture.hosts.items():
        if row.in_flight != flying[host]:
            yield f"host {host} counts {row.in_flight} in flight and has {flying[host]}"
        if row.paused or not row.parked:
            continue
        if row.in_flight == 0 and host not in picture.wake:
            yield f"groups wait for host {host} and nothing wakes it"
        policy = row.policy or picture.default_host
        sent = max(row.last, row.till)
        wait = max(row.blocked_until, sent + max(policy["delay"], row.crawl_delay, row.gap) if sent else 0)
        full = 0 < policy["concurrency"] <= row.in_flight
        offered = float(picture.meta.get("t", 0)) + 1000
        if not full and picture.wake.get(host, 0) > max(wait, offered):
            yield f"host {host} may be asked at {wait} and wakes at {picture.wake[host]}"
    own = Counter(
        f"{lease.counted}|{lease.host}" for lease in picture.leases.values() if lease.counted and lease.mark != 2
    )
    told = {place: int(value.rstrip("p")) for place, value in picture.own.items()}
    if told != dict(own):
        yield f"groups count {told} of their own in flight and have {dict(own)}"


def _leased(picture: PartitionPicture) -> Iterator[str]:
    if picture.leases.keys() != picture.deadlines.keys():
        yield f"leases {sorted(picture.leases)} have deadlines {sorted(picture.deadlines)}"
    if not picture.marks.keys() <= picture.leases.keys():
        yield f"marks without a lease: {sorted(picture.marks.keys() - picture.leases.keys())}"
    alone = {lease.incarnation: number for number, lease in picture.leases.items() if lease.alone}
    if {name: int(number) for name, number in picture.alone.items()} != alone:
        yield f"alone are {alone}, noted {picture.alone}"
    if int(picture.meta.get("alone", 0)) != len(alone):
        yield f"{len(alone)} leases are alone, counted {picture.meta.get('alone')}"
    if int(picture.meta.get("x", 0)) != len(picture.suspects):
        yield f"{len(picture.suspects)} suspects, counted {picture.meta.get('x')}"
    returned = sum(len(records) for records in picture.fronts.values())
    if int(picture.meta.get("front", returned)) != returned:
        yield f"{returned} requests came back, counted {picture.meta['front']}"
    holders = Counter(lease.incarnation for lease in picture.leases.values() if lease.lane)
    for incarnation in alone:
        if holders[incarnation] != 1:
            yield f"worker {incarnation} tries a request alone and holds {holders[incarnation]}"


def _dead_kept(picture: PartitionPicture) -> Iterator[str]:
    listed = sorted(number for numbers in picture.dead_order.values() for number in numbers)
    if listed != sorted(picture.dead):
        yield f"dead letters {sorted(picture.dead)} are listed as {listed}"


def _once(picture: PartitionPicture, filtered: bool) -> Iterator[str]:
    rows = list(picture.requests())
    for number, times in Counter(row[4].id for row in rows if row[4].id).items():
        if times > 1:
            yield f"request {number} is in {times} places"
    if not filtered:
        return
    seen = set().union(*picture.seen.values())
    for fingerprint, times in Counter(row[4].fingerprint for row in rows).items():
        if times > 1:
            yield f"fingerprint {fingerprint} is in {times} places"
        if fingerprint not in seen:
            yield f"fingerprint {fingerprint} is stored and not seen"
