"""Regular expressions of site files, run on what strangers wrote: never for long.

An expression may take time that grows with the square of a text, or doubles with each of its characters. All expressions of a page
together have PATIENCE seconds; the one that uses them up, and those after it, find nothing, and the page's notes name them.
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any, Protocol

import regex  # type: ignore[import-untyped]

PATIENCE = 2.0
"""Seconds for all regular expressions on one page."""
LONGEST = 1_000_000
"""Characters of a text that are searched."""
MOST = 100_000
"""Matches of one expression in one text."""
# One repetition takes at most the square of the length; that of so short a text is nothing.
SHORT = 2_000


class TooSlow(Exception):
    """A regular expression took all the time there was."""


class Patient(Protocol):
    """Who counts the time: a page."""

    patience: float


class Pattern:
    """A compiled expression; `ValueError` from the constructor says what is wrong with it."""

    __slots__ = ("_careful", "_group", "_quick", "text")

    def __init__(self, text: str, ignore_case: bool = False) -> None:
        self.text = text
        try:
            # Python's own is the language of site files; the other one, which can be told to stop, is nearly the same.
            quick = re.compile(text, re.IGNORECASE if ignore_case else 0)
            self._careful = regex.compile(text, regex.IGNORECASE if ignore_case else 0)
        except (re.error, regex.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{text!r} is no regular expression: {error}") from None
        plain = sum(map(text.count, "*+{")) <= 1 and text.count("?") <= 5 and not re.search(r"\)[*+{]", text)
        self._quick = quick if plain else None
        self._group = 1 if quick.groups else 0

    def first(self, text: str, page: Patient) -> str | None:
        """The first group of the first match that has it, or all of the first match; None if there is none."""
        if self._quick is not None and len(text) <= SHORT:
            found: Any = self._quick.search(text)
        else:
            found = self._run(self._careful.search, text, page)
        if found is None:
            return None
        value: str | None = found[self._group]
        # The group took no part: a later match may have it.
        return value if value is not None else next(iter(self.all(text, page)), None)

    def all(self, text: str, page: Patient) -> list[str]:
        """The same of every match. Groups that took no part are left out."""
        group = self._group
        if self._quick is not None and len(text) <= SHORT:
            return [match[group] for match in self._quick.finditer(text) if match[group] is not None]
        return self._run(self._every, text, page)  # type: ignore[no-any-return]

    def _every(self, text: str, **limits: float) -> list[str]:
        found: list[str] = []
        for match in self._careful.finditer(text, **limits):
            if match[self._group] is not None:
                found.append(match[self._group])
            if len(found) >= MOST:
                break
        return found

    def matches(self, text: str, page: Patient) -> bool:
        if self._quick is not None and len(text) <= SHORT:
            return self._quick.search(text) is not None
        return self._run(self._careful.search, text, page) is not None

    def replaced(self, text: str, by: str, page: Patient) -> str:
        if self._quick is not None and len(text) <= SHORT:
            return self._quick.sub(by, text)
        return self._run(lambda text, timeout: self._careful.sub(by, text, timeout=timeout), text, page)  # type: ignore[no-any-return]

    def check_replacement(self, by: str) -> None:
        """ValueError if a replacement, which is understood only when it is used, could not be."""
        try:
            re.compile(self.text).sub(by, "")
            self._careful.sub(by, "")
        except (re.error, regex.error, IndexError) as error:
            raise ValueError(f"{by!r} cannot replace {self.text!r}: {error}") from None

    def _run(self, call: Any, text: str, page: Patient) -> Any:
        if page.patience <= 0:
            raise TooSlow(f"no time was left for the regular expression {self.text!r}")
        if len(text) > LONGEST:
            text = text[:LONGEST]
        begin = perf_counter()
        try:
            return call(text, timeout=page.patience)
        except TimeoutError:
            page.patience = 0.0
            raise TooSlow(
                f"the regular expression {self.text!r} took more than {PATIENCE:g} s on {len(text)} characters"
            ) from None
        finally:
            if (taken := perf_counter() - begin) > 0.001:
                page.patience -= taken
