"""Child processes that never outlive their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

STDERR = 2

# Run after exec, not as `preexec_fn`, which is unsafe in a process with threads; then it becomes the command. The signal is
# asked for first and the parent looked at second, so that no moment is left unwatched.
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
if ctypes.CDLL(None).prctl(1, signal.SIGKILL) != 0 or os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


def start(
    command: Sequence[str],
    log: Path | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own: Ctrl-C reaches only us, and what becomes of the child is for us to say. What it
    writes is appended to `log`; None: it goes to our standard error.

    On Linux the kernel kills it when the thread that called this ends, so call it from one that lives as long as the process.
    Elsewhere only an orderly end of ours ends it.
    """
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    target = STDERR if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=target,
            env=None if environ is None else dict(environ),
            start_new_session=True,
        )
    finally:
        if target != STDERR:
            os.close(target)
