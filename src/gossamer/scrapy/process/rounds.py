"""Which round of its group a worker takes part in, and that the end of one is noted.

A worker goes on with a round that is not over, and begins the next one after one that is: as plain Scrapy, which crawls again
whenever it is run. It begins none where that is decided elsewhere (see `why_not`), and does not guess who started it: a fleet whose
workers are started again after a failure sets GOSSAMER_ROUND.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gossamer.courier import Courier
from gossamer.courier.outage import Sleep
from gossamer.courier.rounds import follow, states_now
from gossamer.courier.transport import Ask
from gossamer.errors import (
    FrontierUnavailable,
    GossamerError,
    GroupDropping,
    OtherArguments,
    UnknownCrawl,
    UnknownGroup,
)
from gossamer.frontier.contract import Frontier
from gossamer.model import EndState, PartitionState, RoundInfo, StartState, Token
from gossamer.model.plural import counted, counted_are
from gossamer.model.reply import Drained
from gossamer.scrapy import spider_file
from gossamer.scrapy.process.exit_code import on_command_line
from gossamer.sites.format import Schedule
from gossamer.sites.schedule import is_late

logger = logging.getLogger(__name__)

AGAIN = 0.5
"""Seconds from one question to the next."""
_loaded = time.monotonic()
NOTE = "arguments "
RECENT = 10
"""How many rounds to search for the one that this worker was meant for."""
_known: set[tuple[str, str]] = set()
"""Groups, by crawl, that this process has worked for."""
_first_notes: dict[tuple[str, str], str] = {}
"""What is noted of the arguments of the first crawl of a group in this process."""


def _forked() -> None:
    """The child has run since it was forked, and has worked for no group."""
    global _loaded
    _loaded = time.monotonic()
    _known.clear()
    _first_notes.clear()


os.register_at_fork(after_in_child=_forked)


def noted(given: Mapping[str, Any]) -> str:
    """What is noted of a spider's arguments: their names, and a digest of their values, which may be secret. "" if there are
    none. Those that begin with `_` are of schedulers (`_job` of scrapyd), and do not count."""
    pairs = sorted((name, _text(value)) for name, value in given.items() if not name.startswith("_"))
    if not pairs:
        return ""
    return f"{NOTE}{', '.join(name for name, _ in pairs)} ({_digest(repr(pairs))})"[:500]


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()


def own_group(crawl: str, group: str, note: str) -> str:
    """The group of a crawl in this process: the given one for the first crawl and those with the same arguments, `GROUP@DIGEST` for others.
    So each has its own rounds, seen memory and feeds, as several crawls of one process have in plain Scrapy."""
    first = _first_notes.setdefault((crawl, group), note)
    return group if note == first else f"{group}@{_digest(note)}"


def _text(value: Any) -> str:
    """A value as every process writes it; of an object that is no plain value only its kind."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return repr(sorted((_text(key), _text(part)) for key, part in value.items()))
    if isinstance(value, set | frozenset):
        return repr(sorted(map(_text, value)))
    if isinstance(value, list | tuple):
        return repr([_text(part) for part in value])
    if value is None or isinstance(value, bool | int | float | bytes):
        return repr(value)
    return f"{type(value).__module__}.{type(value).__qualname__}"


def fits(info: RoundInfo, mine: str) -> bool:
    """Whether a round was begun with these arguments, as far as its note says."""
    return info.note == mine or bool(info.note and not info.note.startswith(NOTE))


def compare(group: str, info: RoundInfo, mine: str) -> None:
    """OtherArguments where a round that is not over was begun with others than these."""
    if not fits(info, mine):
        theirs = info.note or "no arguments"
        raise OtherArguments(
            f"Round {info.round} of {group} is not over and was begun with {theirs}; this worker has {mine or 'no arguments'}. "
            "Go on with it by the same -a, or crawl the other beside it under a name of its own: -s GOSSAMER_GROUP=NAME. "
            f"To give the round up, run `gossamer group drop {group}` or `gossamer crawl --fresh`. "
            "GOSSAMER_ARGUMENTS=any lets workers have different ones."
        )


async def owes_start(ask: Ask, group: str, number: int, mine: str, choice: str) -> bool:
    """Whether a worker whose arguments may differ from those of the others runs its own start(), after one that ran: its requests may depend on
    them. `choice` is GOSSAMER_ROUND; one that only joins begins nothing in a round that is over."""
    info = (await _recent(ask, group, number))[0]
    if fits(info, mine) or (choice == "join" and info.ended is not None):
        return False
    logger.info(
        "start() of round %d of %s ran with %s; this worker has %s, and runs its own. What both yield is queued once.",
        number, group, info.note or "no arguments", mine or "no arguments",
    )  # fmt: skip
    return True


