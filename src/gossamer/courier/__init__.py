"""The worker's end of the frontier, for any engine: inbox, outbox, exchange loop, renewals, outage, release."""

from gossamer.courier.counters import Tally
from gossamer.courier.courier import DRAINING, OVERDUE, Courier, Desk, Plan, follow
from gossamer.courier.heartbeat import Keeper
from gossamer.courier.seen_cache import Known, Withheld
from gossamer.courier.stalls import gone
from gossamer.courier.starts import Adder
from gossamer.courier.tasks import Intake
from gossamer.courier.transport import AsyncLink, Link, SharedLink, ThreadLink, Timer

__all__ = [
    "DRAINING",
    "OVERDUE",
    "Adder",
    "AsyncLink",
    "Courier",
    "Desk",
    "Intake",
    "Keeper",
    "Known",
    "Link",
    "Plan",
    "SharedLink",
    "Tally",
    "ThreadLink",
    "Timer",
    "Withheld",
    "follow",
    "gone",
]
