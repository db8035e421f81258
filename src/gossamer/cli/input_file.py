"""A file that a command reads, or standard input in its place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple


class InputFile(NamedTuple):
    """`size` in bytes, None if unknown; `called` is its name for messages."""

    stream: BinaryIO
    size: int | None
    called: str


@contextmanager
def open_input(file: str) -> Iterator[InputFile]:
    """The file of this name; - is standard input."""
    if file == "-":
        yield InputFile(sys.stdin.buffer, None, "standard input")
    else:
        with open(file, "rb") as stream:
            yield InputFile(stream, os.fstat(stream.fileno()).st_size, file)
