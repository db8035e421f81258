"""Addresses of hosts, cached: one lookup at a time for a host, in threads of their own, and an old address rather than none
when the name servers fail.

Not aiohttp's cache: it remembers no failure, gives no old address, and shares the threads of the loop (`test_dns`).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from aiohttp.abc import AbstractResolver, ResolveResult

KEPT, KEPT_FAILURE = 300.0, 10.0
"""Seconds that an address, and a failure, is kept."""
MOST = 10_000
THREADS = 16

Lookup = Callable[[str, int], list[tuple[int, str]]]
"""(host, family) → families and addresses; raises OSError if there are none. Runs in a thread."""


class _CachedAddress(NamedTuple):
    until: float
    addresses: list[tuple[int, str]]
    failure: OSError | None = None


def system(host: str, family: int) -> list[tuple[int, str]]:
    """The system's addresses, in its order."""
    found = socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    # A link-local address has its interface after a %, as getaddrinfo returns it.
    return [(int(kind), str(address[0])) for kind, _, _, _, address in found]


class CachingResolver(AbstractResolver):
    """For aiohttp's connector. `hosts` are names with fixed addresses."""

    def __init__(
        self,
        kept: float = KEPT,
        kept_failure: float = KEPT_FAILURE,
        hosts: Mapping[str, str] | None = None,
        lookup: Lookup = system,
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._kept, self._kept_failure, self._most = kept, kept_failure, most
        self._hosts = dict(hosts or {})
        self._lookup, self._clock = lookup, clock
        self._known: OrderedDict[tuple[str, int], _CachedAddress] = OrderedDict()
        self._asking: dict[tuple[str, int], asyncio.Future[_CachedAddress]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "gossamer-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host in self._hosts:
            address = self._hosts[host]
            return [_result(host, port, socket.AF_INET6 if ":" in address else socket.AF_INET, address)]
        key = (host, int(family))
        known = self._known.get(key)
        if known is None or known.until <= self._clock():
            asking = self._asking.get(key)
            if asking is None:
                asking = self._asking[key] = asyncio.ensure_future(self._ask(key, known))
                asking.add_done_callback(lambda _: self._asking.pop(key, None))
            # One that stops waiting does not cancel it for the others.
            known = await asyncio.shield(asking)
        if known.failure is not None:
            raise OSError(*known.failure.args)
        return [_result(host, port, kind, address) for kind, address in known.addresses]

    async def _ask(self, key: tuple[str, int], old: _CachedAddress | None) -> _CachedAddress:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, self._lookup, *key)
            known = _CachedAddress(self._clock() + self._kept, found)
        except (OSError, UnicodeError) as error:
            until = self._clock() + self._kept_failure
            if old is not None and old.addresses:
                known = _CachedAddress(until, old.addresses)
            else:
                # What cannot be written as a name is nobody's.
                failure = error if isinstance(error, OSError) else OSError(socket.EAI_NONAME, str(error))
                known = _CachedAddress(until, [], failure)
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return known

    async def close(self) -> None:
        for asking in list(self._asking.values()):
            asking.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _result(host: str, port: int, family: int, address: str) -> ResolveResult:
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": flags}
