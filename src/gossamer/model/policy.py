"""How lanes, hosts, groups and the seen memory behave. Plain data, checked when made."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass, field

from gossamer.errors import PolicyError
from gossamer.model.plan.page_record import RecordPolicy

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}\Z")
GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,99}\Z")
LANE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:-]{0,99}\Z")


class Order(enum.Enum):
    """Inside one priority of one host: first in first out, or last in first out."""

    FIFO = "fifo"
    LIFO = "lifo"


class SeenKind(enum.Enum):
    """How fingerprints are remembered.

    EXACT: every one, for good. BLOOM: all, in a third of the memory, but a new one is taken for seen with
    probability `error`. ROLLING: for `window` seconds or the last `window_count`. HITS: as rolling, but every
    sighting renews it.
    """

    EXACT = "exact"
    BLOOM = "bloom"
    ROLLING = "rolling"
    HITS = "hits"


class SeenScope(enum.Enum):
    """FOREVER: over all rounds. ROUND: once per round. NEVER: nothing is checked (next/prev links loop)."""

    FOREVER = "forever"
    ROUND = "round"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class SeenPolicy:
    """Lanes of one group with equal policies share one memory.

    `capacity` and `error` serve BLOOM. `window` (seconds), `window_count` or `window_rounds`, exactly one of them, serve ROLLING
    and HITS: what is younger than the window is surely remembered, what is older than 1.25 windows surely forgotten. A
    window of rounds goes on with the rounds of the group, however long they take.
    """

    kind: SeenKind = SeenKind.EXACT
    scope: SeenScope = SeenScope.FOREVER
    capacity: int = 1_000_000
    error: float = 1e-4
    window: float = 0.0
    window_count: int = 0
    window_rounds: int = 0

    def __post_init__(self) -> None:
        if self.kind is SeenKind.BLOOM:
            if not 1_000 <= self.capacity <= 10**10:
                raise PolicyError(f"seen: capacity {self.capacity} must lie between 1,000 and 10^10.")
            if not 1e-9 <= self.error <= 0.1:
                raise PolicyError(f"seen: error {self.error} must lie between 1e-9 and 0.1.")
        if self.kind in (SeenKind.ROLLING, SeenKind.HITS):
            number("seen: window", self.window, low=0.0)
            whole("seen: window_rounds", self.window_rounds, high=1_000_000)
            if [self.window > 0, self.window_count > 0, self.window_rounds > 0].count(True) != 1:
                raise PolicyError(
                    f"seen: {self.kind.value} needs one of window (seconds), window_count and window_rounds."
                )
            if self.window_rounds and self.scope is SeenScope.ROUND:
                raise PolicyError(
                    "seen: a window of rounds needs the scope forever; the scope round forgets at each new round."
                )
            if 0 < self.window < 1 or 0 < self.window_count < 4:
                raise PolicyError("seen: a window must be at least one second, or four fingerprints.")

    @property
    def spec(self) -> str:
        """One text per distinct memory."""
        detail = ""
        if self.kind is SeenKind.BLOOM:
            detail = f":{self.capacity}:{self.error:g}"
        elif self.kind in (SeenKind.ROLLING, SeenKind.HITS):
            detail = f":{self.window:g}:{self.window_count}" + f":{self.window_rounds}" * (self.window_rounds > 0)
        return f"{self.kind.value}{detail}@{self.scope.value}"


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """One sub-queue of a group.

    A lower `tier` is served strictly first; inside a tier shares follow `weight`. `max_queued` binds producers
    (0: no limit; children of pages are always accepted); `max_leased` bounds what is in progress (0: no limit).
    `stage` names the worker pool that serves it; "" is the general pool. With `records` it keeps a record of each page instead of a
    seen memory. The limits hold on each partition.
    """

    order: Order = Order.FIFO
    tier: int = 0
    weight: float = 1.0
    seen: SeenPolicy = field(default_factory=SeenPolicy)
    max_queued: int = 0
    max_leased: int = 0
    stage: str = ""
    records: RecordPolicy | None = None

    def __post_init__(self) -> None:
        number("lane: weight", self.weight, low=0.001, high=1e6)
        whole("lane: tier", self.tier, low=-1000, high=1000)
        whole("lane: max_queued", self.max_queued)
        whole("lane: max_leased", self.max_leased)
        if self.stage and not NAME.match(self.stage):
            raise PolicyError(f"lane: stage {self.stage!r} must be a plain name.")


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """How the whole fleet treats one host (or, as the crawl's default, every host).

    `delay` seconds between requests and at most `concurrency` in flight (0: no limit). With `adaptive`, the delay begins
    there and follows latency / `target` between `min_delay` and `max_delay`: up at once, down by halves, never down on
    errors. `block_base` is the first block by answers without Retry-After, a 429 or at least 5 of the last 10 with 503,
    doubling in a row (0: none); no block lasts beyond `block_max`. `crawl_delay` says whether the delay that the host's robots.txt asks for counts too.
    """

    delay: float = 0.0
    concurrency: int = 8
    adaptive: bool = False
    min_delay: float = 0.0
    max_delay: float = 60.0
    target: float = 1.0
    block_base: float = 5.0
    block_max: float = 3600.0
    crawl_delay: bool = True

    def __post_init__(self) -> None:
        for name in ("delay", "min_delay", "max_delay", "block_base", "block_max"):
            number(f"host: {name}", getattr(self, name), low=0.0, high=86400.0 * 365)
        number("host: target", self.target, low=0.01, high=1000.0)
        whole("host: concurrency", self.concurrency)
        if self.min_delay > self.max_delay:
            raise PolicyError("host: min_delay is larger than max_delay.")


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """A spider or a site.

    Groups that have ready work share by `weight`, whatever the tiers of their lanes. `max_queued` binds producers over all its lanes;
    `max_pages` ends leasing with reason `pages_full` once that many pages of a round are done or leased (0: no limit, both). `delay` and `concurrency` make hosts stricter, never laxer, for this
    group (0: as the host's), and so does a delay that a host's robots.txt asks for if it has `crawl_delay`: its `concurrency` bounds its own requests in flight on a host, beside the host's own bound for all. `start`
    says that a start is owed: the group is not drained before it has run. `tasks` are the keys that feed it. Items beyond `max_items` or
    `max_item_bytes` that nobody has written, and dead letters beyond `max_dead`, pause it (0: no limit). Written items go after `max_item_age`
    seconds (0: only at a limit). All limits hold on each partition. `gone`: pages note which rows they brought, so workers of versions that
    do not note it get none.
    """

    max_queued: int = 0
    max_pages: int = 0
    delay: float = 0.0
    concurrency: int = 0
    start: bool = False
    tasks: tuple[str, ...] = ()
    max_items: int = 1_000_000
    max_dead: int = 100_000
    max_item_bytes: int = 2**30
    weight: float = 1.0
    crawl_delay: bool = True
    max_item_age: float = 0.0
    gone: bool = False

    def __post_init__(self) -> None:
        number("group: max_item_age", self.max_item_age, low=0.0, high=86400.0 * 36500)
        number("group: weight", self.weight, low=0.001, high=1e6)
        number("group: delay", self.delay, low=0.0, high=86400.0 * 365)
        for name in ("max_queued", "max_pages", "concurrency", "max_items", "max_item_bytes", "max_dead"):
            whole(f"group: {name}", getattr(self, name))


def number(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Refuse what is not a finite number from `low` to `high`; NaN is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or value == math.inf:
        raise PolicyError(
            f"{name} is {value!r}; it must be a finite number, at least {low:g}"
            + (f" and at most {high:g}." if high < math.inf else ".")
        )


def whole(name: str, value: int, low: int = 0, high: int = 2**53) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PolicyError(f"{name} is {value!r}; it must be a whole number from {low} to {high}.")


def group_name(name: str) -> str:
    """A usable group name, or PolicyError."""
    if not GROUP.match(name):
        raise PolicyError(
            f"group {name!r}: use letters, digits, and _ . : @ - (at most 100, starting with a letter or digit). "
            "For a spider with another name, set GOSSAMER_GROUP."
        )
    return name


def lane_name(name: str) -> str:
    """A usable lane name (without its group), or PolicyError."""
    if not LANE.match(name):
        raise PolicyError(f"lane {name!r}: use letters, digits, and _ : - (no dot; at most 100).")
    return name
