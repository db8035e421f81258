"""Where Scrapy's downloads may lead: `gossamer.model.network` for workers of spiders and for sites with `engine: scrapy`.

Names are judged by the addresses that Twisted's resolver gives to the download: those that may not be connected to are taken out
before the connection is made. A spider's own code is trusted: its start requests, and requests whose `private_addresses` in meta
it sets to true, may lead anywhere. A request that a public page led to (a link, a redirect) may not; `private_addresses: false` in
its meta says so, also to the worker that gets it from the frontier.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from zope.interface import implementer  # type: ignore[import-untyped]

from gossamer.model.network import (
    ALWAYS,
    ANYWHERE,
    AUTO,
    NEVER,
    OF_SPIDER,
    SETTING,
    AddressRefused,
    NetworkGuard,
    literal,
    looks_private,
    networks_of,
)
from gossamer.scrapy.download.slots import APART, SlotWatcher
from gossamer.scrapy.settings import loaded

META = "private_addresses"
"""In a request's meta: whether it may lead to private addresses. Said by the spider, or false by us."""
OF_SITE = "gossamer_guard"
"""The same of a request of a site with `engine: scrapy`, as its `NetworkGuard`."""
OUTER, INNER = "gossamer.scrapy.download.network.UrlGuard", "gossamer.scrapy.download.network.DownloadGuard"
PLACES = {OUTER: -10_000, INNER: 20_000}
"""Before all other downloader middlewares (robots.txt is asked for by one), and after them."""
MOST_NAMES, LATELY = 10_000, 600.0
_TWISTED, _OURS = "scrapy.core.downloader.handlers.", "gossamer.scrapy.speedups.handler."
_NOT_TWISTED = ("httpx", "aiohttp")
_LOCAL = ("file:", "data:")
"""Of pages that come from no network: they are the spider's own, or lead as far as the page that led to them."""


class Lookups:
    """What was found for names that this process downloads from, and what the downloads that are under way may connect to."""

    def __init__(self) -> None:
        self.guards: dict[str, Counter[NetworkGuard]] = {}
        self._found: OrderedDict[str, tuple[float, set[str]]] = OrderedDict()
        self.public = False
        """Whether this process has had to do with public pages."""

    def began(self, host: str) -> None:
        self._found[host] = time.monotonic(), set()
        self._found.move_to_end(host)
        if len(self._found) > MOST_NAMES:
            self._found.popitem(last=False)

    def found(self, host: str) -> Iterable[str]:
        """The addresses that a name had lately: connections to them may be kept."""
        at, addresses = self._found.get(host, (0.0, ()))
        return addresses if time.monotonic() - at < LATELY else ()

    def refusal(self, host: str, address: str) -> str:
        """Why one of the downloads that are under way may not connect there; "" if all may."""
        if host in self._found:
            self._found[host][1].add(address)
        return next((why for guard in self.guards.get(host, ()) if (why := guard.refusal(host, address))), "")

    def enter(self, host: str, guard: NetworkGuard) -> None:
        self.guards.setdefault(host, Counter())[guard] += 1

    def leave(self, host: str, guard: NetworkGuard) -> None:
        counts = self.guards.get(host)
        if counts is not None:
            counts[guard] -= 1
            if counts[guard] <= 0:
                del counts[guard]
            if not counts:
                del self.guards[host]


LOOKUPS = Lookups()


def allowed(host: str, addresses: Sequence[str]) -> list[bool]:
    """Which of a host's addresses may be connected to; raises AddressRefused if none may."""
    LOOKUPS.began(host)
    refused = [LOOKUPS.refusal(host, address) for address in addresses]
    if refused and all(refused):
        raise AddressRefused(refused[0])
    return [not why for why in refused]


