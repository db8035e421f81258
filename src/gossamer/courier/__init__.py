"""The worker's end of the frontier, for any engine: inbox, outbox, exchange loop, renewals, outage, release."""

from gossamer.courier.adder import Adder
from gossamer.courier.courier import DRAINING, OVERDUE, Courier, Desk, Plan
from gossamer.courier.intake import Intake
from gossamer.courier.known import Known, Withheld
from gossamer.courier.link import AsyncLink, Link, ThreadLink, Timer
from gossamer.courier.tally import Tally

__all__ = [
    "DRAINING",
    "OVERDUE",
    "Adder",
    "AsyncLink",
    "Courier",
    "Desk",
    "Intake",
    "Known",
    "Link",
    "Plan",
    "Tally",
    "ThreadLink",
    "Timer",
    "Withheld",
]
