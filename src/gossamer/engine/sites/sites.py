"""The sites that a worker serves, each prepared once: how to fetch, read and store the pages of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gossamer.engine import hooks
from gossamer.engine.http.credentials import is_own_url, without_credentials
from gossamer.engine.http.redirect import location
from gossamer.engine.page.retry import RETRY_STATUS
from gossamer.model import LanePolicy, SeenKind, SeenScope
from gossamer.model.database_url import NO_STORE, StoreAddress
from gossamer.model.fetch import AGENT, FetchOptions
from gossamer.model.network import ANYWHERE, NEVER, guard_of, leads_inside
from gossamer.model.page import NOTHING, PageRequest, Response
from gossamer.sites.compile import CompiledSite
from gossamer.sites.crossing import crosses, target_sites
from gossamer.sites.extract.turns import begins_with_one, counts_in
from gossamer.sites.extract.validity import compile_blocked, sign_of
from gossamer.sites.format import Layer
from gossamer.sites.format import RequestRule as Asking
from gossamer.sites.format.selector import stored_fields
from gossamer.sites.login import LOGIN
from gossamer.sites.plan import AGAIN, LISTINGS
from gossamer.sites.python.reader import FunctionReader
from gossamer.sites.url.file_name import file_name

RETRIES, REDIRECTS = 3, 10
MOMENTS = frozenset({"round", "fetched_at"})
"""What may stand in a key and is another with every fetch."""
GONE = frozenset({404, 410})
"""The page does not exist any more: that is a result, not a failure."""
_HOOKS = ("before_request", "after_download", "after_extract", "before_store", "on_fail")

Hook = Callable[..., Any]


class LinkLanes(dict[tuple[str, bool], str]):
    """The lanes of the links on a layer's pages, by the layer of a link and whether it is a page turn. A page turn stays in the lane of
    its page: a thread that is fetched again is so as a whole."""

    def __init__(self, layer: ServedLayer) -> None:
        super().__init__()
        self._layer = layer

    def __missing__(self, key: tuple[str, bool]) -> str:
        name, is_turn = key
        if is_turn and name == self._layer.name:
            lane = self._layer.lane
        else:
            lane = name if crosses(name) else self._layer.site.layers[name].lane
        self[key] = lane
        return lane


class ServedLayer:
    """One layer, ready for use. `rule` is None for sitemaps and feeds. `lane` is that of its pages, if it is not called like the layer."""

    __slots__ = (
        "_blocked", "abroad", "after_download", "after_extract", "agent", "before_request", "before_store", "canonical", "conditional", "cookies", "counts_depth", "counts_from_one", "counts_in_headers", "function", "guarded", "hold", "lane", "leads_only", "leads_to_sites", "link_lanes",
        "name", "on_fail", "options", "recorded", "redirects", "referer", "retries", "retry_status", "rule", "saves", "saves_files", "site", "stores_parent", "strict",
    )  # fmt: skip

    def __init__(self, site: ServedSite, name: str, rule: Layer | None, lane: str = "") -> None:
        self.site, self.name, self.rule = site, name, rule
        self.lane = f"{site.name}.{lane or name}"
        self.link_lanes = LinkLanes(self)
        whole, grant = site.compiled.site, site.compiled.grant
        asking = _joined(whole.request, rule.request if rule is not None else None)
        self.recorded = rule is not None and rule.keeps_records
        """Whether the frontier keeps a record of each of its pages."""
        self.saves = rule is not None and rule.save in (True, "warc")
        self.saves_files = rule is not None and rule.save == "files"
        self.options = options(asking, site.compiled, self.saves, name if whole.engine == "scrapy" else "")
        self.abroad = without_credentials(self.options)
        """The options for other hosts: without the site's secrets."""
        self.agent = self.options.user_agent
        self.cookies: Mapping[str, str] = asking.get("cookies") or {}
        self.guarded = bool(self.options.hosts) and (bool(self.cookies) or self.abroad is not self.options)
        """Whether the host of a page makes a difference."""
        self.strict = not self.options.guard.private and site.compiled.grant.addresses != NEVER
        """Whether the page that led to a page makes a difference."""
        self.canonical = rule is not None and (rule.identity or whole.identity).canonical
        """Whether a page is stored under the URL that it names as its own."""
        self.counts_from_one = rule is not None and any(
            one.pages is not None and begins_with_one(one) for one in rule.follow
        )
        """Whether the first page turn may be the page itself."""
        self.counts_in_headers = rule is not None and any(
            one.pages is not None and (counts_in(one.headers) or counts_in(one.cookies)) for one in rule.follow
        )
        """Whether page turns may differ in nothing but a header or a cookie."""
        hold = rule.hold if rule is not None and rule.hold is not None else whole.hold
        self.hold = hold.coverage if hold is not None and rule is not None else None
        """The share of values below which a round is held; None: it never is."""
        self.referer: bool = _said(asking, "referer", True)
        stored = [of for one, of in whole.store.items() if one == name or (rule is not None and rule.handler)]
        self.stores_parent = any("parent" in (*of.add, *of.key) for of in stored)
        # A key with the time of the fetch wants a row of each, changed or not.
        each_time = any(one in MOMENTS and one not in rule.fields for of in stored for one in of.key) if rule else False
        self.conditional: bool = _said(asking, "conditional", False) and not each_time
        self.retries: int = _said(asking, "retries", RETRIES)
        self.redirects: int = _said(asking, "redirects", REDIRECTS)
        self.retry_status = frozenset(_said(asking, "retry_status", RETRY_STATUS))
        found = {one: hooks.find(named, grant) if (named := _hook(whole.hooks, rule, one)) else None for one in _HOOKS}
        self.before_request: Hook | None = found["before_request"]
        self.after_download: Hook | None = found["after_download"]
        self.after_extract: Hook | None = found["after_extract"]
        self.before_store: Hook | None = found["before_store"]
        self.on_fail: Hook | None = found["on_fail"]
        self._blocked = compile_blocked(name, rule, site.compiled) if rule is not None else None
        self.counts_depth = bool(whole.limits.depth or self.after_extract or (rule is not None and rule.handler))
        """Whether what is read of a page may depend on how deep it is."""
        self.leads_to_sites = rule is not None and any(one.to is not None and crosses(one.to) for one in rule.follow)
        self.leads_only = rule is not None and not stored_fields(rule.fields) and name not in whole.store
        """Whether its pages are there for their links: it keeps no record of them."""
        self.function: FunctionReader | None = None
        """What reads its pages, if no rules do."""
        if rule is not None and rule.handler:
            self.function = FunctionReader(hooks.find(rule.handler, grant), site.compiled, name)

    def file(self, response: Response, request: PageRequest) -> str | None:
        """The name of the file that a page is kept in, below that of the site; None if it is kept in none."""
        if not self.saves_files:
            return None
        url = self.site.compiled.canonical(self.name, self.own_url(response))
        headers = response.headers
        return file_name(url, headers.get("content-type", ""), request.body, headers.get("content-disposition", ""))

    def wants(self, status: int) -> bool:
        """Whether the layer reads pages of this status although others of it are failures."""
        return self.rule is not None and status in self.rule.valid.status

    def retries_status(self, status: int) -> bool:
        return status in self.retry_status and not self.wants(status)

    def is_gone(self, status: int) -> bool:
        return status in GONE and not self.wants(status)

    def redirect(self, response: Response) -> str | None:
        """Where a response sends its visitors at once; None if it is to be read."""
        if not self.redirects:
            return None
        if 300 <= response.status < 400 and (target := location(response)) is not None:
            return target
        if self.rule is None or not 200 <= response.status < 300:
            return None
        return self.site.compiled.meta_refresh(self.name, response)

    def blocked(self, response: Response, target: str | None = None) -> str:
        """The sign that a wall came instead of a page; "" for none. `target` is where the response redirects to."""
        return sign_of(response, target) if target is not None or self._blocked is None else self._blocked(response)

    def own_url(self, response: Response) -> str:
        """The URL that a page is stored under."""
        return self.site.compiled.own_url(self.name, response) if self.canonical else response.url

    def manner(self, url: str, before: str = "") -> tuple[FetchOptions, Mapping[str, str]]:
        """The options and cookies of a page. Passwords, keys and sessions are for the site's own hosts only. FetchError for an invalid
        URL. `before` is the page that led to it, "" for a round, a task or an operator."""
        options, cookies = self.options, self.cookies
        if self.guarded and not is_own_url(url, options):
            options, cookies = self.abroad, NOTHING
        if self.strict and leads_inside(url) and (not before or leads_inside(before)):
            # A private seed, or a link of a private page: no public page is involved.
            options = options._replace(guard=ANYWHERE)
        return options, cookies


