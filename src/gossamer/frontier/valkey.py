"""The frontier on Valkey or Redis, for blocking code and any number of threads.

`contract` says what each verb does; the classes of `verbs` say how, once for blocking and asyncio code.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from gossamer.errors import UnknownCrawl
from gossamer.frontier.call import Verb
from gossamer.frontier.client import FunctionClient
from gossamer.frontier.connection import Connection, connect, data_directory
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
DERIVED: dict[str, tuple[type, Callable[..., Verb[Any]]]] = {}
"""The verbs of the contract that are derived, by name: the class of `verbs` that has each, and its method there."""


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
    """Raise `UnknownCrawl` if the embedded server has no data: it is not started to find that out."""
    directory = data_directory(settings)
    if directory is None:
        return
    from gossamer.frontier.connection.embedded import has_data

    if not has_data(directory):
        raise UnknownCrawl(
            f"there is no crawl {crawl!r}: {directory} holds no data. Go to the folder of your project, name the directory "
            "with GOSSAMER_DATA_DIR or a server with GOSSAMER_URL; a worker's first call makes the crawl."
        )


def blocking(part: type[V], verb: Callable[Concatenate[V, P], Verb[T]]) -> Callable[Concatenate[ValkeyFrontier, P], T]:
    """A method that runs this verb and waits for its end."""

    @wraps(verb)
    def method(self: ValkeyFrontier, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.connection.drive(self.calls.run(verb(self.verbs.part(part), *args, **kwargs)))

    DERIVED[verb.__name__] = part, verb
    return method


class ValkeyFrontier(FunctionClient):
    """One crawl on one server or cluster. Made by `open`; closed by `close` or as a context manager."""

    def __init__(self, connection: Connection, verbs: CrawlVerbs, outage: float, library: str | None = None) -> None:
        super().__init__(connection, outage, library)
        self.verbs = verbs
        self.crawl, self.partitions = verbs.crawl, verbs.partitions

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

    exchange = blocking(WorkVerbs, WorkVerbs.exchange)
    add = blocking(AddVerbs, AddVerbs.add)
    renew = blocking(LeaseVerbs, LeaseVerbs.renew)
    release = blocking(LeaseVerbs, LeaseVerbs.release)
    permit = blocking(LeaseVerbs, LeaseVerbs.permit)

    define = blocking(CrawlVerbs, CrawlVerbs.define)
    pause = blocking(ControlVerbs, ControlVerbs.pause)
    resume = blocking(ControlVerbs, ControlVerbs.resume)
    set_host = blocking(ControlVerbs, ControlVerbs.set_host)
    set_crawl_delay = blocking(ControlVerbs, ControlVerbs.set_crawl_delay)
    block = blocking(ControlVerbs, ControlVerbs.block)
    seen = blocking(ControlVerbs, ControlVerbs.seen)
    forget = blocking(ControlVerbs, ControlVerbs.forget)
    forget_texts = blocking(ControlVerbs, ControlVerbs.forget_texts)

    start = blocking(CrawlVerbs, CrawlVerbs.start)
    renew_start = blocking(ControlVerbs, ControlVerbs.renew_start)
    release_start = blocking(ControlVerbs, ControlVerbs.release_start)
    started = blocking(ControlVerbs, ControlVerbs.started)
    new_round = blocking(CrawlVerbs, CrawlVerbs.new_round)
    end_round = blocking(RoundVerbs, RoundVerbs.end_round)
    renew_end = blocking(RoundVerbs, RoundVerbs.renew_end)
    release_end = blocking(RoundVerbs, RoundVerbs.release_end)
    ended = blocking(RoundVerbs, RoundVerbs.ended)
    round_note = blocking(RoundVerbs, RoundVerbs.round_note)
    rounds = blocking(RoundVerbs, RoundVerbs.rounds)
    daily_counts = blocking(DailyVerbs, DailyVerbs.daily_counts)
    coverage = blocking(DailyVerbs, DailyVerbs.coverage)
    drop_round = blocking(RoundVerbs, RoundVerbs.drop_round)

    dead_letters = blocking(DeadLetterVerbs, DeadLetterVerbs.dead_letters)
    dead_letter = blocking(DeadLetterVerbs, DeadLetterVerbs.dead_letter)
    read_dead = blocking(DeadLetterVerbs, DeadLetterVerbs.read_dead)
    replay = blocking(DeadLetterVerbs, DeadLetterVerbs.replay)
    drop_dead = blocking(DeadLetterVerbs, DeadLetterVerbs.drop_dead)
    bury = blocking(DeadLetterVerbs, DeadLetterVerbs.bury)

    lease_tasks = blocking(TaskVerbs, TaskVerbs.lease_tasks)
    settle_tasks = blocking(TaskVerbs, TaskVerbs.settle_tasks)
    task_counts = blocking(ReadVerbs, ReadVerbs.task_counts)
    keep_items = blocking(ControlVerbs, ControlVerbs.keep_items)
    drop_items = blocking(ControlVerbs, ControlVerbs.drop_items)

    drained = blocking(ReadVerbs, ReadVerbs.drained)
    counts = blocking(ReadVerbs, ReadVerbs.counts)
    hosts = blocking(ReadVerbs, ReadVerbs.hosts)
    seen_counts = blocking(ReadVerbs, ReadVerbs.seen_counts)
    workers = blocking(ReadVerbs, ReadVerbs.workers)
    workers_count = blocking(ReadVerbs, ReadVerbs.workers_count)
    silent_workers = blocking(ReadVerbs, ReadVerbs.silent_workers)
    turn_to_look = blocking(ReadVerbs, ReadVerbs.turn_to_look)
    gone = blocking(CrawlVerbs, CrawlVerbs.gone)
    leave = blocking(ReadVerbs, ReadVerbs.leave)
    drain_worker = blocking(ReadVerbs, ReadVerbs.drain_worker)
    forget_workers = blocking(ReadVerbs, ReadVerbs.forget_workers)

    put_cookies = blocking(CookieVerbs, CookieVerbs.put_cookies)
    cookies = blocking(CookieVerbs, CookieVerbs.cookies)
    page_versions = blocking(PageVersionVerbs, PageVersionVerbs.page_versions)
    put_page_versions = blocking(PageVersionVerbs, PageVersionVerbs.put_page_versions)
    forget_page_versions = blocking(PageVersionVerbs, PageVersionVerbs.forget_page_versions)
    check_page_versions = blocking(PageVersionVerbs, PageVersionVerbs.check_page_versions)

    put_document = blocking(DocumentVerbs, DocumentVerbs.put_document)
    drop_document = blocking(DocumentVerbs, DocumentVerbs.drop_document)
    document = blocking(DocumentVerbs, DocumentVerbs.document)
    read_documents = blocking(DocumentVerbs, DocumentVerbs.read_documents)
    documents = blocking(DocumentVerbs, DocumentVerbs.documents)
    document_history = blocking(DocumentVerbs, DocumentVerbs.document_history)
    documents_version = blocking(DocumentVerbs, DocumentVerbs.documents_version)

    lead = blocking(LeaderVerbs, LeaderVerbs.lead)
    resign = blocking(LeaderVerbs, LeaderVerbs.resign)
    feed = blocking(PageRecordVerbs, PageRecordVerbs.feed)
    page_records = blocking(PageRecordVerbs, PageRecordVerbs.page_records)
    scan_page_records = blocking(PageRecordVerbs, PageRecordVerbs.scan_page_records)
    locate = blocking(PageRecordVerbs, PageRecordVerbs.locate)
    plan_state = blocking(PlanVerbs, PlanVerbs.plan_state)
    plan_cycles = blocking(PlanVerbs, PlanVerbs.plan_cycles)
    due_lanes = blocking(PlanVerbs, PlanVerbs.due_lanes)
    alert_entries = blocking(AlertVerbs, AlertVerbs.alert_entries)
    put_alert_entries = blocking(AlertVerbs, AlertVerbs.put_alert_entries)

    scan = blocking(SnapshotVerbs, SnapshotVerbs.scan)

    def drop_lane(self, lane: str) -> Iterator[int]:
        return self._drop(partial(self.verbs.drops.drop_lane, lane))

    def drop_group(self, group: str) -> Iterator[int]:
        return self._drop(partial(self.verbs.drops.drop_group, group))

    def _drop(self, step: Callable[[Mapping[int, str] | None], DropStep]) -> Iterator[int]:
        left, dropped = self.run(step(None))
        yield dropped
        while left:
            left, dropped = self.run(step(left))
            yield dropped

    def read_items(self, group: str, partition: int, after: str = "0-0", limit: int = 100) -> list[tuple[str, bytes]]:
        key = keys.items(self.crawl, partition, group)
        # A position among what a replaced primary is still told would lie beyond items that the present one has.
        rows = self.connection.execute("XRANGE", key, f"({after}", "+", "COUNT", limit, key=key, final=True)
        return [(row[0].decode(), row[1][1]) for row in rows]
