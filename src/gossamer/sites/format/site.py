"""A whole site: seeds, layers, limits, politeness, tables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gossamer.sites.format.layer import Hold, Hooks, Identity, Layer, RequestRule, Seen
from gossamer.sites.format.login import LoginRule
from gossamer.sites.format.refresh import RefreshRule
from gossamer.sites.format.selector import Body
from gossamer.sites.format.values import LISTED, Duration, Flag, Name, Number, SiteModel, Texts, Whole, listed


class Seed(Body):
    """Where a round begins. A plain text is `url`."""

    url: str | None = None
    """With ranges [1-300], [1-300:5], [01-99] and {parameters}."""
    sitemap: str | None = None
    """A sitemap, or an index of them: its URLs go to the layers that match them."""
    feed: str | None = None
    """An RSS or Atom feed: its entries' links. Pages inherit `title` and `date` of their entry (from: parent.title)."""
    tasks: str | None = None
    """A key of the server to which producers push URLs or JSON tasks."""
    layer: Name | None = None
    """The layer of the page; without it, the one that matches, or else the first."""
    priority: Number = 0
    """Higher goes first, in layers with `order: priority`."""
    inherited: dict[str, Any] = Field(default_factory=dict, alias="pass")
    """What the page inherits."""
    since: Duration | None = None
    """For sitemaps and feeds: only pages that changed within this time."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"url": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in ("url", "sitemap", "feed", "tasks") if getattr(self, name) is not None]
        if len(ways) != 1:
            raise ValueError(
                "a seed is exactly one of url, sitemap, feed and tasks"
                + (f"; these are {' and '.join(ways)}" if ways else "")
            )
        return self


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
TimeOfDay = Annotated[str, Field(pattern=r"^(([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00)$")]


class BlackoutRule(SiteModel):
    """Hours in which no round begins."""

    begin: TimeOfDay = Field(alias="from")
    """A time of the day, as 22:00."""
    end: TimeOfDay = Field(alias="to")
    """The time at which rounds begin again; an earlier time than `from`, or the same, is that of the next day."""
    days: Annotated[tuple[Day, ...], BeforeValidator(listed), LISTED] = ()
    """The days on which the hours begin: mon, tue, wed, thu, fri, sat, sun; none: every day."""
    tz: str | None = None
    """The time zone; without it, that of the schedule, or else UTC."""


class Schedule(SiteModel):
    """When a new round begins."""

    every: Duration | None = None
    """From the beginning of a round to that of the next."""
    cron: str | None = None
    """Minute, hour, day, month, weekday; as */10 * * * *."""
    tz: str | None = None
    """The time zone of `cron`."""
    jitter: Duration = 0.0
    """Start up to this much later, at random."""
    deadline: Duration | None = None
    """A round that takes longer is late."""
    overlap: Literal["queue", "skip", "replace", "reseed"] = "queue"
    """What to do when a round is due and the last one is not over: `queue` begins it when that one is over, `skip` waits for the next
    time after that; `replace` drops what waits and begins it when the pages in progress have ended; `reseed` begins it now and keeps what
    waits."""
    catch_up: Literal["once", "none"] = "once"
    """What to do when a round could not begin at its time because no planner or worker ran, or the site was paused: `once` begins it as
    soon as it can, `none` waits for the next time."""
    blackout: Annotated[tuple[BlackoutRule, ...], BeforeValidator(listed), LISTED] = ()
    """Hours in which no round begins; a round that runs goes on."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("a schedule is either every or cron")
        if self.every == 0:
            raise ValueError("every must be longer than 0; without a schedule, rounds begin only on request")
        return self


class Limits(SiteModel):
    """Limits of a site."""

    backlog: Whole = 0
    """Maximum number of waiting requests; producers and seeds wait for room."""
    pages: Whole = 0
    """Maximum number of pages in a round; the rest waits for the next round."""
    depth: Whole = 0
    """Maximum number of steps from the seeds; links that lead further are skipped."""
    seeds: Whole = 1_000_000
    """More seeds than this are reported as a mistake."""


class HostRule(SiteModel):
    """How the whole fleet treats one host."""

    delay: Duration = 0.0
    """Time between two requests."""
    concurrency: Whole = 8
    """Maximum number of requests at a time; 0: no limit."""
    adaptive: Flag = False
    """Adapt the delay to the host's responses."""


class Politeness(SiteModel):
    """How the whole fleet treats hosts. It can only make the limits of a host stricter."""

    delay: Duration = 0.0
    """Time between two requests to a host."""
    concurrency: Whole = 0
    """Maximum number of requests to a host at a time."""
    adaptive: Flag = False
    """Adapt the delay to the host's responses."""
    robots: Literal["obey", "ignore"] = "obey"
    """obey or ignore robots.txt."""
    hosts: dict[str, HostRule] = Field(default_factory=dict)
    """Rules for single hosts."""


class ProxyRule(SiteModel):
    """A group of proxies, used in turn; one that fails rests for a while."""

    urls: Texts = ()
    """As http://user:password@host:8080; ${NAME} stands for an environment variable."""
    file: str | None = None
    """A file with one URL per line, read again when it changes."""
    fails: Whole = 3
    """After this many failures in a row a proxy rests."""
    rest: Duration = 300.0
    """How long a proxy rests."""


