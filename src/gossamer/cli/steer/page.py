"""`gossamer page`: what is known of single pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from gossamer.cli import options, output
from gossamer.cli.options import argument, option
from gossamer.cli.progress import duration
from gossamer.cli.timestamp import moment
from gossamer.errors import DecodingError, EncodingError, SiteError, UnknownLane
from gossamer.frontier import codec
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import PageInfo, PageState
from gossamer.registry import KIND, Registry
from gossamer.sites.compile import compile_site
from gossamer.sites.file.environment import variables
from gossamer.sites.file.load import survey_texts

app = options.Noun("Single pages: their records, and when they are due.")
Url = Annotated[str, argument("URL", "The address of the page.")]
STATES = tuple(state.value for state in PageState if state is not PageState.FETCHING)


class Place(NamedTuple):
    """A layer that a URL belongs to, with the fingerprint that it has there."""

    site: str
    layer: str
    fingerprint: int

    @property
    def lane(self) -> str:
        return f"{self.site}.{self.layer}"


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
        places = _places(frontier, page_url, site)
        if not places:
            raise SiteError(
                f"No layer of {f'the site {site}' if site else 'the sites of this crawl'} matches {page_url}."
            )
        found = [(place, *_known(frontier, place)) for place in places]
        now = frontier.counts().now
    if json:
        output.write_json([
            {**place._asdict(), "fingerprint": f"{place.fingerprint:016x}", "seen": seen, "record": page and _plain(page)}
            for place, seen, page in found
        ])  # fmt: skip
        return
    for place, seen, page in found:
        output.write_line(f"site {place.site}, layer {place.layer}, fingerprint {place.fingerprint:016x}")
        if page is None:
            output.write_line("  seen; the layer keeps no page records" if seen else "  not known")
        else:
            for name, value in _told(page, now):
                output.write_line(f"  {name:10} {value}")


@app.command("list")
def list_(
    lane: Annotated[str, argument("LANE", "Full name of a lane that keeps page records: site.layer.")],
    state: Annotated[str, option("--state", "STATE", f"Only those in this state: {', '.join(STATES)}.")] = "",
    limit: Annotated[int, option("--limit", "N", "List at most N.", min=1)] = 100,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List pages of a lane that keeps page records, in no particular order."""
    if state and state not in STATES:
        raise typer.BadParameter(f"there is no state {state}; there are {', '.join(STATES)}")
    with where.find() as frontier:
        if not any(row.lane == lane for row in frontier.counts().lanes):
            raise UnknownLane(f"There is no lane {lane!r} in this crawl. `gossamer lane list` shows those there are.")
        pages = list(islice(_pages(frontier, lane, PageState(state) if state else None), limit))
    if json:
        output.write_json([_plain(page) for page in pages])
        return
    output.write_table(
        ("page", "state", "since", "last visit", "status", "changes", "due"),
        [
            (
                _url(page),
                page.state.value,
                moment(page.since),
                moment(page.last or None),
                page.status or "",
                page.changes,
                moment(page.due or None),
            )
            for page in pages
        ],
    )


def _places(frontier: ValkeyFrontier, url: str, wanted: str) -> list[Place]:
    files = Registry(frontier).files()
    texts = [(frontier.document(KIND, each.info.name).text, each.info.name) for each in files if not each.problem]
    places = []
    for one in survey_texts(texts, {}).sites if texts else ():
        if wanted in ("", one.site.site):
            # Variables need not be set here: URLs do not depend on them.
            compiled = compile_site(one.site, environment=dict.fromkeys(variables(one.site), "-"))
            if (found := compiled.layer_of(url)) is not None:
                places.append(Place(compiled.name, found[0], compiled.fingerprint(found[0], url)))
    return places


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


def _url(page: PageInfo) -> str:
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
    yield "found", f"{moment(page.first)}, last by round {page.version}"
    if page.last:
        status = f"status {page.status}, " if page.status else ""
        yield (
            "visited",
            f"{moment(page.last)}, {status}changed {page.changes} times, missing {page.misses} times in a row",
        )
    if page.due:
        when = "now" if page.due <= now else f"in {duration(page.due - now)}"
        yield "due", f"{moment(page.due)} ({when})" + (f", every {duration(page.interval)}" if page.interval else "")
    yield "host", page.host
    yield "events", ", ".join(f"{event.value} {moment(at)}" for event, at in page.trail)
