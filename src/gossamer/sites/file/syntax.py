"""Mistakes in YAML as people make them in site files: what is wrong, where it began, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from gossamer.sites.file.problems import WARNING, Problem

SELECTING = frozenset({"css", "xpath", "regex", "each", "records", "follow", "url"})
"""Keys of texts in which # is common."""
COMMENT = re.compile(r"(?:^|\s)(#[^\s#].*)")
GLUED = re.compile(r"\s#[^\s#]")
QUOTES = "put it in quotes: a # after a space begins a comment"
_USUAL = "check the indentation, the brackets and the quotes before this place"


class _Place(NamedTuple):
    line: int
    column: int


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """What is wrong with a text that is not YAML."""
    place = _place(error, text)
    lines = text.splitlines()
    said = " ".join(
        str(part) for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part
    ) or str(getattr(error, "reason", error))
    wrong = lines[place.line - 1] if place.line <= len(lines) else ""
    began = getattr(error, "context_mark", None)
    if "quoted scalar" in said and "end of stream" in said and began is not None:
        return Problem(
            file, began.line + 1, began.column + 1, "", "this is not YAML: this quote has no end", "close it"
        )
    if "unknown escape" in said:
        hint = "in double quotes a backslash begins an escape: write the text in single quotes"
    elif "\t" in wrong[: max(place.column, len(wrong) - len(wrong.lstrip()))]:
        hint = "indent with spaces, not with tabs"
    elif "undefined alias" in said:
        hint = "an anchor &name must come before its *name; a text that begins with * needs quotes"
    elif "scanning an alias" in said or "scanning an anchor" in said:
        hint = "a text that begins with * or & needs quotes"
    elif glued := _glued_bracket(wrong, place, said):
        hint = glued
    elif "cannot start any token" in said:
        hint = "a text that begins with @, `, % or & needs quotes"
    elif quote := _open_quote(text, place):
        hint = quote
    elif comment := _comment(text, lines, place):
        return Problem(
            file, *comment, "", "this is not YAML: what follows # is a comment, and the rest has no end", QUOTES
        )
    elif "mapping values are not allowed" in said:
        hint = "a text with a colon and a space in it needs quotes, or the indentation is wrong"
    else:
        hint = _USUAL if "%" in wrong or "{" in wrong or "[" in wrong or "expected" in said else ""
    return Problem(file, *place, "", f"this is not YAML: {said}", hint)


def _place(error: yaml.YAMLError, text: str) -> _Place:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return _Place(mark.line + 1, mark.column + 1)
    # A character that YAML does not know has only a position.
    position = min(getattr(error, "position", 0), len(text))
    return _Place(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


def _tokens(text: str) -> Iterator[Any]:
    """The tokens of a text, as far as they can be read."""
    try:
        yield from yaml.scan(text)
    except (yaml.YAMLError, RecursionError):
        return


def _glued_bracket(line: str, place: _Place, said: str) -> str:
    """A hint if a bracket ends a text that should go on: inside { } and [ ], as in {css: a[href]}."""
    if not ("flow mapping" in said or "flow sequence" in said) or line[place.column - 1 : place.column] not in (
        "[",
        "{",
    ):
        return ""
    before = re.search(r"[^\s,{}\[\]]+$", line[: place.column - 1])
    after = re.match(r"[\[{][^\s\[\]{}]*[\]}]?", line[place.column - 1 :])
    if before is None or after is None:
        return ""
    return f"inside {{ }} and [ ], a text with brackets or commas in it needs quotes: '{before[0]}{after[0]}…'"


def _open_quote(text: str, place: _Place) -> str:
    """A hint if a quoted text ends just before a place and should have ended earlier, or not there."""
    last = None
    for token in _tokens(text):
        if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
            end = _Place(token.end_mark.line + 1, token.end_mark.column + 1)
            if end > place:
                break
            last = token
    if last is None or last.end_mark.line + 1 != place.line:
        return ""
    if last.start_mark.line < last.end_mark.line:
        began = f"line {last.start_mark.line + 1}, column {last.start_mark.column + 1}"
        return f"the quote that began in {began} ends only before this place: close it where it ends"
    if last.end_mark.column + 1 == place.column:
        double = "''" if last.style == "'" else '\\"'
        return f"a {last.style} inside such quotes is written {double}"
    return ""


def _comment(text: str, lines: list[str], place: _Place) -> _Place | None:
    """Where a comment without a space after # stands inside braces or brackets that have no end before a place."""
    opened: list[Any] = []
    for token in _tokens(text):
        if (token.start_mark.line + 1, token.start_mark.column + 1) >= place:
            break
        if isinstance(token, yaml.FlowMappingStartToken | yaml.FlowSequenceStartToken):
            opened.append(token)
        elif isinstance(token, yaml.FlowMappingEndToken | yaml.FlowSequenceEndToken) and opened:
            opened.pop()
    if not opened:
        return None
    for number in range(opened[-1].start_mark.line, min(place.line, len(lines))):
        begin = opened[-1].start_mark.column if number == opened[-1].start_mark.line else 0
        if found := COMMENT.search(lines[number], begin):
            return _Place(number + 1, found.start(1) + 1)
    return None


class CommentFinder:
    """Finds comments that look as if they belonged to the text before them: `css: #main`, `title: h1 #first`."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        self.possible = GLUED.search(text) is not None
        self._lines: list[str] = []

    def look(self, key: str, value: Any) -> Iterator[Problem]:
        """At the value of a key, which may be a list or, of `fields`, a mapping."""
        if not (key in SELECTING or key == "fields"):
            return
        values = [value]
        if type(value) is yaml.SequenceNode:
            values = value.value
        elif key == "fields" and type(value) is yaml.MappingNode:
            values = [inner for _, inner in value.value]
        self._lines = self._lines or self._text.splitlines()
        for one in values:
            if type(one) is yaml.ScalarNode and not one.style and one.end_mark.line < len(self._lines):
                rest = self._lines[one.end_mark.line][one.end_mark.column :]
                if rest.lstrip().startswith("#") and (found := COMMENT.match(rest.lstrip())) and rest[0] == " ":
                    column = one.end_mark.column + len(rest) - len(rest.lstrip()) + 1
                    said = f"{found[1].split()[0]} is a comment here and does not count"
                    hint = "put the text in quotes, or a space after #"
                    yield Problem(self._file, one.end_mark.line + 1, column, "", said, hint, WARNING)
