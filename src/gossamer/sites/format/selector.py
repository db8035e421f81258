"""Where the values, records and links of a page are found."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from gossamer.sites.format.values import LISTED, Flag, Method, Name, Number, SiteModel, Target, Texts, Whole, listed


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
    CSV = "csv"
    TSV = "tsv"
    TEXT = "text"
    BINARY = "binary"


ROWS = frozenset({Format.CSV, Format.TSV})
"""Formats whose pages are lists of rows."""
DATA = ROWS | {Format.JSON}
"""Formats whose pages JMESPath reads."""


SELECTORS = ("css", "xpath", "regex", "jmespath", "table")


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
    table: str | None = None
    """A CSS selector of tables: a value for each row but those of the header, a mapping from the names of the columns to the texts of the cells, which JMESPath reads. A cell that spans columns or rows is in all of them; NAME_href is the address of the first link in a cell."""
    source: str = Field(
        default="content", alias="from", pattern=r"^(content|url|parent|headers|fields|page|status)(\.[^\s]+)?$"
    )
    """What is looked at: content, url, headers (headers.etag), parent (what was passed on: parent.title), fields (found before: fields.id), page (in a layer with `records`: page.total), status."""
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
    batch: tuple[Annotated[Whole, Field(ge=1)], str] | None = None
    """[number, text]: join this many members of a list at a time with the text; the value stays a list, of fewer texts."""
    map: dict[str, Any] | None = None
    """A table of replacements; texts that are not in it stay."""
    truncate: Whole | None = None
    """Maximum number of characters."""

    @model_validator(mode="after")
    def _one_step(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("a step is exactly one of " + ", ".join(type(self).model_fields))
        return self


PlainStep = Literal[
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
PLAIN_STEPS: tuple[str, ...] = get_args(PlainStep)
PLAIN_MEANINGS: dict[PlainStep, str] = {
    "strip": "Remove white space at both ends.",
    "squeeze": "The same, and one space for any white space within.",
    "lower": "In small letters.",
    "upper": "In capital letters.",
    "title": "Each Word With A Capital Letter.",
    "digits": "Keep only the digits.",
    "unescape": "Replace entities of HTML: &amp;amp; becomes &amp;.",
    "strip_tags": "Remove tags, scripts and comments, and replace entities; lines and paragraphs stay apart.",
    "unique": "Of a list, each value once.",
    "sort": "Sort a list, as texts.",
    "reverse": "Turn a list round.",
    "unquote": "Decode %20 and the like.",
}
Step = PlainStep | Clean


COMBINED = (["css", "regex"], ["xpath", "regex"], ["css", "jmespath"], ["xpath", "jmespath"])
"""Selectors that go together: the second one reads what the first one found."""


class Taken(Selected):
    """What fields and links have in common: a selector, steps that clean what it finds, and a condition."""

    clean: Annotated[tuple[Step, ...], BeforeValidator(listed), LISTED] = ()
    """Steps in this order, before the type: strip (always first unless `strip: false`), squeeze, lower, … For links: what makes a URL of what was found."""
    when: str | None = None
    """A JMESPath expression on the fields (in a field: on those before it): take it only if its value is not empty, null, 0 or false."""

    def ways(self, *others: str) -> list[str]:
        """The selectors that are given, and `others`. ValueError if they exclude each other."""
        ways = [name for name in (*SELECTORS, *others) if getattr(self, name) is not None]
        if len(ways) > 1 and ways not in COMBINED:
            raise ValueError(f"{' and '.join(ways)} exclude each other")
        return ways


class FieldRule(Taken):
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
    strip: Flag = True
    """Remove white space at both ends."""
    default: Any = None
    """The value if nothing is found."""
    format: Texts = ()
    """How a date is written, in the letters of strptime; of several, the first that fits. Without it, ISO 8601, RFC 2822 and numbers (Unix time) are read. A date without a year is the last one before the page was fetched."""
    languages: Texts = ()
    """The languages of dates in words, as en, de or en-GB: month names, "yesterday", "3 hours ago" (before the page was fetched). Two digits of a year stand for one from 1969 to 2068, as with %y."""
    order: Literal["dmy", "mdy", "ymd"] | None = None
    """With `languages`: where day and month stand in dates in digits (02/03/2026). Without it, as in the first `format` with %d and %m, or else as in the first language: mdy in en, dmy in en-GB, de or fr. A date that does not fit (13/03/2026 as mdy) becomes null, and is counted."""
    tz: str | None = None
    """The time zone of dates that name none, as Europe/Berlin; without it they stay without one."""
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = self.ways()
        given = self.model_fields_set
        if "value" in given and (ways or self.each):
            raise ValueError(f"value and {(*ways, 'each')[0]} exclude each other")
        if self.each is not None and ways:
            raise ValueError(f"each and {ways[0]} exclude each other")
        if self.each is not None and not self.fields:
            raise ValueError("each needs fields: what is to be found in every element")
        if not ways and self.each is None and not self.fields and "value" not in given and "source" not in given:
            raise ValueError(
                "nothing says where the value comes from; write css, xpath, regex, jmespath, table, value or from"
            )
        if self.all and self.nth is not None:
            raise ValueError("all and nth exclude each other")
        return self


def is_helper(name: str) -> bool:
    """Whether a field only serves others, `follow` and `when`: its name begins with _, and it is stored nowhere."""
    return name.startswith("_")


def stored_fields(fields: Mapping[str, FieldRule]) -> dict[str, FieldRule]:
    """The fields that records keep."""
    return {name: rule for name, rule in fields.items() if not is_helper(name)}


class Body(SiteModel):
    """What a request has besides its URL. Texts may contain {names}: parameters, groups of `match`, fields of the parent."""

    method: Method | None = None
    """Default: GET, or POST if there is a form, json or body."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More headers; ${NAME} stands for an environment variable."""
    cookies: dict[str, str] = Field(default_factory=dict)
    """More cookies; ${NAME} stands for an environment variable."""
    form: dict[str, Any] | None = None
    """The fields of a form, also with ${NAME}; sent in the query if the method is GET."""
    json_: Any = Field(default=None, alias="json")
    """Sent as JSON; texts in it may have ${NAME}."""
    body: str | None = None
    """Sent unchanged, but for {names} and ${NAME}."""

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


