"""Cleaning: the steps between what a page says and what is kept, in the file's order."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from gossamer.sites.extract.regex import Pattern, TimeBudget
from gossamer.sites.extract.types import as_text
from gossamer.sites.format import Clean, Step

Cleaning = Callable[[Any, TimeBudget], Any]
LINE = Pattern(
    r"(?i)<(?:br|/?(?:address|article|aside|blockquote|caption|center|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]|header|hr"
    r"|li|main|nav|ol|p|pre|section|table|tbody|td|tfoot|th|thead|tr|ul))\b[^<>]*>"
)
"""Tags at which a line begins or ends."""
TAG = Pattern(r"(?is)<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>|</?[a-z!][^<>]*>")


def squeeze(text: str) -> str:
    return " ".join(text.split())


def digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


OF_TEXTS: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "squeeze": squeeze,
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "digits": digits,
    "unescape": html.unescape,
    "unquote": unquote,
}
OF_LISTS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "unique": lambda values: (
        [value for place, value in enumerate(values) if value not in values[:place]]
        if any(isinstance(value, list | dict) for value in values)
        else list(dict.fromkeys(values))
    ),
    "sort": lambda values: sorted(values, key=as_text),
    "reverse": lambda values: values[::-1],
}


def cleaning(steps: Iterable[Step], strip: bool = True) -> Cleaning | None:
    """All steps as one; None if there are none. Steps for texts go through a list one by one; a step that leaves nothing gives None.
    With `strip`, texts have no white space at their ends without their tags either."""
    chain = [_step(step, strip) for step in steps]
    if not chain:
        return None
    if len(chain) == 1:
        (only,) = chain
        return lambda value, page: None if value is None else only(value, page)

    def clean(value: Any, page: TimeBudget) -> Any:
        for step in chain:
            if value is None:
                return None
            value = step(value, page)
        return value

    return clean


def gives_list(several: bool, steps: Iterable[Step]) -> bool:
    """Whether a list comes of a value, or of `several`, when these steps are done."""
    for step in steps:
        if isinstance(step, Clean):
            several = step.split is not None or (several and step.join is None)
    return several


def of_text(steps: Iterable[Step]) -> Callable[[str], str] | None:
    """All steps as one that takes a text and gives a text; None if there are none, or others than such."""
    chain = [OF_TEXTS.get(step) if isinstance(step, str) else None for step in steps]
    known = [step for step in chain if step is not None]
    if not known or len(known) < len(chain):
        return None
    if len(known) == 1:
        return known[0]

    def clean(text: str) -> str:
        for step in known:
            text = step(text)
        return text

    return clean


def _step(step: Step, strip: bool) -> Cleaning:
    if isinstance(step, str):
        if step in OF_LISTS:
            of_list = OF_LISTS[step]
            return lambda value, page: of_list(value) if isinstance(value, list) else value
        if step == "strip_tags":
            return _each(lambda text, page: _ends(_without_tags(text, page), strip))
        change = OF_TEXTS[step]
        return _each(lambda text, page: change(text))
    return _mapping(step, next(iter(step.model_fields_set)))


def _without_tags(text: str, page: TimeBudget) -> str:
    """Words of two lines stay two words, also where no white space is between them."""
    first, *more = TAG.replaced(LINE.replaced(text, "\0", page), "", page).split("\0")
    kept, last = [first], first[-1:]
    for line in filter(None, more):
        if last and not last.isspace() and not line[0].isspace():
            kept.append("\n")
        kept.append(line)
        last = line[-1]
    return html.unescape("".join(kept))


def _ends(text: str, strip: bool) -> str:
    return text.strip() if strip else text


def _mapping(step: Clean, key: str) -> Cleaning:
    match key:
        case "replace" if step.replace is not None:
            pattern, by = Pattern(step.replace[0]), step.replace[1]
            pattern.check_replacement(by)
            return _each(lambda text, page: pattern.replaced(text, by, page))
        case "remove" if step.remove is not None:
            gone = Pattern(step.remove)
            return _each(lambda text, page: gone.replaced(text, "", page))
        case "take" if step.take is not None:
            taken = Pattern(step.take)
            return _each(lambda text, page: taken.first(text, page))
        case "prefix":
            return _each(lambda text, page: f"{step.prefix}{text}")
        case "suffix":
            return _each(lambda text, page: f"{text}{step.suffix}")
        case "truncate":
            return _each(lambda text, page: text[: step.truncate])
        case "join":
            return lambda value, page: (step.join or "").join(map(as_text, value)) if isinstance(value, list) else value
        case "batch" if step.batch is not None:
            size, between = step.batch
            return lambda value, page: _batches(value, size, between) if isinstance(value, list) else value
        case "split" if step.split:
            mark = step.split
            return lambda value, page: [part for one in _listed(value) for part in as_text(one).split(mark)]
        case "map" if step.map is not None:
            table = step.map
            return _each(lambda text, page: table.get(text, text))
    raise ValueError(f"the cleaning step {key} needs a value")


def _batches(values: list[Any], size: int, between: str) -> list[str]:
    return [between.join(map(as_text, values[at : at + size])) for at in range(0, len(values), size)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _each(change: Callable[[str, TimeBudget], Any]) -> Cleaning:
    def step(value: Any, page: TimeBudget) -> Any:
        if isinstance(value, list):
            return [changed for one in value if (changed := change(as_text(one), page)) is not None]
        return change(value if value.__class__ is str else as_text(value), page)

    return step
