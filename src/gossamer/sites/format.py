"""The form of a site file, as data: every key, its type, its default and what it means.

The reference page, the JSON Schema and the hints for misspelt keys are made of these classes; nothing here knows how a page is
fetched. What only fits together across keys (layers that exist, patterns that can be compiled) is checked by `check`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, model_validator

from gossamer.model import Order, duration

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_:-]{0,99}$"
SIZES = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1000,
    "kib": 1024,
    "m": 10**6,
    "mb": 10**6,
    "mib": 2**20,
    "g": 10**9,
    "gb": 10**9,
    "gib": 2**30,
}


def seconds(value: Any) -> Any:
    """Seconds from 0.5, "0.5s", "10m", "1h30m", "7d"."""
    return duration.seconds(value) if isinstance(value, str) else number(value)


def size(value: Any) -> Any:
    """Bytes from 1000000, "10MB", "512KiB"."""
    if not isinstance(value, str):
        return whole(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    if not found or found[2] not in SIZES:
        raise ValueError(f"{value!r} is no size; write 500000, 500kB or 10MiB")
    return int(float(found[1]) * SIZES[found[2]])


def number(value: Any) -> Any:
    """A number; true, which Python takes for 1, is none."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number")
    return value


def whole(value: Any) -> Any:
    """A whole number; 1e6, which YAML reads as a fraction, is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else number(value)


def listed(value: Any) -> Any:
    """One thing where a list of them may stand."""
    return value if isinstance(value, list | tuple) or value is None else [value]


# `written` tells the JSON Schema and the reference in which other ways a value may be written.
Duration = Annotated[
    float, BeforeValidator(seconds), Field(ge=0, le=86400 * 366 * 10, json_schema_extra={"written": "duration"})
]
Size = Annotated[int, BeforeValidator(size), Field(ge=0, le=2**53, json_schema_extra={"written": "size"})]
Whole = Annotated[int, BeforeValidator(whole), Field(ge=0, le=2**53)]
Number = Annotated[int, BeforeValidator(whole), Field(ge=-(2**53), le=2**53)]
Flag = Annotated[bool, Strict()]
LISTED = Field(json_schema_extra={"written": "listed"})
Texts = Annotated[tuple[str, ...], BeforeValidator(listed), LISTED]
Name = Annotated[str, Field(pattern=NAME)]
Hook = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


class SiteModel(BaseModel):
    """A mapping of a site file: unknown keys are errors, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True)


class Kind(enum.Enum):
    """What an extracted text is turned into."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    BOOL = "bool"
    DATE = "date"
    DATETIME = "datetime"
    JSON = "json"
    URL = "url"
    BYTES = "bytes"


class Format(enum.Enum):
    """How a layer's pages are read."""

    HTML = "html"
    JSON = "json"
    XML = "xml"
    TEXT = "text"
    BINARY = "binary"


SELECTORS = ("css", "xpath", "regex", "jmespath")


