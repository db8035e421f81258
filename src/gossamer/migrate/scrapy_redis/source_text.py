"""A Python file as text that can be edited by position and written back as it was: encoding, byte order mark, line ends."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable
from functools import cached_property

from gossamer.migrate.scrapy_redis.finding import Edit

_LINE_END = re.compile(r"\r\n|\r|\n")
_PYTHON_2 = (
    re.compile(r"^\s*print\s+[\w'\"%]", re.M),
    re.compile(r"^\s*print\s*$", re.M),
    re.compile(r"^\s*except\s+[\w.()\s,]+,\s*\w+\s*:", re.M),
    re.compile(r"^\s*exec\s+[\w'\"]", re.M),
    re.compile(r"^\s*raise\s+[\w.]+\s*,", re.M),
    re.compile(r"\bur['\"]"),
    re.compile(r"\s<>\s"),
    re.compile(r"[=(,\s]0[0-7]+[\s,)]"),
)


class UnreadableSource(Exception):
    """The file is not Python 3 as this Python reads it. `line` is 0 where none is to blame."""

    def __init__(self, reason: str, line: int = 0, python_2: bool = False) -> None:
        super().__init__(reason)
        self.line, self.python_2 = line, python_2


class SourceText:
    """The text of a file's bytes; `UnreadableSource` if nothing can be made of them."""

    def __init__(self, data: bytes) -> None:
        # Lines may end in a carriage return alone, which `readline` does not know.
        lines = io.BytesIO(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        try:
            self.encoding, _ = tokenize.detect_encoding(lines.readline)
            self.text = data.decode(self.encoding)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise UnreadableSource(f"its text cannot be decoded: {error}") from None
        if self.text.encode(self.encoding) != data:
            raise UnreadableSource(f"its text would not be the same when it is written again as {self.encoding}")

    def parse(self) -> ast.Module:
        """The syntax tree; `UnreadableSource` says whether this looks like Python 2."""
        try:
            with warnings.catch_warnings():
                # Somebody else's escape sequences are none of our business.
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except SyntaxError as error:
            raise UnreadableSource(
                str(error.msg), error.lineno or 0, any(sign.search(self.text) for sign in _PYTHON_2)
            ) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise UnreadableSource(str(error) or type(error).__name__) from None

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def offset(self, line: int, column: int) -> int:
        """The place of a syntax tree's position, which counts bytes of UTF-8, in the text."""
        start = self._starts[line - 1]
        return start + len(self.text[start : start + column].encode()[:column].decode(errors="ignore"))

    def span(self, node: ast.expr | ast.stmt | ast.alias) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def line_of(self, offset: int) -> int:
        return len(_LINE_END.findall(self.text, 0, offset)) + 1

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The file's bytes with these edits, and nothing else, changed."""
        pieces, at = [], 0
        for edit in sorted(edits):
            assert self.text.startswith(edit.old, edit.start)
            pieces += [self.text[at : edit.start], edit.new]
            at = edit.start + len(edit.old)
        return "".join([*pieces, self.text[at:]]).encode(self.encoding)
