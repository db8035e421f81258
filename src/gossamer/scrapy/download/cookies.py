"""The cookies of Scrapy's middleware, shared by all workers of a spider: a worker that logs in, logs in for all.

Changes of this process's jars are noted and soon sent to the frontier. Finished pages wait for that, so that workers that get their
links find the cookies there. Every exchange carries the version of the shared cookies. Before a worker sends a request that came
with a newer version than it knows, it asks for the changes. So pages that change no cookie cost no call.

A new round begins without cookies. When the server goes back to an older state, what it lacks is sent again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookiejar import Cookie
from http.cookiejar import CookieJar as Jar
from typing import Any

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http.cookies import CookieJar

from gossamer.courier import Transport
from gossamer.errors import FrontierUnavailable, MemoryLimitReached
from gossamer.frontier.contract import Frontier

logger = logging.getLogger(__name__)

SPACING = 0.25
"""Minimum seconds between two calls: sites that set another cookie with every page cost a few calls a second."""
AGAIN = 2.0
LONGEST = 16_384
"""The most bytes of a cookie that is shared."""
SHIFT = 0.1
"""A change of an expiry by less than this part of the remaining time is not sent."""

_FIELDS = (
    "version", "value", "port", "port_specified", "domain_specified", "domain_initial_dot", "path_specified", "secure",
    "expires", "discard", "comment", "comment_url", "rfc2109",
)  # fmt: skip


class SharedCookies:
    """Takes the place of a middleware's jars. `most` is how many cookies are kept for the group."""

    def __init__(
        self, middleware: CookiesMiddleware, link: Transport, group: str, most: int, wake: Callable[[], None]
    ) -> None:
        self._link, self._group, self._most, self._wake = link, group, most, wake
        self._jars: defaultdict[Any, CookieJar] = _Jars(self)
        self._values: dict[str, dict[str, Any]] = {}
        self._pending: dict[str, bytes] = {}
        self._flying: dict[str, bytes] = {}
        """What is on its way to the frontier."""
        self._passed: dict[str, bytes] = {}
        """What others have sent of that; the answer shows which of the two is newer."""
        self._mine: dict[str, None] = {}
        """What this worker was the last to change, as far as it knows."""
        self._version = self._asked = 0
        self._began = 0
        """The version with which the shared jars of this round began."""
        self._questions = 0
        self._lost = False
        """The server may know less than it did: nothing is sent before it has answered what it knows."""
        self._learning: list[Callable[[], None]] = []
        self._telling = self._asking = self._planned = self._applying = False
        self._told_at = float("-inf")
        self._waiting: list[Callable[[], None]] = []
        self._refused: set[str] = set()
        for key, jar in middleware.jars.items():
            self._jars[key] = self.adopt(key, jar)
        middleware.jars = self._jars

    def adopt(self, key: Any, jar: CookieJar) -> CookieJar:
        """The jar, with one inside that notes what changes."""
        if not (key is None or isinstance(key, str | int | float)):
            self._refuse(f"{key!r:.100}", "meta['cookiejar'] is no text and no number")
            return jar
        inner = _RecordingJar(self, key, jar.policy)
        inner._cookies_lock = jar.jar._cookies_lock  # type: ignore[attr-defined]
        old, jar.jar = jar.jar, inner
        for cookie in old:
            inner.set_cookie(cookie)
        return jar

    # What this worker's jars get and lose.

    def note(self, key: Any, place: tuple[str, str, str], cookie: Cookie | None) -> None:
        if self._applying:
            return
        name = json.dumps([key, *place])
        fields = None if cookie is None else _fields(cookie)
        old = self._values.get(name)
        if fields is None:
            if old is None:
                return
            del self._values[name]
            self._pending[name] = b""
        elif not _same(old, fields):
            data = _data(fields)
            if len(data) > LONGEST:
                self._refuse(name, f"it has more than {LONGEST:,} bytes")
                return
            self._values[name] = fields
            self._pending[name] = data
        else:
            return
        self._claim(name)
        self._plan()

    def _claim(self, name: str) -> None:
        self._mine.pop(name, None)
        self._mine[name] = None
        if len(self._mine) > self._most:
            del self._mine[next(iter(self._mine))]

    def _refuse(self, name: str, why: str) -> None:
        if name not in self._refused:
            self._refused.add(name)
            logger.warning("The cookie or jar %s is not shared with other workers: %s.", name, why)

    def _plan(self) -> None:
        if self._pending and not (self._telling or self._planned):
            self._planned = True
            self._link.later(max(0.0, self._told_at + SPACING - self._link.now()), self._tell)

    def _tell(self) -> None:
        self._planned = False
        if self._telling or self._lost or not self._pending:
            return
        told, self._pending = self._pending, {}
        self._flying = told
        waiting, self._waiting = self._waiting, []
        self._telling, self._told_at = True, self._link.now()
        self._link.call(
            Frontier.put_cookies,
            lambda answer, error: self._told(told, waiting, answer, error),
            self._group,
            told,
            most=self._most,
        )

    def _told(
        self, told: dict[str, bytes], waiting: list[Callable[[], None]], answer: Any, error: BaseException | None
    ) -> None:
        self._telling, self._flying = False, {}
        passed, self._passed = self._passed, {}
        if error is None:
            before, version = answer
            if version <= self._began:
                # It went into the jars of the round before.
                self._pending = {**told, **self._pending}
            elif version <= self._version:
                self._take_over({name: data for name, data in passed.items() if name not in self._pending})
            elif before <= self._version:
                self._version = version
        elif isinstance(error, FrontierUnavailable | MemoryLimitReached):
            self._pending = {**told, **self._pending}
            self._told_at = self._link.now() + AGAIN
        else:
            logger.warning("Cookies could not be shared with other workers: %s", error)
        for do in waiting:
            do()
        self._go_on()
        self._plan()

    def _go_on(self) -> None:
        if not (self._pending or self._telling or self._lost):
            waiting, self._waiting = self._waiting, []
            for do in waiting:
                do()

    def after(self, do: Callable[[], None]) -> None:
        """Call `do` when all that was noted until now has reached the frontier; mostly at once."""
        if self._pending or self._telling or self._lost:
            self._waiting.append(do)
        else:
            do()

    def flush(self) -> None:
        """The worker ends: wait for nothing more."""
        waiting, self._waiting = self._waiting, []
        self._told_at, self._lost = float("-inf"), False
        self._tell()
        for do in waiting:
            do()

    # What others' jars got and lost.

    def behind(self, version: int) -> bool:
        """Whether something is shared that this worker does not know yet. Then it is asked for, and `wake` called."""
        if self._asking or version <= max(self._version, self._asked):
            return self._asking
        self._asked = version
        self._ask()
        return True

    def learn(self, do: Callable[[], None]) -> None:
        """Ask for what is shared now, then call `do`, whether the answer came or not."""
        self._learning.append(do)
        self._ask()

    def rolled_back(self) -> None:
        """The server may have an older state. Until `recover` no cookies and no requests are sent."""
        self._lost = self._asking = True
        self._questions += 1

    def recover(self) -> None:
        """The group is there again: send what the server lacks, and read what it has."""
        self._version = self._asked = 0
        self._ask()

    def _ask(self) -> None:
        """Answers to earlier questions are ignored: they may be older than the reason for this one."""
        self._asking = True
        self._questions += 1
        number = self._questions
        self._link.call(
            Frontier.cookies,
            lambda answer, error: self._learned(answer, error) if number == self._questions else None,
            self._group,
            0 if self._lost else self._version,
        )

    def _learned(self, answer: tuple[int, Mapping[str, bytes], int] | None, error: BaseException | None) -> None:
        self._asking = False
        if answer is None:
            # Sent without them, rather than not at all; they are asked for again soon, and the next version brings them too.
            logger.warning("The cookies of other workers could not be read: %s", error)
            self._lost = self._lost and isinstance(error, FrontierUnavailable)
            self._link.later(AGAIN, self._ask_again)
        else:
            self._version, found, began = answer
            if began > self._began:
                self._forget()
            self._began = began
            if self._lost:
                self._lost = False
                self._miss(found)
            self._passed |= {name: data for name, data in found.items() if name in self._flying}
            self._take_over(
                {name: data for name, data in found.items() if name not in self._pending and name not in self._flying}
            )
        learning, self._learning = self._learning, []
        for do in learning:
            do()
        self._go_on()
        self._plan()
        self._wake()

    def _ask_again(self) -> None:
        self._asked = self._version
        if self._lost and not self._asking:
            self._ask()

    def _forget(self) -> None:
        """Another round has begun: what was shared before belongs to no jar any more, but for what is still to be sent."""
        self._take_over({name: b"" for name in self._values if name not in self._pending and name not in self._flying})

    def _miss(self, found: Mapping[str, bytes]) -> None:
        """Send again what the server lacks: what this worker has changed last, and what it knows of others that may have ended."""
        lacking = {name: _data(self._values.get(name)) for name in self._mine}
        if len(found) < self._most:
            lacking |= {name: _data(fields) for name, fields in self._values.items() if name not in found}
        for name, data in lacking.items():
            if found.get(name, b"") != data:
                self._pending.setdefault(name, data)

    def _take_over(self, found: Mapping[str, bytes]) -> None:
        self._applying = True
        try:
            for name, data in found.items():
                self._mine.pop(name, None)
                self._apply(name, data)
        finally:
            self._applying = False

    def _apply(self, name: str, data: bytes) -> None:
        key, domain, path, what = json.loads(name)
        jar: Jar = self._jars[key].jar
        if data:
            fields = self._values[name] = json.loads(data)
            jar.set_cookie(_cookie(domain, path, what, fields))
        elif self._values.pop(name, None) is not None:
            # It may have expired here.
            with suppress(KeyError):
                jar.clear(domain, path, what)


