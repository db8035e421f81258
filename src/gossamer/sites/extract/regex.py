"""Regular expressions of site files on the text of strangers: no search may take long.

An expression may take time that grows with the square of a text, or doubles with each of its characters. All expressions of a page
together have PATIENCE seconds; the one that uses them up fails the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import regex  # type: ignore[import-untyped]

from gossamer.sites.page import LimitExceeded

PATIENCE = 2.0
"""Seconds for all regular expressions on one page."""
MOST = 1_000_000
"""Maximum number of matches of one expression in one text."""
# One repetition takes at most the square of the length; that of so short a text is nothing.
SHORT = 2_000
# Where a brace is no repetition it stands for itself; in the other language it may ask for something.
LITERAL = re.compile(r"\\N\{[^}]*\}|\\.|\{(?!\d+(?:,\d*)?\}|,\d*\})", re.DOTALL)


class TooSlow(LimitExceeded):
    """A regular expression took all the time of the page, or cannot run in the engine that has a timeout."""


class TimeBudget(Protocol):
    """What counts the time: a page."""

    patience: float


class Pattern:
    """A compiled expression; `ValueError` from the constructor says what is wrong with it."""

    __slots__ = ("_careful", "_flags", "_group", "_quick", "text")

    def __init__(self, text: str, ignore_case: bool = False) -> None:
        self.text = text
        try:
            # Python's own is the language of site files; that of `regex`, which has timeouts, is nearly the same.
            quick = re.compile(text, re.IGNORECASE if ignore_case else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{text!r} is not a regular expression: {error}") from None
        plain = sum(map(text.count, "*+{")) <= 1 and text.count("?") <= 5 and not re.search(r"\)[*+{]", text)
        self._quick = quick if plain else None
        self._group = 1 if quick.groups else 0
        self._flags = regex.IGNORECASE if ignore_case else 0
        self._careful: Any = None

    def first(self, text: str, page: TimeBudget) -> str | None:
        """The first group of the first match that has it, or all of the first match; None if there is none."""
        if self._quick is not None and len(text) <= SHORT:
            found: Any = self._quick.search(text)
        else:
            found = self._run(_search, text, page)
        if found is None:
            return None
        value: str | None = found[self._group]
        # The group took no part: a later match may have it.
        return value if value is not None else next(iter(self.all(text, page)), None)

    def all(self, text: str, page: TimeBudget) -> list[str]:
        """The same of every match. Groups that took no part are left out."""
        group = self._group
        if self._quick is not None and len(text) <= SHORT:
            return [match[group] for match in self._quick.finditer(text) if match[group] is not None]

        def every(compiled: Any, text: str, timeout: float) -> list[str]:
            found: list[str] = []
            for match in compiled.finditer(text, timeout=timeout):
                if match[group] is not None:
                    found.append(match[group])
                    if len(found) > MOST:
                        raise LimitExceeded(f"the regular expression {self.text!r} matches more than {MOST:,} times")
            return found

        return self._run(every, text, page)  # type: ignore[no-any-return]

    def matches(self, text: str, page: TimeBudget) -> bool:
        if self._quick is not None and len(text) <= SHORT:
            return self._quick.search(text) is not None
        return self._run(_search, text, page) is not None

    def replaced(self, text: str, by: str, page: TimeBudget) -> str:
        if self._quick is not None and len(text) <= SHORT:
            return self._quick.sub(by, text)

        def replace(compiled: Any, text: str, timeout: float) -> Any:
            return compiled.sub(by, text, timeout=timeout)

        return self._run(replace, text, page)  # type: ignore[no-any-return]

    def check_replacement(self, by: str) -> None:
        """ValueError if a replacement, which is understood only when it is used, could not be."""
        try:
            re.compile(self.text).sub(by, "")
        except (re.error, IndexError) as error:
            raise ValueError(f"{by!r} cannot replace {self.text!r}: {error}") from None

    def _run(self, call: Callable[[Any, str, float], Any], text: str, page: TimeBudget) -> Any:
        if page.patience <= 0:
            raise TooSlow(f"no time was left for the regular expression {self.text!r}")
        begin = perf_counter()
        try:
            if self._careful is None:
                # Not before it is needed: it takes long to compile, and most expressions only ever see short texts.
                self._careful = stoppable(self.text, self._flags)
                begin = perf_counter()
            return call(self._careful, text, page.patience)
        except TimeoutError:
            page.patience = 0.0
            message = f"the regular expression {self.text!r} took more than {PATIENCE:g} s on {len(text)} characters"
            raise TooSlow(message) from None
        except (regex.error, IndexError, RecursionError) as error:
            raise TooSlow(f"the regular expression {self.text!r} cannot be run: {error}") from None
        finally:
            if (taken := perf_counter() - begin) > 0.001:
                page.patience -= taken


def _search(compiled: Any, text: str, timeout: float) -> Any:
    return compiled.search(text, timeout=timeout)


def stoppable(text: str, flags: int = 0) -> Any:
    """The expression in the language of `regex`, whose searches take a timeout. Raises regex.error."""
    # A brace that is no repetition is written so that it is none in that language either.
    return regex.compile(LITERAL.sub(lambda found: r"\{" if found[0] == "{" else found[0], text), flags)
