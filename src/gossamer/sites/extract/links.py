"""Links: the rules of `follow`, compiled, and the requests they make of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import NOTHING, PageRequest
from gossamer.sites.crossing import ANY, crosses, split
from gossamer.sites.extract.clean import cleaning
from gossamer.sites.extract.content import PageContent
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.extract.fields import counts
from gossamer.sites.extract.regex import Pattern
from gossamer.sites.extract.selector.extractor import Extractor
from gossamer.sites.extract.selector.jmespath import search
from gossamer.sites.extract.selector.selector import FAILURES
from gossamer.sites.extract.turns import COUNT, MARK, NAME, at_turn, begins_with_one, counts_in, step, uses_turn
from gossamer.sites.extract.types import as_text
from gossamer.sites.extract.urls import LONGEST, TooLong
from gossamer.sites.format import Follow, Format
from gossamer.sites.page import LINKS, LimitExceeded
from gossamer.sites.request import RequestParts, request_parts
from gossamer.sites.secrets import names_of
from gossamer.sites.template import UnknownName, filled, look_up, named, text_of, urls_with_texts

LEFT_ALONE = ("javascript:", "mailto:", "tel:", "data:")
ATTRIBUTES = ("href", "src", "action")


class LinkSet:
    """The links of one page so far, each once."""

    __slots__ = (
        "_layers",
        "_looked",
        "_twice",
        "_untold",
        "contested",
        "cut_off",
        "given",
        "known",
        "limited",
        "links",
        "odd",
        "overlong",
        "skipped",
        "textless",
        "unlinked",
    )

    def __init__(self) -> None:
        self.links: list[PageRequest] = []
        self._layers: dict[int, str] = {}
        """The layer of each link, by fingerprint; the first if it has several."""
        self._twice: set[tuple[str, int]] = set()
        """The further ones."""
        self._untold: dict[tuple[str, int], list[int]] = {}
        """The places of the links without a text of `changed`, of the first `_looked` ones."""
        self._looked = 0
        self.contested: dict[str, str] = {}
        """The rules with links that an earlier rule leads to another layer, and that layer."""
        self.given: dict[str, int] = {}
        """How many links each rule found."""
        self.known: dict[str, None] = {}
        """The rules with links that an earlier rule found as well."""
        self.limited: dict[str, None] = {}
        """The rules that left out links because of a limit: `limit`, `pages`, `limits.depth`."""
        self.odd = 0
        self.overlong: dict[str, str] = {}
        """The rules with links that are longer than URLs may be, and what is wrong with one of them."""
        self.cut_off = False
        """Whether further pages of the list are left out because of `pages`."""
        self.skipped: dict[str, None] = {}
        """The rules that count more records for a page than it has."""
        self.unlinked: dict[str, None] = {}
        """The rules that made no link somewhere because a {name} of theirs is empty."""
        self.textless: dict[str, None] = {}
        """The rules whose `changed` was empty for a link."""

    def add(self, link: PageRequest, rule: str, site: SiteContext) -> bool:
        first = self._layers.get(link.fingerprint)
        if first is None:
            self._layers[link.fingerprint] = link.layer
        elif first == link.layer or (link.layer, link.fingerprint) in self._twice:
            if link.changed:
                self._note_text(link)
            return False
        else:
            self._twice.add((link.layer, link.fingerprint))
            if not link.dont_filter and site.shares_memory(first, link.layer):
                self.contested[rule] = first
        self.links.append(link)
        if len(self.links) > LINKS:
            raise LimitExceeded(f"the page has more than {LINKS:,} links; choose fewer with `match`, `skip` or `limit`")
        return True

    def _note_text(self, link: PageRequest) -> None:
        """A later link to a page says when it changed, and the first one may not."""
        for place in range(self._looked, len(self.links)):
            other = self.links[place]
            if not other.changed:
                self._untold.setdefault((other.layer, other.fingerprint), []).append(place)
        self._looked = len(self.links)
        for place in self._untold.pop((link.layer, link.fingerprint), ()):
            self.links[place] = self.links[place]._replace(changed=link.changed)

    def has(self, rule: str) -> bool:
        """Whether the rule found any link, also one that is left out because of a limit or an empty {name}."""
        others = (self.known, self.limited, self.unlinked, self.overlong)
        return rule in self.given or any(rule in names for names in others)

    def tell(self, page: PageContent) -> None:
        page.cut_off, page.unlinked, page.contested = self.cut_off, tuple(self.unlinked), tuple(self.contested)
        page.skipped, page.limited = tuple(self.skipped), (*page.limited, *self.limited)
        page.textless = (*page.textless, *self.textless)
        for name, layer in self.contested.items():
            page.note(f"{name}: an earlier rule leads some of its links to layer {layer}, where they are read instead")
        page.overlong = {**page.overlong, **self.overlong}
        for name, why in self.overlong.items():
            page.note(f"{name}: {why}")
        if self.odd:
            page.note(f"links: {self.odd} addresses are not URLs that can be fetched")


class FollowRule:
    """One rule of `follow`."""

    def __init__(self, layer: str, place: int, follow: Follow, format: Format, site: SiteContext) -> None:
        self._layer = layer
        self.name = f"follow[{place}]"
        self._follow = follow
        self._xml = format is Format.XML
        self._site = site
        self._find = Extractor(follow, format).every() if follow.url is None else None
        self._clean = cleaning(follow.clean)
        self._source = follow.regex is not None and format in (Format.HTML, Format.XML, Format.TEXT)
        self._match = Pattern(follow.match) if follow.match is not None else None
        self._skip = Pattern(follow.skip) if follow.skip is not None else None
        self._when = search(follow.when) if follow.when is not None else None
        self._carry = (
            follow.carry
            if not isinstance(follow.carry, dict)
            else {key: search(text) for key, text in follow.carry.items()}
        )
        beside = (follow.headers, follow.cookies, follow.form, follow.json_, follow.body)
        self._parts = None if any(map(named, beside)) else request_parts(follow, lambda data: data)
        """How to request the linked pages, None where that depends on the page."""
        self._stays = follow.hosts == "own"
        self._fragments: dict[str, bool] = {}
        self._secrets = names_of(*beside, follow.url)
        """The variables that the rule names, to be looked up in its links when they are sent."""
        name, there = split(follow.to) if follow.to is not None else ("", "")
        self._there = name if there == ANY else None
        """The other site that decides about the layer."""
        if follow.to is not None and not site.has_layer(follow.to):
            raise ValueError(f"the site has no layer {follow.to!r} to follow to")
        self.searches = follow.url is None and follow.when is None
        """Whether it looks for links on every page."""
        self.numbered = follow.pages is not None and uses_turn(follow)
        """Whether it counts pages; then it comes after the other rules."""
        self._step = step(follow) if self.numbered else 0
        self._from_one = self.numbered and begins_with_one(follow)
        self._counting = (counts_in(follow.headers), counts_in(follow.cookies)) if self.numbered else ((), ())
        """The headers and cookies that count pages: these tell pages with one URL apart."""

    def gather(
        self,
        page: PageContent,
        thing: Any,
        fields: Mapping[str, Any],
        into: LinkSet,
        marks: Sequence[int] = (),
        records: int = 0,
    ) -> None:
        """Add the links of a page, or of one of its records. `marks` are the numbers of what the page has, and `records` is how many of
        these, for rules that count pages."""
        follow, parts, document = self._follow, self._parts, page.document
        try:
            if self._when is not None and not counts(self._when({**page.values, **fields} if page.values else fields)):
                return
            turn = document.turn + 1
            if self.numbered:
                follow, parts = at_turn(self._follow, turn, look_up(NAME, page, fields) is None), None
            empty = page.empty_values
            addresses = self._addresses(follow, page, thing, fields)
            if page.empty_values > empty:
                into.unlinked[self.name] = None
            if self._from_one and turn == 1 and self._is_itself(page, addresses):
                page.note(f"{self.name}: the first page turn would be this page itself, and is left out")
                turn = 2
                follow = at_turn(self._follow, turn, look_up(NAME, page, fields) is None)
                addresses = self._addresses(follow, page, thing, fields)
            if not addresses:
                return
            carried = self._carried(page, fields)
            if marks:
                carried = {**carried, MARK: marks, **({COUNT: records} if self._step else {})}
            parts = parts or request_parts(follow, lambda data: filled(data, page, fields))
            self._add(page, addresses, carried, parts, into, follow.limit, turn)
        except UnknownName as error:
            page.note(f"{self.name}: {error}")
            if self._follow.pages is None:  # The last page of a list has no cursor, and need not have one.
                into.unlinked[self.name] = None
        except FAILURES as error:
            page.note(f"{self.name}: {type(error).__name__}: {error}")

    def skips(self, page: PageContent, records: int, into: LinkSet) -> None:
        """Note that the rule counts more records for a page than the site gives: this page and the one before it have as many as each
        other, and fewer than that."""
        if 0 < records < self._step and page.document.inherited.get(COUNT) == records:
            into.skipped[self.name] = None
            page.note(
                f"{self.name}: a page has {records} records and the next one begins {self._step} further on: are those between left out?"
            )

    def ends(self, page: PageContent, marks: Sequence[int]) -> bool:
        """Whether the pages that the rule counts end here: this one is empty, or has the same as the one before it."""
        if self._follow.when is not None:
            return False
        before = page.document.inherited.get(MARK)
        before = before if isinstance(before, list) else []  # A site in Python may pass on anything.
        if marks and not any(one == other for one, other in zip(marks, before, strict=False)):
            return False
        if marks and self._from_one and page.document.turn == 1:
            page.note(f"{self.name}: this page has the same as the first one, and is taken for the first one")
            return False
        if marks:
            page.note(f"{self.name}: this page has the same as the one before it, so the pages end here")
        return True

    def _is_itself(self, page: PageContent, addresses: Iterable[str]) -> bool:
        """Whether the only address is that of the page."""
        follow, found = self._follow, list(addresses)
        if len(found) != 1 or (follow.form, follow.json_, follow.body) != (None, None, None) or any(self._counting):
            return False
        try:
            url = page.addresses().absolute(found[0])
        except ValueError:
            return False
        own = self._site.fingerprint(self._layer, page.document.url)
        return self._site.fingerprint(self._layer, url) == own

    def _addresses(self, follow: Follow, page: PageContent, thing: Any, fields: Mapping[str, Any]) -> Mapping[str, str]:
        """The addresses that the rule finds, each once, in the order of the page; and when the pages changed."""
        if self._find is None:
            return _first_texts(urls_with_texts(follow.url or "", follow.changed or "", page, fields))
        found: dict[str, str] = {}
        changed = text_of(follow.changed, page, fields) if follow.changed is not None else ""
        for one in self._find(page, thing) if self._clean is None else self._cleaned(page, thing):
            address = one if one.__class__ is str else self._of(one)
            if address:
                if self._source:
                    address = address.replace("&amp;", "&").replace("\\/", "/")
                found[address] = changed
        return found

    def _cleaned(self, page: PageContent, thing: Any) -> Iterator[str]:
        """What the rule finds, after its steps. Numbers of JSON may become part of an address."""
        if self._find is None or self._clean is None:
            return
        for one in self._find(page, thing):
            text = self._of(one) if isinstance(one, etree._Element) else as_text(one)
            value = self._clean(text.strip(), page) if text is not None else None
            for address in value if isinstance(value, list) else (value,):
                if address is not None:
                    yield as_text(address)

    def _of(self, thing: Any) -> str | None:
        if not isinstance(thing, etree._Element):
            return None
        for name in ATTRIBUTES:
            if (address := thing.get(name)) is not None:
                return address  # type: ignore[no-any-return]
        return (thing.text or "").strip() if self._xml else None

    def _add(
        self,
        page: PageContent,
        addresses: Mapping[str, str],
        carried: Mapping[str, Any],
        parts: RequestParts,
        into: LinkSet,
        limit: int,
        next_turn: int,
    ) -> None:
        follow, site, absolute, depth = self._follow, self._site, page.addresses().absolute, page.document.depth + 1
        method, headers, cookies, body, query = parts
        deepest, turning, own = site.limits_depth, follow.pages is not None, not crosses(follow.to)
        given, counted = into.given.get(self.name, 0), self._counted(headers, cookies)
        for address, changed in addresses.items():
            if limit and given >= limit:
                into.limited[self.name] = None
                return
            if address[:1] != "/":
                begin = address.lstrip()[:11].lower()
                if not begin or begin.startswith(LEFT_ALONE):
                    continue
            try:
                url = absolute(address)
            except TooLong as error:
                into.overlong.setdefault(self.name, str(error))
                continue
            except ValueError:
                into.odd += 1
                continue
            if not url.startswith(("http://", "https://")):
                continue
            layer = follow.to
            if self._there is not None:
                layer = site.layer_there(self._there, url.partition("#")[0] if "#" in url else url)
                if layer is None:
                    continue
            elif layer is None:
                belongs = site.layer_of(url.partition("#")[0] if "#" in url else url)
                if belongs is None:
                    continue
                layer = belongs[0]
            if "#" in url and not self._keeps_fragments(layer):
                if address.lstrip()[0] == "#":
                    continue
                url = url.partition("#")[0]
            if query:
                url += ("&" if "?" in url else "?") + query
                if len(url) > LONGEST:
                    into.overlong.setdefault(
                        self.name, f"a URL of {len(url)} characters is longer than {LONGEST}: {url[:100]!r} …"
                    )
                    continue
            if self._stays and not site.is_own(url):
                continue
            if (self._match is not None and not self._match.matches(url, page)) or (
                self._skip is not None and self._skip.matches(url, page)
            ):
                continue
            turn, level, inherited = 0, depth if own else 0, carried
            if turning and layer == self._layer:
                # Another page of the same list: not deeper, and of the same parent.
                turn, level = next_turn, depth - 1
                if follow.pages and turn > follow.pages:
                    into.cut_off = True
                    into.limited[self.name] = None
                    continue
                if page.document.inherited:
                    inherited = {**page.document.inherited, **carried}
            if deepest and level > deepest:
                into.limited[self.name] = None
                continue
            link = PageRequest(
                url, method, headers, cookies, body, layer, site.fingerprint(layer, url, method, body + counted),
                follow.priority, inherited, turn, level, follow.again,
            )  # fmt: skip
            if self._secrets:
                link = link._replace(secrets=self._secrets)
            if changed:
                link = link._replace(changed=changed)
            elif follow.changed is not None:
                into.textless[self.name] = None
            if into.add(link, self.name, site):
                into.given[self.name] = given = given + 1
            else:
                into.known[self.name] = None

    def _counted(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bytes:
        """What tells a page apart from others with the same URL, where its headers or cookies count pages."""
        names, crumbs = self._counting
        if not (names or crumbs):
            return b""
        return repr(([headers[name] for name in names], [cookies[name] for name in crumbs])).encode()

    def _keeps_fragments(self, layer: str) -> bool:
        """Whether the layer's identity counts the part after #."""
        if layer not in self._fragments:
            one, other = (self._site.fingerprint(layer, f"http://example.com/{hash}") for hash in ("", "#a"))
            if crosses(layer):
                return one != other  # The file of that site may change.
            self._fragments[layer] = one != other
        return self._fragments[layer]

    def _carried(self, page: PageContent, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._carry:
            return NOTHING
        if isinstance(self._carry, dict):
            known = {**page.values, **fields} if page.values else fields
            found = {name: ask(known) for name, ask in self._carry.items()}
        else:
            found = {name: look_up(name, page, fields) for name in self._carry}
        return {name: value for name, value in found.items() if value is not None}


def _first_texts(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Each address with its first text that is not empty."""
    texts: dict[str, str] = {}
    for address, text in found:
        texts[address] = texts.get(address) or text
    return texts
