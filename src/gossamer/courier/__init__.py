"""The worker's end of the frontier, for any engine: inbox, outbox, exchange loop, renewals, outage, release."""

from gossamer.courier.counters import Counters
from gossamer.courier.courier import DRAINING, OVERDUE, Courier, CourierConfig, EngineCallbacks, follow
from gossamer.courier.heartbeat import Heartbeat
from gossamer.courier.seen_cache import OmittedRequests, SeenCache
from gossamer.courier.stalls import is_gone
from gossamer.courier.starts import RequestAdder
from gossamer.courier.tasks import TaskIntake
from gossamer.courier.transport import AsyncTransport, SharedTransport, ThreadTransport, Timer, Transport

__all__ = [
    "DRAINING",
    "OVERDUE",
    "AsyncTransport",
    "Counters",
    "Courier",
    "CourierConfig",
    "EngineCallbacks",
    "Heartbeat",
    "OmittedRequests",
    "RequestAdder",
    "SeenCache",
    "SharedTransport",
    "TaskIntake",
    "ThreadTransport",
    "Timer",
    "Transport",
    "follow",
    "is_gone",
]
