"""What the frontier returns. Outcomes are enums; numbers that may be None say so."""

from __future__ import annotations

import base64
import enum
import zlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gossamer.model.request import Lease, Selection


class AddOutcome(enum.Enum):
    """What became of one added request.

    ADDED: queued, and marked seen. DUPLICATE: seen before, never resend. FULL: beyond the room of lane, group or
    memory; may be sent again later. CLOSED: its lane is being dropped. UNKNOWN_LANE: no such lane; a page's child is
    kept as a dead letter. INVALID: refused before it was sent, the reason is in `ExchangeReply.invalid`. LOST: an unfiltered
    child of a page whose lease was lost; the new holder will add it.
    """

    ADDED = "a"
    DUPLICATE = "d"
    FULL = "f"
    CLOSED = "c"
    UNKNOWN_LANE = "u"
    INVALID = "i"
    LOST = "l"


Invalid = dict[int | tuple[int, int], str]
"""Why requests were refused: by their place in `add`, or by the settlement and their place among its children."""
Added = tuple[list[AddOutcome], Invalid, int | None]
"""Outcome per request, why the invalid ones are, and the room left (None: no limit)."""


class SettleOutcome(enum.Enum):
    """SETTLED: applied. LOST: another worker holds the request by now; items and children were rejected."""

    SETTLED = "s"
    LOST = "l"


class Hints(NamedTuple):
    """What to do next.

    `ready_in`: seconds until something may become ready; 0 means at once, None means nothing is known to come.
    `open`: queued + delayed + leased + owed starts of the groups served, on the partitions asked; 0 means drained but
    for tasks (see `Frontier.drained`). `paused`: why nothing is leased, "" if leasing is open. `config_version`
    changes when any policy or document changes and when a round begins. `room`: how many requests a producer may
    still add to the fullest lane it added to in this call; None means no limit. `session`: the version of the cookies that workers of
    the group share which the call asked about; 0: there are none, or it did not ask.
    """

    ready_in: float | None
    open: int
    paused: str
    config_version: str
    now: float
    room: int | None
    session: int = 0


class PartitionState(NamedTuple):
    """Which state of a partition an answer is from. `change` grows with every change. A server process that takes the data
    over has another `epoch`, and may have an older state: what was learned under one epoch says nothing about another, and
    what was learned at one change says nothing about an earlier one."""

    epoch: str
    change: int

    def leads_to(self, later: PartitionState) -> bool:
        """Whether all that was learned from this state is still true in `later`."""
        return self.epoch == later.epoch and self.change <= later.change


class ExchangeReply(NamedTuple):
    """The answer to one exchange, in the order of what was sent.

    `invalid` says why a request was refused before it was sent: by its place in `add`, or by (settlement, child). `states`
    are those of the partitions that were asked.
    """

    leases: list[Lease]
    settled: list[SettleOutcome]
    added: list[AddOutcome]
    children: list[list[AddOutcome]]
    invalid: Mapping[int | tuple[int, int], str]
    hints: Hints
    states: Mapping[int, PartitionState] = MappingProxyType({})


class StartState(enum.Enum):
    """GRANTED: run `start()` now, then say `started`. BUSY: another worker runs it. DONE: it ran in this round."""

    GRANTED = "granted"
    BUSY = "busy"
    DONE = "done"


class Drained(NamedTuple):
    """Whether a group is drained, and what is still open if not."""

    drained: bool
    open: int
    tasks: int


class TaskQueueSize(NamedTuple):
    """Tasks that wait in a producer's key and that are leased; and how many were `settled` in the last `seconds`, while there were any."""

    waiting: int
    leased: int
    settled: int
    seconds: float


class LaneCounts(NamedTuple):
    """One lane now, and over the life of the crawl. Of lanes that keep page records also: pages that were `found` and wait to be queued, how
    many `pages` have a record, and when the first of them is due (server time in seconds; 0: none)."""

    lane: str
    queued: int
    delayed: int
    leased: int
    added: int
    duplicates: int
    done: int
    replaced: int
    retried: int
    failed: int
    expired: int
    overflow: int
    paused: str
    found: int = 0
    pages: int = 0
    next_due: float = 0.0

    @property
    def waiting(self) -> int:
        """What no worker has begun yet: queued, delayed or found."""
        return self.queued + self.delayed + self.found


