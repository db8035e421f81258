"""Check types as `mypy` does, one run at a time.

`make test` checks them beside the tests, and a test checks those of a tutorial: the second waits, and then finds in the cache what it needs.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    os.chdir(ROOT)
    cache = ROOT / ".mypy_cache"
    cache.mkdir(exist_ok=True)
    lock = os.open(cache / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Held until the end of what this process becomes.
    os.set_inheritable(lock, True)
    os.execv(sys.executable, [sys.executable, "-m", "mypy", *sys.argv[1:]])


if __name__ == "__main__":
    main()
