"""Parents whose children are missing in the store, queued again.

A page that was stored without any stored child may have been read while its links were missing, or its children failed. It is
queued again in its layer, seen or not. What a call has queued, the next one does not queue again while anything of the layer waits
or is in progress; after that it queues what is still missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from gossamer.engine.page.payload import pack
from gossamer.engine.sql_records import store_address
from gossamer.errors import GossamerError, SiteError, UnknownDocument, UnknownGroup, VersionConflict
from gossamer.frontier.contract import Frontier
from gossamer.model import AddOutcome
from gossamer.model.page import PageRequest
from gossamer.model.request import AddKey
from gossamer.settings import Settings
from gossamer.sites.compile import CompiledSite
from gossamer.sites.file.params import Parameters, parameters
from gossamer.sites.file.problems import did_you_mean
from gossamer.sites.format import SELECTORS, stored_fields
from gossamer.sites.plan import LayerGraph
from gossamer.sites.tables import tables as tables_
from gossamer.store import Store

KIND = "reconcile"
"""The kind of the documents that mark former calls."""
BATCH = 500
URL, PARENT = "url", "parent"


class TablePair(NamedTuple):
    """Two kinds of records that belong together. `on` says by which columns, where the child's table is not below the parent's;
    `url` is the parent's column that holds its URL."""

    parent: str
    child: str
    above: str
    below: str
    on: Mapping[str, str] | None
    url: str


@dataclass
class ReconcileResult:
    """The result for one pair: parents without a child, how many were queued, and why others were not."""

    pair: TablePair
    missing: int = 0
    queued: int = 0
    waiting: int = 0
    full: int = 0
    refused: list[str] = field(default_factory=list)


def pairs(site: CompiledSite, parent: str = "", child: str = "") -> list[TablePair]:
    """The pairs that can be checked, or the given one; SiteError says what is missing for it. A child is a layer, or a field of the
    parent with records of its own."""
    for name in filter(None, (parent, child)):
        _known(site, name, parent, is_child=name == child)
    if parent and child:
        return [_pair(site, parent, child)]
    known = parameters(site.site.params) if site.site.params else Parameters()
    found, why = [], []
    for above, others in LayerGraph(site.site, known).edges.items():
        for below in dict.fromkeys(others):
            if below != above and parent in ("", above) and child in ("", below):
                try:
                    found.append(_pair(site, above, below))
                except SiteError as error:
                    why.append(str(error))
    if not found:
        reason = why[0] if why else "no layer follows links to another."
        raise SiteError(f"There is nothing to reconcile in the site {site.name}: {reason}")
    return found


def _known(site: CompiledSite, name: str, parent: str, is_child: bool) -> None:
    if name in site.layers or (is_child and parent in site.layers and name in site.layers[parent].fields):
        return
    hint = did_you_mean(name, site.layers)
    raise SiteError(f"The site {site.name} has no layer {name}{f' ({hint})' if hint else ''}.")


def _pair(site: CompiledSite, parent: str, child: str) -> TablePair:
    whole = site.site
    if parent not in whole.store:
        raise SiteError(f"records of the layer {parent} are not stored; write store.{parent} into the site file.")
    rule = whole.store[parent]
    specs = {spec.name: spec for spec in site.tables()}
    above, url = tables_.table_name(whole, parent), tables_.column_of(rule, URL)
    if url not in (column.name for column in specs[above].columns):
        raise SiteError(
            f"the table {above} does not have the URLs of its pages; add url to store.{parent}.add in the site file."
        )
    if child not in site.layers:
        below = tables_.child_name(above, child, rule.children.get(child))
        if below not in specs:
            raise SiteError(f"the field {child} of the layer {parent} has no table of its own.")
        return TablePair(parent, child, above, below, None, url)
    if child not in whole.store:
        raise SiteError(f"records of the layer {child} are not stored; write store.{child} into the site file.")
    below, column = tables_.table_name(whole, child), tables_.column_of(whole.store[child], PARENT)
    if column not in (one.name for one in specs[below].columns):
        raise SiteError(
            f"the table {below} does not say from which page its records come; add parent to store.{child}.add in the site file."
        )
    return TablePair(parent, child, above, below, {url: column}, url)


