"""Regular expressions on URLs, which strangers write: no search may take long.

Most patterns cannot take long on a URL of usual length, and Python's own engine runs them. The others run where they can be
stopped. One that has taken SPENDS seconds of late gets SHORTEST for each URL, which is ample for a URL that it fits; where it is
stopped, it does not fit. The time is counted by pattern, since one pattern sees the URLs of many pages; `extract.regex` counts it by
page.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from time import perf_counter
from typing import Any

import regex  # type: ignore[import-untyped]

from gossamer.sites.extract.regex import stoppable

STEPS = 100_000
"""Maximum steps of Python's own engine, by the length of the URL and the repetitions of the pattern: about a millisecond."""
LONG = 8_192
"""A longer URL belongs to no layer, so that no pattern searches megabytes."""
SPENDS = 1.0
"""Seconds that one pattern may use up on URLs at which it is slow, at a time."""
REGAINS = 0.05
"""Of each second that passes, so much is added to that again."""
SHORTEST = 0.001
CHOICES = 5
"""More parts that may be missing than this are too many ways to go."""
FEW = 9
"""A repetition with no more choices than this counts as none, except inside one."""

logger = logging.getLogger(__name__)
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?>|\(|\)[*+?]?\+?|(?:[*+]|\{\d*,\d*\})[?+]?|.", re.DOTALL)
_REPEAT = re.compile(r"[*+]|\{(\d*),(\d*)\}")


class UrlPattern:
    """A compiled pattern. Raises re.error."""

    __slots__ = ("_careful", "_left", "_most", "_quick", "_said", "_since", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._quick = re.compile(text)
        power = degree(text)
        # The longest URL on which Python's own engine does it.
        self._most = 0 if power is None else LONG if power == 0 else int(STEPS ** (1 / power))
        self._careful: Any = None
        self._left, self._since, self._said = SPENDS, 0.0, False

    def search(self, url: str) -> re.Match[str] | None:
        """As re.search has it; None also where it took too long."""
        return self._quick.search(url) if len(url) <= self._most else self._search(url)

    def _search(self, url: str) -> re.Match[str] | None:
        if self._careful is None:
            try:
                self._careful = stoppable(self.text)
            except (regex.error, RecursionError):
                self._careful = False  # Not in that language: it runs without a limit.
        if self._careful is False:
            return self._quick.search(url)
        begin = perf_counter()
        if self._left < SPENDS:
            self._left = min(SPENDS, self._left + (begin - self._since) * REGAINS)
            self._since = begin
        try:
            found: re.Match[str] | None = self._careful.search(url, timeout=max(SHORTEST, self._left))
            return found
        except TimeoutError:
            if not self._said:
                self._said = True
                logger.warning("The match %r takes too long on %s; such URLs do not fit it.", self.text, url[:200])
            return None
        finally:
            end = perf_counter()
            if end - begin > SHORTEST:
                self._left, self._since = self._left - (end - begin), end


@lru_cache(8_192)
def url_pattern(text: str) -> UrlPattern:
    return UrlPattern(text)


def degree(pattern: str) -> int | None:
    """The steps of a search are at most the length of the text to this power; None: they may double with each character."""
    repeats, choices, inside, before = 0, 0, [False], ""
    for token in _tokens(pattern):
        if token in ("|", "?") and before != "(":
            choices += token == "?"
            inside[-1] = True
        before = token
        if token in ("(", "(?>"):
            inside.append(False)
        elif token[0] == ")":
            within = inside.pop() if len(inside) > 1 else False
            if token != ")" and within:
                return None
            inside[-1] = inside[-1] or within or token != ")"
            repeats += token != ")"
        elif found := _REPEAT.match(token):
            least, most = found.groups()
            repeats += not most or int(most) - int(least or 0) > FEW
            inside[-1] = True
    if choices > CHOICES:
        return None
    return repeats + (0 if pattern.startswith("^") and "|" not in pattern else 1)


def _tokens(pattern: str) -> Iterator[str]:
    """Its parts as far as they matter here; a group that may be repeated ends with how."""
    parts = [found[0] for found in _TOKEN.finditer(pattern)]
    skip = False
    for part, following in pairwise([*parts, ""]):
        if skip:
            skip = False
            continue
        if part == ")" and following.startswith("{"):
            skip = True
            yield part + following
        elif part == ")?":
            yield ")"
        else:
            yield part