class GroupCounts(NamedTuple):
    """One group: `open` is what keeps it from being drained, tasks aside; `lost` counts settlements that came after
    their lease was given away, with what of theirs was refused. `start` is none, owed, leased or done."""

    group: str
    round: int
    open: int
    pages: int
    items: int
    items_waiting: int
    dead: int
    lost: int
    refused_items: int
    refused_children: int
    paused: str
    start: str
    counters: Mapping[str, float]


class DeadLetter(NamedTuple):
    """A request that failed for good. `at` is server time in seconds."""

    partition: int
    id: int
    group: str
    lane: str
    host: str
    priority: int
    fingerprint: int
    attempt: int
    reason: str
    detail: str
    at: float
    payload: bytes


CLOSED = "closed"
"""What a worker tells of itself when it has ended in good order."""
STAGE, LANES, OUTAGES = "stage", "lanes", "outages"
"""What it tells where it serves a part of its groups, and where it cannot serve some."""


class WorkerInfo(NamedTuple):
    """One worker as the frontier knows it. `seen` is the server time of its last call; `held` its leases; `settled` how many it has
    settled."""

    incarnation: str
    info: Mapping[str, str]
    seen: float
    held: int
    draining: bool
    settled: int = 0

    @property
    def name(self) -> str:
        """What people call it: the name it was given, else the machine and process it is."""
        info = self.info
        return info.get("name") or (f"{info['host']}:{info.get('pid', '')}" if info.get("host") else self.incarnation)

    @property
    def closed(self) -> bool:
        """Whether it has ended in good order."""
        return CLOSED in self.info

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it serves, as far as it has told."""
        return groups_from(self.info)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that it takes of these, if not all."""
        return _names(self.info.get(LANES, ""))

    @property
    def stage(self) -> str | None:
        """The stage that it takes of these; None: all."""
        return self.info.get(STAGE)

    @property
    def outages(self) -> dict[str, str]:
        """The groups of which it takes nothing, since it cannot store what their pages bring, and why."""
        told = (line.partition(" ") for line in _names(self.info.get(OUTAGES, "")))
        return {group: why for group, _, why in told}


MANY_GROUPS = 1000
_PACKED = "deflated:"


def groups_text(names: Iterable[str]) -> str:
    """The groups that a worker serves, as text for its `info`; many names are packed."""
    text = "\n".join(names)
    if len(text) <= MANY_GROUPS:
        return text
    return _PACKED + base64.b64encode(zlib.compress(text.encode())).decode("ascii")


def groups_from(info: Mapping[str, str]) -> tuple[str, ...]:
    """Read what `groups_text` wrote; a worker of one group may just name it."""
    return _names(info.get("groups", "")) or _names(info.get("group", ""))


def _names(text: str) -> tuple[str, ...]:
    if text.startswith(_PACKED):
        try:
            text = zlib.decompress(base64.b64decode(text.removeprefix(_PACKED))).decode()
        except (ValueError, zlib.error):
            text = ""
    return tuple(text.split("\n")) if text else ()


def selection_info(selection: Selection) -> dict[str, str]:
    """What a worker tells where it serves a part of its groups."""
    stage = {} if selection.stage is None else {STAGE: selection.stage}
    return {**stage, LANES: groups_text(selection.lanes)} if selection.lanes else stage


class EndState(enum.Enum):
    """GRANTED: do what is to be done after the round, then say `ended`. BUSY: another worker does it. DONE: it was done in
    this round. OPEN: the group is not drained."""

    GRANTED = "granted"
    BUSY = "busy"
    DONE = "done"
    OPEN = "open"


class RoundInfo(NamedTuple):
    """One round of a group. Times are server time in seconds, None where unknown: `began`, `ended` when it was found
    drained, `closed` when all was done that comes after it. `state`: running, ending (what comes after it is under way), ended,
    seeded again (the next round began before, to be fetched along with it), or cut short (it began before for another reason). The counts are those of this round: `pages` with those that failed, `failed`
    those that a worker gave up, `dead` all requests that became dead letters in it, also those that were replayed since. `late`
    and `note` are as recorded by `round_note`, `tasks` is whether a planner has pushed its tasks, `obstacle` why a planner
    could not push them, or not begin the next round. `gone` counts rows of tables with `gone` whose source is gone since this round; None: there are no such tables,
    or it is not over."""

    group: str
    round: int
    state: str
    began: float | None
    ended: float | None
    closed: float | None
    trigger: str
    who: str
    pages: int
    items: int
    failed: int
    dead: int
    late: bool
    note: str
    tasks: bool = False
    obstacle: str = ""
    gone: int | None = None


