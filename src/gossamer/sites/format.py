"""The form of a site file, as data: every key, its type, its default and what it means.

The reference page, the JSON Schema and the hints for misspelt keys are made from these classes; nothing here knows how a page is
fetched. `check` checks what concerns several keys (layers that exist, patterns that compile).
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
        raise ValueError(f"{value!r} is not a size; write 500000, 500kB or 10MiB")
    return int(float(found[1]) * SIZES[found[2]])


def number(value: Any) -> Any:
    """A number, and not true, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def whole(value: Any) -> Any:
    """A whole number; 1e6, which YAML reads as a fraction, is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else number(value)


def listed(value: Any) -> Any:
    """A list, also where a single value stands for it."""
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
    """The type that an extracted text is converted to."""

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
    """The format of a layer's pages."""

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
    """Regular expression: remove what matches."""
    take: str | None = None
    """Regular expression: keep only its first group, or the match; null if there is none."""
    prefix: str | None = None
    """Text to put before it."""
    suffix: str | None = None
    """Text to put after it."""
    split: str | None = None
    """Text to split at; the value becomes a list."""
    join: str | None = None
    """Text to join a list with."""
    map: dict[str, Any] | None = None
    """A table of replacements; texts that are not in it stay."""
    truncate: Whole | None = None
    """Maximum number of characters."""

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
    """The type of the value. A text that cannot be converted becomes null, and is counted."""
    nth: Number | None = None
    """Which of several values: 0 is the first (default), -1 the last."""
    all: Flag = False
    """All values, as a list."""
    each: Selected | None = None
    """A record for each element found; `fields` are looked up inside it."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """The fields of the nested records; without `each`, of one nested record."""
    clean: Annotated[tuple[Step, ...], BeforeValidator(listed), LISTED] = ()
    """Steps in this order, before the type: strip (always first unless `strip: false`), squeeze, lower, …"""
    strip: Flag = True
    """Remove white space at both ends."""
    default: Any = None
    """The value if nothing is found."""
    format: str | None = None
    """How a date is written, in the letters of strptime; without it, ISO 8601, RFC 2822 and numbers (Unix time) are read."""
    tz: str | None = None
    """The time zone of dates that name none, as Europe/Berlin; without it they stay without one."""
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers."""

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
    """What a request has besides its URL. Texts may contain {names}: parameters, groups of `match`, fields of the parent."""

    method: Method | None = None
    """Default: GET, or POST if there is a form, json or body."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More headers; ${NAME} stands for an environment variable."""
    cookies: dict[str, str] = Field(default_factory=dict)
    """More cookies; ${NAME} stands for an environment variable."""
    form: dict[str, Any] | None = None
    """The fields of a form; sent in the query if the method is GET."""
    json_: Any = Field(default=None, alias="json")
    """Sent as JSON."""
    body: str | None = None
    """Sent unchanged."""

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
    """Instead of a selector: a URL with {names} of fields, parameters or groups of `match`. A list gives one URL for each member."""
    to: Name | None = None
    """The layer of the linked pages. Without it, the layer whose `match` fits best; links that fit none are skipped."""
    pages: Whole | None = None
    """For links to the same layer: how many page turns to follow from the first page. 0: no limit."""
    limit: Whole = 0
    """Maximum number of links to follow on one page. 0: all."""
    match: str | None = None
    """Regular expression on the URL: skip links that do not match."""
    skip: str | None = None
    """Regular expression on the URL: skip links that match."""
    when: str | None = None
    """A JMESPath expression on the fields: follow the links only if its value is not empty, null, 0 or false."""
    priority: Number = 0
    """Higher goes first, in layers with `order: priority`."""
    carry: Annotated[
        tuple[str, ...] | dict[str, str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v), LISTED
    ] = Field(default=(), alias="pass")
    """Fields that the linked page inherits: their names, or {name there: JMESPath here}."""
    again: Flag = False
    """Follow links even if they were seen before."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in (*SELECTORS, "url") if getattr(self, name) is not None]
        if not ways:
            raise ValueError("nothing says which links; write css, xpath, regex, jmespath or url")
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} exclude each other")
        return self


class Seen(SiteModel):
    """How a layer remembers the pages it has seen. A plain text is the scope: forever, round or never."""

    scope: Literal["forever", "round", "never"] = "forever"
    """forever: fetch a page once in all rounds; round: once in each round; never: remember nothing."""
    policy: Literal["exact", "bloom", "rolling", "hits"] = "exact"
    """exact: every page; bloom: a quarter of the memory, with a few false positives; rolling: only recent pages; hits: as rolling, and each sighting renews a page."""
    window: Duration = 0.0
    """For rolling and hits: how long to remember a page."""
    count: Whole = 0
    """For rolling and hits: how many pages to remember."""
    capacity: Whole = 1_000_000
    """For bloom: the expected number of pages."""
    error: float = 1e-4
    """For bloom: the accepted rate of false positives."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"scope": data} if isinstance(data, str) else data


