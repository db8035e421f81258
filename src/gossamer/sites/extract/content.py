"""A page while it is read: its text, tree and data, each made on first use, and the notes on the way."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import NOTHING, Response
from gossamer.sites.extract.charset import charset
from gossamer.sites.extract.charset.labels import known
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.extract.regex import PATIENCE
from gossamer.sites.extract.types import loads
from gossamer.sites.extract.urls import PageUrls
from gossamer.sites.format import ROWS, Format
from gossamer.sites.page import RECORDS, LimitExceeded
from gossamer.sites.rows import archive
from gossamer.sites.rows.csv_text import CELLS, BadRows, rows_of
from gossamer.sites.xml import parsed

NOTES = 50
"""Maximum number of notes of a page."""
BASES = etree.XPath("string((//base/@href)[1])", smart_strings=False)
TOKEN = re.compile(rb"""["'\]]|<!--|<\?""")
ENDS = {b"<!--": b"-->", b"<?": b"?>"}
EMPTY = b"<html/>"
# Lone surrogates, which the XML parser would put into its tree and could not return.
HALVES = re.compile(
    rb"&#(?:[xX]0*[dD][89a-fA-F][0-9a-fA-F]{2}|0*(?:5529[6-9]|55[3-9]\d\d|56\d\d\d|57[0-2]\d\d|573[0-3]\d|5734[0-3]));"
)
ATTRIBUTES = 2_000
"""Maximum number of attributes of one HTML element: libxml2's time grows with their square."""
# A tag as the tokenizer of browsers reads it, with that many attributes.
CROWDED = re.compile(
    rb"""<[a-zA-Z][^\s/>]*+(?:[\s/]*+=?[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+){%d}"""
    % ATTRIBUTES
).search
# Smaller pages have no room for them, larger ones are searched at any rate; between, only where no tag ends for long.
ROOM, LARGE, LONG = 8_000, 128_000, 2_000

# `recover` reads what can be read, as browsers do.
HTML_PARSER = etree.HTMLParser(encoding="utf-8", recover=True, huge_tree=True)


ENCODING_NAME = re.compile(r"\{([A-Za-z_]\w*)\}")


class WrongFormat(Exception):
    """The page is not of its layer's format; the message says why."""


class Decoding:
    """The bytes of one page as text, once. `encoding` is that of the site file."""

    __slots__ = ("_body", "_content_type", "_encoding", "_result")

    def __init__(self, document: Response, body: bytes, encoding: str | None) -> None:
        self._body, self._content_type = body, document.headers.get("content-type", "")
        self._encoding = encoding
        self._result: charset.PageText | None = None

    def result(self) -> charset.PageText:
        if self._result is None:
            self._result = charset.read(self._body, self._content_type, self._encoding)
        return self._result

    def codec(self) -> str:
        """The name of the page's character set."""
        return (
            self.result().codec
            or (known(self._encoding) if self._encoding is not None else None)
            or charset.declared(self._body, self._content_type)
            or "utf-8"
        )


