"""What the scanner finds in a project, and what it would change there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingVerdict(StrEnum):
    """What becomes of a place when its project runs on gossamer.scrapy_redis."""

    MOVES = "moves"
    """It works as it did, rewritten or not."""
    DIFFERS = "differs"
    """It works, and something about it is not as it was. Nothing has to be done."""
    DECIDE = "decide"
    """A person has to decide, or to change something by hand."""


@dataclass(frozen=True)
class FindingRule:
    """What every finding of one code means, and what to do about it."""

    verdict: FindingVerdict
    remedy: str


@dataclass(frozen=True, order=True)
class Finding:
    """One place. `code` names its rule in `RULES`; `line` counts from 1, 0 stands for the whole file."""

    path: str
    line: int
    code: str
    what: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, order=True)
class Edit:
    """Text to put in the place of `old`, which begins at character `start` of a file's text."""

    start: int
    line: int
    old: str
    new: str
