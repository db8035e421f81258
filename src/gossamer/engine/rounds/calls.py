"""Calls to the frontier on behalf of a round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from gossamer.courier.outage import patiently
from gossamer.courier.rounds import give_back
from gossamer.courier.transport import Ask, Verb
from gossamer.errors import FrontierUnavailable
from gossamer.model import Token

P = ParamSpec("P")
T = TypeVar("T")


class RoundCalls:
    """`token` has the incarnation that holds the leases of starts and ends: that of the worker's pages, so that all end with it."""

    def __init__(self, ask: Ask, token: Token, lease_seconds: float) -> None:
        self.ask, self.token, self._renewal = ask, token, lease_seconds / 3

    async def patiently(self, verb: Verb[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a verb, and wait for a frontier that cannot be reached."""
        waits = "the rounds of this worker's sites wait for it"
        return await patiently(self.ask, asyncio.sleep, waits, verb, *args, **kwargs)

    @asynccontextmanager
    async def lease(
        self, group: str, renew: Verb[[str, Token], bool], release: Verb[[str, Token], Any]
    ) -> AsyncIterator[None]:
        """Renew the lease of a start or an end until the block ends. The task is cancelled when another worker has the lease; a task
        that is cancelled gives it back."""
        renewing = asyncio.ensure_future(self._keep(renew, group, asyncio.current_task()))
        try:
            yield
        except asyncio.CancelledError:
            await give_back(self.ask, release, group, self.token)
            raise
        finally:
            renewing.cancel()

    async def _keep(self, renew: Verb[[str, Token], bool], group: str, task: asyncio.Task[Any] | None) -> None:
        while True:
            await asyncio.sleep(self._renewal)
            try:
                if not await self.ask(renew, group, self.token) and task is not None:
                    task.cancel()
            except FrontierUnavailable:
                continue
