"""Logins of sites: one session for all workers of a site.

Workers share the cookies of a session through the frontier. Whoever finds none, or one that is over, notes there that it logs in,
and the others wait for its result. A login that is refused stops the site; one that fails otherwise is tried again later.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from gossamer.courier.transport import Ask
from gossamer.engine.http.cookies import Cookie, CookieJar
from gossamer.engine.http.credentials import is_own_url
from gossamer.engine.http.redirect import location, next_hop
from gossamer.engine.http.sessions import Sessions
from gossamer.engine.sites import ServedSite
from gossamer.errors import FrontierUnavailable, MemoryLimitReached
from gossamer.frontier.contract import Frontier
from gossamer.model import host_of
from gossamer.model.fetch import FetchError
from gossamer.model.page import PageRequest, Response
from gossamer.model.reply import BLOCKED, LOGIN_FAILED
from gossamer.sites.extract.validity import sign_of

logger = logging.getLogger(__name__)

SESSION, TURN, REFUSAL = "login/session", "login/turn", "login/refusal"
"""What workers share: the cookies of the session; until when one of them has its turn to log in; and why the last login was refused,
which holds as long as the site is stopped for it."""
MOST_SHARED = 100
TURN_SECONDS = 120.0
LOOK = 0.5
"""Seconds between two looks at what the worker that logs in has got."""
PAUSE, LONGEST = 2.0, 60.0
"""Seconds before the second try, doubled each time; and before a page is leased again whose login could not be reached."""
REDIRECTS = 10

Fetch = Callable[[PageRequest], Awaitable[Response]]


class LoginFailed(Exception):
    """`refused`: another try does not help. The message has no secrets in it."""

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.message, self.refused = message, refused


class SiteSession:
    """The session of one site in one worker. `number` is 0 while there is none; `over` is the last one that has ended."""

    def __init__(self) -> None:
        self.number = self.over = 0
        self.busy = asyncio.Lock()
        self.refused = ""


class SiteLogins:
    """The sessions of all sites. `ask` calls the frontier; None: nothing is shared, as in a trial."""

    def __init__(self, ask: Ask | None, fetch: Fetch, sessions: Sessions) -> None:
        self._ask, self._fetch, self._sessions = ask, fetch, sessions
        self._of: dict[str, SiteSession] = {}
        self.count: Callable[[str], None] = lambda site: None
        """Called after each login."""

    def forget(self, site: str) -> None:
        """Its file has changed, or it is not served any more."""
        self._of.pop(site, None)

    async def ready(self, site: ServedSite) -> int:
        """The number of the session to use, after a login if there is none. Raises LoginFailed."""
        session = self._of.setdefault(site.name, SiteSession())
        if session.number:
            return session.number
        async with session.busy:
            if not session.number:
                try:
                    await self._begin(site, session)
                except LoginFailed as failed:
                    session.refused = failed.message if failed.refused else ""
                    raise
                except (FrontierUnavailable, MemoryLimitReached) as error:
                    raise LoginFailed(f"the session cannot be shared now: {error}") from error
        return session.number

    def ended(self, site: ServedSite, number: int) -> None:
        """A page has shown that this session is over."""
        session = self._of.setdefault(site.name, SiteSession())
        session.over = max(session.over, number)
        if session.number == number:
            session.number = 0

    # One session for all.

    async def _begin(self, site: ServedSite, session: SiteSession) -> None:
        if self._ask is None:
            await self._log_in(site)
            session.number = session.over + 1
            return
        assert site.login is not None
        if session.refused and await self._is_stopped(site):
            raise LoginFailed(session.refused, refused=True)
        while True:
            version, shared, _ = await self._ask(Frontier.cookies, site.name)
            found = json.loads(shared[SESSION]) if shared.get(SESSION) else None
            if found is not None and found["number"] > session.over:
                self._sessions.jars[site.name] = jar = CookieJar()
                jar.put(Cookie(*cookie) for cookie in found["cookies"])
                session.number = found["number"]
                return
            if shared.get(REFUSAL) and await self._is_stopped(site):
                raise LoginFailed(shared[REFUSAL].decode(), refused=True)
            if float(shared.get(TURN) or 0) > time.time():
                await asyncio.sleep(LOOK)
                continue
            lasting = TURN_SECONDS + REDIRECTS * max(delay_of(site, f"//{host}/") for host in site.login.hosts)
            before, turn = await self._put(site, {TURN: str(time.time() + lasting)})
            # Somebody else has put something meanwhile: look again.
            if before == version:
                break
        try:
            await self._log_in(site)
        except LoginFailed as failed:
            if failed.refused:
                # First, so that no other worker tries before it is stopped.
                await self._stop(site, failed)
            await self._put(site, {REFUSAL: failed.message if failed.refused else "", TURN: ""})
            raise
        except BaseException:
            await self._put(site, {TURN: ""})
            raise
        jar = self._sessions.jars.setdefault(site.name, CookieJar())
        cookies = [list(cookie) for cookie in jar]
        await self._put(site, {SESSION: json.dumps({"number": turn, "cookies": cookies}), REFUSAL: "", TURN: ""})
        session.number = turn

    async def _put(self, site: ServedSite, shared: dict[str, str]) -> tuple[int, int]:
        assert self._ask is not None
        texts = {name: text.encode() for name, text in shared.items()}
        before, version = await self._ask(Frontier.put_cookies, site.name, texts, most=MOST_SHARED)
        return before, version

    async def _is_stopped(self, site: ServedSite) -> bool:
        """Whether nobody has resumed it since."""
        assert self._ask is not None
        rows = (await self._ask(Frontier.counts, site.name)).groups
        return any(row.group == site.name and row.paused.startswith(LOGIN_FAILED) for row in rows)

    async def _stop(self, site: ServedSite, failed: LoginFailed) -> None:
        logger.error("The site %s is stopped. Its %s%s", site.name, LOGIN_FAILED, failed.message)
        assert self._ask is not None
        await self._ask(Frontier.pause, group=site.name, reason=f"{LOGIN_FAILED}{failed.message}"[:300])

    # One login.

    async def _log_in(self, site: ServedSite) -> None:
        login = site.login
        assert login is not None
        tries, failed = login.rule.tries, LoginFailed("")
        for attempt in range(tries):
            if attempt:
                await asyncio.sleep(min(PAUSE * 2.0 ** (attempt - 1), LONGEST))
            try:
                await self._attempt(site)
                self.count(site.name)
                logger.info("Logged in to %s.", site.name)
                return
            except LoginFailed as error:
                failed = error
            except FetchError as error:
                failed = LoginFailed(f"{login.rule.url}: {error.reason}")
            logger.warning("Login %d of %d to %s failed: %s", attempt + 1, tries, site.name, failed.message)
        raise failed

    async def _attempt(self, site: ServedSite) -> None:
        login = site.login
        assert login is not None
        self._sessions.jars.pop(site.name, None)
        values: dict[str, Any] = {}
        if (first := login.page()) is not None:
            response = await self._followed(site, first)
            self._check_reached(login.rule.page or login.rule.url, response)
            values, lacking = login.fields(response)
            if lacking:
                raise LoginFailed(f"{login.rule.page or login.rule.url}: {lacking} (login.fields)", refused=True)
        response = await self._followed(site, login.request(values))
        self._check_reached(login.rule.url, response)
        if why := login.refused(response):
            raise LoginFailed(f"{login.rule.url}: {why}", refused=True)

    @staticmethod
    def _check_reached(url: str, response: Response) -> None:
        if sign := sign_of(response):
            raise LoginFailed(f"{url}: {BLOCKED} ({sign})")
        if response.status >= 500 or response.status == 429:
            raise LoginFailed(f"{url}: status {response.status}")

    async def _followed(self, site: ServedSite, request: PageRequest) -> Response:
        """The response at the end of all redirects."""
        login, layer, hops = site.login, site.login_layer, list[str]()
        assert login is not None
        while True:
            options, cookies = layer.manner(request.url, hops[-1] if hops else "")
            sent = request._replace(cookies={**cookies, **request.cookies}, site=site.name, options=options)
            response = await self._fetch(sent)
            if self._ask is not None:
                # The page that needs the session has its turn with the host now, and one request follows the other.
                await asyncio.sleep(delay_of(site, request.url))
            target = location(response) if 300 <= response.status < 400 else None
            if target is None:
                return response
            request = next_hop(sent, response, target, hops, REDIRECTS)
            if request.body and not is_own_url(request.url, site.login_layer.options):
                raise LoginFailed(
                    f"{login.rule.url}: it sends the form on to {host_of(request.url)}; if that host may have the password, name it in "
                    "politeness.hosts",
                    refused=True,
                )
            hops.append(sent.url)


def delay_of(site: ServedSite, url: str) -> float:
    """Seconds between two requests to the host of a URL, as the site's file says."""
    rule = site.compiled.hosts().get(host_of(url))
    return max(rule.delay if rule is not None else 0.0, site.compiled.site.politeness.delay)