class _Jars(defaultdict[Any, CookieJar]):
    def __init__(self, cookies: SharedCookies) -> None:
        super().__init__(CookieJar)
        self._cookies = cookies

    def __missing__(self, key: Any) -> CookieJar:
        self[key] = jar = self._cookies.adopt(key, CookieJar())
        return jar


class _RecordingJar(Jar):
    """All that is put into a jar or taken out of it comes through here."""

    def __init__(self, cookies: SharedCookies, key: Any, policy: Any) -> None:
        super().__init__(policy)
        self._shared, self._key = cookies, key

    def set_cookie(self, cookie: Cookie) -> None:
        super().set_cookie(cookie)
        self._shared.note(self._key, (cookie.domain, cookie.path, cookie.name), cookie)

    def clear(self, domain: str | None = None, path: str | None = None, name: str | None = None) -> None:
        gone = [
            (one.domain, one.path, one.name)
            for one in self
            if domain in (None, one.domain) and path in (None, one.path) and name in (None, one.name)
        ]
        super().clear(domain, path, name)
        for place in gone:
            self._shared.note(self._key, place, None)


def of(crawler: Any) -> CookiesMiddleware | None:
    """Scrapy's middleware, or the project's own one that is made from it; None: the project has none."""
    middlewares = crawler.engine.downloader.middleware.middlewares
    return next((each for each in middlewares if isinstance(each, CookiesMiddleware)), None)


def _fields(cookie: Cookie) -> dict[str, Any]:
    rest: Any = getattr(cookie, "_rest", {})
    return {name: getattr(cookie, name) for name in _FIELDS} | {"rest": dict(rest)}


def _data(fields: Mapping[str, Any] | None) -> bytes:
    return b"" if fields is None else json.dumps(fields).encode()


def _cookie(domain: str, path: str, name: str, fields: Mapping[str, Any]) -> Cookie:
    return Cookie(domain=domain, path=path, name=name, **fields)


def _same(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
    if old is None or old == new:
        return old is not None
    if old["expires"] is None or new["expires"] is None or {**old, "expires": 0} != {**new, "expires": 0}:
        return False
    left = max(0.0, new["expires"] - time.time())
    return bool(abs(new["expires"] - old["expires"]) <= left * SHIFT)
