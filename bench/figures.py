"""How figures are taken from many short runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles


def decile(values: Sequence[float]) -> float:
    """The first one: what it costs when nothing else happens. It is never beyond the values themselves, as a guess from a few of
    them would be."""
    return quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]