class ServedSite:
    """One site in one version of its file."""

    def __init__(self, compiled: CompiledSite, rows_at: StoreAddress = NO_STORE) -> None:
        self.compiled, self.name = compiled, compiled.name
        self.rows_at = rows_at
        """The database of its rows."""
        self.obeys = compiled.site.politeness.robots == "obey"
        self.layers = {name: ServedLayer(self, name, layer) for name, layer in compiled.site.layers.items()}
        self.conditional = any(layer.conditional for layer in self.layers.values())
        """Whether pages are asked for only if they have changed."""
        self.keeps_gone = any(rule.gone for rule in compiled.site.store.values())
        """Whether a table says since when the source of a row is gone."""
        self.login = compiled.login
        self.login_layer = ServedLayer(self, LOGIN, None)
        """How the pages of the login are fetched."""
        self.target_sites = set(target_sites(compiled.site))
        """The other sites that its links lead to; those of functions are added when they do."""
        self._lanes = compiled.lanes()
        for name in LISTINGS:
            if name in self._lanes:
                self.layers[name] = ServedLayer(self, name, None)
        for lane in self._lanes:
            if lane.startswith(AGAIN):
                name = lane.removeprefix(AGAIN)
                self.layers[lane] = ServedLayer(self, name, compiled.site.layers[name], lane)
        self.remembering = frozenset(
            f"{self.name}.{name}"
            for name, policy in self._lanes.items()
            if policy.seen.kind in (SeenKind.EXACT, SeenKind.BLOOM)
            and policy.seen.scope is not SeenScope.NEVER
            and policy.records is None
        )
        """The lanes whose seen memory holds for the whole round, so that a worker may keep a cache of it."""
        after = compiled.site.hooks.after_round
        self.after_round: Hook | None = hooks.find(after, compiled.grant) if after else None

    def lanes(self) -> dict[str, LanePolicy]:
        return self._lanes

    def lanes_of(self, layer: str) -> tuple[str, ...]:
        """The full names of the lanes that have pages of a layer."""
        again = f"{AGAIN}{layer}"
        return (f"{self.name}.{layer}", *((f"{self.name}.{again}",) if again in self._lanes else ()))


