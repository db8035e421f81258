"""The worker's end of the frontier, for any engine: inbox, outbox, exchange loop, renewals, outage, release."""

from gossamer.courier.config import CourierConfig, EngineCallbacks, worker_info
from gossamer.courier.counters import Counters
from gossamer.courier.courier import DRAINING, Courier
from gossamer.courier.heartbeat import Heartbeat
from gossamer.courier.seen_cache import OmittedRequests, SeenCache
from gossamer.courier.stalls import is_gone
from gossamer.courier.starts import RequestAdder
from gossamer.courier.task.intake import TaskIntake
from gossamer.courier.transport import AsyncTransport, SharedTransport, ThreadTransport, Timer, Transport

__all__ = [
    "DRAINING",
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
    "is_gone",
    "worker_info",
]
