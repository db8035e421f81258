"""Proxies in groups, used in turn. One that fails several times in a row rests for a while; a success clears its failures."""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gossamer.model.fetch import PROXY, FetchError
from gossamer.sites.format import ProxyRule

logger = logging.getLogger(__name__)

FAILS, REST = 3, 300.0
LOOK = 1.0
"""Seconds between two checks of a file."""
MOST_LONE = 1000


@dataclass(slots=True)
class Proxy:
    """`url` has no user and password; these are in `authorization`, the value of a header."""

    url: str
    authorization: str = ""
    fails: int = 0
    resting_until: float = -math.inf
    group: ProxyGroup | None = field(default=None, repr=False)


def parse(text: str) -> Proxy:
    """The proxy of `http://user:password@host:port` or `host:port`; raises ValueError."""
    text = text.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https"):
        raise ValueError(
            f"{parts.scheme} is not a kind of proxy that can be used; write http://host:port or https://host:port"
        )
    if not parts.hostname or parts.port == 0 or any(sign.isspace() for sign in text):
        raise ValueError("a proxy is http://host:port or http://user:password@host:port")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    login = ""
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(f"{parts.scheme}://{host}:{port}", login)


class ProxyGroup:
    """Proxies that can replace each other. Takes over the failures that `former` counted for the same proxies."""

    def __init__(
        self,
        name: str,
        urls: Iterable[str] = (),
        file: str | Path | None = None,
        fails: int = FAILS,
        rest: float = REST,
        clock: Callable[[], float] = time.monotonic,
        former: ProxyGroup | None = None,
    ) -> None:
        self.name, self.fails, self.rest = name, max(1, fails), rest
        self._file, self._clock = Path(file) if file else None, clock
        self._fixed = list(urls)
        self._read: list[str] = []
        self._stamp: tuple[int, int, int] | None = None
        self._look_at = -math.inf
        self._proxies: list[Proxy] = []
        self._before = former._proxies if former is not None else []
        self._turn = 0
        self._gather()

    def choose(self) -> Proxy:
        """The next one that does not rest."""
        now = self._clock()
        if self._file is not None and now >= self._look_at:
            self._look_at = now + LOOK
            self._reread(self._file)
        count = len(self._proxies)
        for step in range(count):
            proxy = self._proxies[(self._turn + step) % count]
            if proxy.resting_until <= now:
                self._turn = (self._turn + step + 1) % count
                return proxy
        if not count:
            where = f"; {self._file} has none" if self._file else ""
            raise FetchError(PROXY, f"the group {self.name} has no proxy that can be used{where}", True, LOOK)
        after = max(0.0, min(proxy.resting_until for proxy in self._proxies) - now)
        raise FetchError(
            PROXY,
            f"all {count} proxies of {self.name} rest after failures, the first for {after:.0f} s more",
            True,
            after,
        )

    def vote(self, proxy: Proxy, good: bool) -> None:
        if good:
            proxy.fails, proxy.resting_until = 0, -math.inf
            return
        proxy.fails += 1
        if proxy.fails >= self.fails:
            # After its rest it has one chance: another failure, and it rests again.
            proxy.resting_until = self._clock() + self.rest

    def resting(self) -> list[Proxy]:
        now = self._clock()
        return [proxy for proxy in self._proxies if proxy.resting_until > now]

    def __len__(self) -> int:
        return len(self._proxies)

    def _reread(self, file: Path) -> None:
        try:
            stat = file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp == self._stamp:
                return
            text = file.read_text("utf-8")
        except (OSError, UnicodeError) as error:
            if self._stamp is not None or not self._proxies:
                logger.warning("The proxies of %s cannot be read (%s); the known ones stay in use.", self.name, error)
            self._stamp = None
            return
        self._stamp = stamp
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        self._read = [line for line in lines if line]
        self._gather()

    def _gather(self) -> None:
        known = {(proxy.url, proxy.authorization): proxy for proxy in [*self._before, *self._proxies]}
        found: dict[tuple[str, str], Proxy] = {}
        for number, text in enumerate([*self._fixed, *self._read], 1):
            try:
                proxy = parse(text)
            except ValueError as error:
                # Not the text itself: it may hold a password.
                logger.warning("Proxy %d of %s is skipped: %s.", number, self.name, error)
                continue
            key = (proxy.url, proxy.authorization)
            found.setdefault(key, known.get(key, proxy)).group = self
        self._proxies = list(found.values())
        self._turn %= max(1, len(self._proxies))


class ProxyPool:
    """All groups, by site and name. A URL instead of a name is a group of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._groups: dict[tuple[str, str], ProxyGroup] = {}

    def define(
        self,
        site: str,
        name: str,
        urls: Iterable[str] = (),
        file: str | Path | None = None,
        fails: int = FAILS,
        rest: float = REST,
    ) -> ProxyGroup:
        """Define or replace a group; the failures of proxies that stay are kept."""
        group = ProxyGroup(name, urls, file, fails, rest, self._clock, self._groups.get((site, name)))
        self._groups[site, name] = group
        return group

    def define_all(self, site: str, groups: Mapping[str, ProxyRule]) -> None:
        """Define all groups of a site; it has no others."""
        self.keep(site, groups)
        for name, group in groups.items():
            self.define(site, name, group.urls, group.file, group.fails, group.rest)

    def keep(self, site: str, names: Collection[str]) -> None:
        """Forget the site's groups except these."""
        for key in [key for key in self._groups if key[0] == site and key[1] not in names]:
            del self._groups[key]

    def forget(self, site: str) -> None:
        self.keep(site, ())

    def choose(self, site: str, wanted: str) -> Proxy:
        """The next proxy of the group or URL `wanted`."""
        is_url = "://" in wanted
        group = self._groups.get(("", wanted) if is_url else (site, wanted))
        if group is None:
            group = self._lone(wanted) if is_url else None
        if group is None:
            # A page may have been in progress when its site's file changed: the next try uses the new one.
            raise FetchError(PROXY, f"the site {site} has no proxies named {wanted}; describe them under `proxies`")
        return group.choose()

    def vote(self, proxy: Proxy, good: bool) -> None:
        if proxy.group is not None:
            proxy.group.vote(proxy, good)

    def _lone(self, url: str) -> ProxyGroup:
        try:
            shown = parse(url).url
        except ValueError as error:
            raise FetchError(PROXY, f"`request.proxy` cannot be used: {error}", False) from None
        lone = [key for key in self._groups if not key[0] and "://" in key[1]]
        if len(lone) >= MOST_LONE:
            del self._groups[lone[0]]
        group = self._groups["", url] = ProxyGroup(shown, [url], clock=self._clock)
        return group
