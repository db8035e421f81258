"""The frontier on Valkey or Redis, for the tasks of one event loop. The verbs are told in `contract`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from gossamer.errors import UnknownDeadLetter
from gossamer.frontier.client import AsyncFunctionClient
from gossamer.frontier.connection import AsyncConnection, connect_async
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control import scope_of, start_state
from gossamer.frontier.verbs.counts import Counts, HostInfo, SeenInfo
from gossamer.frontier.verbs.crawl import CrawlVerbs, checked_schema
from gossamer.frontier.verbs.exchange import Added
from gossamer.frontier.verbs.scan import ScanPage
from gossamer.model import (
    CounterChange,
    DeadLetter,
    Document,
    DocumentInfo,
    Drained,
    EndState,
    ExchangeReply,
    Fetched,
    GroupPolicy,
    HostPolicy,
    LanePolicy,
    Lease,
    PartitionState,
    Request,
    RoundInfo,
    Selection,
    Sent,
    Settlement,
    StartState,
    Task,
    Token,
    WorkerInfo,
)
from gossamer.settings import Settings, load


class AsyncValkeyFrontier(AsyncFunctionClient):
    """One crawl on one server or cluster. Made by `open`; closed by `close` or as a context manager."""

    def __init__(
        self, connection: AsyncConnection, verbs: CrawlVerbs, outage: float, library: str | None = None
    ) -> None:
        super().__init__(connection, outage, library)
        self.verbs = verbs
        self.crawl, self.partitions = verbs.crawl, verbs.partitions
        self._token = Token.fresh()

    @classmethod
    async def open(
        cls, settings: Settings | None = None, *, host: HostPolicy | None = None, library: str | None = None
    ) -> Self:
        """Connect as GOSSAMER_URL says and open GOSSAMER_CRAWL; a crawl that does not exist is made, with
        GOSSAMER_PARTITIONS and `host` as its default host policy. `library` stands in for the functions, in tests."""
        settings = settings or load()
        crawl, outage = keys.crawl_name(settings["GOSSAMER_CRAWL"]), settings["GOSSAMER_OUTAGE_SECONDS"]
        frontier = cls(
            await connect_async(settings), CrawlVerbs(crawl, settings["GOSSAMER_PARTITIONS"], settings), outage, library
        )
        try:
            await frontier.load_library()
            number, partitions = await frontier.run(frontier.verbs.opening(host or HostPolicy(), secrets.token_hex(8)))
            checked_schema(crawl, number)
        except BaseException:
            await frontier.close()
            raise
        return cls(frontier.connection, CrawlVerbs(crawl, partitions, settings), outage, library)

    async def exchange(
        self,
        token: Token,
        *,
        settle: Sequence[Settlement] = (),
        fetched: Sequence[Fetched] = (),
        sent: Sequence[Lease | Sent] = (),
        add: Sequence[Request] = (),
        counters: Sequence[CounterChange] = (),
        want: int = 0,
        selection: Selection | None = None,
        info: Mapping[str, str] | None = None,
        relies: Mapping[int, PartitionState] | None = None,
        session: str = "",
        everywhere: bool = False,
    ) -> ExchangeReply:
        return await self.run(
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
                relies=relies,
                session=session,
                everywhere=everywhere,
            )
        )

    async def add(
        self,
        requests: Sequence[Request],
        *,
        bound: bool = True,
        key: str | Sequence[str] = "",
        token: Token | None = None,
    ) -> Added:
        return await self.run(self.verbs.work.add(token or self._next(), requests, bound=bound, key=key))

    def _next(self) -> Token:
        self._token = self._token.next()
        return self._token

    async def renew(self, token: Token, leases: Sequence[Lease]) -> list[Lease | None]:
        return await self.run(self.verbs.work.renew(token.incarnation, leases))

    async def release(self, token: Token, leases: Sequence[Lease | Sent]) -> list[bool]:
        return await self.run(self.verbs.work.release(token.incarnation, leases))

    async def permit(self, token: Token, host: str) -> tuple[Lease | None, float | None]:
        return await self.run(self.verbs.work.permit(token, host))

    async def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        await self.run(self.verbs.control.define(group, lanes, policy))

    async def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> None:
        await self.run(self.verbs.control.pause(*scope_of(group, lane, host), reason or "paused"))

    async def resume(self, *, group: str = "", lane: str = "", host: str = "") -> None:
        await self.run(self.verbs.control.pause(*scope_of(group, lane, host), ""))

    async def set_host(self, host: str, policy: HostPolicy | None) -> None:
        await self.run(self.verbs.control.set_host(host, policy))

    async def set_crawl_delay(self, host: str, seconds: float) -> None:
        await self.run(self.verbs.control.set_crawl_delay(host, seconds))

    async def block(self, host: str, seconds: float, reason: str = "blocked") -> float:
        return await self.run(self.verbs.control.block(host, seconds, reason))

    async def start(self, group: str, token: Token) -> tuple[StartState, int]:
        state, number = await self.run(self.verbs.control.start(group, token.incarnation, "take"))
        return start_state(state), number

    async def renew_start(self, group: str, token: Token) -> bool:
        return (await self.run(self.verbs.control.start(group, token.incarnation, "renew")))[0] == "granted"

    async def release_start(self, group: str, token: Token) -> bool:
        return (await self.run(self.verbs.control.start(group, token.incarnation, "release")))[0] == "granted"

    async def started(self, group: str, token: Token) -> bool:
        return (await self.run(self.verbs.control.start(group, token.incarnation, "done")))[0] == "done"

    async def new_round(self, group: str, number: int, *, trigger: str = "", who: str = "") -> int:
        return await self.run(self.verbs.rounds.new(group, number, trigger, who))

    async def end_round(self, group: str, token: Token) -> tuple[EndState, int]:
        state, number = await self.run(self.verbs.rounds.take(group, token.incarnation))
        return EndState(state), number

    async def renew_end(self, group: str, token: Token) -> bool:
        return await self.run(self.verbs.rounds.keep(group, token.incarnation, "renew"))

    async def release_end(self, group: str, token: Token) -> bool:
        return await self.run(self.verbs.rounds.keep(group, token.incarnation, "release"))

    async def ended(self, group: str, token: Token, summary: Mapping[str, Any] | None = None) -> bool:
        return await self.run(self.verbs.rounds.ended(group, token.incarnation, summary or {}))

    async def round_note(self, group: str, number: int, fields: Mapping[str, Any]) -> bool:
        return await self.run(self.verbs.rounds.note(group, number, fields))

    async def rounds(self, group: str, limit: int = 100) -> list[RoundInfo]:
        return await self.run(self.verbs.rounds.list(group, limit))

    async def drop_lane(self, lane: str) -> AsyncIterator[int]:
        left, dropped = await self.run(self.verbs.control.drop_lane(lane, None))
        yield dropped
        while left:
            left, dropped = await self.run(self.verbs.control.drop_lane(lane, left))
            yield dropped

    async def drop_group(self, group: str) -> AsyncIterator[int]:
        left, dropped = await self.run(self.verbs.control.drop_group(group, None))
        yield dropped
        while left:
            left, dropped = await self.run(self.verbs.control.drop_group(group, left))
            yield dropped

    async def drained(self, group: str) -> Drained:
        return await self.run(self.verbs.read.drained(group))

    async def seen(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return await self.run(self.verbs.control.seen(lane, fingerprints, probe=True))

    async def forget(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return await self.run(self.verbs.control.seen(lane, fingerprints, probe=False))

    async def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        return await self.run(self.verbs.control.dead_list(group, after, limit))

    async def dead_letter(self, partition: int, number: int) -> DeadLetter:
        letter = await self.run(self.verbs.control.dead_show(partition, number))
        if letter is None:
            raise UnknownDeadLetter(f"there is no dead letter {partition}.{number} in crawl {self.crawl!r}.")
        return letter

    async def replay(self, partition: int, numbers: Sequence[int]) -> int:
        return await self.run(self.verbs.control.dead_change("replay", partition, numbers))

    async def drop_dead(self, partition: int, numbers: Sequence[int]) -> int:
        return await self.run(self.verbs.control.dead_change("drop", partition, numbers))

    async def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> bool:
        return await self.run(self.verbs.control.bury(group, lane, host, payload, reason, detail, key))

    async def lease_tasks(self, token: Token, source: str, want: int) -> list[Task]:
        return await self.run(self.verbs.control.lease_tasks(token, source, want))

    async def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> list[bool]:
        return (await self.run(self.verbs.control.settle_tasks(token.incarnation, source, done, release, renew)))[0]

    async def read_items(
        self, group: str, partition: int, after: str = "0-0", limit: int = 100
    ) -> list[tuple[str, bytes]]:
        key = keys.items(self.crawl, partition, group)
        # A position among what a replaced primary is still told would lie beyond items that the present one has.
        rows = await self.connection.execute("XRANGE", key, f"({after}", "+", "COUNT", limit, key=key, final=True)
        return [(row[0].decode(), row[1][1]) for row in rows]

    async def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> int:
        return await self.run(self.verbs.control.items_ack(group, consumer, positions))

    async def counts(self, group: str = "") -> Counts:
        return await self.run(self.verbs.read.counts(group))

    async def hosts(self, names: Sequence[str]) -> list[HostInfo]:
        return await self.run(self.verbs.read.hosts(names))

    async def workers(self, most: int = 0) -> list[WorkerInfo]:
        return await self.run(self.verbs.read.workers(most))

    async def silent_workers(self, least: float, most: float) -> tuple[float, list[WorkerInfo]]:
        return await self.run(self.verbs.read.silent_workers(least, most))

    async def gone(self, incarnation: str, silent: float, groups: Sequence[str] = ()) -> int:
        return await self.run(self.verbs.gone(incarnation, silent, groups))

    async def workers_count(self) -> int:
        return await self.run(self.verbs.read.workers_count())

    async def leave(self, incarnation: str) -> None:
        await self.run(self.verbs.read.worker("leave", incarnation))

    async def drain_worker(self, incarnation: str, draining: bool = True) -> None:
        await self.run(self.verbs.read.worker("drain" if draining else "undrain", incarnation))

    async def forget_workers(self, silent: float) -> int:
        return await self.run(self.verbs.read.worker("forget", before=silent))

    async def put_cookies(self, group: str, cookies: Mapping[str, bytes], *, most: int) -> tuple[int, int]:
        return await self.run(self.verbs.cookies.put(group, cookies, most))

    async def cookies(self, group: str, after: int = 0) -> tuple[int, dict[str, bytes], int]:
        return await self.run(self.verbs.cookies.since(group, after))

    async def seen_counts(self) -> list[SeenInfo]:
        return await self.run(self.verbs.read.seen_counts())

    async def scan(
        self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "", snapshot: str = ""
    ) -> ScanPage:
        return await self.run(self.verbs.snapshot.page(partition, what, cursor, limit, place, snapshot))

    async def put_document(
        self, kind: str, name: str, text: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> int:
        return await self.run(self.verbs.documents.put(kind, name, text, expected, who, note))

    async def drop_document(self, kind: str, name: str, *, who: str = "", note: str = "") -> int:
        return await self.run(self.verbs.documents.drop(kind, name, who, note))

    async def document(self, kind: str, name: str, version: int | None = None) -> Document:
        return await self.run(self.verbs.documents.one(kind, name, version))

    async def documents(self, kind: str) -> list[DocumentInfo]:
        return await self.run(self.verbs.documents.all(kind))

    async def document_history(self, kind: str, name: str) -> list[DocumentInfo]:
        return await self.run(self.verbs.documents.history(kind, name))

    async def documents_version(self) -> int:
        return await self.run(self.verbs.documents.version())
