"""What is loaded when a spider opens is left out of garbage collection until it closes.

Python's collector walks through all objects there are, and most of a worker's are the modules of Scrapy and Twisted, which stay
anyway. What a crawl makes is collected as ever. In a process with several spiders it is the first one that counts, and the last.
"""

from __future__ import annotations

import gc

_spiders = 0
_ours = False


def opened() -> None:
    global _spiders, _ours
    _spiders += 1
    # A project that froze the heap itself may not want that undone.
    if _spiders == 1 and gc.isenabled() and not gc.get_freeze_count():
        gc.freeze()
        _ours = True


def closed() -> None:
    global _spiders, _ours
    _spiders -= 1
    if not _spiders and _ours:
        gc.unfreeze()
        _ours = False