def check_ran(frontier: Frontier, site: CompiledSite) -> None:
    """UnknownGroup if the site has never run: there can be nothing to reconcile."""
    if not frontier.counts(site.name).lanes:
        raise UnknownGroup(f"the site {site.name} has never run in this crawl; crawl it first.")


def opened(site: CompiledSite, settings: Settings) -> Store:
    """The store that the workers of the site write to, with its tables."""
    store = Store.open(*store_address(site, settings))
    try:
        store.prepare(site.tables())
    except BaseException:
        store.close()
        raise
    return store


def missing(store: Store, site: CompiledSite, pair: TablePair) -> Iterator[PageRequest]:
    """The parents without a child, as links to be followed again."""
    spec = next(spec for spec in site.tables() if spec.name == pair.above)
    inherits = _inherited(site, pair.parent)
    keys = store.missing(pair.above, pair.below, pair.on)
    depth = site.depths.get(pair.parent, 0)
    rows: Iterator[Mapping[str, Any]] = keys
    if pair.url not in spec.key or inherits:
        wanted = {tuple(row[name] for name in spec.key) for row in keys}
        latest = {
            key: row for row in store.read(pair.above) if (key := tuple(row[name] for name in spec.key)) in wanted
        }
        rows = iter(latest.values())
    for row in rows:
        if url := row[pair.url]:
            passed = {name: value for name, column in inherits.items() if (value := row[column]) is not None}
            yield site.link(url, pair.parent, inherited=passed, depth=depth, dont_filter=True)


def _inherited(site: CompiledSite, layer: str) -> dict[str, str]:
    """The inherited values of a layer's pages that its own table has: name and column."""
    rule = site.site.store[layer]
    found = {}
    for name, one in stored_fields(site.layers[layer].fields).items():
        first, _, rest = one.source.partition(".")
        if first == "parent" and rest and "." not in rest and all(getattr(one, way) is None for way in SELECTORS):
            found[rest] = tables_.column_of(rule, name)
    return found


def queue(
    frontier: Frontier,
    site: CompiledSite,
    pair: TablePair,
    links: Iterator[PageRequest],
    *,
    limit: int,
    again: bool = False,
    heard: Callable[[ReconcileResult], None] = lambda result: None,
) -> ReconcileResult:
    """Add the links to the frontier. An interrupted call is completed by the next one. `again`: also those that were queued before."""
    lane, result = f"{site.name}.{pair.parent}", ReconcileResult(pair)
    number = _generation(frontier, site.name, lane, again)
    while batch := list(islice(links, BATCH)):
        requests, keys = [], []
        for link in batch:
            try:
                # Its children were seen, or they would not be missing.
                child = pair.child if pair.child in site.layers else ""
                requests.append(pack(link._replace(again=child, always=link.dont_filter), lane, limit))
            except (GossamerError, ValueError) as error:
                result.refused.append(f"{link.url}: {error}")
                continue
            keys.append(AddKey(f"reconcile:{lane}:{number}:{link.fingerprint:x}"))
        outcomes = frontier.add(requests, key=keys)[0] if requests else []
        result.missing += len(batch)
        result.queued += sum(one is AddOutcome.ADDED for one in outcomes)
        result.waiting += sum(one is AddOutcome.DUPLICATE for one in outcomes)
        result.full += sum(one is AddOutcome.FULL for one in outcomes)
        heard(result)
        if result.full:
            break
    return result


def _generation(frontier: Frontier, group: str, lane: str, again: bool) -> int:
    """The number under which pages are queued: a new one when all pages of the last one are done."""
    counts = frontier.counts(group)
    row = next((row for row in counts.lanes if row.lane == lane), None)
    if row is None:
        raise UnknownGroup(f"the site {group} has never run with this layer; a worker that serves it makes it known.")
    try:
        kept = frontier.document(KIND, lane)
    except UnknownDocument:
        kept = None
    if kept is not None and not again:
        idle = row.waiting + row.leased == 0
        if not (idle and row.added > json.loads(kept.text)["added"]):
            return kept.version
    try:
        text = json.dumps({"added": row.added})
        return frontier.put_document(KIND, lane, text, expected=kept.version if kept else 0)
    except VersionConflict:
        # Another call reconciles at this moment: use its number.
        return frontier.document(KIND, lane).version
