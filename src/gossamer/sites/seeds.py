"""Where a round begins: URLs with ranges and parameters in them, unfolded one at a time.

`[1-300]` counts up, `[300-1]` down, `[1-300:5]` in steps, `[01-99]` with leading zeros. Other brackets (those of an IPv6 host,
of a query's a[]=1) stand for themselves, as does a range that is written %5B1-3%5D.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from gossamer.model import host_of
from gossamer.sites.file.params import NAMED, Parameters, filled, names_in

HOSTS_MAX = 10_000
"""A site whose seeds name more hosts than this counts as one of any host."""

_RANGE = re.compile(r"\[([0-9]{1,18})-([0-9]{1,18})(?::([0-9]{1,18}))?\]")


@dataclass(frozen=True, slots=True)
class Range:
    """`[first-last:step]`, both ends included; `width` digits at least."""

    first: int
    last: int
    step: int
    width: int

    @property
    def count(self) -> int:
        return abs(self.last - self.first) // self.step + 1

    def texts(self) -> Iterator[str]:
        step = self.step if self.last >= self.first else -self.step
        return (f"{number:0{self.width}d}" for number in range(self.first, self.last + (1 if step > 0 else -1), step))


class SeedUrl(NamedTuple):
    """One URL of a seed, and the parameters it was made with."""

    url: str
    values: Mapping[str, Any]


@lru_cache(4096)
def pieces(text: str) -> tuple[str | Range, ...]:
    """A text divided into what stands for itself (parameters included) and ranges. Raises ValueError for a step of 0."""
    parts: list[str | Range] = []
    end = 0
    for found in _RANGE.finditer(text):
        first, last, step = found.groups()
        if step is not None and int(step) == 0:
            raise ValueError(f"{found[0]} has a step of 0")
        width = max((len(number) for number in (first, last) if len(number) > 1 and number[0] == "0"), default=1)
        parts += [text[end : found.start()], Range(int(first), int(last), int(step or 1), width)]
        end = found.end()
    return (*parts, text[end:])


def count(text: str, params: Parameters, also: Iterable[str] = ()) -> int:
    """How many requests a text stands for, without making them; `also` are names that stand beside it, in a body."""
    return math.prod(part.count for part in pieces(text) if isinstance(part, Range)) * params.count(
        {*names_in(text), *also}
    )


def unfold(text: str, params: Parameters, also: Iterable[str] = ()) -> Iterator[SeedUrl]:
    """The URLs that a text stands for: the last range turns fastest, parameters slowest. `also` are names that stand beside it."""
    also = tuple(also)
    if not also and "{" not in text and "[" not in text:
        yield SeedUrl(text, params.single())
        return
    parts = pieces(text)
    ranges = [part for part in parts if isinstance(part, Range)]
    for values in params.combinations(dict.fromkeys((*names_in(text), *also))):
        known = {**params.single(), **values}
        texts = [part if isinstance(part, Range) else filled(part, known) for part in parts]
        if not ranges:
            yield SeedUrl("".join(texts), known)  # type: ignore[arg-type]
            continue
        for numbers in _product(ranges):
            turn = iter(numbers)
            yield SeedUrl("".join(next(turn) if isinstance(text, Range) else text for text in texts), known)


def _product(ranges: list[Range]) -> Iterator[tuple[str, ...]]:
    """As itertools.product, which would make every number of every range first."""
    if len(ranges) == 1:
        yield from ((text,) for text in ranges[0].texts())
        return
    for text in ranges[0].texts():
        for rest in _product(ranges[1:]):
            yield (text, *rest)


def unknown_names(text: str, params: Parameters) -> list[str]:
    return [name for name in names_in(text) if name not in params.names]


def hosts_of(texts: Iterator[str], params: Parameters) -> frozenset[str] | None:
    """The hosts of the seeds' URLs; None if there are too many, or one cannot be read."""
    hosts: set[str] = set()
    for text in texts:
        origin = _origin(text)
        if count(origin, params) > HOSTS_MAX:
            return None
        for one in itertools.islice(unfold(origin, params), HOSTS_MAX + 1):
            try:
                hosts.add(host_of(one.url))
            except ValueError:
                continue
        if len(hosts) > HOSTS_MAX:
            return None
    return frozenset(hosts)


def _origin(text: str) -> str:
    """The beginning of a URL up to its path. A name in braces that is a whole URL has no such beginning."""
    start = text.find("//")
    if start < 0 or (NAMED.match(text) is not None and start > text.find("}")):
        return text
    ends = [end for end in (text.find(sign, start + 2) for sign in "/?#") if end >= 0]
    return text[: min(ends)] if ends else text
