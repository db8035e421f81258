"""Problems of site files: all at once, each with its place and, if known, a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gossamer.errors import SiteError

ERROR = "error"
WARNING = "warning"

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """One thing that is wrong. `path` says which key, as layers.post.follow[0].css; "" means the file itself. Lines and
    columns count from 1; a problem without a place has line 0."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: str = ERROR

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        severity = "warning: " if self.severity == WARNING else ""
        path, hint = f"{self.path}: " if self.path else "", f" ({self.hint})" if self.hint else ""
        line = f"{place}{severity}{path}{self.message}{hint}"
        # One line, whatever stands in the file.
        return (
            line if line.isprintable() else "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)
        )


class SiteErrors(SiteError):
    """Every problem of the site files that were read. `problems` has them in the order of files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(map(str, self.problems)))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """By file, line and column; each only once."""
    return sorted(dict.fromkeys(problems))


def errors_of(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == ERROR]


def written(path: Sequence[str | int]) -> str:
    """A path as people write it: layers.post.follow[0].css."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A hint at the most similar known word; the known words themselves if there are few and none is similar."""
    words = list(dict.fromkeys(map(str, known)))
    near = difflib.get_close_matches(str(word).lower(), [name.lower() for name in words], n=1, cutoff=0.6)
    if near:
        return "did you mean " + next(name for name in words if name.lower() == near[0]) + "?"
    if not words:
        return ""
    return f"there {'are' if len(words) > 1 else 'is only'} {listed(words)}" if len(words) <= 12 else ""


def listed(words: Sequence[str], joined: str = "and") -> str:
    """a, b and c"""
    return " ".join((", ".join(words[:-1]), joined, words[-1])) if len(words) > 1 else "".join(words)
