"""`gossamer task`: what outside producers push."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from typing import Annotated

import typer

from gossamer.cli import options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.cli.steer.feed import feed
from gossamer.cli.steer.task_input import TaskInput, checked, member, open_tasks
from gossamer.cli.view.status import drain
from gossamer.errors import FrontierError, FrontierUnavailable, PushStopped
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.producer import Kind, Offer, Producer
from gossamer.status.tasks import task_queues

app = options.Noun("Tasks: what outside producers push to spiders.")
app.command()(feed)


@app.command("list")
def list_(group: options.Group = "", json: options.Json = False, where: options.Where = options.HERE) -> None:
    """List the keys that feed groups, how many tasks wait there, and how long they take at the present pace."""
    with where.find() as frontier:
        queues = task_queues(frontier, frontier.counts(group))
    if json:
        output.write_json([each._asdict() for each in queues])
    else:
        rows = [
            (each.group, each.key, f"{each.waiting:,}", f"{each.leased:,}", drain(each.drain_seconds))
            for each in queues
        ]
        output.write_table(("group", "key", "waiting", "leased", "done in"), rows)


@app.command()
def push(
    key: Annotated[str, argument("KEY", "The key that the spider reads, such as news:start_urls.")],
    data: Annotated[list[str] | None, argument("DATA", "Tasks: a URL or a JSON object with a url each.")] = None,
    file: Annotated[str, option("--file", "FILE", "A file of such tasks, one per line; - is standard input.")] = "",
    table: Annotated[
        bool, flag("--csv", "The input is CSV, its first line names the columns: url, priority, meta.section …")
    ] = False,
    kind: Annotated[
        Kind | None, option("--kind", "", "What a new key becomes; an existing one must be that. [default: list]")
    ] = None,
    priority: Annotated[
        float | None, option("--priority", "N", "In a sorted set (zset): the highest goes first.")
    ] = None,
    max_waiting: Annotated[
        int | None, option("--max-waiting", "N", "Let no more than N tasks wait in the key: wait for room.", min=1)
    ] = None,
    no_wait: Annotated[bool, flag("--no-wait", "With --max-waiting: stop where there is no room.")] = False,
    unique: Annotated[bool, flag("--unique", "Push no task that waits already, or that a worker has.")] = False,
    unique_for: Annotated[
        str, option("--unique-for", "TIME", "As --unique, and none that was pushed less than TIME ago: 10m, 7d.")
    ] = "",
    unique_by: Annotated[
        str, option("--key", "NAME", "What identifies a unique task: url, meta.id … [default: the whole task]")
    ] = "",
    raw: Annotated[bool, flag("--raw", "Push without a check, for a spider with its own form of tasks.")] = False,
    json: options.Json = False,
    url: options.Url = None,
) -> None:
    """Push tasks to a key that feeds a spider or a site.

    Tasks are checked first: a file with a bad line is rejected as a whole, a stream from that line on. Blank lines
    are skipped. The key need not exist, nor the crawl.
    """
    if bool(data) == bool(file):
        raise typer.BadParameter("give DATA, or --file with a file name or -")
    if no_wait and max_waiting is None:
        raise typer.BadParameter("--no-wait goes with --max-waiting N")
    if unique_by and not (unique or unique_for):
        raise typer.BadParameter("--key goes with --unique or --unique-for TIME")
    known_for = options.seconds(unique_for) if unique_for else 0.0 if unique else None
    settings = options.load_settings(url)
    named = partial(member, path=unique_by) if unique_by else None

    def look(task: bytes) -> bytes:
        task = task if raw else checked(task)
        if named is not None:
            named(task)
        return task

    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open_tasks(data, file, look, settings["GOSSAMER_PAYLOAD_MAX_BYTES"], table))
        function_client = stack.enter_context(FunctionClient.connect(settings))
        producer = Producer(
            function_client, key, kind, priority, max_waiting=max_waiting, unique=known_for, key_of=named
        )
        show = stack.enter_context(progress.live("pushing", source.total, sys.stderr, "bytes"))
        left = _push_all(source, producer, show, wait=not no_wait)
        state = producer.state()
    new, known = producer.pushed.new, producer.pushed.known
    if json:
        told = {"key": key, "kind": producer.kind, "pushed": new + known, "new": new, "waiting": state.waiting}
        output.write_json(told if max_waiting is None else {**told, "room": state.room, "left": left})
    else:
        again = f", {known:,} {'known' if unique or unique_for else 'waited'} already" if known else ""
        room = "" if state.room is None else f", room for {state.room:,} more"
        output.write_line(
            f"{output.counted(new, 'task')} pushed to {key}{again}; {state.waiting:,} wait in this {producer.kind}{room}"
        )
    if source.rest:
        what = "The rest was" if left is None else output.counted_were(left, "task")
        raise PushStopped(
            f"{what} not pushed, from {source.rest} on: no room in {key}. Push again later, or without --no-wait."
        )


def _push_all(source: TaskInput, producer: Producer, show: progress.ProgressDisplay, *, wait: bool) -> int | None:
    """Push all of the input, or as much as there is room for; returns how many found none, None if that is not known."""
    say, left, size = progress.throttled(show), 0, 0

    def waiting(offer: Offer) -> None:
        why = "for memory on the server" if offer.memory else f"for room: {offer.waiting:,} wait"
        say(size, {"tasks": producer.pushed.new + producer.pushed.known, "waiting": why})

    try:
        for tasks in source:
            if left:
                left += len(tasks)
                continue
            found_no_room = len(producer.push(tasks, wait=wait, waiting=waiting).left)
            source.take(len(tasks) - found_no_room)
            left, size = found_no_room, source.size
            if left and source.total is None:
                return None
            say(size, {"tasks": source.pushed})
    except (FrontierUnavailable, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt):
            with contextlib.suppress(FrontierError, KeyboardInterrupt):
                producer.resolve()
        known = producer.pushed.new + producer.pushed.known
        more = f"; {producer.doubtful:,} more may have been, too" if producer.doubtful else ""
        output.write_notice(f"{output.counted_were(known, 'task')} pushed{more}")
        raise
    return left