class Selected(SiteModel):
    """Where a value, a list of records or a link is found: one selector, applied to the page or to something else. A plain text
    instead of a mapping is a CSS selector."""

    css: str | None = None
    """A CSS selector, with `::text` and `::attr(name)` as in Scrapy."""
    xpath: str | None = None
    """An XPath expression."""
    regex: str | None = None
    """A regular expression on the text; its first group counts, or the whole match."""
    jmespath: str | None = None
    """A JMESPath expression, for JSON; on HTML it reads the text that `css` or `xpath` found."""
    source: str = Field(
        default="content", alias="from", pattern=r"^(content|url|parent|headers|fields|status)(\.[^\s]+)?$"
    )
    """What is looked at: content, url, headers (headers.etag), parent (what was passed on: parent.title), fields (found before: fields.id), status."""
    attr: str | None = None
    """The attribute of the elements found, instead of their text."""
    html: Flag = False
    """The markup of the elements found, instead of their text."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"css": data} if isinstance(data, str) else data


class Clean(SiteModel):
    """One cleaning step, written as a mapping: exactly one key."""

    replace: tuple[str, str] | None = None
    """[regular expression, replacement]"""
    remove: str | None = None
    """Regular expression: what matches is taken out."""
    take: str | None = None
    """Regular expression: only its first group, or the match, stays; none: null."""
    prefix: str | None = None
    """Text put before it."""
    suffix: str | None = None
    """Text put after it."""
    split: str | None = None
    """Text to split at; the value becomes a list."""
    join: str | None = None
    """Text to join a list with."""
    map: dict[str, Any] | None = None
    """A table: texts not in it stay."""
    truncate: Whole | None = None
    """At most so many characters."""

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("a step is exactly one of " + ", ".join(type(self).model_fields))
        return self


PLAIN_STEPS = (
    "strip",
    "squeeze",
    "lower",
    "upper",
    "title",
    "digits",
    "unescape",
    "strip_tags",
    "unique",
    "sort",
    "reverse",
    "unquote",
)
Step = (
    Literal[
        "strip",
        "squeeze",
        "lower",
        "upper",
        "title",
        "digits",
        "unescape",
        "strip_tags",
        "unique",
        "sort",
        "reverse",
        "unquote",
    ]
    | Clean
)


class FieldRule(Selected):
    """One field of a record. A plain text instead of a mapping is a CSS selector."""

    value: Any = None
    """A constant; texts may have {names} of parameters and of groups of `match`."""
    type: Kind = Kind.TEXT
    """What the text is turned into; what cannot be is null, and counted."""
    nth: Number | None = None
    """Which of several: 0 the first (default), -1 the last."""
    all: Flag = False
    """All of them, as a list."""
    each: Selected | None = None
    """A record for every element found; `fields` are looked for inside it."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """The fields of nested records; without `each`, of one."""
    clean: Annotated[tuple[Step, ...], BeforeValidator(listed), LISTED] = ()
    """Steps in this order, before the type: strip (always first unless `strip: false`), squeeze, lower, …"""
    strip: Flag = True
    """Whether white space at both ends goes."""
    default: Any = None
    """The value where nothing was found."""
    format: str | None = None
    """How a date is written, in the letters of strptime; without it, ISO 8601, RFC 2822 and numbers (Unix time) are read."""
    tz: str | None = None
    """The time zone of dates that name none, as Europe/Berlin; without it they stay without one."""
    decimal: Literal[".", ","] = "."
    """What divides whole from fraction in numbers."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in SELECTORS if getattr(self, name) is not None]
        given = self.model_fields_set
        if "value" in given and (ways or self.each):
            raise ValueError(f"value and {(*ways, 'each')[0]} exclude each other")
        if len(ways) > 1 and ways not in (
            ["css", "regex"],
            ["xpath", "regex"],
            ["css", "jmespath"],
            ["xpath", "jmespath"],
        ):
            raise ValueError(f"{' and '.join(ways)} exclude each other")
        if self.each is not None and ways:
            raise ValueError(f"each and {ways[0]} exclude each other")
        if self.each is not None and not self.fields:
            raise ValueError("each needs fields: what is to be found in every element")
        if not ways and self.each is None and not self.fields and "value" not in given and "source" not in given:
            raise ValueError(
                "nothing says where the value comes from; write css, xpath, regex, jmespath, value or from"
            )
        if self.all and self.nth is not None:
            raise ValueError("all and nth exclude each other")
        return self


class Body(SiteModel):
    """What a request carries beside its URL. Texts may have {names}: parameters, groups of `match`, fields of the parent."""

    method: Method | None = None
    """GET; POST where there is a form, json or body."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further headers; ${NAME} stands for an environment variable."""
    cookies: dict[str, str] = Field(default_factory=dict)
    """Further cookies; ${NAME} stands for an environment variable."""
    form: dict[str, Any] | None = None
    """The fields of a form; sent in the query where the method is GET."""
    json_: Any = Field(default=None, alias="json")
    """Sent as JSON."""
    body: str | None = None
    """Sent as it is."""

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        given = [
            name
            for name, value in (("form", self.form), ("json", self.json_), ("body", self.body))
            if value is not None
        ]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        return self


