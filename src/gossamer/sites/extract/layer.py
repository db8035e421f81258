"""Pages read by the rules of their layer: `compile_layer` once, `LayerReader.read` for every page. Fetches nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gossamer.model.page import PageRequest, Response
from gossamer.sites.extract.charset.labels import known
from gossamer.sites.extract.content import PageContent, WrongFormat
from gossamer.sites.extract.context import SiteContext
from gossamer.sites.extract.fields import (
    FieldOptions,
    Path,
    compile_fields,
    counts,
    default_of,
    fill,
    without_helpers,
)
from gossamer.sites.extract.links import FollowRule, LinkSet
from gossamer.sites.extract.scope import of_page
from gossamer.sites.extract.selector.extractor import Extractor
from gossamer.sites.extract.selector.jmespath import search
from gossamer.sites.extract.selector.selector import FAILURES, Finder
from gossamer.sites.extract.turns import has_lists, marks_of
from gossamer.sites.extract.validity import compile_required, compile_valid, empty
from gossamer.sites.format import DATA, FieldRule, Layer, stored_fields
from gossamer.sites.page import LimitExceeded, PageVerdict, Reading, records_of


class RuleProblems(ValueError):
    """Rules of a layer that cannot be compiled, each with its path in the layer and what is wrong."""

    def __init__(self, layer: str, problems: list[tuple[Path, str]]) -> None:
        self.layer = layer
        self.problems = problems
        super().__init__("; ".join(f"{layer}.{'.'.join(map(str, path))}: {message}" for path, message in problems))


class LayerReader:
    """The rules of a layer, compiled. `read` returns the same for the same page, and never raises because of a page's content.

    A page that fails `valid`, or is not of the layer's format, is INVALID: no records, no links. A page that exceeds a limit is
    LIMIT: a part of its records or links would pass for all of them, so it has none. A page whose record lacks a required
    field is LACK; with `lacking: fail` nothing of it is used, with `keep` everything, with `drop` its links and its complete
    records. `key` are the fields that tell its records apart where they are stored, if there are such.
    """

    def __init__(self, name: str, layer: Layer, site: SiteContext, key: Sequence[str] = ()) -> None:
        self.name, self._key = name, key
        self._layer = layer
        self._site = site
        problems: list[tuple[Path, str]] = []

        def attempt(path: Path, compile_one: Callable[[], Any]) -> Any:
            try:
                return compile_one()
            except ValueError as error:
                problems.append((path, str(error)))

        self._fields = compile_fields(
            layer.fields, FieldOptions(layer.format, lambda path, message: problems.append((path, message)))
        )
        self._keeps = bool(stored_fields(layer.fields))
        """Whether its pages have records: fields that are not helpers."""
        self._coverage = LayerCoverage(name, layer)
        self._needs_values = self._keeps and layer.records is None and layer.require != "none"
        """Whether a page without any value is none."""
        self._trim = without_helpers(layer.fields) if self._keeps else None
        self._rules: list[FollowRule] = [
            attempt(("follow", place), partial(FollowRule, name, place, follow, layer.format, site))
            for place, follow in enumerate(layer.follow)
        ]
        self._whole = [of_page(layer, follow) for follow in layer.follow]
        """Of each rule, whether it is for the whole page, where pages have many records."""
        self._page = (
            compile_fields(
                layer.page,
                FieldOptions(layer.format, lambda path, message: problems.append((path, message))),
                ("page",),
            )
            if layer.page
            else None
        )
        records = layer.records
        self._records: Finder | None = (
            attempt(("records",), lambda: Extractor(records, layer.format).every()) if records else None
        )
        self._valid = attempt(("valid",), lambda: compile_valid(layer.valid))
        self._lacking = compile_required(layer.required) if layer.required else None
        self._reads_data = layer.format in DATA and bool(layer.fields or layer.follow or layer.page)
        if layer.encoding is not None and "{" not in layer.encoding and known(layer.encoding) is None:
            problems.append((("encoding",), f"{layer.encoding!r} is not a character set"))
        for one in layer.required:
            for field in (one,) if isinstance(one, str) else one:
                if field not in layer.fields:
                    problems.append((("require",), f"{field!r} is required, but no field has this name"))
        if problems:
            raise RuleProblems(name, problems)
        self._order = sorted(range(len(self._rules)), key=lambda place: self._rules[place].numbered)
        self._searching = [rule.name for rule in self._rules if rule.searches]
        """The rules of which it is worth a word that they find no link."""
        self._lists = has_lists(layer)

    def read(self, document: Response) -> Reading:
        layer = self._layer
        page = PageContent(document, self.name, layer.format, layer.encoding, self._site)
        try:
            if reason := self._valid(page):
                return Reading(PageVerdict.INVALID, reason, [], [], (), notes_of(page))
            if self._reads_data:
                page.data()
            return self._read(page)
        except WrongFormat as error:
            return Reading(PageVerdict.INVALID, f"{error} (format: {layer.format.value})", [], [], (), notes_of(page))
        except LimitExceeded as error:
            return Reading(PageVerdict.LIMIT, str(error), [], [], (), notes_of(page))

    def _read(self, page: PageContent) -> Reading:
        layer = self._layer
        if self._page is not None:
            page.values = fill(page, [None], self._page)[0]
        things = [None] if self._records is None else self._things(page, self._records)
        filled = fill(page, things, self._fields) if layer.fields else [{} for _ in things]
        verdict, reason, complete = PageVerdict.OK, "", filled
        coverage = self._coverage.of(page, filled)
        blank = self._needs_values and self._coverage.is_blank(coverage)
        if self._lacking is not None:
            lacks = [self._lacking(fields) for fields in filled]
            if any(lacks):
                verdict, reason = PageVerdict.LACK, missing_message(lacks)
                if layer.lacking == "fail":
                    return Reading(
                        verdict, reason, [], [], tuple(page.missing), notes_of(page), coverage=coverage, blank=blank
                    )
                if layer.lacking == "drop":
                    complete = [fields for fields, lack in zip(filled, lacks, strict=True) if not lack]
        links = self._links(page, things, filled) if self._rules else []
        if self._trim is not None:
            complete = list(map(self._trim, complete))
        records = records_of(self.name, complete) if self._keeps else []
        return Reading(
            verdict,
            reason,
            records,
            links,
            tuple(page.missing),
            notes_of(page),
            page.cut_off,
            page.unlinked,
            page.contested,
            page.broken,
            page.skipped,
            page.limited,
            page.linkless,
            page.doubt,
            page.textless,
            coverage,
            blank,
            overlong=page.overlong,
        )

    def _things(self, page: PageContent, find: Finder) -> list[Any]:
        try:
            found = find(page, None)
        except FAILURES as error:
            page.note(f"records: {type(error).__name__}: {error}")
            found = []
        if not found:
            page.missing["records"] = None
        page.count_records("records", len(found))
        return found

    def _links(self, page: PageContent, things: list[Any], filled: list[dict[str, Any]]) -> list[PageRequest]:
        gathered = LinkSet()
        for place in self._order:
            rule = self._rules[place]
            if self._records is None:
                where = [(None, filled[0])]
            elif self._whole[place]:
                where = [(None, {})]
            else:
                where = list(zip(things, filled, strict=True))
            marks: list[int] = []
            if rule.numbered and self._lists:
                marks = marks_of(None if self._records is None else things, filled, gathered.links, self._key)
                if rule.ends(page, marks):
                    continue
                if self._records is not None:
                    rule.skips(page, len(things), gathered)
            for thing, fields in where:
                page.scopes.append(fields)
                rule.gather(page, thing, fields, gathered, marks, len(things))
                page.scopes.pop()
        gathered.tell(page)
        page.linkless = tuple(name for name in self._searching if not gathered.has(name))
        return gathered.links


def notes_of(page: PageContent) -> tuple[str, ...]:
    return (*page.notes, f"… and {page.unnoted} more") if page.unnoted else tuple(page.notes)


def missing_message(lacks: list[str]) -> str:
    """Which fields are missing, and in how many records."""
    if len(lacks) == 1:
        return f"lacks {lacks[0]}"
    counts = Counter(filter(None, lacks))
    return "; ".join(f"{count} of {len(lacks)} records lack {names}" for names, count in counts.items())


def compile_layer(name: str, layer: Layer, site: SiteContext, key: Sequence[str] = ()) -> LayerReader:
    """The reader of a layer's pages; `RuleProblems` with all that is wrong with its rules. `like` must be resolved."""
    return LayerReader(name, layer, site, key)


