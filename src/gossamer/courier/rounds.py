"""What workers of both engines do about the rounds of their groups."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping

from gossamer.courier.outage import Sleep, patiently
from gossamer.courier.transport import Ask
from gossamer.errors import GossamerError
from gossamer.frontier.contract import Frontier
from gossamer.model import PartitionState, Token
from gossamer.model.reply import START_FAILED
from gossamer.model.request import AddKey

logger = logging.getLogger(__name__)

DEFINED_LATELY = 60.0
"""Seconds after which what a worker has defined is not defined again if the server may have an older state: operators may have changed it."""


def follow(earlier: Mapping[int, PartitionState], later: Mapping[int, PartitionState]) -> bool:
    """Whether all that was learned in the earlier states is still true in the later ones."""
    return all(state.leads_to(later.get(place, state)) for place, state in earlier.items())


async def states_now(ask: Ask, token: Token) -> Mapping[int, PartitionState]:
    """The states of the frontier, asked of every partition when the courier has ended. `token` is its last one."""
    return (await ask(Frontier.exchange, token.next().next(), everywhere=True)).states


def start_key(group: str, number: int, place: int | str) -> AddKey:
    """The key of a start's request at a place: whoever runs the start again adds nothing twice. The server reads the round's number in
    it (parts/state/enqueue.lua)."""
    return AddKey(f"s{group}:{number}:{place}")


async def bury_start(ask: Ask, sleep: Sleep, group: str, number: int, error: BaseException, whose: str = "") -> None:
    """Make a dead letter of a start that failed: what it yielded counts, and the rest must not go unnoticed. `whose`: where a round has several
    starts, the arguments of this one."""
    detail = "".join(traceback.format_exception(error))
    key = AddKey(f"start {group} {number} {whose}".rstrip())
    await patiently(ask, sleep, "", Frontier.bury, group, b"", reason=START_FAILED, key=key, detail=detail)


async def give_back(ask: Ask, verb: Callable[[Frontier, str, Token], bool], group: str, token: Token) -> None:
    """Release the lease of a start or of an end, so that another worker takes it at once."""
    try:
        await ask(verb, group, token)
    except GossamerError as error:
        logger.warning("A lease of %s could not be given back; it runs out instead: %s", group, error)