class Follow(Selected, Body):
    """Links of a page. A plain text instead of a mapping is a CSS selector; its links go to the layer that matches them."""

    url: str | None = None
    """Instead of a selector: a URL made of {names}: fields, parameters, groups of `match`. A field that is a list gives a URL for each."""
    to: Name | None = None
    """The layer; without it the layer whose `match` fits best, and links that fit none are left alone."""
    pages: Whole | None = None
    """Only for links to the same layer: how many page turns from the first page. 0: no limit."""
    limit: Whole = 0
    """At most so many links of one page. 0: all."""
    match: str | None = None
    """Regular expression on the URL: others are left alone."""
    skip: str | None = None
    """Regular expression on the URL: these are left alone."""
    when: str | None = None
    """A JMESPath expression on the fields: links are followed where it gives something that is not empty, null, 0 or false."""
    priority: Number = 0
    """Before others of the layer if higher; for layers with `order: priority`."""
    carry: Annotated[
        tuple[str, ...] | dict[str, str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v), LISTED
    ] = Field(default=(), alias="pass")
    """Fields that the linked page inherits: their names, or {name there: JMESPath here}."""
    again: Flag = False
    """Follow although it was seen."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in (*SELECTORS, "url") if getattr(self, name) is not None]
        if not ways:
            raise ValueError("nothing says which links; write css, xpath, regex, jmespath or url")
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} exclude each other")
        return self


class Seen(SiteModel):
    """How pages of a layer are remembered. A plain text is the scope: forever, round or never."""

    scope: Literal["forever", "round", "never"] = "forever"
    """forever: once in all rounds; round: once in each round; never: nothing is remembered."""
    policy: Literal["exact", "bloom", "rolling", "hits"] = "exact"
    """exact: every page; bloom: in a quarter of the memory, with a few mistakes; rolling: only of late; hits: as rolling, and each sighting renews it."""
    window: Duration = 0.0
    """For rolling and hits: for how long."""
    count: Whole = 0
    """For rolling and hits: the last so many."""
    capacity: Whole = 1_000_000
    """For bloom: how many are expected."""
    error: float = 1e-4
    """For bloom: how often a new page may be taken for a known one."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"scope": data} if isinstance(data, str) else data


class Valid(SiteModel):
    """What a page must be like to be read at all; otherwise it is tried again, and at last a dead letter."""

    status: Annotated[tuple[Number, ...], BeforeValidator(listed), LISTED] = ()
    """Statuses that are read; without it, 200 to 299."""
    min_length: Size = 0
    """Bytes."""
    contains: Texts = ()
    """Texts that must all be there."""
    lacks: Texts = ()
    """Texts that must not be there (log in, captcha)."""
    content_type: str | None = None
    """Regular expression on the Content-Type."""


class Identity(SiteModel):
    """Which query parameters make a page another page. A list is `keep`, none is "no parameter counts", all (default) "every one"."""

    keep: Texts | None = None
    """Only these count; the others are cut off before a URL is compared."""
    drop: Texts = ()
    """These do not count; `*` at the end stands for anything (utm_*)."""
    fragment: Flag = False
    """Whether what comes after # counts."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if data == "none":
            return {"keep": []}
        if data == "all":
            return {}
        return {"keep": data} if isinstance(data, list) else data


class Revisit(SiteModel):
    """When a page is due again. Kept for the planner."""

    every: Duration
    """How long after its last visit, at first."""
    min: Duration = 0.0
    """Never sooner."""
    max: Duration = 0.0
    """Never later; 0: no limit."""
    adaptive: Flag = False
    """Whether it is sooner for pages that change, and later for those that do not."""


class Hooks(SiteModel):
    """Python functions by entry point, `module:function`."""

    before_request: Hook | None = None
    """(request) → request, or None to leave it out."""
    after_download: Hook | None = None
    """(document) → document."""
    after_extract: Hook | None = None
    """(document, reading) → reading."""
    before_store: Hook | None = None
    """(record) → record, or None to leave it out."""
    on_fail: Hook | None = None
    """(url, reason, detail), when a page becomes a dead letter."""
    after_round: Hook | None = None
    """(site, round), when a round is over. Only for the site."""


class RequestRule(Body):
    """How pages are asked for, where it is not as usual. A layer's own keys go before the site's."""

    timeout: Duration | None = None
    """For the whole answer."""
    connect_timeout: Duration | None = None
    """For the connection."""
    max_size: Size | None = None
    """Answers larger than this are failures."""
    retries: Whole | None = None
    """How often a failed page is tried again."""
    retry_status: Annotated[tuple[Number, ...] | None, BeforeValidator(listed), LISTED] = None
    """Statuses that are failures."""
    redirects: Whole | None = None
    """How many in a row; 0: a redirect is a page like any other."""
    conditional: Flag | None = None
    """Whether a page that a worker has fetched before is asked for only if it has changed. One that has not counts as done: its fields and links are not taken again."""
    user_agent: str | None = None
    """What the crawler calls itself."""
    auth: tuple[str, str] | None = None
    """[user, password] for HTTP authentication."""
    session: Literal["site", "none"] | None = None
    """Whether cookies of answers are kept for the site."""
    proxy: str | None = None
    """The name of a group of proxies, or a URL."""
    verify: Flag | str | None = None
    """Whether certificates are checked; a text is a file of certificate authorities."""
    render: Flag | None = None
    """Whether a browser makes the page (needs `engine: scrapy` and scrapy-playwright)."""


class Layer(SiteModel):
    """One kind of page."""

    match: str | None = None
    """Regular expression on path and query of a URL (on the whole URL if it begins with http or ^http); its named groups are values."""
    like: Name | None = None
    """Take everything that is not said here from this layer, but for `match` and `examples`."""
    examples: Texts = ()
    """URLs that must come to this layer: checked with the file."""
    order: Literal["fifo", "lifo", "priority"] = "fifo"
    """Which page of a host is next: the one that waits longest, the newest, or the one of highest priority."""
    tier: Literal["deepest"] | Annotated[Number, Field(ge=-1000, le=1000)] = "deepest"
    """Lower tiers go first; deepest: the further from the seeds, the sooner."""
    weight: float = Field(1.0, ge=0.001, le=1e6)
    """The share among layers of the same tier."""
    seen: Seen | None = None
    """How its pages are remembered, where it is not as for the whole site."""
    stage: Name | None = None
    """The pool of workers that serves it."""
    backlog: Whole = 0
    """At most so many wait; 0: no limit."""
    concurrency: Whole = 0
    """At most so many at a time in the whole fleet; 0: no limit."""
    revisit: Revisit | None = None
    """When its pages are due again."""
    format: Format = Format.HTML
    """How its pages are read."""
    encoding: str | None = None
    """The character set, where pages do not say it or say it wrongly."""
    identity: Identity | None = None
    """Which of its URLs are the same page, where it is not as for the whole site."""
    request: RequestRule | None = None
    """How its pages are asked for; its keys go before the site's."""
    valid: Valid = Valid()
    """What its pages must be like."""
    require: Annotated[tuple[str | tuple[str, ...], ...], BeforeValidator(listed), LISTED] = ()
    """Fields that must not be empty; of a list inside the list, any one."""
    lacking: Literal["fail", "keep", "drop"] = "fail"
    """What becomes of a page without a required field: a dead letter; stored all the same; let go. Counted in any case."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """What is taken from a page, by name, in this order."""
    records: Selected | None = None
    """A page with many records: where each of them is. Without it the page is one record."""
    follow: Annotated[tuple[Follow, ...], BeforeValidator(listed), LISTED] = ()
    """Which links of a page are followed."""
    save: Flag = False
    """Keep the page as it came, in WARC files."""
    hooks: Hooks = Hooks()
    """Python functions for its pages, instead of the site's."""
    handler: Hook | None = None
    """An async Python function that reads the page instead of fields and follow."""


