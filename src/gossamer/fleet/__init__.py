"""Workers of this machine, looked after: started, watched, replaced when killed, stopped in good order."""

from gossamer.fleet.fleet import Fleet, WorkerProcess, stop_on_signals
from gossamer.fleet.progress import Progress, progress_of, read_progress, read_progress_of, with_earlier

__all__ = [
    "Fleet",
    "Progress",
    "WorkerProcess",
    "progress_of",
    "read_progress",
    "read_progress_of",
    "stop_on_signals",
    "with_earlier",
]
