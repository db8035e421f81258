"""NEOCrawler's patterns of URLs as `match` of a layer. Pure.

NEOCrawler looks for a pattern in whole URLs, of the hosts of its domain. So does a `match` that begins with http.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

from gossamer.migrate.neocrawler.units import python_regex, wrong_regex
from gossamer.sites.file.params import Parameters
from gossamer.sites.seeds import unfold

LOOKED_AT = 3


def match_of(text: str, domain: str) -> tuple[str, str]:
    """The pattern for a layer, and what is to be said of it ("" for nothing). No pattern where none can be made."""
    if not text:
        return "", "left out: it is empty, so no link leads to this layer"
    # Some versions keep it escaped.
    pattern = python_regex(unquote(text) if re.match(r"%5E|%28|[^%]*%3A%2F%2F", text, re.I) else text)
    if wrong_pattern := wrong_regex(pattern):
        return "", f"left out: it is not a regular expression of Python: {wrong_pattern}"
    # Of a host, NEOCrawler takes away the first name, and has the domain. A pattern may begin anywhere, also within the host.
    host = rf"^http(?=s?://(?:[^./?#]+\.)?{re.escape(domain)}(?::\d+)?(?:[/?#]|$))"
    whole, wrong = [], []
    for branch in _branches(pattern):
        if branch.lstrip("^(").startswith("http"):
            whole.append(branch if branch.startswith("^") else f"^{branch}")
        elif not branch.startswith("^"):
            whole.append(f"{host}.*?{_grouped(branch)}")
        elif re.match(r"\^\.[*+]", branch):
            whole.append(f"{host}{branch[1:]}")
        else:
            wrong.append(branch)
    if wrong:
        said = f"{' and '.join(wrong)} never was at the beginning of a URL"
        return "|".join(whole), f"{'changed' if whole else 'left out'}: {said}"
    return "|".join(whole), ""


def seed_of(text: str) -> tuple[str, str]:
    """A seed as site files write it, and what is to be said of it ("" for nothing). NEOCrawler's own ranges are
    `before#after#first#last#step`; "" is no seed at all."""
    parts = text.split("#")
    if len(parts) < 5:
        return text, ""
    numbers = [re.match(r"\s*\d+", part) for part in parts[2:5]]
    first, last, step = (int(found[0]) if found else -1 for found in numbers)
    if min(first, last) < 0 or step < 1:
        return "", "left out: # begins a range, and its first, last and step are not whole numbers"
    if first > last:
        return "", "left out: its range is empty"
    return f"{parts[0]}[{first}-{last}{f':{step}' if step > 1 else ''}]{parts[1]}", ""


def seed_fits(pattern: str, seed: str) -> bool:
    """Whether a seed comes to the layer of a pattern; of one with ranges, its first URLs."""
    if not pattern or wrong_regex(pattern):
        return False
    try:
        urls = [one.url for one in islice(unfold(seed, Parameters()), LOOKED_AT)]
    except ValueError:
        return False
    return bool(urls) and all(re.search(pattern, url) for url in urls)


def _grouped(branch: str) -> str:
    return branch if re.fullmatch(r"[\w/.\\+*?$=&-]*", branch) else f"(?:{branch})"


def _branches(pattern: str) -> Iterator[str]:
    """The alternatives of a pattern that stand in no group."""
    depth, in_class, begin, place = 0, False, 0, 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "|" and depth == 0:
            yield pattern[begin:place]
            begin = place + 1
        place += 1
    yield pattern[begin:]
