"""Where in a Python file a call stands, and where each of its arguments does: for messages with file, line and column."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from gossamer.sites.file.yaml import NOTHING_INSIDE, Spot

HERE = str(Path(__file__).parent)


class CallPlace(NamedTuple):
    """Where a call stands: file, first and last line (from 1), first and last column (from 0); 0 for a column that is unknown."""

    file: str
    line: int
    end_line: int = 0
    column: int = 0
    end_column: int = 0

    @property
    def spot(self) -> Spot:
        return Spot(self.file, self.line, self.column + 1)


class Home(NamedTuple):
    """The module whose own code, run as it is loaded, makes something: its file and its name."""

    file: str
    module: str


def caller() -> tuple[CallPlace, Home]:
    """Where the call stands that led into this package, and which module was being run for it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    assert frame is not None
    place = _place(frame)
    home: FrameType | None = frame
    while home is not None and home.f_code.co_name != "<module>":
        home = home.f_back
    there = frame if home is None else home
    return place, Home(os.path.realpath(there.f_code.co_filename), there.f_globals.get("__name__", ""))


def _place(frame: FrameType) -> CallPlace:
    code = frame.f_code
    line, end_line, column, end_column = next(
        islice(code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None)
    )
    if line is None or end_line is None or column is None or end_column is None:
        return CallPlace(code.co_filename, frame.f_lineno)
    return CallPlace(code.co_filename, line, end_line, column, end_column)


class CallArguments(NamedTuple):
    """The source of a call's arguments, as far as it is there."""

    place: CallPlace
    positional: list[ast.expr]
    named: Mapping[str, ast.keyword]

    def spot(self, data: Any, name: str, position: int | None = None) -> Spot:
        """The place of the argument of this name, or at this position. `data` is its value."""
        keyword = self.named.get(name)
        node = keyword.value if keyword is not None else None
        if node is None and position is not None:
            node = _at(self.positional, position)
        spot = spot_of(data, node, self.place.spot)
        if keyword is not None:
            spot.key_line, spot.key_column = keyword.lineno, keyword.col_offset + 1
        return spot


def arguments(place: CallPlace) -> CallArguments:
    for call in _calls(place.file):
        if (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset) == place[1:]:
            named = {one.arg: one for one in call.keywords if one.arg is not None}
            return CallArguments(place, call.args, named)
    return CallArguments(place, [], {})


@lru_cache(64)
def _calls(file: str) -> list[ast.Call]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _at(nodes: list[ast.expr], place: int) -> ast.expr | None:
    before = nodes[: place + 1]
    return before[place] if len(before) > place and not any(isinstance(node, ast.Starred) for node in before) else None


def spot_of(data: Any, node: ast.expr | None, around: Spot) -> Spot:
    """The spot of a value and of everything in it: as written, or else where the nearest thing around it stands."""
    spot = Spot(around.file, around.line, around.column)
    if node is not None:
        # Columns count bytes of UTF-8 here; that is off only behind other letters in the same line.
        spot.line, spot.column = node.lineno, node.col_offset + 1
        spot.key_line, spot.key_column = spot.line, spot.column
    if isinstance(data, dict) and data:
        keys = _written_keys(node)
        spot.inside = {}
        for name, value in data.items():
            key, inner = keys.get(name, (None, None))
            spot.inside[name] = there = spot_of(value, inner, spot)
            if key is not None:
                there.key_line, there.key_column = key.lineno, key.col_offset + 1
    elif isinstance(data, list) and data:
        nodes = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        spot.inside = {place: spot_of(value, _at(nodes, place), spot) for place, value in enumerate(data)}
    else:
        spot.inside = NOTHING_INSIDE
    return spot


def renamed(spot: Spot, file: str, name: str) -> Spot:
    """The same spots, with another name for a file."""
    if os.path.realpath(spot.file) == file:
        spot.file = name
    for inner in spot.inside.values():
        renamed(inner, file, name)
    return spot


def _written_keys(node: ast.expr | None) -> dict[Any, tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {key.value: (key, value) for key, value in pairs if isinstance(key, ast.Constant)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {one.arg: (one.value, one.value) for one in node.keywords if one.arg is not None}
    return {}