class Follow(Taken, Body):
    """Links of a page, found as fields are; of an element without `attr`, its href, src or action counts. A plain text instead of
    a mapping is a CSS selector; its links go to the layer that matches them."""

    url: str | None = None
    """Instead of a selector: a URL with {names} of fields, parameters or groups of `match`. A list gives one URL for each member: names of one list ({posts.slug}/{posts.id}) go together, different lists are combined. With `pages`: {turn}, {turn+1} or {turn*20} is the number of the page turn."""
    to: Target | None = None
    """The layer of the linked pages, or site.layer for a layer of another site, or site.* for the layer whose `match` fits best there. Without it, the layer whose `match` fits best; links that fit none are skipped. Two rules with the same selector and different layers lead to both: each page is fetched for each of them. Else a page is read once in a round, by the layer of the first link that led to it."""
    hosts: Literal["own", "any"] | None = None
    """`own`: skip links to other hosts than those of the seeds, with or without www. Without it, and with `any`, a link with `to` may lead to any host; `any` says that this is meant."""
    pages: Whole | None = None
    """For links to the same layer: how many page turns to follow from the first page. 0: no limit."""
    limit: Whole = 0
    """Maximum number of links to follow on one page. 0: all."""
    match: str | None = None
    """Regular expression on the whole URL, which begins with http: skip links that do not match."""
    skip: str | None = None
    """Regular expression on the whole URL: skip links that match."""
    priority: Number = 0
    """Higher goes first, in layers with `order: priority`."""
    carry: Annotated[
        tuple[str, ...] | dict[str, str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v), LISTED
    ] = Field(default=(), alias="pass")
    """Fields that the linked page inherits: their names, or {name there: JMESPath here}."""
    again: Flag = False
    """Follow links even if they were seen before."""
    changed: str | None = None
    """A text with {names} that says when the linked page changed, as the time of its last reply. A page that was seen is fetched again, with all its page turns, exactly when this text differs from that of its last fetch that ended; its URL stays the same. Where all {names} are empty, only new pages are fetched."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = self.ways("url")
        if self.table is not None:
            raise ValueError("the rows of a table are no links; write url: with a field of theirs, or css")
        if not ways and "source" not in self.model_fields_set:
            raise ValueError("nothing says which links; write css, xpath, regex, jmespath, from or url")
        if self.url is not None and self.clean:
            raise ValueError("url and clean exclude each other; write the steps in a field, and its {name} in url")
        if self.changed is not None and self.again:
            raise ValueError("changed and again exclude each other: again follows all links, whatever has changed")
        if self.changed is not None and self.pages is not None:
            raise ValueError("changed and pages exclude each other: page turns are fetched again with their first page")
        return self