def process_age() -> float:
    """For how many seconds this process runs; where the system does not say, since it loaded this or was forked."""
    try:
        began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        # In some containers the uptime is theirs, and the beginning counts from the machine's.
        return max(float(Path("/proc/uptime").read_text().split()[0]) - began, time.monotonic() - _loaded)
    except (OSError, ValueError, IndexError):
        return time.monotonic() - _loaded


def started(crawl: str, group: str, made: float) -> float:
    """When a worker was started, by the monotonic clock. On a command line that is when its process began, which may take seconds
    to load; but only for its first crawl of the group. A script may wait for its time: there it is `made`, when Scrapy began to
    crawl."""
    first = (crawl, group) not in _known
    _known.add((crawl, group))
    return time.monotonic() - process_age() if first and on_command_line() else made


def why_not(
    choice: str, recent: Sequence[RoundInfo], since: float, *, mine: str = "", same: bool = True, waits: bool = False
) -> str:
    """Why a worker begins no new round after one that is over; "" if it does. `choice` is GOSSAMER_ROUND, `recent` are the last
    rounds, the newest first, `since` the server's time when the worker was started, `waits` whether its spider waits for tasks.
    One with other arguments than `mine` is no round that the worker was meant for, unless they need not be the `same`."""
    if choice == "join":
        return "GOSSAMER_ROUND is join; to crawl again, set it to new"
    if choice == "auto" and waits:
        return "its spider waits for tasks; to run start() again, set GOSSAMER_ROUND to new"
    for info in recent:
        if info.ended is not None and info.ended > since and (not same or fits(info, mine)):
            which = "it" if info is recent[0] else f"round {info.round}, which has the same arguments,"
            return f"{which} ended while this worker was starting; run it again to crawl again"
    return ""


def log_limits(settings: Any) -> None:
    """CLOSESPIDER_* end one worker, not the crawl."""
    names = ("TIMEOUT", "TIMEOUT_NO_ITEM", "PAGECOUNT", "PAGECOUNT_NO_ITEM", "ITEMCOUNT", "ERRORCOUNT")
    for name in (f"CLOSESPIDER_{name}" for name in names):
        if settings.getfloat(name):
            logger.info(
                "%s counts what this worker does alone: when it closes the spider here, other workers go on, and what is left "
                "stays for the next run.",
                name,
            )


class OtherWorkers(Enum):
    """Who else is in a group that is drained."""

    NOBODY = auto()
    ENDING = auto()
    """Workers that end now."""
    WAITING = auto()
    """Workers that wait for more; they run the start of any new round."""


class RoundEnding(OtherArguments):
    """The last round was begun with other arguments, and its workers are about to end."""


def is_over(drained: Drained, info: RoundInfo | None, choice: str) -> bool:
    """Whether nothing is left of a round. For a run that begins the next one in any case (GOSSAMER_ROUND is new), tasks that came after the
    round's end are of that one."""
    ended = info is not None and info.ended is not None
    return drained.drained or (choice == "new" and ended and not drained.open)


async def take_part(
    ask: Ask,
    group: str,
    choice: str,
    *,
    mine: str,
    same: bool,
    waits: bool,
    other_workers: OtherWorkers,
    follows: bool,
    began: float,
) -> int:
    """Go on with the present round, or begin the next one. OtherArguments where the present one was begun with other arguments
    than `mine`, unless they need not be the `same`. `follows`: begin none beside workers that wait for more. `began`: see `started`.
    Returns the number of the round whose arguments are settled so far; -1 where no worker has claimed it yet: it is for those of the
    worker that runs its start (see `claim`)."""
    counts = await ask(Frontier.counts, group)
    row = next(row for row in counts.groups if row.group == group)
    drained = await ask(Frontier.drained, group)
    recent = await _recent(ask, group, row.round)
    info = recent[0]
    since = counts.now - (time.monotonic() - began)
    refused = why_not(choice, recent, since, mine=mine, same=same, waits=waits)
    if not is_over(drained, info, "" if refused else choice):
        unclaimed = row.start != "done" and not info.note
        if same and info.began is not None and not unclaimed:
            compare(group, info, mine)
        if row.start == "owed":
            # The start itself counts as one that is open.
            there = drained.open + drained.tasks - 1
            more = f" {there:,} {'request is' if there == 1 else 'requests are'} there already." if there > 0 else ""
            logger.info("Round %d of %s begins.%s", row.round, group, more)
        else:
            left = f"{drained.open:,} left" + (f", {counted(drained.tasks, 'task')} waiting" if drained.tasks else "")
            logger.info("Going on with round %d of %s: %s.", row.round, group, left)
        return -1 if unclaimed else int(row.round)
    if choice != "new" and waits and counts.led and await spider_file.owes_tasks(ask, group, info):
        logger.info("Going on with round %d of %s: its tasks are not there yet.", row.round, group)
        return int(row.round)
    if info.ended is None and other_workers is OtherWorkers.NOBODY:
        # No worker noted its end: do that before anything else.
        await end(ask, group, Token.fresh())
    if not refused and info.ended is None and other_workers is OtherWorkers.ENDING:
        if same and not fits(info, mine):
            raise RoundEnding(
                f"Round {row.round} of {group} was begun with {info.note or 'no arguments'}, and its workers have not ended yet; this "
                f"worker has {mine or 'no arguments'}. Run it again."
            )
        refused = "other workers are about to end; run it again to crawl again"
    if not refused and info.ended is None and other_workers is OtherWorkers.WAITING:
        if follows:
            refused = (
                "other workers wait for more, and this one joins them; to run start() again, set GOSSAMER_ROUND to new"
            )
        else:
            await end(ask, group, Token.fresh())
    if refused:
        logger.warning("Round %d of %s is over: %s.", row.round, group, refused)
        return int(row.round)
    # Of several workers that find it drained, all ask for the same next one.
    number = await ask(Frontier.new_round, group, row.round + 1, trigger="run again")
    logger.info(
        "Round %d of %s is over; round %d begins. To end here instead, set GOSSAMER_ROUND to join.",
        row.round,
        group,
        number,
    )
    return -1


