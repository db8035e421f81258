"""Tasks from the command line, a file or a stream: lines of URLs or JSON, or rows of CSV. What cannot be used is named with its line."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BufferedIOBase
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from gossamer.cli import output
from gossamer.errors import PushStopped
from gossamer.model.plan.task_row import task_of_cells

BOM = b"\xef\xbb\xbf"
CHUNK = 1 << 20
Look = Callable[[bytes], bytes]


class Line(NamedTuple):
    """A piece of input up to a line: the task in it (empty: none), and how many bytes were read for it."""

    number: int
    task: bytes
    size: int


class TaskInput:
    """Tasks as they come, looked at; `PushStopped` at the first that cannot be used, after those before it."""

    def __init__(
        self, parts: Iterator[list[Line]], look: Look, limit: int, total: int | None, unit: str = "line"
    ) -> None:
        self._parts, self._look, self._limit, self.total, self._unit = parts, look, limit, total, unit
        self.number = self.size = self.pushed = 0
        self._numbers: list[int] = []
        self.rest = ""
        """The first that was not pushed."""

    def __iter__(self) -> Iterator[list[bytes]]:
        while True:
            try:
                part = next(self._parts, None)
            except BadLine as error:
                raise self._stopped(error.number or self.number + 1, error) from None
            if part is None:
                return
            self._numbers = []
            good, problem = self._checked(part)
            if good:
                yield good
            if problem is not None:
                raise self._stopped(*problem)

    def take(self, count: int) -> None:
        """The number of the last tasks that were pushed."""
        self.pushed += count
        if count < len(self._numbers):
            self.rest = f"{self._unit} {self._numbers[count]:,}"

    def drain(self) -> None:
        for _ in self:
            pass

    def _checked(self, lines: Sequence[Line]) -> tuple[list[bytes], tuple[int, ValueError] | None]:
        good = []
        for number, task, size in lines:
            try:
                if len(task) > self._limit:
                    raise too_long(self._limit)
                if task.strip():
                    good.append(self._look(task))
                    self._numbers.append(number)
            except ValueError as problem:
                return good, (number, problem)
            self.size += size
            self.number = number
        return good, None

    def _stopped(self, number: int, problem: ValueError) -> PushStopped:
        done = (
            f"{output.counted(self.pushed, 'task')} before it {'was' if self.pushed == 1 else 'were'} pushed"
            if self.pushed
            else "Nothing was pushed"
        )
        return PushStopped(f"{self._unit} {number:,}: {problem}. {done}; with --raw it is not checked.")


class BadLine(ValueError):
    """Input that cannot be divided into tasks; at the line after the last if `number` is 0."""

    def __init__(self, problem: str, number: int = 0) -> None:
        super().__init__(problem)
        self.number = number


@contextlib.contextmanager
def open_tasks(data: Sequence[str] | None, file: str, look: Look, limit: int, table: bool) -> Iterator[TaskInput]:
    """The tasks of the command line, of a file or of standard input (-). A regular file is read twice, so that nothing is pushed of
    one that cannot be pushed whole. `table`: it is CSV."""
    divide = rows if table or file.lower().endswith(".csv") else lines
    if data:
        tasks = [text.encode("utf-8", "surrogateescape") for text in data]
        parts = [[Line(number, task, len(task)) for number, task in enumerate(tasks, 1)]]
        yield TaskInput(iter(parts), look, limit, sum(map(len, tasks)), "task")
    elif file == "-":
        yield TaskInput(divide(cast(BufferedIOBase, sys.stdin.buffer), limit), look, limit, None)
    else:
        with open(file, "rb") as stream:
            about = os.fstat(stream.fileno())
            size = about.st_size if stat.S_ISREG(about.st_mode) else None
            if size is not None:
                TaskInput(divide(stream, limit), look, limit, size).drain()
                stream.seek(0)
            yield TaskInput(divide(stream, limit), look, limit, size)


def lines(stream: BufferedIOBase, limit: int) -> Iterator[list[Line]]:
    """The lines of a stream, as many at a time as have come; so a slow producer is not kept waiting for a full batch."""
    number = 0
    for part in chunks(stream, limit):
        found = []
        for text in part:
            number += 1
            found.append(Line(number, text.removeprefix(BOM) if number == 1 else text, len(text) + 1))
        yield found


def chunks(stream: BufferedIOBase, limit: int) -> Iterator[list[bytes]]:
    """The bytes of lines as they come; BadLine at one that does not end within `limit` bytes."""
    rest = b""
    while data := stream.read1(CHUNK):
        *found, rest = (rest + data).split(b"\n")
        yield found
        if len(rest) > limit:
            raise BadLine(str(too_long(limit)))
    if rest:
        yield [rest]


def rows(stream: BufferedIOBase, limit: int) -> Iterator[list[Line]]:
    """The rows of CSV as tasks, with the names of the first line: `url`, `priority`, `meta.section` and so on. Empty cells are left out."""
    left, found = [0, 0], []

    def texts() -> Iterator[str]:
        for part in lines(stream, limit):
            for at, (number, line, size) in enumerate(part):
                left[:] = len(part) - at - 1, left[1] + size
                try:
                    yield line.decode() + "\n"
                except UnicodeDecodeError:
                    raise BadLine("it is no text in UTF-8", number) from None

    csv.field_size_limit(max(limit, 131_072))
    table = csv.reader(texts(), strict=True)
    problem = None
    try:
        names = _names([name.strip() for name in next(table, [])])
        for row in table:
            if any(row):
                found.append(Line(table.line_num, _task(names, row, table.line_num), left[1]))
                left[1] = 0
            if not left[0] and found:
                # Nothing more has come yet.
                yield found
                found = []
    except csv.Error as error:
        problem = BadLine(f"it is no CSV ({error})", table.line_num)
    except BadLine as error:
        problem = error
    if found:
        yield found
    if problem is not None:
        raise problem


def _names(names: list[str]) -> list[str]:
    steps = {name.rpartition(".")[0] for name in names}
    if "url" not in names or "" in names or len(set(names)) < len(names) or steps.intersection(names):
        raise BadLine("the first line must name the columns of the table, each once, and one of them url", 1)
    return names


def _task(names: Sequence[str], row: Sequence[str], number: int) -> bytes:
    try:
        return json.dumps(task_of_cells(names, row), ensure_ascii=False).encode()
    except ValueError as problem:
        raise BadLine(str(problem), number) from None


def checked(task: bytes) -> bytes:
    """A task that a spider can use, without blanks around it: a URL, or a JSON object with one. ValueError says what is wrong."""
    task = task.strip()
    try:
        text = task.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
    if text[:1] not in "{[":
        _check_url(text)
        return task
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError("it is JSON but no object")
    if not isinstance(value.get("url"), str) or not value["url"]:
        raise ValueError("it has no url")
    _check_url(value["url"])
    return task


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"its URL cannot be read ({error})") from None
    if not parts.scheme or (not host and parts.scheme not in ("data", "file")):
        raise ValueError(f"{text[:100]!r} is neither a URL nor a JSON object")
    if any(character.isspace() for character in text):
        raise ValueError(f"the URL {text[:100]!r} has blanks in it")


def too_long(limit: int) -> ValueError:
    return ValueError(f"it is longer than GOSSAMER_PAYLOAD_MAX_BYTES allows ({limit:,} bytes)")


def member(task: bytes, path: str) -> str:
    """What a task has at a path such as `meta.id`, as text; a task that is a URL has a `url` only. ValueError if there is nothing."""
    text = task.strip().decode("utf-8", "replace")
    value: Any = {"url": text}
    if text[:1] == "{":
        try:
            value = json.loads(text)
        except ValueError:
            value = None
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        raise ValueError(f"it has no {path}, which --key names")
    return value if isinstance(value, str) else json.dumps(value)
