"""`gossamer task`: what outside producers push."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BufferedIOBase
from typing import Annotated, cast

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.errors import FrontierUnavailable, PushStopped
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.producer import Kind, Producer, checked, chunks, too_long
from gossamer.status.tasks import TaskQueue, task_queues

app = options.Noun("Tasks: what outside producers push to spiders.")
BOM = b"\xef\xbb\xbf"
Look = Callable[[bytes], bytes]


@app.command("list")
def list_(group: options.Group = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the keys that feed groups, and how many tasks wait there."""
    with where.find() as frontier:
        queues = task_queues(frontier, frontier.counts(group))
    if json:
        output.write_json([each._asdict() for each in queues])
    else:
        rows = [(each.group, each.key, f"{each.waiting:,}", f"{each.leased:,}") for each in queues]
        output.write_table(TaskQueue._fields, rows)


@app.command()
def push(
    key: Annotated[str, argument("KEY", "The key that the spider reads, such as news:start_urls.")],
    data: Annotated[list[str] | None, argument("DATA", "Tasks: a URL or a JSON object with a url each.")] = None,
    file: Annotated[str, option("--file", "FILE", "A file of such tasks, one per line; - is standard input.")] = "",
    kind: Annotated[
        Kind | None, option("--kind", "", "What a new key becomes; an existing one must be that. [default: list]")
    ] = None,
    priority: Annotated[
        float | None, option("--priority", "N", "In a sorted set (zset): the highest goes first.")
    ] = None,
    raw: Annotated[bool, flag("--raw", "Push without a check, for a spider with its own form of tasks.")] = False,
    json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Push tasks to a key that feeds a spider.

    Tasks are looked at first: a file with a line that cannot be used is refused as a whole, a stream from that line on.
    Blank lines are left out. The key need not exist, nor the crawl.
    """
    if bool(data) == bool(file):
        raise typer.BadParameter("give DATA, or --file with a file name or -")
    settings = options.load_settings(url)
    look = _as_it_is if raw else checked
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_input(data, file, look, settings["GOSSAMER_PAYLOAD_MAX_BYTES"]))
        producer = Producer(stack.enter_context(FunctionClient.connect(settings)), key, kind, priority)
        say = progress.throttled(stack.enter_context(progress.live("pushing", source.total, sys.stderr, "bytes")))
        new = 0
        for tasks in source:
            try:
                new += producer.push(tasks)
            except FrontierUnavailable:
                output.write_notice(
                    f"{output.counted_were(source.pushed, 'task')} pushed; the last batch may have been, too"
                )
                raise
            source.pushed += len(tasks)
            say(source.size, {"tasks": source.pushed})
        pushed, waiting = source.pushed, producer.waiting()
    if json:
        output.write_json({"key": key, "kind": producer.kind, "pushed": pushed, "new": new, "waiting": waiting})
        return
    known = f", {pushed - new:,} of them waited already" if new < pushed else ""
    output.write_line(
        f"{output.counted(pushed, 'task')} pushed to {key}{known}; {waiting:,} wait in this {producer.kind}"
    )


class _Input:
    """Tasks as they come, looked at; `PushStopped` at the first that cannot be used, after those before it."""

    def __init__(
        self, parts: Iterator[list[bytes]], look: Look, limit: int, total: int | None, unit: str = "line"
    ) -> None:
        self._parts, self._look, self._limit, self.total, self._unit = parts, look, limit, total, unit
        self.lines = self.size = self.pushed = 0

    def __iter__(self) -> Iterator[list[bytes]]:
        while True:
            try:
                part = next(self._parts, None)
            except ValueError as error:
                raise self._stopped(error) from None
            if part is None:
                return
            good, problem = self._checked(part)
            if good:
                yield good
            if problem is not None:
                raise self._stopped(problem)

    def drain(self) -> None:
        for _ in self:
            pass

    def _checked(self, lines: Sequence[bytes]) -> tuple[list[bytes], ValueError | None]:
        good = []
        for line in lines:
            text = line if self.lines else line.removeprefix(BOM)
            try:
                if len(text) > self._limit:
                    raise too_long(self._limit)
                if text.strip():
                    good.append(self._look(text))
            except ValueError as problem:
                return good, problem
            self.size += len(line) + 1
            self.lines += 1
        return good, None

    def _stopped(self, problem: ValueError) -> PushStopped:
        done = (
            f"{output.counted(self.pushed, 'task')} before it {'was' if self.pushed == 1 else 'were'} pushed"
            if self.pushed
            else "Nothing was pushed"
        )
        return PushStopped(f"{self._unit} {self.lines + 1:,}: {problem}. {done}; with --raw it is not checked.")


def _as_it_is(task: bytes) -> bytes:
    return task


@contextlib.contextmanager
def _input(data: Sequence[str] | None, file: str, look: Look, limit: int) -> Iterator[_Input]:
    if data:
        tasks = [text.encode("utf-8", "surrogateescape") for text in data]
        yield _Input(iter([tasks]), look, limit, sum(map(len, tasks)), "task")
    elif file == "-":
        yield _Input(chunks(cast(BufferedIOBase, sys.stdin.buffer), limit), look, limit, None)
    else:
        with open(file, "rb") as stream:
            about = os.fstat(stream.fileno())
            size = about.st_size if stat.S_ISREG(about.st_mode) else None
            if size is not None:
                # Twice through a file, so that nothing is pushed of one that cannot be pushed whole.
                _Input(chunks(stream, limit), look, limit, size).drain()
                stream.seek(0)
            yield _Input(chunks(stream, limit), look, limit, size)
