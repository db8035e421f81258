"""All verbs of one crawl, and how it is opened. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gossamer.errors import GroupDropping, SchemaTooNew, SchemaTooOld, UnknownGroup
from gossamer.frontier.call import Verb, function_call, read
from gossamer.frontier.connection.url import parse
from gossamer.frontier.server import keys, library
from gossamer.frontier.verbs.control.control import ControlVerbs
from gossamer.frontier.verbs.control.dead_letters import DeadLetterVerbs
from gossamer.frontier.verbs.control.drop import DropVerbs
from gossamer.frontier.verbs.control.tables import host_table
from gossamer.frontier.verbs.control.tasks import TaskVerbs
from gossamer.frontier.verbs.cookies import CookieVerbs
from gossamer.frontier.verbs.counts import ReadVerbs
from gossamer.frontier.verbs.documents import DocumentVerbs
from gossamer.frontier.verbs.page_versions import PageVersionVerbs
from gossamer.frontier.verbs.partition_sync import PartitionSync
from gossamer.frontier.verbs.plan.alerts import AlertVerbs
from gossamer.frontier.verbs.plan.daily import DailyVerbs
from gossamer.frontier.verbs.plan.leader import LeaderVerbs
from gossamer.frontier.verbs.plan.pages import PageRecordVerbs
from gossamer.frontier.verbs.plan.state import PlanVerbs
from gossamer.frontier.verbs.rounds import RoundVerbs
from gossamer.frontier.verbs.scan import SnapshotVerbs
from gossamer.frontier.verbs.work.exchange import WorkVerbs
from gossamer.model import GroupPolicy, HostPolicy, LanePolicy, StartState, Token
from gossamer.settings import Settings

V = TypeVar("V")


class CrawlVerbs:
    """The verbs of one opened crawl, and the settings they need."""

    def __init__(self, crawl: str, partitions: int, settings: Settings) -> None:
        self.crawl, self.partitions = crawl, partitions
        self.work = WorkVerbs(
            crawl,
            partitions,
            payload_max=settings["GOSSAMER_PAYLOAD_MAX_BYTES"],
            lease_seconds=settings["GOSSAMER_LEASE_SECONDS"],
            send_seconds=settings["GOSSAMER_SEND_SECONDS"],
            strikes=settings["GOSSAMER_POISON_STRIKES"],
            slots=parse(settings["GOSSAMER_URL"]).kind == "cluster",
        )
        self.control = ControlVerbs(
            crawl,
            partitions,
            self.work.checked,
            lease_seconds=settings["GOSSAMER_LEASE_SECONDS"],
            strikes=settings["GOSSAMER_POISON_STRIKES"],
        )
        self.drops = DropVerbs(self.control, self.work.outbox)
        self.dead_letters = DeadLetterVerbs(self.control)
        self.tasks = TaskVerbs(self.control.lease_ms, self.control.strikes)
        self.read = ReadVerbs(crawl, partitions)
        self.snapshot = SnapshotVerbs(crawl, partitions)
        self.rounds = RoundVerbs(self.control, self.read)
        self.sync = PartitionSync(self.control, self.drops, self.rounds)
        self.work.adds.bring = self.sync.bring
        self.cookies = CookieVerbs(crawl, partitions)
        self.page_versions = PageVersionVerbs(crawl, partitions)
        self.documents = DocumentVerbs(crawl, settings["GOSSAMER_DOCUMENT_VERSIONS"])
        self.leader = LeaderVerbs(crawl, partitions)
        self.pages = PageRecordVerbs(crawl, partitions, self.work.checked)
        self.plan = PlanVerbs(crawl, partitions)
        self.daily = DailyVerbs(crawl, partitions)
        self.alerts = AlertVerbs(crawl)
        parts = (self, self.work.adds, self.work.leases, *vars(self).values())
        self._parts: dict[type, Any] = {type(part): part for part in parts}

    def part(self, kind: type[V]) -> V:
        """The verbs of one kind, such as `WorkVerbs`."""
        part: V = self._parts[kind]
        return part

    def define(self, group: str, lanes: Mapping[str, LanePolicy], policy: GroupPolicy | None = None) -> Verb[None]:
        """Partitions whose groups differ (one forgot a round, or a drop) are brought into step."""
        try:
            told = yield from self.control.define(group, lanes, policy)
        except GroupDropping:
            if self.partitions == 1:
                raise
            # Perhaps only a partition that has forgotten how it ended.
            yield from self.sync.group(group)
            told = yield from self.control.define(group, lanes, policy)
        if self.partitions == 1:
            return
        for partition, (_, _, epoch) in enumerate(told):
            self.work.adds.recent.heard(partition, epoch, time.monotonic())
        if len({(born, number) for born, number, _ in told}) > 1:
            yield from self.sync.group(group)

    def start(self, group: str, token: Token) -> Verb[tuple[StartState, int]]:
        return (yield from self._known(group, lambda: self.control.start(group, token)))

    def new_round(
        self,
        group: str,
        number: int | None,
        *,
        trigger: str = "",
        who: str = "",
        term: int = 0,
        again: bool = False,
        after: float | None = None,
    ) -> Verb[int]:
        def begin() -> Verb[int]:
            return self.rounds.new_round(group, number, trigger=trigger, who=who, term=term, again=again, after=after)

        return (yield from self._known(group, begin))

    def _known(self, group: str, ask: Callable[[], Verb[V]]) -> Verb[V]:
        """The reply, even if one of several partitions has lost the group."""
        try:
            return (yield from ask())
        except UnknownGroup:
            if self.partitions == 1:
                raise
        yield from self.sync.group(group)
        return (yield from ask())

    def gone(self, incarnation: str, silent: float, groups: Sequence[str] = ()) -> Verb[int]:
        """A worker that has called any partition lately counts as alive on all."""
        now, known = yield from self.read.named_workers([incarnation])
        if any(worker.seen > now - silent for worker in known):
            return 0
        return (yield from self.control.gone(incarnation, silent, groups))

    def opening(self, host: HostPolicy, salt: str) -> Verb[tuple[int, int]]:
        """Create the crawl if it does not exist. Return its schema and its number of partitions."""
        header = {"schema": library.SCHEMA, "partitions": self.partitions, "salt": salt, "host": host_table(host)}
        [reply] = yield [function_call("open", keys.base(self.crawl, 0), header)]
        number, partitions, _, _ = read(reply)
        if number == library.SCHEMA:
            rest = [
                function_call("open", keys.base(self.crawl, p), {**header, "partitions": partitions})
                for p in range(1, partitions)
            ]
            if rest:
                yield rest
        return number, partitions


def checked_schema(crawl: str, number: int) -> None:
    if number > library.SCHEMA:
        raise SchemaTooNew(
            f"crawl {crawl!r} has schema {number}, this Gossamer writes {library.SCHEMA}. {SchemaTooNew()}"
        )
    if number < library.SCHEMA:
        raise SchemaTooOld(
            f"crawl {crawl!r} has schema {number}, this Gossamer writes {library.SCHEMA}. {SchemaTooOld()}"
        )
