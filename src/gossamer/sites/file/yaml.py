"""YAML as site files are written in it, with the place of every key and value.

The YAML is that of version 1.2: only true and false are truth values (yes, no, on and off are texts), 010 is ten, 1e6 is a
number, dates and times stay texts. Anchors and merge keys are allowed as long as they do not unfold to a bomb; a key that
stands twice is refused, as are tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from gossamer.sites.file.problems import Problem
from gossamer.sites.file.syntax import CommentFinder, syntax_problem

UNFOLDED_MAX = 100_000
"""Maximum number of values that aliases may add to a file."""
DEEP_MAX = 60
"""Maximum depth of nested mappings and lists."""

_INT = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMERIC = frozenset("+-.0123456789")
# What a scalar is decided when it is built, so the composer only has to say whether it was written without quotes.
_PLAIN = "plain"
_QUOTED = "quoted"
_KNOWN_TAGS = {
    "tag:yaml.org,2002:str": _QUOTED,
    "!": _QUOTED,
    "tag:yaml.org,2002:map": "map",
    "tag:yaml.org,2002:seq": "seq",
}


NOTHING_INSIDE: dict[Any, Any] = {}
"""Shared by all spots that have nothing in them: never changed."""


class Spot:
    """Where a value stands, where its key stands, and the spots of what is inside it, by key or by index."""

    __slots__ = ("column", "file", "inside", "key_column", "key_line", "line")

    def __init__(self, file: str, line: int, column: int) -> None:
        self.file = file
        self.line = self.key_line = line
        self.column = self.key_column = column
        self.inside: dict[Any, Spot] = NOTHING_INSIDE

    def find(self, path: tuple[Any, ...]) -> FoundSpot:
        """What stands at a path, or the innermost thing on the way to it. The place in a list is passed over where one thing
        stands for a list of it."""
        spot, way = self, list(path)
        for place, part in enumerate(path):
            inner = spot.inside.get(part)
            if inner is not None:
                spot = inner
            elif part == 0 and 0 not in spot.inside:
                way[place] = None
            else:
                return FoundSpot(spot, False, tuple(one for one in way if one is not None))
        return FoundSpot(spot, True, tuple(one for one in way if one is not None))


class FoundSpot(NamedTuple):
    """Where something stands; `exact` is False if it is not there and only something around it is; `path` is how the file
    itself would say it."""

    spot: Spot
    exact: bool
    path: tuple[Any, ...]


class YamlDocument(NamedTuple):
    """One document of a file: its data, and where everything in it stands."""

    data: Any
    spot: Spot
    problems: list[Problem]
    """Problems that do not keep the rest from being read: duplicate keys, tags."""


class InvalidYaml(Exception):
    """The text is not YAML as site files may use it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _PlainResolver:
    """Resolves of a scalar only whether it is plain: all that composing nodes needs."""

    def resolve(self, kind: type, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _QUOTED
        return "map" if kind is yaml.MappingNode else "seq"

    def descend_resolver(self, parent: Any, index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...


def _slow_loader() -> Any:
    from yaml.composer import Composer  # type: ignore[import-untyped]
    from yaml.parser import Parser  # type: ignore[import-untyped]
    from yaml.reader import Reader  # type: ignore[import-untyped]
    from yaml.scanner import Scanner  # type: ignore[import-untyped]

    class Slow(Reader, Scanner, Parser, Composer, _PlainResolver):  # type: ignore[misc]
        def __init__(self, stream: str) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)

        def dispose(self) -> None: ...

    return Slow


if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[import-untyped]

    class _Fast(CParser, _PlainResolver):  # type: ignore[misc]
        pass

    LOADER: Any = _Fast
else:
    LOADER = _slow_loader()


def decoded(content: bytes, file: str) -> str:
    """The text of a file: UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        wrong = f"byte {content[error.start]:#04x} is not UTF-8"
        raise InvalidYaml(Problem(file, line, column, "", wrong, "save the file in UTF-8")) from None


def read(text: str, file: str, loader: Any = None) -> Iterator[YamlDocument]:
    """The documents of a text. Raises InvalidYaml at the first error."""
    made, comments = None, CommentFinder(text, file)
    try:
        made = (loader or LOADER)(text)
        while made.check_node():
            builder = _YamlBuilder(file, comments)
            yield YamlDocument(*builder.build(made.get_node(), ()), builder.problems)
    except yaml.YAMLError as error:
        raise InvalidYaml(syntax_problem(error, text, file)) from None
    except RecursionError:
        raise InvalidYaml(
            Problem(file, 1, 1, "", f"more than {DEEP_MAX} mappings and lists stand inside each other")
        ) from None
    finally:
        if made is not None:
            made.dispose()


class _YamlBuilder:
    """Converts the nodes of one document to data and spots."""

    def __init__(self, file: str, comments: CommentFinder) -> None:
        self._file = file
        self._comments = comments if comments.possible else None
        self.problems: list[Problem] = []
        self._met: set[int] = set()
        self._unfolded = 0

    def build(self, node: Any, above: tuple[int, ...]) -> tuple[Any, Spot]:
        mark = node.start_mark
        spot = Spot(self._file, mark.line + 1, mark.column + 1)
        tag = node.tag
        if tag not in (_PLAIN, _QUOTED, "map", "seq"):
            written = tag.replace("tag:yaml.org,2002:", "!!")
            tag = _KNOWN_TAGS.get(tag, "")
            if not tag:
                self._note(spot.line, spot.column, f"the tag {written} means nothing in a site file", "leave it out")
        kind = type(node)
        if kind is yaml.ScalarNode:
            return (node.value if tag is _QUOTED else self._plain(node.value, spot)), spot
        name = id(node)
        if name in self._met:
            self._alias(node, above, spot)
        self._met.add(name)
        if len(above) >= DEEP_MAX:
            raise self._refuse(spot, f"more than {DEEP_MAX} mappings and lists stand inside each other")
        above = (*above, name)
        spot.inside = {}
        if kind is yaml.SequenceNode:
            items = []
            for index, inner in enumerate(node.value):
                item, spot.inside[index] = self.build(inner, above)
                items.append(item)
            return items, spot
        return self._mapping(node, spot, above), spot

    def _mapping(self, node: Any, spot: Spot, above: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        inside = spot.inside
        merges = []
        for key, value in node.value:
            mark = key.start_mark
            line, column = mark.line + 1, mark.column + 1
            if type(key) is not yaml.ScalarNode:
                self._note(line, column, "a key must be a text", "a text that begins with { or [ needs quotes")
                continue
            name = key.value
            if name == "<<" and key.tag is _PLAIN:
                merges.append((value, line, column))
                continue
            if name in data:
                first = inside[name]
                before = f"line {first.key_line}, column {first.key_column}"
                self._note(
                    line, column, f"{name} stands here again; it was already given in {before}", "keep one of the two"
                )
                continue
            if self._comments is not None:
                self.problems += self._comments.look(name, value)
            data[name], inner = self.build(value, above)
            inner.key_line, inner.key_column = line, column
            inside[name] = inner
        for value, line, column in merges:
            for part in value.value if type(value) is yaml.SequenceNode else (value,):
                more, where = self.build(part, above)
                if not isinstance(more, dict):
                    self._note(line, column, "<< takes a mapping, or a list of them", "write <<: *name")
                    continue
                for name, item in more.items():
                    if name not in data:
                        data[name] = item
                        inside[name] = where.inside[name]
        return data

    def _alias(self, node: Any, above: tuple[int, ...], spot: Spot) -> None:
        if id(node) in above:
            raise self._refuse(spot, "an anchor contains itself", "an alias must stand outside of what it repeats")
        self._unfolded += 1 + len(node.value)
        if self._unfolded > UNFOLDED_MAX:
            raise self._refuse(
                spot, f"the aliases of this file unfold to more than {UNFOLDED_MAX:,} values", "repeat less"
            )

    def _plain(self, value: str, spot: Spot) -> Any:
        first = value[:1]
        if first in _NUMERIC and first:
            try:
                if _INT.match(value):
                    return int(value, 0) if value[1:2] in ("o", "x") else int(value)
                if _FLOAT.match(value):
                    return float(value)
            except ValueError:
                raise self._refuse(
                    spot, "this number has too many digits", "put it in quotes if it is a text"
                ) from None
        elif len(value) > 5:
            return value
        return _WORDS.get(value, value)

    def _note(self, line: int, column: int, message: str, hint: str) -> None:
        self.problems.append(Problem(self._file, line, column, "", message, hint))

    def _refuse(self, spot: Spot, message: str, hint: str = "") -> InvalidYaml:
        return InvalidYaml(Problem(self._file, spot.line, spot.column, "", message, hint))