class PageContent:
    """One page on its way through the rules of a layer. `scopes` are the records being filled, the innermost last."""

    __slots__ = (
        "_addresses", "_body", "_data", "_decoding", "_encoding", "_groups", "_has_data", "_plain", "_root", "_text", "asked_parent", "broken", "cells_left", "contested", "cut_off", "document", "doubt", "empty_values",
        "format", "layer", "limited", "linkless", "missing", "notes", "overlong", "patience", "records_left", "scopes", "site", "skipped", "textless", "unlinked", "unnoted", "values",
    )  # fmt: skip

    def __init__(self, document: Response, layer: str, format: Format, encoding: str | None, site: SiteContext) -> None:
        self.document = document
        self.layer = layer
        self.format = format
        self.site = site
        self.patience = PATIENCE
        self.records_left = RECORDS
        self.cells_left = CELLS
        self.scopes: list[dict[str, Any]] = []
        self.values: Mapping[str, Any] = NOTHING
        """The fields of the page itself, where it has many records: those of the layer's `page`."""
        self.missing: dict[str, None] = {}
        self.notes: list[str] = []
        self.unnoted = 0
        self.cut_off = False
        self.unlinked: tuple[str, ...] = ()
        self.linkless: tuple[str, ...] = ()
        self.textless: tuple[str, ...] = ()
        self.contested: tuple[str, ...] = ()
        self.skipped: tuple[str, ...] = ()
        self.limited: tuple[str, ...] = ()
        self.broken = False
        """Whether it is not well-formed, and may have been read in part."""
        self.overlong: dict[str, str] = {}
        """The rules with links that are longer than URLs may be, and what is wrong with one of them."""
        self.empty_values = 0
        """How many values of {names} that give one URL each were empty."""
        self.asked_parent = False
        """Whether its function has asked which page led to it."""
        self.doubt = ""
        """Whether its character set was guessed, or characters were replaced: those of `charset`."""
        self._text: str | None = None
        self._plain = False  # Whether the bytes are UTF-8 as they came.
        self._root: Any = None
        self._addresses: PageUrls | None = None
        self._groups: Mapping[str, str] | None = None
        self._body: bytes | None = None
        self._encoding = encoding
        self._decoding: Decoding | None = None
        self._has_data = False
        self._data: Any = None

    def note(self, text: str) -> None:
        if len(self.notes) < NOTES and text not in self.notes:
            self.notes.append(text)
        else:
            self.unnoted += 1

    def count_records(self, name: str, count: int) -> None:
        """Raises LimitExceeded where the page has more records than one page may have."""
        self.records_left -= count
        if self.records_left < 0:
            raise LimitExceeded(f"{name}: the page has more than {RECORDS:,} records, nested ones included")

    def body(self) -> bytes:
        """The page's bytes, unpacked if it is a packed file of rows; raises `WrongFormat` and LimitExceeded."""
        if self._body is None:
            body = self.document.body
            if self.format in ROWS and archive.is_packed(body):
                try:
                    body = archive.gunzipped(body) if body.startswith(archive.GZIP) else archive.unzipped(body)
                except archive.BadArchive as error:
                    raise WrongFormat(str(error)) from None
            self._body = body
        return self._body

    def text(self) -> str:
        """The page as text; for a binary page, one character per byte."""
        if self._text is None:
            body = self.body()
            if self.format is Format.BINARY:
                self._text = body.decode("latin-1")
            elif self._encoding is None and charset.is_ascii(body):
                self._text = body.decode("ascii")
                self._plain = True
            else:
                result = self._decoded().result()
                self._text, self._plain, self.doubt = result.text, result.is_plain, result.doubt
                if result.note:
                    self.note(result.note)
        return self._text

    def codec(self) -> str:
        """The name of the page's character set."""
        return self._decoded().codec()

    def root(self) -> Any:
        """The root of the page's tree; anything but XML is parsed as HTML."""
        if self._root is None:
            text = self.text()
            data = self.document.body if self._plain else text.encode("utf-8", "replace")
            self._root = xml(data, self) if self.format is Format.XML else tree(data)
        return self._root

    def data(self) -> Any:
        """The page as JSON, or its rows; raises `WrongFormat` and LimitExceeded."""
        if not self._has_data:
            try:
                self._data = self._rows() if self.format in ROWS else loads(self.text().lstrip("\ufeff"))
            except (ValueError, RecursionError) as error:
                raise WrongFormat(
                    f"the page is not JSON: {error if isinstance(error, ValueError) else 'nested too deeply'}"
                ) from None
            self._has_data = True
        return self._data

    def _rows(self) -> list[dict[str, str]]:
        try:
            rows, note = rows_of(self.text(), "\t" if self.format is Format.TSV else None)
        except BadRows as error:
            raise WrongFormat(f"the page is not {self.format.name}: {error}") from None
        if note:
            self.broken = True
            self.note(note)
        return rows

    def absolute(self, address: str) -> str:
        """An address on this page as an absolute URL, as a browser would request it; raises ValueError."""
        return self.addresses().absolute(address)

    def moment(self) -> float:
        """When the page was fetched, in Unix time."""
        return self.document.fetched or time.time()

    def groups(self) -> Mapping[str, str]:
        """The named groups of the layer's `match` in the page's URL."""
        if self._groups is None:
            self._groups = self.site.groups(self.layer, self.document.url)
        return self._groups

    def addresses(self) -> PageUrls:
        if self._addresses is None:
            self._addresses = self._urls(self._base())
        return self._addresses

    def _urls(self, base: str) -> PageUrls:
        # Not `self.codec`: in a reference cycle, every page would wait for the garbage collector.
        return PageUrls(base, self._decoded().codec)

    def _decoded(self) -> Decoding:
        if self._decoding is None:
            encoding = self._encoding
            if encoding is not None and "{" in encoding:
                encoding = self._filled(encoding)
            self._decoding = Decoding(self.document, self.body(), encoding)
        return self._decoding

    def _filled(self, encoding: str) -> str | None:
        """The character set that a text with {names} stands for: what the page inherited, groups of `match`, parameters."""

        def value(found: re.Match[str]) -> str:
            name = found[1]
            for scope in (self.document.inherited, self.groups(), self.site.params):
                if (one := scope.get(name)) is not None:
                    return str(one)
            return found[0]

        name = ENCODING_NAME.sub(value, encoding)
        if known(name) is None:
            self.note(f"encoding: {encoding} stands for {name}, which is not a character set")
            return None
        return name

    def _base(self) -> str:
        url = self.document.url
        if self.format is Format.HTML:
            body = self.document.body
            if b"<ba" in body or b"<BA" in body or b"<Ba" in body or b"<bA" in body or b"\0" in body:
                # The first one that has an address, whatever that is: others do not count.
                href = str(BASES(self.root()))
                try:
                    base = self._urls(url).absolute(href) if href.strip() else url
                except ValueError:
                    return url
                if base.startswith(("http://", "https://")):
                    return base
        return url


