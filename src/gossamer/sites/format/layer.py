"""One kind of page: how it is requested, checked, read and remembered."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from gossamer.sites.format.selector import Body, FieldRule, Follow, Format, Selected
from gossamer.sites.format.values import (
    LISTED,
    Duration,
    Flag,
    Hook,
    Name,
    Number,
    Share,
    SiteModel,
    Size,
    Texts,
    Whole,
    listed,
)


class Seen(SiteModel):
    """How a layer remembers the pages it has seen. A plain text is the scope: forever, round or never."""

    scope: Literal["forever", "round", "never"] = "forever"
    """forever: fetch a page once in all rounds; round: once in each round; never: remember nothing."""
    policy: Literal["exact", "bloom", "rolling", "hits"] = "exact"
    """exact: every page; bloom: a third of the memory, with a few false positives; rolling: only recent pages; hits: as rolling, and each link found renews its page."""
    window: Duration = 0.0
    """For rolling and hits: how long to remember a page."""
    count: Whole = 0
    """For rolling and hits: how many pages to remember."""
    rounds: Whole = 0
    """For rolling and hits: for how many rounds to remember a page; with hits, a page that no list shows any more is forgotten after this many."""
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
    min_characters: Whole = 0
    """Characters of the decoded page, markup included."""
    contains: Texts = ()
    """Texts that the page must contain, all of them."""
    lacks: Texts = ()
    """Texts that the page must not contain (log in, captcha). A page with one of them is blocked: a wall that came instead of the page."""
    content_type: str | None = None
    """Regular expression on the Content-Type."""


class Identity(SiteModel):
    """Which URLs are the same page: which query parameters count, and what else is done before URLs are compared. A list means `keep`;
    `none`: no parameter counts; `all` (default): every one counts. The session in a path (;jsessionid=…) never counts."""

    keep: Texts | None = None
    """Only these count; the others are removed before URLs are compared."""
    drop: Texts = ()
    """These do not count, in the query (?sid=1) nor in the path (;sid=1); `*` at the end matches anything (utm_*)."""
    rewrite: tuple[tuple[str, str], ...] = ()
    """[regular expression, replacement] pairs, applied to the URL in this order before it is compared: [["^https?://m\\.", "https://"]]."""
    canonical: Flag = False
    """A page is stored under the URL that it names as its own (link rel=canonical), if that is on the same host."""
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
    """When pages are fetched again without any link that leads to them. A plain time is `every`."""

    every: Duration
    """Time from one visit to the next; with `adaptive`, from the first to the second."""
    min: Duration = 0.0
    """With `adaptive`: minimum time between two visits. Default: a minute, or `every` if that is shorter."""
    max: Duration = 0.0
    """With `adaptive`: maximum time between two visits. Default: 64 times `every`."""
    adaptive: Flag = False
    """Halve the time when a page has changed since the last visit, and make it longer by half when it has not."""
    gone: Annotated[Whole, Field(ge=1, le=200)] = 3
    """The number of visits in a row on which the page does not exist (404, 410), after which it is not visited again."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"every": data} if isinstance(data, str | int | float) and not isinstance(data, bool) else data


Again = Literal["now", "never"] | Duration


class Rediscover(SiteModel):
    """When a known page is fetched again because a link leads to it: after a time in its state, `now` or `never`."""

    failed: Again | None = None
    """A page that failed for good. Default: now."""
    finished: Again | None = None
    """A page that was read. Default: after `every` of `revisit`, and if that is adaptive never, since the visits follow the changes; without `revisit`, as `seen` says: never, or with the scope never, now."""
    gone: Again | None = None
    """A page that does not exist any more. Default: after `every` of `revisit`; without it, never, but for `newer`."""
    newer: Flag | None = None
    """Fetch a page that was read, or does not exist, again, once, if a link of a later round leads to it. Default: whether the scope of `seen` is round."""


