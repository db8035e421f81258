"""Sites by rule: which pages there are and where each leads. Whoever knows the rule can tell what a crawl must bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

PAGE_BYTES = 2_000
LINKS = 15
LISTS, POSTS, COMMENTS = 10, 20, 4
"""The front page of a forum leads to so many lists; a list to so many posts and the list after the next ten; a post to its
pages of comments."""
_BLOCK = 1 + POSTS * (1 + COMMENTS)
_FILLER = "A page of a forum says many things in many words, and some of them have been said before. "


def _graph(number: int, pages: int) -> list[int]:
    """Everything can be reached from page 0 in few steps; the other links lead anywhere."""
    links = [child for child in (2 * number + 1, 2 * number + 2) if child < pages]
    step = number
    while len(links) < LINKS:
        step = (step * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
        links.append((step >> 33) % pages)
    return links


def _flat(number: int, pages: int) -> list[int]:
    return list(range(1, pages)) if number == 0 else []


def _tree(ways: int) -> Callable[[int, int], list[int]]:
    def links(number: int, pages: int) -> list[int]:
        return list(range(ways * number + 1, min(ways * number + ways + 1, pages)))

    return links


def _forum(number: int, pages: int) -> list[int]:
    if number == 0:
        links = [1 + place * _BLOCK for place in range(LISTS)]
    else:
        place = (number - 1) % _BLOCK
        first = number - place
        within = (place - 1) % (1 + COMMENTS)
        if place == 0:
            links = [first + 1 + post * (1 + COMMENTS) for post in range(POSTS)] + [first + LISTS * _BLOCK]
        elif within == 0:
            links = [first, *range(number + 1, number + 1 + COMMENTS)]
        else:
            links = [number - within]
    return [link for link in links if link < pages]


RULES: dict[str, Callable[[int, int], list[int]]] = {
    "graph": _graph,
    "flat": _flat,
    "ten": _tree(10),
    "binary": _tree(2),
    "forum": _forum,
}
TREES = ("flat", "ten", "binary")


class Shape(NamedTuple):
    """A site of `pages` pages, numbered from 0, the front page. Page n lies on host n modulo `hosts`, so that children
    mostly lie on another host than their parent."""

    rule: str = "graph"
    pages: int = 1_000
    hosts: int = 1

    def links(self, number: int) -> list[int]:
        return RULES[self.rule](number, self.pages)

    def path(self, number: int) -> str:
        return f"/{self.rule}/{number}"

    def url(self, number: int, origins: Sequence[str]) -> str:
        return origins[number % self.hosts] + self.path(number)

    def body(self, number: int, origins: Sequence[str]) -> bytes:
        """The page as HTML, of 2 kB or as long as its links need."""
        alone = len(origins) == 1
        links = "".join(
            f'<li><a href="{self.path(link) if alone else self.url(link, origins)}">page {link}</a></li>'
            for link in self.links(number)
        )
        head = f"<!DOCTYPE html><html><head><title>page {number}</title></head><body><h1>page {number}</h1><ul>{links}</ul><p>"
        tail = "</p></body></html>"
        missing = max(0, PAGE_BYTES - len(head) - len(tail))
        return (head + (_FILLER * (missing // len(_FILLER) + 1))[:missing] + tail).encode()