class Seed(Body):
    """Where a round begins. A plain text is `url`."""

    url: str | None = None
    """With ranges [1-300], [1-300:5], [01-99] and {parameters}."""
    sitemap: str | None = None
    """A sitemap, or an index of them: its URLs go to the layers that match them."""
    feed: str | None = None
    """An RSS or Atom feed: its entries' links."""
    tasks: str | None = None
    """A key of the server to which producers push URLs or JSON tasks."""
    layer: Name | None = None
    """Without it the layer that matches, or else the first one."""
    priority: Number = 0
    """Before others of the layer if higher; for layers with `order: priority`."""
    inherited: dict[str, Any] = Field(default_factory=dict, alias="pass")
    """What the page inherits."""
    since: Duration | None = None
    """For sitemaps and feeds: only what changed in so long."""

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


class Schedule(SiteModel):
    """When a round begins again."""

    every: Duration | None = None
    """From the beginning of a round to that of the next."""
    cron: str | None = None
    """Minute, hour, day, month, weekday; as */10 * * * *."""
    tz: str | None = None
    """The time zone of `cron`."""
    jitter: Duration = 0.0
    """Up to so much later, at random."""
    deadline: Duration | None = None
    """A round that takes longer is late."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("a schedule is either every or cron")
        return self


class Limits(SiteModel):
    """Bounds of a site."""

    backlog: Whole = 0
    """At most so many requests wait; producers and seeds wait for room."""
    pages: Whole = 0
    """A round has at most so many pages; what still waits then is for the next one."""
    depth: Whole = 0
    """Links further than so many steps from the seeds are left alone."""
    seeds: Whole = 1_000_000
    """More seeds than this are a mistake."""


class HostRule(SiteModel):
    """How one host is treated by the whole fleet."""

    delay: Duration = 0.0
    """Between two requests."""
    concurrency: Whole = 8
    """At most so many at a time; 0: no limit."""
    adaptive: Flag = False
    """Whether the delay follows the host's answers."""


