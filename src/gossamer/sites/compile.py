"""A site, ready to crawl: everything an engine needs of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any
from urllib.parse import urlsplit

from gossamer.errors import SiteError
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy
from gossamer.model.page import NOTHING, PageRequest, Record, Response
from gossamer.model.table import PagePart, Row, Table
from gossamer.sites import plan
from gossamer.sites.crossing import crosses, split
from gossamer.sites.extract.charset.charset import GUESSED
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.layer import LayerReader, RuleProblems, compile_layer
from gossamer.sites.file.environment import REFERENCE, revealed_site, sent_late, variables
from gossamer.sites.file.grant import Grant
from gossamer.sites.file.params import Parameters, filled, parameters
from gossamer.sites.format import Format, Layer, RequestRule, Seed, SiteSpec, stored_fields
from gossamer.sites.login import Login
from gossamer.sites.page import Reading
from gossamer.sites.request import PLAIN, RequestParts, all_filled, is_plain, names_beside, request_parts
from gossamer.sites.secrets import Secrets, names_of
from gossamer.sites.seeds import count, unfold
from gossamer.sites.tables.tables import Rows, described, tables
from gossamer.sites.tables.whole import reached, untold, whole_layers
from gossamer.sites.url.apart import layers_apart
from gossamer.sites.url.head import may_refresh, meta_refresh_target, own_url
from gossamer.sites.url.identity import Identifier

NOTHING_GRANTED = Grant()
SINCE, LAYER = "since", "layer"
"""What the request of a sitemap or feed inherits from its seed: how old its pages may be, in seconds, and their layer."""


def compile_site(
    site: SiteSpec,
    params: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    grant: Grant | None = None,
) -> CompiledSite:
    """`params` override the file's own parameters; `environment` (of the process) is what ${NAME} is looked up in, as far as
    `grant` lets it be read. Raises MissingVariable, and SiteError for a site that was never checked."""
    if grant is not None:
        environment = grant.environment(environment)
    compiled = CompiledSite(_with_params(revealed_site(site, environment), params), params, grant or Grant())
    compiled.has_foreign_database = not (
        compiled.grant.local or site.database is None or REFERENCE.fullmatch(site.database)
    )
    known = os.environ if environment is None else environment
    if late := sent_late(site):
        compiled.secrets = Secrets({name: known[name] for name in late})
    if site.login is not None:
        compiled.login = Login(site.login, compiled, {name: known[name] for name in variables(site)})
    return compiled


class CompiledSite:
    """One site. It is also the `SiteContext` of its layers. May be used by several threads. `grant` says which functions it may
    name: without it, none."""

    def __init__(self, site: SiteSpec, params: Mapping[str, Any] | None = None, grant: Grant = NOTHING_GRANTED) -> None:
        self.site = site
        """As the file says, with ${NAME} looked up."""
        self.name, self.grant = site.site, grant
        self.layers: Mapping[str, Layer] = site.layers
        self._parameters = _given(site, params)
        self.params: Mapping[str, Any] = self._parameters.single()
        self.limits_depth = site.limits.depth
        self._layout = plan.LayerGraph(site, self._parameters)
        self.layer_of = self._layout.matcher.layer_of
        """The layer that a URL belongs to and the named groups of its `match`; None if it belongs to none."""
        self.groups = self._layout.matcher.groups
        self.is_own = self._layout.matcher.is_own
        self.first_layer = self._layout.first_layer
        self.depths: Mapping[str, int] = self._layout.depths
        self.own_hosts: frozenset[str] = self._layout.hosts or frozenset()
        """The hosts of the seeds; empty if they may be any."""
        self._usual = Identifier(site.identity)
        apart = layers_apart(site)
        self._identities = {
            name: self._usual
            if layer.identity is None and name not in apart
            else Identifier(layer.identity or site.identity, name if name in apart else "")
            for name, layer in site.layers.items()
        }
        self._elsewhere: dict[str, Identifier] = {}
        """For pages of a layer that redirect to a page of another one."""
        self._alike = all(layer.identity is None for layer in site.layers.values())
        self._by_priority = {name for name, layer in site.layers.items() if layer.order == "priority"}
        self._bodied = {name: rule for name, layer in site.layers.items() if (rule := _bodied(site, layer)) is not None}
        self._rows = Rows(site)
        self.page_key = self._rows.page_key
        self.list_digests = self._rows.list_digests
        self.overwritten = self._rows.overwritten
        self.key_of = self._rows.key_of
        self.table_of = self._rows.table_of
        self.thread_of = self._rows.thread_of
        self.has_foreign_database = False
        """Whether a file of the crawl names the database, and not the owner of the worker."""
        self.secrets: Secrets | None = None
        """The variables that stand in its requests."""
        self.login: Login | None = None
        self.other_site: Callable[[str], CompiledSite | None] = lambda name: None
        """The other sites that links may lead to, by name."""
        self._readers: dict[str, LayerReader] = {}
        self._amended: dict[str, bool] = {}
        try:
            for name, layer in site.layers.items():
                if layer.handler is None:
                    key = site.store[name].key if name in site.store else ()
                    told = (
                        key if key and not site.store[name].history and all(one in layer.fields for one in key) else ()
                    )
                    self._readers[name] = compile_layer(name, layer, self, told)
                self._amended[name] = bool(self._bodied) or any(
                    follow.priority or crosses(follow.to) for follow in layer.follow
                )
        except RuleProblems as error:
            raise SiteError(f"The site {self.name} cannot be used: {error}") from None

    # What the reading of pages asks.

    def has_layer(self, name: str) -> bool:
        return name in self.layers or crosses(name)

    def layer_there(self, site: str, url: str) -> str | None:
        other = self.other_site(site)
        found = None if other is None else other.layer_of(url)
        return None if found is None else f"{site}.{found[0]}"

    def identifier(self, layer: str) -> Identifier:
        """Which URLs are the same page. In a layer of another site, that site decides."""
        found = self._identities.get(layer)
        if found is None and crosses(layer):
            name, there = split(layer)
            other = self.other_site(name)
            found = None if other is None else other.identifier(there)
        return found or self._usual

    def fingerprint(self, layer: str, url: str, method: str = "GET", body: bytes = b"") -> int:
        return (self._identities.get(layer) or self.identifier(layer)).fingerprint(url, method, body)

    def redirected(self, layer: str, before: str, url: str, method: str = "GET", body: bytes = b"") -> int:
        """The fingerprint of where a page of a layer is redirected to. A page that belongs to another layer is not seen by that: as where
        what is sold out leads to its list, which is still to be read as a list."""
        there = self._elsewhere_than(layer, before, url)
        if there is None or ((home := self.layer_of(before)) and home[0] == there):
            return self.fingerprint(layer, url, method, body)
        if layer not in self._elsewhere:
            self._elsewhere[layer] = Identifier(self.layers[layer].identity or self.site.identity, layer)
        return self._elsewhere[layer].fingerprint(url, method, body)

    def redirected_layer(self, layer: str, first: str, url: str) -> str | None:
        """The layer that a page belongs to after redirects, where its first URL fits its own layer and the last one fits another. None for
        every other page: it is read in its own layer."""
        there = self._elsewhere_than(layer, first, url)
        home = None if there is None else self.layer_of(first)
        return there if home is not None and home[0] == layer else None

    def _elsewhere_than(self, layer: str, first: str, url: str) -> str | None:
        """The other layer that the URL after redirects belongs to. Where the patterns of both layers fit both URLs, the redirect does not
        tell them apart, although the other one fits the longer URL better: /p/12 that leads to /p/12-title beside a layer for all pages."""
        there = self.layer_of(url) if layer in self.layers else None
        if there is None or there[0] == layer:
            return None
        fits = self._layout.matcher.fits
        return None if fits(layer, url) and fits(there[0], first) else there[0]

    def shares_memory(self, one: str, other: str) -> bool:
        """Whether a page that one layer has seen is seen for the other, too."""
        rules = [self.layers[name] for name in (one, other) if name in self.layers]
        seen = [rule.seen or self.site.seen for rule in rules]
        return (
            len(rules) == 2
            and seen[0] == seen[1]
            and seen[0].scope != "never"
            and not any(rule.keeps_records for rule in rules)
        )

    def canonical(self, layer: str, url: str) -> str:
        """The URL as it is compared: in its one form, with only the query parameters that count."""
        return self.identifier(layer).canonical(url)

    def identity(self, url: str) -> str:
        """The same for a page of which only the URL is known."""
        if self._alike:
            return self._usual.canonical(url)
        found = self.layer_of(url)
        return self.canonical(found[0] if found else "", url)

    def meta_refresh(self, layer: str, page: Response) -> str | None:
        """Where a page of HTML sends its visitors at once (meta refresh); None if it is to be read."""
        if not may_refresh(page):
            return None
        rule = self.layers.get(layer)
        if rule is None or rule.format is not Format.HTML:
            return None
        return meta_refresh_target(page, lambda address: self._content(layer, rule, page).absolute(address))

    def _content(self, layer: str, rule: Layer, page: Response) -> PageContent:
        return PageContent(page, layer, rule.format, rule.encoding, self)

    def charset(self, layer: str, page: Response) -> str:
        """The character set of a page, and whether it is a guess; "" for binary pages."""
        content = self._content(layer, rule, page) if (rule := self.layers.get(layer)) is not None else None
        if content is None or content.format is Format.BINARY:
            return ""
        content.text()
        return f"{content.codec()} (a guess)" if content.doubt == GUESSED else content.codec()

    def brings_records(self, layer: str) -> bool:
        """Whether pages of a layer have records."""
        rule = self.layers[layer]
        return bool(stored_fields(rule.fields) or rule.handler)

    def own_url(self, layer: str, page: Response) -> str:
        """The URL that a page is stored under: the one it was fetched from, or, if the identity says so, the one it names as its own."""
        rule = self.layers.get(layer)
        if rule is None or not (rule.identity or self.site.identity).canonical:
            return page.url
        url = own_url(page, lambda address: self._content(layer, rule, page).absolute(address))
        if not self._may_be(layer, url, page.url):
            return page.url
        return url if self.secrets is None else self.secrets.hidden(url)

    def _may_be(self, layer: str, url: str, fetched: str) -> bool:
        """Whether a page may be stored under a URL that it names. On some sites all pages name the front page, or their list."""
        front = urlsplit(url)
        if front.path in ("", "/") and not front.query and urlsplit(fetched).path not in ("", "/"):
            return False
        named, own = self.layer_of(url), self.layer_of(fetched)
        return named is None or own is None or named[0] == layer or own[0] != layer

    # Pages.

    def read(self, layer: str, document: Response) -> Reading:
        """Read a page by the rules of its layer."""
        reader = self._readers.get(layer)
        if reader is None:
            why = "is read by its handler" if layer in self.layers else "is not one of its layers"
            raise SiteError(f"Pages of {self.name}.{layer} cannot be read by rules: it {why}.")
        reading = reader.read(document)
        if not self._amended[layer] or not reading.links:
            return reading
        return reading._replace(links=[self._amend(link) for link in reading.links])

    def link(
        self,
        url: str,
        layer: str | None = None,
        *,
        priority: int = 0,
        method: str = "GET",
        headers: Mapping[str, str] = NOTHING,
        cookies: Mapping[str, str] = NOTHING,
        body: bytes = b"",
        inherited: Mapping[str, Any] = NOTHING,
        turn: int = 0,
        depth: int = 0,
        dont_filter: bool = False,
    ) -> PageRequest:
        """A link to a page. Without a layer: the one that matches, or else the first."""
        layer = layer or self.first_layer(url)
        if crosses(layer):
            depth = turn = 0
            name, there = split(layer)
            other = self.other_site(name)
            if other is None or there not in other.layers:
                missing = f"site {name}" if other is None else f"layer {there} in the site {name}"
                raise SiteError(f"The site {self.name} leads to {layer}, but this crawl has no {missing}.")
        elif layer not in self.layers and layer not in plan.LISTINGS:
            raise SiteError(f"The site {self.name} has no layer {layer}; there are {', '.join(self.layers)}.")
        number = self.fingerprint(layer, url, method, body)
        return self._amend(
            PageRequest(
                url, method, headers, cookies, body, layer, number, priority, inherited, turn, depth, dont_filter
            )
        )

    def _amend(self, link: PageRequest) -> PageRequest:
        """Drop the priority if the layer's order ignores it; add the method and body that the layer requests its pages with."""
        if crosses(link.layer):
            name, there = split(link.layer)
            other = self.other_site(name)
            return link if other is None else other._amend(link._replace(layer=there))._replace(layer=link.layer)
        if link.priority and link.layer not in self._by_priority:
            link = link._replace(priority=0)
        rule = self._bodied.get(link.layer)
        if rule is None or link.method != "GET" or link.body:
            return link
        values = {**self.params, **self.groups(link.layer, link.url), **link.inherited}
        how = request_parts(rule, partial(all_filled, values=values), only_body=True)
        if names := names_of(rule.form, rule.json_, rule.body):
            link = link._replace(secrets=(*link.secrets, *names))
        return self._asked(link, how._replace(headers={**how.headers, **link.headers}, cookies=link.cookies))

    def _asked(self, link: PageRequest, how: RequestParts) -> PageRequest:
        url = how.url(link.url)
        number = self.fingerprint(link.layer, url, how.method, how.body)
        return link._replace(
            url=url, fingerprint=number, method=how.method, headers=how.headers, cookies=how.cookies, body=how.body
        )

    # Rounds.

    def seeds(self) -> Iterator[PageRequest]:
        """Where a round begins, one at a time. Sitemaps and feeds go to lanes of their own; tasks are not seeds."""
        for seed in self.site.seeds:
            text = seed.url or seed.sitemap or seed.feed
            if text is not None:
                for one in unfold(text, self._parameters, names_beside(seed)):
                    yield self._seed(seed, one.url, one.values)

    def seed_count(self) -> int:
        """How many seeds there are, without making them."""
        texts = ((seed, seed.url or seed.sitemap or seed.feed) for seed in self.site.seeds)
        return sum(count(text, self._parameters, names_beside(seed)) for seed, text in texts if text is not None)

    def _seed(self, seed: Seed, url: str, values: Mapping[str, Any]) -> PageRequest:
        link = self._seeded(seed, url, values)
        names = names_of(
            seed.url, seed.sitemap, seed.feed, seed.headers, seed.cookies, seed.form, seed.json_, seed.body
        )
        return link._replace(secrets=(*link.secrets, *names)) if names else link

    def _seeded(self, seed: Seed, url: str, values: Mapping[str, Any]) -> PageRequest:
        how = request_parts(seed, partial(all_filled, values=values))
        inherited = all_filled(seed.inherited, values) if seed.inherited else NOTHING
        if seed.url is None:
            extra = {SINCE: seed.since, LAYER: seed.layer}
            inherited = {**inherited, **{name: value for name, value in extra.items() if value is not None}}
            link = self.link(url, plan.SITEMAP if seed.sitemap else plan.FEED, inherited=inherited)
            return link if how is PLAIN else self._asked(link, how)
        url = how.url(url)
        return self.link(
            url, seed.layer, priority=seed.priority, method=how.method, headers=how.headers, cookies=how.cookies, body=how.body,
            inherited=inherited,
        )  # fmt: skip

    # The frontier.

    def lanes(self) -> dict[str, LanePolicy]:
        """By layer; sitemaps and feeds have lanes of their own (`plan.LISTINGS`)."""
        return plan.lanes(self._layout)

    def group(self) -> GroupPolicy:
        return plan.group(self.site)

    def whole_layers(self) -> set[str]:
        """The layers of which a round fetches all pages anew."""
        return whole_layers(self.site, self._layout.edges, self.lanes())

    def untold_layers(self) -> dict[str, list[str]]:
        """The layers of which no round can tell which rows are gone, with those because of which."""
        return untold(self.site, self._layout.edges, self.lanes())

    def reached(self, layers: Iterable[str]) -> set[str]:
        """The layers that pages of these lead to."""
        return reached(layers, self._layout.edges)

    def hosts(self) -> dict[str, HostPolicy]:
        return plan.hosts(self._layout)

    # The store.

    @cached_property
    def database(self) -> str | None:
        """The URL of the database; None: the one of the settings."""
        return self.site.database

    def tables(self) -> list[Table]:
        """Those whose columns are known."""
        return [table for table in tables(self.site) if table.existing or not table.growing]

    def archived_tables(self, layer: str = "") -> list[Table]:
        """Those that begin empty in each round; in one of a `layer` alone those that it fills. A function may fill any."""
        found = [table for table in self.tables() if table.archive]
        if layer and self.site.layers[layer].handler is None:
            filled = {table.name for table in described(self.site, layer)} if layer in self.site.store else set()
            found = [table for table in found if table.name in filled]
        return found

    @cached_property
    def growing_tables(self) -> dict[str, Table]:
        """Those whose columns come with the records, by name."""
        return {table.name: table for table in tables(self.site) if table.growing and not table.existing}

    def part(self, layer: str) -> PagePart | None:
        """What the rows of a layer are parts of, without the page; None for rows that are whole."""
        return self._rows.parts.get(layer)

    def rows(self, record: Record, facts: Mapping[str, Any], part: PagePart | None = None) -> list[Row]:
        """The rows of a record, none if its layer stores nothing. `facts` has the values of `tables.EXTRA`; `part` is the page's
        part of them."""
        row = self._rows.row(record, facts, part)
        return [] if row is None else [row]


def _given(site: SiteSpec, params: Mapping[str, Any] | None) -> Parameters:
    known = parameters(site.params) if site.params else Parameters()
    if not params:
        return known
    if known.rows is not None:
        return Parameters(rows=[{**row, **params} for row in known.rows])
    return parameters({**known.lists, **params})


def _with_params(site: SiteSpec, params: Mapping[str, Any] | None) -> SiteSpec:
    """The site with its parameters in the headers and cookies of all its requests."""
    values = _given(site, params).single()

    def one(rule: RequestRule) -> RequestRule:
        return rule.model_copy(
            update={
                key: {name: filled(text, values) for name, text in getattr(rule, key).items()}
                for key in ("headers", "cookies")
                if key in rule.model_fields_set
            }
        )

    layers = {
        name: layer if layer.request is None else layer.model_copy(update={"request": one(layer.request)})
        for name, layer in site.layers.items()
    }
    return site.model_copy(update={"request": one(site.request), "layers": layers})


def _bodied(site: SiteSpec, layer: Layer) -> RequestRule | None:
    """The rule that requests a layer's pages with another method or a body, if there is one."""
    for rule in (layer.request, site.request):
        if rule is not None and not is_plain(rule):
            return rule
    return None
