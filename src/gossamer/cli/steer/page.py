"""`gossamer page`: what is known of single pages."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from gossamer.cli import options, output
from gossamer.cli.options import argument, flag, option
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import moment, when
from gossamer.courier.task.report import without_report
from gossamer.engine.page.payload import pack, unpack, visited_again
from gossamer.errors import DecodingError, EncodingError, SiteError, UnknownLane
from gossamer.frontier import codec
from gossamer.frontier.snapshot import line
from gossamer.frontier.snapshot.requests import STATES as WAITING
from gossamer.frontier.snapshot.requests import requests_of
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import AddOutcome, PageInfo, PageState, Request, ScannedRequest
from gossamer.model.page import PageRequest
from gossamer.model.reply import Counts
from gossamer.registry import KIND, Registry
from gossamer.sites.compile import CompiledSite, compile_site
from gossamer.sites.file.environment import variables
from gossamer.sites.file.load import survey_texts
from gossamer.sites.format import SiteSpec
from gossamer.sites.plan import AGAIN
from gossamer.status.why import dead_letter_of, obstacles, reasons

app = options.Noun("Single pages: their records, and when they are due.")
Url = Annotated[str, argument("URL", "The address of the page.")]
FIRST = 2**31 - 1
"""Before whatever has a priority. Page records know it: a page goes ahead once."""
STATES = tuple(state.value for state in PageState if state is not PageState.FETCHING)


class Place(NamedTuple):
    """A layer that a URL belongs to, with the fingerprint that it has there."""

    site: str
    layer: str
    fingerprint: int
    request: Request
    parents: tuple[str, ...] = ()
    """The fields that the layer takes from the page that leads to one of its own."""
    stored: bool = False
    """Whether the request is that of its page record, as a spider made it."""
    gone: bool = False
    """Whether the file of the site has no such layer any more."""
    off: str = ""
    """Why nothing of the site is fetched, by its file; empty if it is."""

    @property
    def lane(self) -> str:
        return f"{self.site}.{self.layer}"

    @property
    def heading(self) -> str:
        gone = ", which is gone from the site's file" if self.gone else ""
        return f"site {self.site}, layer {self.layer}{gone}, fingerprint {self.fingerprint:016x}"


@app.command()
def show(
    page_url: Url,
    site: Annotated[str, option("--site", "NAME", "Only as a page of this site.")] = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show which site and layer a URL belongs to, and what is known of the page.

    For a layer that keeps page records: its state and since when, its visits and changes, when it is due, and its last events.
    For another layer, whether the page was seen.
    """
    with where.find() as frontier:
        places = _places(frontier, page_url, site, everywhere=True)
        found = [(place, *_known(frontier, place)) for place in places]
        now = frontier.counts().now
    if json:
        output.write_json([
            {"site": place.site, "layer": place.layer, "fingerprint": f"{place.fingerprint:016x}", "seen": seen, "record": page and _plain(page)}
            for place, seen, page in found
        ])  # fmt: skip
        return
    for place, seen, page in found:
        output.write_line(place.heading)
        if page is None:
            output.write_line("  seen; the layer keeps no page records" if seen else "  not known")
        else:
            for name, value in _told(page, now):
                output.write_wrapped(f"  {name:10} {value}", 13)