@implementer(IHostnameResolver)
class GuardedResolver:
    """Wraps the reactor's resolver. For hosts of present downloads, it passes on the addresses that all of these downloads may connect to;
    for other hosts, all addresses."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def resolveHostName(
        self,
        resolutionReceiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[Any] | None = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        receiver = resolutionReceiver
        if hostName in LOOKUPS.guards:
            LOOKUPS.began(hostName)
            receiver = _Receiver(resolutionReceiver, hostName)
        return self.inner.resolveHostName(receiver, hostName, portNumber, addressTypes, transportSemantics)


@implementer(IResolutionReceiver)
class _Receiver:
    def __init__(self, receiver: Any, host: str) -> None:
        self._receiver, self._host = receiver, host

    def resolutionBegan(self, resolution: Any) -> None:
        self._receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:
        if not LOOKUPS.refusal(self._host, str(address.host)):
            self._receiver.addressResolved(address)

    def resolutionComplete(self) -> None:
        self._receiver.resolutionComplete()


def install() -> bool:
    """Wrap the reactor's resolver; False without a reactor. Scrapy may replace it by its own when it starts, so this is called for
    each download."""
    if "twisted.internet.reactor" not in sys.modules:
        return False
    from twisted.internet import reactor

    at: Any = reactor
    if not isinstance(at.nameResolver, GuardedResolver):
        at.installNameResolver(GuardedResolver(at.nameResolver))
    return True


class UrlGuard:
    """Refuses what can be refused by its name before any other middleware does something for it."""

    def __init__(self, setting: str) -> None:
        self.setting = setting
        networks = () if setting in (AUTO, ALWAYS, NEVER) else networks_of(setting)
        # What `never` forbids, no request allows.
        self.strict = NetworkGuard(False, networks, f"{SETTING}=always" if setting == NEVER else OF_SPIDER)

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        return cls(loaded(crawler.settings)["GOSSAMER_PRIVATE_ADDRESSES"])

    def guard(self, request: Request) -> NetworkGuard:
        own = request.meta.get(OF_SITE)
        if isinstance(own, NetworkGuard):
            return own
        if self.setting == NEVER:
            return self.strict
        said = request.meta.get(META)
        return ANYWHERE if said is not False or self.setting == ALWAYS else self.strict

    def process_request(self, request: Request, spider: Any = None) -> Any:
        SlotWatcher.begin(request)
        if request.meta.get(META) is False:
            LOOKUPS.public = True
        host = _host(request)
        if host and (why := self.guard(request).refusal_by_name(host) if not _may_be_fine(host) else ""):
            raise AddressRefused(why)


class DownloadGuard(UrlGuard):
    """Watches each download itself, and tells which pages came from public addresses."""

    def __init__(self, setting: str, handlers: dict[str, Any] | None = None, crawler: Any = None) -> None:
        super().__init__(setting)
        self._slots = SlotWatcher(crawler)
        self._elsewhere = {scheme for scheme, handler in (handlers or {}).items() if not _is_watched(handler)}
        self._watched: dict[int, tuple[str, NetworkGuard]] = {}

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        setting = loaded(crawler.settings)["GOSSAMER_PRIVATE_ADDRESSES"]
        return cls(setting, crawler.settings.getwithbase("DOWNLOAD_HANDLERS"), crawler)

    def guard(self, request: Request) -> NetworkGuard:
        guard = super().guard(request)
        apart = str(request.meta.get("download_slot", "")).startswith(APART)
        if guard is ANYWHERE and apart and META not in request.meta and LOOKUPS.public and self.setting != ALWAYS:
            # robots.txt, media: which page led to it is unknown, but some page did.
            return self.strict
        return guard

    def process_request(self, request: Request, spider: Any = None) -> Awaitable[None] | None:
        self._slots.end(request)
        host = _host(request)
        if not host:
            return None
        guard = self.guard(request)
        if not _may_be_fine(host) and (why := guard.refusal_by_name(host)):
            raise AddressRefused(why)
        if request.meta.get("proxy"):
            return None  # The proxy looks names up, and it may be anywhere itself.
        if not guard.private:
            # A connection to it may be open, for a request that may do more.
            self._check(host, guard, LOOKUPS.found(host))
        LOOKUPS.enter(host, guard)
        self._watched[id(request)] = host, guard
        elsewhere = request.meta.get("playwright") or request.url.partition(":")[0] in self._elsewhere
        if (not install() or elsewhere) and not guard.private:
            return self._looked_up(host, guard)
        return None

    def _check(self, host: str, guard: NetworkGuard, addresses: Iterable[str]) -> None:
        for address in addresses:
            if why := guard.refusal(host, address):
                raise AddressRefused(why)

    async def _looked_up(self, host: str, guard: NetworkGuard) -> None:
        """For downloads that ask another resolver than Twisted's: as it is a moment before."""
        try:
            found = await asyncio.to_thread(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        except OSError:
            return  # That is for the download to say.
        self._check(host, guard, {str(address[0]) for *_, address in found})

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        host, guard = self._left(request)
        address = str(response.ip_address) if response.ip_address is not None else ""
        proxied = bool(request.meta.get("proxy"))
        if address and not proxied and host and (why := guard.refusal(host, address)):
            raise AddressRefused(why)
        private = bool(self.strict.refusal("", address)) if address and not proxied else looks_private(_host(request))
        if not private and OF_SITE not in request.meta and not request.url.startswith(_LOCAL):
            request.meta.setdefault(META, False)
            LOOKUPS.public = True
        return response

    def process_exception(self, request: Request, exception: Exception, spider: Any = None) -> None:
        host, guard = self._left(request)
        if host and not isinstance(exception, AddressRefused):
            # The resolver can only say that there is no address.
            self._check(host, guard, LOOKUPS.found(host))

    def _left(self, request: Request) -> tuple[str, NetworkGuard]:
        host, guard = self._watched.pop(id(request), ("", ANYWHERE))
        if host:
            LOOKUPS.leave(host, guard)
        return host, guard


def inherit(request: Request, child: Request) -> None:
    """What a page yields leads no further than the page itself."""
    if request.meta.get(META) is False:
        child.meta.setdefault(META, False)


def _host(request: Request) -> str:
    return _host_of(request.url)


@lru_cache(256)
def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "" if url.startswith("http") else ""
    except ValueError:
        return ""


def _may_be_fine(host: str) -> bool:
    """Whether a host's name says nothing about its address."""
    return literal(host) is None and not looks_private(host)


def _is_watched(handler: Any) -> bool:
    """Whether a download handler's connections go to what `GuardedResolver` or `handler` let through."""
    name = handler if isinstance(handler, str) else f"{getattr(handler, '__module__', '')}."
    return name.startswith(_OURS) or (name.startswith(_TWISTED) and not any(word in name for word in _NOT_TWISTED))
