"""What a layer's Python function yields, as the records and links of a page."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

from gossamer.errors import SiteError
from gossamer.model.page import PageRequest, Record, Response
from gossamer.sites.compile import CompiledSite
from gossamer.sites.extract.content import PageContent, WrongFormat
from gossamer.sites.extract.layer import Coverage, missing_message, notes_of, with_values
from gossamer.sites.extract.links import LinkSet
from gossamer.sites.extract.validity import compile_required, compile_valid
from gossamer.sites.page import LimitExceeded, PageVerdict, Reading
from gossamer.sites.python.page import Page

FIELDS_MAX = 200
"""The most fields of a layer whose values are counted: the names may come from pages."""


class DataclassRecord(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class ModelRecord(Protocol):
    """An instance of a pydantic model."""

    def model_dump(self) -> dict[str, Any]: ...


Output = Mapping[str, Any] | Record | DataclassRecord | ModelRecord | PageRequest | None
"""What a layer's function may yield: a record (a mapping, a dataclass, a pydantic model, or a Record that names another layer), or
what page.follow() returned."""
LayerFunction = Callable[
    [Page], AsyncIterable[Output] | Iterable[Output] | Awaitable[Iterable[Output] | Output] | Output
]
"""A function that reads the pages of a layer: an async generator, a generator, a coroutine, or a plain function."""


class FunctionReader:
    """A layer whose pages a function reads. The layer's `valid`, `require` and `lacking` count as they do for rules. What the
    function raises goes through, except that a page which is not of the layer's format is INVALID."""

    def __init__(self, function: LayerFunction, site: CompiledSite, name: str) -> None:
        self._function, self._site, self._name = function, site, name
        layer = site.layers[name]
        self._layer = layer
        self._valid = compile_valid(layer.valid)
        self._known: dict[str, dict[str, None]] = {}
        """The fields that records of each layer have had."""
        self._lacking = compile_required(layer.required) if layer.required else None

    async def read(self, document: Response, round: int | None = None, before: str | None = None) -> Reading:
        """What the function makes of a page. `before` is the URL of the page that led to it."""
        layer = self._layer
        content = PageContent(document, self._name, layer.format, layer.encoding, self._site)
        try:
            if reason := self._valid(content):
                return Reading(PageVerdict.INVALID, reason, [], [], (), notes_of(content))
            records, links = await self._collected(Page(self._site, self._name, content, round, before), content)
        except WrongFormat as error:
            return Reading(PageVerdict.INVALID, str(error), [], [], (), notes_of(content))
        except LimitExceeded as error:
            return Reading(PageVerdict.LIMIT, str(error), [], [], (), notes_of(content))
        reading = Reading(
            PageVerdict.OK,
            "",
            records,
            links,
            (),
            notes_of(content),
            contested=content.contested,
            limited=content.limited,
            doubt=content.doubt,
            broken=content.broken,
            asked_parent=content.asked_parent,
            textless=content.textless,
            coverage=self._coverage(records),
            overlong=content.overlong,
        )
        if self._lacking is None:
            return reading
        lacks = [self._lacking(record.fields) if record.layer == self._name else "" for record in records]
        if not any(lacks):
            return reading
        if layer.lacking == "fail":
            records, links = [], []
        elif layer.lacking == "drop":
            records = [record for record, lack in zip(records, lacks, strict=True) if not lack]
        return reading._replace(verdict=PageVerdict.LACK, reason=missing_message(lacks), records=records, links=links)

    def _coverage(self, records: list[Record]) -> Coverage:
        """A record without a field that others of its layer have lacks it."""
        coverage: Coverage = {}
        for layer in {record.layer for record in records}:
            values = [record.fields for record in records if record.layer == layer]
            store = self._site.site.store.get(layer)
            known = self._known.setdefault(layer, dict.fromkeys(store.types if store is not None else ()))
            for fields in values:
                if len(known) < FIELDS_MAX:
                    known.update(dict.fromkeys(list(fields)[: FIELDS_MAX - len(known)]))
            for name in known:
                found = with_values(fields.get(name) for fields in values)
                coverage[f"{layer}.{name}"] = len(values), found
        return coverage

    async def _collected(self, page: Page, content: PageContent) -> tuple[list[Record], list[PageRequest]]:
        records: list[Record] = []
        gathered = LinkSet()

        def take(output: Any) -> None:
            if isinstance(output, PageRequest):
                if output.dont_filter:
                    gathered.links.append(output)
                else:
                    gathered.add(output, f"follow to {output.layer}", self._site)
            elif output is not None:
                records.append(self._record(output))

        answer: Any = self._function(page)
        if inspect.isasyncgen(answer) or hasattr(answer, "__aiter__"):
            async for output in answer:
                take(output)
            gathered.tell(content)
            return records, gathered.links
        if inspect.isawaitable(answer):
            answer = await answer
        several = isinstance(answer, Iterable) and not isinstance(answer, Mapping | Record | PageRequest | str | bytes)
        for output in answer if several and not hasattr(answer, "model_dump") else [answer]:
            take(output)
        gathered.tell(content)
        return records, gathered.links

    def _record(self, output: Any) -> Record:
        if isinstance(output, Record):
            if output.layer not in self._site.layers:
                raise SiteError(
                    f"The function of {self._name} yielded a record of layer {output.layer}; "
                    f"there are {', '.join(self._site.layers)}."
                )
            return output
        if isinstance(output, Mapping):
            return Record(self._name, dict(output))
        if dataclasses.is_dataclass(output) and not isinstance(output, type):
            return Record(self._name, dataclasses.asdict(output))
        if hasattr(output, "model_dump"):
            return Record(self._name, output.model_dump())
        raise SiteError(
            f"The function of {self._name} yielded {type(output).__name__}; it may yield records (a dict, a dataclass, a pydantic "
            "model) and what page.follow() returns."
        )