# How many records have a value of each field that is read from the page: what a URL, a constant or a default says tells nothing of the page.

Coverage = dict[str, tuple[int, int]]
"""By LAYER.FIELD: in how many records it was looked for, and how many have a value."""


class CoveredField(NamedTuple):
    """A field that is read from the page. `inner` are those of its nested records, `full` is its name behind that of the layer."""

    key: str
    name: str
    full: str
    ask: Callable[[Any], Any] | None
    default: Callable[[], Any] | None
    inner: tuple[CoveredField, ...]


class LayerCoverage:
    """Counts the values of the fields of a layer that its records keep."""

    def __init__(self, layer_name: str, layer: Layer) -> None:
        self.fields = tuple(_covered(layer_name, stored_fields(layer.fields), layer.fields, layer.page, ""))
        self._leaves = frozenset(_leaves(self.fields))

    def of(self, page: PageContent, records: Sequence[Mapping[str, Any]]) -> Coverage:
        coverage: Coverage = {}
        single = len(records) == 1
        self._count(coverage, self.fields, records, page.missing if single else {}, single)
        return coverage

    def is_blank(self, coverage: Coverage) -> bool:
        """Whether values were looked for, and there is none. Records that are nested count by what they hold."""
        for name in self._leaves:
            if name in coverage and coverage[name][1]:
                return False
        return any(asked for asked, _ in coverage.values())

    def _count(
        self,
        coverage: Coverage,
        fields: Iterable[CoveredField],
        records: Sequence[Mapping[str, Any]],
        missing: Mapping[str, None],
        single: bool,
    ) -> None:
        for field in fields:
            asked = records if field.ask is None else [record for record in records if _is_asked(field.ask, record)]
            values = [record.get(field.key) for record in asked]
            if field.default is None:
                found = with_values(values)
            elif single:
                found = 0 if field.name in missing else with_values(values)
            else:
                default = field.default()
                found = with_values([value for value in values if value != default])
            coverage[field.full] = len(values), found
            if field.inner:
                nested = [one for value in values for one in _records_in(value)]
                plain = single and all(isinstance(value, Mapping) for value in values)
                self._count(coverage, field.inner, nested, missing if plain else {}, plain)