def tree(data: bytes) -> Any:
    """The tree of HTML in UTF-8, as parsel makes it; an empty one for an empty text."""
    data = data.replace(b"\0", b"").strip() or EMPTY
    if len(data) >= ROOM and (len(data) >= LARGE or _long_tag(data)) and CROWDED(data):
        raise WrongFormat(f"an element has more than {ATTRIBUTES} attributes")
    try:
        root = etree.fromstring(data, HTML_PARSER)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        return etree.fromstring(EMPTY, HTML_PARSER)
    return root if root.getnext() is None else joined(root)


UNWRITABLE = partial(re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]").sub, " ")
"""Signs that libxml2 reads and lxml does not write."""


def joined(root: Any) -> Any:
    """The tree with what comes after </html>, as with what comes after </body>: libxml2 makes trees of their own of it, in which some selectors
    would look and others would not."""
    before, texts = next(root.iterchildren(reversed=True), None), list[str]()

    def flush() -> None:
        if text := "".join(texts):
            texts.clear()
            if before is None:
                root.text = UNWRITABLE((root.text or "") + text)
            else:
                before.tail = UNWRITABLE((before.tail or "") + text)

    def take(element: Any) -> None:
        nonlocal before
        texts.append(element.text or "")
        for child in list(element):
            if child.tag in ("head", "body"):
                take(child)
                texts.append(child.tail or "")
                continue
            flush()
            texts.append(child.tail or "")
            child.tail = None
            root.append(child)
            before = child

    last = root
    while (following := last.getnext()) is not None:
        if isinstance(following.tag, str):
            take(following)
            etree.Element("html").append(following)
        else:
            last = following
    flush()
    return root


def _long_tag(data: bytes) -> bool:
    return any(data.find(b">", place, place + LONG) < 0 for place in range(0, len(data) - LONG, LONG))


def xml(data: bytes, page: PageContent) -> Any:
    """The tree of XML in UTF-8. Declarations of entities and attributes, which can expand without end, are removed."""
    data = data.replace(b"\0", b"").strip() or EMPTY
    if b"&#" in data:
        data = HALVES.sub("\ufffd".encode(), data)
    begin, end = own_declarations(data)
    if end:
        data = data[:begin] + data[end:]
        page.note("xml: the document's own entities and attributes were left out")
    # Should any be left, this parser stops when they expand too much.
    root, fault = parsed(data, encoding="utf-8", huge=not (b"<!ENTITY" in data or b"<!ATTLIST" in data))
    if root is None:
        raise WrongFormat("the page is not XML: it has no element")
    if fault:
        page.broken = True
        page.note(f"xml: the page is not well-formed ({fault}), and may have been read in part")
    if b"xmlns" in data:
        without_namespaces(root)
    return root


def without_namespaces(root: Any) -> None:
    """Remove namespaces, as parsel's `remove_namespaces` does: site files cannot name them."""
    for element in root.iter("*"):
        # A broken document may have invalid names: those stay.
        with suppress(ValueError):
            if element.tag[0] == "{":
                element.tag = element.tag.partition("}")[2]
            for name in list(element.attrib):
                if name[0] == "{":
                    element.set(name.partition("}")[2], element.attrib[name])
                    del element.attrib[name]


def own_declarations(data: bytes) -> tuple[int, int]:
    """Where the declarations within a document's type begin and end, brackets included; (0, 0) if there are none."""
    place = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while True:
        place += len(data[place : place + 1000]) - len(data[place : place + 1000].lstrip())
        ending = b"-->" if data.startswith(b"<!--", place) else b"?>" if data.startswith(b"<?", place) else b""
        if not ending:
            break
        found = data.find(ending, place + 2)
        if found < 0:
            return 0, 0
        place = found + len(ending)
    if not data.startswith(b"<!DOCTYPE", place):
        return 0, 0
    begin = data.find(b"[", place)
    if begin < 0 or 0 <= data.find(b">", place) < begin:
        return 0, 0
    place = begin + 1
    while True:
        token = TOKEN.search(data, place)
        if token is None:
            return begin, len(data)
        if token[0] == b"]":
            return begin, token.end()
        place = data.find(ENDS.get(token[0], token[0]), token.end())
        if place < 0:
            return begin, len(data)
        place += 1
