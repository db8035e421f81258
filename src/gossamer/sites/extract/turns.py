"""Page turns by number: `{turn}`, `{turn+1}`, `{turn*20}` and `{turn*20+1}` in what a rule requests.

The first page is turn 0, so the first link of a rule is for turn 1. The turns end with the first page that is empty, or that has the
same as the page before it: many sites show their last page again for any higher number. Records of the same keys are the same, whatever
else has changed in them meanwhile. A rule that asks for page 1 first ({turn}) may find the first page again there: that is not the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from lxml import etree  # type: ignore[import-untyped]

from gossamer.model.page import PageRequest
from gossamer.sites.format import Follow, Layer

NAME = "turn"
TURN = re.compile(r"(?<![{$])\{turn(?:\*([0-9]{1,9}))?(?:\+([0-9]{1,9}))?\}(?!\})")
MARK = "=page"
"""What a page inherits from the page before it: the numbers of what that one has. No {name} is written like this."""
COUNT = "=records"
"""And how many records that one has."""
BODY = ("url", "headers", "cookies", "form", "json_", "body")


def uses_turn(follow: Follow) -> bool:
    """Whether a rule counts pages."""
    return any(_has_turn(getattr(follow, key)) for key in BODY)


def begins_with_one(follow: Follow) -> bool:
    """Whether a rule asks for page 1 first, which may be the page that it starts from."""
    found = [one.groups() for key in BODY for text in _texts(getattr(follow, key)) for one in TURN.finditer(text)]
    return bool(found) and all(int(times or 1) == 1 and not int(plus or 0) for times, plus in found)


def counts_in(texts: Mapping[str, str]) -> tuple[str, ...]:
    """The names of those headers or cookies of a rule that count pages."""
    return tuple(name for name, text in texts.items() if _has_turn(text))


def step(follow: Follow) -> int:
    """How many records a page has by what a rule counts: {turn*20} is for pages of twenty. 0: it does not say."""
    return max(
        (int(one[1]) for key in BODY for text in _texts(getattr(follow, key)) for one in TURN.finditer(text) if one[1]),
        default=0,
    )


def _has_turn(data: Any) -> bool:
    return any(TURN.search(text) for text in _texts(data))


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    inner: Iterable[Any] = data.values() if isinstance(data, dict) else data if isinstance(data, list | tuple) else ()
    for one in inner:
        yield from _texts(one)


def at_turn(follow: Follow, turn: int, plain: bool) -> Follow:
    """The rule for one page turn. Without `plain`, {turn} alone is left: something else of the site has this name."""

    def number(found: re.Match[str]) -> int | None:
        times, plus = found.groups()
        return None if not plain and times is None and plus is None else turn * int(times or 1) + int(plus or 0)

    update = {key: _filled(getattr(follow, key), number) for key in BODY}
    return follow.model_copy(update={**update, "url": None if follow.url is None else str(update["url"])})


def _filled(data: Any, number: Callable[[re.Match[str]], int | None]) -> Any:
    if isinstance(data, str):
        if (whole := TURN.fullmatch(data)) and (value := number(whole)) is not None:
            return value
        return TURN.sub(lambda found: found[0] if (value := number(found)) is None else str(value), data)
    if isinstance(data, dict):
        return {key: _filled(value, number) for key, value in data.items()}
    return [_filled(one, number) for one in data] if isinstance(data, list | tuple) else data


def has_lists(layer: Layer) -> bool:
    """Whether pages of a layer have something that an empty page lacks: records, links, lists."""
    return (
        layer.records is not None
        or any(follow.pages is None for follow in layer.follow)
        or any(rule.each is not None or rule.all for rule in layer.fields.values())
    )


def marks_of(
    things: Sequence[Any] | None, records: Sequence[dict[str, Any]], links: Iterable[PageRequest], key: Sequence[str]
) -> list[int]:
    """The numbers of what a page has: of its records (`things`) if it has many, and of their keys (`key` names the fields), or else of
    its lists and links. None: it is empty."""
    if things is not None:
        said: list[Any] = [
            etree.tostring(one, with_tail=False) if isinstance(one, etree._Element) else one for one in things
        ]
    else:
        fields = records[0] if records else {}
        said = [value for value in fields.values() if isinstance(value, list) and value]
        said += [link.fingerprint for link in links if not link.turn]
    if not said:
        return []
    keys = [[record.get(name) for name in key] for record in records] if things is not None and key else []
    return [_number(said), *([_number(keys)] if keys and not any(None in one for one in keys) else [])]


def _number(said: list[Any]) -> int:
    return crc32(repr(said).encode("utf-8", "replace"))