class ChildTable(SiteModel):
    """Where the nested records of one field go."""

    table: str | None = None
    """Without it, the parent's table and the field's name with _ between."""
    key: Texts = ()
    """The fields that identify a child within its parent; without it, its position."""
    json_: Flag = Field(default=False, alias="json")
    """Keep them in one column of the parent instead."""


ColumnType = Literal[
    "text", "text?", "int", "int?", "float", "float?", "decimal", "decimal?", "bool", "bool?", "date", "date?",
    "datetime", "datetime?", "json", "json?", "url", "url?", "bytes", "bytes?",
]  # fmt: skip


class StoreRule(SiteModel):
    """Where a layer's records go."""

    table: str | None = None
    """Without it, the site and the layer with _ between."""
    key: Texts = ("url",)
    """The fields that identify a record: one with the same key is overwritten. `url` is the page's identity: its URL in a normal form, with only the parameters that count (`identity`)."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Field → column, where they differ."""
    add: Texts = ()
    """Further columns: url (the page's identity), fetched_url (as it was fetched, after redirects), fetched_at, round, site, layer, status, file (with `save: files`), parent (the identity of the page that led there)."""
    history: Flag = False
    """Keep a row for each change instead of overwriting."""
    gone: Flag = False
    """A column `gone_at` says since when the source of a row is gone; nested records that a page does not have any more stay, too."""
    archive: Flag = False
    """Begin each round with an empty table; the rows of round 6 are put aside as NAME_r6."""
    children: dict[str, ChildTable] = Field(default_factory=dict)
    """Where nested records go, by field; without it, into tables of their own."""
    existing: Flag = False
    """The table exists already: never create or alter it."""
    types: dict[str, ColumnType] = Field(default_factory=dict)
    """For a layer that a Python function reads: the fields of its records, with their types. With ? at its end (`decimal?`) the value may be missing. Without `types`, the records themselves say what the columns are."""


LEAST_WEIGHT = 0.001


def _some_weight(weight: float) -> float:
    if 0 < weight < LEAST_WEIGHT:
        raise ValueError(f"a weight is at least {LEAST_WEIGHT}, or 0 for a site that is paused")
    return weight


class SiteSpec(SiteModel):
    """A source: where to begin, which kinds of pages it has, what to take from them and where to store that."""

    site: str
    """The name; with {parameters} in it, the file describes a site for each of their values."""
    title: str = ""
    """What people call it."""
    active: Flag = True
    """Crawl this site; false leaves it out."""
    engine: Literal["native", "scrapy"] = "native"
    """native fetches and reads pages itself; scrapy runs the same file in Scrapy, with its middlewares."""
    extends: str | None = None
    """Another site file, relative to this one, whose keys this one inherits. Mappings are merged key by key; an empty key removes an inherited one."""
    params: dict[str, Any] | list[dict[str, Any]] | str = Field(default_factory=dict)
    """Lists to be combined ({forum: [a, b]}), a list of rows, or the name of a CSV, JSON or YAML file with rows."""
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(listed), LISTED] = ()
    """Where a round begins."""
    refresh: Annotated[tuple[RefreshRule, ...], BeforeValidator(listed), LISTED] = ()
    """Stored rows whose pages a round begins with, besides the seeds."""
    layers: dict[Name, Layer]
    """The kinds of pages, by name. If it matters which comes first, the order in the file counts."""
    schedule: Schedule | None = None
    """When a new round begins; without it, only on request."""
    weight: Annotated[float, AfterValidator(_some_weight)] = Field(1.0, ge=0, le=1e6)
    """The share among the sites that the same workers serve, at least 0.001. 0: the site is paused; nothing of it is fetched, no round begins, and what waits stays."""
    limits: Limits = Limits()
    """Limits of the whole site."""
    politeness: Politeness = Politeness()
    """How to treat hosts."""
    private_addresses: Flag | None = None
    """Allow links and redirects to addresses that are not public (127.0.0.1, 10.0.0.0/8, …). Default: only if all seeds are private themselves. A cloud's metadata service is never contacted."""
    seen: Seen = Seen()
    """How layers remember the pages they have seen, unless a layer says otherwise."""
    identity: Identity = Identity()
    """Which URLs are the same page, unless a layer says otherwise."""
    request: RequestRule = RequestRule()
    """How to request pages."""
    login: LoginRule | None = None
    """How to log in. Workers do so before the first page, share the session, and log in again when it is over."""
    hold: Hold | None = None
    """When to pause a round before it replaces more rows, unless a layer says otherwise."""
    hooks: Hooks = Hooks()
    """Python functions for the whole site; a layer may have its own."""
    proxies: dict[Name, ProxyRule] = Field(default_factory=dict)
    """Groups of proxies, by name; `request.proxy` chooses one."""
    database: str | None = None
    """Where records go: sqlite:///file, postgresql://…, mysql://…; ${NAME} stands for an environment variable. Without it, GOSSAMER_STORE_URL."""
    store: dict[Name, StoreRule] = Field(default_factory=dict)
    """Tables by layer. Records of other layers go to the item stream."""
    archive_pages: str | None = None
    """The directory of the WARC files."""
    code: dict[str, str] = Field(default_factory=dict)
    """The modules with the functions of a site in Python, and the digests of their source: written when the site is pushed. A worker that has loaded other code says so."""

    @property
    def is_served(self) -> bool:
        """Whether anything of it is to be fetched."""
        return self.active and self.weight > 0