async def claim(ask: Ask, group: str, number: int, state: StartState, mine: str, *, same: bool) -> bool:
    """Note what a round's start runs with, or OtherArguments where it is another worker's: of several that came at once, only the
    one that runs the start knows that it is its own. Whether the round is this worker's too; False: that is not known yet."""
    info = (await _recent(ask, group, number))[0]
    if state is StartState.GRANTED:
        if mine != info.note and (mine or info.note.startswith(NOTE)):
            await ask(Frontier.round_note, group, number, {"note": mine})
    elif same and (info.note or state is StartState.DONE):
        compare(group, info, mine)
    return state is StartState.GRANTED or not same or fits(info, mine)


async def log_dead_letters(ask: Ask, group: str) -> None:
    """How many dead letters there are, and how to see them."""
    try:
        dead = sum(row.dead for row in (await ask(Frontier.counts, group)).groups)
    except GossamerError:
        return  # what is wrong with the server is logged elsewhere
    if dead:
        logger.warning(
            "%s %s of %s: `gossamer dead list --group %s` says why, `gossamer dead replay --all --group %s` tries them again.",
            f"{dead:,}", "dead letter" if dead == 1 else "dead letters", group, group, group,
        )  # fmt: skip


async def _recent(ask: Ask, group: str, number: int) -> list[RoundInfo]:
    """The round of that number and what is known of those before it, the newest first."""
    found = [info for info in await ask(Frontier.rounds, group, RECENT) if info.round <= number]
    if not found or found[0].round != number:
        found.insert(0, RoundInfo(group, number, "running", None, None, None, "", "", 0, 0, 0, 0, False, ""))
    return found


async def end(ask: Ask, group: str, token: Token, schedule: Schedule | None = None, only: int | None = None) -> bool:
    """Note that the present round is over, if it is, and whether it is late; whether this worker is the one who did. `only`: if it is the
    round of that number."""
    try:
        if only is not None and [info.round for info in await ask(Frontier.rounds, group, 1)] != [only]:
            return False
        state, number = await ask(Frontier.end_round, group, token)
        if state is not EndState.GRANTED:
            return False
        late = False
        if schedule is not None:
            [info] = await ask(Frontier.rounds, group, 1)
            late = info.began is not None and is_late(schedule, info.began, info.ended or info.began)
        if not await ask(Frontier.ended, group, token, {"late": True} if late else {}):
            return False
    except GossamerError as error:
        logger.warning("The end of the round of %s was not noted: %s", group, error)
        return False
    logger.info("Round %d of %s is over.", number, group)
    return True


async def left(ask: Ask, sleep: Sleep, courier: Courier, then: Mapping[int, PartitionState], seconds: float) -> str:
    """Why a worker that ended as drained should not have; "" if it was right. Asked as late as possible, and for at most `seconds`:
    the server that answered drained, in the states of `then`, may have been replaced by one that knows less.
    The courier may have heard of that one by its last words already."""
    until, group = courier.link.now() + seconds, courier.plan.group
    while True:
        try:
            try:
                drained = await ask(Frontier.drained, group)
            except (UnknownGroup, GroupDropping):
                drained = None  # it was dropped, or its server is another one
            if drained is not None and drained.drained:
                return ""
            if follow(then, await states_now(ask, courier.token)):
                return ""  # there is something new, or it was dropped
            found = "the group is not there" if drained is None else f"{counted_are(drained.open, 'request')} left"
            return f"its server was replaced or lost its last writes since it answered drained, and {found}."
        except UnknownCrawl as error:
            return f"its server answered drained, and has lost the crawl since: {error}"
        except GossamerError as error:
            if not isinstance(error, FrontierUnavailable) or courier.link.now() >= until:
                return f"whether its round is over was not confirmed: {error}"
            await sleep(AGAIN)
