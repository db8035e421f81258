"""The frontier on Valkey or Redis, for the tasks of one event loop. The verbs are told in `contract`.

A question whose answer was lost is asked again with the same token until GOSSAMER_OUTAGE_SECONDS have passed, so it takes
effect at most once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from gossamer.errors import FrontierError, FrontierUnavailable, ReadOnlyReplica, UnknownDeadLetter
from gossamer.frontier import keys, schema
from gossamer.frontier.ask import Ask, Verb, function_missing, translate
from gossamer.frontier.connection import AsyncConnection, connect_async
from gossamer.frontier.control import scope_of, start_state
from gossamer.frontier.exchange import Added
from gossamer.frontier.reading import Counts, HostInfo, SeenInfo
from gossamer.frontier.snapshot import Page
from gossamer.frontier.verbs import Patience, Verbs, checked_schema
from gossamer.model import (
    Answer,
    Counter,
    DeadLetter,
    Drained,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    Request,
    Selection,
    Settlement,
    StartState,
    Task,
    Token,
    WorkerInfo,
)
from gossamer.settings import Settings, load

T = TypeVar("T")


class AsyncValkeyFrontier:
    """One crawl on one server or cluster. Made by `open`; closed by `close` or as a context manager."""

    def __init__(self, connection: AsyncConnection, verbs: Verbs, outage: float) -> None:
        self.connection, self.verbs = connection, verbs
        self.crawl, self.partitions = verbs.crawl, verbs.partitions
        self._outage = outage
        self._token = Token.fresh()

    @classmethod
    async def open(cls, settings: Settings | None = None, *, host: HostPolicy | None = None) -> Self:
        """Connect as GOSSAMER_URL says and open GOSSAMER_CRAWL; a crawl that does not exist is made, with
        GOSSAMER_PARTITIONS and `host` as its default host policy."""
        settings = settings or load()
        crawl = keys.crawl_name(settings["GOSSAMER_CRAWL"])
        connection = await connect_async(settings)
        try:
            frontier = cls(
                connection, Verbs(crawl, settings["GOSSAMER_PARTITIONS"], settings), settings["GOSSAMER_OUTAGE_SECONDS"]
            )
            await frontier.load_library()
            number, partitions = await frontier._run(frontier.verbs.opening(host or HostPolicy(), secrets.token_hex(8)))
            checked_schema(crawl, number)
            return cls(connection, Verbs(crawl, partitions, settings), settings["GOSSAMER_OUTAGE_SECONDS"])
        except BaseException:
            await connection.close()
            raise

    async def load_library(self, code: str | None = None) -> None:
        """Load the server-side functions where they are missing or older."""
        code = code or schema.library()
        for libraries in (await self.connection.function_list(schema.LIBRARY, code=True)).values():
            if schema.must_replace(libraries[0].code if libraries else None, code):
                await self.connection.function_load(code, replace=True)
                return

    async def close(self) -> None:
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, verb: Verb[T]) -> T:
        try:
            asks = next(verb)
            while True:
                asks = verb.send(await self.ask(asks))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def ask(self, asks: Sequence[Ask]) -> list[Any]:
        calls = [(schema.function(a.verb), a.keys, a.args) for a in asks]
        patience = Patience(self._outage)
        while True:
            try:
                if len(calls) == 1:
                    return [await self.connection.call(*calls[0])]
                return await self.connection.execute_many(calls)
            except (FrontierUnavailable, ReadOnlyReplica) as error:
                await asyncio.sleep(patience.pause(error))
            except FrontierError as error:
                if not function_missing(error):
                    raise translate(error) from None
                await asyncio.sleep(patience.pause(error))
                await self.load_library()

    async def exchange(
        self,
        token: Token,
        *,
        settle: Sequence[Settlement] = (),
        fetched: Sequence[Fetched] = (),
        sent: Sequence[Lease] = (),
        add: Sequence[Request] = (),
        counters: Sequence[Counter] = (),
        want: int = 0,
        selection: Selection | None = None,
        info: Mapping[str, str] | None = None,
    ) -> Answer:
        return await self._run(
            self.verbs.work.exchange(
                token,
                settle=settle,
                fetched=fetched,
                sent=sent,
                add=add,
                counters=counters,
                want=want,
                selection=selection,
                info=info,
            )
        )

    async def add(
        self, requests: Sequence[Request], *, bound: bool = True, key: str = "", token: Token | None = None
    ) -> Added:
        return await self._run(self.verbs.work.add(token or self._next(), requests, bound=bound, key=key))

    def _next(self) -> Token:
        self._token = self._token.next()
        return self._token

    async def renew(self, token: Token, leases: Sequence[Lease]) -> list[Lease | None]:
        return await self._run(self.verbs.work.renew(token.incarnation, leases))

    async def release(self, token: Token, leases: Sequence[Lease]) -> list[bool]:
        return await self._run(self.verbs.work.release(token.incarnation, leases))

    async def permit(self, token: Token, host: str) -> tuple[Lease | None, float | None]:
        return await self._run(self.verbs.work.permit(token, host))

    async def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        await self._run(self.verbs.control.define(group, lanes, policy))

    async def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> None:
        await self._run(self.verbs.control.pause(*scope_of(group, lane, host), reason or "paused"))

    async def resume(self, *, group: str = "", lane: str = "", host: str = "") -> None:
        await self._run(self.verbs.control.pause(*scope_of(group, lane, host), ""))

    async def set_host(self, host: str, policy: HostPolicy | None) -> None:
        await self._run(self.verbs.control.set_host(host, policy))

    async def set_crawl_delay(self, host: str, seconds: float) -> None:
        await self._run(self.verbs.control.set_crawl_delay(host, seconds))

    async def block(self, host: str, seconds: float, reason: str = "blocked") -> float:
        return await self._run(self.verbs.control.block(host, seconds, reason))

    async def start(self, group: str, token: Token) -> tuple[StartState, int]:
        state, number = await self._run(self.verbs.control.start(group, token.incarnation, "take"))
        return start_state(state), number

    async def renew_start(self, group: str, token: Token) -> bool:
        return (await self._run(self.verbs.control.start(group, token.incarnation, "renew")))[0] == "granted"

    async def started(self, group: str, token: Token) -> bool:
        return (await self._run(self.verbs.control.start(group, token.incarnation, "done")))[0] == "done"

    async def new_round(self, group: str, number: int) -> int:
        return await self._run(self.verbs.control.new_round(group, number))

    async def drop_lane(self, lane: str) -> AsyncIterator[int]:
        done = False
        while not done:
            done, dropped = await self._run(self.verbs.control.drop_lane(lane))
            yield dropped

    async def drained(self, group: str) -> Drained:
        return await self._run(self.verbs.read.drained(group))

    async def seen(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return await self._run(self.verbs.control.seen(lane, fingerprints, probe=True))

    async def forget(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return await self._run(self.verbs.control.seen(lane, fingerprints, probe=False))

    async def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        return await self._run(self.verbs.control.dead_list(group, after, limit))

    async def dead_letter(self, partition: int, number: int) -> DeadLetter:
        letter = await self._run(self.verbs.control.dead_show(partition, number))
        if letter is None:
            raise UnknownDeadLetter(f"there is no dead letter {partition}.{number} in crawl {self.crawl!r}.")
        return letter

    async def replay(self, partition: int, numbers: Sequence[int]) -> int:
        return await self._run(self.verbs.control.dead_change("replay", partition, numbers))

    async def drop_dead(self, partition: int, numbers: Sequence[int]) -> int:
        return await self._run(self.verbs.control.dead_change("drop", partition, numbers))

    async def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> bool:
        return await self._run(self.verbs.control.bury(group, lane, host, payload, reason, detail, key))

    async def lease_tasks(self, token: Token, source: str, want: int) -> list[Task]:
        return await self._run(self.verbs.control.lease_tasks(token, source, want))

    async def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> list[bool]:
        return (await self._run(self.verbs.control.settle_tasks(token.incarnation, source, done, release, renew)))[0]

    async def read_items(
        self, group: str, partition: int, after: str = "0-0", limit: int = 100
    ) -> list[tuple[str, bytes]]:
        key = keys.items(self.crawl, partition, group)
        rows = await self.connection.execute("XRANGE", key, f"({after}", "+", "COUNT", limit, key=key)
        return [(row[0].decode(), row[1][1]) for row in rows]

    async def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> int:
        return await self._run(self.verbs.control.items_ack(group, consumer, positions))

    async def counts(self, group: str = "") -> Counts:
        return await self._run(self.verbs.read.counts(group))

    async def hosts(self, names: Sequence[str]) -> list[HostInfo]:
        return await self._run(self.verbs.read.hosts(names))

    async def workers(self) -> list[WorkerInfo]:
        return await self._run(self.verbs.read.workers())

    async def drain_worker(self, incarnation: str, draining: bool = True) -> None:
        await self._run(self.verbs.read.workers("drain" if draining else "undrain", incarnation))

    async def forget_workers(self, silent: float) -> None:
        await self._run(self.verbs.read.workers("forget", before=silent))

    async def seen_counts(self) -> list[SeenInfo]:
        return await self._run(self.verbs.read.seen_counts())

    async def scan(self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "") -> Page:
        return await self._run(self.verbs.snapshot.page(partition, what, cursor, limit, place))