@app.command("why")
@app.command("explain", hidden=True)
def why(
    page_url: Url,
    site: Annotated[str, option("--site", "NAME", "Only as a page of this site.")] = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Explain why a page was fetched or not, and what it waits for.

    Looks at everything that may keep a page from being fetched: whether anything led to it, what became of it, whether
    it became a dead letter, and whether its site, its layer or its host is paused, blocked or not served by any worker.
    """
    with where.find() as frontier:
        found = [
            (place, [*reasons(frontier, place.lane, place.request), *([place.off] if place.off else ())])
            for place in _places(frontier, page_url, site, everywhere=True)
        ]
    if json:
        output.write_json([{"site": place.site, "layer": place.layer, "why": said} for place, said in found])
        return
    for place, said in found:
        output.write_line(place.heading)
        for each in said:
            output.write_wrapped(f"  {each}")


@app.command()
def fetch(
    page_url: Url,
    site: Annotated[str, option("--site", "NAME", "As a page of this site, where several match.")] = "",
    without_parent: Annotated[
        bool,
        flag(
            "--without-parent",
            "Also where fields come from the page that leads to it, and that is not known: they stay empty.",
        ),
    ] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Fetch a page now, whether it was seen or not, ahead of what is queued in its layer.

    A worker that serves the site fetches it with its next call, politely as always, and reads and stores it as any page of the layer. One that
    was asked for already, or that a worker has, is not queued twice. The request is the one of its page record or dead letter, if there is one. Says what keeps it waiting, if anything does. A
    page of a Scrapy spider needs a record, because its URL alone does not name its callback.
    """
    with where.find() as frontier:
        places = _places(frontier, page_url, site)
        if len(places) > 1:
            raise typer.BadParameter(f"{', '.join(place.lane for place in places)} match; name one with --site")
        [place] = places
        if place.gone:
            raise SiteError(
                f"The layer {place.layer} is gone from the file of {place.site}, and no other layer matches {page_url}: nothing can read it."
            )
        request = place.request if place.stored else _kept_request(frontier, place)
        if request is None and place.parents and not without_parent:
            raise SiteError(
                f"{place.lane} takes {', '.join(place.parents)} from the page that leads to {page_url}, and nothing is known of that: a row "
                "would lose what it has there. Fetch it all the same with --without-parent, or keep page_records in the layer."
            )
        request = (request or place.request)._replace(dont_filter=True, priority=FIRST)
        already = _on_its_way(frontier, request)
        if not already:
            [outcome] = frontier.add([request])[0]
            if outcome is not AddOutcome.ADDED:
                raise UnknownLane(
                    f"{place.lane} does not take it ({outcome.value}): {'; '.join(reasons(frontier, place.lane, place.request))}."
                )
        waits = [*obstacles(frontier, place.lane, request.host), *([place.off] if place.off else ())]
    said = f"{page_url} {already or f'is queued in {place.lane}, ahead of the rest'}"
    output.write_answer(json, {"lane": place.lane, "url": page_url, "already": bool(already), "waits": waits}, said)
    for why in waits if not json else ():
        output.write_notice(f"it waits: {why}")


@app.command("list")
def list_(
    lane: Annotated[str, argument("LANE", "Full name of a lane: site.layer.")] = "",
    host: Annotated[str, option("--host", "NAME", "What waits for this host, or is in progress there.")] = "",
    state: Annotated[
        str,
        option(
            "--state",
            "STATE",
            f"Only those in this state: {', '.join(WAITING)} (suspect: tried alone, since workers that had it have died); of page records {', '.join(STATES)}.",
        ),
    ] = "",
    limit: Annotated[int, option("--limit", "N", "List at most N.", min=1)] = 100,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List pages of a lane, or what waits for a host, in no particular order.

    Of a lane that keeps page records, lists the records; of any other lane, and of a host, what is queued, delayed or in the hands of a worker (leased).
    """
    if state and state not in (*STATES, *WAITING):
        raise typer.BadParameter(f"there is no state {state}; there are {', '.join((*WAITING, *STATES))}")
    if not lane and not host:
        raise typer.BadParameter("name a lane or a host")
    with where.find() as frontier:
        counts = frontier.counts()
        if lane and not any(row.lane == lane for row in counts.lanes):
            raise UnknownLane(f"There is no lane {lane!r} in this crawl. `gossamer lane list` shows those there are.")
        kept = lane != "" and "records" in counts.lane_policies[lane] and not host
        if state in STATES and not kept:
            raise typer.BadParameter(f"{state} is a state of page records: name a lane that keeps them, without --host")
        if kept and state not in WAITING:
            pages = list(islice(_pages(frontier, lane, PageState(state) if state else None), limit + 1))
            _list_records(pages[:limit], counts.now, json)
            more = len(pages) > limit
        else:
            waiting = (
                (one, row)
                for one in ([state] if state else WAITING)
                for row in requests_of(frontier, one, lane=lane, host=host)
            )
            rows = list(islice(waiting, limit + 1))
            _list_requests(rows[:limit], counts.now, json)
            more = len(rows) > limit
    if more and not json:
        output.write_notice(f"There are more than these {limit:,}; --limit lists more.")


def _list_records(pages: Sequence[PageInfo], now: float, json: bool) -> None:
    if json:
        output.write_json([_plain(page) for page in pages])
        return
    output.write_table(
        ("page", "state", "since", "last visit", "status", "changes", "due"),
        [
            (
                _url(page),
                page.state.value,
                when(page.since, now),
                when(page.last or None, now),
                page.status or "",
                page.changes,
                when(page.due or None, now),
            )
            for page in pages
        ],
        ("changes", "since", "last visit", "status"),
    )


def _list_requests(rows: Sequence[tuple[str, ScannedRequest]], now: float, json: bool) -> None:
    if json:
        output.write_json([
            {
                "url": _url(row), "state": state, "lane": row.lane, "host": row.host, "priority": row.priority,
                "attempts": row.attempts, "due": row.due, "fingerprint": f"{row.fingerprint:016x}",
            }
            for state, row in rows
        ])  # fmt: skip
        return
    output.write_table(
        ("page", "state", "lane", "priority", "attempts", "until"),
        [(_url(row), state, row.lane, row.priority, row.attempts, when(row.due or None, now)) for state, row in rows],
        ("attempts", "priority"),
    )


def _on_its_way(frontier: ValkeyFrontier, request: Request) -> str:
    """Where a page is that is fetched now, or next, without being asked for again; "" if it is not."""
    try:
        there = frontier.locate(request.lane, request.host, request.fingerprint, dead_since=None)
    except UnknownLane:
        return ""
    if there.state == "leased":
        return f"is not queued again: the worker {there.worker} has it"
    if there.state == "queued" and there.priority == FIRST:
        return f"is queued in {request.lane} already, ahead of the rest"
    return ""


def _kept_request(frontier: ValkeyFrontier, place: Place) -> Request | None:
    """The request that led to a page before, with all that it inherits, as its record or its last dead letter has it."""
    try:
        [kept] = frontier.page_records(place.lane, [place.fingerprint])
        letter = None if kept else dead_letter_of(frontier, place.lane, place.request.host, place.fingerprint)
        stored = kept or letter
        return pack(visited_again(unpack(stored))._replace(always=True), place.lane) if stored else None
    except (UnknownLane, DecodingError, EncodingError):
        return None


def _from_parent(fields: Mapping[str, Any]) -> Iterator[str]:
    for name, rule in fields.items():
        if rule.source.partition(".")[0] == "parent":
            yield name
        else:
            yield from (f"{name}.{inner}" for inner in _from_parent(getattr(rule, "fields", None) or {}))


def _places(frontier: ValkeyFrontier, url: str, wanted: str, *, everywhere: bool = False) -> list[Place]:
    """The layers that a URL fits. `everywhere`: also those that know the page although it fits another one; then only these, if that other one
    does not know it."""
    files = Registry(frontier).files()
    texts = [(frontier.document(KIND, each.info.name).text, each.info.name) for each in files if not each.problem]
    places: list[Place] = []
    known: list[Place] = []
    counts = frontier.counts()
    lanes = [row.lane for row in counts.lanes]
    sites: set[str] = set()
    for one in survey_texts(texts, {}).sites if texts else ():
        sites.add(one.site.site)
        if wanted in ("", one.site.site):
            # Variables need not be set here: URLs do not depend on them.
            compiled = compile_site(one.site, environment=dict.fromkeys(variables(one.site), "-"))
            if (found := compiled.layer_of(url)) is not None:
                link = compiled.link(url, found[0])._replace(always=True)
                request = pack(link, f"{compiled.name}.{link.layer}")
                parents = tuple(_from_parent(one.site.layers[found[0]].fields)) if found[0] in one.site.layers else ()
                number = compiled.fingerprint(found[0], url)
                place = Place(compiled.name, found[0], number, request, parents, off=_off(one.site))
                others = list(_led_to(frontier, compiled, url, lanes, place)) if everywhere else []
                # What is queued elsewhere is seen here, too, where both layers share a memory: that does not say that it was fetched.
                alone = not any(_share_memory(counts, place.lane, other.lane) for other in others)
                places += others if others and not _is_known(frontier, place, seen=alone) else [place, *others]
            else:
                known += _led_to(frontier, compiled, url, lanes)
    places = places or known or list(_of_spiders(frontier, url, wanted, sites))
    if not places:
        raise SiteError(
            f"No layer of {f'the site {wanted}' if wanted else 'the sites of this crawl'} matches {url}, and no spider has a page record of it."
        )
    return places


def _off(site: SiteSpec) -> str:
    if site.is_served:
        return ""
    return f"nothing of the site is fetched: {'its weight is 0' if site.active else 'its file says active: false'}"


def _of_spiders(frontier: ValkeyFrontier, url: str, wanted: str, sites: Container[str]) -> Iterator[Place]:
    """Pages of Scrapy spiders, which no file matches: all records of their lanes are looked through, since a project may have fingerprints
    of its own."""
    for lane, table in sorted(frontier.counts().lane_policies.items()):
        group, _, name = lane.rpartition(".")
        if "records" not in table or group in sites or wanted not in ("", group):
            continue
        for page in _pages(frontier, lane, None):
            if _url(page) == url:
                # Whose task it was has been told what became of it.
                request = without_report(Request(page.fingerprint, page.host, lane, page.payload))
                yield Place(group, name, page.fingerprint, request, stored=True)


def _led_to(
    frontier: ValkeyFrontier, compiled: CompiledSite, url: str, lanes: list[str], matched: Place | None = None
) -> Iterator[Place]:
    """The layers that know a page which none matches, or another one: `follow: {to: …}` led to it, or the layer is gone from the file."""
    # Layers may share a memory: then what is seen in one is seen in all.
    seen_there = matched is not None and _known(frontier, matched)[0]
    for lane in lanes:
        site, _, name = lane.rpartition(".")
        if site != compiled.name or (matched is not None and lane == matched.lane):
            continue
        layer = name.removeprefix(AGAIN)
        if layer in compiled.layers:
            link = compiled.link(url, layer)
        else:
            link = PageRequest(url, layer=layer, fingerprint=compiled.fingerprint(layer, url))
        request = pack(link._replace(always=True), lane)
        parents = tuple(_from_parent(compiled.site.layers[layer].fields)) if layer in compiled.site.layers else ()
        place = Place(
            site,
            name,
            request.fingerprint,
            request,
            parents,
            gone=layer not in compiled.layers,
            off=_off(compiled.site),
        )
        if _is_known(frontier, place, seen=not seen_there):
            yield place


def _is_known(frontier: ValkeyFrontier, place: Place, *, seen: bool = True) -> bool:
    """Whether a layer has a page, or a record of it; with `seen`, also whether it has seen it."""
    before, page = _known(frontier, place)
    if (before and seen) or page is not None:
        return True
    try:
        return bool(frontier.locate(place.lane, place.request.host, place.fingerprint).state)
    except UnknownLane:
        return False


def _share_memory(counts: Counts, one: str, other: str) -> bool:
    tables = [counts.lane_policies[lane] for lane in (one, other) if lane in counts.lane_policies]
    return len(tables) == 2 and line.lane_policy(tables[0])["seen"] == line.lane_policy(tables[1])["seen"]


def _known(frontier: ValkeyFrontier, place: Place) -> tuple[bool, PageInfo | None]:
    try:
        [page] = frontier.page_records(place.lane, [place.fingerprint])
        [seen] = frontier.seen(place.lane, [place.fingerprint])
    except UnknownLane:
        return False, None
    return seen, page


def _pages(frontier: ValkeyFrontier, lane: str, state: PageState | None) -> Iterator[PageInfo]:
    for partition in range(frontier.partitions):
        cursor = "0"
        while cursor:
            cursor, rows = frontier.scan_page_records(lane, partition, cursor, state=state)
            yield from rows


def _url(page: PageInfo | ScannedRequest) -> str:
    try:
        return str(codec.decode_request(page.payload)["url"])
    except (DecodingError, EncodingError, KeyError):
        return f"{page.fingerprint:016x}"


def _plain(page: PageInfo) -> dict[str, Any]:
    return {
        "url": _url(page),
        **page._asdict(),
        "fingerprint": f"{page.fingerprint:016x}",
        "signature": f"{page.signature:016x}",
        "state": page.state.value,
        "trail": [[event.value, at] for event, at in page.trail],
        "payload": None,
    }


def _told(page: PageInfo, now: float) -> Iterator[tuple[str, str]]:
    yield "state", f"{page.state.value} since {moment(page.since)} ({duration(max(0.0, now - page.since))})"
    yield "found", f"{moment(page.first)}, queued last in round {page.version}"
    if page.last:
        status = f"status {page.status}, " if page.status else ""
        yield (
            "visited",
            f"{moment(page.last)}, {status}changed {output.counted(page.changes, 'time')}, missing {output.counted(page.misses, 'time')} in a row",
        )
    if page.due:
        when = "now" if page.due <= now else f"in {duration(page.due - now)}"
        yield "due", f"{moment(page.due)} ({when})" + (f", every {duration(page.interval)}" if page.interval else "")
    yield "host", page.host
    yield "events", ", ".join(f"{event.value} {moment(at)}" for event, at in page.trail)
