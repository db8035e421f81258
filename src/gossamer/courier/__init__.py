"""The worker's end of the frontier, for any engine: inbox, outbox, exchange loop, renewals, outage, release."""

from gossamer.courier.adder import Adder
from gossamer.courier.courier import DRAINING, OVERDUE, Courier, Desk, Plan, follow
from gossamer.courier.intake import Intake
from gossamer.courier.keeper import Keeper
from gossamer.courier.known import Known, Withheld
from gossamer.courier.link import AsyncLink, Link, SharedLink, ThreadLink, Timer
from gossamer.courier.silence import gone
from gossamer.courier.tally import Tally

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
