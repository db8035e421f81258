"""The short forms of `make chaos` start their workers by fork; `make chaos` itself starts them as anybody would."""

from __future__ import annotations

import pytest
from tests.support.workers.forked import forked_workers

__all__ = ["forked_workers"]


@pytest.fixture(autouse=True)
def _forked(forked_workers: None) -> None:
    """For every test here."""
