"""The page that a function of a layer reads: `async def lamp(page): yield {…}; yield page.follow(…)`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar, cast, overload

from lxml import etree  # type: ignore[import-untyped]
from parsel import Selector
from parsel.selector import SelectorList

from gossamer.errors import SiteError
from gossamer.model.page import NOTHING, PageRequest
from gossamer.sites.compile import CompiledSite
from gossamer.sites.crossing import crosses
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.links import ATTRIBUTES, LEFT_ALONE
from gossamer.sites.extract.selector.table import rows_of_table
from gossamer.sites.extract.types import as_text
from gossamer.sites.extract.urls import PageUrls, TooLong
from gossamer.sites.format import Body, Format
from gossamer.sites.python.json_ld import JsonLd
from gossamer.sites.request import request_parts

T = TypeVar("T")
_MISSING: Any = object()


class Page:
    """A page as received, and the usual ways to query it. Everything is made when it is first asked for: a function that reads
    only `page.json()` never parses HTML."""

    def __init__(
        self,
        site: CompiledSite,
        layer: str,
        content: PageContent,
        round: int | None = None,
        before: str | None = None,
    ) -> None:
        document = content.document
        self._site, self._content, self._before = site, content, before
        self.site: str = site.name
        """The name of the site."""
        self.layer: str = layer
        """The layer that the page belongs to."""
        self.url: str = document.url
        """The URL of the page, after redirects."""
        self.status: int = document.status
        """The HTTP status."""
        self.headers: Mapping[str, str] = document.headers
        """The headers of the response; their names have lower-case letters."""
        self.body: bytes = document.body
        """The body as bytes, decompressed."""
        self.inherited: Mapping[str, Any] = document.inherited
        """What the page that led here passed on."""
        self.turn: int = document.turn
        """How many page turns lie between the first page of the list and this one."""
        self.depth: int = document.depth
        """How many steps lie between the seeds and this page."""
        self.round: int | None = round
        """The number of the round; None in `gossamer site try` and `site test`."""

    @property
    def text(self) -> str:
        """The body as text, in the character set of the page."""
        return self._content.text()

    @cached_property
    def identity(self) -> str:
        """The URL that the page is called by in its tables (`add: url`): in its one form, with only the query parameters that count."""
        return self._site.canonical(self.layer, self._site.own_url(self.layer, self._content.document))

    @property
    def parent(self) -> str | None:
        """The identity of the page that led here; None for seeds and tasks, and in `gossamer site try` and `site test`. With `conditional`, a page
        whose function asks for it is fetched whole in every round."""
        self._content.asked_parent = True
        return None if self._before is None else self._site.identity(self._before)

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the site that have one value."""
        return self._site.params

    @property
    def groups(self) -> Mapping[str, str]:
        """The named groups of the layer's `match` in the page's URL."""
        return self._content.groups()

    @cached_property
    def selector(self) -> Selector:
        """The whole page as a selector of parsel, which Scrapy uses, too."""
        kind = "xml" if self._content.format is Format.XML else "html"
        return Selector(root=self._content.root(), type=kind)

    def css(self, query: str) -> SelectorList[Selector]:
        """What a CSS selector finds, with `::text` and `::attr(name)` as in Scrapy."""
        return self.selector.css(query)

    def xpath(self, query: str) -> SelectorList[Selector]:
        """What an XPath expression finds."""
        return self.selector.xpath(query)

    def table(self, query: str) -> list[dict[str, str]]:
        """The rows of the tables that a CSS selector finds, as `table` in site files gives them: mappings from the names of the columns to the texts
        of the cells, with spans resolved."""
        return [
            row
            for table in self.css(query)
            if isinstance(table.root, etree._Element) and table.root.tag == "table"
            for row in rows_of_table(self._content, table.root)
        ]

    def json(self) -> Any:
        """The body as JSON; in a layer of `format: csv` or `tsv` its rows, each a mapping from the names of the header to texts. A page that is not of
        this format is retried, and finally a dead letter."""
        return self._content.data()

    @overload
    def json_ld(self, type: str) -> dict[str, Any]: ...
    @overload
    def json_ld(self, type: str, default: T) -> dict[str, Any] | T: ...
    def json_ld(self, type: str, default: Any = _MISSING) -> Any:
        """The first thing of a type (`Product`) in the page's JSON-LD, also inside lists and `@graph`. Without one: `default`, or
        a LookupError that names the types that there are."""
        found = self._json_ld.first(type)
        if found is None:
            if default is _MISSING:
                raise LookupError(f"{self.url} has {self._json_ld.missing(type)}")
            return default
        return found

    def json_ld_all(self, type: str | None = None) -> list[dict[str, Any]]:
        """Everything of a type in the page's JSON-LD, in the order of the page; without a type, everything that has one."""
        return self._json_ld.every(type)

    @cached_property
    def _json_ld(self) -> JsonLd:
        return JsonLd(self._content.root())

    def urljoin(self, address: str) -> str:
        """An address of this page as an absolute URL, as a browser makes it: `<base>` counts. ValueError if it cannot be a URL."""
        return self._addresses.absolute(address)

    @cached_property
    def _addresses(self) -> PageUrls:
        return self._content.addresses()

    def follow(
        self,
        link: str | Selector,
        to: str | None = None,
        *,
        inherited: Mapping[str, Any] = NOTHING,
        method: str = "",
        headers: Mapping[str, str] = NOTHING,
        cookies: Mapping[str, str] = NOTHING,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        body: bytes = b"",
        priority: int = 0,
        again: bool = False,
        changed: Any = _MISSING,
    ) -> PageRequest | None:
        """A link to yield. `link` is a URL, also a relative one, or a selector: of an `<a>`, or of its attribute. `to` is the layer
        of the linked page; without it, the layer whose `match` fits best. `inherited` is what the page will find in its
        `inherited`: plain data (text, numbers, dates, lists, dicts …), otherwise the page is a dead letter. `again` follows a link that
        was seen before; `changed` says when the linked page changed: one that was seen is fetched again, with all its page turns, exactly when this
        text differs from that of its last fetch that ended (None and "" say nothing). Links that differ in nothing but headers or cookies are the same page. A link to the same layer is a page turn: it is not deeper, and
        inherits what this page inherited.

        None, which may be yielded, for what no crawler follows: mailto: and the like, an address within the page, one that cannot
        be a URL, one that fits no layer, one deeper than `limits.depth`.
        """
        address = link if isinstance(link, str) else _attribute(link)
        url = self._absolute(address) if address is not None else None
        if address is None or url is None:
            return None
        site = self._site
        if to is None:
            found = site.layer_of(url.partition("#")[0])
            if found is None:
                return None
            to = found[0]
        elif not site.has_layer(to):
            raise SiteError(f"page.follow: there is no layer {to}; there are {', '.join(site.layers)}.")
        if "#" in url and not site.identifier(to).fragment:
            if address.lstrip()[:1] == "#":
                return None
            url = url.partition("#")[0]
        turning = to == self.layer
        depth = self.depth + (0 if turning else 1)
        if site.limits_depth and depth > site.limits_depth and not crosses(to):
            self._content.limited = tuple({*self._content.limited, f"follow to {to}"})
            return None
        if turning and self.inherited:
            inherited = {**self.inherited, **inherited}
        if form is not None or json is not None:
            fields = dict(form) if form is not None else None
            beside = Body(method=cast(Any, method or None), headers=dict(headers), form=fields, json=json)
            parts = request_parts(beside, lambda data: data)
            url, method, headers, body = parts.url(url), parts.method, parts.headers, parts.body
        text = "" if changed is _MISSING or changed is None else as_text(changed)
        if changed is not _MISSING and not text:
            self._content.textless = tuple({*self._content.textless, f"follow to {to}"})
        return site.link(
            url, to, inherited=inherited, method=method or ("POST" if body else "GET"), headers=headers, cookies=cookies,
            body=body, priority=priority, turn=self.turn + 1 if turning else 0, depth=depth, dont_filter=again,
        )._replace(changed=text)  # fmt: skip

    def _absolute(self, address: str) -> str | None:
        """The absolute URL of an address; None if no crawler follows it."""
        if address[:1] != "/":  # As most do, and none of these does.
            begin = address.lstrip()[:11].lower()
            if not begin or begin.startswith(LEFT_ALONE):
                return None
        try:
            url = self._addresses.absolute(address)
        except TooLong as error:
            self._content.overlong.setdefault("follow", str(error))
            self._content.note(f"links: {error}")
            return None
        except ValueError as error:
            self._content.note(f"links: {error}")
            return None
        return url if url.startswith(("http://", "https://")) else None

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url} ({self.layer})>"


def _attribute(link: Selector) -> str | None:
    thing = link.root
    if isinstance(thing, str):
        return thing
    if isinstance(thing, etree._Element):
        for name in ATTRIBUTES:
            if (address := thing.get(name)) is not None:
                return address  # type: ignore[no-any-return]
        return None
    raise TypeError(
        f"page.follow takes a URL, or a selector of a link or an attribute, not one of {type(thing).__name__}"
    )