GONE_UNKNOWN = "which rows are gone is unknown"
"""How the note of a round begins that says nothing of rows which it did not bring; then where and why."""

# Why a page or a task became a dead letter: the words that both engines share. docs/reference/engine.md lists them all.

BAD_TASK = "bad_task"
BLOCKED = "blocked"
"""A wall came instead of the page: a challenge, a captcha, nothing at all."""
GARBAGE = "garbage"
"""What is stored is no request."""
OVERDUE = "overdue"
"""It was worked on for longer than GOSSAMER_RENEW_MAX_SECONDS."""
PIPELINE = "pipeline"
POISON = "poison"
"""Its lease ran out too often."""
START_FAILED = "start_failed"
UNSERIALIZABLE = "unserializable"
"""Something that it yielded cannot be stored."""


def of_status(status: int) -> str:
    return f"http_{status}"


PAGES_FULL = "pages_full"
"""Why a group is held whose round has as many pages as it may."""
REMOVED = "removed"
"""Why nothing is leased from the group of a site whose file is gone."""
LOGIN_FAILED = "login failed: "
"""How the reason of a pause begins where a site refused the login."""
HELD = "held: "
"""How the reason of a pause and the note of a round begin in which fields have too few values (`hold` of a site)."""
AFTER_ROUND_FAILED = "after_round failed: "
"""How the note of a round begins whose hook after_round raised."""


class Counts(NamedTuple):
    """A whole crawl at a glance, summed over its partitions. `policies` are the raw tables by lane and by group; `led`: a planner
    leads the crawl, and begins its rounds. `clocks` has for each group the time by which its rounds are noted: partitions on several
    servers have several clocks."""

    now: float
    config_version: str
    paused: str
    lanes: list[LaneCounts]
    groups: list[GroupCounts]
    lane_policies: Mapping[str, Mapping[str, Any]]
    group_policies: Mapping[str, Mapping[str, Any]]
    led: bool = False
    clocks: Mapping[str, float] = MappingProxyType({})


class HostInfo(NamedTuple):
    """One host now. Times are server time in seconds, 0 where none is set; `delay` is the one in force for all,
    `crawl_delay` what its robots.txt asks for, which counts for groups that heed it. `policy` has the fields of `HostPolicy`: its own, or the crawl's default."""

    host: str
    in_flight: int
    next_at: float
    blocked_until: float
    reason: str
    paused: str
    delay: float
    throttled: int
    crawl_delay: float
    own_policy: bool
    now: float
    policy: Mapping[str, Any]


class SeenInfo(NamedTuple):
    """One memory: its group and policy, and how many fingerprints it knows (a bloom counts what it took in); `bytes` is
    taken from a sample."""

    name: str
    kind: str
    known: int
    keys: tuple[str, ...]
    bytes: int


class ScannedRequest(NamedTuple):
    """One stored request as a snapshot sees it. `due` is server time in seconds, 0 for now; `number` is its id, 0 if it was
    never leased; `filtered` False: it was added without a look at the seen memory; `changed`
    stands for the text that its list said, 0 for none."""

    partition: int
    lane: str
    host: str
    priority: int
    due: float
    fingerprint: int
    payload: bytes
    number: int = 0
    attempts: int = 0
    strikes: int = 0
    filtered: bool = True
    changed: int = 0


class ScannedDeadLetter(NamedTuple):
    """One dead letter as a snapshot sees it."""

    partition: int
    number: int
    group: str
    lane: str
    host: str
    priority: int
    attempts: int
    strikes: int
    reason: str
    detail: str
    at: float
    record: bytes


class ScanPage(NamedTuple):
    """A page of a scan; `cursor` is "" at the end. Rows are `ScannedRequest`, `ScannedDeadLetter` or, for hosts and page_texts, raw tables and bytes. `journal` is
    how many entries the journal has."""

    cursor: str
    rows: list[Any]
    now: float
    journal: int = 0


class SeenPage(NamedTuple):
    """A page of a memory: `what` it is about (policy, fps, forgotten, bits, none), its details and, for bits, the bytes."""

    cursor: str
    what: str
    details: list[Any]
    data: bytes