def has_value(value: Any) -> bool:
    """Whether something was found: neither null nor empty, nor a list of such."""
    return any(map(has_value, value)) if isinstance(value, list) else not empty(value)


def with_values(values: Iterable[Any]) -> int:
    """How many of these have a value. Quick, since all values of all pages are counted."""
    number = 0
    for value in values:
        if value.__class__ is list:
            number += bool(value) and ((type(value[0]) is str and value[0] != "") or has_value(value))
        elif value or (value is not None and has_value(value)):
            number += 1
    return number


def _records_in(value: Any) -> Iterator[Mapping[str, Any]]:
    for one in value if isinstance(value, list) else (value,):
        if isinstance(one, Mapping):
            yield one


def _is_asked(ask: Callable[[Any], Any], record: Mapping[str, Any]) -> bool:
    try:
        return counts(ask(record))
    except FAILURES:
        return True


def _covered(
    layer: str,
    rules: Mapping[str, FieldRule],
    every: Mapping[str, FieldRule],
    page: Mapping[str, FieldRule],
    prefix: str,
) -> Iterator[CoveredField]:
    for key, rule in rules.items():
        if _reads_page(rule, every, page):
            name = f"{prefix}{key}"
            inner = tuple(_covered(layer, stored_fields(rule.fields), rule.fields, page, f"{name}."))
            ask = search(rule.when) if rule.when is not None else None
            default = default_of(rule) if rule.default is not None else None
            yield CoveredField(key, name, f"{layer}.{name}", ask, default, inner)


def _reads_page(rule: FieldRule, every: Mapping[str, FieldRule], page: Mapping[str, FieldRule], deep: int = 0) -> bool:
    """Whether the value is found on the page, perhaps by way of other fields."""
    if "value" in rule.model_fields_set or deep > len(every) + len(page):
        return False
    looked = rule.each or rule
    if rule.fields and rule.each is None and not rule.ways() and looked.source == "content":
        return any(_reads_page(one, rule.fields, page, deep) for one in rule.fields.values())
    source, _, rest = looked.source.partition(".")
    if source in ("fields", "page"):
        among = every if source == "fields" else page
        other = among.get(rest.partition(".")[0])
        return other is not None and _reads_page(other, every, page, deep + 1)
    return source == "content"


def _leaves(fields: Iterable[CoveredField]) -> Iterator[str]:
    for field in fields:
        if field.inner:
            yield from _leaves(field.inner)
        else:
            yield field.full
