"""The frontier on Valkey or Redis, for the tasks of one event loop. The verbs are those of `ValkeyFrontier`, as coroutines."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gossamer.frontier.call import Verb
from gossamer.frontier.client import AsyncFunctionClient
from gossamer.frontier.connection import AsyncConnection, connect_async
from gossamer.frontier.server import keys
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.control.dead_letters import DeadLetterVerbs
from gossamer.frontier.verbs.control.drop import DropStep
from gossamer.frontier.verbs.control.tasks import TaskVerbs
from gossamer.frontier.verbs.cookies import CookieVerbs
from gossamer.frontier.verbs.counts import ReadVerbs
from gossamer.frontier.verbs.crawl import CrawlVerbs, checked_schema
from gossamer.frontier.verbs.documents import DocumentVerbs
from gossamer.frontier.verbs.page_versions import PageVersionVerbs
from gossamer.frontier.verbs.plan.alerts import AlertVerbs
from gossamer.frontier.verbs.plan.daily import DailyVerbs
from gossamer.frontier.verbs.plan.leader import LeaderVerbs
from gossamer.frontier.verbs.plan.pages import PageRecordVerbs
from gossamer.frontier.verbs.plan.state import PlanVerbs
from gossamer.frontier.verbs.rounds import RoundVerbs
from gossamer.frontier.verbs.scan import SnapshotVerbs
from gossamer.frontier.verbs.work.add import AddVerbs
from gossamer.frontier.verbs.work.exchange import WorkVerbs
from gossamer.frontier.verbs.work.leases import LeaseVerbs
from gossamer.model import HostPolicy
from gossamer.settings import Settings, load

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


def awaited(
    part: type[V], verb: Callable[Concatenate[V, P], Verb[T]]
) -> Callable[Concatenate[AsyncValkeyFrontier, P], Coroutine[Any, Any, T]]:
    """A coroutine method that runs this verb."""

    @wraps(verb)
    async def method(self: AsyncValkeyFrontier, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.connection.drive(self.calls.run(verb(self.verbs.part(part), *args, **kwargs)))

    return method


class AsyncValkeyFrontier(AsyncFunctionClient):
    """One crawl on one server or cluster. Made by `open`; closed by `close` or as a context manager."""

    def __init__(
        self, connection: AsyncConnection, verbs: CrawlVerbs, outage: float, library: str | None = None
    ) -> None:
        super().__init__(connection, outage, library)
        self.verbs = verbs
        self.crawl, self.partitions = verbs.crawl, verbs.partitions

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

    exchange = awaited(WorkVerbs, WorkVerbs.exchange)
    add = awaited(AddVerbs, AddVerbs.add)
    renew = awaited(LeaseVerbs, LeaseVerbs.renew)
    release = awaited(LeaseVerbs, LeaseVerbs.release)
    permit = awaited(LeaseVerbs, LeaseVerbs.permit)

    define = awaited(CrawlVerbs, CrawlVerbs.define)
    pause = awaited(ControlVerbs, ControlVerbs.pause)
    resume = awaited(ControlVerbs, ControlVerbs.resume)
    set_host = awaited(ControlVerbs, ControlVerbs.set_host)
    set_crawl_delay = awaited(ControlVerbs, ControlVerbs.set_crawl_delay)
    block = awaited(ControlVerbs, ControlVerbs.block)
    seen = awaited(ControlVerbs, ControlVerbs.seen)
    forget = awaited(ControlVerbs, ControlVerbs.forget)

    start = awaited(CrawlVerbs, CrawlVerbs.start)
    renew_start = awaited(ControlVerbs, ControlVerbs.renew_start)
    release_start = awaited(ControlVerbs, ControlVerbs.release_start)
    started = awaited(ControlVerbs, ControlVerbs.started)
    new_round = awaited(CrawlVerbs, CrawlVerbs.new_round)
    end_round = awaited(RoundVerbs, RoundVerbs.end_round)
    renew_end = awaited(RoundVerbs, RoundVerbs.renew_end)
    release_end = awaited(RoundVerbs, RoundVerbs.release_end)
    ended = awaited(RoundVerbs, RoundVerbs.ended)
    round_note = awaited(RoundVerbs, RoundVerbs.round_note)
    rounds = awaited(RoundVerbs, RoundVerbs.rounds)
    daily_counts = awaited(DailyVerbs, DailyVerbs.daily_counts)
    drop_round = awaited(RoundVerbs, RoundVerbs.drop_round)

    dead_letters = awaited(DeadLetterVerbs, DeadLetterVerbs.dead_letters)
    dead_letter = awaited(DeadLetterVerbs, DeadLetterVerbs.dead_letter)
    replay = awaited(DeadLetterVerbs, DeadLetterVerbs.replay)
    drop_dead = awaited(DeadLetterVerbs, DeadLetterVerbs.drop_dead)
    bury = awaited(DeadLetterVerbs, DeadLetterVerbs.bury)

    lease_tasks = awaited(TaskVerbs, TaskVerbs.lease_tasks)
    settle_tasks = awaited(TaskVerbs, TaskVerbs.settle_tasks)
    task_counts = awaited(ReadVerbs, ReadVerbs.task_counts)
    keep_items = awaited(ControlVerbs, ControlVerbs.keep_items)

    drained = awaited(ReadVerbs, ReadVerbs.drained)
    counts = awaited(ReadVerbs, ReadVerbs.counts)
    hosts = awaited(ReadVerbs, ReadVerbs.hosts)
    seen_counts = awaited(ReadVerbs, ReadVerbs.seen_counts)
    workers = awaited(ReadVerbs, ReadVerbs.workers)
    workers_count = awaited(ReadVerbs, ReadVerbs.workers_count)
    silent_workers = awaited(ReadVerbs, ReadVerbs.silent_workers)
    gone = awaited(CrawlVerbs, CrawlVerbs.gone)
    leave = awaited(ReadVerbs, ReadVerbs.leave)
    drain_worker = awaited(ReadVerbs, ReadVerbs.drain_worker)
    forget_workers = awaited(ReadVerbs, ReadVerbs.forget_workers)

    put_cookies = awaited(CookieVerbs, CookieVerbs.put_cookies)
    cookies = awaited(CookieVerbs, CookieVerbs.cookies)
    page_versions = awaited(PageVersionVerbs, PageVersionVerbs.page_versions)
    put_page_versions = awaited(PageVersionVerbs, PageVersionVerbs.put_page_versions)
    forget_page_versions = awaited(PageVersionVerbs, PageVersionVerbs.forget_page_versions)
    check_page_versions = awaited(PageVersionVerbs, PageVersionVerbs.check_page_versions)

    put_document = awaited(DocumentVerbs, DocumentVerbs.put_document)
    drop_document = awaited(DocumentVerbs, DocumentVerbs.drop_document)
    document = awaited(DocumentVerbs, DocumentVerbs.document)
    read_documents = awaited(DocumentVerbs, DocumentVerbs.read_documents)
    documents = awaited(DocumentVerbs, DocumentVerbs.documents)
    document_history = awaited(DocumentVerbs, DocumentVerbs.document_history)
    documents_version = awaited(DocumentVerbs, DocumentVerbs.documents_version)

    lead = awaited(LeaderVerbs, LeaderVerbs.lead)
    resign = awaited(LeaderVerbs, LeaderVerbs.resign)
    feed = awaited(PageRecordVerbs, PageRecordVerbs.feed)
    page_records = awaited(PageRecordVerbs, PageRecordVerbs.page_records)
    scan_page_records = awaited(PageRecordVerbs, PageRecordVerbs.scan_page_records)
    locate = awaited(PageRecordVerbs, PageRecordVerbs.locate)
    plan_state = awaited(PlanVerbs, PlanVerbs.plan_state)
    plan_cycles = awaited(PlanVerbs, PlanVerbs.plan_cycles)
    due_lanes = awaited(PlanVerbs, PlanVerbs.due_lanes)
    alert_entries = awaited(AlertVerbs, AlertVerbs.alert_entries)
    put_alert_entries = awaited(AlertVerbs, AlertVerbs.put_alert_entries)

    scan = awaited(SnapshotVerbs, SnapshotVerbs.scan)

    def drop_lane(self, lane: str) -> AsyncIterator[int]:
        return self._drop(partial(self.verbs.drops.drop_lane, lane))

    def drop_group(self, group: str) -> AsyncIterator[int]:
        return self._drop(partial(self.verbs.drops.drop_group, group))

    async def _drop(self, step: Callable[[Mapping[int, str] | None], DropStep]) -> AsyncIterator[int]:
        left, dropped = await self.run(step(None))
        yield dropped
        while left:
            left, dropped = await self.run(step(left))
            yield dropped

    async def read_items(
        self, group: str, partition: int, after: str = "0-0", limit: int = 100
    ) -> list[tuple[str, bytes]]:
        key = keys.items(self.crawl, partition, group)
        # A position among what a replaced primary is still told would lie beyond items that the present one has.
        rows = await self.connection.execute("XRANGE", key, f"({after}", "+", "COUNT", limit, key=key, final=True)
        return [(row[0].decode(), row[1][1]) for row in rows]