class SiteSet:
    """All sites that a worker serves, by name and lane."""

    def __init__(self) -> None:
        self.sites: dict[str, ServedSite] = {}
        self._layers: dict[str, ServedLayer] = {}

    @property
    def engines(self) -> str:
        """The engines of its sites."""
        return " ".join(sorted({site.compiled.site.engine for site in self})) or "native"

    def put(self, site: ServedSite) -> None:
        """Serve a site, or another version of it. Pages in progress end with the version they began with."""
        self.drop(site.name)
        self.sites[site.name] = site
        for layer in site.layers.values():
            self._layers[layer.lane] = layer

    def drop(self, name: str) -> None:
        site = self.sites.pop(name, None)
        if site is not None:
            for layer in site.layers.values():
                self._layers.pop(layer.lane, None)

    def feeders(self, name: str) -> set[str]:
        """The sites whose links lead to a site, also through others; not the site itself."""
        found: set[str] = set()
        todo = {name}
        while todo:
            more = {site.name for site in self if not site.target_sites.isdisjoint(todo)}
            todo = more - found
            found |= more
        return found - {name}

    def layer(self, lane: str) -> ServedLayer | None:
        return self._layers.get(lane)

    def __iter__(self) -> Iterator[ServedSite]:
        return iter(self.sites.values())

    def __len__(self) -> int:
        return len(self.sites)


def options(
    asking: Mapping[str, Any], compiled: CompiledSite, raw: bool = False, fetched_by_scrapy: str = ""
) -> FetchOptions:
    """How to fetch a layer's pages; `fetched_by_scrapy` is the layer's name if Scrapy fetches them."""
    usual = FetchOptions()
    own = compiled.own_hosts
    if own and compiled.login is not None:
        own |= compiled.login.hosts
    timeout = _said(asking, "timeout", usual.timeout)
    return FetchOptions(
        timeout=timeout,
        connect_timeout=_said(asking, "connect_timeout", timeout / 3 if timeout else usual.connect_timeout),
        max_size=_said(asking, "max_size", usual.max_size),
        user_agent=_said(asking, "user_agent", AGENT),
        headers=tuple((asking.get("headers") or {}).items()),
        auth=asking.get("auth"),
        hosts=own.union(compiled.site.politeness.hosts) if own else frozenset(),
        session=_said(asking, "session", "site") == "site",
        proxy=asking.get("proxy") or "",
        verify=_said(asking, "verify", True),
        raw=raw,
        fetched_by_scrapy=fetched_by_scrapy,
        render=bool(fetched_by_scrapy) and _said(asking, "render", False),
        browser=bool(fetched_by_scrapy) and any(one is not None and one.render for one in _seed_requests(compiled)),
        guard=guard_of(compiled.grant.addresses, compiled.site.private_addresses, _seeded(compiled)),
    )


def _seeded(compiled: CompiledSite) -> frozenset[str]:
    """The hosts of the seeds; empty if they may be any."""
    return frozenset() if any(seed.tasks for seed in compiled.site.seeds) else compiled.own_hosts


def _seed_requests(compiled: CompiledSite) -> list[Asking | None]:
    return [compiled.site.request, *(layer.request for layer in compiled.layers.values())]


def _joined(site: Asking, layer: Asking | None) -> dict[str, Any]:
    """What the site says, with what the layer says itself on top; headers and cookies are joined one by one."""
    said = {name: getattr(site, name) for name in site.model_fields_set}
    for name in layer.model_fields_set if layer is not None else ():
        value = getattr(layer, name)
        said[name] = {**said.get(name, {}), **value} if name in ("headers", "cookies") else value
    return said


def _said(asking: Mapping[str, Any], name: str, usual: Any) -> Any:
    value = asking.get(name)
    return usual if value is None else value


def _hook(site: Any, rule: Layer | None, name: str) -> str | None:
    own: str | None = getattr(rule.hooks, name) if rule is not None else None
    return own or getattr(site, name)
