"""What the crawl's spider files say of a worker's spider: arguments that it is started with, and when its rounds are late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gossamer.courier.transport import Ask
from gossamer.errors import OtherArguments, SiteError, UnknownCrawl
from gossamer.frontier.contract import Frontier
from gossamer.frontier.valkey import ValkeyFrontier
from gossamer.model import RoundInfo
from gossamer.settings import Settings
from gossamer.sites.format.spider import SpiderPlan
from gossamer.sites.spider import KIND, plan_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

AGAIN = "arguments"
"""Why a worker ends that begins again with the arguments that its spider file has now."""

_by_hand: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""The arguments that were given by hand, of crawlers that can begin again."""


def with_planned(settings: Settings, group: str, given: Mapping[str, str]) -> dict[str, str]:
    """The arguments of a worker: those of the crawl's spider file, and those given by hand, which go before."""
    try:
        with ValkeyFrontier.find(settings) as frontier:
            return {**planned(frontier, group), **given}
    except UnknownCrawl:
        return dict(given)


def planned(frontier: Frontier, group: str) -> Mapping[str, str]:
    """The arguments that the crawl's spider files have for a group."""
    names = [info.name for info in frontier.documents(KIND) if not info.deleted]
    found = plan_of(group, ((name, frontier.document(KIND, name).text) for name in names))
    return found[1].arguments if found is not None else {}


def can_begin_again(crawler: Crawler, given: Mapping[str, str]) -> None:
    """Let a worker whose spider file gets other arguments end with the reason AGAIN: whoever runs it starts it once more."""
    _by_hand[crawler] = frozenset(given)


def by_hand(crawler: Crawler) -> frozenset[str] | None:
    """The arguments that were given by hand; None: the worker cannot begin again."""
    return _by_hand.get(crawler)


async def read_plan(ask: Ask, group: str) -> tuple[str, SpiderPlan] | None:
    """The spider file that plans a group, and what it says."""
    names = [info.name for info in await ask(Frontier.documents, KIND) if not info.deleted]
    files = [(name, (await ask(Frontier.document, KIND, name)).text) for name in names]
    return plan_of(group, files)


async def owes_tasks(ask: Ask, group: str, info: RoundInfo) -> bool:
    """Whether a planner has to push the tasks of a round yet, by the spider file that plans it."""
    if info.began is None or info.closed is not None or info.tasks:
        return False
    try:
        found = await read_plan(ask, group)
    except SiteError:
        return True  # planners go on with what it said before
    return found is not None and found[1].tasks is not None


def changed(now: Mapping[str, str], mine: Mapping[str, Any], hand: frozenset[str] | None) -> list[str]:
    """The arguments that a worker lacks, or has with another value than its spider file has now. Without `hand` all that it has was
    given by hand."""
    given = frozenset(mine) if hand is None else hand
    names = {*now, *mine} - given
    return sorted(name for name in names if not name.startswith("_") and now.get(name) != mine.get(name))


def refusal(group: str, file: str, names: list[str], now: Mapping[str, str]) -> OtherArguments:
    """Why a worker that cannot begin again ends."""
    words = " ".join(f"-a {name}={now[name]}" for name in names if name in now)
    return OtherArguments(
        f"The spider file {file} of the crawl has other arguments for {group} than this worker: {', '.join(names)}. Start it with "
        f"`gossamer work`, which takes them from there{f', or give them: {words}' if words else ''}."
    )
