"""What is loaded when a crawl begins is left out of garbage collection until it ends.

Python's collector walks through all objects there are, and most of a worker's are the modules that it has loaded, which stay
anyway. What a crawl makes is collected as ever. In a process with several crawls it is the first one that counts, and the last.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 2_000
"""How many more objects there must be before the collector looks at the young ones. One exchange with the frontier can bring more than
the 700 of Python, and they go with their pages, without the collector."""

_crawls = 0
_ours = False


def begin_crawl() -> None:
    global _crawls, _ours
    _crawls += 1
    # A project that froze the heap itself may not want that undone.
    if _crawls == 1 and gc.isenabled() and not gc.get_freeze_count():
        gc.freeze()
        _ours = True


def end_crawl() -> None:
    global _crawls, _ours
    _crawls -= 1
    if not _crawls and _ours:
        gc.unfreeze()
        _ours = False


@contextmanager
def during_crawl() -> Iterator[None]:
    """The same, and the collector looks at young objects less often."""
    before = gc.get_threshold()
    begin_crawl()
    if 0 < before[0] < YOUNG:
        gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        end_crawl()
