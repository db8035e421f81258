"""What a worker gives its courier, and what the courier asks of the engine."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from gossamer import __version__
from gossamer.model import AddOutcome, Lease, Selection, SettleOutcome
from gossamer.settings import Settings
from gossamer.settings.fleet_place import PLACE, own_place


class EngineCallbacks(Protocol):
    """What a courier asks of its engine."""

    def room(self) -> int:
        """How many more requests the engine could send now."""

    def arrived(self) -> None:
        """Something is in the inbox, the group is drained, or this worker is to end: look."""

    def settled(self, page: Any, outcome: SettleOutcome, children: Sequence[AddOutcome]) -> None:
        """The frontier has answered a page that was given to `settle`."""

    def added(self, ticket: Any, outcome: AddOutcome, reason: str) -> None:
        """The frontier has answered a request that was given to `add`."""

    def lost(self, lease: Lease, reason: str) -> None:
        """The lease is gone while its page is in progress: its settlement will not count. `reason` OVERDUE: it was in progress for
        too long; give it up."""

    def failed(self, error: BaseException) -> None:
        """The frontier refuses this worker: stop."""

    def rolled_back(self) -> None:
        """The frontier may have an older state than the one that earlier answers came from: forget what they said. Called before
        anything of the new state is handed out."""


@dataclass(frozen=True, slots=True)
class CourierConfig:
    """What a worker serves and how it behaves. `group` is whose counters and drained count; `most` the leases held at
    once; `ahead` how many of them may lie ready beyond what the engine can send."""

    group: str
    selection: Selection
    most: int = 16
    ahead: int = 4
    lease_seconds: float = 60.0
    renew_max: float = 1800.0
    gone_seconds: float = 3.0
    session: str = ""
    close_seconds: float = 30.0
    info: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, group: str, selection: Selection, **more: Any) -> Self:
        """A config with the times of these settings."""
        return cls(
            group,
            selection,
            lease_seconds=settings["GOSSAMER_LEASE_SECONDS"],
            renew_max=settings["GOSSAMER_RENEW_MAX_SECONDS"],
            gone_seconds=settings["GOSSAMER_GONE_SECONDS"],
            close_seconds=settings["GOSSAMER_CLOSE_SECONDS"],
            **more,
        )


def worker_info(**more: str) -> dict[str, str]:
    """What every worker reports about itself, and `more`."""
    place = {PLACE: own_place()} if own_place() else {}
    return {"host": socket.gethostname(), "pid": str(os.getpid()), "version": __version__, **place, **more}
