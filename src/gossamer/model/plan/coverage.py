"""What the fields of layers had in a round."""

from __future__ import annotations

from typing import NamedTuple


class FieldCoverage(NamedTuple):
    """One field of a layer in one round: in how many records it was looked for, and how many have a value. With `field` "" the layer
    itself: its pages that were read, how many of them have records, and how often a wall came instead of a page (`blocked`);
    `unstreamed` pages had not changed, and their records were not wanted in the stream."""

    group: str
    round: int
    layer: str
    field: str
    asked: int = 0
    found: int = 0
    blocked: int = 0
    unstreamed: int = 0

    @property
    def share(self) -> float:
        """1 if nothing was looked for."""
        return self.found / self.asked if self.asked else 1.0
