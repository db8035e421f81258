"""Items on their way into a list, with the page that they come from: neither lost nor doubled.

They are pushed before their page is settled, under the page's name: whoever works on the page again, because its worker died
in between, pushes nothing. Names are forgotten once their page is settled.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from gossamer.scrapy_redis.connection import Client, RedisError
from gossamer.scrapy_redis.threads import in_thread
from gossamer.worker.page import Page

logger = logging.getLogger(__name__)

PAGE: ContextVar[Page | None] = ContextVar("gossamer_page", default=None)
"""The page whose item is in the pipelines, where its scheduler takes items along."""

KEEP_SECONDS = 7 * 86400
AGAIN_SECONDS = 1.0

# KEYS    1: the list; 2: sorted set: names of pages whose items were pushed, by when
# ARGV    1: seconds to keep names for; 2: how many names to forget; those; then for each page its name, how many items, those
# Returns how many items were pushed
SCRIPT = """
local now = tonumber(redis.call('TIME')[1])
local forget, at, pushed = tonumber(ARGV[2]), 3, 0
for i = 3, 2 + forget do redis.call('ZREM', KEYS[2], ARGV[i]) end
at = at + forget
while at <= #ARGV do
  local name, count = ARGV[at], tonumber(ARGV[at + 1])
  if redis.call('ZADD', KEYS[2], 'NX', now, name) == 1 then
    for i = at + 2, at + 1 + count do redis.call('RPUSH', KEYS[1], ARGV[i]) end
    pushed = pushed + count
  end
  at = at + 2 + count
end
local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, 200)
if #old > 0 then redis.call('ZREM', KEYS[2], unpack(old)) end
return pushed
"""


class Parcel(NamedTuple):
    """The items of one page, by list, and what to do when they are stored."""

    name: str
    items: list[tuple[str, bytes]]
    done: Callable[[], None]


class ItemLists:
    """Pushes the items of pages, many pages at a time, one call under way. On Scrapy's own thread but for the calls."""

    def __init__(self, server: Client, spawn: Callable[[Any], object], sleep: Callable[[float], Any]) -> None:
        self._server, self._spawn, self._sleep = server, spawn, sleep
        self._waiting: list[Parcel] = []
        self._settled: dict[str, list[str]] = defaultdict(list)
        self._busy = False

    def __len__(self) -> int:
        return len(self._waiting) + self._busy

    def put(self, parcel: Parcel) -> None:
        self._waiting.append(parcel)
        if not self._busy:
            self._busy = True
            self._spawn(self._run())

    def forget(self, name: str, items: list[tuple[str, bytes]]) -> None:
        """The page is settled: nobody works on it again."""
        for key in {key for key, _ in items}:
            self._settled[key].append(name)

    async def _run(self) -> None:
        told = False
        while self._waiting:
            some, self._waiting = self._waiting, []
            settled, self._settled = self._settled, defaultdict(list)
            while True:
                try:
                    await in_thread(self._push, some, settled)
                    break
                except RedisError as error:
                    if not told:
                        logger.warning("Items cannot be stored; their pages stay open until they can: %s", error)
                    told = True
                    await self._sleep(AGAIN_SECONDS)
            for parcel in some:
                parcel.done()
        self._busy = False

    def _push(self, parcels: list[Parcel], settled: dict[str, list[str]]) -> None:
        for key in dict.fromkeys(key for parcel in parcels for key, _ in parcel.items):
            forget = settled.get(key, [])
            words: list[Any] = [KEEP_SECONDS, len(forget), *forget]
            for parcel in parcels:
                data = [one for where, one in parcel.items if where == key]
                if data:
                    words += parcel.name, len(data), *data
            self._server.eval(SCRIPT, 2, key, _names(key), *words)


def _names(key: str) -> str:
    """Where the names of pages lie: in the same slot of a cluster as the list."""
    return f"{key}:pages" if "{" in key else f"{{{key}}}:pages"


def attach(scraper: Any, page_of: Callable[[Any], Page | None]) -> bool:
    """Let pipelines know the page of their item; False if this Scrapy does not allow it."""
    for name, wrap in (("start_itemproc_async", _awaited), ("start_itemproc", _called)):
        if hasattr(scraper, name):
            setattr(scraper, name, wrap(getattr(scraper, name), page_of))
            return True
    return False


def _awaited(original: Any, page_of: Callable[[Any], Page | None]) -> Any:
    async def start_itemproc_async(item: Any, *, response: Any) -> None:
        PAGE.set(page_of(response))
        try:
            await original(item, response=response)
        finally:
            PAGE.set(None)

    return start_itemproc_async


def _called(original: Any, page_of: Callable[[Any], Page | None]) -> Any:
    def start_itemproc(item: Any, *, response: Any) -> Any:
        # Scrapy 2.13 makes a Deferred of a coroutine here, which keeps what is set now for as long as it runs.
        PAGE.set(page_of(response))
        try:
            return original(item, response=response)
        finally:
            PAGE.set(None)

    return start_itemproc
