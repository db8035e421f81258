"""`gossamer dead`: what failed for good."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from json import dumps
from typing import Annotated, Any

import typer

from gossamer.cli import exit_codes, options, output, progress
from gossamer.cli.options import argument, flag, option
from gossamer.cli.project import project_settings
from gossamer.cli.steer.replay import Replay
from gossamer.frontier.codec.redaction import concealed
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.status import dead as status

app = options.Noun("Dead letters: requests that failed for good.")
CALL_LETTERS = 500
_ID = re.compile(r"(\d{1,6})\.(\d{1,18})")
Ids = Annotated[list[str] | None, argument("ID", "Ids as `gossamer dead list` shows them.")]
All = Annotated[bool, flag("--all", "All of them, or all that the other options name.")]
OfReason = Annotated[str, option("--reason", "WORD", "Only those that failed for this reason.")]
OfLane = Annotated[str, option("--lane", "LANE", "Only those of this lane, group.lane.")]


@app.command("list")
def list_(
    group: options.Group = "",
    reason: OfReason = "",
    lane: OfLane = "",
    limit: Annotated[int, option("--limit", "N", "Show at most N.", min=1)] = 100,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """List dead letters, oldest first, with their URLs.

    Without --group those of all groups that are defined; a group that is not defined may be named too.
    """
    with where.find() as frontier:
        found = list(islice(status.scan_dead_of(frontier, group, reason, lane), limit + 1))
        letters, more = found[:limit], len(found) > limit
        # One by one: pages of letters come without what they hold, which may be much.
        urls = [status.dead_url(frontier, letter) for letter in letters]
    if json:
        output.write_json(
            [
                {**status.without_secrets(status.letter_json(letter)), "url": page}
                for letter, page in zip(letters, urls, strict=True)
            ]
        )
    else:
        output.write_table(
            ("id", "at", "lane", "url", "attempts", "reason", "detail"),
            [
                (
                    status.dead_id(x),
                    _when(x.at),
                    x.lane or x.group,
                    page or x.host,
                    x.attempt,
                    x.reason,
                    _last_line(concealed(x.detail)),
                )
                for x, page in zip(letters, urls, strict=True)
            ],
        )
    if more:
        output.write_notice(f"there are more than {limit:,}; raise --limit to see them")


@app.command()
def show(
    letter: Annotated[str, argument("ID", "An id as `gossamer dead list` shows it.")],
    secrets: Annotated[bool, flag("--secrets", "Also cookies, passwords and headers that look like secrets.")] = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Show one dead letter: why it failed, the traceback, the request.

    Secrets of the request are shown as ***, unless --secrets is given.
    """
    partition, number = _parsed(letter)
    with where.find() as frontier:
        found = frontier.dead_letter(partition, number)
    told = {**status.letter_json(found), **status.content_json(found.payload)}
    if not secrets:
        told = status.without_secrets(told)
    if json:
        output.write_json(told)
        return
    content = {name: told.pop(name) for name in status.CONTENT if name in told}
    detail = str(told.pop("detail"))
    for name, value in {**told, "at": _when(found.at)}.items():
        output.write_line(f"{name + ':':<13}{value}")
    if detail:
        output.write_line("")
        for line in detail.splitlines():
            output.write_line(line)
    for name, value in content.items():
        output.write_line("")
        output.write_line(f"{name}:")
        for line in dumps(value, indent=2, ensure_ascii=False).splitlines():
            output.write_line(line)


@app.command()
def replay(
    ids: Ids = None,
    every: All = False,
    group: options.Group = "",
    reason: OfReason = "",
    lane: OfLane = "",
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Queue dead letters again, with attempts and Scrapy's retries reset.

    A request that Scrapy's RetryMiddleware has given up has all its retries again, and the priority it had before them. Their lane must exist, and what was stored must be a request: a bad task is not. Exit code 1 if some could not be
    queued; they stay.
    """
    with where.find() as frontier:
        chosen = _chosen(frontier, ids, every, group, reason, lane)
        done = _change("replaying", chosen, Replay(frontier, _priority_adjust()))
        if done:
            where.log(frontier, "replay", _about(group, lane, reason), output.counted(done, "dead letter"))
    left = len(chosen) - done
    output.write_answer(
        json, {"replayed": done, "left": left}, f"{output.counted_are(done, 'dead letter')} queued again"
    )
    if left:
        output.write_notice(f"{left:,} could not be queued: they are not requests, or their lanes do not exist")
        raise typer.Exit(exit_codes.FAILED)


@app.command()
def drop(
    ids: Ids = None,
    every: All = False,
    group: options.Group = "",
    reason: OfReason = "",
    lane: OfLane = "",
    yes: options.Yes = False,
    json: options.Json = False,
    where: options.Where = options.HERE,
) -> None:
    """Delete dead letters for good."""
    with where.find() as frontier:
        chosen = _chosen(frontier, ids, every, group, reason, lane)
        if chosen:
            options.confirm(f"Drop {output.counted(len(chosen), 'dead letter')} for good?", yes)
        done = _change("dropping", chosen, frontier.drop_dead)
        if done:
            where.log(frontier, "drop", _about(group, lane, reason), output.counted(done, "dead letter"))
    output.write_answer(json, {"dropped": done}, f"{output.counted(done, 'dead letter')} dropped")


def _about(group: str, lane: str, reason: str) -> str:
    """What was chosen, for the log."""
    named = {"group": group, "lane": lane, "reason": reason}
    return " ".join(["dead letters", *(f"{name} {value}" for name, value in named.items() if value)])


def _chosen(
    frontier: ValkeyFrontier, ids: Sequence[str] | None, every: bool, group: str, reason: str, lane: str
) -> list[tuple[int, int]]:
    """Partition and number of the letters that are meant, oldest first; those named must exist."""
    if bool(ids) == every or (ids and (group or reason or lane)):
        raise typer.BadParameter("name dead letters by their ids; or give --all, with --group, --reason or --lane")
    if every:
        return list(dict.fromkeys((x.partition, x.id) for x in status.scan_dead_of(frontier, group, reason, lane)))
    named = list(dict.fromkeys(_parsed(text) for text in ids or ()))
    for partition, number in named:
        frontier.dead_letter(partition, number)
    return named


def _change(what: str, chosen: Sequence[tuple[int, int]], verb: Any) -> int:
    done = 0
    with progress.live(what, len(chosen), sys.stderr, "dead letters") as show:
        say = progress.throttled(show)
        # Neighbours of the same partition go together; the order is kept, since it is the order of the queue.
        for partition, pairs in groupby(chosen, key=lambda pair: pair[0]):
            for numbers in _by(CALL_LETTERS, (number for _, number in pairs)):
                done += verb(partition, numbers)
                say(done)
    return done


def _priority_adjust() -> int:
    """What each retry adds to a priority in the Scrapy project here; else what Scrapy's default is."""
    adjust = project_settings().values.get("RETRY_PRIORITY_ADJUST", -1)
    return adjust if isinstance(adjust, int) else -1


def _by(size: int, numbers: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(numbers)
    while batch := list(islice(rest, size)):
        yield batch


def _parsed(text: str) -> tuple[int, int]:
    match = _ID.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not the id of a dead letter; they look like 0.17")
    return int(match[1]), int(match[2])


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _last_line(detail: str) -> str:
    """Of a traceback the line that says what was raised."""
    lines = detail.strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
