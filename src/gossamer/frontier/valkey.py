"""The frontier on Valkey or Redis, for blocking code and any number of threads. The verbs are told in `contract`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from gossamer.errors import UnknownCrawl, UnknownDeadLetter
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.connection import Connection, connect, data_directory
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
    inherited,
)
from gossamer.settings import Settings, load


def found_crawl(connection: Connection, crawl: str) -> tuple[int, int]:
    """Schema and partitions of a crawl, or `UnknownCrawl`."""
    key = keys.meta(crawl)
    number, partitions = connection.execute("HMGET", key, "schema", "partitions", key=key)
    if number is None or partitions is None:
        raise UnknownCrawl(
            f"there is no crawl {crawl!r} {connection.place}. Name another with --crawl or GOSSAMER_CRAWL; "
            "a worker's first call makes it."
        )
    return int(number), int(partitions)


def check_data(settings: Settings, crawl: str) -> None:
    """`UnknownCrawl` where the embedded server would have nothing to tell: none is started to find that out."""
    directory = data_directory(settings)
    if directory is None:
        return
    from gossamer.frontier.connection.embedded import has_data

    if not has_data(directory):
        raise UnknownCrawl(
            f"there is no crawl {crawl!r}: {directory} holds no data. Go to the folder of your project, name the directory "
            "with GOSSAMER_DATA_DIR or a server with GOSSAMER_URL; a worker's first call makes the crawl."
        )


class ValkeyFrontier(FunctionClient):
    """One crawl on one server or cluster. Made by `open`; closed by `close` or as a context manager."""

    def __init__(self, connection: Connection, verbs: CrawlVerbs, outage: float, library: str | None = None) -> None:
        super().__init__(connection, outage, library)
        self.verbs = verbs
        self.crawl, self.partitions = verbs.crawl, verbs.partitions
        self._token = Token.fresh()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, settings: Settings | None = None, *, host: HostPolicy | None = None, library: str | None = None
    ) -> Self:
        """Connect as GOSSAMER_URL says and open GOSSAMER_CRAWL; a crawl that does not exist is made, with
        GOSSAMER_PARTITIONS and `host` as its default host policy. `library` stands in for the functions, in tests."""
        settings = settings or load()
        crawl, outage = keys.crawl_name(settings["GOSSAMER_CRAWL"]), settings["GOSSAMER_OUTAGE_SECONDS"]
        frontier = cls(connect(settings), CrawlVerbs(crawl, settings["GOSSAMER_PARTITIONS"], settings), outage, library)
        try:
            frontier.load_library()
            number, partitions = frontier.run(frontier.verbs.opening(host or HostPolicy(), secrets.token_hex(8)))
            checked_schema(crawl, number)
        except BaseException:
            frontier.close()
            raise
        return cls(frontier.connection, CrawlVerbs(crawl, partitions, settings), outage, library)

    @classmethod
    def find(cls, settings: Settings | None = None) -> Self:
        """As `open`, for a crawl that exists; `UnknownCrawl` if it does not. Makes none."""
        settings = settings or load()
        crawl, outage = keys.crawl_name(settings["GOSSAMER_CRAWL"]), settings["GOSSAMER_OUTAGE_SECONDS"]
        check_data(settings, crawl)
        connection = connect(settings)
        try:
            number, partitions = found_crawl(connection, crawl)
            checked_schema(crawl, number)
            frontier = cls(connection, CrawlVerbs(crawl, partitions, settings), outage)
            frontier.load_library()
        except BaseException:
            connection.close()
            raise
        return frontier

    def exchange(
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
        return self.run(
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

    def add(
        self,
        requests: Sequence[Request],
        *,
        bound: bool = True,
        key: str | Sequence[str] = "",
        token: Token | None = None,
    ) -> Added:
        return self.run(self.verbs.work.add(token or self._next(), requests, bound=bound, key=key))

    def _next(self) -> Token:
        if inherited(self._token.incarnation):
            self._lock = threading.Lock()  # a thread that is not in this child may have held it
        with self._lock:
            self._token = self._token.next()
            return self._token

    def renew(self, token: Token, leases: Sequence[Lease]) -> list[Lease | None]:
        return self.run(self.verbs.work.renew(token.incarnation, leases))

    def release(self, token: Token, leases: Sequence[Lease | Sent]) -> list[bool]:
        return self.run(self.verbs.work.release(token.incarnation, leases))

    def permit(self, token: Token, host: str) -> tuple[Lease | None, float | None]:
        return self.run(self.verbs.work.permit(token, host))

    def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> None:
        self.run(self.verbs.control.define(group, lanes, policy))

    def pause(self, *, group: str = "", lane: str = "", host: str = "", reason: str = "paused") -> None:
        self.run(self.verbs.control.pause(*scope_of(group, lane, host), reason or "paused"))

    def resume(self, *, group: str = "", lane: str = "", host: str = "") -> None:
        self.run(self.verbs.control.pause(*scope_of(group, lane, host), ""))

    def set_host(self, host: str, policy: HostPolicy | None) -> None:
        self.run(self.verbs.control.set_host(host, policy))

    def set_crawl_delay(self, host: str, seconds: float) -> None:
        self.run(self.verbs.control.set_crawl_delay(host, seconds))

    def block(self, host: str, seconds: float, reason: str = "blocked") -> float:
        return self.run(self.verbs.control.block(host, seconds, reason))

    def start(self, group: str, token: Token) -> tuple[StartState, int]:
        state, number = self.run(self.verbs.control.start(group, token.incarnation, "take"))
        return start_state(state), number

    def renew_start(self, group: str, token: Token) -> bool:
        return self.run(self.verbs.control.start(group, token.incarnation, "renew"))[0] == "granted"

    def release_start(self, group: str, token: Token) -> bool:
        return self.run(self.verbs.control.start(group, token.incarnation, "release"))[0] == "granted"

    def started(self, group: str, token: Token) -> bool:
        return self.run(self.verbs.control.start(group, token.incarnation, "done"))[0] == "done"

    def new_round(self, group: str, number: int, *, trigger: str = "", who: str = "") -> int:
        return self.run(self.verbs.rounds.new(group, number, trigger, who))

    def end_round(self, group: str, token: Token) -> tuple[EndState, int]:
        state, number = self.run(self.verbs.rounds.take(group, token.incarnation))
        return EndState(state), number

    def renew_end(self, group: str, token: Token) -> bool:
        return self.run(self.verbs.rounds.keep(group, token.incarnation, "renew"))

    def release_end(self, group: str, token: Token) -> bool:
        return self.run(self.verbs.rounds.keep(group, token.incarnation, "release"))

    def ended(self, group: str, token: Token, summary: Mapping[str, Any] | None = None) -> bool:
        return self.run(self.verbs.rounds.ended(group, token.incarnation, summary or {}))

    def round_note(self, group: str, number: int, fields: Mapping[str, Any]) -> bool:
        return self.run(self.verbs.rounds.note(group, number, fields))

    def rounds(self, group: str, limit: int = 100) -> list[RoundInfo]:
        return self.run(self.verbs.rounds.list(group, limit))

    def drop_lane(self, lane: str) -> Iterator[int]:
        left, dropped = self.run(self.verbs.control.drop_lane(lane, None))
        yield dropped
        while left:
            left, dropped = self.run(self.verbs.control.drop_lane(lane, left))
            yield dropped

    def drop_group(self, group: str) -> Iterator[int]:
        left, dropped = self.run(self.verbs.control.drop_group(group, None))
        yield dropped
        while left:
            left, dropped = self.run(self.verbs.control.drop_group(group, left))
            yield dropped

    def drained(self, group: str) -> Drained:
        return self.run(self.verbs.read.drained(group))

    def seen(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return self.run(self.verbs.control.seen(lane, fingerprints, probe=True))

    def forget(self, lane: str, fingerprints: Sequence[int]) -> list[bool]:
        return self.run(self.verbs.control.seen(lane, fingerprints, probe=False))

    def dead_letters(self, group: str, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        return self.run(self.verbs.control.dead_list(group, after, limit))

    def dead_letter(self, partition: int, number: int) -> DeadLetter:
        letter = self.run(self.verbs.control.dead_show(partition, number))
        if letter is None:
            raise UnknownDeadLetter(f"there is no dead letter {partition}.{number} in crawl {self.crawl!r}.")
        return letter

    def replay(self, partition: int, numbers: Sequence[int]) -> int:
        return self.run(self.verbs.control.dead_change("replay", partition, numbers))

    def drop_dead(self, partition: int, numbers: Sequence[int]) -> int:
        return self.run(self.verbs.control.dead_change("drop", partition, numbers))

    def bury(
        self, group: str, payload: bytes, *, reason: str, key: str, detail: str = "", lane: str = "", host: str = ""
    ) -> bool:
        return self.run(self.verbs.control.bury(group, lane, host, payload, reason, detail, key))

    def lease_tasks(self, token: Token, source: str, want: int) -> list[Task]:
        return self.run(self.verbs.control.lease_tasks(token, source, want))

    def settle_tasks(
        self,
        token: Token,
        source: str,
        *,
        done: Sequence[Task] = (),
        release: Sequence[Task] = (),
        renew: Sequence[Task] = (),
    ) -> list[bool]:
        return self.run(self.verbs.control.settle_tasks(token.incarnation, source, done, release, renew))[0]

    def read_items(self, group: str, partition: int, after: str = "0-0", limit: int = 100) -> list[tuple[str, bytes]]:
        key = keys.items(self.crawl, partition, group)
        # A position among what a replaced primary is still told would lie beyond items that the present one has.
        rows = self.connection.execute("XRANGE", key, f"({after}", "+", "COUNT", limit, key=key, final=True)
        return [(row[0].decode(), row[1][1]) for row in rows]

    def keep_items(self, group: str, consumer: str, positions: Mapping[int, str]) -> int:
        return self.run(self.verbs.control.items_ack(group, consumer, positions))

    def counts(self, group: str = "") -> Counts:
        return self.run(self.verbs.read.counts(group))

    def hosts(self, names: Sequence[str]) -> list[HostInfo]:
        return self.run(self.verbs.read.hosts(names))

    def workers(self, most: int = 0) -> list[WorkerInfo]:
        return self.run(self.verbs.read.workers(most))

    def silent_workers(self, least: float, most: float) -> tuple[float, list[WorkerInfo]]:
        return self.run(self.verbs.read.silent_workers(least, most))

    def gone(self, incarnation: str, silent: float, groups: Sequence[str] = ()) -> int:
        return self.run(self.verbs.gone(incarnation, silent, groups))

    def workers_count(self) -> int:
        return self.run(self.verbs.read.workers_count())

    def leave(self, incarnation: str) -> None:
        self.run(self.verbs.read.worker("leave", incarnation))

    def drain_worker(self, incarnation: str, draining: bool = True) -> None:
        self.run(self.verbs.read.worker("drain" if draining else "undrain", incarnation))

    def forget_workers(self, silent: float) -> int:
        return self.run(self.verbs.read.worker("forget", before=silent))

    def put_cookies(self, group: str, cookies: Mapping[str, bytes], *, most: int) -> tuple[int, int]:
        return self.run(self.verbs.cookies.put(group, cookies, most))

    def cookies(self, group: str, after: int = 0) -> tuple[int, dict[str, bytes], int]:
        return self.run(self.verbs.cookies.since(group, after))

    def seen_counts(self) -> list[SeenInfo]:
        return self.run(self.verbs.read.seen_counts())

    def scan(
        self, partition: int, what: str, cursor: str = "0", limit: int = 500, place: str = "", snapshot: str = ""
    ) -> ScanPage:
        return self.run(self.verbs.snapshot.page(partition, what, cursor, limit, place, snapshot))

    def put_document(
        self, kind: str, name: str, text: str, *, expected: int | None = None, who: str = "", note: str = ""
    ) -> int:
        return self.run(self.verbs.documents.put(kind, name, text, expected, who, note))

    def drop_document(self, kind: str, name: str, *, who: str = "", note: str = "") -> int:
        return self.run(self.verbs.documents.drop(kind, name, who, note))

    def document(self, kind: str, name: str, version: int | None = None) -> Document:
        return self.run(self.verbs.documents.one(kind, name, version))

    def documents(self, kind: str) -> list[DocumentInfo]:
        return self.run(self.verbs.documents.all(kind))

    def document_history(self, kind: str, name: str) -> list[DocumentInfo]:
        return self.run(self.verbs.documents.history(kind, name))

    def documents_version(self) -> int:
        return self.run(self.verbs.documents.version())
