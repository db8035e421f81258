"""How fast a crawl goes, from its counts now and a moment ago. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from gossamer.model.counter_names import ERRORS, RESPONSE_BYTES, RESPONSES
from gossamer.status.overview import Overview

WINDOW_SECONDS = 10.0


class Rates:
    """Takes one view after the other; returns what changed per second over the last ten seconds."""

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._seen: deque[tuple[float, Mapping[tuple[str, str], float]]] = deque()

    def take(self, view: Overview) -> None:
        self._seen.append((view.now, totals(view)))
        while len(self._seen) > 2 and view.now - self._seen[0][0] > self._window:
            self._seen.popleft()

    def of(self, what: str, names: Iterable[str]) -> float:
        """Per second, summed over lanes or groups. 0 before the second view; what was reset counts as standing still."""
        if len(self._seen) < 2:
            return 0.0
        (then, old), (now, new) = self._seen[0], self._seen[-1]
        if now <= then:
            return 0.0
        changes = (new.get((what, name), 0.0) - old.get((what, name), 0.0) for name in names)
        return sum(max(0.0, change) for change in changes) / (now - then)


def totals(view: Overview) -> dict[tuple[str, str], float]:
    """What only grows: `pages` by lane; `items`, `bytes` and `errors` (responses of 400 and above, and downloads without
    one) by group."""
    found: dict[tuple[str, str], float] = {}
    for lane in view.lanes:
        found["pages", lane.lane] = lane.done
    for group in view.groups:
        found["items", group.group] = group.items
        found["bytes", group.group] = group.counters.get(RESPONSE_BYTES, 0.0)
        found["errors", group.group] = sum(value for name, value in group.counters.items() if _is_error(name))
    return found


def _is_error(counter: str) -> bool:
    if counter.startswith(RESPONSES):
        return counter[len(RESPONSES) :] >= "400"
    return counter.startswith(ERRORS)
