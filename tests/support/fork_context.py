"""Processes of `multiprocessing` that start by fork from one that has imported their libraries already.

A process started by `spawn` imports them anew, which takes most of a second of CPU; one forked from the tests' own process would share its
threads and connections.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

LIBRARIES = (
    "concurrent.futures.process",
    "gossamer.frontier.valkey",
    "gossamer.settings",
    "gossamer.store.writer",
    "tests.support.auditor.audit",
    "gossamer.testing.plugin",
    "pytest",
)


def fork_context() -> ForkServerContext:
    """The context whose processes are forked. The process that forks starts with the first of them and ends with the tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    return context
