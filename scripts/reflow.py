"""Bring the prose of all pages to one width. `make docs` runs it.

usage: python scripts/reflow.py

Tables, code blocks, headings and comments stay as they are, and so does the text: only line breaks move.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH = 100

_FENCE = re.compile(r"\s*(```|~~~)")
_VERBATIM = re.compile(r"\s*(\||#{1,6} |<!--|</?[a-z]|>|$)")
_ITEM = re.compile(r"(\s*(?:[-*+]|\d+[.)])\s+)\S")
_WORD = re.compile(r"(?:`[^`]+`|\S)+")
# At the beginning of a line these would turn a sentence into a list, a heading, a quotation or a table.
_NOT_FIRST = re.compile(r"(?:[-*+|]|#+|>.*|\d+[.)]|=+|-+)$")


def pages() -> list[Path]:
    """Every page of the repository that people read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def reflow(text: str) -> str:
    """The same page with its prose at most WIDTH columns wide. A word that is wider has a line of its own."""
    return "\n".join(line for lines, prose in _blocks(text) for line in (_fill(lines) if prose else lines)) + "\n"


def too_wide(text: str) -> list[str]:
    """The lines of prose that are wider than WIDTH and could be broken."""
    prose = [(lines, _fill(lines)) for lines, prose in _blocks(text) if prose]
    return [line for lines, filled in prose for line in lines if len(line) > WIDTH and line not in filled]


def _blocks(text: str) -> Iterator[tuple[list[str], bool]]:
    """The page cut into lines that stay (False) and paragraphs (True)."""
    paragraph: list[str] = []
    fence, in_list = "", False
    for line in text.splitlines():
        opened = _FENCE.match(line)
        code = line.startswith("    ") and not paragraph and not in_list
        verbatim = fence or opened or code or _VERBATIM.match(line)
        if not fence and line[:1].strip():
            in_list = _ITEM.match(line) is not None or (in_list and bool(paragraph))
        if paragraph and (verbatim or _ITEM.match(line)):
            yield paragraph, True
            paragraph = []
        if verbatim:
            if opened and fence in ("", opened[1]):
                fence = "" if fence else opened[1]
            yield [line], False
        else:
            paragraph.append(line)
    if paragraph:
        yield paragraph, True


def _fill(paragraph: list[str]) -> list[str]:
    item = _ITEM.match(paragraph[0])
    first = item[1] if item else re.match(r"\s*", paragraph[0])[0]  # type: ignore[index]
    rest = " " * len(first)
    words = _words(" ".join([paragraph[0][len(first) :], *paragraph[1:]]))
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) <= WIDTH:
            line += f" {word}"
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line]


def _words(text: str) -> list[str]:
    """Words that a line may begin with; code in backquotes is one word."""
    words: list[str] = []
    for word in _WORD.findall(text):
        if words and _NOT_FIRST.match(word):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def main() -> int:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = reflow(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} reflowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