class Valid(SiteModel):
    """Conditions that a page must meet to be read. A page that fails them is retried, and finally becomes a dead letter."""

    status: Annotated[tuple[Number, ...], BeforeValidator(listed), LISTED] = ()
    """Accepted statuses; without it, 200 to 299."""
    min_length: Size = 0
    """Bytes."""
    contains: Texts = ()
    """Texts that the page must contain, all of them."""
    lacks: Texts = ()
    """Texts that the page must not contain (log in, captcha)."""
    content_type: str | None = None
    """Regular expression on the Content-Type."""


class Identity(SiteModel):
    """Which query parameters identify a page. A list means `keep`; `none`: no parameter counts; `all` (default): every one counts."""

    keep: Texts | None = None
    """Only these count; the others are removed before URLs are compared."""
    drop: Texts = ()
    """These do not count; `*` at the end matches anything (utm_*)."""
    fragment: Flag = False
    """The part after # counts, too."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if data == "none":
            return {"keep": []}
        if data == "all":
            return {}
        return {"keep": data} if isinstance(data, list) else data


class Revisit(SiteModel):
    """When a page is due again. Reserved for the planner."""

    every: Duration
    """Time after the first visit."""
    min: Duration = 0.0
    """Minimum time between two visits."""
    max: Duration = 0.0
    """Maximum time between two visits; 0: no limit."""
    adaptive: Flag = False
    """Visit pages that change sooner, and others later."""


class Hooks(SiteModel):
    """Python functions by entry point, `module:function`."""

    before_request: Hook | None = None
    """(request) → request, or None to skip the page."""
    after_download: Hook | None = None
    """(response) → response."""
    after_extract: Hook | None = None
    """(response, reading) → reading."""
    before_store: Hook | None = None
    """(record) → record, or None to drop it."""
    on_fail: Hook | None = None
    """(url, reason, detail), when a page becomes a dead letter."""
    after_round: Hook | None = None
    """(site, round), when a round is over. Only for the site."""


class RequestRule(Body):
    """How to request pages. A layer's own keys override the site's."""

    timeout: Duration | None = None
    """Limit for the whole response."""
    connect_timeout: Duration | None = None
    """Limit for the connection."""
    max_size: Size | None = None
    """Larger responses are failures."""
    retries: Whole | None = None
    """How often to retry a failed page."""
    retry_status: Annotated[tuple[Number, ...] | None, BeforeValidator(listed), LISTED] = None
    """Statuses that count as failures."""
    redirects: Whole | None = None
    """How many redirects to follow in a row; 0: treat a redirect as an ordinary page."""
    conditional: Flag | None = None
    """Ask the server to send a page that this worker has fetched before only if it has changed. An unchanged page is done: its fields and links are not read again."""
    user_agent: str | None = None
    """The User-Agent header."""
    auth: tuple[str, str] | None = None
    """[user, password] for HTTP authentication."""
    session: Literal["site", "none"] | None = None
    """`site`: keep the cookies of responses for the whole site."""
    proxy: str | None = None
    """The name of a group of proxies, or a URL."""
    verify: Flag | str | None = None
    """Check certificates; a text is a file of certificate authorities."""
    render: Flag | None = None
    """Render the page in a browser (needs `engine: scrapy` and scrapy-playwright)."""


class Layer(SiteModel):
    """One kind of page."""

    match: str | None = None
    """Regular expression on path and query of a URL (on the whole URL if it begins with http or ^http); its named groups are values."""
    like: Name | None = None
    """Another layer whose keys this one takes over where it does not set them, except `match` and `examples`."""
    examples: Texts = ()
    """URLs that must match this layer; `gossamer site check` tests them."""
    order: Literal["fifo", "lifo", "priority"] = "fifo"
    """Which page of a host is next: the oldest in the queue, the newest, or the one with the highest priority."""
    tier: Literal["deepest"] | Annotated[Number, Field(ge=-1000, le=1000)] = "deepest"
    """Lower tiers go first; deepest: the further from the seeds, the sooner."""
    weight: float = Field(1.0, ge=0.001, le=1e6)
    """The share among layers of the same tier."""
    seen: Seen | None = None
    """How the layer remembers the pages it has seen, if not as the whole site does."""
    stage: Name | None = None
    """The pool of workers that serves it."""
    backlog: Whole = 0
    """Maximum number of waiting requests; 0: no limit."""
    concurrency: Whole = 0
    """Maximum number of pages in progress in the whole fleet; 0: no limit."""
    revisit: Revisit | None = None
    """When its pages are due again."""
    format: Format = Format.HTML
    """The format of its pages."""
    encoding: str | None = None
    """The character set, if pages do not declare it or declare a wrong one."""
    identity: Identity | None = None
    """Which of its URLs are the same page, if not as in the whole site."""
    request: RequestRule | None = None
    """How to request its pages; its keys override the site's."""
    valid: Valid = Valid()
    """Conditions that its pages must meet."""
    require: Annotated[tuple[str | tuple[str, ...], ...], BeforeValidator(listed), LISTED] = ()
    """Fields that must not be empty; in a nested list, at least one of them."""
    lacking: Literal["fail", "keep", "drop"] = "fail"
    """What to do with a page that lacks a required field: fail: make it a dead letter; keep: store it anyway; drop: ignore the record. It is counted in any case."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """The values to take from a page, by name, in this order."""
    records: Selected | None = None
    """For a page with many records: a selector of each record. Without it the page is one record."""
    follow: Annotated[tuple[Follow, ...], BeforeValidator(listed), LISTED] = ()
    """Which links of a page to follow."""
    save: Flag = False
    """Keep the page as received, in WARC files."""
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

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("a schedule is either every or cron")
        return self


class Limits(SiteModel):
    """Bounds of a site."""

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


class StoreRule(SiteModel):
    """Where a layer's records go."""

    table: str | None = None
    """Without it, the site and the layer with _ between."""
    key: Texts = ("url",)
    """The fields that identify a record: one with the same key is overwritten."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Field → column, where they differ."""
    add: Texts = ()
    """Further columns: url, fetched_at, round, site, layer, status, parent."""
    history: Flag = False
    """Keep a row for each change instead of overwriting."""
    archive: Flag = False
    """Put the table aside when a new round begins, and begin an empty one."""
    children: dict[str, ChildTable] = Field(default_factory=dict)
    """Where nested records go, by field; without it, into tables of their own."""
    existing: Flag = False
    """The table exists already: never create or alter it."""


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
    """Another site file, counted from this one, whose keys hold where this one says nothing. Mappings are joined key by key; an empty key takes an inherited one away."""
    params: dict[str, Any] | list[dict[str, Any]] | str = Field(default_factory=dict)
    """Lists to be combined ({forum: [a, b]}), a list of rows, or the name of a CSV, JSON or YAML file with rows."""
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(listed), LISTED] = ()
    """Where a round begins."""
    layers: dict[Name, Layer]
    """The kinds of pages, by name. Where it matters which comes first, the order of the file counts."""
    schedule: Schedule | None = None
    """When a new round begins; without it, only on request."""
    limits: Limits = Limits()
    """Bounds of the whole site."""
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


def order_of(layer: Layer) -> Order:
    return Order.LIFO if layer.order == "lifo" else Order.FIFO


Parameters = Mapping[str, Any]