class Politeness(SiteModel):
    """How hosts are treated, by the whole fleet. Makes hosts stricter, never laxer."""

    delay: Duration = 0.0
    """Between two requests to a host."""
    concurrency: Whole = 0
    """At most so many at a time to a host."""
    adaptive: Flag = False
    """Whether the delay follows the host's answers."""
    robots: Literal["obey", "ignore"] = "obey"
    """Whether robots.txt is obeyed."""
    hosts: dict[str, HostRule] = Field(default_factory=dict)
    """Hosts that are treated in their own way."""


class ProxyRule(SiteModel):
    """A group of proxies, used in turn; one that fails is rested."""

    urls: Texts = ()
    """As http://user:password@host:8080; ${NAME} stands for an environment variable."""
    file: str | None = None
    """A file with one URL in each line, read again when it changes."""
    fails: Whole = 3
    """So many failures in a row rest a proxy."""
    rest: Duration = 300.0
    """How long one is rested."""


class ChildTable(SiteModel):
    """Where the nested records of one field go."""

    table: str | None = None
    """Without it, the parent's table and the field's name with _ between."""
    key: Texts = ()
    """What tells the children of one parent apart; without it, their place."""
    json_: Flag = Field(default=False, alias="json")
    """Keep them in one column of the parent instead."""


class StoreRule(SiteModel):
    """Where a layer's records go."""

    table: str | None = None
    """Without it, the site and the layer with _ between."""
    key: Texts = ("url",)
    """What tells records apart: a record with the same key is written over."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Field → column, where they differ."""
    add: Texts = ()
    """Further columns: url, fetched_at, round, site, layer, status, parent."""
    history: Flag = False
    """Keep a row for each change instead of writing over it."""
    archive: Flag = False
    """Put the table aside when a new round begins, and begin an empty one."""
    children: dict[str, ChildTable] = Field(default_factory=dict)
    """Where nested records go, by field; without it, into tables of their own."""
    existing: Flag = False
    """The table is somebody else's: never created or changed."""


class Site(SiteModel):
    """A source: where it begins, what its pages are, what is taken from them and where that goes."""

    site: str
    """The name; with {parameters} in it, the file describes a site for each of their values."""
    title: str = ""
    """What people call it."""
    active: Flag = True
    """Whether it is crawled at all."""
    engine: Literal["native", "scrapy"] = "native"
    """native fetches and reads pages itself; scrapy runs the same file in Scrapy, with its middlewares."""
    extends: str | None = None
    """Another site file, counted from this one, whose keys hold where this one says nothing. Mappings are joined key by key; an empty key takes an inherited one away."""
    params: dict[str, Any] | list[dict[str, Any]] | str = Field(default_factory=dict)
    """Lists to be combined ({forum: [a, b]}), a list of rows, or the name of a CSV, JSON or YAML file with rows."""
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(listed), LISTED] = ()
    """Where a round begins."""
    layers: dict[Name, Layer]
    """The kinds of pages, by name. Where it matters which comes first, the order of the file counts."""
    schedule: Schedule | None = None
    """When a round begins again; without it, when somebody says so."""
    limits: Limits = Limits()
    """Bounds of the whole site."""
    politeness: Politeness = Politeness()
    """How hosts are treated."""
    private_addresses: Flag | None = None
    """Whether links and redirects may lead to addresses that are not public (127.0.0.1, 10.0.0.0/8, …). Without it, where all seeds are private themselves. A cloud's metadata service is never asked."""
    seen: Seen = Seen()
    """How pages are remembered, where a layer says nothing."""
    identity: Identity = Identity()
    """Which URLs are the same page, where a layer says nothing."""
    request: RequestRule = RequestRule()
    """How pages are asked for, where it is not as usual."""
    hooks: Hooks = Hooks()
    """Python functions for the whole site; a layer may have its own."""
    proxies: dict[Name, ProxyRule] = Field(default_factory=dict)
    """Groups of proxies, by name; `request.proxy` chooses one."""
    database: str | None = None
    """Where records go: sqlite:///file, postgresql://…, mysql://…; ${NAME} stands for an environment variable. Without it, GOSSAMER_STORE_URL."""
    store: dict[Name, StoreRule] = Field(default_factory=dict)
    """By layer. A layer that is not here puts its records into the item stream only."""
    archive_pages: str | None = None
    """The directory of WARC files."""


def order_of(layer: Layer) -> Order:
    return Order.LIFO if layer.order == "lifo" else Order.FIFO


Parameters = Mapping[str, Any]