class PageRecords(SiteModel):
    """How many page records to keep. `true`: all of them."""

    max: Whole = 0
    """The most records, on each partition; the oldest go first, then those whose next visit is furthest away. 0: no limit."""
    age: Duration = 0.0
    """How long to keep the record of a page that is not visited again, from its last visit on. 0: no limit."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {} if data is True else data


class Hold(SiteModel):
    """When to pause a round before it replaces more rows."""

    coverage: Share
    """The least share of records, as 80%, in which each field that is read from the page has a value. After 20 pages of the layer a round that has less of a field is paused; a field that had less in the round before, too, does not count. `gossamer group resume` goes on with the round, which is not held again."""


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
    """Limit for the whole response, from the connection to the last byte; the first byte may take all of it. A body that stands still for 30 seconds fails sooner. The next try begins when this one is over and its connection closed. Default: 60s; 0: no limit."""
    connect_timeout: Duration | None = None
    """Limit for the connection. Default: a third of `timeout`."""
    max_size: Size | None = None
    """Larger responses are failures."""
    retries: Whole | None = None
    """How often to retry a failed page."""
    retry_status: Annotated[tuple[Number, ...] | None, BeforeValidator(listed), LISTED] = None
    """Statuses that count as failures."""
    redirects: Whole | None = None
    """How many redirects to follow in a row, pages that send on within 5 seconds (meta refresh) included; 0: treat them as ordinary pages."""
    conditional: Flag | None = None
    """Ask the server to send a page that was read before, by any worker in any run, only if it has changed. An unchanged page is done: it is not read again, its rows stay, and it leads where it led."""
    referer: Flag | None = None
    """Send the URL of the page that led to a page as Referer, as browsers do: whole within one origin, only the origin to others. Default: true."""
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
    """One kind of page. Most layers need only the keys that say what to read."""

    OPERATING: ClassVar[frozenset[str]] = frozenset(
        {
            "order", "tier", "weight", "seen", "stage", "backlog", "concurrency", "revisit", "rediscover", "page_records", "identity", "request", "save", "hold", "hooks",
        }
    )  # fmt: skip
    """Keys that say how its pages are fetched, kept and remembered; the others say what is read from them."""

    match: str | None = None
    """Regular expression on path and query of a URL (on the whole URL if it begins with http or ^http); its named groups are values."""
    like: Name | None = None
    """Another layer whose keys this one takes over where it does not set them, except `match` and `examples`."""
    examples: Texts = ()
    """URLs that must match this layer; `gossamer site check` tests them."""
    order: Literal["fifo", "lifo", "priority"] = "fifo"
    """Which page of a host is next: the oldest in the queue, the newest, or the one with the highest priority."""
    tier: Literal["deepest"] | Annotated[Number, Field(ge=-1000, le=1000)] = "deepest"
    """Lower tiers go first; deepest: the further from the seeds, the sooner. With `overlap: reseed`, layers of the seeds and those with
    `seen: round` are in the tier of the deepest layer."""
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
    """When to fetch its pages again without any link that leads to them. The layer keeps page records then."""
    rediscover: Rediscover | None = None
    """When to fetch a known page again because a link leads to it. The layer keeps page records then."""
    page_records: PageRecords | None = None
    """Keep a record of every page: its state, when it was found, visited and changed, and when it is due. The records take the place of the memory of `seen`."""
    format: Format = Format.HTML
    """The format of its pages. XML is read without namespaces: title finds dc:title. csv (delimited by comma, semicolon or tab, whichever the header has most of) and tsv are read by JMESPath, as a list of rows, each a mapping from the names of the header to texts; gzip, and a zip with one file, are unpacked."""
    encoding: str | None = None
    """The character set, if pages do not declare it or declare a wrong one; {names} as in `value`, also those that were passed on."""
    identity: Identity | None = None
    """Which of its URLs are the same page, if not as in the whole site."""
    request: RequestRule | None = None
    """How to request its pages; its keys override the site's."""
    valid: Valid = Valid()
    """Conditions that its pages must meet."""
    require: Annotated[
        Literal["none"] | tuple[str | tuple[str, ...], ...],
        BeforeValidator(lambda value: value if value == "none" else listed(value)),
        LISTED,
    ] = ()
    """Fields that must not be empty; in a nested list, at least one of them. A page without `records` always needs a value of one field that is read from it (a URL, constants and defaults are not): without any it lacks them all, whatever `lacking` says. `none`: such a page is a record like others."""
    lacking: Literal["fail", "keep", "drop"] = "fail"
    """What to do with a page that lacks a required field: fail: make it a dead letter; keep: store it anyway; drop: ignore the record. It is counted in any case."""
    fields: dict[Name, FieldRule] = Field(default_factory=dict)
    """The values to take from a page, by name, in this order. A field whose name begins with _ is a helper: read and used, stored nowhere."""
    records: Selected | None = None
    """For a page with many records: a selector of each record. Without it the page is one record."""
    page: dict[Name, FieldRule] = Field(default_factory=dict)
    """Beside `records`: values of the page as a whole, read once. `follow` and `when` use them as they use fields; a record takes one over with `from: page.NAME`."""
    follow: Annotated[tuple[Follow, ...], BeforeValidator(listed), LISTED] = ()
    """Which links of a page to follow."""
    save: Flag | Literal["warc", "files"] = False
    """Keep the page: true or warc: request and answer as they came, in WARC files; files: the body of each page that was read, as a plain file (its name: `add: file` in `store`)."""
    hold: Hold | None = None
    """When to pause a round before it replaces more rows, if not as in the whole site."""
    hooks: Hooks = Hooks()
    """Python functions for its pages, instead of the site's."""
    handler: Hook | None = None
    """An async Python function that reads the page instead of fields and follow."""

    @property
    def required(self) -> tuple[str | tuple[str, ...], ...]:
        """The fields of `require`."""
        return () if self.require == "none" else self.require

    @property
    def keeps_records(self) -> bool:
        """Whether it keeps page records instead of a seen memory."""
        return self.revisit is not None or self.rediscover is not None or self.page_records is not None
