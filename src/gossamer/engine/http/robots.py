"""robots.txt: which pages of a host we may fetch, and how slowly. One file per host and scheme, fetched once at a time and
kept for a day."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from protego import Protego

from gossamer.engine.http.credentials import is_own_url, without_credentials
from gossamer.engine.http.deadline import cancel_tasks
from gossamer.engine.http.redirect import follow
from gossamer.model import host_of
from gossamer.model.fetch import DEFAULT, FetchError, FetchOptions
from gossamer.model.network import PRIVATE_ADDRESS, NetworkGuard
from gossamer.model.page import PageRequest, Response
from gossamer.model.politeness import crawl_delay
from gossamer.sites.extract.validity import sign_of

KEPT = 86400.0
KEPT_WITHOUT = 600.0
"""Seconds until a file is fetched again after an error of the server, or a wall in its place."""
FIRST_AGAIN = 5.0
"""Seconds until a file is fetched again after a failed connection; doubled each further time."""
LONGEST_AGAIN = 60.0
"""The most that becomes of it: pages wait for as long with each of their tries, and the round with them."""
LARGEST = 500 * 1024
"""Bytes to read; the rest of a larger file is ignored."""
HOPS = 5
MOST = 20_000


class RobotsVerdict(NamedTuple):
    """What robots.txt says about a page. If the file could not be fetched, everything is forbidden for `after` seconds; `why` is the
    failure of the connection, if it was one."""

    allowed: bool
    after: float = 0.0
    why: FetchError | None = None


ALLOWED, FORBIDDEN = RobotsVerdict(True), RobotsVerdict(False)


class _Rules(NamedTuple):
    """The rules of one file. Without a parser everything is allowed, or nothing is known. `delay` is what it asks for, and `edition`
    the one in which that was told last."""

    until: float
    parser: Protego | None
    unknown: bool = False
    failures: int = 0
    why: FetchError | None = None
    delay: float = 0.0
    edition: int = 0


Fetch = Callable[[PageRequest], Awaitable[Response]]
Tell = Callable[[str, float], Awaitable[None]]


async def tell_nobody(host: str, seconds: float) -> None:
    """Where no delay counts."""


class Robots:
    """`tell(host, seconds)` is awaited with the delay that a host asks for: each time its file has been read, and again after
    `rolled_back`. Before that is done nothing of the file is known."""

    def __init__(
        self,
        fetch: Fetch,
        tell: Tell = tell_nobody,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._fetch, self._tell, self._clock, self._most = fetch, tell, clock, most
        self._known: OrderedDict[str, _Rules] = OrderedDict()
        self._asking: dict[tuple[str, NetworkGuard], asyncio.Task[_Rules]] = {}
        self._edition = 0

    def known(self, url: str, agent: str) -> RobotsVerdict | None:
        """What is known already; None if the file has to be fetched first, or its delay to be told again."""
        rules = self._fresh(_origin(url))
        return None if rules is None or self._untold(rules) else self._word(rules, url, agent)

    def rolled_back(self) -> None:
        """Whoever was told of delays may have forgotten them."""
        self._edition += 1

    def _fresh(self, origin: str) -> _Rules | None:
        rules = self._known.get(origin)
        return None if rules is None or rules.until <= self._clock() else rules

    def _untold(self, rules: _Rules) -> bool:
        return rules.delay > 0 and rules.edition != self._edition

    async def ask(self, url: str, agent: str, site: str = "", options: FetchOptions = DEFAULT) -> RobotsVerdict:
        """Whether `agent` may fetch `url`. `site` and `options` are those of the page: the file is fetched in the same way. Raises
        FetchError if its address is not allowed."""
        origin = _origin(url)
        rules = self._fresh(origin)
        if rules is None or self._untold(rules):
            # What one site may not connect to, another may.
            key = origin, options.guard
            asking = self._asking.get(key)
            if asking is None:
                asking = self._asking[key] = asyncio.ensure_future(
                    self._get(origin, agent, site, options) if rules is None else self._told(origin, rules)
                )
                asking.add_done_callback(lambda task: self._asked(key, task))
            # One that stops waiting does not cancel it for the others.
            rules = await asyncio.shield(asking)
        return self._word(rules, url, agent)

    def _asked(self, key: tuple[str, NetworkGuard], task: asyncio.Task[_Rules]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # Those who wait get it; there may be none left.

    async def close(self) -> None:
        await cancel_tasks(self._asking.values())

    def _word(self, rules: _Rules, url: str, agent: str) -> RobotsVerdict:
        if rules.unknown:
            return RobotsVerdict(False, max(0.001, rules.until - self._clock()), rules.why)
        if rules.parser is None or rules.parser.can_fetch(url, agent):
            return ALLOWED
        return FORBIDDEN

    async def _get(self, origin: str, agent: str, site: str, options: FetchOptions) -> _Rules:
        options = options._replace(max_size=LARGEST, cut=True, raw=False)
        response: Response | None = None
        try:
            response = await self._arrive(PageRequest(f"{origin}/robots.txt", site=site, options=options))
        except FetchError as error:
            if error.reason == PRIVATE_ADDRESS:
                # The fault of this site, not of the host: do not remember it.
                raise FetchError(error.reason, f"robots.txt: {error.detail}", False) from error
            why = error
        now = self._clock()
        if response is None:
            failures = self._known[origin].failures if origin in self._known else 0
            wait = max(min(FIRST_AGAIN * 2.0 ** min(failures, 32), LONGEST_AGAIN), why.after)
            rules = _Rules(now + wait, None, True, failures + 1, why)
        elif response.status == 429 or response.status >= 500 or sign_of(response):
            rules = _Rules(now + KEPT_WITHOUT, None, True)
        elif 200 <= response.status < 300:
            parser = parse(response.body)
            return await self._told(origin, _Rules(now + KEPT, parser, delay=crawl_delay(parser, agent)))
        else:
            return await self._told(origin, _Rules(now + KEPT, None))
        return self._keep(origin, rules)

    async def _told(self, origin: str, rules: _Rules) -> _Rules:
        edition = self._edition
        await self._tell(host_of(origin), rules.delay)
        return self._keep(origin, rules._replace(edition=edition))

    def _keep(self, origin: str, rules: _Rules) -> _Rules:
        self._known[origin] = rules
        self._known.move_to_end(origin)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return rules

    async def _arrive(self, request: PageRequest) -> Response:
        trail: list[str] = []
        while True:
            response = await self._fetch(request)
            try:
                further = follow(request, response, trail, HOPS)
            except FetchError:
                # A redirect that leads nowhere means that there is no file.
                return response._replace(status=404)
            if further is None:
                return response
            trail.append(request.url)
            if not is_own_url(further.url, further.options):
                further = further._replace(options=without_credentials(further.options))
            request = further


def parse(body: bytes) -> Protego:
    """The rules of a file; lines that make no sense are ignored."""
    return Protego.parse(body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))


def _origin(url: str) -> str:
    first = "/".join(url.split("/", 3)[:3])
    if "@" not in first and "?" not in first and "#" not in first and first.islower():
        return first
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"
