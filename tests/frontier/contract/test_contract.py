"""The contract suite, on every place (see conftest)."""

from gossamer.testing.contract import *  # noqa: F403
