"""Rules as JavaScript has them and as documentation prints them: JSON with comments, keys without quotes, `...` for what is left out.
Pure."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""
    (?P<nothing> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<left_out> \.\.\. | … )
    | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<sign> [{}\[\],:] )
    | (?P<number> -?[0-9][0-9.eE+-]* )
    | (?P<name> [A-Za-z_$][\w$]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": "true", "false": "false", "null": "null", "undefined": "null"}
LEFT_OUT = "..."
_ESCAPED = re.compile(r'\\.|"', re.DOTALL)
_ESCAPES = frozenset('"\\/bfnrtu')


def read_literal(text: str, begin: int) -> tuple[Any, int]:
    """The object that begins at a place of a text, and where it ends. ValueError says what cannot be read. What is left out is missing, or
    None where it is the value of a key."""
    tokens: list[str] = []
    place, depth = begin, 0
    while True:
        token = _TOKEN.match(text, place)
        if token is None:
            rest = text[place : place + 20].partition("\n")[0]
            raise ValueError(f"{rest!r} on line {_line(text, place)}" if rest else "it has no end")
        place, word = token.end(), token[0]
        match token.lastgroup:
            case "left_out":
                tokens.append("null" if tokens[-1:] == [":"] else LEFT_OUT)
            case "text":
                tokens.append(_quoted(word))
            case "name":
                tokens.append(json.dumps(word) if _is_key(text, place) else _WORDS.get(word, word))
            case "number":
                tokens.append(word)
            case "sign":
                tokens.append(word)
                depth += (word in "{[") - (word in "}]")
                if not depth:
                    return _loaded("".join(_joined(tokens)), text, begin), place


def _joined(tokens: list[str]) -> list[str]:
    """Without what is left out, and with the commas that JSON has: one between two values, none at the end."""
    joined: list[str] = []
    is_left_out = False
    for token in tokens:
        if token == LEFT_OUT or (is_left_out and token == ","):
            is_left_out = True
            continue
        if token in ("}", "]"):
            if joined[-1] == ",":
                joined.pop()
        elif is_left_out and joined[-1] not in ("{", "[", ","):
            joined.append(",")
        joined.append(token)
        is_left_out = False
    return joined


def _is_key(text: str, place: int) -> bool:
    """Whether a colon follows."""
    while (token := _TOKEN.match(text, place)) is not None and token.lastgroup == "nothing":
        place = token.end()
    return token is not None and token[0] == ":"


def _quoted(word: str) -> str:
    """A text as JSON has it. A backslash that JSON does not know, as in "\\d", belongs to a regular expression."""

    def escaped(found: re.Match[str]) -> str:
        one = found[0]
        if one == '"':
            return '\\"'
        if one == "\\'":
            return "'"
        return one if one[1] in _ESCAPES else "\\" + one

    return f'"{_ESCAPED.sub(escaped, word[1:-1])}"'


def _loaded(made: str, text: str, begin: int) -> Any:
    try:
        return json.loads(made)
    except ValueError as error:
        raise ValueError(f"the object on line {_line(text, begin)}: {error}") from None


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
